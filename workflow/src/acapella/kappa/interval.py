"""Bound the components of the path's kappa, given trials corrected by departures and the errors of their timestamps.

docs/kappa_path.md, "Interval", derives the bounds, and "What is proved" lists what is only simulated: the
near-normality of sums over packets, and the swaps of three or more close packets in I. Random errors (normal,
independent between packets, of at most the stated standard deviation) are bounded with 95 % confidence for all
components together; bounded errors, such as the unknown departures inside a burst, are added in the worst case. Nothing
is assumed about the path except that its delays do not depend on when packets are sent. Without errors, both limits
equal the exact value.
"""

import math
import statistics
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
# Limits that must hold at the same time: two lower and one upper limit each for L and I; for each trial, the swaps, the
# first packet, both ends of the duration, and O.
LIMITS = 16
Z = statistics.NormalDist().inv_cdf(1 - (1 - LEVEL) / LIMITS)
MEAN_ABSOLUTE = math.sqrt(2 / math.pi)  # mean absolute value of a standard normal variable
# A kernel k, a sum of Gaussian terms, with E k(x + r e) >= E|x + r e| - |x| for every x and every r from 0 to 1, where
# e is a standard normal variable. It was found by linear programming; test_kappa_interval.py checks the inequality.
WIDTHS = (0.5, 0.75, 1.0)
KERNEL = (2.26, -0.55, 0.17)


@dataclass(frozen=True)
class TimedTrial:
    """A trial in order of corrected time, and the errors of its times.

    ``keys`` uint32, ``ts_ns`` int64; ``late_ns`` int64: how much later than its timestamp a packet may have departed;
    ``run`` int64: equal for neighbors that departed in one burst in this order; ``sigma_ns``: largest standard
    deviation of the random error; ``drift_ns``: bound for the change of the clock during the trial; ``skew_ns``: bound
    for the difference between the clocks of several replayers; ``alternations``: number of neighbors from different
    replayers.
    """

    keys: np.ndarray
    ts_ns: np.ndarray
    late_ns: np.ndarray
    run: np.ndarray
    sigma_ns: float
    drift_ns: float
    skew_ns: float = 0.0
    alternations: int = 0

    @property
    def exact(self) -> bool:
        """Return whether all times are exact."""
        return not (self.sigma_ns or self.drift_ns or self.skew_ns or self.late_ns.any())


@dataclass(frozen=True)
class Differences:
    """Differences between the common packets of two trials, and the packets' positions in both trials."""

    gap_ns: np.ndarray
    latency_ns: np.ndarray
    at_a: np.ndarray
    at_b: np.ndarray


def differences(a: TimedTrial, b: TimedTrial) -> Differences:
    """Return gB - gA and lB - lA of the common packets, float64, in the order of B."""
    position = np.full(int(max(a.keys.max(initial=0), b.keys.max(initial=0))) + 1, -1, dtype=np.int64)
    position[a.keys] = np.arange(len(a.keys))
    at_a = position[b.keys]
    at_b = np.flatnonzero(at_a >= 0)
    at_a = at_a[at_b]
    gap = gaps(b.ts_ns)[at_b] - gaps(a.ts_ns)[at_a]
    latency = (b.ts_ns[at_b] - b.ts_ns[0]) - (a.ts_ns[at_a] - a.ts_ns[0]) if len(at_b) else gap
    return Differences(gap.astype(np.float64), latency.astype(np.float64), at_a, at_b)


def gaps(ts_ns: np.ndarray) -> np.ndarray:
    """Return the time since the previous packet; 0 for the first."""
    return np.diff(ts_ns, prepend=ts_ns[:1])


def time_limits(a: TimedTrial, b: TimedTrial) -> dict[str, tuple[float, float]]:
    """Return lower and upper limits of L and I for two trials with at least one common packet."""
    changes = differences(a, b)
    durations = [trial.ts_ns[-1] - trial.ts_ns[0] for trial in (a, b)]
    errors = [duration_error(trial) for trial in (a, b)]
    shortest = [max(0.0, duration - error) for duration, error in zip(durations, errors, strict=True)]
    longest = [duration + error for duration, error in zip(durations, errors, strict=True)]
    common = len(changes.at_b)
    return {
        "L": quotient(latency_sum(a, b, changes), (common * max(shortest), common * max(longest))),
        "I": quotient(gap_sum(a, b, changes), (sum(shortest), sum(longest))),
    }


def quotient(numerator: tuple[float, float], denominator: tuple[float, float]) -> tuple[float, float]:
    """Return limits of a quotient that is between 0 and 1."""
    low = max(0.0, numerator[0]) / denominator[1] if denominator[1] else 0.0
    return min(1.0, low), min(1.0, numerator[1] / denominator[0]) if denominator[0] else 1.0


def duration_error(trial: TimedTrial) -> float:
    """Return a bound for the error of the time between the first and the last packet."""
    ends = float(trial.late_ns[0] + trial.late_ns[-1])
    return Z * math.sqrt(2) * trial.sigma_ns + ends + trial.drift_ns + trial.skew_ns


def latency_sum(a: TimedTrial, b: TimedTrial, changes: Differences) -> tuple[float, float]:
    """Return limits for sum |lA - lB|."""
    common = len(changes.at_b)

    def variance(slope: np.ndarray) -> float:
        return (a.sigma_ns**2 + b.sigma_ns**2) * float(slope @ slope)

    low, high = absolute_sum(changes.latency_ns, math.hypot(a.sigma_ns, b.sigma_ns), variance)
    late_sum = float(a.late_ns[changes.at_a].sum() + b.late_ns[changes.at_b].sum())
    late_sum += common * (a.skew_ns + b.skew_ns)
    # The error of a trial's first packet shifts all latencies of the trial.
    shift = sum(Z * trial.sigma_ns + float(trial.late_ns[0]) + trial.drift_ns for trial in (a, b))
    return low - late_sum - common * shift, high + late_sum + common * shift


def gap_sum(a: TimedTrial, b: TimedTrial, changes: Differences) -> tuple[float, float]:
    """Return limits for sum |gA - gB|."""

    def variance(slope: np.ndarray) -> float:
        total = 0.0
        for trial, positions in ((a, changes.at_a), (b, changes.at_b)):
            gap_slopes = np.zeros(len(trial.keys) + 1)
            gap_slopes[positions] = slope
            gap_slopes[0] = 0  # the gap of the first packet is always 0
            gradient = np.diff(gap_slopes)  # a time is the end of one gap and the start of the next
            total += trial.sigma_ns**2 * float(gradient @ gradient)
        return total

    sigma = math.sqrt(2) * math.hypot(a.sigma_ns, b.sigma_ns)
    low, high = absolute_sum(changes.gap_ns, sigma, variance)
    bound = sum(
        burst_gaps(trial) + swapped_gaps(trial) + trial.drift_ns + trial.alternations * trial.skew_ns
        for trial in (a, b)
    )
    return low - bound, high + bound


def absolute_sum(observed: np.ndarray, sigma: float, variance) -> tuple[float, float]:
    """Return limits for sum |x|, given x + e with normal errors e of a standard deviation of at most ``sigma``.

    ``variance(slope)`` returns a bound for the variance of sum f(x + e), given f'(x + e) of each term.
    """
    total = float(np.abs(observed).sum())
    if not sigma:
        return total, total
    sign = np.sign(observed)
    deviation = Z * math.sqrt(variance(sign))
    bias, slope = 0.0, sign.copy()
    scaled = observed / sigma
    for weight, width in zip(KERNEL, WIDTHS, strict=True):
        term = np.exp(-0.5 * (scaled / width) ** 2)
        bias += sigma * weight * float(term.sum())
        slope += weight * scaled / width**2 * term
    largest_bias = len(observed) * MEAN_ABSOLUTE * sigma
    low = max(total - bias - Z * math.sqrt(variance(slope)), total - largest_bias - deviation)
    return max(0.0, low), total + deviation


def burst_gaps(trial: TimedTrial) -> float:
    """Return a bound for the sum of the changes of gaps by unknown departures inside bursts.

    Packets of a run depart in order, so the changes inside a run add up to at most its last packet's bound.
    """
    if not trial.late_ns.any():
        return 0.0
    starts = np.flatnonzero(np.diff(trial.run, prepend=trial.run[0] - 1))
    ends = np.append(starts[1:], len(trial.run)) - 1
    inside_bursts = float(trial.late_ns[ends].sum())
    return inside_bursts + float(np.maximum(trial.late_ns[starts[1:]], trial.late_ns[ends[:-1]]).sum())


def swapped_gaps(trial: TimedTrial) -> float:
    """Return a bound for the sum of the changes of gaps by packets that errors may have swapped.

    A swap of neighbors exchanges their gaps: each changes by up to the gap before both. 0.71 exp(-d^2 / (2 s^2)) has an
    expectation of at least the probability of a swap, where d is the observed distance and s its standard deviation.
    """
    if len(trial.ts_ns) < 3:
        return 0.0
    distance = np.diff(trial.ts_ns)[1:].astype(np.float64)
    gap_before = np.diff(trial.ts_ns)[:-1].astype(np.float64)
    unknown = (trial.late_ns[2:] + trial.late_ns[1:-1]).astype(np.float64)
    unknown += trial.skew_ns
    unknown[trial.run[2:] == trial.run[1:-1]] = 0  # one burst: in order
    certain = np.where((unknown > 0) & (distance <= unknown), 1.0, 0.0)
    likely = certain
    if trial.sigma_ns:
        deviations = np.maximum(0.0, distance - unknown) / (math.sqrt(2) * trial.sigma_ns)
        likely = np.maximum(certain, 0.7072 * np.exp(-0.5 * deviations**2))
    cost = 2 * (gap_before + unknown)
    return float(likely @ cost) + Z * math.sqrt(float(likely @ cost**2))


def order_limits(a: TimedTrial, b: TimedTrial, distance_of) -> tuple[int, int]:
    """Return limits for the sum of equation 2.

    ``distance_of(packets of A, packets of B)`` returns the sum for packets at these indices of both trials. Both trials
    are divided wherever the packets before the division are the same regardless of errors. The result is the sum over
    all parts. It is exact in a part without close pairs. In other parts it is between 0 and sum |a - b| over all
    packets of the part, whichever of them count as moved. A swap of neighbors changes this sum by at most 2.
    """
    changes = differences(a, b)
    from_a = np.zeros(len(a.keys), dtype=bool)
    from_a[changes.at_a] = True
    ranks = (np.cumsum(from_a) - 1)[changes.at_a]  # rank in A of each common packet, in order of B
    firsts = (first_close(a, from_a), first_close(b, changes.at_b))
    positions = np.arange(len(ranks))
    divided = np.maximum.accumulate(ranks) == positions  # up to this place, both trials contain the same packets
    divided = np.concatenate(([True], divided[:-1]))
    for first in firsts:
        divided &= np.minimum.accumulate(first[::-1])[::-1] >= positions
    part = np.cumsum(divided) - 1
    pairs = sum(np.bincount(part, weights=positions - first, minlength=part[-1] + 1) for first in firsts)
    if not pairs.any():
        return (distance_of(slice(None), slice(None)),) * 2
    uncertain = pairs[part] > 0
    high = int(np.abs(ranks - positions)[uncertain].sum()) + 2 * int(pairs.sum())
    certain = 0
    if not uncertain.all():
        certain = distance_of(
            np.sort(changes.at_a[~uncertain]), changes.at_b[~uncertain]
        )  # equal times keep their order
    return certain, certain + high


def first_close(trial: TimedTrial, common: np.ndarray) -> np.ndarray:
    """Return for each common packet the first of the packets before it that it may have preceded without errors.

    If there is none, this is the packet itself. A packet that departed later than its timestamp is undercorrected: its
    true time is earlier, by at most ``late_ns``.
    """
    ts_ns, late_ns = trial.ts_ns[common], trial.late_ns[common]
    positions = np.arange(len(ts_ns))
    if trial.exact:
        return positions
    pairs = max(1, len(ts_ns) * (len(ts_ns) - 1) // 2)
    reach = -statistics.NormalDist().inv_cdf((1 - LEVEL) / LIMITS / pairs) * math.sqrt(2) * trial.sigma_ns
    earliest = ts_ns - late_ns - math.floor(reach + trial.skew_ns)
    return np.minimum(np.searchsorted(ts_ns, earliest, side="left"), positions)


def kappa_limits(limits: dict[str, tuple[float, float]]) -> tuple[float, float]:
    """Return the limits of kappa (equation 5) for limits of U, O, L and I."""
    low, high = (1 - math.sqrt(sum(limits[name][side] ** 2 for name in "UOLI")) / 2 for side in (1, 0))
    return low, high
