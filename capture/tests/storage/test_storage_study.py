"""The storage study: output of bpftrace, restored settings, reasons for skipped measurements."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.new_files import write_file
from acapella_testing.processes import run, running
from acapella_testing.requirements import require, require_programs, require_root, required
from acapella_testing.waiting import wait_until

from acapella_capture.storage import NotMeasurable, rates, thresholds, trace

COMMAND = [sys.executable, "-m", "acapella.cli.main", "measure", "storage"]
BINS = '[{"min": 4, "max": 7, "count": 2}, {"min": 8, "max": 15, "count": 0}, {"min": 16, "max": 31, "count": 1}]'
MORE = BINS.replace('"count": 0', '"count": 1')
BPFTRACE_OUTPUT = f"""\
{{"type": "attached_probes", "data": {{"probes": 4}}}}
{{"type": "printf", "data": "at 1000\\n"}}
{{"type": "printf", "data": "at 2000\\n"}}
{{"type": "hist", "data": {{"@latency": {BINS}}}}}
{{"type": "map", "data": {{"@sum": 30}}}}
{{"type": "map", "data": {{"@longest": 18}}}}
{{"type": "map", "data": {{"@bytes": 600}}}}
{{"type": "printf", "data": "at 3000\\n"}}
{{"type": "hist", "data": {{"@latency": {MORE}}}}}
{{"type": "map", "data": {{"@sum": 45}}}}
{{"type": "map", "data": {{"@longest": 18}}}}
{{"type": "map", "data": {{"@bytes": 800}}}}
no JSON
{{"type": "map", "data": {{"@began": {{"77": 12}}}}}}
"""


def test_intervals_match_the_output_of_bpftrace():
    sums = []
    for line in BPFTRACE_OUTPUT.splitlines():
        trace.parse_line(line, sums)
    assert sums == [
        trace.Interval(1000),
        trace.Interval(2000, bytes=600, latency_ns=30, longest_ns=18, buckets=[(4, 7, 2), (16, 31, 1)]),
        trace.Interval(3000, bytes=800, latency_ns=45, longest_ns=18, buckets=[(4, 7, 2), (8, 15, 1), (16, 31, 1)]),
    ]
    assert sums[2].since(sums[1]) == trace.Interval(3000, bytes=200, latency_ns=15, longest_ns=18, buckets=[(8, 15, 1)])
    assert [each.calls for each in sums] == [0, 3, 4]


def test_bytes_without_another_call_count_in_the_interval_of_the_latest_call():
    """bpftrace reads the maps one after the other, while calls continue."""
    bucket, sums = (4, 7, 1), [trace.Interval(1, bytes=5), trace.Interval(2, bytes=20, buckets=[(4, 7, 1)])]
    sums += [trace.Interval(3, bytes=30, buckets=[bucket]), trace.Interval(4, bytes=70, buckets=[(4, 7, 3)])]
    first, second = trace.differences(sums)
    assert (first.at_ns, first.bytes, first.calls) == (2, 30, 1)
    assert (second.at_ns, second.bytes, second.calls) == (4, 40, 2)


def test_events_that_bpftrace_or_the_kernel_loses_are_counted():
    assert trace.lost_messages('{"type": "lost_events", "data": {"events": 7}}\n') == 7
    assert trace.lost_messages('{"type": "printf", "data": "at 1"}\n') == 0
    assert trace.skipped_events(os.getpid(), "6.18.4-x") == 0, "this process has no program"
    assert trace.skipped_events(os.getpid(), "6.1.0-18-amd64") is None, "does not count them"


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Provide a function that reads files like those in /proc/sys/vm; writing one of a pair sets the other to 0."""
    directory = tmp_path / "vm"
    values = {"dirty_ratio": 20, "dirty_background_ratio": 0, "dirty_bytes": 0, "dirty_background_bytes": 4096}
    for name, value in values.items():
        write_file(directory / name, f"{value}\n")
    monkeypatch.setattr(thresholds, "VM", directory)
    put = thresholds.put

    def put_like_the_kernel(name: str, value: int) -> None:
        put(name, value)
        stem, _, kind = name.rpartition("_")
        put(f"{stem}_{'ratio' if kind == 'bytes' else 'bytes'}", 0)

    monkeypatch.setattr(thresholds, "put", put_like_the_kernel)
    return lambda: {path.name: int(path.read_text()) for path in sorted(directory.iterdir())}


@pytest.mark.parametrize("memory_mb", [None, 100])
def test_thresholds_are_restored_after_an_error(settings, memory_mb):
    before = settings()
    with pytest.raises(RuntimeError), thresholds.set_thresholds(10, 20, memory_mb) as memory:
        now = settings()
        if memory_mb:
            assert (now["dirty_background_bytes"], now["dirty_bytes"], memory) == (10_000_000, 20_000_000, 100_000_000)
        else:
            assert (now["dirty_background_ratio"], now["dirty_ratio"]) == (10, 20)
        raise RuntimeError
    assert settings() == before


def test_measurement_is_skipped_if_thresholds_cannot_be_set(settings, monkeypatch):
    monkeypatch.setattr(thresholds, "VM", thresholds.VM / "none")
    with pytest.raises(NotMeasurable, match="dirty_bytes cannot be set"):
        thresholds.put("dirty_bytes", 1)


def test_inconsistent_frame_counts_are_an_error():
    generator = {"offered": 100, "refused": 30, "left": 1, "seconds": 0.5}
    frames = {"written": 60, "written_bytes": 6000, "dropped": {"writer_full": 9}}
    measured = rates.counted({"generator": generator, "frames": frames})
    assert [measured[name] for name in ("offered", "written", "lost", "offered_ns")] == [100, 60, 40, 500_000_000]
    with pytest.raises(ValueError, match="offered 100 frames differ from 59 written plus 40 lost"):
        rates.counted({"generator": generator, "frames": frames | {"written": 59}})


def measure(directory: Path, path: str, *arguments: object) -> tuple[subprocess.CompletedProcess, dict]:
    """Run `acapella measure storage` with this PATH; return the finished process and the content of its file."""
    done = run(*COMMAND, "-o", directory / "study.json", *arguments, env=os.environ | {"PATH": path}, timeout=300)
    assert done.returncode == 0, done.stderr
    return done, json.loads((directory / "study.json").read_text())


def test_missing_bpftrace_or_root_is_recorded_in_one_line(tmp_path):
    done, measured = measure(tmp_path, str(tmp_path))
    reason = "bpftrace is missing; apt-get install bpftrace" if os.geteuid() == 0 else "not root: "
    assert measured["skipped"].startswith(reason)
    assert measured["runs"] == []
    assert done.stdout.splitlines() == [f"storage: skipped: {measured['skipped']}"]


def test_thresholds_in_descending_order_are_rejected():
    done = run(*COMMAND, "-o", "none.json", "--thresholds", "20:10")
    assert done.returncode == 2
    assert "20:10: not two percentages in ascending order" in done.stderr


def needs_bpftrace() -> str:
    """Return PATH with the measured program; skip the test if measuring is impossible."""
    require_root("no bpftrace")
    require_programs("bpftrace")
    return f"{dpdk.built_or_skip().parent}{os.pathsep}{os.environ['PATH']}"


def machine_thresholds() -> dict[str, int]:
    """Return the machine's thresholds, read while no other test changes them."""
    names = (f"{name}_{kind}" for name in thresholds.NAMES for kind in ("ratio", "bytes"))
    with thresholds.exclusive():
        return {name: thresholds.value_of(name) for name in names}


@pytest.mark.soak
def test_traced_and_missed_bytes_of_both_writers_equal_the_written_bytes(tmp_path):
    path, before = needs_bpftrace(), machine_thresholds()
    arguments = ["--thresholds", "10:20", "--memory-mb", 64, "--rate", 50000, "--seconds", 0.5, "--table-seconds", 0]
    _, measured = measure(tmp_path, path, *arguments)
    if measured["skipped"] or measured["notes"]:
        pytest.skip(measured["skipped"] or measured["notes"][0])
    assert machine_thresholds() == before
    buffered, direct = measured["runs"]
    assert (buffered["writer"], buffered["call"]) == ("buffered", "writev")
    assert (direct["writer"], direct["call"]) == ("direct", "io_uring")
    for result in (buffered, direct):
        assert result["offered"] == result["written"] + result["lost"]
        assert result["written"] > 0
        assert all(each["calls"] == sum(calls for _, _, calls in each["buckets"]) > 0 for each in result["intervals"])
        assert sum(each["latency_ns"] for each in result["intervals"]) >= result["intervals"][-1]["longest_ns"] > 0
        assert result["missed_bytes"] >= 0
        assert result["lost_messages"] == 0
        assert result["missed_bytes"] == 0 or result["skipped_events"] != 0, "only the kernel skips events"
    # the direct writer writes the unaligned end without O_DIRECT, which is not traced
    for result, written in ((buffered, buffered["written_bytes"]), (direct, direct["written_bytes"] // 4096 * 4096)):
        assert sum(each["bytes"] for each in result["intervals"]) + result["missed_bytes"] == written
    assert [path.name for path in tmp_path.iterdir()] == ["study.json"]


def test_interrupted_study_leaves_nothing(tmp_path):
    path, before = needs_bpftrace(), machine_thresholds()
    argv = [*COMMAND, "-o", tmp_path / "study.json", "--thresholds", "10:20", "--memory-mb", "4096", "--rate", "1000"]
    argv += ["--seconds", "60"]
    with running(argv, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: process.poll() is not None or [*tmp_path.glob("acapella-scratch-*/c.json.part")])
        process.terminate()
        measured = process.communicate(timeout=60)[0]
    require(process.returncode != 0, measured.strip())
    assert process.returncode == 128 + signal.SIGTERM
    assert machine_thresholds() == before
    assert list(tmp_path.iterdir()) == []


def test_rates_decrease_until_a_run_loses_nothing(tmp_path, monkeypatch):
    requested = []

    def lossy_run(*arguments):
        requested.append(arguments[-1])
        return {"written": 1000, "whole_ns": 10**9, "lost": 10 * ((requested[-1] or 1000) > 600)}

    monkeypatch.setattr(rates, "run", lossy_run)
    assert len(list(rates.sweep(tmp_path, "direct", 200, 1514, 1))) == 4
    assert requested == [None, 900, 700, 500]


def test_table_run_accounts_for_every_frame_and_leaves_no_file(tmp_path):
    required(rates.executable)
    row = rates.run(tmp_path, "direct", 64, 1514, 0.2, 10_000)
    assert row["offered"] == row["written"] + row["lost"] > 0
    assert (row["frame_bytes"], row["snaplen"], row["wanted_fps"]) == (1514, 64, 10_000)
    assert list(tmp_path.iterdir()) == []
