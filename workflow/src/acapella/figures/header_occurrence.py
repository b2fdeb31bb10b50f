"""How often each header occurs in the campaign's frames (Patchwork, figure 12)."""

import altair as alt

from . import site_dots, theme
from .compose import Figure
from .source import ALL, Source
from .wording import count, natural, percent, short_labels

SUBJECT = "Occurrence of headers"
TABLE = "header_occurrence"
COLUMNS = ("frame_share", "frame_share_lo", "frame_share_hi", "occurrence_share")
MOST = 25  # headers drawn; the table has them all
LABEL = 28
BAND = 0.74  # of a row's height is its bar
NAMED = ("TCP", "UDP", "VLAN", "MPLS", "IPv6")  # headers that the title tells about, where they occur


def draw(source: Source) -> Figure:
    """A bar a header with its interval; occurrences where a header stands twice in a frame; a dot for each site."""
    rows = source.wanted(TABLE)
    ranked = sorted((r for r in rows if r["site"] == ALL), key=lambda r: (-r["frame_share"], natural(r["header"])))
    shown = short_labels([row["header"] for row in ranked[:MOST]], LABEL)
    several = len(source.sites) > 1
    values = [cells(row, shown) for row in ranked[:MOST]]
    dots = [cells(row, shown) for row in rows if several and row["site"] != ALL and row["header"] in shown]
    key = ["Bar: share of all frames that hold the header"]
    if any(row["low"] is not None for row in values):
        key.append("line: its 95 % bootstrap interval over samples")
    if several:
        key.append(site_dots.key(source.sites))
    if any(row["twice"] for row in values):
        key.append("diamond: occurrences per 100 frames, where frames hold it more than once")
    if len(ranked) > MOST:
        key.append(f"{count(len(ranked) - MOST, 'rarer header')} not shown")
    return Figure(title(ranked), chart(values, dots, list(shown.values()), source.sites), ("; ".join(key) + ".",))


def cells(row: dict, shown: dict) -> dict:
    """What one row puts into the drawing, in percent."""
    low, high = row["frame_share_lo"], row["frame_share_hi"]
    return {
        **{"header": row["header"], "label": shown[row["header"]], "site": row["site"]},
        **{"frames": row["frames"], "samples": row["samples"], "text": percent(row["frame_share"])},
        "share": 100 * row["frame_share"],
        "low": None if low is None else 100 * low,
        "high": None if high is None else 100 * high,
        "occurrence": 100 * row["occurrence_share"],
        "twice": row["occurrences"] > row["frames"],
    }


def title(ranked: list[dict]) -> str:
    """The shares of the headers that tell most about a testbed."""
    share = {row["header"]: row["frame_share"] for row in ranked}
    named = [f"{header} in {percent(share[header])}" for header in NAMED if header in share]
    if not named:
        return f"{ranked[0]['header']} is in {percent(ranked[0]['frame_share'])} of frames"
    return f"Of all frames: {', '.join(named)}"


def chart(values: list[dict], dots: list[dict], order: list[str], sites: list[str]) -> alt.LayerChart:
    """Bars, intervals, dots and diamonds over one row a header, the shares in words at the right."""
    right = max(100, *(1.04 * row["occurrence"] for row in values))
    x = alt.Scale(domain=[0, right], nice=False)
    y = alt.Y(
        "label:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False, labelLimit=200, labelPadding=6)
    )
    tooltip = [
        *(alt.Tooltip("site:N"), alt.Tooltip("header:N"), alt.Tooltip("text:N", title="frames with it")),
        alt.Tooltip("low:Q", title="interval from, %", format=".4~r"),
        alt.Tooltip("high:Q", title="interval to, %", format=".4~r"),
        alt.Tooltip("occurrence:Q", title="occurrences per 100 frames", format=".4~r"),
        *(alt.Tooltip("frames:Q", format=","), alt.Tooltip("samples:Q", format=",")),
    ]
    base = alt.Chart(alt.Data(values=values)).encode(y=y, tooltip=tooltip)
    axis = alt.Axis(title="share of frames (%)", domain=False, tickCount=10)
    row = theme.row_height(len(order), low=18 if dots else 13)
    bar = BAND * row
    bars = base.mark_bar(height={"band": BAND}, color=site_dots.BAR).encode(x=alt.X("share:Q", scale=x, axis=axis))
    lines = base.transform_filter("datum.low !== null").mark_rule(
        strokeWidth=1.6, color=theme.BLACK, yOffset=site_dots.LINE * bar if dots else 0
    )
    lines = lines.encode(x=alt.X("low:Q", scale=x), x2="high:Q")
    twice = base.transform_filter("datum.twice").mark_point(
        shape="diamond", size=52, filled=False, color=theme.BLACK, strokeWidth=1.3, opacity=1
    )
    twice = twice.encode(x=alt.X("occurrence:Q", scale=x))
    width = theme.WIDTH - theme.text_width(order) - 60
    words = base.mark_text(align="left", fontSize=theme.SMALL).encode(x=alt.value(width + 6), text="text:N")
    layers = [bars, lines, twice, words]
    if dots:
        encoding = {"x": alt.X("share:Q", scale=x), "y": y, "tooltip": tooltip}
        layers += site_dots.layers(dots, sites, bar, 0, encoding)
    return alt.layer(*layers).properties(width=width, height=alt.Step(row))
