"""Compares clocks: the offset of an agent's clock by round trips, and the offset that a node's clock program reports.

An agent receives a request at t2 and responds at t3 on its clock; the controller sends it at t1 and receives the
response at t4. The offset of the agent's clock is ((t2 - t1) + (t3 - t4)) / 2. Its error is at most half of the round
trip (t4 - t1) - (t3 - t2), for any delays (RFC 5905, section 8). The shortest of several round trips is used.
"""

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..control.watchdog import CLOCK, clock_error_ns, parse_clock

ROUND_TRIPS = 16
PROGRAM_S = 10  # timeout of the clock program, which runs chronyc, pmc or timedatectl


@dataclass(frozen=True)
class Offset:
    """The offset of a clock from a reference, in ns; the error is at most ``error_ns``."""

    offset_ns: int
    error_ns: int

    def union(self, other: "Offset") -> "Offset":
        """Return the offset that covers both, for a clock that was compared twice and may have drifted in between."""
        low = min(self.offset_ns - self.error_ns, other.offset_ns - other.error_ns)
        high = max(self.offset_ns + self.error_ns, other.offset_ns + other.error_ns)
        middle = (low + high) // 2
        return Offset(middle, max(high - middle, middle - low))


def offset_of(round_trips: Iterable[tuple[int, int, int, int]]) -> Offset:
    """Return the offset from the shortest of several round trips (t1, t2, t3, t4)."""
    t1, t2, t3, t4 = min(round_trips, key=lambda times: (times[3] - times[0]) - (times[2] - times[1]))
    round_trip_ns = (t4 - t1) - (t3 - t2)
    return Offset(((t2 - t1) + (t3 - t4)) // 2, max(round_trip_ns, 0) // 2 + 1)


def measure(request: Callable[[], tuple[int, int]], now_ns: Callable[[], int], count: int = ROUND_TRIPS) -> Offset:
    """Return the offset of a clock; ``request`` returns the times at which it received a request and responded."""
    return offset_of((sent_ns, *request(), now_ns()) for sent_ns in (now_ns() for _ in range(count)))


def max_clock_error_ns(done: Mapping[str, Any]) -> int | None:
    """Return the largest error during a run between a program's clock and the system clock, from its event `done`.

    The program reads a clock that takes less time to read than the system clock. Programs of older versions only report
    the error at the end of the run. None if neither is known.
    """
    clock = done.get("clock")
    for key in ("largest_error_ns", "error_ns"):
        error_ns = clock.get(key) if isinstance(clock, Mapping) else None
        if type(error_ns) is int and 0 <= error_ns < 1 << 63:
            return error_ns
    return None


def own_clock() -> dict[str, Any]:
    """Return the state of this machine's clock: manifest key `clock`, and `error_ns`. Unknown values are None."""
    try:
        result = subprocess.run(
            ["sh", "-c", CLOCK],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROGRAM_S,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return clock_of("")
    return clock_of(result.stdout)


def clock_of(printed: str) -> dict[str, Any]:
    """Return the state of a clock from the output of the clock program."""
    return parse_clock(printed) | {"error_ns": clock_error_ns(printed)}
