"""Capture with tcpdump on a node: its command line, and the counts it prints."""

import re
import time
from dataclasses import dataclass, field

from acapella_core.errors import UserError

from ..settings import CaptureSettings
from ..testbeds.base import Job, Testbed

START_S = 20  # timeout for tcpdump to start capturing
DRAIN_S = 10  # timeout for writing the kernel's buffer; the kernel delivers frames at least once per second
STATUS = re.compile(
    r"^(?:tcpdump: )?([0-9]{1,18}) packets? captured,?\s+([0-9]{1,18}) packets? received by filter,?\s+"
    r"([0-9]{1,18}) packets? dropped by kernel(?:,?\s+([0-9]{1,18}) packets? dropped by interface)?",
    re.MULTILINE,
)

# What tcpdump and libpcap print if the output cannot be written; strerror(3) of ENOSPC, EDQUOT, EIO, EFBIG, EROFS.
WRITE_ERROR = re.compile(
    r"unable to write|error writing|write error|No space left on device|Disk quota exceeded|Input/output error|"
    r"File too large|Read-only file system",
    re.IGNORECASE,
)
SIGNALED = 128  # a shell reports a signal as this exit status or above, subprocess as a negative one


@dataclass(frozen=True)
class Counts:
    """Counts of tcpdump: `received` frames passed the filter; of these, `dropped_kernel` did not fit into the buffer.

    `sampled_out` frames passed the filter and were not received because they were not in the sample. `preprocessed` are
    frames that a P4 program did not forward, by reason.
    """

    captured: int
    received: int
    dropped_kernel: int
    dropped_interface: int
    sampled_out: int = 0
    preprocessed: dict[str, int] = field(default_factory=dict)

    @property
    def buffered(self) -> int:
        """Frames that are in the kernel's buffer and not yet in the file."""
        return self.received - self.dropped_kernel - self.captured


def last_counts(log: str) -> Counts | None:
    """Return the last counts in tcpdump's messages; None if there are none."""
    matches = STATUS.findall(log)
    return Counts(*(int(number or 0) for number in matches[-1])) if matches else None


class Tcpdump:
    """One capture. `start` returns when tcpdump captures, `stop` when all frames are written."""

    def __init__(self, testbed: Testbed, node: str, interface: str, settings: CaptureSettings, output: str):
        self.where = f"tcpdump on {node}"
        self._testbed = testbed
        self._node = node
        # To standard output, because tcpdump drops its privileges before it opens a file.
        argv = ["tcpdump", "-i", interface, "-n", "-B", str(settings.buffer_kib), "-s", str(settings.snaplen),
                "--time-stamp-precision=nano", "-w", "-"]  # fmt: skip
        self._argv = argv + (["--", settings.filter] if settings.filter else [])
        self._output = output
        self._job: Job | None = None
        self._requests = 0  # requests for counts

    def start(self) -> None:
        """Start tcpdump. Raises UserError with its message if it ends or does not listen in time."""
        self._job = self._testbed.start(self._node, self._argv, output=self._output)
        if not self._wait_for(lambda log: "listening on" in log, START_S):
            self._job.signal("KILL")
            raise UserError(f"cannot start: {self.message()}", where=self.where)

    def alive(self) -> bool:
        """Return whether tcpdump is still running."""
        return self._job.poll() is None

    def stop(self) -> Counts | None:
        """Let tcpdump write the frames in the kernel's buffer, stop it, and return its counts.

        Returns None if tcpdump ended on request without final counts: its capture may still be complete (see
        `message`). Raises UserError if tcpdump failed before, could not write, was ended by another signal, or does not
        end.
        """
        drained = time.monotonic() + DRAIN_S
        while time.monotonic() < drained and not self._drained():
            pass
        was_running, reports = self.alive(), self._reports()
        if was_running:
            self._job.signal("INT")
        status = self._job.wait(START_S)
        counts = last_counts(self._job.log())
        if status is None:
            self._job.signal("KILL")
            raise UserError(f"did not end: {self.message()}", where=self.where)
        if status == 0 and counts is not None and (not was_running or self._reports() > reports):
            return counts
        if not was_running or not 0 <= status < SIGNALED or WRITE_ERROR.search(self._job.log()):
            raise UserError(f"failed: {self.message()} (exit status {status})", where=self.where)
        return None

    def kill(self) -> None:
        """Kill tcpdump; its capture is not used."""
        self._job.signal("KILL")
        self._job.wait(START_S)

    def message(self) -> str:
        """Return the last line that tcpdump printed."""
        lines = self._job.log().strip().splitlines()
        return lines[-1] if lines else "no message"

    def _drained(self) -> bool:
        """Ask tcpdump for its counts. Return True if the kernel's buffer is empty, or tcpdump has ended.

        If SIGINT arrives while a request is pending, tcpdump responds to it after closing the socket, with "pcap_stats:
        Bad file descriptor". Therefore there is never more than one pending request.
        """
        if not self.alive():
            return True
        if self._reports() == self._requests:
            self._job.signal("USR1")
            self._requests += 1
        if not self._wait_for(lambda log: len(STATUS.findall(log)) >= self._requests, 1):
            return self._job.poll() is not None
        return last_counts(self._job.log()).buffered <= 0

    def _reports(self) -> int:
        return len(STATUS.findall(self._job.log()))

    def _wait_for(self, condition, timeout_s: float) -> bool:
        end = time.monotonic() + timeout_s
        while not condition(self._job.log()):
            if self._job.poll() is not None or time.monotonic() > end:
                return condition(self._job.log())
            time.sleep(0.02)
        return True
