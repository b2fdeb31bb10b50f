"""`acapella digest` of several captures equals that of a single capture with all frames ordered by time."""

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames import pcap_files
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.pcapng_files import SECTION, interface, simple_block, write_stamped
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import has_child, run, running
from acapella_testing.runs.digest_run import START, Digest, frames
from acapella_testing.waiting import wait_until


def pcap(records, *, link_type: int = 1, ns: bool = True) -> bytes:
    """Return a pcap file with frames (time, bytes) and timestamps in nanoseconds or microseconds."""
    unit_ns = 1 if ns else 1000
    head = pcap_files.header(link_type=link_type, unit_ns=unit_ns)
    return head + b"".join(pcap_files.record(ts_ns, frame, unit_ns=unit_ns) for ts_ns, frame in records)


def tables(digest: Digest) -> list:
    """Return both tables as they were written, without column `file`, which only a merged acap has."""
    read = [pq.read_table(path).replace_schema_metadata(None) for path in (digest.acap, digest.flows)]
    return [table.drop_columns([name for name in ("file",) if name in table.column_names]) for table in read]


def write_three_queues(directory, records) -> list[Path]:
    """Distribute the frames to three files of different formats; return their paths. Each file is ordered by time."""
    names = [directory / name for name in ("q0.pcap", "q1.pcap.gz", "q2.pcapng")]
    names[0].write_bytes(pcap(records[0::3]))
    names[1].write_bytes(gzip.compress(pcap(records[1::3], ns=False)))
    write_stamped(names[2], records[2::3])
    return names


@pytest.mark.parametrize("engine", ["native", "hybrid"])
def test_files_of_several_queues_are_merged_by_time(digest, tmp_path, engine):
    records = frames(300)
    assert digest(write_pcap(tmp_path / "whole.pcap", records), "--engine", engine) == 0
    expected = tables(digest)
    names = write_three_queues(tmp_path, records)
    assert digest([names[2], *names[:2]], "--engine", engine) == 0
    assert tables(digest) == expected
    metadata = digest.metadata()
    assert (metadata["frames"], metadata["time_reversals"], metadata["file_issue"]) == (300, 0, None)
    assert metadata["format"] == "pcapng+pcap_ns+pcap" and metadata["compression"] == "none+gzip"


@pytest.mark.parametrize("lengths", [(60, 61), (61, 60)])
def test_frames_with_equal_times_are_in_the_order_of_the_files(digest, tmp_path, lengths):
    assert digest([write_pcap(tmp_path / f"{length}.pcap", [(START, bytes(length))] * 2) for length in lengths]) == 0
    assert [row["wire_len"] for row in digest.rows()] == [length for length in lengths for _ in range(2)]


def test_implausible_timestamps_do_not_delay_a_merge(digest, tmp_path):
    records, year_2128 = frames(30), 5 * 10**18
    odd = [(START + 2500, bytes(60)), (year_2128, bytes(61)), (START + 3500, bytes(62))]
    assert digest([write_pcap(tmp_path / "whole.pcap", records), write_stamped(tmp_path / "odd.pcapng", odd)]) == 0
    plain = [(ts_ns, len(frame)) for ts_ns, frame in records]
    merged = [*plain[:3], (START + 2500, 60), (None, 61), plain[3], (START + 3500, 62), *plain[4:]]
    assert [(row["ts_ns"], row["wire_len"]) for row in digest.rows()] == merged
    assert (digest.metadata()["implausible_times"], digest.metadata()["time_reversals"]) == (1, 0)


def test_truncated_file_of_a_merge_is_named(digest, tmp_path, capsys):
    names = write_three_queues(tmp_path, frames(30))
    names[0].write_bytes(names[0].read_bytes()[:-5])
    assert digest(names) == 0
    assert "q0.pcap: " in capsys.readouterr().err
    assert (digest.metadata()["file_issue"], digest.metadata()["frames"]) == ("cut_record", 29)


def test_damaged_file_of_a_merge_exits_with_1(digest, tmp_path, capsys):
    names = write_three_queues(tmp_path, frames(30))
    packed = names[1].read_bytes()
    names[1].write_bytes(packed[:-8] + bytes(4) + packed[-4:])
    names[0].write_bytes(names[0].read_bytes()[:-5])
    assert digest(names) == 1
    assert "q1.pcap.gz: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (b"no capture at all", "a.pcap: "),
        (pcap([(START, b"\x45" + bytes(30))], link_type=101), "frames of link types 101 and 1 cannot be merged"),
        (SECTION + interface() + simple_block(bytes(60)), "a frame without a time"),
    ],
    ids=["no capture", "another link type", "no time"],
)
def test_incompatible_files_are_rejected_in_one_line_without_output(digest, tmp_path, capsys, other, message):
    assert digest([write_pcap(tmp_path / "z.pcap", frames(3)), write_file(tmp_path / "a.pcap", other)]) == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1
    assert digest.written() == []


def test_file_listed_twice_is_rejected(digest, tmp_path, capsys):
    assert digest([write_pcap(tmp_path / "z.pcap", frames(3))] * 2) == 2
    assert "different files" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_ctrl_c_in_a_terminal_terminates_digest_and_tshark(tmp_path):
    """More data than a pipe holds is still to be written, but its reader has exited."""
    many = (pcap_files.header() + pcap_files.record(START + shift, bytes(514)) * 100_000 for shift in range(2))
    sources = [write_file(tmp_path / f"{number}.pcap", content) for number, content in enumerate(many)]
    created = new_directory(tmp_path / "made")
    command = [sys.executable, "-m", "acapella.cli.main", "digest", *sources, "--engine", "tshark"]
    command += ["-o", created / "a.parquet", "--flows", created / "f.parquet"]
    with running(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        wait_until(lambda: has_child(process.pid, "tshark"), running=process)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        stderr = process.communicate(timeout=300)[1]
    assert (stderr, process.returncode, list(created.iterdir())) == ("acapella: stopped\n", 130, [])


LENGTHS = {"b.pcap": 60, "a.pcap": 61, "c.pcap": 62}  # length of the frames in each file


@pytest.fixture(scope="module")
def queues(tmp_path_factory) -> tuple[Path, list[str]]:
    """Write three files with more frames than a row group; return their directory and the merged order of files."""
    directory = tmp_path_factory.mktemp("queues")
    order = [name for n in range(50_000) for name in ("b.pcap", *(["a.pcap"] * (n % 3)), "c.pcap")]
    for name, length in LENGTHS.items():
        write_pcap(directory / name, [(START + at, bytes(length)) for at, other in enumerate(order) if other == name])
    return directory, order


@pytest.mark.parametrize("engine", ["native", "hybrid"])
def test_frames_of_a_merged_acap_have_the_names_of_their_files(digest, queues, engine):
    directory, order = queues
    assert digest([directory / name for name in LENGTHS], "--engine", engine) == 0
    table = pq.read_table(digest.acap, columns=["wire_len", "file"])
    assert len(table) > 131_072
    assert table["file"].to_pylist() == order
    assert table["wire_len"].to_pylist() == [LENGTHS[name] for name in order]
    assert digest.metadata()["files"] == list(LENGTHS)


def test_files_with_equal_names_are_distinguished_without_their_directories(digest, tmp_path):
    names = ("one/port.pcap", "two/port.pcap", "port.pcap (2)", "three/port.pcap")
    captures = [*(pcap([(START + at, bytes(60))]) for at in range(3)), pcap([(START, bytes(60))])[:-5]]
    assert digest([write_file(tmp_path / name, capture) for name, capture in zip(names, captures, strict=True)]) == 0
    files = ["port.pcap", "port.pcap (2)", "port.pcap (2) (2)"]
    assert pq.read_table(digest.acap)["file"].to_pylist() == files
    assert digest.metadata()["files"] == [*files, "port.pcap (3)"]
    assert str(tmp_path).encode() not in digest.acap.read_bytes()
    assert str(tmp_path).encode() not in digest.flows.read_bytes()


def test_merged_acaps_do_not_depend_on_the_directory_of_their_captures(digest, tmp_path):
    assert digest(write_three_queues(new_directory(tmp_path / "here"), frames(300))) == 0
    hashes = digest.hashes()
    assert digest(write_three_queues(new_directory(tmp_path / "there"), frames(300))) == 0
    assert digest.hashes() == hashes


def test_digest_of_one_file_has_no_file_column(digest, tmp_path):
    assert digest(write_pcap(tmp_path / "one.pcap", frames(3)), "--engine", "native") == 0
    assert "file" not in pq.read_table(digest.acap).column_names
    assert "files" not in digest.metadata()


READS_A_PIPE = """
import os, sys, threading, time
from acapella_core import _native
content = open(sys.argv[1], "rb").read()
def write(descriptor):
    time.sleep(0.1)  # after the reader waits
    os.write(descriptor, content)
    os.close(descriptor)
for name, arguments in (("NativeDigest", (None, None, 8)), ("NativeTags", (8, None)), ("Decompression", ())):
    reading, writing = os.pipe()
    thread = threading.Thread(target=write, args=(writing,))
    thread.start()
    getattr(_native, name)(f"/dev/fd/{reading}", *arguments)
    thread.join()
    os.close(reading)
"""


def test_thread_that_writes_a_pipe_runs_while_the_core_reads_it(tmp_path):
    """Runs a separate process, because a process whose threads wait for each other cannot be interrupted."""
    run(sys.executable, "-c", READS_A_PIPE, write_pcap(tmp_path / "z.pcap", frames(3)), check=True, timeout=60)
