"""Tests confidence intervals of shares and of differences of means: their definition and coverage."""

from fractions import Fraction

import numpy as np
import pytest

from acapella.common.bootstrap import (
    FEWEST,
    MEAN_RESAMPLES,
    RESAMPLES,
    SEED,
    expanded_tail,
    mean_draws,
    relative_difference_interval,
    share_intervals,
    student,
)


@pytest.mark.parametrize("category", [0, 1])
def test_bounds_equal_those_of_a_plain_loop_over_resamples(category):
    counts, totals = [[3, 0], [1, 9], [0, 5], [7, 7], [2, 2], [5, 1]], [10, 20, 5, 40, 9, 30]
    raw = [int(x) for x in np.random.PCG64(SEED).random_raw(RESAMPLES * 6)]
    resamples = [[(x >> 32) * 6 >> 32 for x in raw[6 * n : 6 * n + 6]] for n in range(RESAMPLES)]
    lo, hi = share_intervals(counts, totals)
    order = sorted(sum(counts[d][category] for d in drawn) / sum(totals[d] for d in drawn) for drawn in resamples)
    assert (lo[category], hi[category]) == (order[2], order[997])  # Phi(-2.571 * sqrt(6 / 5)) = 0.0024


@pytest.mark.parametrize(("samples", "min_share"), [(FEWEST, 0.88), (12, 0.91), (60, 0.91)])
def test_interval_covers_the_true_share_at_its_confidence_level(samples, min_share):
    """Without expanded tails, intervals would cover it in 84 % of cases with 6 samples, and in half with 2."""
    covered, rng = 0, np.random.default_rng(5)
    for _ in range(300):
        totals = rng.integers(200, 2000, samples)
        share = rng.beta(3, 7, samples)  # the share differs between samples, around 0.3
        lo, hi = share_intervals(rng.binomial(totals, share)[:, None], totals, resamples=400)
        covered += bool(lo[0] <= 0.3 <= hi[0])
    assert min_share <= covered / 300 <= 0.98


def test_frames_of_one_sample_are_not_independent():
    """Ten times the frames in the same samples give the same interval. Ten times the samples give a narrower one."""
    counts, totals = np.array([[1], [5], [9], [3], [2], [7]]) * 100, np.full(6, 1000)
    few = share_intervals(counts, totals)
    same = share_intervals(counts * 10, totals * 10)
    more = share_intervals(np.tile(counts, (10, 1)), np.tile(totals, 10))
    assert (few[0], few[1]) == (same[0], same[1])
    assert more[1] - more[0] < few[1] - few[0]


def test_equal_samples_give_an_interval_of_zero_width():
    lo, hi = share_intervals([[5]] * 6, [20] * 6)
    assert lo[0] == hi[0] == 0.25


@pytest.mark.parametrize("totals", [[10], [], [10] * 5 + [0, 0]])
def test_fewer_than_six_samples_with_frames_give_no_interval(totals):
    assert share_intervals([[1]] * len(totals), totals) is None


def test_samples_without_frames_change_nothing():
    counts, totals = [[1], [4], [2], [3], [3], [0]], [5, 8, 9, 9, 4, 7]
    assert share_intervals([*counts, [0]], [*totals, 0]) == share_intervals(counts, totals)


def test_means_of_resamples_equal_those_of_a_plain_loop():
    values = [0.9855, 0.9845, 0.9846, 0.25]
    raw = [int(x) for x in np.random.PCG64(SEED + 3).random_raw(MEAN_RESAMPLES * 4)]
    exact = [Fraction(str(value)) for value in values]
    loop = [sum(exact[(x >> 32) * 4 >> 32] for x in raw[4 * n : 4 * n + 4]) / 4 for n in range(300)]
    draws = mean_draws(values, SEED + 3)
    assert len(draws) == MEAN_RESAMPLES
    assert draws[:300] == pytest.approx([float(mean) for mean in loop], rel=1e-15)


def test_students_t_matches_published_tables():
    printed = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 7: 2.365, 10: 2.228, 30: 2.042, 120: 1.980}
    assert {degrees: student(degrees, 0.95) for degrees in printed} == pytest.approx(printed, abs=6e-4)
    assert expanded_tail(10_000) == pytest.approx(0.025, abs=1e-4)
    assert expanded_tail(4) == pytest.approx(1.19e-4, rel=0.01)  # Phi(-3.182 * sqrt(4 / 3))


@pytest.mark.soak
@pytest.mark.parametrize("values", [4, 20])
def test_small_groups_of_one_distribution_rarely_differ(values):
    rng, apart, number = np.random.default_rng(7), 0, 150
    for _ in range(number):
        a, b = (mean_draws(rng.normal(0.97, 0.005, values), SEED + n) for n in (1, 2))
        lo, hi = relative_difference_interval(a, b, values)
        assert lo <= hi
        apart += lo > 0 or hi < 0
    assert apart / number <= 0.09  # 95 % intervals: the probability that more than 13 of 150 exclude 0 is 2 %


def test_interval_of_a_difference_needs_two_values_and_a_positive_mean():
    a = mean_draws([0.5, 0.6])
    assert relative_difference_interval(a, a, 1) is None
    assert relative_difference_interval(mean_draws([0.0, 0.0]), a, 2) is None
    assert relative_difference_interval(a, 2 * a, 2) == (1.0, 1.0)
