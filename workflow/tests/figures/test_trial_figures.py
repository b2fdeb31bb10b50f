"""Tests figures of trials: required text, for one pair and many, for equal trials, and with no packet in common."""

import json
import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from itertools import pairwise

import pytest
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.generated_trials import (
    outlier_baseline,
    shapes,
    source_of,
    write_campaign,
    write_replays,
)
from acapella_testing.svg_text import check_collisions, check_page, with_spaces, words

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.common.wording import nanoseconds
from acapella.figures import compose, kappa_components, kappa_matrix, kappa_replayer, kappa_timeline, theme
from acapella.figures.kappa_components import format_kappa
from acapella.figures.registry import REPLAY_FIGURES, TRIAL_FIGURES, figure_module
from acapella.figures.save import svg_of
from acapella.figures.source import Source
from acapella.figures.theme import WIDTH

FIGURES = (*TRIAL_FIGURES, *REPLAY_FIGURES)
EQUAL_TRIALS = {"I": 0.0}
LONG = "an-environment-whose-name-is-longer-than-any-label"
REPLAYED = [{"I": 0.02 + n / 1000, "replayer": 0.99 - n / 1000, "path": (0.999, 0.9995)} for n in range(3)]
CAMPAIGNS = {
    "one_pair": ({"quiet": [{}]}, {}),
    "three_environments": (shapes(4), {"all_pairs": True}),
    "nothing_differs": ({"quiet": [EQUAL_TRIALS] * 4, "loaded": [EQUAL_TRIALS] * 4}, {}),
    "nothing_in_common": ({"quiet": [{"common": 0}], "loaded": [{"I": 0.2}, {"common": 0}]}, {}),
    "replayed": ({"quiet": REPLAYED, "loaded": [{"I": 0.2}] * 3}, {"all_pairs": True}),
    "many": ({f"{LONG}-{n}": [{"I": 0.02 * n + 0.001 * run} for run in range(8)] for n in range(4)}, {}),
}
UNMEASURED = "the departures of the replays were not measured"
EMPTY = {("kappa_replayer", name): UNMEASURED for name in CAMPAIGNS if name != "replayed"}  # figures without data
EMPTY |= {  # and the reason that they print
    ("kappa_environments", "nothing_in_common"): "no environment has a kappa above 0 to compare with",
}
DIFFERENCE = "Mean absolute difference of"
UNITS = {
    "kappa_environments": ("kappa", "difference of mean kappa (%)", "95 % bootstrap intervals over runs"),
    "kappa_components": ("1 - kappa", "I: inter-arrival time"),
    "kappa_timeline": ("time since the first packet (ms)", "kappa"),
    "kappa_matrix": ("kappa", "Trials in the order of the config"),
    "iat_delta": (f"{DIFFERENCE} inter-arrival time", "difference of inter-arrival time", "packets (%)", "0 ns"),
    "reordering_spacing": ("pair", "1, 4, 16, ... or 4096 packets apart"),
    "kappa_replayer": ("1 - kappa", "measured", "replayer alone", "path, 95 % interval of each run"),
    "latency_delta": (f"{DIFFERENCE} latency", "difference of latency", "packets (%)"),
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory) -> dict[str, Source]:
    """Return the tables of each kind of campaign."""
    directories = {name: tmp_path_factory.mktemp(name) for name in CAMPAIGNS}
    write_replays(directories["replayed"], {f"quiet-{n}": {"largest_gap_ns": 400 + 100 * n} for n in range(1, 5)})
    return {name: source_of(directories[name], runs, **options) for name, (runs, options) in CAMPAIGNS.items()}


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("name", FIGURES)
def test_trial_figure_states_subject_samples_and_loss(name, campaign, campaigns, drawn, text):
    figure, shown = drawn(name, campaign), text(name, campaign)
    assert figure.empty == ((name, campaign) in EMPTY)
    if figure.empty:
        assert f"{EMPTY[name, campaign]}." in shown
        return
    assert with_spaces(figure.title)[:40] in shown
    runs = sum(len(runs) for runs in CAMPAIGNS[campaign][0].values())
    against_first = f"{runs} run{'s' * (runs > 1)} against the first trial"
    pairs = f"{len(campaigns[campaign].rows('consistency'))} pair"
    assert (pairs if name == "kappa_matrix" else against_first) in shown
    assert ("against the first trial" in shown) == (name != "kappa_matrix")
    assert "losses: none seen" in shown
    is_single = name == "kappa_environments" and len(CAMPAIGNS[campaign][0]) == 1
    assert [unit for unit in (("kappa",) if is_single else UNITS[name]) if unit not in shown] == []
    assert f"Data: tables/{'consistency' if is_single else figure_module(name).TABLE}.csv" in shown
    assert "NaN" not in shown
    assert "undefined (" not in shown


@pytest.mark.parametrize(
    ("runs", "title"),
    [
        (4, "quiet: mean kappa 0.9650 (0.9500 to 0.9800) of 4 runs"),
        (1, "quiet: kappa 0.9800 of the only run"),
    ],
)
def test_single_environment_has_one_panel_of_runs_and_no_comparison(runs, title, tmp_path):
    source = environments_campaign(tmp_path, {"quiet": [0.98 - 0.01 * n for n in range(runs)]})
    figure = compose.compose_figure("kappa_environments", source)
    assert with_spaces(figure.title) == title
    (panel,) = figure.spec["concat"]
    assert "hconcat" not in panel
    assert len(figure.spec["data"]["values"]) == runs
    assert "there is no other environment to compare with" in figure.description
    assert "Difference" not in figure.description
    assert (figure.table, figure.columns) == ("consistency", ("environment", "trial_b", "kappa"))


@pytest.mark.parametrize("name", ["reordering_spacing", "kappa_replayer"])
def test_sentence_instead_of_marks_has_no_frame(name, drawn):
    """A frame would look like an empty panel."""
    assert "view" not in drawn(name, "one_pair").spec["concat"][0]


@pytest.mark.parametrize("width", [141, 192, 293, 596])
@pytest.mark.parametrize("end", [0, 1, 9.5, 300, 999.9, 1499, 1502, 9999, 12_000, 86_400, 9.9e6])
def test_labels_of_the_time_axis_are_apart(width, end):
    px = width / max(end, 1)
    ticks = kappa_timeline.time_ticks(end, width)
    sizes = [theme.text_width([f"{tick:,}"]) for tick in ticks]
    left = [min(max(tick * px - size / 2, 0), width - size) for tick, size in zip(ticks, sizes, strict=True)]
    assert all(b - a - size > 8 for (a, b), size in zip(pairwise(left), sizes, strict=False))
    assert len(ticks) > (end >= 1)


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("name", FIGURES)
def test_trial_figure_fits_a_page_in_one_font(name, campaign, svg):
    check_page(svg(name, campaign))


@pytest.mark.soak
@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_text_of_trial_figures_does_not_overlap_and_is_inside_the_figure(campaign, svg, browser):
    check_collisions(browser, {name: svg(name, campaign) for name in FIGURES})


def test_figure_states_that_no_packet_is_in_common(text):
    assert text("kappa_components", "nothing_in_common").count("0: no packet in common") == 2
    assert "Mean kappa: 0 (quiet), 0.4500 (loaded)" in text("kappa_components", "nothing_in_common")
    assert "No packets in common: quiet-2, loaded-3." in text("iat_delta", "nothing_in_common")


def test_histograms_without_common_packets_state_the_reason(tmp_path):
    figure = compose.compose_figure("iat_delta", source_of(tmp_path, {"quiet": [{"common": 0}]}))
    assert figure.empty
    assert "no run has a packet in common with its first trial" in words(svg_of(figure))


def test_matrix_names_an_outlier_baseline_or_that_it_is_undecidable(tmp_path, text):
    assert "it is not known whether the first trial is an outlier" in text("kappa_matrix", "nothing_differs")
    assert "is an outlier" not in text("kappa_matrix", "one_pair")
    runs = [{"I": 0.3, "warnings": [outlier_baseline("quiet-1")]}] * 3
    source = source_of(tmp_path, {"quiet": runs, "loaded": [{}] * 3}, all_pairs=True)
    shown = words(svg_of(compose.compose_figure("kappa_matrix", source)))
    assert "in quiet the first trial is an outlier" in shown
    assert "quiet: quiet-1 is an outlier" in shown
    assert "loaded: loaded-1 is an outlier" not in shown
    assert "it is not known" not in shown


def test_text_in_cells_of_the_matrix_has_a_contrast_of_4_5_to_the_cell(tmp_path):
    """Colors are taken from the rendered figure, from the cell around each text."""
    source = source_of(tmp_path, {"quiet": [{"I": 0.02 + 0.11 * n, "L": 0.0} for n in range(9)]}, all_pairs=True)
    fills = defaultdict(list)
    for mark in ET.fromstring(svg_of(compose.compose_figure("kappa_matrix", source))).iter():
        if "kappa: " in mark.get("aria-label", ""):
            fills[tuple(mark.get("aria-label").split("; ")[:2])].append(hexadecimal(mark.get("fill")))
    pairs = [colors for colors in fills.values() if len(colors) == 2]
    assert len(pairs) == 90
    assert min(theme.contrast(one, other) for one, other in pairs) >= 4.5


def hexadecimal(color: str) -> str:
    """Return a color of an SVG as ``#RRGGBB``."""
    if color.startswith("#"):
        return {"#fff": "#FFFFFF", "#000": "#000000"}.get(color, color)
    return "#" + "".join(f"{int(n):02X}" for n in color.removeprefix("rgb(").rstrip(")").split(","))


@pytest.mark.parametrize("name", FIGURES)
def test_trials_whose_sender_lost_the_cpu_are_counted_in_every_figure(name, text):
    """The largest gaps are 500 to 800 ns, the median gap is 500 ns: all but the first trial lost the CPU."""
    assert "\u2020 the sender lost the CPU for longer than the median gap" in text(name, "replayed")
    assert "in 3 of 4 trials with a known sender." in text(name, "replayed")
    assert "\u2020" not in text(name, "three_environments")


@pytest.mark.parametrize("name", ["kappa_components", "kappa_timeline", "kappa_matrix"])
def test_trials_whose_sender_lost_the_cpu_are_marked(name, text):
    assert "quiet-2 \u2020" in text(name, "replayed")
    assert "quiet-1 \u2020" not in text(name, "replayed")
    assert "loaded-2 \u2020" not in text(name, "replayed")


def test_environments_and_runs_whose_sender_lost_the_cpu_are_marked(drawn, text):
    assert "quiet (3 runs, 3 \u2020)" in text("iat_delta", "replayed")
    left = drawn("kappa_environments", "replayed").spec["concat"][0]["hconcat"][0]
    runs = left["data"]["values"]  # both layers have the same rows
    assert {(run["label"], run["sender"][0]) for run in runs} == {("quiet", "\u2020"), ("loaded", "h")}
    assert "Hollow: the sender of either trial lost the CPU." in text("kappa_replayer", "replayed")


def test_replayer_and_path_are_drawn_if_departures_are_known(drawn, text):
    limits = "measured, 0.9890 replayer, path with mean limits 0.9990 to 0.9995 (quiet)"
    assert limits in text("kappa_replayer", "replayed")
    assert text("kappa_replayer", "replayed").count("departures not measured") == 1, "of loaded"
    layers = drawn("kappa_replayer", "replayed").spec["concat"][0]["layer"]
    values = [value for layer in layers for value in layer.get("data", {}).get("values", ()) if "kind" in value]
    kinds = ("measured", "replayer alone", "path, 95 % interval of each run")
    assert {(value["kind"], value["label"]) for value in values} == {
        *((kind, "quiet") for kind in kinds),
        ("measured", "loaded"),
    }
    ends = {(round(value["from"], 9), round(value["to"], 9)) for value in values if value["kind"] == kinds[2]}
    assert ends == {(0.0005, 0.001)}


def test_means_of_limits_are_not_called_an_interval(text):
    """Limits of several runs are averaged. These runs are not independent: all were compared with the first trial."""
    assert "These mean limits are no interval of the mean" in text("kappa_replayer", "replayed")
    assert text("kappa_replayer", "replayed").count("mean limits 0.9990 to 0.9995") == 2, (
        "in the title and at the right"
    )


def test_titles_state_that_the_sender_lost_the_cpu_and_that_errors_are_missing(drawn):
    """The sender of quiet lost the CPU in 3 of 4 trials; the sender of the other environment is not known."""
    expected = "; limits lack the receiver's errors; the sender lost the CPU in 3 of 4 trials"
    assert with_spaces(drawn("kappa_replayer", "replayed").title).endswith(expected)


@pytest.mark.parametrize(("lost", "expected"), [((), ""), ((2, 5), " (the sender lost the CPU in 2 of 5 trials)")])
def test_difference_of_environments_is_not_attributed_to_the_path_alone(tmp_path, lost, expected):
    """Counts trials of the reference and of the environment that differs, 2 and 3 of which have a known sender."""
    samples = ("quiet-1", "quiet-2", "loaded-1", "loaded-2", "loaded-3")
    write_replays(tmp_path, {name: {"largest_gap_ns": 10**9 if n in lost else 1} for n, name in enumerate(samples, 1)})
    source = source_of(tmp_path, {"quiet": [{"I": 0.01 + n / 1000} for n in range(5)], "loaded": [{"I": 0.3}] * 5})
    title = with_spaces(compose.compose_figure("kappa_environments", source).title)
    assert title.startswith("loaded is "), title
    assert title.endswith(f"){expected}"), title


def test_note_states_that_path_intervals_lack_the_error_of_the_receiver(text):
    assert "do not include errors of the receiver's timestamps" in text("kappa_replayer", "replayed")
    assert kappa_replayer.lacks_arrival_error({"path_kappa_lo": 0.9, "arrival_error_ns": None})
    assert not kappa_replayer.lacks_arrival_error({"path_kappa_lo": 0.9, "arrival_error_ns": 25})
    assert not kappa_replayer.lacks_arrival_error({"path_kappa_lo": None, "arrival_error_ns": None})


def test_environments_keep_the_order_of_the_config(text):
    find = text("kappa_components", "three_environments").index
    assert find("quiet-2") < find("noisy-2") < find("shared-2")


def test_matrix_counts_all_pairs_and_other_figures_count_runs(campaigns):
    source = campaigns["three_environments"]
    rows = source.rows("consistency")
    first = sum(row["a"] == 1 for row in rows)
    assert len(rows) > first
    common = sum(row["packets_common"] for row in rows)
    assert f"; {len(rows)} pairs {common:,} packets in common" in with_spaces(" ".join(kappa_matrix.SCOPE(source)))
    assert f"; {first} runs against the first trial " in with_spaces(" ".join(kappa_components.SCOPE(source)))


def test_nearly_consistent_run_is_not_called_consistent():
    assert [format_kappa(kappa) for kappa in (1, 1 - 1.5e-6, 0.9853, 0)] == ["1", "1 - 1.5e-06", "0.9853", "0"]


def test_components_are_drawn_as_segments_of_1_minus_kappa_and_separately_with_their_values(campaigns, drawn, text):
    segments, *panels = drawn("kappa_components", "three_environments").spec["concat"][0]["hconcat"]
    rows = [row for row in campaigns["three_environments"].rows("consistency") if row["a"] == 1]
    bars = segments["layer"][0]["data"]["values"]
    ends = sorted(max(bar["to"] for bar in bars if bar["run"] == row["trial_b"]) for row in rows)
    assert ends == pytest.approx(sorted(1 - row["kappa"] for row in rows))
    shown = text("kappa_components", "three_environments")
    # L of quiet, O, L and I of noisy: too small for a segment
    assert [value for value in ("3.00e-06", "0.0140", "0.00500", "0.120") if value not in shown] == []
    axes = [panel["layer"][0]["encoding"]["x"] for panel in panels]
    assert [axis["field"] for axis in axes] == [*"UOLI"]
    assert [axis["scale"]["domain"] for axis in axes] == [[0, max(row[name] for row in rows)] for name in "UOLI"]


def test_trial_figures_are_drawn_on_request(campaigns):
    directory = campaigns["one_pair"].campaign.directory
    assert cli.main(["campaign", "figures", str(directory), "--only", "kappa_matrix", "--formats", "svg"]) == 0
    assert [path.name for path in (directory / "figures").iterdir()] == ["kappa_matrix.svg"]


def test_missing_trial_tables_error_names_the_stage(tmp_path, capsys):
    error = failed(capsys, "campaign", "figures", write_campaign(tmp_path, {"quiet": [{}]}), "--only", "kappa_matrix")
    assert "consistency_environments.parquet: no such file; " in error
    assert f"; run: acapella campaign trials {tmp_path} --environments ..." in error


def test_components_are_printed_with_three_digits(text):
    printed = [kappa_components.format_component(value) for value in (0, 1, 0.103, 0.1, 3.3333e-6, None)]
    assert printed == ["0", "1", "0.103", "0.100", "3.33e-06", "undefined"]
    shown = text("kappa_components", "three_environments")
    assert all(f" {value} " in shown for value in ("0.0200", "0.0140", "0.000200", "0.0310"))


@pytest.mark.parametrize(("campaign", "panels"), [("one_pair", 1), ("three_environments", 12), ("many", 32)])
def test_timeline_has_a_panel_for_each_run(campaign, panels, drawn):
    found = drawn("kappa_timeline", campaign).spec["concat"][0]["concat"]
    assert len(found) == len({panel["title"]["text"] for panel in found}) == panels
    domains = {json.dumps(panel["layer"][0]["encoding"][axis]["scale"]) for panel in found for axis in "xy"}
    assert len(domains) == 2  # all panels have the same axes


@pytest.mark.soak
def test_components_of_many_runs_show_the_lowest_kappa_in_order(tmp_path):
    kappas = {f"e{n}": [0.9 - 0.01 * (7 * n + run) for run in range(7)] for n in range(7)}
    figure = compose.compose_figure("kappa_components", environments_campaign(tmp_path, kappas))
    bars = figure.spec["concat"][0]["hconcat"][0]["layer"][1]["data"]["values"]
    every = sorted(round(kappa, 4) for runs in kappas.values() for kappa in runs)
    assert [float(row["text"]) for row in bars] == pytest.approx(every[:40], abs=1e-4)
    expected = "the 40 runs with the lowest kappa of 49 runs, the lowest first; not shown: 9 runs of e1 (2) and e0 (7)"
    assert f"{expected} with kappa {every[40]:.4f} to {every[-1]:.4f}" in with_spaces(figure.description)


@pytest.mark.parametrize(
    ("kappas", "expected"),
    [
        # windows whose printed kappa is the lowest
        ((0.9, 0.50001, 0.50004, 0.5002), "0.5000 at 1 ms (tuesday) and in 1 other window"),
        ((0.5, 0, 0, 0), "0 at 1 ms (tuesday) and in 2 other windows"),
        # a kappa below 1 differs from 1
        ((1.0, 1.0, 1.0, 0.9999996), "1 - 4.0e-07 at 3 ms (tuesday)"),
    ],
)
def test_timeline_title_counts_the_windows_that_are_as_low(kappas, expected):
    assert timeline_title({"tuesday": kappas}) == f"Lowest window kappa: {expected}"


def timeline_title(runs: dict[str, list[float]]) -> str:
    """Return the title for the kappa of each window of runs, which are named."""
    rows = [
        {"environment": "e", "b": place, "kappa": kappa, "from_ns": n * 10**6, "to_ns": (n + 1) * 10**6}
        for place, kappas in enumerate(runs.values())
        for n, kappa in enumerate(kappas)
    ]
    return with_spaces(kappa_timeline.title(rows, {("e", place): name for place, name in enumerate(runs)}, 10**6, "ms"))


@pytest.mark.soak
def test_timeline_of_many_runs_shows_the_lowest_kappa(tmp_path):
    source = source_of(tmp_path, {f"e{n}": [{"I": 0.01 * (7 * n + run)} for run in range(7)] for n in range(7)})
    figure = compose.compose_figure("kappa_timeline", source)
    assert "the 40 runs with the lowest kappa in a window, of 49" in with_spaces(figure.description)
    rows = sorted(source.rows("consistency_timeline"), key=lambda row: row["kappa"])
    lowest = [*dict.fromkeys(f"{row['environment']}-{row['b']}" for row in rows)]  # trials' names in write_campaign
    assert {panel["title"]["text"] for panel in figure.spec["concat"][0]["concat"]} == set(lowest[:40])


def test_timeline_title_has_the_lowest_window_and_the_key_its_length(campaigns, drawn):
    rows = [row for row in campaigns["three_environments"].rows("consistency_timeline") if row["a"] == 1]
    worst = min(row["kappa"] for row in rows if row["kappa"] is not None)
    figure = drawn("kappa_timeline", "three_environments")
    assert figure.title.startswith(f"Lowest window kappa: {worst:.4f} at ")
    (length,) = {row["to_ns"] - row["from_ns"] for row in rows}
    assert f"Windows of {nanoseconds(length)};" in figure.description


@pytest.mark.parametrize(
    ("windows", "expected"),
    [
        ([("monday", 2, 0.5), ("tuesday", 2, 0.7), ("wednesday", 1, 0.6)], "; 2 of 3 runs have their lowest kappa"),
        ([("monday", 2, 0.5), ("tuesday", 1, 0.7), ("wednesday", 1, 0.6)], ""),
        ([("monday", 2, 0.5)], ""),
    ],
)
def test_timeline_title_counts_the_runs_that_are_lowest_at_the_same_time(windows, expected):
    title = timeline_title({name: [kappa if n == at else 0.9 for n in range(4)] for name, at, kappa in windows})
    assert title == f"Lowest window kappa: 0.5000 at 2 ms (monday){expected}{' at 2 ms' * bool(expected)}"


def environments_campaign(directory, kappas: dict[str, list[float]]) -> Source:
    """Return a campaign whose runs have these values of kappa, all of them caused by component I."""
    return source_of(directory, {name: [{"I": 2 * (1 - n), "L": 0.0} for n in runs] for name, runs in kappas.items()})


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kappas", "expected"),
    [
        (
            {"local": [0.9855, 0.9845, 0.9846, 0.9866], "fabric": [0.9460, 0.9469, 0.9468, 0.9456]},
            "fabric is 3.96 % less consistent than local (3.",
        ),
        (
            {"local": [0.9460, 0.9469, 0.9468, 0.9456], "fabric": [0.9855, 0.9845, 0.9846, 0.9866]},
            "fabric is 4.12 % more consistent than local (3.",
        ),
        (
            {"local": [0.9, 0.99, 0.91, 0.98], "fabric": [0.98, 0.92, 0.9, 0.99]},
            "No difference in mean kappa between local and fabric is supported by the intervals",
        ),
        (
            {"local": [0.99, 0.98, 0.97], "fabric": [0.5, 0.51, 0.52]},
            "No difference in mean kappa between local and fabric is supported by the intervals",
        ),
        (
            {"a": [0.9] * 4, "b": [0.8] * 4, "c": [0.95] * 4, "d": [0.9] * 4},
            "Of 3 other environments: 1 less and 1 more consistent than a (11.1 % less to 5.56 % more)",
        ),
        (
            {"a": [0.9] * 4, "b": [0.8] * 4, "c": [0.45] * 4, "d": [0.9] * 4},
            "Of 3 other environments: 2 less consistent than a (11.1 % to 50.0 % less)",
        ),
    ],
)
def test_difference_of_environments_is_stated_only_if_its_interval_excludes_zero(kappas, expected, tmp_path):
    figure = compose.compose_figure("kappa_environments", environments_campaign(tmp_path, kappas))
    assert with_spaces(figure.title).startswith(expected)
    assert ("too few runs" in words(svg_of(figure))) == any(len(runs) < 4 for runs in kappas.values())


@pytest.mark.soak
def test_many_environments_have_small_panels_of_differences_and_small_matrices(tmp_path):
    environments = {f"e{n}": [{**EQUAL_TRIALS, "U": 0.01 * n}] * 2 for n in range(9 + 1)}
    source = source_of(tmp_path, environments)
    differences, matrix = (compose.compose_figure(name, source) for name in ("latency_delta", "kappa_matrix"))
    assert with_spaces(differences.title).endswith(": 0 ns in each run of 10 environments")
    panels = differences.spec["concat"][0]
    assert (panels["columns"], len(panels["concat"])) == (3, 10)
    heads = {panel["title"]["text"] for panel in panels["concat"]}
    assert heads == {f"{name} (2\N{NO-BREAK SPACE}runs)" for name in environments}
    assert "100 % of packets within \u00b110 ns" in words(svg_of(differences))
    svg = svg_of(matrix)
    assert all(name in words(svg) for name in environments)
    assert "0.985" not in words(svg)
    assert float(ET.fromstring(svg).get("height")) < 1.5 * WIDTH


@pytest.mark.parametrize("end", [min, max])
def test_matrix_title_names_the_pairs_with_the_least_and_the_largest_kappa(end, campaigns, drawn):
    rows = [row for row in campaigns["three_environments"].rows("consistency") if row["kappa"] is not None]
    kappa = end(row["kappa"] for row in rows)
    first, *others = [row for row in rows if row["kappa"] == kappa]
    more = f", and {len(others)} other pair{'s' * (len(others) > 1)}" if others else ""
    pair = f"{format_kappa(kappa)} ({first['trial_a']} with {first['trial_b']}{more})"
    assert pair in with_spaces(drawn("kappa_matrix", "three_environments").title)


RENAMED = {
    **{"quiet-1": "monday-q0+monday-q1", "quiet-2": "tuesday", "quiet-3": "wednesday"},
    **{"loaded-1": "loaded-first", "loaded-2": "friday"},
}


@pytest.mark.soak
def test_figures_use_the_names_that_the_config_gives_to_trials(tmp_path):
    """Most names of trials do not start with that of their environment, and one trial has two files."""
    quiet = [{"I": 0.1, "moved": 100}, {"I": 0.2, "moved": 200}]
    directory = write_campaign(tmp_path, {"quiet": quiet, "loaded": [{"I": 0.3, "moved": 300}]}, all_pairs=True)
    for path in (directory / "kappa").glob("*.json"):
        text = re.sub('"((?:quiet|loaded)-.)"', lambda name: f'"{RENAMED[name[1]]}"', path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
    assert cli.main(["campaign", "trials", str(directory), "--environments", "quiet", "loaded"]) == 0
    source = Source(Campaign(directory))
    texts = {name: words(svg_of(compose.compose_figure(name, source))) for name in TRIAL_FIGURES}
    assert [name for name, text in texts.items() if " (A)" in text] == []
    assert [name for name, text in texts.items() if "run B" in text] == []
    texts["kappa_environments"] = json.dumps(compose.compose_figure("kappa_environments", source).spec)
    for name, text in texts.items():
        assert all(run in text for run in ("tuesday", "wednesday", "friday")), name
    assert "quiet: tuesday" in texts["kappa_components"]
    assert "loaded-first" in texts["kappa_matrix"]
