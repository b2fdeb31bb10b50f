"""Figure frame_sizes of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import GAP, listed, natural, percent, short_labels

from . import theme
from .compose import Figure
from .rows import Rows
from .source import ALL, Source

SUBJECT = "Frame sizes"
ABOUT = "Frame lengths on the wire and of the innermost frame, for all sites and for each site (Patchwork, figure 15)."
TABLE = "frame_sizes"
COLUMNS = ("length", "bin", "share", "share_lo", "share_hi")
LENGTHS = {"outer": "on the wire (outer)", "inner": "innermost frame"}
STANDARD_MAX = 1518
MINIMUM_NOTE = "a minimum-size Ethernet frame (64 B with FCS) has 60 B without FCS, which is in bin <64"
TWO_LINES = "split(replace(datum.label, '-', '-|'), '|')"  # a bin's label in two lines, because bins are narrow
MAX_LABEL = 20
GUTTER = 14  # px: distance between the panels of the two lengths


def draw(source: Source) -> Figure:
    """Draw the bins of all sites together, both lengths next to each other, and below them the shares of each site."""
    rows = [row for row in source.required_rows(TABLE) if row["share"] is not None]
    bins = sorted({(row["bin_lo"], row["bin"]) for row in rows})
    order = [label for _, label in bins]
    all_sites = [bar_values(row) for row in rows if row["site"] == ALL]
    sites = sorted({row["site"] for row in rows if row["site"] != ALL}, key=natural)
    key = [f"Lengths without FCS and preamble; {MINIMUM_NOTE}; frames longer than 1518 B are red to black"]
    if any(row["low"] is not None for row in all_sites):
        key.append("lines: 95 % bootstrap intervals over samples")
    width = theme.WIDTH - 75
    parts = []
    if len(sites) > 1:
        labels = short_labels(sites, MAX_LABEL)
        values = [{**bar_values(row), "label": labels[row["site"]]} for row in rows if row["site"] != ALL]
        panel_width = (theme.WIDTH - theme.text_width(labels.values()) - 62) // 2
        width = 2 * panel_width + GUTTER
        parts.append(by_site(values, list(labels.values()), bins, panel_width))
    parts.insert(0, overall(all_sites, order, width))
    chart = alt.vconcat(*parts, spacing=22).resolve_scale(color="independent")
    return Figure(title(all_sites), chart, ("; ".join(key) + ".",))


def bar_values(row: dict) -> dict:
    """Return the values of a row for the chart, shares in percent."""
    low, high = row["share_lo"], row["share_hi"]
    return {
        **{key: row[key] for key in ("site", "bin", "bin_lo", "frames", "samples")},
        "length": LENGTHS[row["length"]],
        "share": 100 * row["share"],
        "low": None if low is None else 100 * low,
        "high": None if high is None else 100 * high,
        "text": percent(row["share"]),
    }


def title(all_sites: list[dict]) -> str:
    """Return the title: the most common bins on the wire."""
    outer = sorted((r for r in all_sites if r["length"] == LENGTHS["outer"]), key=lambda r: (-r["share"], r["bin_lo"]))
    most_common = [f"{row['bin']}{GAP}B ({row['text']})" for row in outer[:3] if row["frames"]]
    return f"Most common on the wire: {listed(most_common)}"


def tooltip() -> list[alt.Tooltip]:
    """Return the tooltip of a bin."""
    return [
        *(alt.Tooltip("site:N"), alt.Tooltip("length:N"), alt.Tooltip("bin:N", title="bytes")),
        alt.Tooltip("text:N", title="share of frames"),
        alt.Tooltip("low:Q", title="interval from, %", format=".4~r"),
        alt.Tooltip("high:Q", title="interval to, %", format=".4~r"),
        *(alt.Tooltip("frames:Q", format=","), alt.Tooltip("samples:Q", format=",")),
    ]


def overall(values: list[dict], order: list[str], width: int) -> alt.LayerChart:
    """Return the panel with two bars per bin (outer and innermost length) and their intervals."""
    colors = alt.Scale(domain=list(LENGTHS.values()), range=[theme.BLUE, theme.ORANGE])
    x = alt.X(
        "bin:N",
        sort=order,
        title="frame length (B)",
        axis=alt.Axis(labelAngle=0, ticks=False, labelExpr=TWO_LINES, labelOverlap=False),
    )
    offset = alt.XOffset("length:N", sort=list(LENGTHS.values()))
    base = alt.Chart(Rows(values=values)).encode(x=x, xOffset=offset, tooltip=tooltip())
    legend = alt.Legend(title=None, orient="top", offset=4, symbolType="square", symbolStrokeWidth=0)
    y = alt.Y("share:Q", title="share of all frames (%)", axis=alt.Axis(tickCount=5, domain=False))
    bars = base.mark_bar().encode(y=y, color=alt.Color("length:N", scale=colors, legend=legend))
    lines = base.transform_filter("datum.low !== null").mark_rule(strokeWidth=1.4, color=theme.BLACK)
    lines = lines.encode(y=alt.Y("low:Q"), y2="high:Q")
    return (bars + lines).properties(width=width, height=150)


def by_site(values: list[dict], labels: list[str], bins: list[tuple], width: int) -> alt.HConcatChart:
    """Return one stacked bar per site and length; bins of longer frames are darker."""
    order = [label for _, label in bins]
    standard = [label for low, label in bins if low <= STANDARD_MAX]
    jumbo = order[len(standard) :]
    shades = [*theme.pick_colors(theme.STANDARD, len(standard)), *theme.pick_colors(theme.JUMBO, len(jumbo))]
    legend = alt.Legend(
        **{"title": "length (B)", "orient": "bottom", "titleOrient": "left", "columns": 6, "offset": 4},
        **{"symbolType": "square", "symbolStrokeWidth": 0},
    )
    color = alt.Color("bin:N", sort=order, scale=alt.Scale(domain=order, range=shades), legend=legend)
    panels = []
    for index, length in enumerate(LENGTHS.values()):
        axis = alt.Axis(ticks=False, domain=False) if index == 0 else None
        rows = [row for row in values if row["length"] == length]
        panels.append(
            alt.Chart(Rows(values=rows))
            .mark_bar(height={"band": 0.8}, stroke="white", strokeWidth=0.5)
            .encode(
                y=alt.Y("label:N", sort=labels, title=None, axis=axis),
                x=alt.X("share:Q", title=f"frames, {length} (%)", scale=alt.Scale(domain=[0, 100], clamp=True)),
                color=color,
                order=alt.Order("bin_lo:Q"),
                tooltip=tooltip(),
            )
            .properties(width=width, height=alt.Step(theme.row_height(len(labels), total=330)))
        )
    return alt.hconcat(*panels, spacing=GUTTER)
