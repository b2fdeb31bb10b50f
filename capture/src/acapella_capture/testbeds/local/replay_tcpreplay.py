"""Sends the trials of a testbed with tcpreplay."""

import re
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

from . import sandbox
from .processes import PRIORITY, REAL_TIME, priority_allowed, start
from .replay_path import Endpoint

SENT = re.compile(r"Successful packets:\s+(\d+)\s+Failed packets:\s+(\d+)\s+Truncated packets:\s+(\d+)")
UNKNOWN = ("sent_late", "late_ns", "preemptions", "largest_gap_ns", "median_gap_ns", "skew_ns", "skew_error_ns")


class TcpreplaySender:
    """tcpreplay on one host. ``rate_pps``: the capture's fixed rate, or None to preserve each gap."""

    name = "tcpreplay"

    def __init__(self, endpoint: Endpoint, capture: Path, speed: float, rate_pps: int | None):
        self._endpoint = endpoint
        self._capture = capture
        self._speed = speed
        self._rate_pps = rate_pps
        self._priority: int | None = None

    @staticmethod
    def require() -> None:
        """Raise UserError if the program is not installed."""
        sandbox.require("tcpreplay", "tcpreplay")

    def open(self) -> None:
        """Do nothing: each trial starts the program."""

    def close(self) -> None:
        """Do nothing: the program ends with the trial."""

    def send(self) -> int:
        """Send the capture once and return the number of packets. Raises UserError if some were not sent."""
        where = f"node {self._endpoint.node}"
        job = start(self._endpoint.node, self.argv())
        job.wait(None)
        sent = SENT.search(job.log())
        if job.poll() != 0 or not sent:
            raise UserError(f"tcpreplay failed: {job.last_line()}", where=where)
        good, *bad = map(int, sent.groups())
        if any(bad):
            raise UserError(f"tcpreplay sent {good} packets and failed to send {sum(bad)}", where=where)
        return good

    def argv(self) -> list[str]:
        """Return the command: with real-time priority if permitted, otherwise polling the clock.

        A real-time program must not loop without a pause: the kernel stops it for 50 ms of each second. With `--pps`,
        tcpreplay keeps a fixed rate; without it, tcpreplay preserves each gap, and a late packet delays all later ones.
        """
        allowed = priority_allowed(self._endpoint.node)
        self._priority = PRIORITY if allowed else 0
        timing = ["--timer=nano"] if allowed else ["--timer=gtod"]
        if self._rate_pps is not None:
            timing.append(f"--pps={self._rate_pps * self._speed:.10g}")
        elif self._speed != 1:
            timing.append(f"--multiplier={self._speed:.10g}")
        options = ["--preload-pcap", "--quiet", *timing, f"--intf1={self._endpoint.interface}"]
        command = ["tcpreplay", *options, str(self._capture)]
        return [*REAL_TIME, *command] if allowed else command

    def deliver(self, sample: str, raw: Path) -> dict[str, Any]:
        """Return the keys of manifest key `replay` that depend on the sender; tcpreplay measures nothing."""
        del sample, raw
        known = {"polling": None, "priority": self._priority, "recordings": [], "departures": []}
        return known | dict.fromkeys(UNKNOWN)
