"""Confidence intervals of shares: the bootstrap over samples (Efron 1979, "Bootstrap Methods").

The unit of random selection is a sample of a port, not a frame, because frames of one sample are correlated. Therefore
whole samples are drawn with replacement, and the share of each resample is computed as the ratio of the sums.
Percentile intervals of few samples are too narrow, so they are expanded (Hesterberg 2015, "What Teachers Should Know
About the Bootstrap"): their tails are adjusted to match a t interval of the same number of samples. With fewer than
FEWEST samples there is no interval, because an interval cannot exceed the range from the smallest to the largest
sample: with 2 samples, it contains the true share in only half of all cases.

The results are the same on every machine: sums are integers in float64 (exact in any order below 2^53), followed by one
division, and the draws come from the raw stream of PCG64, which numpy keeps stable.
"""

import math
import statistics

import numpy as np

RESAMPLES = 1_000
FEWEST = 6  # minimum number of samples for an interval; test_bootstrap.py measures the coverage
MEAN_RESAMPLES = 20_000  # the tails of expanded intervals of few values contain one draw in thousands
LEVEL_PERCENT = 95
SEED = 20_251_028
BATCH = 50  # resamples per array, which limits memory to BATCH x samples weights


def weights(samples: int, resamples: int = RESAMPLES, seed: int = SEED):
    """Yield arrays [BATCH, samples] with the number of times each resample contains each sample.

    The sum of each row is ``samples``.
    """
    stream = np.random.PCG64(seed)
    for first in range(0, resamples, BATCH):
        rows = min(BATCH, resamples - first)
        raw = stream.random_raw(rows * samples).reshape(rows, samples)
        # Scale the upper 32 bits; the bias is below samples / 2^32.
        indices = ((raw >> np.uint64(32)) * np.uint64(samples)) >> np.uint64(32)
        flat = indices.astype(np.int64) + samples * np.arange(rows)[:, None]
        yield np.bincount(flat.ravel(), minlength=rows * samples).reshape(rows, samples).astype(np.float64)


def share_intervals(counts, totals, resamples: int = RESAMPLES, seed: int = SEED):
    """Return the interval (lo, hi) of sum(counts) / sum(totals), as arrays with one entry per category.

    ``counts`` is [samples, categories], ``totals`` is [samples], both in frames. Samples without frames have no share
    and are skipped. The bounds are nearest-rank percentiles of the resamples' shares, with `expanded_tail` at each end.
    Return None if there are fewer than FEWEST samples.
    """
    counts, totals = np.asarray(counts, dtype=np.float64), np.asarray(totals, dtype=np.float64)
    with_frames = totals > 0
    counts, totals = counts[with_frames], totals[with_frames]
    if len(totals) < FEWEST:
        return None
    shares = np.concatenate([(w @ counts) / (w @ totals)[:, None] for w in weights(len(totals), resamples, seed)])
    return ends(shares, expanded_tail(len(totals)))


def ends(draws, tail: float = (100 - LEVEL_PERCENT) / 200):
    """Return (lo, hi): the nearest-rank percentiles of ``draws`` [resamples, ...] with share ``tail`` at each end."""
    ordered = np.sort(draws, axis=0)
    lo = max(math.ceil(tail * len(ordered) - 1e-9) - 1, 0)
    return ordered[lo], ordered[len(ordered) - 1 - lo]


def mean_draws(values, seed: int = SEED, resamples: int = MEAN_RESAMPLES):
    """Return the means [resamples] of resamples of ``values``, which are from 0 to 1.

    Values are rounded to integer multiples of 10^-12, so that sums of up to 9,000 values are exact in any order.
    """
    units = np.rint(np.asarray(values, dtype=np.float64) * 1e12)
    sums = np.concatenate([w @ units for w in weights(len(units), resamples, seed)])
    return sums / (1e12 * len(units))


def relative_difference_interval(first, second, values: int) -> tuple[float, float] | None:
    """Return the interval (lo, hi) of (second - first) / first for the ``mean_draws`` of two groups.

    ``values``: the number of values in the smaller group. The interval is an expanded percentile interval, as for
    shares. Return None if there are fewer than 2 values, or if a draw of ``first`` is 0.
    """
    if values < 2 or not first.all():
        return None
    lo, hi = ends((second - first) / first, expanded_tail(values))
    return float(lo), float(hi)


def expanded_tail(values: int) -> float:
    """Return the normal tail probability beyond sqrt(n / (n - 1)) * t(n - 1), with Student's t and n = ``values``."""
    wide = math.sqrt(values / (values - 1)) * student(values - 1, LEVEL_PERCENT / 100)
    return statistics.NormalDist().cdf(-wide)


def student(degrees: int, level: float) -> float:
    """Return the t for which the probability between -t and t is ``level``.

    It is found by bisection (Abramowitz and Stegun, equations 26.7.3 and 26.7.4).
    """

    def within(t: float) -> float:
        angle = math.atan(t / math.sqrt(degrees))
        term = total = math.cos(angle) if degrees % 2 else 1.0
        for n in range(2 + degrees % 2, degrees, 2):
            term *= math.cos(angle) ** 2 * (n - 1) / n
            total += term
        if degrees % 2 == 0:
            return math.sin(angle) * total
        return 2 / math.pi * (angle + (math.sin(angle) * total if degrees > 1 else 0))

    low, high = 0.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if within(middle) < level else (low, middle)
    return high
