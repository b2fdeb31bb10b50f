"""Runs of the DPDK writer, with generated frames, for each pair of thresholds."""

import ctypes
import json
import os
import platform
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

from ..programs.child_process import kill_and_reap
from ..programs.dpdk import executable
from . import NotMeasurable, disk, rates, thresholds, trace

CALLS = {"buffered": "writev", "direct": "io_uring"}
VERSION = 2  # version of the result's format; campaign/storage.py reads it
DIRECT_BYTES = 4096  # the direct writer writes multiples of this; a different call writes the end of the file
CLONE_NEWNS = 0x00020000  # linux/sched.h
SAMPLE_S = 0.02
LIMIT_MULTIPLE = 2  # multiple of the upper threshold to write, time permitting
ORPHAN_S = 10  # a writer whose supervisor was killed ends this long after the end of its run
DISK_HEADROOM = 1.5  # size of the temporary disk, relative to the bytes written


@dataclass(frozen=True)
class Settings:
    """Parameters. thresholds: percent, background and upper. rate: frames per second, None for no limit."""

    thresholds: tuple[tuple[int, int], ...]
    memory_mb: int | None
    disks_mbps: tuple[int | None, ...]
    frame_bytes: int
    snaplen: int
    rate: float | None
    seconds: float
    table_seconds: float = 0  # duration of each run of the rate tables; 0: no run


@dataclass(frozen=True)
class Case:
    """The conditions of one run."""

    background_percent: int
    limit_percent: int
    disk_mbps: int | None
    writer: str

    def __str__(self) -> str:
        disk_text = f"a disk of {self.disk_mbps} MB/s" if self.disk_mbps else "the disk as it is"
        return f"{self.background_percent}:{self.limit_percent}, {disk_text}, {self.writer}"


def cases(settings: Settings) -> Iterator[Case]:
    """Yield all runs in their order."""
    for mbps in settings.disks_mbps:
        for background, limit in settings.thresholds:
            for writer in CALLS:
                yield Case(background, limit, mbps, writer)


def study(settings: Settings, parent: Path, report=print) -> dict[str, Any]:
    """Return all results.

    `skipped` is the reason if `runs` is empty; `notes` are the reasons for parts that were not measured.

    `parent` is a directory on the disk to measure. The process gets a private mount namespace.
    """
    result = {
        "version": VERSION,
        "skipped": None,
        "notes": [],
        "machine": machine(),
        "settings": asdict(settings),
        "runs": [],
        "rates": [],
    }
    try:
        trace.check()
        executable()
        private_mounts()
    except (NotMeasurable, UserError) as reason:
        report(f"storage: skipped: {reason}")
        return {**result, "skipped": str(reason)}
    for case in cases(settings):
        try:
            result["runs"].append(measured(case, settings, parent))
            report(f"storage: {case}: {summary(result['runs'][-1])}")
        except NotMeasurable as reason:
            result["notes"].append(f"{case}: {reason}")
            report(f"storage: {case}: skipped: {reason}")
    if settings.table_seconds:
        tables_of_rates(result, settings, parent, report)
    if not result["runs"]:
        result["skipped"] = result["notes"][0]
    return result


def tables_of_rates(result: dict[str, Any], settings: Settings, parent: Path, report) -> None:
    """Add the runs of Tables 1 and 2 to the result, with thresholds that refer to the memory of the whole machine."""
    try:
        with thresholds.set_thresholds(*rates.THRESHOLDS, None), disk.directory(parent, 0, None) as directory:
            for row in rates.measured(directory, settings.table_seconds):
                result["rates"].append(row)
                frames = f"{row['snaplen']} B of {row['frame_bytes']} B, {row['writer']}"
                report(f"storage: {frames}: {row['written']:,} of {row['offered']:,} frames written")
    except NotMeasurable as reason:
        result["notes"].append(f"tables of rates: {reason}")
        report(f"storage: tables of rates: skipped: {reason}")


def summary(run: dict[str, Any]) -> str:
    """Return a run in one line."""
    waited_ms = sum(interval["latency_ns"] for interval in run["intervals"]) / 1e6
    calls = sum(interval["calls"] for interval in run["intervals"])
    missed = f"; {run['missed_bytes']:,} bytes not traced" if run["missed_bytes"] else ""
    written = f"{run['written']:,} of {run['offered']:,} frames written"
    return f"{calls:,} calls, {waited_ms:,.0f} ms in all, {written}{missed}"


def machine() -> dict[str, Any]:
    """Return a description of the machine to which the results apply."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"kernel": platform.release(), "cores": os.cpu_count(), "memory_bytes": memory}


def private_mounts() -> None:
    """Create a private mount namespace with tracefs and debugfs, which bpftrace needs."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise NotMeasurable(f"no private mount namespace: {os.strerror(ctypes.get_errno())}")
    disk.run("mount", "--make-rprivate", "/")
    for kind, mount_point in (("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug")):
        if not any(Path(mount_point).glob("*")):
            disk.run("mount", "-t", kind, kind, mount_point)


def measured(case: Case, settings: Settings, parent: Path) -> dict[str, Any]:
    """Perform a run and return its results. Raises NotMeasurable if it is impossible."""
    with thresholds.set_thresholds(case.background_percent, case.limit_percent, settings.memory_mb) as memory:
        max_bytes = int(memory * case.limit_percent / 100 * LIMIT_MULTIPLE)
        with disk.directory(parent, int(max_bytes * DISK_HEADROOM) + 256 * thresholds.MB, case.disk_mbps) as directory:
            os.sync()  # exclude data of other programs
            samples, tracing = run_traced(case, settings, directory, max_bytes)
            accounts = json.loads((directory / "c.json").read_text(encoding="utf-8"))
    intervals, counts = tracing.intervals, rates.counted(accounts)
    return {
        **asdict(case),
        "call": CALLS[case.writer],
        "memory_bytes": memory,
        **counts,
        "missed_bytes": call_bytes(case.writer, counts["written_bytes"])
        - sum(interval.bytes for interval in intervals),
        "skipped_events": tracing.skipped_events,
        "lost_messages": tracing.lost_messages,
        "intervals": [with_dirty_memory(interval, samples) for interval in intervals],
    }


def call_bytes(writer: str, written_bytes: int) -> int:
    """Return how many of the bytes of a file were written by the measured call."""
    return written_bytes // DIRECT_BYTES * DIRECT_BYTES if writer == "direct" else written_bytes


def run_traced(case: Case, settings: Settings, directory: Path, max_bytes: int) -> tuple[list, trace.Trace]:
    """Run the writer until `max_bytes` are written or the time is over; return samples of dirty memory and the
    trace."""
    command = [executable(), "--generate", settings.frame_bytes, "--snaplen", settings.snaplen, "--writer", case.writer]
    command += ["--write", directory / "c.pcap", *(["--rate", settings.rate] if settings.rate else [])]
    command += ["--duration", settings.seconds + ORPHAN_S]
    samples = []
    # The shell waits until bpftrace is attached, and keeps its process id when it becomes the writer.
    writer = subprocess.Popen(
        ["sh", "-c", 'read -r go && exec "$@"', "sh", *map(str, command)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        with trace.Trace(CALLS[case.writer], writer.pid) as tracing:
            writer.stdin.write("go\n")
            writer.stdin.flush()
            begin = None
            while writer.poll() is None and (begin is None or time.monotonic() < begin + settings.seconds):
                samples.append((time.monotonic_ns(), thresholds.now()))
                wrote = tracing.bytes
                begin = begin or (time.monotonic() if wrote else None)
                if wrote >= max_bytes:
                    break
                time.sleep(SAMPLE_S)
            writer.send_signal(signal.SIGTERM)
            message = writer.communicate(timeout=rates.END_S)[1]
        if writer.returncode:
            raise NotMeasurable(f"the writer failed: {(message.strip().splitlines() or ['no message'])[-1]}")
        return samples, tracing
    except subprocess.TimeoutExpired as error:
        raise NotMeasurable(f"the writer did not end within {rates.END_S} s") from error
    finally:
        kill_and_reap(writer)


def with_dirty_memory(interval: trace.Interval, samples: list[tuple[int, thresholds.Dirty]]) -> dict[str, Any]:
    """Return an interval with the dirty memory at its end."""
    earlier = [state for at_ns, state in samples if at_ns <= interval.at_ns]
    state = earlier[-1] if earlier else samples[0][1]
    return {
        **asdict(interval),
        "calls": interval.calls,
        "dirty_bytes": state.dirty,
        "writeback_bytes": state.writeback,
        "background_bytes": state.background,
        "limit_bytes": state.limit,
    }
