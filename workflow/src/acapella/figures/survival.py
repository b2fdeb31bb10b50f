"""Draws log-log lines of complementary distributions: the campaign, its sites, and individual samples.

Tables contain a distribution only at thresholds. Lines are exact at each threshold and interpolated in between. They
end at the largest threshold that a flow reaches.
"""

import math
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import altair as alt

from acapella.common.wording import natural, short_labels

from . import theme
from .rows import Rows
from .source import ALL

STITCHED = "stitched across samples"
SINGLE = "single samples"
ONE_SITE = "one site, stitched"
ALL_SITES = "all sites, "
INTERPOLATION_NOTE = "Lines connect ten thresholds per decade: exact at these, interpolated in between."
MAX_COLORED_SITES = 5  # sites with separate colors; if there are more, all are gray
PALETTE = (theme.ORANGE, theme.SKY, theme.GREEN, theme.VERMILION, theme.PURPLE)
MAX_LABEL = 24
TOTAL_WIDTH = 4  # px: width of the campaign's line, which is drawn below those of named sites
DASH_PERIOD = 15  # px: period of the dashes of sites
LABEL_GAP = 6  # px: distance between two tick labels
MEDIAN_SHARE = 0.5  # the median has a tick between those at powers of ten
MIN_HALVING_HEIGHT = 12  # px: minimum distance from 50 % to 100 %, so that both labels fit
SHARE_LABEL = "format(100 * datum.value, '~r') + ' %'"
MAX_POWER = 20  # values are 64-bit integers


class Tick(NamedTuple):
    """Tick of a value axis. If the labels of all levels do not fit, only ticks of the lowest levels have a label."""

    value: int
    label: str
    level: int


class ValueAxis(NamedTuple):
    """Horizontal axis: column, title, ticks, and name in the tooltip."""

    column: str
    title: str
    ticks: tuple[Tick, ...]

    tooltip: str


def power_ticks(units: tuple[str, ...]) -> tuple[Tick, ...]:
    """Return ticks at powers of ten, such as 10 B, 1 kB, 100 GB; beyond the last unit, in thousands of that unit.

    ``units``: the unit at each third power.
    """
    last = len(units) - 1
    exponents = ((power, min(power // 3, last)) for power in range(MAX_POWER))
    return tuple(
        Tick(10**power, f"{10 ** (power - 3 * unit):,} {units[unit]}".strip(), int(power % 3 > 0))
        for power, unit in exponents
    )


def distribution_lines(rows: list[dict], column: str) -> tuple[list[dict], list[str]]:
    """Return the points of all lines with the line's name, in drawing order, and the names in the order of the legend.

    ``rows``: rows of one measure with a share above 0; columns scope, site, ccdf, and the threshold in ``column``.
    """
    sites = sorted({row["site"] for row in rows if row["scope"] == "site" and row["site"] != ALL}, key=natural)
    sites = sites if len(sites) > 1 else []
    labels = short_labels(sites, MAX_LABEL)
    with_colors = len(sites) <= MAX_COLORED_SITES
    lines = [
        (labels[site] if with_colors else ONE_SITE, distribution_line(rows, column, "site", site)) for site in sites
    ]
    stitched, single = (f"{ALL_SITES if sites else ''}{name}" for name in (STITCHED, SINGLE))
    total = [
        (stitched, distribution_line(rows, column, "campaign", ALL)),
        (single, distribution_line(rows, column, "sample", ALL)),
    ]
    order = [stitched, single, *dict.fromkeys(name for name, _ in lines)]
    # Later lines are drawn on top: named sites above the wide lines of all sites, unnamed gray sites below them.
    lines = total + lines if with_colors else lines + total[::-1]
    return [{**row, "line": name} for name, line in lines for row in line], order


def distribution_line(rows: list[dict], column: str, scope: str, site: str) -> list[dict]:
    """Return the points of one line, smallest threshold first."""
    return sorted((r for r in rows if r["scope"] == scope and r["site"] == site), key=lambda r: r[column])


def median_interval(line: list[dict], column: str) -> tuple[int, int] | None:
    """Return the thresholds around the median: more than half of the flows reach the first, at most half reach the
    second.

    None if more than half of the flows reach the last threshold. Both are equal if at most half reach the first one.
    """
    index = next((index for index, row in enumerate(line) if 2 * row["flows_ge"] <= row["flows"]), None)
    return None if index is None else (line[max(0, index - 1)][column], line[index][column])


def median_text(ends: tuple[int, int], text_of: Callable[[int], str]) -> str:
    """Return the median as text: ``between 158 B and 200 B``, or ``below 1 B`` if both ends are the first threshold."""
    low, high = map(text_of, ends)
    return f"below {high}" if low == high else f"between {low} and {high}"


def chart(values: list[dict], order: list[str], axis: ValueAxis, *, y_title: str, height: int) -> alt.Chart:
    """Return the lines on two logarithmic scales, from the last threshold before any line decreases."""
    width = theme.WIDTH - 80
    first = last_constant(values, axis.column)
    # A float: ten times a duration of 80 years exceeds the renderer's 64-bit integers.
    x = [first, float(max(10 * first, *(row[axis.column] for row in values)))]
    values = [row for row in values if row[axis.column] >= first]
    y = [min(0.1, *(row["ccdf"] for row in values)) / 1.3, 1]
    return (
        alt.Chart(Rows(values=values))
        .mark_line(interpolate="linear")
        .encode(
            x=alt.X(
                f"{axis.column}:Q",
                title=axis.title,
                scale=alt.Scale(type="log", domain=x, nice=False),
                axis=alt.Axis(labelOverlap=False, domain=False, **value_ticks(axis, x, width)),
            ),
            y=alt.Y(
                "ccdf:Q",
                title=y_title,
                scale=alt.Scale(type="log", domain=y, nice=False),
                axis=alt.Axis(
                    labelExpr=SHARE_LABEL,
                    domain=False,
                    labelOverlap=False,
                    **tick_values([*powers_of_ten(*y), MEDIAN_SHARE]),
                ),
            ),
            **line_styles(order),
            detail="site:N",
            tooltip=[
                *(alt.Tooltip("line:N", title="of"), alt.Tooltip("site:N")),
                alt.Tooltip(f"{axis.column}:Q", title=axis.tooltip, format=","),
                alt.Tooltip("flows_ge:Q", title="flows", format=","),
                alt.Tooltip("flows:Q", title="of flows", format=","),
                alt.Tooltip("samples:Q", format=","),
            ],
        )
        .properties(
            width=width, height=max(height, math.ceil(MIN_HALVING_HEIGHT * math.log10(y[1] / y[0]) / math.log10(2)))
        )
    )


def line_styles(order: list[str]) -> dict[str, alt.Color | alt.StrokeDash | alt.StrokeWidth]:
    """Return line styles: the campaign wide and black, samples dashed, sites thin, so that no line hides another.

    Dashes of sites have one period and decreasing lengths. If lines coincide, a part of each remains visible.
    """
    site_colors = PALETTE if order[2:] != [ONE_SITE] else ("#ABABAB",)
    widths = [TOTAL_WIDTH, 2.6, *[1.4] * (len(order) - 2)]
    dashes = [[1, 0], [5, 3], [1, 0], *([dash, DASH_PERIOD - dash] for dash in (12, 9, 6, 4))][: len(order)]
    if order[2:] == [ONE_SITE]:
        widths[2] = 0.9
    legend = alt.Legend(
        title=None, orient="bottom", columns=3, offset=2, symbolType="stroke", symbolSize=300, labelLimit=240
    )
    scales = {
        "color": alt.Scale(domain=order, range=["#000000", theme.BLUE, *site_colors]),
        "strokeDash": alt.Scale(domain=order, range=dashes),
        "strokeWidth": alt.Scale(type="ordinal", domain=order, range=widths),
    }
    kinds = {"color": alt.Color, "strokeDash": alt.StrokeDash, "strokeWidth": alt.StrokeWidth}
    return {name: kinds[name]("line:N", sort=order, scale=scale, legend=legend) for name, scale in scales.items()}


def last_constant(values: list[dict], column: str) -> int:
    """Return the largest threshold up to which every line is constant."""
    lines = defaultdict(list)
    for row in values:
        lines[row["line"], row["site"]].append(row)
    maximum = {line: max(row["ccdf"] for row in rows) for line, rows in lines.items()}
    return min(max(row[column] for row in rows if row["ccdf"] == maximum[line]) for line, rows in lines.items())


def value_ticks(axis: ValueAxis, limits: list[float], width: int) -> dict:
    """Return the ticks of a value axis with their labels."""
    texts = tick_labels(axis, limits, width)
    # Floats: some ticks exceed the renderer's 64-bit integers.
    cases = "".join(f"datum.value === {float(value)} ? '{text}' : " for value, text in texts.items() if text)
    return {"labelExpr": f"{cases}''", **tick_values([float(value) for value in texts])}


def tick_labels(axis: ValueAxis, limits: list[float], width: int) -> dict[int, str]:
    """Return the labels of the ticks within the limits. They are empty above the last level that fits."""
    ticks = [tick for tick in axis.ticks if limits[0] <= tick.value <= limits[1]]
    scale = width / math.log10(limits[1] / limits[0])
    levels = sorted({tick.level for tick in ticks})
    last = max((level for level in levels if labels_fit([t for t in ticks if t.level <= level], scale)), default=0)
    return {tick.value: tick.label if tick.level <= last else "" for tick in ticks}


def labels_fit(ticks: list[Tick], scale: float) -> bool:
    """Return whether the labels of these ticks do not overlap at ``scale`` px per decade."""
    return all(
        scale * math.log10(right.value / left.value)
        >= sum(theme.text_width([tick.label]) for tick in (left, right)) / 2 + LABEL_GAP
        for left, right in pairwise(ticks)
    )


def tick_values(values: list[float]) -> dict:
    """Return the ticks of an axis. With a smaller tickCount, such as its default, Vega omits some of them."""
    return {"values": values, "tickCount": len(values)}


def powers_of_ten(low: float, high: float) -> list[float]:
    """Return the powers of ten from ``low`` to ``high``."""
    return [10.0**k for k in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
