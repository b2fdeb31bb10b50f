"""Confidence intervals of shares: the bootstrap over samples (Efron 1979, "Bootstrap Methods").

A sample of a port is the unit that chance picked, not a frame: frames of one sample resemble each other. So whole
samples are drawn again, with replacement, and the share is computed anew as the ratio of the sums. With few
samples percentiles of the draws are too narrow, so intervals are expanded (Hesterberg 2015, "What Teachers Should Know
About the Bootstrap"): each end leaves as few draws as a t interval of as many samples. With fewer than FEWEST samples
there is no interval, because it could not be wider than the smallest to the largest sample: of 2 samples, that contains
the true share in half of all cases.

Everything is integer arithmetic in float64 (sums below 2^53 are exact in any order) and one division, and the draws
come from the raw stream of PCG64, which numpy keeps stable: the same numbers on every machine.
"""

import math
import statistics

import numpy as np

RESAMPLES = 1_000
FEWEST = 6  # samples of an interval of a share; test_bootstrap.py measures how often it contains the true share
MEAN_RESAMPLES = 20_000  # the ends of expanded intervals of few values leave one draw in thousands
LEVEL_PERCENT = 95
SEED = 20_251_028
BATCH = 50  # resamples at once: bounds memory at BATCH x samples weights


def weights(samples: int, resamples: int = RESAMPLES, seed: int = SEED):
    """Yield arrays [BATCH, samples]: how often each resample holds each sample; rows add up to ``samples``."""
    stream = np.random.PCG64(seed)
    for first in range(0, resamples, BATCH):
        rows = min(BATCH, resamples - first)
        raw = stream.random_raw(rows * samples).reshape(rows, samples)
        # The upper 32 bits, scaled: biased by less than samples / 2^32.
        drawn = ((raw >> np.uint64(32)) * np.uint64(samples)) >> np.uint64(32)
        flat = drawn.astype(np.int64) + samples * np.arange(rows)[:, None]
        yield np.bincount(flat.ravel(), minlength=rows * samples).reshape(rows, samples).astype(np.float64)


def share_intervals(counts, totals, resamples: int = RESAMPLES, seed: int = SEED):
    """(lo, hi) of sum(counts) / sum(totals), arrays of one entry a category; None with fewer than FEWEST samples.

    ``counts`` is [samples, categories], ``totals`` [samples], both in frames. Samples without frames carry no share and
    are left out. The bounds are nearest-rank points of the resamples' shares, which leave `expanded_tail` at each end.
    """
    counts, totals = np.asarray(counts, dtype=np.float64), np.asarray(totals, dtype=np.float64)
    with_frames = totals > 0
    counts, totals = counts[with_frames], totals[with_frames]
    if len(totals) < FEWEST:
        return None
    shares = np.concatenate([(w @ counts) / (w @ totals)[:, None] for w in weights(len(totals), resamples, seed)])
    return ends(shares, expanded_tail(len(totals)))


def ends(draws, tail: float = (100 - LEVEL_PERCENT) / 200):
    """(lo, hi): the nearest-rank points of ``draws`` [resamples, ...] that leave ``tail`` of them at each end."""
    ordered = np.sort(draws, axis=0)
    lo = max(math.ceil(tail * len(ordered) - 1e-9) - 1, 0)
    return ordered[lo], ordered[len(ordered) - 1 - lo]


def mean_draws(values, seed: int = SEED, resamples: int = MEAN_RESAMPLES):
    """Means [resamples] of ``values`` from 0 to 1, each of a resample; values are rounded to 12 decimal places.

    Rounded values are integers of 10^-12, so that sums are exact in any order (of at most 9,000 values).
    """
    units = np.rint(np.asarray(values, dtype=np.float64) * 1e12)
    sums = np.concatenate([w @ units for w in weights(len(units), resamples, seed)])
    return sums / (1e12 * len(units))


def relative_difference_interval(first, second, values: int) -> tuple[float, float] | None:
    """(lo, hi) of (second - first) / first, of ``mean_draws`` of two groups; the smaller one has ``values`` values.

    The expanded percentile interval, as of shares. None with fewer than 2 values, or if a draw of ``first`` is 0.
    """
    if values < 2 or not first.all():
        return None
    lo, hi = ends((second - first) / first, expanded_tail(values))
    return float(lo), float(hi)


def expanded_tail(values: int) -> float:
    """The normal probability beyond sqrt(n / (n - 1)) times Student's t of n - 1 degrees of freedom, n = ``values``."""
    wide = math.sqrt(values / (values - 1)) * student(values - 1, LEVEL_PERCENT / 100)
    return statistics.NormalDist().cdf(-wide)


def student(degrees: int, level: float) -> float:
    """The t with a probability ``level`` between -t and t, by bisection (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""

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
