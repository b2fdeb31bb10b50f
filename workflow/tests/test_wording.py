"""Numbers and names in words."""

import pytest

from acapella.figures import wording


def plain(text: str) -> str:
    """No-break spaces as spaces."""
    return text.replace(wording.GAP, " ")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.747, "74.7 %"),
        (0.0193, "1.93 %"),
        (0.00031, "0.031 %"),
        (0.0999999, "10.0 %"),
        (0.9999, "99.9 %"),
        (0.999999, "99.9 %"),
        (1e-9, "< 0.0001 %"),
        (1.9, "190.0 %"),
    ],
)
def test_percent_shows_digits_that_matter_and_100_for_all_alone(share, text):
    assert plain(wording.percent(share)) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (999, "999 B"), (1540, "1.54 kB"), (999_900, "1 MB"), (10**14, "100 TB")]
)
def test_scaled_uses_si_prefixes(value, text):
    assert plain(wording.scaled(value, "B")) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1 ns"), (4000, "4 µs"), (20 * 10**9, "20 s"), (90 * 60 * 10**9, "90 min"), (36 * 3600 * 10**9, "36 h")],
)
def test_nanoseconds_take_a_unit_that_people_read(value, text):
    assert plain(wording.nanoseconds(value)) == text


def test_sites_are_sorted_as_people_count():
    assert sorted(["S10", "S2", "a1", "S2b", "S"], key=wording.natural) == ["S", "S2", "S2b", "S10", "a1"]


def test_long_names_lose_their_middle_and_stay_apart():
    names = [f"a-very-long-name-{n}-of-a-site-somewhere" for n in range(12)]
    labels = wording.short_labels(names, 20)
    assert len(set(labels.values())) == len(names)
    assert max(map(len, labels.values())) <= 20
    assert wording.short_labels(["S0"], 20) == {"S0": "S0"}
