"""Tests figures and report tables of transfers: required text, page size, overlaps, flags, and missing data."""

from pathlib import Path

import pytest
from acapella_testing.generated import generated_transfers as made
from acapella_testing.generated.transfer_tables import source_of
from acapella_testing.svg_text import check_collisions, check_page, with_spaces

from acapella.figures import (
    compose,
    theme,
    transfer_completion,
    transfer_gain,
    transfer_heatmap,
    transfer_retransmits,
    transfer_scope,
)
from acapella.figures.registry import TRANSFER_FIGURES, figure_module
from acapella.figures.source import Source
from acapella.report import transfers
from acapella.snakefile.transfer import empty_figures

HEATMAPS = ("transfer_throughput", "transfer_completion", "transfer_gain", "transfer_retransmits")
UNITS = {
    "transfer_throughput": ("added round-trip delay (ms)", "buffer", "throughput (Mbit/s)", "BBR", "CUBIC"),
    "transfer_completion": ("added round-trip delay (ms)", "buffer", "mean completion (s)", "BBR", "CUBIC"),
    "transfer_gain": ("added round-trip delay (ms)", "buffer", "gain (%)"),
    "transfer_retransmits": ("added round-trip delay (ms)", "buffer", "retransmitted segments"),
    "transfer_streams": ("parallel streams", "completion time (s)", "CUBIC \N{MINUS SIGN} BBR (s)", "5 GiB"),
    "transfer_per_stream": ("parallel streams", "throughput per stream (Mbit/s)", "gain of BBR (%)", "5 GiB"),
    "transfer_fairness": ("Jain's fairness index", "BBR", "CUBIC", "20 streams"),
    "transfer_ratios": ("time (s)", "throughput (Mbit/s)", "red", "green", "blue", "r = 0.5"),
}
CAPTURE_UNITS = {  # figures of campaigns with captures
    "transfer_queueing": ("added round-trip delay (ms)", "buffer", "queueing (ms)", "BBR", "CUBIC"),
    "transfer_agreement": ("difference (%)", "streams", "headers counted", "unexplained", "duration: 0 of 12"),
}
PAPER_DELAYS = (0, 60, 120, 180, 240, 320, 380, 440)
PAPER_BUFFERS = (102_400, 256_000, 512_000, 2**20, 5 * 2**20, 10 * 2**20, 25 * 2**20, 50 * 2**20)


def small(directory) -> None:
    """Write all kinds of experiments."""
    made.grid(directory)
    made.stream_grid(directory, counts=(1, 5, 20))
    made.multipath(directory)


def large(directory) -> None:
    """Write the grid of the paper, a run of a third algorithm, and a failed run in mode published."""
    made.grid(directory, PAPER_DELAYS, PAPER_BUFFERS)
    document = made.document(made.Sent(), algorithm="reno")
    made.cell(directory, "reno", [document], settings={"algorithm": "reno", "buffer_bytes": 2**20})
    made.cell(directory, "failed", [document], settings={"algorithm": "bbr"}, error="no route", mode="published")


WRITERS = {"small": small, "large": large, "empty": Path.mkdir, "captured": made.captured}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory) -> dict[str, Source]:
    """Return the tables of each kind of campaign."""
    directories = {kind: tmp_path_factory.mktemp("transfers") / kind for kind in WRITERS}
    for kind, directory in directories.items():
        WRITERS[kind](directory)
    return {kind: source_of(directory) for kind, directory in directories.items()}


@pytest.mark.parametrize("name", UNITS)
def test_figure_states_runs_mode_repetitions_units_and_data(name, svg, text):
    parts = ("runs of", "mode clean", "repetitions", "flagged", "iperf3 alone: no run has a capture", *UNITS[name])
    assert [part for part in parts if part not in text(name, "small")] == []
    assert f"Data: tables/{figure_module(name).TABLE}.csv" in text(name, "small")
    check_page(svg(name, "small"))


@pytest.mark.parametrize("name", CAPTURE_UNITS)
def test_figure_of_captures_states_units_disagreements_and_data(name, svg, text):
    compared = ("12 runs of 6 settings", "captured: 12 runs; iperf3 and wire differ by more than 1 % in")
    assert [part for part in (*CAPTURE_UNITS[name], *compared) if part not in text(name, "captured")] == []
    assert f"Data: tables/{figure_module(name).TABLE}.csv" in text(name, "captured")
    check_page(svg(name, "captured"))
    assert "no data" in text(name, "small"), "no run has a capture"


def test_every_figure_is_tested():
    assert {*UNITS, *CAPTURE_UNITS} == {*TRANSFER_FIGURES}


@pytest.mark.parametrize("name", HEATMAPS)
def test_grid_of_the_paper_fits_a_page(name, svg, text):
    check_page(svg(name, "large"))
    assert "50 MiB" in text(name, "large")


def test_text_does_not_overlap_and_is_inside_the_figure(svg, browser):
    check_collisions(browser, {name: svg(name, "small") for name in TRANSFER_FIGURES})
    check_collisions(browser, {name: svg(name, "large") for name in HEATMAPS})
    check_collisions(browser, {name: svg(name, "captured") for name in CAPTURE_UNITS})


@pytest.mark.parametrize("name", TRANSFER_FIGURES)
def test_campaign_without_runs_states_that_there_are_none(name, text):
    assert f"{figure_module(name).SUBJECT}: no data" in text(name, "empty")


def test_runs_of_other_experiments_are_omitted_from_heatmaps(notes):
    expected = "22 runs of 9 settings; mode clean; repetitions 1 to 3; 1 run flagged"
    assert expected in notes("transfer_throughput", "small")
    assert "3 runs of 3 settings" in notes("transfer_ratios", "small")
    unknown = "not known whether a window limited the sender (not marked): 3 runs (no samples of TCP_INFO)"
    assert unknown in notes("transfer_ratios", "small")


def omitted_figures(*streams):
    """Return the figures that the workflow omits for runs with these numbers of streams."""
    grid = {"algorithm": ["bbr", "cubic"], "streams": streams, "ratio": []}
    return [*empty_figures({"transfer": {"grid": grid, "data": [], "sheet": None}})]


def test_workflow_omits_only_figures_without_data(drawn):
    assert {*omitted_figures(1)} == {name for name in UNITS if drawn(name, "large").empty}
    assert omitted_figures(1, 5, 20) == ["transfer_ratios"]
    assert not any(drawn(name, "small").empty for name in UNITS)


def test_flagged_cells_have_a_frame(campaigns, drawn):
    rows = campaigns["small"].rows("transfer_settings")
    measure = transfer_heatmap.Measure(lambda row: row["throughput_bps_mean"], lambda row: "", "bit/s")
    (row,) = [row for row in rows if transfer_heatmap.cell_values(row, measure, [0, 1])["flagged"]]
    assert (row["algorithm"], row["delay_ns"], row["buffer_bytes"]) == ("cubic", 60_000_000, 2**20)
    assert row["flags"] == "rate_off window_unknown"
    assert "datum.flagged" in str(drawn("transfer_throughput", "small").spec)


@pytest.mark.parametrize(
    ("name", "campaign", "title"),
    [
        ("transfer_throughput", "small", "Throughput: BBR 26 to 39 Mbit/s, CUBIC 11.7 to 38 Mbit/s"),
        ("transfer_completion", "small", "BBR completes first in 3, CUBIC in 4, equal within 0.5 % in 2 of 9 settings"),
        (
            "transfer_gain",
            "small",
            "BBR is faster in 3, CUBIC in 4, equal within 0.5 % in 2 of 9 settings; median gain 0 %",
        ),
        (
            "transfer_retransmits",
            "small",
            "BBR retransmits more than CUBIC in 9 of 9 settings, by the paper's factor of 2 to 6 in 9",
        ),
        (
            "transfer_ratios",
            "small",
            "CUBIC: r = 2 completes first, after 8.78 s; its flows end within 4.76 % of each other; "
            "predicted best: r = 2",
        ),
        # Segment n (0 to 99) waits n steps, the cookie 0: on average 49.5 x 100/101 steps. A step is
        # buffer_bytes / 10**7 ms (BBR: half of that).
        ("transfer_queueing", "captured", "Queueing delay: BBR 0.25 to 5.14 ms, CUBIC 0.50 to 10.3 ms"),
        # CUBIC: headers in 2 cells, no cause in 2 cells, each in bytes and throughput
        (
            "transfer_agreement",
            "captured",
            "iperf3 and the wire differ by more than 1 % in 8 of 48 values, 4 unexplained",
        ),
    ],
)
def test_title_states_the_results(name, campaign, title, drawn):
    assert with_spaces(drawn(name, campaign).title) == title


def test_shallow_buffers_have_their_own_median(notes):
    # 100 KiB of 40 Mbit/s x 241 ms = 1.2 MB: the only setting below 0.1 BDP.
    assert "median gain with buffers below 0.1 BDP: +55.0 % (1 setting)" in notes("transfer_gain", "small")


@pytest.mark.parametrize(
    ("gain", "comparison", "text"),
    [
        (12.4, "faster_bbr", "+12"),
        (-12.6, "faster_cubic", "\N{MINUS SIGN}13"),
        (-0.2, "faster_cubic", "0"),
        (None, "bbr_zero", "\N{MINUS SIGN}\N{INFINITY}"),
        (None, "both_zero", "0/0"),
        (None, "cubic_missing", "\N{EN DASH}"),
    ],
)
def test_cell_of_gain_shows_sign_or_case(gain, comparison, text):
    assert transfer_gain.text({"gain_percent": gain, "comparison": comparison}) == text


@pytest.mark.parametrize(("faster", "color"), [(0.12, "#F7F7F7"), (0.5, "#F7F7F7"), (5.0, "#EBAE7F"), (12.0, None)])
def test_small_gain_is_not_colored_like_a_large_one(faster, color):
    row = {"comparison": "faster_bbr", "flagged": False, "bbr_runs": 1, "cubic_runs": 1, "gain_percent": faster}
    measure = transfer_gain.measure()
    domain = transfer_heatmap.value_domain([faster], measure)
    values = transfer_heatmap.cell_values(row | {"gain_low": faster, "gain_high": faster}, measure, domain)
    place = transfer_heatmap.place(values["shade"], domain, measure)
    assert theme.color_at(transfer_gain.COLORS, place) == (color or transfer_gain.COLORS[-1])
    assert values["value"] == faster, "the tooltip shows the value"


def test_heatmap_of_gain_draws_the_shades_of_its_cells(drawn):
    assert "'field': 'shade'" in str(drawn("transfer_gain", "small").spec)


@pytest.mark.parametrize(
    ("runs", "low", "text"),
    [
        ((3, 1), -0.2, "0\N{HORIZONTAL ELLIPSIS}+13"),
        ((1, 2), -8.6, "\N{MINUS SIGN}9\N{HORIZONTAL ELLIPSIS}+13"),
        ((1, 1), 12.6, ""),
        ((3, 3), None, ""),
    ],
)
def test_range_of_gain_is_shown_if_a_run_was_repeated(runs, low, text):
    row = {"gain_low": low, "gain_high": 12.6, "bbr_runs": runs[0], "cubic_runs": runs[1]}
    assert transfer_gain.gain_range(row) == text


def test_cell_of_repeated_runs_contains_the_range_of_the_gain(text, notes):
    # 100 KiB without delay: BBR 38 to 40 Mbit/s, CUBIC 0.45 of that, 17.1 to 18: 1 - 18/38, 1 - 17.1/40
    assert "+53\N{HORIZONTAL ELLIPSIS}+57" in text("transfer_gain", "small")
    assert "second line: gain of the slowest BBR run over the fastest CUBIC run" in notes("transfer_gain", "small")
    assert "second line" not in notes("transfer_gain", "captured"), "no repeated run"


UNSENT = "bytes in the send buffer when iperf3 stops do not count: less than 99 % of size_bytes received in {} of {}"


def test_completion_states_bytes_left_in_the_send_buffer(tmp_path, notes):
    assert UNSENT.format(0, "22 runs") in notes("transfer_completion", "small")
    assert "size_bytes received" not in notes("transfer_completion", "captured"), "times of the wire"
    for number, received in enumerate((9_900_000, 9_899_999, None)):  # of 10 MB; without a receiver, it is not known
        document = made.document(made.Sent(10_000_000, received, 2.0, 2.0))
        made.cell(tmp_path, f"c{number}", [document], settings={"delay_ms": 20 * number})
    figure = transfer_completion.draw(source_of(tmp_path))
    assert UNSENT.format(1, "2 runs") in with_spaces(" ".join(figure.key))
    title = "Completion times of unequal transfers: 1 of 2 runs received less than 99 %"
    assert with_spaces(figure.title) == title  # not which algorithm completes first


WIRE_NOTE = "completion time: on the wire, until the receiver acknowledged all requested bytes"
IPERF3_NOTE = "completion time: iperf3's, until its receiver stops (not all requested bytes are known to have arrived)"


@pytest.mark.parametrize(
    ("name", "campaign", "note"),
    [
        ("transfer_completion", "small", IPERF3_NOTE),
        ("transfer_completion", "captured", WIRE_NOTE),
        ("transfer_streams", "small", IPERF3_NOTE),
        ("transfer_ratios", "small", IPERF3_NOTE),
    ],
)
def test_figures_of_completion_times_name_their_source(name, campaign, note, notes):
    assert note in notes(name, campaign)


def test_source_of_completion_times_counts_settings():
    rows = [{"setting": number // 2, "completion_source": "wire"} for number in range(6)]
    assert transfer_scope.completion_note(rows) == WIRE_NOTE
    changed = [{"setting": 0, "completion_source": "iperf3"}] * 2
    expected = f"{WIRE_NOTE}; in 1 of 3 settings iperf3's, until its receiver stops"
    assert with_spaces(transfer_scope.completion_note([*changed, *rows[2:]])) == expected
    assert not transfer_scope.completion_note([{"setting": 1, "completion_source": None}])


@pytest.mark.parametrize(("paths", "few"), [(("red", "blue"), 1), (("main", "main"), 0)])
def test_each_flow_sends_all_bytes_over_several_paths(paths, few):
    cell = {"cell_id": "a", "run": 0, "error": None, "size_bytes": 1000}
    flows = [{"cell_id": "a", "run": 0, "path": path, "received_bytes": 600} for path in paths]
    assert transfer_completion.incomplete([cell], flows) == (few, 1)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "\N{EN DASH}"), (0, "0"), (812, "812"), (1240, "1.2k"), (18_000, "18k"), (2.5e6, "2.5M")]
)
def test_number_of_retransmissions_is_short(value, text):
    assert transfer_retransmits.text(value) == text


@pytest.mark.parametrize(
    ("size", "text"), [(102_400, "100 KiB"), (256_000, "250 KiB"), (2**20, "1 MiB"), (10**7, "10 MB"), (None, "?")]
)
def test_sizes_have_the_unit_of_the_config(size, text):
    assert with_spaces(transfer_scope.byte_text(size)) == text


def test_report_tables_contain_gain_agreement_and_prediction(campaigns):
    found = {table["name"]: table for table in transfers.tables(campaigns["small"])}
    assert [*found] == ["transfer_settings", "transfer_gain", "transfer_disagreements", "transfer_prediction"]
    assert all(len(row) == len(table["columns"]) for table in found.values() for row in table["rows"])
    faster = [row[5] for row in found["transfer_gain"]["rows"]]
    assert {"BBR", "CUBIC", "equal within 0.5 %"} == {*map(with_spaces, faster)} - {"no run of BBR"}
    assert {row[-1] for row in found["transfer_prediction"]["rows"]} == {"2"}
    assert "flows end earliest, with a fixed sum of both rates" in found["transfer_prediction"]["note"]
    large = {table["name"]: table for table in transfers.tables(campaigns["large"])}
    assert large["transfer_files"]["rows"] == [["transfers/failed/cell.json", "1", "run failed: no route"]]
    (row,) = large["transfer_cells"]["rows"]
    assert (row[1:], "mode published" in row[0]) == (["BBR", "0", "failed", "no route"], True)
    note = large["transfer_cells"]["note"]
    assert note.startswith(f"1 of {8 * 8 * 2 + 4 + 2} runs failed")
    assert "snakemake --forcerun transfer" in note


def test_figures_state_the_failed_runs_of_their_settings(tmp_path):
    made.grid(tmp_path, (0,), (102_400,), repeated=2)
    made.cell(tmp_path, "dead", [], settings={"algorithm": "bbr", "delay_ms": 0}, run=2, error="probe: no reply")
    figure = compose.compose_figure("transfer_throughput", source_of(tmp_path))
    assert "4 runs of 1 setting; mode clean; repetitions 2; 1 of 5 runs failed" in with_spaces(figure.notes[0])
