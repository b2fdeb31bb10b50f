"""Estimates the drift between the clocks of a sender and a receiver from one-way latencies, with a least-squares line.

The smallest latency in an interval belongs to the packet that waited least. If the path does not change, this latency
is a constant plus the difference of the two clocks, which grows with the difference of their rates. One-way latencies
cannot separate the constant from the offset of the clocks: only the rate is known, so only relative latencies can be
corrected.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

PPT = 10**12
MIN_POINTS = 3


@dataclass(frozen=True)
class Drift:
    """A line through (arrival, smallest latency) of intervals.

    ``rate``: growth of the latency per ns, exact; ``from_ns``: arrival of the first point; ``offset_ns``: the line at
    ``from_ns``; ``residual_rms_ns`` and ``residual_max_ns``: deviations of the points from the line; ``points``: their
    number.
    """

    rate: Fraction
    from_ns: int
    offset_ns: Fraction
    residual_rms_ns: float
    residual_max_ns: float
    points: int

    @property
    def rate_ppt(self) -> int:
        """Return the rate in units of 10^-12, rounded to the nearest."""
        return round(self.rate * PPT)


def fit(arrivals_ns: Sequence[int], latencies_ns: Sequence[int]) -> Drift | None:
    """Return the least-squares line of latencies over arrivals; None for fewer than 3 different arrivals.

    rate = cov(t, y) / var(t) (for example, Draper and Smith, Applied Regression Analysis, 1.2), computed exactly in
    rational numbers, because squares of times in ns do not fit into doubles.
    """
    points = len(arrivals_ns)
    if len(set(arrivals_ns)) < MIN_POINTS:
        return None
    from_ns = min(arrivals_ns)
    times = [int(at) - from_ns for at in arrivals_ns]
    values = [int(latency) for latency in latencies_ns]
    sum_t, sum_y = sum(times), sum(values)
    covariance = points * sum(t * y for t, y in zip(times, values, strict=True)) - sum_t * sum_y
    variance = points * sum(t * t for t in times) - sum_t * sum_t
    rate = Fraction(covariance, variance)
    offset = (sum_y - rate * sum_t) / points
    residuals = [y - offset - rate * t for t, y in zip(times, values, strict=True)]
    squares = sum(residual * residual for residual in map(float, residuals))
    largest = float(max(map(abs, residuals)))
    return Drift(rate, from_ns, offset, sqrt(squares / points), largest, points)
