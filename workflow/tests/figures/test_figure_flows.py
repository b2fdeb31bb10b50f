"""Tests the figures of flow sizes, durations and rates: lines, steps, ticks, and titles."""

import math
import re
from itertools import pairwise

import pytest
from acapella_testing.generated.generated_tables import source_of_rows, source_with
from acapella_testing.svg_text import with_spaces, words

from acapella.common.wording import nanoseconds, scaled
from acapella.figures import compose, flow_sizes
from acapella.figures.flow_times import PANELS
from acapella.figures.registry import figure_module
from acapella.figures.save import svg_of
from acapella.figures.survival import tick_labels
from acapella.figures.theme import text_width


@pytest.mark.soak
@pytest.mark.parametrize(("names", "on_top"), [(["A", "B", "C"], True), ([f"S{n}" for n in range(30)], False)])
def test_lines_of_sites_are_on_top_while_they_have_names(names, on_top, tmp_path):
    source = source_with(tmp_path, names=names)
    spec = figure_module("flow_sizes").draw(source).chart.to_dict()
    assert (spec["data"]["values"][0]["line"] == "all sites, stitched across samples") == on_top
    drawn = svg_of(compose.compose_figure("flow_sizes", source))
    widths = set(re.findall(r'stroke-width="([0-9.]+)"[^>]*stroke-dasharray', drawn))
    assert "4" in widths
    assert ("1.4" if on_top else "0.9") in widths


def times(measure: str, counts: dict[int, int], flows: int) -> list[dict]:
    """Return rows of flow_times for one scope and measure, with the number of flows that reach each threshold."""
    row = {"scope": "campaign", "site": "all", "measure": measure, "flows": flows, "samples": 1}
    return [{**row, "value": value, "flows_ge": n, "ccdf": n / flows} for value, n in counts.items()]


def flow_times(directory, *rows: dict) -> compose.ComposedFigure:
    """Return the figure of these rows of flow_times."""
    quality = [{"site": "S0", "sample": "a", "frames": 99}]
    return compose.compose_figure("flow_times", source_of_rows(directory, capture_quality=quality, flow_times=rows))


@pytest.mark.parametrize(
    ("rows", "panels", "expected"),
    [
        (
            [*times("duration_ns", {10**6: 8, 10**9: 4}, 8), *times("rate_bps", {1000: 6, 10**6: 3}, 6)],
            2,
            "Median duration of 8 directed flows between 1 ms and 1 s; median of 6 rates between 1 kbit/s and 1 Mbit/s",
        ),
        (times("duration_ns", {10**6: 8, 10**9: 4}, 8), 1, "Median duration of 8 directed flows between 1 ms and 1 s"),
        (times("duration_ns", {1: 3, 10**9: 1}, 8), 1, "5 of 8 directed flows have a duration of 0"),
        (times("duration_ns", {10**6: 8}, 8), 1, "Durations and rates of 8 directed flows"),
    ],
)
def test_title_states_the_medians_that_exist(rows, panels, expected, tmp_path):
    figure = flow_times(tmp_path, *rows)
    assert with_spaces(figure.title) == expected
    assert len(figure.spec["concat"][0]["vconcat"]) == panels


@pytest.mark.parametrize("axis", [flow_sizes.SIZE, *PANELS.values()])
@pytest.mark.parametrize("low", [1, 10**3, 8 * 10**12])
def test_labels_of_neighboring_ticks_do_not_overlap(low, axis):
    """The largest value of an axis is that of 64 bits; as ns, it is longer than 500 years."""
    for decades in range(1, 20 - int(math.log10(low))):
        texts = tick_labels(axis, [low, low * 10**decades], 592)
        labels = [(value, text) for value, text in texts.items() if text]
        places = [592 * math.log10(value / low) / decades for value, _ in labels]
        ends = [
            (x - text_width([text]) / 2, x + text_width([text]) / 2)
            for x, (_, text) in zip(places, labels, strict=True)
        ]
        assert labels
        assert all(left[1] < right[0] for left, right in pairwise(ends)), labels


def test_flows_of_duration_zero_have_no_duration_panel(tmp_path):
    figure = flow_times(tmp_path, *times("duration_ns", {1: 0}, 5))
    assert figure.empty
    assert "no flow has more than one frame" in figure.description + str(figure.spec)


def panels_of(figure):
    """Return the charts of a figure of flows."""
    chart = figure.spec["concat"][0]
    return chart.get("vconcat", [chart])


@pytest.mark.parametrize(("name", "column"), [("flow_sizes", "bytes"), ("flow_times", "value")])
def test_lines_cross_50_percent_between_the_thresholds_of_the_title(name, column, tmp_path):
    figure = compose.compose_figure(name, source_with(tmp_path, sites=2))
    for panel in panels_of(figure):
        assert panel["mark"]["interpolate"] == "linear", "a step has the value of one threshold up to the next one"
        values = panel.get("data", figure.spec.get("data"))["values"]
        line = [row for row in values if row["line"] == "all sites, stitched across samples"]
        above = max(row[column] for row in line if row["ccdf"] > 0.5)
        below = min(row[column] for row in line if row["ccdf"] <= 0.5)
        unit = {"wire": "B", "rate_bps": "bit/s"}.get(line[0]["measure"])
        ends = [scaled(end, unit) if unit else nanoseconds(end) for end in (above, below)]
        assert f"between {ends[0]} and {ends[1]}" in figure.title
    assert "ten thresholds per decade" in figure.description


@pytest.mark.soak
@pytest.mark.parametrize("sites", [1, 30])
@pytest.mark.parametrize("name", ["flow_sizes", "flow_times"])
def test_shares_have_a_tick_with_a_label_at_50_percent(name, sites, tmp_path):
    figure = compose.compose_figure(name, source_with(tmp_path, sites=sites))
    for panel in panels_of(figure):
        y = panel["encoding"]["y"]
        assert {0.5, 1} <= set(y["axis"]["values"])
        assert y["axis"]["labelOverlap"] is False
        low, high = map(math.log10, y["scale"]["domain"])
        assert panel["height"] * math.log10(2) / (high - low) >= 12, "both labels have room"
    assert words(svg_of(figure)).count(" 50 % ") == len(panels_of(figure))


LABELS = ("1 µs", "10 µs", "100 µs", "1 ms", "10 s", "1 min", "1 k", "10 k", "100 k", "1 M", "1 G")


def test_ticks_of_durations_and_rates_have_labels_with_units(tmp_path):
    counts = {10**power: 12 - power for power in range(3, 12)}
    figure = flow_times(tmp_path, *times("duration_ns", counts, 9), *times("rate_bps", counts, 9))
    text = f" {words(svg_of(figure))} "
    assert [label for label in LABELS if f" {label} " not in text] == []


@pytest.mark.parametrize(
    ("counts", "flows", "expected"),
    [({1: 3, 10**6: 1}, 8, "5 of 8 directed flows (62.5 %)"), ({1: 8, 10**6: 8}, 8, "0 of 8 directed flows (0 %)")],
)
def test_subtitle_counts_flows_of_duration_zero(counts, flows, expected, tmp_path):
    notes = with_spaces(" ".join(flow_times(tmp_path, *times("duration_ns", counts, flows)).notes))
    assert f"Duration 0 and no rate (one frame, or all frames with the same timestamp): {expected}." in notes
