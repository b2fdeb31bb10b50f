"""Figure flows_per_sample of the report, described by ABOUT."""

import math
from itertools import pairwise

import altair as alt

from acapella.common.wording import count, natural, short_labels

from . import theme
from .compose import Figure
from .rows import Rows
from .source import Source

SUBJECT = "Flows of each sample"
ABOUT = "Number of flows per sample (Patchwork, figure 13)."
TABLE = "flows_per_sample"
COLUMNS = ("site", "sample", "flows")
MAX_LABEL = 24
BINS = 24
LOG_AXIS_RATIO = 50  # ratio of the largest count to the median above which a linear axis would hide most samples


def draw(source: Source) -> Figure:
    """Draw a histogram of flows per sample and, below it, a row per site with a tick per sample."""
    rows = source.required_rows(TABLE)
    flows = sorted(row["flows"] for row in rows)
    edges = bin_edges(flows)
    sites = sorted({row["site"] for row in rows}, key=natural)
    labels = short_labels(sites, MAX_LABEL)
    values = [{**row, "label": labels[row["site"]]} for row in rows]
    label_width = theme.text_width(labels.values())
    x = alt.Scale(domain=[edges[0], edges[-1]], nice=False, type="symlog" if logarithmic(flows) else "linear")
    width = theme.WIDTH - label_width - 40
    parts = [histogram(flows, edges, x, width), site_strips(values, list(labels.values()), x, edges, width)]
    key = (
        "Flows are directed: the two directions of a connection count as two flows. Bottom: one tick per sample, "
        "darker if several coincide.",
    )
    return Figure(title(flows), alt.vconcat(*parts, spacing=10).resolve_scale(x="shared"), key)


def title(flows: list[int]) -> str:
    """Return the title: median and maximum."""
    if len(flows) == 1:
        return f"The sample contains {count(flows[0], 'directed flow')}"
    median = flows[(len(flows) - 1) // 2]
    maximum = f"the largest {count(flows[-1])}"
    return f"At least half of the samples contain {count(median, 'directed flow')} or fewer, and {maximum}"


def logarithmic(flows: list[int]) -> bool:
    """Return whether the counts are too far apart for a linear axis."""
    return flows[-1] > LOG_AXIS_RATIO * max(1, flows[(len(flows) - 1) // 2])


def bin_edges(flows: list[int]) -> list[int]:
    """Return the edges of the histogram's bins; the first is 0 and the last is above all counts."""
    maximum = max(flows[-1], 1)
    if not logarithmic(flows):
        step = nice_step(maximum / BINS)
        return [step * k for k in range(maximum // step + 2)]
    decades = math.ceil(math.log10(maximum + 1))
    edges = [0, *(lead * 10**k for k in range(decades) for lead in (1, 2, 5)), 10**decades]
    return edges[: next(index for index, edge in enumerate(edges) if edge > maximum) + 1]


def nice_step(minimum: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, ... that is at least ``minimum``."""
    power = 10 ** max(0, math.floor(math.log10(max(minimum, 1))))
    return next(power * lead for lead in (1, 2, 5, 10) if power * lead >= minimum)


def histogram(flows: list[int], edges: list[int], x: alt.Scale, width: int) -> alt.Chart:
    """Return the histogram of samples by number of flows."""
    values = [
        {"from": low, "below": high, "samples": sum(low <= number < high for number in flows)}
        for low, high in pairwise(edges)
    ]
    ticks = theme.whole_ticks(max(row["samples"] for row in values), 5)
    return (
        alt.Chart(Rows(values=values))
        .mark_rect(color=theme.BLUE, x2Offset=-1)
        .encode(
            x=alt.X("from:Q", scale=x, title=None, axis=axis(edges, labels=False)),
            x2="below:Q",
            y=alt.Y("samples:Q", title="samples", axis=alt.Axis(values=ticks, format=",d", domain=False)),
            y2=alt.datum(0),
            tooltip=[
                alt.Tooltip("from:Q", title="flows, from", format=","),
                alt.Tooltip("below:Q", title="to below", format=","),
                alt.Tooltip("samples:Q", format=","),
            ],
        )
        .properties(width=width, height=150)
    )


def site_strips(values: list[dict], labels: list[str], x: alt.Scale, edges: list[int], width: int) -> alt.Chart:
    """Return one row of ticks per site, one tick per sample."""
    title = "directed flows in a sample" + (" (symmetric logarithmic axis)" if x.type == "symlog" else "")
    return (
        alt.Chart(Rows(values=values))
        .mark_tick(color=theme.BLUE, thickness=1.5, opacity=0.6, bandSize=9)
        .encode(
            x=alt.X("flows:Q", scale=x, title=title, axis=axis(edges, labels=True)),
            y=alt.Y("label:N", sort=labels, title=None, axis=alt.Axis(ticks=False, domain=False)),
            tooltip=[
                *(alt.Tooltip("site:N"), alt.Tooltip("port:N"), alt.Tooltip("sample:N")),
                *(alt.Tooltip("flows:Q", format=","), alt.Tooltip("frames:Q", format=",")),
            ],
        )
        .properties(width=width, height=alt.Step(theme.row_height(len(labels), total=300)))
    )


def axis(edges: list[int], *, labels: bool) -> alt.Axis:
    """Return the axis of a panel; if it is logarithmic, its ticks are at 0 and at powers of ten."""
    powers = [edge for edge in edges if edge == 0 or math.log10(edge).is_integer()]
    is_logarithmic = edges[1] == 1 and len(edges) > 3 and edges[3] == 5
    ticks = powers if is_logarithmic else theme.whole_ticks(edges[-1], 8)
    return alt.Axis(format=",d", labels=labels, ticks=labels, domain=labels, values=ticks)
