"""Confidence intervals of shares: the percentile bootstrap over samples (Efron 1979, "Bootstrap Methods").

A sample of a port is the unit that chance picked, not a frame: frames of one sample resemble each other. So whole
samples are drawn again, with replacement, and the share is computed anew as the ratio of the sums. Few samples give
intervals that are too narrow; a row names its number of samples for that reason.

Everything is integer arithmetic in float64 (sums below 2^53 are exact in any order) and one division, and the draws
come from the raw stream of PCG64, which numpy keeps stable: the same numbers on every machine.
"""

import numpy as np

RESAMPLES = 1_000
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
    """(lo, hi) of sum(counts) / sum(totals), arrays of one entry a category; None with fewer than 2 samples to draw.

    ``counts`` is [samples, categories], ``totals`` [samples], both in frames. Samples without frames carry no share and
    are left out. The bounds are the nearest-rank 2.5 % and 97.5 % points of the resamples' shares.
    """
    counts, totals = np.asarray(counts, dtype=np.float64), np.asarray(totals, dtype=np.float64)
    with_frames = totals > 0
    counts, totals = counts[with_frames], totals[with_frames]
    if len(totals) < 2:
        return None
    shares = np.concatenate([(w @ counts) / (w @ totals)[:, None] for w in weights(len(totals), resamples, seed)])
    shares.sort(axis=0)
    tail = (100 - LEVEL_PERCENT) * resamples  # twice the tail, in percent of a resample
    lo = -(-tail // 200) - 1
    return shares[max(lo, 0)], shares[resamples - 1 - max(lo, 0)]
