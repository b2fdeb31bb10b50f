"""Tests U, O, L, I and kappa: exact ratios of integers, and zero denominators."""

import json
import math
from fractions import Fraction

from acapella.kappa import ratios
from acapella_core.schemas import json_schema


def test_o_published_is_equation_2_times_common_over_moved():
    assert ratios.ordering_published(30, 6, 12) == ratios.ordering(30, 12) * Fraction(12, 6)


def test_o_published_may_exceed_1_and_is_not_clamped():
    assert ratios.ordering_published(9, 1, 10) == Fraction(18, 11)


def test_zero_numerator_gives_zero_for_any_denominator():
    assert [ratios.ratio(0, 0), ratios.ratio(0, 7), ratios.ratio(1, 0)] == [0, 0, None]
    assert ratios.ordering_published(0, 0, 5) == 0
    assert ratios.ordering_kendall(0, 1) == 0
    assert ratios.latency(0, 1, 0) == ratios.gaps(0, 1, 0) == 0


def test_kappa_is_1_if_all_components_are_0_and_0_if_all_are_1():
    assert ratios.kappa(1, 1, 1, (Fraction(0),) * 4) == 1
    assert ratios.kappa(1, 1, 1, (Fraction(1),) * 4) == 0


def test_kappa_of_the_first_run_matches_the_paper():
    assert round(ratios.kappa(1, 1, 1, tuple(map(Fraction, ("0", "0", "2.62e-6", "0.0290")))), 4) == 0.9855


def test_contributions_sum_to_1_minus_kappa():
    parts = tuple(map(Fraction, ("0.1", "0.2", "0.3", "0.4")))
    shares = ratios.contribution(parts)
    assert math.isclose(sum(shares.values()), 1 - ratios.kappa(1, 1, 1, parts), rel_tol=1e-15)
    assert math.isclose(shares["I"] / shares["U"], 16, rel_tol=1e-15)


def test_moments_match_values_computed_by_hand():
    """The moves are -3, -3, 1 and 5."""
    table = ratios.moments({"count": 4, "sum": 0, "abs_sum": 12, "sum_of_squares": 44, "smallest": -3, "largest": 5})
    assert (table["mean"], table["abs_mean"], table["min"], table["max"]) == (0, 3, -3, 5)
    assert math.isclose(table["sigma"], math.sqrt(11))
    assert math.isclose(table["abs_sigma"], math.sqrt(2))


def test_sums_beyond_double_precision_are_exact():
    large = 10**30
    assert ratios.latency(large + 1, 1, large) - 1 == Fraction(1, large)


def test_schema_describes_every_number_of_a_pair():
    pair = json_schema("kappa")["$defs"]["pair"]
    assert set(pair["required"]) == set(pair["properties"])
    json.dumps(pair)
