"""Tests samples from a node whose clock was not set: they are dated 1970, the others decades later."""

import pytest
from acapella_testing.generated.generated_report import quality_with
from acapella_testing.generated.tiny import SECOND, START, add_sample, flow
from acapella_testing.oracles import naive_samples, naive_tables
from acapella_testing.runs.stages import analyze_campaign, catalog_rows, rows
from acapella_testing.svg_text import with_spaces

from acapella.campaign import index
from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.figures import flow_times, throughput
from acapella.figures.source import Source
from acapella.report import summary, warnings

YEAR_S = 31_557_600
SINCE_1970_S = -START // SECOND  # seconds from START back to 1970
WEST, EAST = ("WEST", "p1"), ("EAST", "p1")
OTHER_SOURCE = {"src": "10.0.0.9"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the tables of three samples of one day and two of 1970. One flow is in samples of both kinds."""
    made = tmp_path_factory.mktemp("misdated") / "made"
    add_sample(made, "a")
    add_sample(made, "b", WEST, None, [flow(100, 119)])
    add_sample(made, "c", EAST, (200, 220), [flow(201, 202)])
    old = [flow(SINCE_1970_S + 5, SINCE_1970_S + 7), flow(SINCE_1970_S + 5, SINCE_1970_S + 8, **OTHER_SOURCE)]
    add_sample(made, "d", WEST, None, old)
    add_sample(made, "e", EAST, (SINCE_1970_S, SINCE_1970_S + 20), [])
    return analyze_campaign(made)


@pytest.mark.soak
def test_misdated_samples_are_in_no_time_range_of_the_campaign_and_keep_their_own(made, capsys):
    assert cli.main(["campaign", "index", str(made)]) == 0
    assert (
        "acapella: 2 samples dated more than 10 years from the median start of the campaign: d, e\n"
        in capsys.readouterr().out
    )
    quality = {row["sample"]: row for row in rows(made, "capture_quality")}
    expected = naive_tables.time_ranges(naive_samples.read_campaign(made))
    assert {sample: {name: quality[sample][name] for name in expected[sample]} for sample in expected} == expected
    assert [quality[name]["misdated"] for name in "abcde"] == [False, False, False, True, True]
    assert quality["a"]["coverage_share"] == pytest.approx(20 / 220)
    assert quality["c"]["port_coverage_share"] == pytest.approx(20 / 220)
    assert quality["d"]["duration_ns"] == 3 * SECOND
    assert quality["d"]["coverage_share"] is None


def test_duration_of_a_flow_ignores_misdated_samples(made):
    flows = {(row["site"], row["src"]): row for row in rows(made, "stitched_flows")}
    mixed, alone = flows["WEST", "10.0.0.1"], flows["WEST", OTHER_SOURCE["src"]]
    assert (mixed["samples"], mixed["frames"]) == (3, 6)
    assert (mixed["first_ns"], mixed["duration_ns"]) == (START + SECOND, 118 * SECOND)
    assert (mixed["gaps"], mixed["gap_ns"], mixed["rate_bps"]) == (1, 80 * SECOND, None)
    assert (alone["samples"], alone["duration_ns"], alone["gaps"]) == (1, 3 * SECOND, 0)
    assert alone["rate_bps"] is not None


@pytest.mark.parametrize(
    ("table", "measure", "expected"),
    [("flow_times", "duration_ns", [3, 2, 2, 1]), ("flow_sizes", "wire", [5, 3, 3, 2])],
)
def test_flows_only_in_misdated_samples_have_a_size_but_no_duration(made, table, measure, expected):
    found = [row for row in rows(made, table) if (row["measure"], row["site"]) == (measure, "all")]
    flows = {row["scope"]: row["flows"] for row in found}
    assert [flows[scope] for scope in ("sample", "port", "site", "campaign")] == expected


def test_durations_of_flows_only_in_misdated_samples_are_excluded_and_counted(made):
    assert max(row["value"] for row in rows(made, "flow_times") if row["measure"] == "duration_ns") <= 118 * SECOND
    assert "Omitted: 1 directed flow without timestamps or seen only in 2 misdated samples." in map(
        with_spaces, flow_times.draw(Source(Campaign(made))).key
    )


@pytest.mark.soak
def test_frame_of_the_last_second_of_pcap_can_be_drawn(tmp_path):
    """The only sample lasts until 2106, so its durations are included."""
    add_sample(tmp_path, "a", WEST, None, [flow(3, (2**32 - 1) - START // SECOND)])
    assert max(row["value"] for row in rows(analyze_campaign(tmp_path), "flow_times")) > 10**18
    assert cli.main(["campaign", "figures", str(tmp_path), "--only", "flow_times", "flow_sizes"]) == 0


@pytest.mark.parametrize(
    ("starts_s", "expected"),
    [
        ([0, 9 * YEAR_S, 11 * YEAR_S], [False, False, False]),  # the second start is the median
        ([0, YEAR_S, 12 * YEAR_S], [False, False, True]),
        ([SINCE_1970_S, SINCE_1970_S + 1, SINCE_1970_S + 2, 0], [True, True, True, False]),
        ([SINCE_1970_S, SINCE_1970_S + 1], [False, False]),
    ],
    ids=["9 years", "11 years", "most in 1970", "all in 1970"],
)
def test_median_start_ignores_starts_before_1980_if_possible(starts_s, expected, tmp_path):
    for number, start_s in enumerate(starts_s):
        add_sample(tmp_path, f"s{number}", WEST, (start_s, start_s + 1), [])
    index.build(Campaign(tmp_path))
    assert [each for (each,) in catalog_rows(tmp_path, "select misdated from samples order by sample")] == expected
    assert [*naive_samples.misdated(naive_samples.read_campaign(tmp_path)).values()] == expected


def test_title_and_figure_exclude_misdated_samples_and_count_them(tmp_path):
    source = quality_with(tmp_path, misdated=True, actual_start_ns=5 * SECOND, actual_end_ns=25 * SECOND)
    assert "1970" not in summary.heading(source)
    captured = with_spaces(dict(summary.facts(source))["Captured"])
    assert "1970" not in captured
    assert captured.endswith(", without 1 misdated sample)")
    (warning,) = [with_spaces(text) for text in warnings.collect(source)]
    assert warning.startswith("1 sample of 4 dated more than 10 years from the median start of the campaign's samples")
    assert "1 misdated sample omitted" in with_spaces(throughput.draw(source).key[0])


def test_bins_of_a_misdated_sample_are_excluded_even_within_the_range_of_others():
    """Port b has only a sample from 2005 to 2017. The campaign lasts from 2013 to 2020."""
    years = {year: (year - 1970) * 31_556_952 * SECOND for year in (2005, 2013, 2017, 2020)}
    samples = [
        {"site": "A", "port": port, "misdated": misdated, "actual_start_ns": years[first], "actual_end_ns": years[last]}
        for port, misdated, first, last in (("a", False, 2013, 2020), ("b", True, 2005, 2017))
    ]
    bins = [(port, year) for port in "ab" for year in (2005, 2013, 2017)]
    rows = [{"site": "A", "port": port, "start_ns": years[year], "bin_ns": SECOND} for port, year in bins]
    kept, _ = throughput.omit_misdated(rows, samples)
    assert [bins[rows.index(row)] for row in kept] == [("a", 2013), ("a", 2017)]
