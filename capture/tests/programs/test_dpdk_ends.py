"""How the DPDK writer ends: stopped, killed, or on a full disk. Complete records are kept and counted."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture.commands import check_c_tests
from acapella_testing.capture.small_disks import small_disk_or_skip
from acapella_testing.processes import run as run_program
from acapella_testing.requirements import require, require_programs
from acapella_testing.soak import SOAK
from acapella_testing.waiting import wait_until

FRAMES = dpdk.some_frames(6000, sizes=(128, 512, 1514, 9000))  # 17 MB
# net_null delivers frames as fast as they are read; only some are kept, so that the disk is not tested.
ENDLESS = ["--vdev", "net_null0,size=1000,copy=1", "--sample", 20, "--flush-seconds", "0.05", "--when-full", "wait"]


def wait_for_bytes(path: Path, size: int) -> None:
    wait_until(lambda: path.exists() and path.stat().st_size >= size, f"{path} does not grow")


@pytest.mark.parametrize(("writer", "number"), [("direct", signal.SIGTERM), ("buffered", signal.SIGINT)])
def test_signal_ends_the_capture_with_complete_files(tmp_path, writer, number):
    process = dpdk.start(tmp_path, *ENDLESS, "--writer", writer, name="c.pcapng")
    wait_for_bytes(tmp_path / "c.pcapng.part", 1 << 20)
    run = dpdk.stop(process, tmp_path, number)
    assert (run.status, run.accounts["stopped_by"]) == (0, number.name), run.stderr
    frames, left = dpdk.read_capture(tmp_path / "c.pcapng")
    assert (len(frames), left) == (run.counts["written"], 0)
    assert run.counts["written"] > 0
    assert run.counts["sampled_out"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.json", "c.pcapng"]


@pytest.mark.parametrize(("writer", "name"), [("direct", "c.pcap"), ("buffered", "c.pcapng")])
def test_killed_capture_contains_whole_records(tmp_path, writer, name):
    process, part = dpdk.start(tmp_path, *ENDLESS, "--writer", writer, name=name), tmp_path / f"{name}.part"
    wait_for_bytes(part, 2 << 20)
    process.kill()
    process.communicate(timeout=dpdk.LIMIT_S)
    frames, left = dpdk.read_capture(part)
    # no zeros and no gap: every record is from net_null
    assert {(frame.wire, len(frame.data)) for frame in frames} == {(1000, 1000)}
    assert len(frames) > 1500
    assert left < 1100
    stamps = [frame.ts_ns for frame in frames]
    assert stamps == sorted(stamps)
    heartbeat = json.loads((tmp_path / "c.json.part").read_text())
    assert heartbeat["state"] == "running"
    assert heartbeat["frames"]["written"] <= len(frames)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.json.part", part.name]
    if shutil.which("tshark"):
        assert len(run_program("tshark", "-r", part).stdout.splitlines()) == len(frames)


def test_timestamps_use_the_system_clock_and_differ_within_a_burst(tmp_path):
    before = time.time_ns()
    run = dpdk.capture(tmp_path, "--vdev", "net_null0,size=64", "--frames", 20000, "--when-full", "wait")
    assert run.status == 0, run.stderr
    stamps = [frame.ts_ns for frame in dpdk.read_pcap(tmp_path / "c.pcap")[0]]
    assert before < stamps[0] <= stamps[-1] < time.time_ns()
    assert stamps == sorted(stamps)
    assert len(set(stamps)) > len(stamps) // 2  # one timestamp per burst would be 157
    assert run.accounts["clock"]["source"] == "tsc"
    assert run.accounts["clock"]["resolution_ns"] == 1


@pytest.mark.parametrize(
    ("disk", "writer", "name"),
    [
        *(("tmpfs", "direct", "c.pcap"), ("tmpfs", "buffered", "c.pcapng")),
        *(("ext4", "direct", "c.pcapng"), ("ext4", "buffered", "c.pcap")),
    ],
)
def test_full_disk_ends_the_capture_with_whole_records(tmp_path, disk, writer, name):
    directory, left = tmp_path / "disk", tmp_path / "left"
    prefix = small_disk_or_skip(directory, "8M", disk)
    arguments = [*dpdk.from_file(tmp_path, FRAMES), "--writer", writer, "--rotate-bytes", "3M"]
    done = run_program(*prefix, *dpdk.command("--write", directory / name, *arguments), timeout=dpdk.LIMIT_S)
    require("no O_DIRECT" not in done.stderr, done.stderr.strip())
    run = dpdk.finished(left, done.returncode, done.stderr)
    assert (run.status, run.accounts["stopped_by"]) == (1, "write error"), run.stderr
    assert "No space left on device; free some space or write elsewhere; kept " in run.stderr
    assert "No space left on device" in run.accounts["errors"][0]
    entries = [entry for entry in run.accounts["files"] if entry["state"] != "removed"]
    assert len(entries) > 1
    # In order, without a gap within a file; there may be one after a file whose last bytes did not fit.
    numbers = {frame.data: number for number, frame in enumerate(FRAMES)}
    written = 0
    for path, entry in zip(run.files(), entries, strict=True):
        frames, rest = dpdk.read_capture(path)
        assert (len(frames), rest, path.stat().st_size) == (entry["frames"], 0, entry["bytes"])
        assert path.name.endswith(".part") == (entry["state"] == "truncated")
        first = numbers[frames[0].data]
        assert first >= written
        assert [frame.data for frame in frames] == [frame.data for frame in FRAMES[first : first + len(frames)]]
        written = first + len(frames)
    assert sorted(path.name for path in left.iterdir() if "lost" not in path.name) == sorted(
        ["c.json", *(entry["file"] for entry in entries)]
    )
    assert "whole" in {entry["state"] for entry in entries} and run.accounts["files"][-1]["state"] != "whole"
    assert run.counts["written"] > 500 and run.counts["dropped"]["write_error"] > 0


@pytest.mark.parametrize("writer", ["direct", "buffered"])
def test_file_size_limit_is_a_write_error(tmp_path, writer):
    require_programs("prlimit")
    arguments = [*dpdk.from_file(tmp_path, FRAMES), "--writer", writer, "--preallocate", 0]
    run = dpdk.capture(tmp_path, *arguments, prefix=("prlimit", "--fsize=3000000"))
    assert run.status == 1
    assert "File too large; raise the limit on file sizes (ulimit -f) or use --rotate-bytes" in run.stderr
    assert dpdk.read_pcap(tmp_path / "c.pcap.part") == (FRAMES[: run.counts["written"]], 0)
    assert run.counts["written"] > 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["--vdev", "net_null0", "--write", "missing/c.pcap"],
            1,
            "missing/c.pcap.part: No such file or directory; create the directory first",
        ),
        (["--vdev", "net_null0", "--write", "c.txt"], 2, "--write c.txt: the name must end in .pcap or .pcapng"),
        (["--write", "c.pcap"], 2, "no port: use one of --vdev, --pci and --generate"),
        (["--write", "c.pcap", "--vdev", "net_null0", "--generate", "60"], 2, "several kinds of ports: use one of"),
        (["--vdev", "net_null0", "--write", "c.pcap", "--snaplen", "-1"], 2, "--snaplen -1: not a whole number from 0"),
        (["--vdev", "net_null0", "--write", "c.pcap", "--burst", "1x"], 2, "--burst 1x: not a whole number"),
        (
            ["--vdev", "net_null0", "--write", "c.pcap", "--format", "pcapng"],
            2,
            "--format pcapng: does not match the name c.pcap",
        ),
        (["--vdev", "net_null0", "--write", "c.pcap", "--nonsense"], 2, "--nonsense: unknown"),
        (
            ["--vdev", "net_null0", "--write", "c.pcap", "--clock", "hardware"],
            1,
            "net_null does not support timestamps",
        ),
        (["--vdev", "net_null0", "--write", "c.pcap", "surplus"], 2, "surplus: not an option"),
    ],
)
def test_usage_errors_are_one_line_and_create_no_file(tmp_path, arguments, status, message):
    done = run_program(*dpdk.command(*arguments), cwd=tmp_path, timeout=dpdk.LIMIT_S)
    assert done.returncode == status, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("acapella-dpdk-capture: error: ")
    assert message in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_writers_handle_short_interrupted_and_failed_writes(tmp_path):
    check_c_tests("clock", "output")


FAULT_FRAMES = dpdk.some_frames(400, sizes=(64, 1514, 9000))  # 1.4 MB
# Number of calls of each kind that fail, one per run. `make soak` tests all, but at most 200 allocations.
FAILING_CALLS = {"write": 2, "sync": 1, "rename": 1, "malloc": 2}


def with_fault(directory: Path, preload: Path, call: str) -> tuple[dpdk.Run, int]:
    """Run a capture in which a call fails (number 0: none); return the capture and the number of calls of this kind.

    The program has no sanitizers, which replace malloc. Calls count from the first open of the capture file.
    """
    directory.mkdir()
    count, program = directory / "count", dpdk.plain_build() / "acapella-dpdk-capture"
    files = ["--rotate-bytes", "500K", "--buffer-bytes", "128K", "--write", directory / "c.pcap"]
    argv = [program, *dpdk.from_file(directory, FAULT_FRAMES), "--writer", "buffered", *files]
    fault = {"LD_PRELOAD": str(preload), "ACAPELLA_FAIL": call, "ACAPELLA_FAIL_FROM": str(directory / "c")}
    done = run_program(*argv, timeout=dpdk.LIMIT_S, env=os.environ | fault | {"ACAPELLA_FAIL_COUNT": str(count)})
    counted = dict(map(str.split, count.read_text().splitlines())) if count.exists() else {}
    return dpdk.finished(directory, done.returncode, done.stderr), int(counted.get(call.partition(":")[0], 0))


@pytest.mark.soak
@pytest.mark.parametrize("kind", FAILING_CALLS)
def test_failed_system_call_leaves_whole_files_and_one_line(tmp_path, preload, kind):
    """As in SQLite's tests, the n-th write, fsync, rename or malloc fails, except calls of io_uring and libc."""
    faultless, total = with_fault(tmp_path / "faultless", preload, f"{kind}:0")
    assert faultless.status == 0 and total > 0, faultless.stderr
    assert [frame for path in faultless.files() for frame in dpdk.read_pcap(path)[0]] == FAULT_FRAMES
    limit = min(total, 200) if kind == "malloc" else total
    for number in random.Random(kind).sample(range(1, limit + 1), limit if SOAK else min(limit, FAILING_CALLS[kind])):
        directory = tmp_path / f"{number}"
        run, _ = with_fault(directory, preload, f"{kind}:{number}")
        what = f"{kind} {number} of {total}: exit code {run.status}, {run.stderr}"
        if kind == "malloc" and run.accounts and run.accounts["nic"]["ierrors"]:
            # libpcap could not allocate the buffer of the input file, and net_pcap returns other bytes.
            shutil.rmtree(directory)
            continue
        frames = []
        for path in sorted(directory.glob("c*.pcap*")):
            found, left = dpdk.read_pcap(path) if path.stat().st_size else ([], 0)
            assert left == 0, (path, what)
            frames += found
        positions = [FAULT_FRAMES.index(frame) for frame in frames]
        assert positions == sorted(set(positions)), what
        assert run.status > 0 or frames == FAULT_FRAMES, what
        assert sum("error: " in line for line in run.stderr.splitlines()) == (run.status != 0), what
        shutil.rmtree(directory)
