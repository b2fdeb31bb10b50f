"""The skew between replayers with the same start time, from their departures and the offsets of their clocks.

A replayer's deviation is the median of departed - requested, measured on its own clock, minus the clock's offset. The
skew of two replayers is the difference of their deviations. Its uncertainty is the sum of the uncertainties of both:
the largest error of the offset plus the larger side of the 95 % confidence interval of the median.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .clocks import Offset
from .departures import duration

Z_95 = 1.959964  # quantile of the normal distribution for a two-sided 95 % confidence interval


@dataclass(frozen=True)
class Deviation:
    """The median delay of a replayer's packets after the requested times, on the controller's clock."""

    name: str
    median_ns: int
    error_ns: int


@dataclass(frozen=True)
class Skew:
    """The delay of the second replayer after the first, with an error of at most ``error_ns``."""

    first: str
    second: str
    skew_ns: int
    error_ns: int

    def line(self) -> str:
        """Return the skew for a terminal."""
        order = "after" if self.skew_ns >= 0 else "before"
        text = f"{self.second} {duration(abs(self.skew_ns))} {order} {self.first}, +/- {duration(self.error_ns)}"
        return text + (" (not distinguishable from 0)" if abs(self.skew_ns) <= self.error_ns else "")


def deviation(name: str, errors_ns: np.ndarray, clock: Offset) -> Deviation | None:
    """Return the deviation of a replayer; None if it sent nothing.

    The bounds of the median are the order statistics n/2 +/- 1.96 sqrt(n)/2 (binomial distribution).
    """
    if not len(errors_ns):
        return None
    ordered = np.sort(errors_ns)
    count, half = len(ordered), Z_95 * math.sqrt(len(ordered)) / 2
    median = int(ordered[(count - 1) // 2])
    low = int(ordered[max(0, math.floor(count / 2 - half) - 1)])
    high = int(ordered[min(count - 1, math.ceil(count / 2 + half))])
    return Deviation(name, median - clock.offset_ns, clock.error_ns + max(high - median, median - low))


def skews(deviations: Sequence[Deviation]) -> list[Skew]:
    """Return the skew of every replayer after the first, relative to the first."""
    if not deviations:
        return []
    first, *others = deviations
    return [
        Skew(first.name, other.name, other.median_ns - first.median_ns, other.error_ns + first.error_ns)
        for other in others
    ]


def largest(deviations: Sequence[Deviation]) -> Skew | None:
    """Return the skew between the earliest and the latest replayer; None if there are fewer than two."""
    if len(deviations) < 2:
        return None
    first = min(deviations, key=lambda deviation_: deviation_.median_ns)
    last = max(deviations, key=lambda deviation_: deviation_.median_ns)
    return Skew(first.name, last.name, last.median_ns - first.median_ns, last.error_ns + first.error_ns)
