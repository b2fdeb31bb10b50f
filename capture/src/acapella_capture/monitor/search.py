"""Searches of RFC 2544: the highest rate without loss (throughput, section 26.1), latency at that rate (26.2), and the
longest burst without loss (back-to-back frames, 26.4).

A trial offers packets and reports what arrived. The searches halve an interval, so that the result is the highest value
up to which no trial of the search lost a packet, within the resolution.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

FRAME_BYTES = (60, 124, 252, 508, 1020, 1276, 1514)  # RFC 2544, section 9.1, without FCS
ATTEMPTS = 3  # attempts per trial: the generator may wait for a CPU
OVERHEAD_BYTES = 24  # preamble, start delimiter, FCS and minimum gap (IEEE 802.3), which use the line


@dataclass(frozen=True)
class Trial:
    """A trial: packets offered and lost, the rate of the departures, and latencies in ns (None: no packet arrived).

    ``reached``: the generator offered the packets at the requested rate. ``lost``: None if packets remained in the
    queue of its device, so that the loss is unknown.
    """

    offered: int
    lost: int | None
    rate_pps: float
    reached: bool = True
    latency_min_ns: int | None = None
    latency_mean_ns: float | None = None
    latency_max_ns: int | None = None
    jitter_ns: float | None = None

    @property
    def good(self) -> bool:
        """Return whether packets were offered at the requested rate and none were lost."""
        return self.offered > 0 and self.lost == 0 and self.reached


@dataclass(frozen=True)
class SearchResult:
    """The result of a search: the highest value without loss, the trial with this value, and all trials in order.

    ``value`` is None if even the trial with the lowest value failed.
    """

    value: float | None
    trial: Trial | None
    trials: tuple[tuple[float, Trial], ...]

    @property
    def limit(self) -> str | None:
        """Return why the result is not higher: the next higher trial lost packets (``loss``), the generator did not
        reach it (``generator``), or it is the highest value of the search (``range``). None without a result.
        """
        if self.value is None:
            return None
        higher = [(value, trial.lost) for value, trial in self.trials if value > self.value]
        return ("loss" if min(higher, key=itemgetter(0))[1] else "generator") if higher else "range"


def line_pps(line_bps: float, frame_bytes: int) -> float:
    """Return the packets per second that a line carries."""
    return line_bps / (8 * (frame_bytes + OVERHEAD_BYTES))


def repeat_until_reached(trial: Callable[[], Trial]) -> Trial:
    """Run a trial until its packets were offered at the requested rate, at most ATTEMPTS times; return the last one."""
    for _ in range(ATTEMPTS - 1):
        if (result := trial()).reached:
            return result
    return trial()


def highest(
    trial: Callable[[float], Trial], lower: float, upper: float, resolution: float, near: float | None = None
) -> SearchResult:
    """Return the highest value from ``lower`` to ``upper`` without loss, by halving an interval.

    The search ends if the interval, at whose lower end no packet was lost, is at most ``resolution`` wide. With
    ``near``, an estimate of the result, the interval begins around it; otherwise it is the whole range.
    """
    done: list[tuple[float, Trial]] = []

    def good(value: float) -> bool:
        done.append((value, trial(value)))
        return done[-1][1].good

    if near is None:
        low, high = (upper, None) if good(upper) else (lower, upper) if good(lower) else (None, lower)
    else:
        low, high = bracket(good, lower, upper, resolution, near)
    while low is not None and high is not None and high - low > resolution:
        middle = (low + high) / 2
        low, high = (middle, high) if good(middle) else (low, middle)
    best = next((result for value, result in done if value == low), None)
    return SearchResult(low, best, tuple(done))


def bracket(
    good: Callable[[float], bool], lower: float, upper: float, step: float, near: float
) -> tuple[float | None, float | None]:
    """Return a good value and a higher bad one, found in steps away from ``near`` that double.

    One of them is None if even ``lower`` is bad, or even ``upper`` is good.
    """
    low, high, value = None, None, min(max(near, lower), upper)
    while low is None or high is None:
        if good(value):
            low, value = value, min(value + step, upper)
        else:
            high, value = value, max(value - step, lower)
        if value in (low, high):
            break
        step *= 2
    return low, high


def longest_burst(trial: Callable[[int], Trial], max_length: int) -> SearchResult:
    """Return the longest burst, from 1 to ``max_length`` packets, of which all packets arrive; ``trial`` sends it."""
    good, bad = 0, max_length + 1
    done: list[tuple[float, Trial]] = []
    while bad - good > 1:
        length = max_length if not done else (good + bad) // 2
        result = trial(length)
        done.append((length, result))
        if result.good:
            good = length
        else:
            bad = length
    best = next((result for value, result in reversed(done) if value == good), None)
    return SearchResult(good or None, best, tuple(done))


def rows(searches: Iterable[tuple[int, int, str, str, SearchResult]], planned: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of monitor_searches from (ports, frame bytes, capture, measure, result).

    ``planned``: number of searches of the run.
    """
    for ports, frame_bytes, capture, measure, found in searches:
        for number, (value, trial) in enumerate(found.trials):
            yield {
                "ports": ports,
                "frame_bytes": frame_bytes,
                "capture": capture,
                "measure": measure,
                "trial": number,
                "value": float(value),
                "offered": trial.offered,
                "lost": trial.lost,
                "rate_pps": trial.rate_pps,
                "reached": trial.reached,
                "latency_min_ns": trial.latency_min_ns,
                "latency_mean_ns": trial.latency_mean_ns,
                "latency_max_ns": trial.latency_max_ns,
                "jitter_ns": trial.jitter_ns,
                "result": found.trial is not None and trial is found.trial,
                "limit": found.limit if trial is found.trial else None,
                "searches": planned,
            }
