"""Draws marks of individual sites on the campaign's bars, distinguished by color and shape, or by tooltips."""

from collections.abc import Iterable

import altair as alt

from acapella.common.wording import short_labels

from . import theme
from .rows import Rows
from .source import ALL

MAX_COLORED = 8  # sites with separate colors and shapes; if there are more, all marks are the same
PALETTE = (theme.BLUE, theme.VERMILION, theme.GREEN, theme.ORANGE, theme.PURPLE, theme.BLACK, theme.SKY, theme.GRAY)
SHAPES = ("circle", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "circle", "square")
BAR_COLOR = "#CDE4F3"  # light sky blue, for contrast with all marks
LANES = (-0.34, 0.34)  # in bar heights from the middle: marks of adjacent sites are above and below the interval
MAX_LABEL = 24


def add_absent_sites(rows: list[dict], column: str, shown: Iterable[str], none: dict) -> list[dict]:
    """Return the rows of sites whose ``column`` is in ``shown``; add rows with the values ``none`` for missing pairs.

    A table has no row for a value that does not occur at a site. Without the added rows, the dots of a rare value would
    show only the sites at which it occurs.
    """
    site_rows = [row for row in rows if row["site"] != ALL]
    existing = {(row["site"], row[column]): row for row in site_rows}
    row_of = {row["site"]: row for row in site_rows}
    return [
        existing.get((site, value), {**row, **none, column: value}) for site, row in row_of.items() for value in shown
    ]


def layers(dots: list[dict], sites: list[str], bar: float, middle: float, encoding: dict) -> list[alt.Chart]:
    """Return the marks, one chart per lane. ``dots`` have a ``site``; ``encoding``: x, y, tooltip.

    ``bar``: height of a bar in px; ``middle``: distance of its middle below the middle of the row.
    """
    labels = short_labels(sites, MAX_LABEL)
    parts = []
    for lane, height in enumerate(LANES):
        sites_of_lane = {site for index, site in enumerate(sites) if index % len(LANES) == lane}
        values = [{**dot, "mark": labels[dot["site"]]} for dot in dots if dot["site"] in sites_of_lane]
        parts.append(marks_of_lane(values, list(labels.values()), round(middle + bar * height, 2), encoding))
    return parts


def marks_of_lane(values: list[dict], names: list[str], offset: float, encoding: dict) -> alt.Chart:
    """Return the marks of one lane."""
    base = alt.Chart(Rows(values=values))
    if len(names) > MAX_COLORED:
        return base.mark_circle(size=13, color=theme.BLUE, opacity=0.8, yOffset=offset).encode(**encoding)
    legend = alt.Legend(title="site", orient="bottom", columns=4, offset=4, titleOrient="left", labelLimit=150)
    marks = base.mark_point(size=24, filled=True, opacity=1, stroke="white", strokeWidth=0.5, yOffset=offset)
    number = len(names)
    return marks.encode(
        **encoding,
        fill=alt.Fill("mark:N", scale=alt.Scale(domain=names, range=list(PALETTE[:number])), legend=legend),
        shape=alt.Shape("mark:N", scale=alt.Scale(domain=names, range=list(SHAPES[:number])), legend=legend),
    )


def legend_note(sites: list[str]) -> str:
    """Return the note that explains the marks."""
    if len(sites) <= MAX_COLORED:
        return "small mark: one site"
    return "dot: one site (named by the tooltip in the .html file)"
