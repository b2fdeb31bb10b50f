"""Tests figures and tables of flow reports: required text, page size, and the comparison with the paper's numbers."""

import itertools
import json
import math

import pytest
import vl_convert
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated import generated_tables
from acapella_testing.generated.generated_flowreports import write_study, write_tables
from acapella_testing.svg_text import check_page, with_spaces, words

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.common.agreement import severity
from acapella.figures import (
    compose,
    flowreport_accuracy,
    flowreport_rate,
    flowreport_response,
    flowreport_scope,
    flowreport_success,
)
from acapella.figures.registry import FLOWREPORT_FIGURES, FLOWSTUDY_FIGURES, figure_module
from acapella.figures.save import VEGA_LITE, svg_of
from acapella.figures.source import Source
from acapella.flowreports import offered, program, replay
from acapella.report import flows
from acapella_core.errors import UserError


@pytest.mark.soak
def test_titles_of_flow_reports_name_the_filter_if_all_samples_are_filtered(tmp_path):
    directory = generated_tables.write_tables(tmp_path / "made", sites=1, filter="tcp port 443")
    source = Source(Campaign(write_tables(directory)))
    titles = [compose.compose_figure(name, source).title for name in FLOWREPORT_FIGURES]
    assert [title for title in titles if not title.endswith(" (samples: filter tcp port 443)")] == []


REPORTS = "2,353,758 reports (not accepted by the collector: none)"


def test_rejected_reports_are_stated_with_their_share():
    expected = "9,120 reports (not accepted by the collector: 28, 0.31 %)"
    assert with_spaces(flowreport_scope.reports_text(9120, 9092)) == expected


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Return a campaign with only the tables of flow reports."""
    return write_study(write_tables(tmp_path_factory.mktemp("flowreports")))


@pytest.fixture
def source(campaign):
    """Return the tables of this campaign."""
    return Source(Campaign(campaign))


NEEDS_PROGRAM = pytest.mark.skipif(
    program.why_unavailable() is not None, reason=f"no flow reports here: {program.why_unavailable()}"
)


PHRASES = {
    "flowreport_accuracy": [
        *("Flow size", "exact (B of IP)", "measured (ms)", "Throughput in windows", REPORTS),
        *("differs; not met: R², equal", "error: p99 10.0 %, largest 300 %"),
        *("Throughput between reports", "Inter-arrival time at reports"),
    ],
    "flowreport_memory": [
        *("memory of the sketch (B)", "flows missing or not exact (%)", "99th percentile of errors (%)", "rows")
    ],
    "flowreport_rate": ["x: reports in one second", "seconds with at most x reports (%)", "39,000 to 104,000", REPORTS],
    "flowreport_success": [
        *("offered (million reports/s)", "accepted (% of offered)", "100,000 flows", "lost (% of offered)"),
        *("trace of 166 Mbit/s", "trace of 2,989 Mbit/s", "cannot be reproduced here"),
        "Reports generated in memory: 6 runs, 60,000,000 reports of 64 B of 100,000 flows, 2 threads; "
        "of these lost: 15.2 %",
        "Reports of replayed traces: 24 replays, 2,400,000 reports of 192 B",
    ],
    "flowreport_response": [
        *("throughput (Mbit/s)", "inter-arrival time (µs)", "background", "120 windows of 100 ms"),
        "4 TCP streams and 1 UDP stream of iperf3, 4 Mbit/s of payload each, through one queue limited to 40 Mbit/s",
        "mean 30 Mbit/s, 30 Mbit/s in single windows (exact)",
    ],
}


@pytest.mark.soak
@pytest.mark.parametrize("name", [*FLOWREPORT_FIGURES, *FLOWSTUDY_FIGURES])
def test_flowreport_figure_states_its_subject_and_fits_a_page(name, source):
    figure = compose.compose_figure(name, source)
    text = words(svg_of(figure))
    assert not figure.empty
    assert [
        phrase for phrase in (*PHRASES[name], f"Data: tables/{figure_module(name).TABLE}.csv") if phrase not in text
    ] == []
    assert "NaN" not in text
    check_page(svg_of(figure))


def test_each_figure_of_flow_reports_is_tested():
    assert sorted(PHRASES) == sorted([*FLOWREPORT_FIGURES, *FLOWSTUDY_FIGURES])


@pytest.mark.soak
def test_single_value_has_an_axis_with_labels(tmp_path):
    figure = compose.compose_figure("flowreport_accuracy", Source(Campaign(write_tables(tmp_path, samples=1, flows=2))))
    assert "Handshake: SYN to SYN-ACK" in words(svg_of(figure))


def test_title_has_the_rate_of_first_loss_in_memory_and_of_each_trace(source):
    """The title has the lowest rate with a lost report, the highest rate below it, and the loss-free runs above it."""
    assert losses_begin(source, None) == (10, 20, 0, 3)
    assert losses_begin(source, "166 Mbit/s") == pytest.approx((0.277, 2.77, 2, 6), rel=0.002)
    assert losses_begin(source, "2,989 Mbit/s") == pytest.approx((0.498, 4.98, 1, 9), rel=0.002)
    assert with_spaces(compose.compose_figure("flowreport_success", source).title) == (
        "Reports generated in memory: losses begin between 10 and 20 million reports/s; "
        "replayed trace of 166 Mbit/s: losses begin between 0.277 and 2.77 million reports/s "
        "(2 of 6 runs at that rate or above without losses); "
        "replayed trace of 2,989 Mbit/s: losses begin between 0.498 and 4.98 million reports/s "
        "(1 of 9 runs at that rate or above without losses)"
    )
    panels = flowreport_success.draw(source).chart.to_dict()["vconcat"]
    assert [panel["layer"][-1]["encoding"]["x"]["title"] for panel in panels] == ["offered (million reports/s)"] * 2
    drawn = {value["rate"] for value in panels[1]["data"]["values"]}
    assert (min(drawn), max(drawn)) == pytest.approx((0.0277, 498), rel=0.002)


def losses_begin(source, trace):
    """Return the highest rate below the lowest rate with a loss, and that rate, in million reports/s; then, of the runs
    at that rate or above, the number without a loss, and their total.
    """
    rows = [row for row in source.rows("flowreport_offered") if row["trace"] == trace]
    runs = [(row["offered_rps"] / 1e6, row["accepted"] + row["discarded"] == row["offered"]) for row in rows]
    first = min(rate for rate, lossless in runs if not lossless)
    above = [lossless for rate, lossless in runs if rate >= first]
    return max(rate for rate, _ in runs if rate < first), first, sum(above), len(above)


@pytest.mark.parametrize(
    ("counts", "band"),
    [
        ([5_000, 5_400, 6_000], False),
        ([7_900, 8_100, 9_000], False),  # the paper's range starts at 39,000 and does not extend the axis
        ([30_000, 45_000, 60_000], True),
        ([200_000, 260_000], False),
        ([3, 40, 900], False),
        ([70, 70], False),
        ([0, 0], False),
    ],
)
def test_counts_of_reports_fill_their_axis(counts, band):
    rows = [{"sample": "a", "whole": True, "reports": number} for number in counts]
    values = [value | {"label": "a"} for value in flowreport_rate.distribution("a", rows)]
    figure = flowreport_rate.chart(values, ["a"]).to_dict()
    scale = figure["layer"][-1]["encoding"]["x"]["scale"]
    low, high = scale["domain"]
    assert low <= min(counts) <= max(counts) <= high
    assert low < high
    if scale["type"] == "log":
        assert math.log(max(counts) / min(counts)) >= 0.9 * math.log(high / low)
    assert scale["type"] == "log" or min(counts) == max(counts) or max(counts) - min(counts) >= 0.9 * (high - low)
    assert (len(figure["layer"]) == 2) == band == (flowreport_rate.paper_range_text(values) == "gray")
    vl_convert.vegalite_to_svg(figure, vl_version=VEGA_LITE)


def test_partial_second_counts_for_the_maximum_and_not_for_the_mean():
    rows = [{"sample": "a", "whole": n < 2, "reports": reports} for n, reports in enumerate((100, 300, 900))]
    rows += [{"sample": "b", "whole": True, "reports": 40_000_000}]
    assert flowreport_rate.title(rows[:3]) == "Mean: 200 reports/s; at most 900 in one second"
    title = with_spaces(flowreport_rate.title(rows))
    assert title == "Mean of a sample: 200 reports/s to 40 million reports/s; at most 40 million in one second"
    assert [step["reports"] for step in flowreport_rate.distribution("a", rows)] == [100, 100, 300, 900]


def test_labels_of_wide_axes_are_short():
    values = [{"x": at, "y": at, "top": at, "pairs": 1, "low": 1e-4, "high": 3e6} for at in (1e-4, 3e6)]
    row = panel_row("throughput_reports", near_share=0.5, error_p99=0.0844, error_largest=12.5)
    figure = flowreport_accuracy.panel(values, "throughput_reports", row).to_dict()
    text = words(vl_convert.vegalite_to_svg(figure, vl_version=VEGA_LITE)).replace("\u202f", " ")
    assert "100k" in text
    assert "0.1" in text
    assert "100000" not in text
    assert "error: p99 8.44 %, largest 1250 %" in text
    assert "50.0 % within 1 %" in text


def panel_row(measure: str, **values) -> dict:
    """Return the values of flowreport_accuracy that a panel prints, for two flows without an error."""
    return {"measure": measure, "n": 2, "n_log": 2, "r2": 1, "r2_log": 1, "near_share": 1} | NO_ERROR | values


def test_flows_invisible_to_the_program_are_counted_next_to_n():
    lines = flowreport_accuracy.panel_subtitle(panel_row("start", missing=2, missing_share=0.5, outside=1234))
    assert with_spaces(lines[2].split(", ", 1)[1]) == "50.0 % missing, 1,234 outside"


@pytest.mark.parametrize(
    ("measure", "shares", "n", "verdict", "criterion"),
    [
        ("bytes", (0.99, 1.0), 100, "differs; not met: equal", "99.0 % equal"),
        ("bytes", (1.0, 1.0), 100, "agrees", "100 % equal"),
        ("start", (0.5, 1.0), 100, "agrees", "100 % within 1 %"),
        ("start", (0.5, 1.0), 9, "too few values", "100 % within 1 %"),
    ],
)
def test_panel_has_the_verdict_and_the_criterion_of_its_kind(measure, shares, n, verdict, criterion):
    errors = {"equal_share": shares[0], "near_share": shares[1], "error_p99": 0.005, "error_largest": 7.5}
    first, *_, shown, error = flowreport_accuracy.panel_subtitle(panel_row(measure, n=n, n_log=n, **errors))
    assert with_spaces(first) == verdict
    assert (with_spaces(shown), with_spaces(error)) == (criterion, "error: p99 0.5 %, largest 750 %")


@pytest.mark.parametrize(
    ("shares", "phrase"),
    [
        ({}, "4 of 4 measures agree with the digest"),
        ({"start": 0.9}, "3 of 4 measures agree with the digest; the one that differs is start time (90 % within 1 %)"),
        (
            {"start": 0.9, "iat": 0.2},
            "2 of 4 measures agree with the digest; the worst that differs is last inter-arrival time "
            "(20 % within 1 %)",
        ),
        ({"loss": None}, "3 of 4 measures agree with the digest; 1 measure with too few values to compare"),
        (
            {"loss": None, "start": 0.9},
            "2 of 4 measures agree with the digest; 1 measure with too few values to compare; "
            "the one that differs is start time (90 % within 1 %)",
        ),
    ],
)
def test_measure_with_too_few_values_is_not_the_worst_in_the_title(shares, phrase):
    rows = agreeing("start", "iat", "bytes", "loss", n=100, r2=0.999, equal_share=1.0, width_median=0.002)
    for measure, row in rows.items():
        row["near_share"] = shares.get(measure, 1.0)
    if "loss" in shares:
        rows["loss"] |= {"n": 3, "n_log": 3, "r2": 0.9901, "r2_log": 0.9901}
    assert with_spaces(flowreport_accuracy.title(rows)) == phrase
    expected = sorted((measure for measure, share in shares.items() if share), key=shares.get)
    ranked = sorted(rows, key=lambda measure: severity(rows[measure]))
    assert ranked[: len(shares)] == [*expected, *(["loss"] if "loss" in shares else [])]


def agreeing(*measures, n, r2, **values):
    """Return rows of flowreport_accuracy of n flows by measure."""
    shared = {"n": n, "n_log": n, "r2": r2, "r2_log": r2, "equal": n, **values}
    return {name: accuracy_row(name) | shared for name in measures}


@pytest.mark.parametrize("measure", ["loss", "retransmitted"])
def test_intervals_of_loss_are_drawn_from_the_lower_to_the_upper_bound(measure, tmp_path):
    """Three flows: exact value inside the interval, exact value at the upper bound, and an exact count."""
    source = Source(Campaign(write_tables(tmp_path, samples=1, flows=3)))
    rows = source.rows("flowreport_flows")
    numbers = ((1000, 900, 200), (1000, 500, 500), (1000, 1000, 0))
    for row, (exact, measured, uncertain) in zip(rows, numbers, strict=True):
        row |= {"payload_bytes": 10_000, "payload_measured_bytes": 10_000, "loss_reason": None}
        row |= {"retransmitted_bytes": 1000, "retransmitted_measured_bytes": measured}
        row |= {"missing_bytes": exact, "missing_measured_bytes": measured, "uncertain_bytes": uncertain}
    source.rows = lambda _: rows
    expected = sorted((10, n[1] / 100, (n[1] + n[2]) / 100) for n in numbers)  # percent
    drawn = flowreport_accuracy.points(source, measure)
    found = sorted((point["x"], point["y"], point["top"]) for point in drawn)
    assert [pytest.approx(values, rel=0.02) for values in expected] == found
    chart = flowreport_accuracy.panel(drawn, measure, accuracy_row(measure)).to_dict()
    rules = [layer for layer in chart["layer"] if layer["mark"]["type"] == "rule"]
    assert len(rules[0]["data"]["values"]) == 2, "the exact count has no interval to draw"


def accuracy_row(measure: str) -> dict:
    """Return a row of flowreport_accuracy for three flows with intervals."""
    return {"measure": measure, **COUNTS_AND_WIDTHS}


def test_generated_losses_are_within_their_intervals(tmp_path):
    for row in Source(Campaign(write_tables(tmp_path, samples=2))).rows("flowreport_flows"):
        low = row["missing_measured_bytes"]
        assert low <= row["missing_bytes"] <= low + row["uncertain_bytes"]


def test_values_compared_at_reports_are_weighted_by_their_number(tmp_path):
    source = Source(Campaign(write_tables(tmp_path, samples=1, flows=30)))
    rows = [row for row in source.rows("flowreport_by_report") if row["measure"] == "throughput_reports"]
    drawn = flowreport_accuracy.points(source, "throughput_reports")
    assert sum(point["pairs"] for point in drawn) == sum(row["pairs"] for row in rows)
    ends = [10 ** (row[name] / 20) / 1e6 for row in rows for name in ("place", "place_measured")]  # Mbit/s
    assert (drawn[0]["low"], drawn[0]["high"]) == pytest.approx((min(ends), max(ends)))


def paper_numbers(campaign, *arguments):
    """Run `p4 published`; return its rows by place and quantity."""
    assert cli.main(["p4", "published", str(campaign), "--flowreports", *arguments]) == 0
    return {(row["where"], row["what"]): row for row in read_rows(campaign / "tables" / "flowreport_published.csv")}


def test_numbers_of_the_paper_are_shown_next_to_measured_ones(campaign, capsys):
    rows = paper_numbers(campaign, "--flowstudy")
    assert rows["figure 5", "R2 of packet counts"]["verdict"] == "agrees"
    assert rows["figure 5", "R2 of flow size"]["verdict"] == "differs", "the generated sizes are wrong"
    assert rows["figure 7b", "reports a second with negligible losses"]["ours"].startswith("10 million, 2 threads")
    assert rows["table III", "packet drop of Zeek"]["verdict"] == "not measured"
    # frames are read from a file
    assert rows["table III", "packet drop of the proposed system"]["verdict"] == "not measured"
    assert all(row["reason"] for row in rows.values())
    assert "not measured" in capsys.readouterr().out


@pytest.mark.soak
def test_result_with_most_round_trip_times_missing_does_not_agree_with_the_paper(tmp_path):
    """78 % of the handshakes have no report, and the others are exact, so R2 of the available ones is 1."""
    rows = {what: row for (_, what), row in paper_numbers(write_tables(tmp_path, samples=1, missing=0.78)).items()}
    assert rows["R2 of handshake RTT"]["verdict"] == "differs"
    assert "78 % missing" in rows["R2 of handshake RTT"]["ours"]
    assert rows["R2 of the other derived metrics"]["verdict"] == "differs", "the generated loss is wrong"


def offered_runs(tmp_path, rate, seconds):
    """Run `acapella measure collector`; return the runs that replay no trace."""
    output = tmp_path / "offered.json"
    assert cli.main(["measure", "collector", "-o", str(output), "--rates", rate, "--seconds", seconds]) == 0
    return [row for row in json.loads(output.read_text())["runs"] if row.get("trace") is None]


@pytest.fixture
def few_flows(monkeypatch):
    """Make the ring small: creating and changing its reports takes longer than collecting them."""
    monkeypatch.setattr(offered, "FLOWS", 1 << 14)


@pytest.mark.soak
def test_overwritten_reports_are_counted_as_lost(tmp_path, monkeypatch, few_flows):
    monkeypatch.setattr(offered, "RING", offered.FLOWS)
    monkeypatch.setattr(replay, "rows", list)
    *_, fastest = offered_runs(tmp_path, "0.01", "0.02")
    # longer, because a worker that is late by 1 % of the time loses reports
    slow = offered.measured(offered.ring(), 1e4, 1, 3.0)
    assert (slow["lost"], slow["discarded"], slow["success_share"], slow["offered"]) == (0, 0, 1, 30_000)
    rows = offered_runs(tmp_path, "0.01", "0.5")
    assert rows[-1]["lost"] > 0, "no collector reads as fast as memory is copied"
    assert [row["accepted"] + row["discarded"] + row["lost"] for row in rows] == [row["offered"] for row in rows]
    assert len(rows) == 1 + offered.BISECTIONS + 1
    assert max(row["offered_rps"] for row in rows) == rows[-1]["offered_rps"] >= fastest["offered_rps"] / 50


@pytest.mark.soak
def test_reports_count_as_new_after_every_pass_over_the_ring(monkeypatch, few_flows):
    """Two passes over four reports per flow. If the times of the first pass were reused, three of four reports of the
    second pass would be discarded.
    """
    monkeypatch.setattr(offered, "RING", 4 * offered.FLOWS)
    total, seconds = 8 * offered.FLOWS, 4.0  # a worker that is late by half of this time loses reports
    row = offered.measured(offered.ring(), total / seconds, 1, seconds)
    assert (row["offered"], row["accepted"], row["discarded"], row["lost"]) == (total, total, 0, 0)
    monkeypatch.setattr(offered, "advance", lambda reports, passes=1: None)
    row = offered.measured(offered.ring(), total / seconds, 1, seconds)
    assert (row["accepted"], row["discarded"], row["lost"]) == (total - 3 * offered.FLOWS, 3 * offered.FLOWS, 0)
    assert row["success_share"] == row["accepted"] / row["offered"]


@NEEDS_PROGRAM
@pytest.mark.parametrize(("reports", "loses"), [(128, False), (512, True)])
def test_replayed_traces_lose_reports_overwritten_before_they_are_read(tmp_path, monkeypatch, reports, loses):
    """The collector reads the ring every RING / 2 or every 2 RING reports, with a simulated clock."""
    monkeypatch.setattr(replay, "RING", 256)
    monkeypatch.setattr(replay, "MAX_BATCH", 10**6)
    trace = replay.reports_of_trace(tmp_path, 60e6, 1800, 0.2)
    times = trace.times_ns.tolist()
    assert trace.bps == pytest.approx(60e6, rel=0.2)
    assert len(times) > 2000
    looks = [times[min(at, len(times) - 1)] for at in range(reports, len(times) + reports, reports)]
    steps = itertools.chain([0.0], ((look + 0.5) / 1e9 for look in looks), itertools.repeat(1.0))
    row = replay.replayed(trace, 1, clock=lambda: next(steps))
    seen = [0, *(sum(at <= look for at in times) for look in looks)]
    expected = sum(max(0, after - before - 256) for before, after in itertools.pairwise(seen))
    assert row["lost"] == expected
    assert (expected > 0) == loses
    assert row["accepted"] + row["discarded"] + row["lost"] == row["offered"] == len(times)


NO_ERROR = dict.fromkeys(("missing", "missing_share", "outside", "extra", "ambiguous"), 0)
NO_ERROR |= dict.fromkeys(("error_median", "error_p99", "error_largest"), 0)
COUNTS_AND_WIDTHS = {
    **{"n": 3, "n_log": 3, "missing": 0, "missing_share": 0.0, "outside": 0, "extra": 0},
    **{"ambiguous": 0, "r2": None, "r2_log": None, "equal": 1, "covered_share": 1.0},
    **{"width_median": 0.02, "width_p99": 0.05, "error_largest": None},
}


@pytest.mark.soak
@NEEDS_PROGRAM
def test_generated_traces_have_the_rates_of_the_papers(monkeypatch):
    monkeypatch.setattr(replay, "SPEEDS", (1000,))
    rows = [(row["trace"], row["trace_bps"]) for row in replay.rows()]
    assert rows[: replay.REPEATS] == [("166 Mbit/s", pytest.approx(166.17e6, rel=0.1))] * replay.REPEATS
    assert rows[replay.REPEATS :] == [("2,989 Mbit/s", pytest.approx(2989.26e6, rel=0.1))] * replay.REPEATS


def test_replay_with_losses_not_shown_by_sequence_numbers_fails():
    counters = {"taken": 90, "older": 0, "repeated": 0, "psn_gap_lost": 9}
    replay.check(counters, 99, 9)
    with pytest.raises(UserError, match="missing sequence numbers"):
        replay.check(counters, 100, 10)
    with pytest.raises(UserError, match="missing sequence numbers"):
        replay.check(counters, 99, 8)


def test_search_narrows_the_rate_of_first_loss():
    """The collector accepts 13 million reports per second and is offered up to 100 million."""
    rows = []
    for rate in offered.rates([1, 10, 20, 400], 100e6, rows):
        rows.append({"offered_rps": rate, "offered": rate, "accepted": min(rate, 13e6)})
    assert [row["offered_rps"] / 1e6 for row in rows] == [1, 10, 20, 15, 12.5, 13.75, 13.125, 100]


def test_title_of_accuracy_has_the_largest_error_even_if_all_agree():
    rows = agreeing("bytes", "iat", n=999, r2=1.0, equal_share=0.999, near_share=0.999)
    rows["iat"]["error_largest"] = 1000.0
    title = with_spaces(flowreport_accuracy.title(rows))
    assert title == "2 of 2 measures agree with the digest; largest relative error: 100000 % (last inter-arrival time)"


def test_largest_error_of_a_window_is_in_the_title_of_the_response(source):
    rows = source.rows("flowreport_response")
    behind = [row["bps"] / 1e6 for row in rows if row["flow"] == "background"]
    worst = max(abs(row["bps_measured"] - row["bps"]) / row["bps"] for row in rows if row["flow"] != "background")
    title = compose.compose_figure("flowreport_response", source).title
    assert title.endswith(f"largest {100 * worst:.3g}\N{NO-BREAK SPACE}%")
    layers = flowreport_response.draw(source).chart.to_dict()["hconcat"][0]["vconcat"][0]["layer"]
    dots = [layer for layer in layers if layer["mark"]["type"] == "circle"]
    assert behind in [[value["exact"] for value in layer["data"]["values"]] for layer in dots if "data" in layer]


def test_interval_widths_of_several_samples_are_not_summed_in_the_report(source):
    """The number of flows of two samples is summed; of the widths of their intervals, the largest is shown."""
    values = [("a", "flows", 10), ("a", "width_p99_ppm", 600_000), ("b", "flows", 5), ("b", "width_p99_ppm", 500_000)]
    shared = {"place": 1, "stage": "loss"}
    source.rows = lambda _: [{"sample": a, "counter": name, "value": n, **shared} for a, name, n in values]
    table = flows.counts(source)
    assert table["rows"] == [["loss", "flows", "15"], ["loss", "width_p99_ppm", "600,000"]]
    assert "Widths are the largest of all samples" in table["note"]


def test_headings_of_flowreport_tables_name_the_denominator_of_shares(source):
    tables = flows.tables(source, flows.FlowSections(samples=True, study=True), papers=False)
    headings = {table["name"]: {heading for heading, _ in table["columns"]} for table in tables}
    assert {"Error, p99", "Error, largest", "Width, p99", "log R²"} <= headings["flowreport_accuracy"]
    assert "Share of all windows" in headings["flowreport_window_reasons"]
    assert "Share of these flows" in headings["flowreport_flow_reasons"]
    assert {"Flows with equal bytes", "Packets missed"} <= headings["flowreport_tools"]
    assert not {"Share", "Share of these", "99 %", "Largest", "Missed", "Of"} & set().union(*headings.values())
