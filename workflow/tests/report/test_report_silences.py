"""Tests samples with a long time without frames, such as merged captures, and samples with a single timestamp."""

import pytest
from acapella_testing.generated.tiny import SECOND, add_sample, flow
from acapella_testing.oracles import naive_samples
from acapella_testing.oracles.table_agreement import assert_equal
from acapella_testing.runs.stages import analyze_campaign, rows
from acapella_testing.svg_text import with_spaces

from acapella.campaign.layout import Campaign
from acapella.figures import capture_quality, silences, throughput
from acapella.figures.source import Source
from acapella.report import warnings

DAYS_369_S = 369 * 86400


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Return a campaign of samples with silences; `early` and `idle` have manifests with times."""
    campaign = tmp_path_factory.mktemp("silences") / "made"
    add_sample(campaign, "merged", ("WEST", "p1"), None, [flow(0.5, 47), flow(DAYS_369_S, DAYS_369_S + 0.2)])
    add_sample(campaign, "hour", ("EAST", "p1"), None, [flow(0, 20), flow(3600, 3620)])
    add_sample(campaign, "idle", ("EAST", "p2"), (0, 7200), [flow(1, 7000)])
    add_sample(campaign, "early", ("EAST", "p3"), (0, 100), [flow(-1000, 50)])
    add_sample(campaign, "instant", ("EAST", "p4"), None, [flow(5, 5)])
    return analyze_campaign(campaign)


def test_silences_are_times_without_frames_that_no_manifest_shows_as_captured(campaign):
    found = {row["sample"]: row["silence_ns"] // SECOND for row in rows(campaign, "capture_quality")}
    assert found == {"merged": DAYS_369_S - 48, "hour": 3579, "idle": 0, "early": 999, "instant": 0}


@pytest.mark.parametrize("table", ["capture_quality", "throughput"])
def test_tables_equal_the_naive_reference(campaign, table):
    """The sample `instant` covers no time, although its frames are exactly at the start of a bin."""
    assert_equal(table, campaign, naive_samples.read_campaign(campaign))


def test_figures_name_samples_with_silences_and_samples_that_are_not_drawn(campaign):
    source = Source(Campaign(campaign))
    (key,) = map(with_spaces, throughput.draw(source).key)
    assert "omitted, and not in rates: time without frames in merged (369 d), early (16.6 min);" in key
    assert "perhaps not captured: time without frames in hour (59.6 min);" in key
    assert "1 sample with a single timestamp omitted" in key
    assert "Time captured includes time without frames in merged (369 d), hour (59.6 min), early (16.6 min)." in map(
        with_spaces, capture_quality.draw(source).key
    )


def test_frames_at_the_end_of_a_sample_are_drawn_in_the_bin_before(campaign):
    """The last frame of `hour` is exactly at the start of a bin, of which no time is captured."""
    source = Source(Campaign(campaign))
    ports = throughput.observed_ports(source.rows("throughput"), source.traffic)
    bins, _ = throughput.bin_ports({("EAST", "p1"): ports["EAST", "p1"]}, 500, gapless=False)
    assert sum(row["frames"] for row in bins) == 4


def test_report_names_mostly_silent_samples_and_their_treatment(campaign):
    (text,) = [text for text in map(with_spaces, warnings.collect(Source(Campaign(campaign)))) if "most of the" in text]
    assert text.startswith("3 samples of 5 without frames during most of the duration")
    assert "merged (369 d of 369 d), hour (59.6 min of 60.3 min), early (16.6 min of 18.3 min)" in text
    assert "Figure throughput draws it as captured for hour and omits it for merged, early." in text


def test_misdated_samples_with_silences_are_noted_only_if_they_are_drawn():
    row = {"sample": "s", "silence_ns": 10**18, "duration_ns": 10**18, "actual_by": "frames", "misdated": True}
    dated = {**row, "sample": "d", "silence_ns": 0, "duration_ns": SECOND, "misdated": False}
    assert silences.throughput_notes([row, dated], SECOND, gapless=True) == []
    assert "in s (" in silences.throughput_notes([row], SECOND, gapless=True)[0]
    assert silences.coverage_notes([row]) == ()
