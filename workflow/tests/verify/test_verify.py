"""`acapella verify`: agreement on correct digests, names of differences, and failure if the core is wrong."""

import hashlib
import re
import shutil
import struct
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml
from acapella_testing.altered_digests import replaced, tamper
from acapella_testing.frames import pcap_files
from acapella_testing.frames.pcapng_files import SECTION, block, interface, packet_block, write_pcapng, write_untimed
from acapella_testing.frames.traces import START_NS, busy_frames, busy_port, write_pcap
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.soak import SOAK
from acapella_testing.tshark_lines import tshark_lines

from acapella.cli.main import main
from acapella.common import tshark
from acapella.verify import tables
from acapella.verify.command import Result, compare
from acapella_core import schemas
from acapella_core.names import pluralize

pytestmark = pytest.mark.usefixtures("program")
ETHERNET = "00562b000001" * 2
ERRATA = yaml.safe_load((schemas.root() / "tshark_errata.yaml").read_text())


@pytest.fixture(scope="module", autouse=True)
def remembered(tmp_path_factory):
    """Digest equal captures only once with each engine, and only once with tshark as the reference."""
    ours, theirs, known = tables.write_our_digest, tables.write_tshark_digest, {}

    def once(directory: Path, file: Path, make, *engine: str) -> tables.DigestFiles:
        key = (*engine, hashlib.sha256(file.read_bytes()).hexdigest())
        if key not in known:
            known[key] = make(file, *engine, tmp_path_factory.mktemp("digest"))
        copies = {name: Path(shutil.copy(getattr(known[key], name), directory)) for name in ("frames", "flows", "tags")}
        return replace(known[key], **copies)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            tables, "write_our_digest", lambda file, engine, directory, limits=None: once(directory, file, ours, engine)
        )
        patch.setattr(tables, "write_tshark_digest", lambda file, directory, *_: once(directory, file, theirs))
        yield


@pytest.fixture
def verify(capsys):
    """Return a function that runs `acapella verify` and returns the exit code and what it prints."""

    def run(*words) -> tuple[int, str]:
        return main(["verify", *map(str, words)]), capsys.readouterr().out

    return run


@pytest.mark.parametrize("engine", ["hybrid", "native", "tshark"])
def test_correct_digest_agrees(engine, capture, verify):
    code, out = verify(capture, "--engine", engine)
    assert code == 0
    assert f"1 file, {len(busy_port())} frames" in out
    assert "frames with a disagreement on a layer that the core decoded: 0" in out
    assert ("not compared, above" in out) == (engine == "native"), "hybrid leaves nothing undecided"


@pytest.mark.parametrize("engine", ["hybrid", "native", "tshark"])
def test_capture_without_frames_has_no_share_of_agreement(engine, tmp_path, verify):
    code, out = verify(write_pcap(tmp_path / "none.pcap", []), "--engine", engine)
    assert code == 0
    assert "1 file, 0 frames" in out
    assert "%" not in out
    assert "frames with a disagreement on a layer that the core decoded: 0" in out


TAGGED = {  # types of tags, outermost first, and their headers in tshark: two consecutive tags 0x88a8 are one
    "88a8 88a8": ["ieee8021ad"],
    "88a8 88a8 88a8": ["ieee8021ad", "ieee8021ad"],
    "88a8 88a8 8100 88a8": ["ieee8021ad", "vlan", "ieee8021ad"],
    "88a8 8100 88a8 88a8": ["ieee8021ad", "vlan", "ieee8021ad"],
    "9100 88a8": ["vlan", "ieee8021ad"],
}


def frames_and_flow_values(capture: Path, engine: str, directory: Path, column: str) -> tuple[pa.Table, list]:
    """Return the frames of our digest, and the value that a column of the flows has for each frame."""
    created = tables.write_our_digest(capture, engine, directory)
    frames, flows = pq.read_table(created.frames), pq.read_table(created.flows)
    values = dict(zip(flows["flow"].to_pylist(), flows[column].to_pylist(), strict=True))
    return frames, [values[flow] for flow in frames["flow"].to_pylist()]


@pytest.mark.parametrize("engine", ["hybrid", "native", "tshark"])
def test_service_tags_have_the_headers_of_tshark_and_every_id(engine, tmp_path, capsys):
    tcp = "1389 0050 00000001 00000000 5002 1000 0000 0000"
    packet = f"0800 4500002800010000400666cd 0a000001 0a000002 {tcp}"
    tags = [" ".join(f"{kind} {100 + at:04x}" for at, kind in enumerate(types.split())) for types in TAGGED]
    frames = [(START_NS, bytes.fromhex(f"{ETHERNET} {each} {packet}")) for each in tags]
    capture = write_pcap(tmp_path / "tags.pcap", frames)
    assert main(["verify", str(capture), "--engine", engine]) == 0
    assert "frames with a disagreement on a layer that the core decoded: 0" in capsys.readouterr().out
    frames, ids = frames_and_flow_values(capture, engine, tmp_path, "vlan")
    assert frames["protocols"].to_pylist() == [
        f"eth:ethertype:{':ethertype:'.join(tags)}:ethertype:ip:tcp" for tags in TAGGED.values()
    ]
    assert frames["stack"].to_pylist() == [f"Ethernet/{'VLAN/' * len(tags)}IPv4/TCP" for tags in TAGGED.values()]
    assert ids == [list(range(100, 100 + len(types.split()))) for types in TAGGED]


@pytest.mark.parametrize("engine", ["hybrid", "tshark"])
def test_labels_dissected_by_tshark_keep_their_order(engine, tmp_path, capsys):
    """IPv6 of payload length 0, which the core leaves to tshark, after labels, some reserved (0 to 15, RFC 3032)."""
    packet = f"60000000 0000 1140 {'00' * 15}01 {'00' * 15}02 9c409c4100080000"
    stacks = [[17, 0, 16], [0, 17, 16], [7, 99, 15, 16]]
    entries = [[f"{n << 12 | (n == labels[-1]) << 8 | 64:08x}" for n in labels] for labels in stacks]
    frames = [bytes.fromhex(f"{ETHERNET} 8847 {' '.join(words)} {packet}") for words in entries]
    capture = write_pcap(tmp_path / "labels.pcap", [(START_NS, frame) for frame in frames])
    assert main(["verify", str(capture), "--engine", engine]) == 0
    assert re.search(r"^mpls +3 +0 +0 ", capsys.readouterr().out, re.M)
    frames, labels = frames_and_flow_values(capture, engine, tmp_path, "mpls")
    assert set(frames["l4_by"].to_pylist()) == {"tshark"}
    assert labels == stacks


@pytest.mark.parametrize(
    ("layer", "change"),
    [
        ("time", ("ts_ns", lambda ns: ns + 1)),
        ("lengths", ("wire_len", lambda length: length + 1)),
        ("lengths", ("cap_len", lambda length: length - 1)),
        ("tcp", ("tcp_seq", lambda seq: seq ^ 1)),
        ("network", ("protocols", lambda text: text.replace(":ip:", ":ipv6:"))),
        ("link", ("protocols", lambda text: text.replace(":vlan:", ":"))),
        ("transport", ("protocols", lambda text: text.replace(":tcp", ":udp"))),
        ("vlan", ("flow", lambda flow: flow + 1)),
    ],
)
def test_wrong_frame_is_reported(layer, change, capture, monkeypatch, verify):
    tamper(monkeypatch, replaced(*change))
    code, out = verify(capture)
    assert code == 1
    assert f"{capture}: frame 1, {layer}: ours" in out
    assert "frames with a disagreement on a layer that the core decoded: 1\n" in out


@pytest.mark.parametrize(
    ("layer", "change"),
    [
        ("addresses", ("src", lambda _: "192.0.2.99")),
        ("ports", ("dst_port", lambda port: port + 1)),
        ("vlan", ("vlan", lambda ids: [*ids, 7])),
        ("mpls", ("mpls", lambda labels: labels[::-1])),
    ],
)
def test_wrong_flow_is_reported_at_its_first_frame(layer, change, capture, monkeypatch, capsys):
    tamper(monkeypatch, replaced(*change), flows=True)
    assert main(["verify", str(capture), "--first", "1"]) == 1
    assert f"{capture}: frame 1, {layer}: ours" in capsys.readouterr().out


def test_missing_frame_is_reported(capture, monkeypatch, capsys):
    tamper(monkeypatch, lambda table: table.filter(pc.not_equal(table["frame"], 3)))
    assert main(["verify", str(capture)]) == 1
    assert "frame 3, frames: ours None, tshark 'there'" in capsys.readouterr().out


def test_difference_above_layer_4_is_counted_but_not_as_unexplained(capture, monkeypatch, verify):
    named = next(row for row, text in enumerate(tshark_lines(tshark.find(), capture)) if text.endswith(":data"))
    tamper(monkeypatch, replaced("protocols", lambda text: text.replace(":data", ":ssh"), named))
    code, out = verify(capture)
    assert code == 1
    assert out.endswith("frames with a disagreement on a layer that the core decoded: 0\n")
    assert f"frame {named + 1}, protocols: ours" in out
    counts = next(line for line in out.splitlines() if line.startswith("above layer 4")).split()
    assert counts[3:6] == [str(len(busy_port()) - 1), "0", "1"]  # agree, errata, differ


def reported_disagreements(result: Result) -> list[tuple[int, str]]:
    """Return frames and layers of all reported disagreements."""
    lines = [line for found in result.disagreements.values() for line in found.first]
    return [(int(at), layer) for at, layer in re.findall(r": frame (\d+), ([^:]+): ours", "\n".join(lines))]


@pytest.mark.parametrize("first", [0, 2])
def test_first_limits_the_number_of_printed_frames(first, capture, monkeypatch, capsys):
    tamper(monkeypatch, lambda table: table.set_column(1, "ts_ns", pc.add(table["ts_ns"], 1)))
    assert main(["verify", str(capture), "--first", str(first)]) == 1
    assert capsys.readouterr().out.count(", time: ours") == first


@pytest.mark.soak
@pytest.mark.parametrize("erratum", ERRATA)
def test_erratum_is_counted_separately(erratum, tmp_path, verify):
    assert erratum["clause"].startswith("draft-ietf-opsawg-pcap " if erratum["excuses"] == "time" else "RFC ")
    frame = bytes.fromhex(erratum.get("frame", ""))
    content = bytes.fromhex(erratum.get("capture", "")) or pcap_files.pcap([(START_NS, frame)])
    capture = write_file(tmp_path / "erratum.pcap", content)
    frames = len(tshark_lines(tshark.find(), capture))
    code, out = verify(capture)
    assert code == 0
    named = [f"{capture}:{frame}" for frame in range(1, frames + 1)]
    assert f"known tshark error {erratum['name']}: {pluralize(frames, 'frame')} ({', '.join(named)})" in out


@pytest.mark.parametrize(
    ("layer", "change"),
    [
        ("time", ("ts_ns", lambda ns: ns + 1)),
        ("time", ("ts_ns", lambda ns: ns - 1_000_000_000)),
        ("lengths", ("cap_len", lambda length: length - 1)),
        ("network", ("protocols", lambda text: text.replace(":ip:", ":ipv6:"))),
    ],
)
@pytest.mark.parametrize("row", [0, 1], ids=["negative in tshark", "positive in tshark"])
def test_erratum_of_time_excuses_nothing_else(row, layer, change, tmp_path, monkeypatch):
    content = next(entry["capture"] for entry in ERRATA if entry["excuses"] == "time")
    tamper(monkeypatch, replaced(*change, row))
    result = compare(write_file(tmp_path / "erratum.pcap", bytes.fromhex(content)), "hybrid")
    assert (row + 1, layer) in reported_disagreements(result)
    assert result.faults == 1


@pytest.mark.parametrize(
    ("layer", "change"),
    [
        ("time", ("ts_ns", lambda ns: ns + 1)),
        ("lengths", ("cap_len", lambda length: length - 1)),
        ("link", ("protocols", lambda text: text.replace(":vlan:", ":"))),
    ],
)
def test_erratum_excuses_only_headers_after_the_mpls_stack(layer, change, tmp_path, monkeypatch, capsys):
    capture = write_pcap(tmp_path / "erratum.pcap", [(START_NS, bytes.fromhex(ERRATA[0]["frame"]))])
    tamper(monkeypatch, replaced(*change))
    assert main(["verify", str(capture)]) == 1
    assert f"frame 1, {layer}: ours" in capsys.readouterr().out


def test_erratum_excuses_a_tag_after_the_pseudowire(tmp_path, capsys):
    frame = bytes.fromhex(ERRATA[0]["frame"])
    at = frame.index(bytes.fromhex("02000000000208004500")) + 6
    capture = write_pcap(tmp_path / "t.pcap", [(START_NS, frame[:at] + bytes.fromhex("81000017") + frame[at:])])
    assert main(["verify", str(capture)]) == 0
    assert f"known tshark error {ERRATA[0]['name']}: 1 frame (" in capsys.readouterr().out


@pytest.mark.soak
@pytest.mark.parametrize(
    ("layer", "at", "changed"), [("vlan", 14, "0070"), ("mpls", 18, "00015140")], ids=["VLAN id", "MPLS label"]
)
@pytest.mark.parametrize("ethertype", ["0800", "88cc"], ids=["an erratum", "without IP"])
def test_outer_tags_are_compared_with_any_header_after_the_stack(layer, at, changed, ethertype, tmp_path, monkeypatch):  # noqa: PLR0913, PLR0917
    """The core gets a different VLAN id or label than tshark."""
    frame = bytes.fromhex(ERRATA[0]["frame"].replace("0208004500", f"02{ethertype}4500"))
    other = frame[:at] + bytes.fromhex(changed) + frame[at + len(changed) // 2 :]
    capture, altered = (write_pcap(tmp_path / f"{n}.pcap", [(START_NS, each)]) for n, each in enumerate((frame, other)))
    assert main(["verify", str(capture)]) == 0
    sound = partial(tables.write_our_digest, altered)
    monkeypatch.setattr(tables, "write_our_digest", lambda _, *more, limits=None: sound(*more))
    result = compare(capture, "native")
    assert reported_disagreements(result) == [(1, layer)]
    assert result.faults == 1


IPV6 = "86dd 60000000 0008 {} 40" + "20010db8000000000000000000000001" + "20010db8000000000000000000000002"
IPV4 = "0800 {} 0001 0000 40 {} 0000 0a000001 0a000002"


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["hybrid", "native"])
@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(
            IPV4.format("4500 003c", "01") + "03000000 00000000 60000000 e75c 70 40" + "00" * 24,
            id="IPv4 header of version 6 quoted by ICMP, truncated inside VRRP",
        ),
        pytest.param(IPV6.format("3c") + "3b04000000000000", id="truncated destination options, followed by no header"),
        pytest.param(IPV6.format("33") + "3b04000000000000", id="truncated AH, followed by no header"),
        pytest.param(IPV6.format("2b") + "3b", id="a routing header truncated to one byte"),
        pytest.param(IPV6.format("2c") + "3b000000", id="a truncated fragment header"),
        pytest.param(IPV6.format("3c") + "1100000000000000", id="an extension header followed by nothing"),
        pytest.param(
            "8847 00011140 4f00 003c 0001 0000 40 11 0000 0a000001 0a000002 66",
            id="truncated IPv4 options after MPLS",
        ),
        pytest.param(
            IPV4.format("4700 0024", "11") + "8307040a00000900" + "9c409c4100080000",
            id="a source route",
        ),
    ],
)
def test_malformed_frame_is_dissected_like_tshark_or_left_to_it(engine, odd, tmp_path):
    result = compare(write_pcap(tmp_path / "odd.pcap", [(START_NS, bytes.fromhex(ETHERNET + odd))]), engine)
    assert result.frames == 1
    assert result.faults == 0, reported_disagreements(result)


def test_frames_undecided_by_native_are_reported(capture, verify):
    code, out = verify(capture, "--engine", "native")
    assert code == 0
    compared = next(line for line in out.splitlines() if line.startswith("above layer 4")).split()
    count, listed = not_compared(out, "above layer 4")
    assert count > 0
    assert sum(map(int, compared[3:6])) + count == len(busy_port())
    named = [int(place.removeprefix(f"{capture}:")) for place in listed[:10]]
    assert named == sorted(named)
    assert len(named) == min(count, 10)
    assert (listed[10:] == ["..."]) == (count > 10)


def not_compared(out: str, layer: str) -> tuple[int, list[str]]:
    """Return the number of frames not compared on a layer, and the reported frames."""
    found = re.search(rf"^not compared, {layer} \([^)]*\): ([0-9,]+) frames?(?: \((.*)\))?$", out, re.M)
    assert found, out
    return int(found[1].replace(",", "")), found[2].split(", ") if found[2] else []


@pytest.mark.soak
@pytest.mark.parametrize("first", [0, 1, 10])
def test_frames_with_tags_that_are_not_compared_are_reported(first, tmp_path, verify):
    cut = bytes.fromhex(f"{ETHERNET} 8100 00")  # inside the VLAN tag
    frames = [(START_NS, frame) for frame in (cut, *busy_frames(), cut)]
    first_capture, other = write_pcap(tmp_path / "one.pcap", frames), write_pcap(tmp_path / "other.pcap", frames[:1])
    code, out = verify(first_capture, other, "--first", first)
    assert code == 0
    assert out.count("not compared, ") == 1
    named = [f"{first_capture}:1", f"{first_capture}:{len(frames)}", f"{other}:1"][:first]
    assert not_compared(out, "vlan, mpls, tunnels") == (3, [*named, "..."] if 0 < first < 3 else named)


@pytest.mark.soak
def test_frames_without_a_time_do_not_count_as_agreement(tmp_path, verify):
    first, second, timed, *_ = busy_frames()
    untimed = write_untimed(tmp_path / "untimed.pcapng", [first, second])
    mixed = write_file(tmp_path / "mixed.pcapng", untimed.read_bytes() + packet_block(0, 1000, timed))
    code, out = verify(untimed, mixed)
    assert code == 0
    assert "2 files, 5 frames" in out
    assert {
        line.split()[0]: line.split()[1:4] for line in out.splitlines() if line.startswith(("time", "lengths"))
    } == {"time": ["1", "0", "0"], "lengths": ["5", "0", "0"]}
    assert not_compared(out, "time") == (4, [f"{untimed}:1", f"{untimed}:2", f"{mixed}:1", f"{mixed}:2"])


@pytest.mark.parametrize("time_ns", [0, START_NS])
def test_time_on_one_side_only_is_a_disagreement(time_ns, tmp_path, monkeypatch, verify):
    untimed = write_untimed(tmp_path / "untimed.pcapng", busy_frames()[:2])
    tamper(monkeypatch, replaced("ts_ns", lambda _: time_ns, row=1))
    code, out = verify(untimed)
    assert code == 1
    assert f"{untimed}: frame 2, time: ours '{time_ns}', tshark None" in out
    assert not_compared(out, "time") == (1, [f"{untimed}:1"])


def test_protocol_after_an_authentication_header_agrees(tmp_path):
    """IPv6, AH, OSPF: RFC 4302 section 2.1."""
    packet = f"{ETHERNET} 86dd 6000000000283301 {'00' * 32} 5904000000000100000001 {'00' * 29}"
    result = compare(write_pcap(tmp_path / "ah.pcap", [(START_NS, bytes.fromhex(packet))]), "native")
    assert not result.disagreements
    assert result.native == 1


def test_blocks_that_are_not_frames_are_reported_and_do_not_shift_frame_numbers(tmp_path, verify):
    custom, journal = block(0xBAD, (32473).to_bytes(4, "little") + b"abcd"), block(9, b"__REALTIME_TIMESTAMP=1\n\n")
    frames = [(1, frame) for frame in busy_frames()]
    code, out = verify(write_pcapng(tmp_path / "blocks.pcapng", frames, custom + journal))
    assert code == 0
    assert "2 blocks that are not frames; tshark numbers them" in out
    assert f"1 file, {len(frames)} frames" in out


def test_corpus_agrees_on_layers_2_to_4(corpus, tmp_path, verify):
    """Compares a few captures; test_dissect_matches_tshark compares all of them, merged."""
    for part in ("ndpi", "tcpdump"):
        for file in sorted((corpus / part).glob("*.pcap*"))[:: 40 if SOAK else 240]:
            (tmp_path / f"{part}_{file.name}").symlink_to(file)  # in a directory, files that tshark rejects are skipped
    code, out = verify(tmp_path)
    assert "frames with a disagreement on a layer that the core decoded: 0" in out
    kinds = set(re.findall(r"^disagreement, ([^,:]+)", out, re.M))
    assert kinds <= {"protocols", "above layer 4"}
    assert code == (1 if kinds else 0)


PCAP_WITH_FCS = pcap_files.header(link_type=1 | 0x04000000 | 2 << 28), pcap_files.record
PCAPNG_WITH_FCS = SECTION + interface(options=struct.pack("<HHB3x", 13, 1, 4)), partial(packet_block, 0)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("head", "make", "kept"),
    [(*PCAP_WITH_FCS, None), (*PCAP_WITH_FCS, 62), (*PCAPNG_WITH_FCS, None), (*PCAPNG_WITH_FCS, 60)],
    ids=["pcap", "pcap, truncated", "pcapng", "pcapng, truncated"],
)
@pytest.mark.parametrize("engine", ["native", "tshark"])
def test_lengths_exclude_a_declared_fcs(tmp_path, capture, head, make, kept, engine):  # noqa: PLR0913, PLR0917
    """The file declares an FCS at the end of each frame. ``kept``: captured bytes of a frame (None: all)."""
    frames = [frame + b"\xde\xad\xbe\xef" for frame in busy_frames()]
    records = [make(at, frame[:kept], len(frame)) for at, frame in enumerate(frames)]
    file = write_file(tmp_path / "fcs.pcap", head + b"".join(records))
    expected, frames = (
        pq.read_table(tables.write_our_digest(each, "native", new_directory(tmp_path / place)).frames)
        for place, each in (("plain", capture), ("found", file))
    )
    assert frames["wire_len"] == expected["wire_len"]
    assert frames["cap_len"].to_pylist() == [min(kept or length, length) for length in expected["wire_len"].to_pylist()]
    result = compare(file, engine)
    assert (result.frames, result.faults) == (len(frames), 0)


@pytest.mark.soak
def test_frames_of_each_kind_are_listed_with_layers_2_to_4_first(tmp_path, monkeypatch, verify):
    """500 altered times, followed by two kinds of altered network headers; each kind is reported."""
    frames = [(START_NS + at, frame) for at, (_, frame) in enumerate(busy_port() * 40)][:600]
    captures = [write_pcap(tmp_path / f"{name}.pcap", frames) for name in "ab"]

    def change(table: pa.Table) -> pa.Table:
        times = [ns + (row < 500) for row, ns in enumerate(table["ts_ns"].to_pylist())]
        texts = table["protocols"].to_pylist()
        for row in range(550, 600):
            texts[row] = texts[row].replace(":ip:", ":ipv6:" if row % 2 else ":arp:")
        for name, column in (("protocols", pa.array(texts)), ("ts_ns", pa.array(times, pa.int64()))):
            table = table.set_column(table.schema.get_field_index(name), name, column)
        return table

    tamper(monkeypatch, change)
    protocols = tshark_lines(tshark.find(), captures[0])
    altered = [row for row in range(550, 600) if ":ip:" in protocols[row]]
    code, out = verify(*captures, "--first", 3)
    assert code == 1
    values = r"(?:, ours '([^']*)', tshark '([^']*)')?"
    kinds = re.findall(rf"^disagreement, ([^,:]*){values}.*: ([0-9,]+) frames$", out, re.M)
    assert {kind[0] for kind in kinds[:-1]} == {"network"}
    assert kinds[-1] == ("time", "", "", "1,000")
    network = {(ours, theirs): int(frames) for layer, ours, theirs, frames in kinds if layer == "network"}
    for odd, token in enumerate(("arp", "ipv6")):
        rows = [row for row in altered if row % 2 == odd]
        assert sum(frames for (ours, _), frames in network.items() if ours.split(":")[0] == token) == 2 * len(rows) > 0
        assert f"{captures[0]}: frame {rows[0] + 1}, network: ours '{token}" in out
    assert out.count(", time: ours") == 3
