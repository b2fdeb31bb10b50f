"""A mark for each site over the bars of the whole campaign: told apart by colour and shape, or by the pointer."""

import altair as alt

from . import theme
from .wording import short_labels

FEW = 8  # as many sites have a colour and a shape each; of more, all marks are the same
PALETTE = (theme.BLUE, theme.VERMILION, theme.GREEN, theme.ORANGE, theme.PURPLE, theme.BLACK, theme.SKY, theme.FAINT)
SHAPES = ("circle", "square", "triangle-up", "cross", "triangle-down", "triangle-right", "circle", "square")
BAR = "#CDE4F3"  # sky blue so light that every mark stands out on it
LANES = 3  # marks of neighbouring sites stand one below the other, so that equal shares do not cover each other
LABEL = 24
LINE = -0.3  # where an interval's line is, in heights of the bar from its middle
LOW, HIGH = -0.04, 0.36  # where the first and the last lane are


def layers(dots: list[dict], sites: list[str], bar: float, middle: float, encoding: dict) -> list[alt.Chart]:
    """The marks, a chart a lane. ``dots`` have a ``site``; ``encoding``: x, y, tooltip.

    ``bar``: its height in px; ``middle``: how far below the row's middle it is.
    """
    labels = short_labels(sites, LABEL)
    lanes = min(LANES, len(sites))
    step = (HIGH - LOW) / max(1, lanes - 1)
    made = []
    for lane in range(lanes):
        own = {site for place, site in enumerate(sites) if place % lanes == lane}
        values = [{**dot, "mark": labels[dot["site"]]} for dot in dots if dot["site"] in own]
        offset = round(middle + bar * (LOW + lane * step if lanes > 1 else (LOW + HIGH) / 2), 2)
        made.append(lane_of(values, list(labels.values()), offset, encoding))
    return made


def lane_of(values: list[dict], names: list[str], offset: float, encoding: dict) -> alt.Chart:
    """One lane."""
    base = alt.Chart(alt.Data(values=values))
    if len(names) > FEW:
        return base.mark_circle(size=13, color=theme.BLUE, opacity=0.8, yOffset=offset).encode(**encoding)
    legend = alt.Legend(title="site", orient="bottom", columns=4, offset=4, titleOrient="left", labelLimit=150)
    marks = base.mark_point(size=24, filled=True, opacity=1, stroke="white", strokeWidth=0.5, yOffset=offset)
    number = len(names)
    return marks.encode(
        **encoding,
        fill=alt.Fill("mark:N", scale=alt.Scale(domain=names, range=list(PALETTE[:number])), legend=legend),
        shape=alt.Shape("mark:N", scale=alt.Scale(domain=names, range=list(SHAPES[:number])), legend=legend),
    )


def key(sites: list[str]) -> str:
    """How to read the marks."""
    if len(sites) <= FEW:
        return "small mark: one site"
    return "dot: one site, named where the pointer is (in the .html)"
