"""Tests the output of `acapella digest`, and its messages about damaged captures and full disks."""

import gzip
import hashlib
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.pcap_files import header, record, write_pcap
from acapella_testing.frames.pcapng_files import packet_block, simple_block, write_pcapng
from acapella_testing.frames.traces import YEAR_586524_US
from acapella_testing.native_programs import native_program
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import run
from acapella_testing.requirements import require
from acapella_testing.runs.digest_run import START, frames

from acapella.cli.main import main
from acapella.common.tables import arrow_schema
from acapella.digest.acap_files import metadata_of
from acapella.digest.command import ADVICE

((_, FRAME),) = frames(1)
IMPOSSIBLE_RECORD = struct.pack("<IIII", 1, 1, 2**28, 2**28) + b"x" * 100  # a record of an impossible length


@pytest.fixture
def capture(tmp_path) -> Path:
    return write_pcap(tmp_path / "t.pcap", frames(300))


def one_line(capsys) -> str:
    """Return standard error, which must be a single line. Standard output must be empty."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


def test_both_tables_have_the_columns_of_their_schemas(digest, capture):
    assert digest(capture) == 0
    assert pq.read_schema(digest.acap).remove_metadata() == arrow_schema("frames")
    assert pq.read_schema(digest.flows).remove_metadata() == arrow_schema("flows")
    assert digest.acap.stat().st_mode & 0o777 == 0o600


def test_metadata_counts_frames_flows_and_bytes(digest, capture):
    digest(capture, "--site", "S", "--port", "p")
    created = frames(300)
    metadata = digest.metadata()
    assert metadata == metadata_of(digest.flows)
    assert metadata["frames"] == 300 == sum(metadata["l4_by"].values()) == sum(metadata["app_by"].values())
    assert metadata["wire_bytes"] == metadata["captured_bytes"] == sum(len(frame) for _, frame in created)
    assert (metadata["first_ns"], metadata["last_ns"]) == (created[0][0], created[-1][0])
    assert metadata["clock_resolution_ns"] == 1000
    assert (metadata["site"], metadata["port"], metadata["engine"]) == ("S", "p", "native")
    assert metadata["file_issue"] is None and metadata["issues"] == {}
    assert metadata["flows"] == pq.read_metadata(digest.flows).num_rows


def test_output_is_identical_for_any_number_of_threads_and_repeated_runs(digest, capture, monkeypatch):
    monkeypatch.setattr("acapella.digest.native.BATCH_ROWS", 64)  # several row groups
    first, *others = [(digest(capture, "--threads", threads), digest.hashes()) for threads in ("1", "2", "1")]
    assert others == [first, first]
    assert pq.read_metadata(digest.acap).num_row_groups == 5


def test_output_is_identical_from_standard_input_and_in_a_different_directory(digest, capture, tmp_path):
    digest(capture)
    other = new_directory(tmp_path / "elsewhere")
    words = [sys.executable, "-m", "acapella.cli.main", "digest", "-", "-o", "a.parquet", "--flows", "f.parquet"]
    with capture.open("rb") as stream:
        subprocess.run([*words, "--engine", "native"], stdin=stream, cwd=other, check=True)
    there = [hashlib.sha256((other / name).read_bytes()).hexdigest() for name in ("a.parquet", "f.parquet")]
    assert there == digest.hashes()


@pytest.mark.parametrize("option", ["-o", "--flows"])
def test_missing_output_directory_is_named_and_not_created(option, capture, tmp_path, capsys):
    paths = {"-o": "a.parquet", "--flows": "f.parquet", option: "nodir/x.parquet"}
    words = [word for name, path in paths.items() for word in (name, str(tmp_path / path))]
    assert main(["digest", str(capture), "--engine", "native", *words]) == 2
    assert f"{tmp_path}/nodir: no such directory" in one_line(capsys)
    assert not (tmp_path / "nodir").exists() and not (tmp_path / "a.parquet").exists()


@pytest.mark.parametrize(("issue", "cut"), [("cut_record", 1), ("cut_header", len(frames(300)[-1][1]) + 3)])
def test_truncated_capture_keeps_complete_records_with_a_warning(digest, capture, capsys, issue, cut):
    capture.write_bytes(capture.read_bytes()[:-cut])
    assert digest(capture) == 0
    assert digest.metadata()["file_issue"] == issue
    assert pq.read_table(digest.acap).num_rows == 299
    warning = one_line(capsys)
    assert warning.startswith("acapella: warning: ")
    assert str(capture) in warning
    assert "299 complete frames" in warning
    assert f"at byte {digest.metadata()['file_issue_offset']}: " in warning
    assert digest.metadata()["file_unread_bytes"] == 0


def test_truncated_record_header_warning_gives_position_and_size(digest, tmp_path, capsys):
    capture = write_pcap(tmp_path / "c.pcap", frames(1))
    size = capture.stat().st_size
    capture.write_bytes(capture.read_bytes() + bytes(9))
    assert digest(capture) == 0
    fault = f"at byte {size}: the file contains only 9 of the 16 bytes of a record header"
    assert one_line(capsys) == f"acapella: warning: {capture}: {fault}; the 1 complete frame before it is written\n"


@pytest.mark.parametrize("caplen", [2**32 - 1, 2**28])
def test_impossible_capture_length_ends_reading_with_an_error(digest, capture, capsys, caplen):
    """The frames after the invalid record are not read, so the output does not contain the whole file."""
    size = capture.stat().st_size
    write_file(capture, capture.read_bytes() + struct.pack("<IIII", 1, 1, caplen, caplen) + b"x" * 100)
    assert digest(capture) == 1
    metadata = digest.metadata()
    assert (metadata["file_issue"], metadata["frames"]) == ("bad_caplen", 300)
    assert (metadata["file_issue_offset"], metadata["file_unread_bytes"]) == (size, 116)
    assert pq.read_table(digest.acap).num_rows == 300
    message = one_line(capsys)
    assert message.startswith("acapella: error: ")
    assert f"300 complete frames before it{ADVICE}accept the frames before the damage (--damaged keep)" in message
    assert f"at byte {size}: capture length {caplen} is larger than 262144; the 116 bytes from there" in message


def test_damaged_keep_writes_the_same_files_with_a_warning(digest, capture, capsys):
    write_file(capture, capture.read_bytes() + IMPOSSIBLE_RECORD)
    assert digest(capture) == 1
    failed = digest.hashes()
    one_line(capsys)
    assert digest(capture, "--damaged", "keep") == 0
    assert digest.hashes() == failed
    message = one_line(capsys)
    assert message.startswith("acapella: warning: ") and "the 116 bytes from there to the end were not read" in message


def test_damaged_block_in_the_middle_is_an_error(digest, tmp_path, capsys):
    source, block = write_pcapng(tmp_path / "w.pcapng", [(1, FRAME)] * 3), 32 + -(-len(FRAME) // 4) * 4
    damaged = bytearray(source.read_bytes())
    damaged[-2 * block + 4 : -2 * block + 8] = struct.pack("<I", 4)  # shorter than the shortest block
    source.write_bytes(damaged)
    assert digest(source) == 1
    metadata = digest.metadata()
    assert (metadata["file_issue"], metadata["frames"]) == ("bad_block", 1)
    assert metadata["file_unread_bytes"] == 2 * block
    assert f"the {2 * block} bytes from there to the end were not read" in one_line(capsys)


@pytest.mark.parametrize("content", [b"", b"\xd4\xc3", b"just some text, no capture at all\n" * 9])
def test_file_that_is_not_a_capture_is_rejected_in_one_line(digest, tmp_path, capsys, content):
    bad = write_file(tmp_path / "bad.pcap", content)
    assert digest(bad) == 2
    assert str(bad) in one_line(capsys)
    assert digest.written() == []


def test_missing_capture_error_names_the_file(digest, tmp_path, capsys):
    assert digest(tmp_path / "none.pcap") == 2
    assert "none.pcap" in one_line(capsys)


def test_malformed_frames_are_kept_with_their_issue(digest, tmp_path):
    valid = frames(3)[1]
    assert digest(write_pcap(tmp_path / "o.pcap", [(START, b""), valid, (START - 5, valid[1][:20]), valid])) == 0
    issues = pq.read_table(digest.acap)["issue"].to_pylist()
    assert issues[1] is None and issues[3] is None and None not in (issues[0], issues[2])
    assert digest.metadata()["issues"] == {issues[0]: 1, issues[2]: 1}
    assert digest.metadata()["time_reversals"] == 1


@pytest.mark.parametrize("link_type", [147, 9999])  # LINKTYPE_USER0, and an unassigned value
def test_capture_of_an_unsupported_link_type_is_rejected(digest, tmp_path, capsys, link_type):
    source = write_pcap(tmp_path / "u.pcap", [(START, b"abcd")], link_type=link_type)
    assert digest(source) == 2
    message = one_line(capsys)
    assert str(source) in message and f"link type {link_type}" in message and "--engine hybrid" in message
    assert digest.written() == []


def test_unsupported_link_type_among_others_is_an_issue_and_a_warning(digest, tmp_path, capsys):
    assert digest(write_pcapng(tmp_path / "u.pcap", [(1, FRAME), (9999, b"abcd")])) == 0
    known, unknown = digest.rows()
    assert known["issue"] is None
    assert unknown["l4_by"] == "unsure" and unknown["issue"] == "unsupported_link_type"
    assert "1 of 2 frames have a link type" in one_line(capsys)


def test_input_and_both_outputs_must_differ(digest, capture, capsys):
    capture = capture.rename(capture.with_suffix(""))  # an output with the extension of a capture is a usage error
    assert main(["digest", str(capture), "-o", str(capture), "--flows", "f.parquet", "--engine", "native"]) == 2
    assert "different files" in one_line(capsys)
    assert capture.stat().st_size > 1000


def test_unwritable_directory_error_names_the_directory(digest, capture, tmp_path, capsys):
    digest.acap = write_file(tmp_path / "file", "in the way") / "a.parquet"
    assert digest(capture) == 2
    assert "cannot write" in one_line(capsys)
    assert not digest.flows.exists()


def test_progress_is_printed_only_on_request(digest, capture, capsys):
    digest(capture)
    assert capsys.readouterr().err == ""
    digest(capture, "--progress")
    assert "300 frames" in one_line(capsys)


def test_bulk_tcp_uses_at_most_20_bytes_per_frame(digest, tmp_path):
    capture = tmp_path / "iperf.pcap"
    run(native_program("acapella-generate"), "--profile", "iperf", "--frames", 200_000, "-o", capture, check=True)
    digest(capture)
    assert digest.acap.stat().st_size <= 20 * 200_000


def test_wrong_checksum_keeps_the_frames_and_is_an_error(digest, capture, tmp_path, capsys):
    packed = bytearray(gzip.compress(capture.read_bytes()))
    packed[-5] ^= 0xFF
    assert digest(write_file(tmp_path / "bad.pcap.gz", bytes(packed))) == 1
    assert digest.metadata()["frames"] == 300
    assert digest.metadata()["file_issue"] == "bad_compression"
    assert "incorrect data check" in one_line(capsys)


@pytest.mark.parametrize("program", ["gzip", "zstd", "lz4"])
def test_impossible_record_is_attributed_to_the_wrong_checksum_after_it(digest, capture, capsys, program):
    """A decompressor turns damaged data into invalid records. Only the checksum at the end of the file shows the
    damage.
    """
    require(shutil.which(program) is not None, f"{program} is not installed")
    made_up = struct.pack("<IIII", 1, 1, 2**32 - 1, 60) + bytes(5_000_000)
    content = capture.read_bytes() + made_up
    packed = bytearray(subprocess.run([program, "-c"], input=content, capture_output=True, check=True).stdout)
    bad = write_file(capture.with_name("bad.packed"), bytes(packed))
    assert (digest(bad), digest.metadata()["file_issue"]) == (1, "bad_caplen")
    capsys.readouterr()
    packed[-8 if program == "gzip" else -1] ^= 0xFF  # in gzip, the checksum is followed by the length
    bad.write_bytes(packed)
    assert (digest(bad), digest.metadata()["file_issue"]) == (1, "bad_compression")
    assert digest.metadata()["frames"] == 300
    assert 4_000_000 < digest.metadata()["file_unread_bytes"] <= len(made_up)
    assert "of the decompressed data" in one_line(capsys)


def test_capture_without_frames_is_noted(digest, tmp_path, capsys):
    assert digest(write_pcap(tmp_path / "h.pcap", [])) == 0
    assert one_line(capsys) == f"acapella: note: {tmp_path / 'h.pcap'}: no frames\n"
    assert pq.read_table(digest.acap).num_rows == pq.read_table(digest.flows).num_rows == 0
    metadata = digest.metadata()
    assert metadata["frames"] == 0 and metadata["first_ns"] is None and metadata["clock_resolution_ns"] is None


def test_malformed_frames_are_counted_in_one_note(digest, tmp_path, capsys):
    odd = ((9, FRAME, 99), (8, b"", 60), (7, FRAME + b"x", 99), (9, b"", 0), (9, FRAME, 20))
    content = header(len(FRAME)) + b"".join(record(second * 10**9, data, wire) for second, data, wire in odd)
    assert digest(write_file(tmp_path / "o.pcap", content)) == 0
    assert one_line(capsys) == (
        f"acapella: note: {tmp_path / 'o.pcap'}: 1 frame captured longer than the snap length, 1 captured longer than "
        "on the wire, 2 empty, 2 with an earlier timestamp than the previous frame\n"
    )
    assert digest.metadata()["longer_than_snaplen"] == 1


def test_frames_without_a_timestamp_are_excluded_from_times(digest, tmp_path, capsys):
    """Simple packet blocks of pcapng have no timestamp."""
    digest(write_pcapng(tmp_path / "m.pcapng", [(1, FRAME), (1, FRAME)], extra=simple_block(FRAME)))
    assert one_line(capsys) == f"acapella: note: {tmp_path / 'm.pcapng'}: 1 frame without a timestamp\n"
    timed = (1_000_000, None)
    assert [(row["ts_ns"], row["issue"]) for row in digest.rows()] == [(None, "no_timestamp"), timed, timed]
    metadata = digest.metadata()
    assert (metadata["first_ns"], metadata["last_ns"], metadata["untimed"]) == (1_000_000, 1_000_000, 1)
    (flow,) = pq.read_table(digest.flows).to_pylist()
    assert (flow["frames"], flow["first_ns"], flow["last_ns"]) == (3, 1_000_000, 1_000_000)
    assert (flow["iat_min_ns"], flow["iat_mean_ns"], flow["iat_stddev_ns"]) == (0, 0.0, 0.0)


def test_default_flow_table_is_next_to_the_acap(capture, tmp_path, capsys):
    assert main(["digest", str(capture), "-o", str(tmp_path / "x.parquet"), "--engine", "native"]) == 0
    assert pq.read_table(tmp_path / "x.flows.parquet").num_rows > 0
    capsys.readouterr()
    assert main(["show", str(tmp_path / "x.parquet"), "--columns", "frame,src"]) == 0
    assert capsys.readouterr().out.startswith("1\t10.0.0.1\n")


@pytest.mark.parametrize("engine", ["native", "hybrid", "tshark"])
def test_implausible_timestamp_is_an_issue_and_excluded_from_times(digest, tmp_path, capsys, engine):
    second_2106 = (1 << 32) * 1_000_000
    # The last frame is truncated: the issue of its IPv4 header has precedence.
    times = ((FRAME, YEAR_586524_US), (FRAME, second_2106 - 1), (FRAME, second_2106), (FRAME[:20], YEAR_586524_US))
    blocks = b"".join(packet_block(0, stamp, data) for data, stamp in times)
    assert digest(write_pcapng(tmp_path / "y.pcapng", [(1, FRAME)], extra=blocks), "--engine", engine) == 0
    assert "3 dated outside the years 1970 to 2106, whose timestamps are not used" in one_line(capsys)
    rows = digest.rows()
    last_ns = second_2106 * 1000 - 1000
    assert [row["ts_ns"] for row in rows] == [None, last_ns, None, None, 1_000_000]
    if engine != "tshark":
        implausible = "implausible_timestamp"
        assert [row["issue"] for row in rows] == [implausible, None, implausible, "truncated_ipv4", None]
    metadata = digest.metadata()
    assert (metadata["first_ns"], metadata["last_ns"]) == (1_000_000, last_ns)
    assert (metadata["implausible_times"], metadata["untimed"], metadata["frames"]) == (3, 0, 5)
    flow = pq.read_table(digest.flows).to_pylist()[0]
    assert (flow["frames"], flow["first_ns"], flow["last_ns"]) == (4, 1_000_000, last_ns)


def test_capture_without_timestamps_has_no_first_and_last_time(digest, tmp_path):
    source = write_pcapng(tmp_path / "s.pcapng", [(1, FRAME)], extra=simple_block(FRAME) * 2)
    source.write_bytes(source.read_bytes()[: -32 - -(-len(FRAME) // 4) * 4])
    assert digest(source) == 0
    assert (digest.metadata()["first_ns"], digest.metadata()["last_ns"]) == (None, None)
    (flow,) = pq.read_table(digest.flows).to_pylist()
    assert (flow["frames"], flow["first_ns"], flow["last_ns"], flow["iat_mean_ns"]) == (2, None, None, None)
