"""Real captures compared with themselves: packets are matched after a change of TTL or underlay."""

import itertools
import random
from pathlib import Path

import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_captures import START_NS, codes, pair
from acapella_testing.requirements import require
from acapella_testing.source_tree import script

FRAMES = 300  # of each capture, which include every kind of its traffic


@pytest.fixture(scope="module")
def underlay(corpus):
    """Return the tool that wraps frames as FABRIC's underlay does."""
    tool = corpus.parent / "tools" / "underlay.py"
    require(tool.is_file(), f"no underlay tool: {tool} is not there")
    return script(tool)


@pytest.fixture(
    params=[
        *("443-firefox", "6in4tunnel", "WebattackRCE", "amqp", "avast", "bitcoin", "1kxun", "anyconnect-vpn"),
        *("dns_fragmented", "capwap", "dos_win98_smb_netbeui"),  # the last one is 802.3, and capwap contains CDP
    ]
)
def frames(request, corpus, underlay) -> list[bytes]:
    """Return the first complete frames of a capture."""
    path = corpus / "ndpi" / f"{request.param}.pcap"
    require(path.is_file(), f"no such capture: {path}")
    found = [frame for wire, frame in itertools.islice(underlay.read_pcap(path), FRAMES) if wire == len(frame)]
    assert len(found) > 50
    return found


def hop(frame: bytes) -> bytes:
    """Return the frame after a router: TTL decremented, header checksum recomputed, other MAC addresses."""
    data = bytearray(frame)
    data[:12] = bytes.fromhex("020000000001 020000000002")
    if data[12:14] == b"\x08\x00":
        data[22] = (data[22] - 1) % 256
        data[24:26] = b"\x00\x00"
        words = sum(int.from_bytes(data[at : at + 2], "big") for at in range(14, 14 + (data[14] & 15) * 4, 2))
        data[24:26] = (~(words % 0xFFFF) & 0xFFFF).to_bytes(2, "big")
    elif data[12:14] == b"\x86\xdd":
        data[21] = (data[21] - 1) % 256
    return bytes(data)


def trial(path: Path, frames: list[bytes], offsets: list[int]) -> Path:
    return write_pcap(path, [(START_NS + ns, frame) for ns, frame in zip(offsets, frames, strict=True)])


def times(count: int) -> list[int]:
    draw = random.Random(count)
    return list(itertools.accumulate(draw.randrange(1, 5_000) for _ in range(count)))


def serious(entry: dict) -> list[str]:
    """Return the warnings except the one that real traffic with equal packets always has."""
    return [code for code in codes(entry) if code != "ambiguous_occurrences"]


@pytest.mark.parametrize("kind", ["router", "vlan", "mpls", "pw", "pw2"])
def test_router_or_underlay_of_one_trial_does_not_change_kappa(tmp_path, capsys, frames, underlay, kind):
    offsets = times(len(frames))
    changed = [hop(f) if kind == "router" else underlay.encapsulate(kind, 321, (17, 600_001), f) for f in frames]
    a, b = (trial(tmp_path / f"{name}.pcap", part, offsets) for name, part in (("a", frames), ("b", changed)))
    found = pair(capsys, a, b)
    assert (found["kappa"], found["n_common"], serious(found)) == (1, len(frames), [])


def test_known_loss_and_delay_give_the_expected_components(tmp_path, capsys, frames, underlay):
    """Every tenth packet is lost; the others pass a router, and all but the first are 1 µs late."""
    offsets = times(len(frames))
    left = [n for n in range(len(frames)) if n % 10 != 9]
    encapsulated = [underlay.encapsulate("pw2", 5, (16, 17), hop(frames[n])) for n in left]
    late = [offsets[n] + (1_000 if n else 0) for n in left]
    require(len(set(frames)) >= len(frames), "equal packets in this capture: it is unknown which of them was lost")
    found = pair(capsys, trial(tmp_path / "a.pcap", frames, offsets), trial(tmp_path / "b.pcap", encapsulated, late))
    assert found["U"] == (len(frames) - len(left)) / (len(frames) + len(left))
    assert found["O"] == 0
    assert found["offset_ns"] == 1_000
    assert found["latency_delta_ns"]["largest"] == 1_000
