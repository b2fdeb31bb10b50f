"""Times, speeds and clocks of `acapella replay`, and the skew between replayers."""

import argparse

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acapella_capture.replay import clocks, skew, times
from acapella_capture.replay.clocks import Offset

NOW = 1_800_000_000_123_456_789


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("+0", NOW),
        ("+5", NOW + 5 * 10**9),
        ("+0.000000001", NOW + 1),
        ("1800000000000000001", 1_800_000_000_000_000_001),
        ("2027-01-15T08:00:00Z", 1_800_000_000_000_000_000),
        ("2027-01-15 08:00:00.000000001Z", 1_800_000_000_000_000_001),
        ("2027-01-15T09:00:00.5+01:00", 1_800_000_000_500_000_000),
    ],
)
def test_times_are_exact_to_the_nanosecond(text, ns):
    assert times.time(text)(NOW) == ns


@pytest.mark.parametrize(
    "text",
    ["", "now", "5", "-5", "+", "+-1", "+1e3", "+1.0000000001", "2027-01-15", "2027-01-15T08:00:00",
     "2027-13-15T08:00:00Z", "2027-01-15T08:00:00.0000000001Z", "9999-01-15T08:00:00Z", "1969-12-31T23:59:59Z"],
)  # fmt: skip
def test_other_text_is_not_a_time(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time; write 2026-01-31T12:00:00Z"):
        times.time(text)


def test_speeds_are_exact():
    assert [times.speed_ppm(text) for text in ("1", "2", "0.5", "0.000001", "1000")] == [
        1_000_000, 2_000_000, 500_000, 1, 1_000_000_000,
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["0", "-1", "1e3", "1001", "0.0000001", "x", "", "1" * 30])
def test_other_text_is_not_a_speed(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a speed"):
        times.speed_ppm(text)


@given(
    st.integers(-(10**12), 10**12),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=20),
)
def test_offset_by_round_trips_includes_the_true_one(true_ns, delays):
    """This holds for any non-negative delays of request, agent and response."""
    trips, now = [], 10**15
    for there, inside, back in delays:
        received = now + there + true_ns
        end = now + there + inside + back
        trips.append((now, received, received + inside, end))
        now = end + 1
    found = clocks.offset_of(trips)
    assert abs(found.offset_ns - true_ns) <= found.error_ns
    assert found.error_ns <= min(there + back for there, _, back in delays) // 2 + 1


OFFSETS = st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 10**9))


@given(OFFSETS, OFFSETS)
def test_joined_offset_includes_both(first, second):
    union = Offset(*first).union(Offset(*second))
    assert union.offset_ns - union.error_ns <= min(offset - error for offset, error in (first, second))
    assert union.offset_ns + union.error_ns >= max(offset + error for offset, error in (first, second))


def test_measured_offset_matches_an_injected_clock():
    now = [10**15]

    def tick() -> int:
        now[0] += 1000
        return now[0]

    found = clocks.measure(lambda: (tick() + 77_000_000, tick() + 77_000_000), tick)
    assert abs(found.offset_ns - 77_000_000) <= found.error_ns <= 2001


def test_clock_of_this_machine_has_a_source_or_is_unknown():
    own = clocks.own_clock()
    assert set(own) == {"source", "offset_ns", "error_ns", "synchronized"}
    assert own["source"] in ("chrony", "ptp", "system", None)


def test_skew_is_the_difference_of_errors_on_one_clock():
    """The second replayer's clock is 5 ms ahead, so it sent 5 ms earlier than its departures show."""
    first = skew.deviation("a", np.full(100, 1_000), Offset(0, 10))
    (found,) = skew.skews([first, skew.deviation("b", np.full(100, 3_000), Offset(5_000_000, 20))])
    assert (found.skew_ns, found.error_ns) == (3_000 - 1_000 - 5_000_000, 30)
    assert found.line() == "b 4.998 ms before a, +/- 30 ns"


def test_skew_within_its_uncertainty_is_marked():
    first = skew.deviation("a", np.full(9, 100), Offset(0, 500))
    second = skew.deviation("b", np.full(9, 300), Offset(0, 500))
    assert skew.skews([first, second])[0].line() == "b 200 ns after a, +/- 1 us (not distinguishable from 0)"


def test_largest_skew_is_between_the_earliest_and_the_latest():
    deviations = [
        skew.deviation(name, np.full(3, late), Offset(0, 1)) for name, late in (("a", 5), ("b", -7), ("c", 9))
    ]
    widest = skew.largest(deviations)
    assert (widest.first, widest.second, widest.skew_ns, widest.error_ns) == ("b", "c", 16, 2)
    assert skew.largest(deviations[:1]) is None
    assert skew.deviation("a", np.empty(0, np.int64), Offset(0, 1)) is None


def test_confidence_interval_of_the_median_covers_the_true_median():
    """It does so in at least 90 of 100 seeded samples of a skewed distribution; the confidence level is 95 %."""
    draw = np.random.default_rng(1)
    true_ns = 1_000_000 * np.log(2)  # median of the exponential distribution
    covered = 0
    for _ in range(100):
        found = skew.deviation("a", draw.exponential(1_000_000, 400).astype(np.int64), Offset(0, 0))
        covered += abs(found.median_ns - true_ns) <= found.error_ns
    assert covered >= 90
