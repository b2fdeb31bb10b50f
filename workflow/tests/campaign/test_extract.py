"""Tests `acapella extract`: frames equal those of editcap; changed captures are reported."""

import gzip
import random
import struct
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing import processes
from acapella_testing.frames import pcap_files
from acapella_testing.frames import pcapng_files as pcapng
from acapella_testing.generated.files_campaign import run
from acapella_testing.new_files import write_file
from acapella_testing.oracles.naive_captures import blocks, packets
from acapella_testing.tshark_lines import tshark_lines

from acapella.cli.main import main
from acapella.common import tshark
from acapella.digest.acap_files import positions_of

START_S = 1_700_000_000
FIELDS = ("frame.time_epoch", "frame.len", "frame.cap_len", "frame.interface_id", "frame.encap_type", "frame.comment")
SELECTED = "1-3,17,1999,2000-2003,2600"
FRAMES = 2600
SUFFIXES = {"gzip": "gz", "zstd": "zst", "lz4": "lz4"}
MAX_PAYLOAD_BYTES = 1400  # so that the captures have several pieces of 512 KiB


def ethernet(number: int) -> bytes:
    """Return an IPv4 frame of a length that depends on its number, of one of seven flows."""
    payload = random.Random(number).randbytes(MAX_PAYLOAD_BYTES - number % 97)
    udp = struct.pack(">HHHH", 1000 + number % 7, 53, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), number, 0, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    return bytes.fromhex("02163e00000102163e0000020800") + ip + udp


def pcap(frames: int = FRAMES, unit_ns: int = 1000, order: str = "<", link_type: int = 1) -> bytes:
    """Return a pcap whose frames are four bytes longer on the wire."""
    format_ = {"unit_ns": unit_ns, "order": order}
    made = [(ethernet(number), (START_S + number) * 10**9 + number * unit_ns) for number in range(1, frames + 1)]
    parts = (pcap_files.record(ts_ns, frame, len(frame) + 4, **format_) for frame, ts_ns in made)
    return pcap_files.header(link_type=link_type, **format_) + b"".join(parts)


def packet(order: str, interface: int, number: int, units_per_s: int, comment: str = "") -> bytes:
    """Return an enhanced packet block."""
    frame, units = ethernet(number), (START_S + number) * units_per_s + number
    options = pcapng.option(1, comment.encode(), order) + bytes(4) if comment else b""
    return pcapng.packet_block(interface, units, frame, len(frame) + 4, options, order=order)


def section(order: str, first: int, last: int, *, simple: bool = False) -> bytes:
    """Return a section with comments, a microsecond interface and, from its middle on, also a nanosecond interface."""
    parts = [pcapng.section(pcapng.option(1, b"of a test", order) + bytes(4), order)]
    parts.append(pcapng.interface(1, 262144, pcapng.option(2, b"eth0", order) + bytes(4), order))
    middle = (first + last) // 2
    for number in range(first, last + 1):
        if number == middle:
            options = pcapng.option(9, b"\x09", order) + pcapng.option(2, b"eth1", order) + bytes(4)
            parts.append(pcapng.interface(options=options, order=order))
        if simple and number % 5 == 0:
            parts.append(pcapng.simple_block(ethernet(number), order=order))
            continue
        second = number >= middle and number % 2 == 1
        comment = f"frame {number}" if number % 3 == 0 else ""
        parts.append(packet(order, int(second), number, 10**9 if second else 10**6, comment))
    return b"".join(parts)


CAPTURES = {
    "microseconds.pcap": pcap,
    "nanoseconds.pcap": lambda: pcap(unit_ns=1),
    "big.pcap": lambda: pcap(order=">"),
    "fcs.pcap": lambda: pcap(link_type=1 | 0x04000000 | 2 << 28),
    "one.pcapng": lambda: section("<", 1, FRAMES),
    "big.pcapng": lambda: section(">", 1, FRAMES),
    "sections.pcapng": lambda: section("<", 1, 1400) + section(">", 1401, 2001) + section("<", 2002, FRAMES),
}


def digested(directory, name: str, content: bytes):
    """Write a capture and its acap; return the capture."""
    capture = write_file(directory / name, content)
    run("digest", capture, "-o", directory / f"{name.partition('.')[0]}.acap.parquet", "--engine", "native")
    return capture


def fields(capture) -> list[str]:
    """Return values and bytes of all frames, as tshark reads them."""
    raw = processes.run("tshark", "-r", capture, "-T", "jsonraw", "-j", "frame", check=True).stdout.splitlines()
    return tshark_lines(tshark.find(), capture, *FIELDS) + [line for line in raw if "_index" not in line]


def editcap(capture, target, *ranges: str):
    """Copy frames with editcap -r; return the target."""
    processes.run("editcap", "-r", capture, target, *ranges, check=True)
    return target


def extract(capture, target, *options: str) -> int:
    """Run the command."""
    return main(["extract", str(capture), "-o", str(target), *options])


@pytest.fixture
def ten_frames(tmp_path):
    """Return a capture of ten frames, with its acap."""
    return digested(tmp_path, "t.pcap", pcap(10))


def in_pieces(content: bytes, codec: str, size: int | None) -> list[bytes]:
    """Return the content compressed in pieces of a size, each a separate frame or member; None: in one piece."""
    step = size or len(content)
    return [pa.compress(content[at : at + step], codec, asbytes=True) for at in range(0, len(content), step)]


def overwrite(path, place: int, count: int) -> None:
    """Replace bytes of a file with zeros."""
    content = path.read_bytes()
    path.write_bytes(content[:place] + bytes(count) + content[place + count :])


@pytest.mark.parametrize("name", CAPTURES)
def test_frames_equal_those_of_editcap(tmp_path, name):
    capture = digested(tmp_path, name, CAPTURES[name]())
    assert extract(capture, tmp_path / "out.pcapng", "--frames", SELECTED) == 0
    assert fields(tmp_path / "out.pcapng") == fields(editcap(capture, tmp_path / "e.pcapng", *SELECTED.split(",")))


def test_simple_packet_blocks_remain_without_a_time(tmp_path):
    """Editcap writes them as enhanced packet blocks of time 0."""
    capture = digested(tmp_path, "t.pcapng", section("<", 1, FRAMES, simple=True))
    selected = ["5-7", "1999-2005", "2600"]
    assert extract(capture, tmp_path / "out.pcapng", "--frames", ",".join(selected)) == 0
    found = packets(tmp_path / "out.pcapng")
    assert [number for number, packet in enumerate(found) if packet.time_s is None] == [0, 4, 9, 10]
    assert [packet._replace(time_s=packet.time_s or 0) for packet in found] == packets(
        editcap(capture, tmp_path / "e.pcapng", *selected)
    )


def test_every_section_is_copied_once(tmp_path):
    capture = digested(tmp_path, "sections.pcapng", CAPTURES["sections.pcapng"]())
    assert extract(capture, tmp_path / "out.pcapng", "--frames", "1398-1403,1700-1702,1999-2600") == 0
    kinds = Counter(kind for _, kind, _ in blocks((tmp_path / "out.pcapng").read_bytes()))
    assert (kinds[0x0A0D0D0A], kinds[1], kinds[6]) == (3, 6, 6 + 3 + 602)


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        ("gzip", lambda content: gzip.compress(content, 6)),
        ("lz4", lambda content: subprocess.run(["lz4", "-c"], input=content, capture_output=True, check=True).stdout),
        ("lz4", lambda content: pa.compress(content, "lz4", asbytes=True)),
    ],
    ids=["gzip", "lz4", "lz4 with linked blocks"],
)
def test_one_member_or_frame_is_decompressed_from_a_checkpoint(tmp_path, codec, compress, capsys):
    filler = random.Random(1).randbytes(35) * 40
    numbered = (struct.pack("<I", number) + filler[4:] for number in range(30_000))
    content = pcap_files.pcap((START_S * 10**9 + number, frame) for number, frame in enumerate(numbered))
    capture = digested(tmp_path, f"t.pcap.{SUFFIXES[codec]}", compress(content))
    overwrite(capture, 10_000, 1000)
    assert extract(capture, tmp_path / "out.pcapng", "--frames", "29000,30000") == 0
    plain = write_file(tmp_path / "plain.pcap", content)
    assert packets(tmp_path / "out.pcapng") == packets(editcap(plain, tmp_path / "e.pcapng", "29000", "30000"))
    assert extract(capture, tmp_path / "out.pcapng", "--frames", "5000") == 2
    assert "changed since the digest" in capsys.readouterr().err


def test_flow_is_selected_by_its_identifier(tmp_path, capsys):
    capture = digested(tmp_path, "t.pcap", pcap(70))
    flows = pq.read_table(tmp_path / "t.acap.flows.parquet").to_pylist()
    (flow_id,) = [row["flow_id"] for row in flows if row["src_port"] == 1003]
    assert extract(capture, tmp_path / "out.pcapng", "--flow", flow_id) == 0
    assert fields(tmp_path / "out.pcapng") == fields(
        editcap(capture, tmp_path / "e.pcapng", *map(str, range(3, 71, 7)))
    )
    before = (tmp_path / "out.pcapng").read_bytes()
    assert extract(capture, tmp_path / "out.pcapng", "--flow", "0" * 32) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert f"{capture}: --flow {'0' * 32}: no such flow; " in error
    assert (tmp_path / "out.pcapng").read_bytes() == before


@pytest.mark.parametrize(
    ("column", "values"), [("frame", [1] * 10), ("frame", [None, *range(2, 11)]), ("cap_len", [2**40] * 10)]
)
def test_invalid_columns_of_an_acap_are_reported_in_one_line(ten_frames, tmp_path, capsys, column, values):
    acap = tmp_path / "t.acap.parquet"
    table, metadata = pq.read_table(acap), pq.read_metadata(acap).metadata
    changed = table.set_column(table.column_names.index(column), column, [values])
    own = {key: value for key, value in metadata.items() if key != b"ARROW:schema"}
    pq.write_table(changed.replace_schema_metadata(own), acap)
    assert extract(ten_frames, tmp_path / "out.pcapng", "--where", "true") == 2
    what = f"not an acap: column {column} has invalid values; digest again"
    assert capsys.readouterr().err == f"acapella: error: {acap}: {what}\n"


def test_output_is_written_to_a_pipe(ten_frames, tmp_path):
    words = [sys.executable, "-m", "acapella.cli.main", "extract", ten_frames, "--frames", "2-4", "-o", "-"]
    ended = subprocess.run(words, check=True, capture_output=True)
    assert extract(ten_frames, tmp_path / "out.pcapng", "--frames", "2-4") == 0
    assert ended.stdout == (tmp_path / "out.pcapng").read_bytes()
    assert ended.stderr == b""


@pytest.fixture
def merged(tmp_path):
    """Return an acap of two captures, whose frames alternate in time."""
    captures = [write_file(tmp_path / "a.pcap", pcap(10)), write_file(tmp_path / "b.pcapng", section("<", 1, 10))]
    run("digest", *captures, "-o", tmp_path / "both.parquet", "--engine", "native")
    return tmp_path / "both.parquet"


@pytest.mark.parametrize("options", [["--frames", "3-5,11,20"], ["--where", "file = 'b.pcapng' and src_port = 1003"]])
def test_frames_of_a_merged_acap_are_extracted_from_their_captures(merged, tmp_path, options):
    assert extract(tmp_path / "a.pcap", tmp_path / "out.pcapng", *options, "--acap", str(merged)) == 0
    rows = pq.read_table(merged).to_pylist()
    flows = {row["flow"]: row["src_port"] for row in pq.read_table(tmp_path / "both.flows.parquet").to_pylist()}
    wanted = {3, 4, 5, 11, 20}
    if options[0] == "--where":
        wanted = {row["frame"] for row in rows if row["file"] == "b.pcapng" and flows[row["flow"]] == 1003}
    expected = []
    for name in ("a.pcap", "b.pcapng"):
        of_file = [row["frame"] for row in rows if row["file"] == name]
        if numbers := [str(place) for place, frame in enumerate(of_file, 1) if frame in wanted]:
            expected += packets(editcap(tmp_path / name, tmp_path / "e.pcapng", *numbers))
    assert [p.frame for p in packets(tmp_path / "out.pcapng")] == [p.frame for p in expected]
    assert len(expected) == (5 if options[0] == "--frames" else 2)


def test_missing_and_changed_captures_of_a_merged_acap_are_reported(merged, tmp_path, capsys):
    (tmp_path / "b.pcapng").write_bytes(section("<", 2, 11))
    assert extract(tmp_path / "a.pcap", tmp_path / "out.pcapng", "--frames", "1-20", "--acap", str(merged)) == 2
    assert "changed since the digest" in capsys.readouterr().err
    (tmp_path / "b.pcapng").unlink()
    assert extract(tmp_path / "a.pcap", tmp_path / "out.pcapng", "--frames", "1-20", "--acap", str(merged)) == 2
    assert "b.pcapng: no such capture" in capsys.readouterr().err


@pytest.mark.parametrize(("frame_bytes", "advised"), [(None, True), (700_000, False)])
def test_large_single_frame_of_zstd_is_reported_in_one_line(tmp_path, frame_bytes, advised, capsys, monkeypatch):
    monkeypatch.setattr("acapella.campaign.extract.SLOW_BYTES", 2_000_000)
    capture = digested(tmp_path, "t.pcap.zst", b"".join(in_pieces(pcap(), "zstd", frame_bytes)))
    assert extract(capture, tmp_path / "out.pcapng", "--frames", "2") == 0
    error = capsys.readouterr().err
    assert error.count("\n") == int(advised)
    assert ("pzstd" in error) == advised


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4"])
def test_only_frames_of_the_compressed_format_that_are_needed_are_read(tmp_path, codec, capsys):
    first, second, *others = in_pieces(pcap(), codec, 600_000)
    capture = digested(tmp_path, f"t.pcap.{SUFFIXES[codec]}", b"".join([first, second, *others]))
    overwrite(capture, len(first) + len(second) // 2, 1000)
    assert extract(capture, tmp_path / "out.pcapng", "--frames", "2-5,2590-2600") == 0
    assert len(packets(tmp_path / "out.pcapng")) == 15
    assert extract(capture, tmp_path / "out.pcapng", "--frames", "600") == 2
    assert "changed since the digest" in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4"])
@pytest.mark.parametrize("frame_bytes", [None, 600_000])
def test_frames_of_a_compressed_capture_equal_those_of_editcap(tmp_path, codec, frame_bytes):
    plain = write_file(tmp_path / "plain.pcapng", section("<", 1, FRAMES))
    packed = b"".join(in_pieces(plain.read_bytes(), codec, frame_bytes))
    capture = digested(tmp_path, f"t.pcapng.{SUFFIXES[codec]}", packed)
    assert extract(capture, tmp_path / "out.pcapng", "--frames", SELECTED) == 0
    assert fields(tmp_path / "out.pcapng") == fields(editcap(plain, tmp_path / "e.pcapng", *SELECTED.split(",")))


@pytest.mark.parametrize("name", ["microseconds.pcap", "one.pcapng"])
def test_capture_without_positions_gives_the_same_file(tmp_path, name, monkeypatch):
    capture = digested(tmp_path, name, CAPTURES[name]())
    assert extract(capture, tmp_path / "with.pcapng", "--frames", SELECTED) == 0
    monkeypatch.setattr("acapella.digest.acap_files.positions_of", lambda _: None)
    assert extract(capture, tmp_path / "without.pcapng", "--frames", SELECTED) == 0
    assert (tmp_path / "with.pcapng").read_bytes() == (tmp_path / "without.pcapng").read_bytes()


def test_records_of_a_pcap_are_copied_to_a_pcap(tmp_path):
    capture = digested(tmp_path, "t.pcap", pcap(order=">"))
    assert extract(capture, tmp_path / "out.pcap", "--frames", "1-2600") == 0
    assert (tmp_path / "out.pcap").read_bytes() == capture.read_bytes()


@pytest.mark.soak
def test_where_selects_by_columns_of_both_tables(tmp_path):
    capture = digested(tmp_path, "t.pcap", pcap())
    assert extract(capture, tmp_path / "out.pcapng", "--where", "src_port = 1003 and frame < 20") == 0
    assert fields(tmp_path / "out.pcapng") == fields(editcap(capture, tmp_path / "e.pcapng", "3", "10", "17"))


@pytest.mark.parametrize("condition", ["true) union all (select 1", "1; drop view frames", "missing = 1"])
def test_invalid_condition_is_reported_in_one_line(tmp_path, condition, capsys):
    assert extract(digested(tmp_path, "t.pcap", pcap(10)), tmp_path / "out.pcapng", "--where", condition) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out.pcapng").exists()


@pytest.mark.parametrize("place", [30, 700_000, -1])
def test_changed_byte_is_reported(tmp_path, place, capsys):
    content = bytearray(pcap())
    capture = digested(tmp_path, "t.pcap", content)
    content[place] ^= 1
    capture.write_bytes(content)
    assert extract(capture, tmp_path / "out.pcapng", "--frames", "1-2600") == 2
    error = capsys.readouterr().err
    assert "changed since the digest" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.pcapng").exists()


def test_changed_size_and_missing_capture_are_reported(ten_frames, tmp_path, capsys):
    ten_frames.write_bytes(ten_frames.read_bytes() + b"\0")
    assert extract(ten_frames, tmp_path / "out.pcapng", "--frames", "1") == 2
    assert "changed since the digest" in capsys.readouterr().err
    ten_frames.unlink()
    assert extract(ten_frames, tmp_path / "out.pcapng", "--frames", "1") == 2
    assert "no such capture" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "0", "5-4", "a", "1,,2", "-3"])
def test_invalid_frame_numbers_are_rejected(tmp_path, text, capsys):
    assert extract(digested(tmp_path, "t.pcap", pcap(10)), tmp_path / "out.pcapng", f"--frames={text}") == 2
    assert "such as 17,19-40" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "code", "reported"),
    [
        ("11,20-30", 2, "no such frame: the last frame has number 10"),
        ("9-12,40", 0, "note: {}: --frames 9-12,40: the last frame has number 10\n"),
        ("9-10", 0, ""),
    ],
)
def test_frame_numbers_beyond_the_last_are_reported_in_one_line(ten_frames, tmp_path, text, code, reported, capsys):  # noqa: PLR0913, PLR0917
    assert extract(ten_frames, tmp_path / "out.pcapng", "--frames", text) == code
    error = capsys.readouterr().err
    assert reported.format(ten_frames) in error
    assert error.count("\n") == bool(reported)
    assert (tmp_path / "out.pcapng").exists() == (code == 0)


def test_selection_without_frames_is_reported(ten_frames, tmp_path, capsys):
    assert extract(ten_frames, tmp_path / "out.pcapng", "--where", "false") == 0
    out = tmp_path / "out.pcapng"
    assert capsys.readouterr().err == f"acapella: warning: {ten_frames}: 0 frames match; {out} contains no frames\n"


@pytest.mark.parametrize("place", range(0, 60, 7))
def test_damaged_positions_are_rejected(tmp_path, place, monkeypatch):
    capture = digested(tmp_path, "t.pcap", pcap())
    damaged = bytearray(positions_of(capture.with_name("t.acap.parquet")))
    damaged[place % len(damaged)] ^= 0xFF
    monkeypatch.setattr("acapella.digest.acap_files.positions_of", lambda _: bytes(damaged))
    assert extract(capture, tmp_path / "out.pcapng", "--frames", "1-2600") == 2
