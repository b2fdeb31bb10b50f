"""Latency of a process's writes, by bpftrace: a histogram, a sum, and the bytes, every 50 ms."""

import json
import os
import platform
import re
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from ..programs.child_process import kill_and_reap
from . import NotMeasurable

TRACEFS = Path("/sys/kernel/tracing")
START_S = 30  # timeout for attaching the probes
STOP_S = 20
INTERVAL_MS = 50
TRACEPOINT = 5  # BPF_PROG_TYPE_TRACEPOINT (linux/bpf.h)
COUNTED_SINCE = (6, 7)  # first Linux version that counts the events for which it skips the programs of a tracepoint
WRITES = (2, 5, 23)  # IORING_OP_WRITEV, _WRITE_FIXED, _WRITE (linux/io_uring.h)
# The address of a request identifies its completion, which may occur in any thread.
BEGIN = {
    "writev": "tracepoint:syscalls:sys_enter_writev /pid == {pid}/ {{ @began[tid] = nsecs; }}",
    "io_uring": "tracepoint:io_uring:{submit} /pid == {pid} && ({writes})/ {{ @began[args->req] = nsecs; }}",
}
END = {
    "writev": ("tracepoint:syscalls:sys_exit_writev", "tid", "ret"),
    "io_uring": ("tracepoint:io_uring:io_uring_complete", "args->req", "res"),
}
MEASURE = """
{probe} /@began[{key}]/ {{
  $took = nsecs - @began[{key}]; delete(@began[{key}]);
  @latency = hist($took); @sum = sum($took); @longest = max($took);
  if (args->{result} > 0) {{ @bytes = sum(args->{result}); }}
}}
"""
# These maps are never cleared: bpftrace reads them with a delay, so a clear would also remove events it has not read.
PRINT = 'printf("at %llu\\n", nsecs); print(@latency); print(@sum); print(@longest); print(@bytes);'


def script(call: str, pid: int) -> str:
    """Return the bpftrace program for `call` (writev or io_uring) of a process."""
    writes = " || ".join(f"args->opcode == {code}" for code in WRITES)
    probe, key, result = END[call]
    lines = [BEGIN[call].format(pid=pid, submit=submit_probe() if call == "io_uring" else "", writes=writes)]
    lines += [MEASURE.format(probe=probe, key=key, result=result)]
    lines += [f"interval:ms:{INTERVAL_MS} {{ {PRINT} }}", f"END {{ {PRINT} clear(@began); }}"]
    return "\n".join(lines)


def submit_probe() -> str:
    """Return the name of the tracepoint of submissions, which changed in Linux 6.4."""
    for name in ("io_uring_submit_req", "io_uring_submit_sqe"):
        if (TRACEFS / "events" / "io_uring" / name).exists():
            return name
    raise NotMeasurable("the kernel has no tracepoint for io_uring submissions")


@dataclass
class Interval:
    """Events until `at_ns` (CLOCK_MONOTONIC). buckets: (lower, upper, calls), ns. longest_ns: of all so far."""

    at_ns: int
    bytes: int = 0
    latency_ns: int = 0
    longest_ns: int = 0
    buckets: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return sum(calls for _, _, calls in self.buckets)

    def since(self, previous: "Interval") -> "Interval":
        """Return the events after `previous`; both are sums since the start."""
        previous_calls = {(lower, upper): calls for lower, upper, calls in previous.buckets}
        differences = [
            (lower, upper, calls - previous_calls.get((lower, upper), 0)) for lower, upper, calls in self.buckets
        ]
        return Interval(
            self.at_ns,
            self.bytes - previous.bytes,
            self.latency_ns - previous.latency_ns,
            self.longest_ns,
            [bucket for bucket in differences if bucket[2]],
        )


NAMES = {"@sum": "latency_ns", "@longest": "longest_ns", "@bytes": "bytes"}


def parse_line(line: str, sums: list[Interval]) -> None:
    """Add one line of bpftrace's JSON to the sums since the start; unknown lines are ignored."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError:
        return
    kind, data = record.get("type"), record.get("data")
    if kind == "printf" and data.startswith("at "):
        sums.append(Interval(int(data.split()[1])))
    elif kind == "hist" and "@latency" in data and sums:
        sums[-1].buckets = [
            (bucket["min"], bucket["max"], bucket["count"]) for bucket in data["@latency"] if bucket["count"]
        ]
    elif kind == "map" and sums:
        for name, value in data.items():
            if name in NAMES:
                setattr(sums[-1], NAMES[name], value)


def lost_messages(line: str) -> int:
    """Return the number of messages that bpftrace reports as lost in one line of its JSON."""
    found = re.fullmatch(r'\{"type": "lost_events", "data": \{"events": (\d+)\}\}', line.strip())
    return int(found[1]) if found else 0


def differences(sums: list[Interval]) -> list[Interval]:
    """Return the events between sums since the start, for each interval in which calls ended.

    bpftrace reads one map after the other, so bytes may be in a sum before or after the call that wrote them. Without a
    later call, they count in the interval of the latest call.
    """
    kept = [Interval(0)]
    for current in sums:
        if current.calls > kept[-1].calls:
            kept.append(current)
        elif len(kept) > 1:
            kept[-1] = replace(current, at_ns=kept[-1].at_ns)
    return [current.since(previous) for previous, current in pairwise(kept)]


def skipped_events(pid: int, version: str) -> int | None:
    """Return the number of events for which the kernel did not run a process's programs; None if it does not count.

    It skips a program while a program is already running on the same processor. Events of all processes count.
    """
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < COUNTED_SINCE:
        return None
    total = 0
    for path in Path(f"/proc/{pid}/fdinfo").glob("*"):
        try:
            lines = path.read_text(encoding="ascii").splitlines()
        except OSError:
            continue  # closed in the meantime
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        if fields.get("prog_type", "").strip() == str(TRACEPOINT):
            total += int(fields["recursion_misses"])
    return total


class Trace:
    """A running bpftrace that observes one process within a `with` block."""

    def __init__(self, call: str, pid: int):
        self._sums: list[Interval] = []
        self._attached = threading.Event()
        self._errors: list[str] = []
        self.lost_messages = 0
        self.skipped_events: int | None = None
        self._command = ["bpftrace", "-B", "line", "-f", "json", "-e", script(call, pid)]

    def __enter__(self) -> "Trace":
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = subprocess.Popen(self._command, text=True, **pipes)
        self._threads = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for thread in self._threads:
            thread.start()
        attached = False
        try:
            attached = self._wait_until_attached()
        finally:  # even after an interrupt
            if not attached:
                self.__exit__()
        if not attached:
            raise NotMeasurable(f"bpftrace: {self._reason()}")
        return self

    def __exit__(self, *_: object) -> None:
        """Stop bpftrace; the intervals then include the last one, up to now."""
        if self._process.poll() is None:
            self.skipped_events = skipped_events(self._process.pid, platform.release())
            self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            kill_and_reap(self._process)
        for thread in self._threads:
            thread.join()
        self._process.stdout.close()
        self._process.stderr.close()

    def _wait_until_attached(self) -> bool:
        """Wait until the probes are attached. Return False if bpftrace ends first, or after START_S."""
        end = time.monotonic() + START_S
        while not self._attached.wait(0.05):
            if self._process.poll() is not None or time.monotonic() > end:
                return False
        return True

    @property
    def bytes(self) -> int:
        """Bytes written so far."""
        return self._sums[-1].bytes if self._sums else 0

    @property
    def intervals(self) -> list[Interval]:
        """Events of each interval in which calls ended; complete once the trace has ended."""
        return differences(self._sums)

    def _read(self) -> None:
        for line in self._process.stdout:
            if '"attached_probes"' in line:
                self._attached.set()
            parse_line(line, self._sums)
            self.lost_messages += lost_messages(line)

    def _read_errors(self) -> None:
        self._errors.extend(line.strip() for line in self._process.stderr if line.strip())

    def _reason(self) -> str:
        messages = [line for line in self._errors if "RLIMIT_MEMLOCK" not in line]
        return messages[-1] if messages else "it cannot start"


def check() -> None:
    """Raise NotMeasurable if bpftrace cannot be used on this machine."""
    if os.geteuid() != 0:
        raise NotMeasurable("bpftrace and the dirty thresholds require root")
    if shutil.which("bpftrace") is None:
        raise NotMeasurable("bpftrace is missing; apt-get install bpftrace")
