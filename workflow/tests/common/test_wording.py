"""Tests how numbers and names are written in text."""

import pytest
from acapella_testing.generated.generated_tables import write_table

from acapella.campaign.layout import Campaign
from acapella.common import wording
from acapella.figures import capture_quality
from acapella.figures.quality import loss_summary
from acapella.figures.source import Source


def plain(text: str) -> str:
    """Replace no-break spaces with spaces."""
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
        (0.9998, "99.98 %"),
        (0.999996, "99.9996 %"),
        (1 - 1e-9, "> 99.9999 %"),
        (1e-9, "< 0.0001 %"),
        (1.9, "190 %"),
        (1.0006, "100.1 %"),
        (1.0004, "100.04 %"),
        (1 + 1e-9, "< 100.0001 %"),
    ],
)
def test_percent_has_significant_digits_and_100_only_for_all(share, text):
    assert plain(wording.percent(share)) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (999, "999 B"), (1540, "1.54 kB"), (999_900, "1 MB"), (10**14, "100 TB")]
)
def test_scaled_uses_si_prefixes(value, text):
    assert plain(wording.scaled(value, "B")) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1 ns"),
        (4000, "4 µs"),
        (20 * 10**9, "20 s"),
        (90 * 60 * 10**9, "90 min"),
        (36 * 3600 * 10**9, "36 h"),
        (-2_500, "-2.5 µs"),
        (5.75, "5.75 ns"),
    ],
)
def test_durations_have_a_readable_unit(value, text):
    assert plain(wording.nanoseconds(value)) == text


def test_sites_are_sorted_by_number():
    assert sorted(["S10", "S2", "a1", "S2b", "S"], key=wording.natural) == ["S", "S2", "S2b", "S10", "a1"]


def test_sort_key_accepts_every_name_and_distinguishes_all():
    names = ["", "²", "٣", "S1", "S01", "9" * 5000, "S"]
    assert sorted(names, key=wording.natural) == sorted(reversed(names), key=wording.natural)


def test_long_names_are_shortened_in_the_middle_and_remain_distinct():
    names = [f"a-very-long-name-{n}-of-a-site-somewhere" for n in range(12)]
    labels = wording.short_labels(names, 20)
    assert len(set(labels.values())) == len(names)
    assert max(map(len, labels.values())) <= 20
    assert wording.short_labels(["S0"], 20) == {"S0": "S0"}


BOUNDS = "at least 30.0 % of bytes missing, at most 42.0 % lost by the mirror"
UNCOUNTED = {"lost_frames": 0, "loss_share": 0.0, "loss_stages_known": 3, "frames": 99, "site": "S0"}
CONGESTED = {"mirror_verdict": "congested", "mirror_loss_low": 0.3, "mirror_loss_high": 0.42}
AT_RISK = {"mirror_verdict": "at risk", "mirror_loss_low": 0.0, "mirror_loss_high": 0.2}
CLEAR = {"mirror_verdict": "clear", "mirror_loss_low": 0.0, "mirror_loss_high": 0.01}


@pytest.mark.parametrize(
    ("verdicts", "title", "losses"),
    [
        ([CLEAR, CLEAR], "No loss counted in 2 samples", "losses: none counted; partly counted in 2 of 2 samples"),
        (
            [CONGESTED, AT_RISK, CLEAR],
            f"No loss counted in 3 samples; mirror congested in 1 sample ({BOUNDS}), at risk in 1 sample",
            "losses: none counted; partly counted in 3 of 3 samples; "
            f"mirror congested in 1 sample ({BOUNDS}), at risk in 1 sample",
        ),
        (
            [{**AT_RISK, "lost_frames": None}],
            "Loss unknown: no counters in 1 of 1 sample; mirror at risk in 1 sample",
            "losses: unknown (no sample has a counter of mirror, interface or kernel); mirror at risk in 1 sample",
        ),
        (
            [{**CONGESTED, "mirror_offered": 99, "mirror_delivered": 99, "loss_stages_known": 4}],
            f"No loss counted in 1 sample; mirror congested in 1 sample ({BOUNDS})",
            f"losses: none counted; mirror congested in 1 sample ({BOUNDS})",
        ),
        (
            [
                {**CLEAR, "mirror_offered": 99, "mirror_delivered": 99, "loss_stages_known": 4},
                {"mirror_verdict": "unknown", "mirror_offered": 99, "mirror_delivered": 99, "loss_stages_known": 4},
            ],
            "No loss seen in 2 samples",
            "losses: none seen",
        ),
        (
            [
                {
                    **{**CONGESTED, "mirror_offered": 100, "mirror_delivered": 64, "loss_stages_known": 4},
                    **{"lost_frames": 36, "loss_share": 0.36, "frames": 64},
                }
            ],
            f"Loss counted in 1 of 1 sample, the largest 36.0 % of frames; mirror congested in 1 sample ({BOUNDS})",
            f"losses: 36.0 % of offered frames; mirror congested in 1 sample ({BOUNDS})",
        ),
    ],
)
def test_mirror_losses_missing_from_counters_are_stated(verdicts, title, losses, tmp_path):
    rows = [{**UNCOUNTED, "sample": f"s{n}", **verdict} for n, verdict in enumerate(verdicts)]
    write_table(tmp_path, "capture_quality", rows)
    quality = Source(Campaign(tmp_path)).quality
    assert plain(capture_quality.title(quality)) == title
    assert plain(loss_summary(quality)) == losses
