"""Tags of acapella-dpdk-replay: CHOIR's trailer, and lengths and checksums that are corrected for it."""

import itertools
import struct

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer
from acapella_testing.frames.trial_captures import pair
from acapella_testing.frames.tunnel_frames import checksum

MACS = bytes.fromhex("020000000002020000000001")
START_NS = 1_700_000_000_123_456_789
A4, B4 = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))
A6, B6 = bytes.fromhex("fd" + "00" * 14 + "01"), bytes.fromhex("fd" + "00" * 14 + "02")


# by protocol: layout and fields of a header without length and checksum, and the place of the checksum
HEADS = {
    17: ("!HHHH", (5000, 5001, 0, 0), 6),
    6: ("!HHIIHHHH", (5000, 443, 1, 2, 0x5018, 8192, 0, 0), 16),
    1: ("!BBHHH", (8, 0, 0, 1, 1), 2),
    58: ("!BBHHH", (128, 0, 0, 1, 1), 2),
}
pytestmark = pytest.mark.usefixtures("replay_program")


def layer4(protocol: int, payload: bytes, pseudo: bytes, summed: bool = True) -> bytes:
    """Return UDP, TCP, ICMP or ICMPv6 with its checksum; other protocols have only a payload."""
    if protocol not in HEADS:
        return payload
    layout, fields, at = HEADS[protocol]
    data = struct.pack(layout, *fields) + payload
    if protocol == 17:
        data = data[:4] + struct.pack("!H", len(data)) + data[6:]
    if not summed:
        return data
    prefix = b"" if protocol == 1 else pseudo + struct.pack("!IBBBB", len(data), 0, 0, 0, protocol)
    value = checksum(prefix + data)
    value = 0xFFFF if protocol == 17 and value == 0 else value
    return data[:at] + struct.pack("!H", value) + data[at + 2 :]


def ipv4(protocol: int, payload: bytes, fragment: int = 0, summed: bool = True) -> bytes:
    data = layer4(protocol, payload, A4 + B4, summed)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 7, fragment, 64, protocol, 0) + A4 + B4
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + data


def ipv6(protocol: int, payload: bytes) -> bytes:
    data = layer4(protocol, payload, A6 + B6)
    return struct.pack("!IHBB", 6 << 28, len(data), protocol, 64) + A6 + B6 + data


def ether(kind: int, data: bytes, tags: bytes = b"") -> bytes:
    return MACS + tags + struct.pack("!H", kind) + data


VLAN, QINQ = bytes.fromhex("81000007"), bytes.fromhex("88a80005 81000007")
# frame as a function of the payload, so that a tagged frame is the one with a longer payload
MAKERS = {
    "udp": lambda data: ether(0x0800, ipv4(17, data)),
    "udp, no checksum": lambda data: ether(0x0800, ipv4(17, data, summed=False)),
    "tcp": lambda data: ether(0x0800, ipv4(6, data)),
    "icmp": lambda data: ether(0x0800, ipv4(1, data)),
    "sctp": lambda data: ether(0x0800, ipv4(132, data)),
    "vlan": lambda data: ether(0x0800, ipv4(17, data), VLAN),
    "qinq": lambda data: ether(0x86DD, ipv6(6, data), QINQ),
    "udp 6": lambda data: ether(0x86DD, ipv6(17, data)),
    "icmp 6": lambda data: ether(0x86DD, ipv6(58, data)),
    "802.3": lambda data: ether(3 + len(data), b"\xf0\xf0\x03" + data),
    "other": lambda data: ether(0x88B5, data),
}


def trailer(ns: int, node: int, port: int) -> bytes:
    stamp = ns.to_bytes(8, "big")
    return stamp + struct.pack("!HH", node, port) + stamp[1::-1] + b"\x65\x87"


def spaced(frames: list[bytes], gap_ns: int) -> list[dpdk.Frame]:
    """Return frames with these gaps."""
    return [dpdk.Frame(START_NS + i * gap_ns, len(data), data) for i, data in enumerate(frames)]


def replayed(tmp_path, frames: list[bytes], *words: object, gap_ns: int = 1000) -> list[bytes]:
    """Return the packets sent from `frames`, which are `gap_ns` apart."""
    path = replayer.write_capture(tmp_path / "in.pcap", spaced(frames, gap_ns))
    out = tmp_path / "out.pcap"
    with replayer.loaded(path, "--vdev", f"net_pcap0,tx_pcap={out}", "--tx", "net_pcap0", *words) as program:
        assert program.run()["sent"] == len(frames)
        program.ask(f"save {tmp_path / 'saved.pcapng'}", "saved")
        assert program.end() == 0, program.messages
    saved = dpdk.read_pcapng(tmp_path / "saved.pcapng").frames
    assert [frame.data for frame in saved] == frames  # the recording itself is not tagged
    return replayer.sent_to_file(out)


PAYLOADS = [bytes(range(64)), bytes(range(63)), b"x" * 300, b"z"]
FRAMES = [make(payload) for make in MAKERS.values() for payload in PAYLOADS]


def test_frame_is_followed_by_its_trailer_and_otherwise_unchanged(tmp_path):
    sent = replayed(tmp_path, FRAMES, "--tag", "choir", "--node", 7)
    assert sent == [data + trailer(START_NS + i * 1000, 7, 0) for i, data in enumerate(FRAMES)]


def test_lengths_and_checksums_include_the_trailer_as_payload(tmp_path):
    sent = replayed(tmp_path, FRAMES, "--tag", "fixed", "--node", 300)
    for i, ((name, payload), data) in enumerate(zip(itertools.product(MAKERS, PAYLOADS), sent, strict=True)):
        assert data == MAKERS[name](payload + trailer(START_NS + i * 1000, 300, 0)), (name, i)


def test_fragments_keep_their_layer_4_header(tmp_path):
    frames = [ether(0x0800, ipv4(17, b"x" * 64, fragment=fragment)) for fragment in (0x2000, 0x2008, 0x0008)]
    for i, (before, after) in enumerate(zip(frames, replayed(tmp_path, frames, "--tag", "fixed"), strict=True)):
        assert after[34:] == before[34:] + trailer(START_NS + i * 1000, 0, 0)
        assert struct.unpack_from("!H", after, 16)[0] == len(after) - 14
        assert checksum(after[14:34]) == 0


def test_truncated_headers_are_tagged_without_being_read_beyond_their_end(tmp_path):
    frames = [MAKERS[name](b"")[:cut] for cut in range(15, 60, 3) for name in ("udp", "qinq", "tcp")]
    sent = replayed(tmp_path, frames, "--tag", "fixed")
    assert [data[-16:] for data in sent] == [trailer(START_NS + i * 1000, 0, 0) for i in range(len(frames))]
    assert [len(data) - 16 for data in sent] == [len(data) for data in frames]


def test_packets_of_a_burst_have_distinct_trailers(tmp_path):
    sent = replayed(tmp_path, [MAKERS["udp"](b"same")] * 50, "--tag", "choir", gap_ns=0)
    assert [data[-16:] for data in sent] == [trailer(START_NS + i, 0, 0) for i in range(50)]


def test_kappa_matches_tagged_packets(tmp_path, capsys):
    sent = replayed(tmp_path, [MAKERS["udp"](b"same")] * 50, "--tag", "fixed")
    trials = [replayer.write_capture(tmp_path / f"{step}.pcap", spaced(sent, step)) for step in (1000, 2000)]
    assert pair(capsys, "--identity", "tag", *trials)["n_common"] == 50
