"""Intervals of shares: what they are, that they cover, that they are the same everywhere."""

import numpy as np
import pytest

from acapella.bootstrap import RESAMPLES, SEED, share_intervals, weights


def test_bounds_are_what_a_loop_over_resamples_gives():
    counts, totals = [[3, 0], [1, 9], [0, 5], [7, 7]], [10, 20, 5, 40]
    raw = [int(x) for x in np.random.PCG64(SEED).random_raw(RESAMPLES * 4)]
    shares = [[], []]
    for n in range(RESAMPLES):
        drawn = [(x >> 32) * 4 >> 32 for x in raw[4 * n : 4 * n + 4]]
        for category in (0, 1):
            shares[category].append(sum(counts[d][category] for d in drawn) / sum(totals[d] for d in drawn))
    lo, hi = share_intervals(counts, totals)
    for category in (0, 1):
        order = sorted(shares[category])
        assert (lo[category], hi[category]) == (order[24], order[975])


def test_every_resample_has_as_many_samples_as_there_are():
    drawn = np.concatenate(list(weights(7, 120)))
    assert drawn.shape == (120, 7)
    assert (drawn.sum(axis=1) == 7).all()
    assert abs(drawn.mean() - 1) < 1e-12


def test_interval_covers_the_true_share_about_as_often_as_it_says():
    truth, covered = 0.3, 0
    rng = np.random.default_rng(5)
    for _ in range(300):
        totals = rng.integers(200, 2000, 60)
        share = rng.beta(3, 7, 60)  # samples differ in their share, around 0.3
        lo, hi = share_intervals(rng.binomial(totals, share)[:, None], totals, resamples=400)
        covered += bool(lo[0] <= truth <= hi[0])
    assert 0.90 <= covered / 300 <= 0.98


def test_frames_of_one_sample_do_not_count_as_independent():
    """Ten times the frames in the same samples leave the interval as wide; ten times the samples make it narrower."""
    counts, totals = np.array([[1], [5], [9], [3]]) * 100, np.full(4, 1000)
    few = share_intervals(counts, totals)
    same = share_intervals(counts * 10, totals * 10)
    more = share_intervals(np.tile(counts, (10, 1)), np.tile(totals, 10))
    assert (few[0], few[1]) == (same[0], same[1])
    assert more[1] - more[0] < few[1] - few[0]


def test_equal_samples_give_an_interval_without_width():
    lo, hi = share_intervals([[5]] * 6, [20] * 6)
    assert lo[0] == hi[0] == 0.25


@pytest.mark.parametrize("totals", [[10], [], [10, 0, 0]])
def test_fewer_than_two_samples_with_frames_give_no_interval(totals):
    assert share_intervals([[1]] * len(totals), totals) is None


def test_samples_without_frames_change_nothing():
    assert share_intervals([[1], [0], [4]], [5, 0, 8]) == share_intervals([[1], [4]], [5, 8])


def test_the_same_samples_give_the_same_interval_again():
    counts, totals = np.arange(30).reshape(10, 3), np.full(10, 50)
    first, second = share_intervals(counts, totals), share_intervals(counts, totals)
    assert all((a == b).all() for a, b in zip(first, second, strict=True))
