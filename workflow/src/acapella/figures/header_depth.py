"""Figure header_depth of the report, described by ABOUT.

Each panel has its own scale, because the numbers of both panels are not comparable.
"""

import altair as alt

from acapella.common.wording import count, natural, short_labels, span

from . import theme
from .compose import Figure
from .header_occurrence import heuristic_text
from .rows import Rows
from .source import ALL, NoData, Source

SUBJECT = "Headers and header stacks of each site"
ABOUT = "Number of distinct headers and depth of the deepest header stack at each site (Patchwork, figure 11)."
TABLE = "header_depth"
COLUMNS = ("distinct_headers", "deepest_stack")
ALL_SITES = "all sites"
MAX_LABEL = 24
MAX_BARS = 12  # sites drawn as bars; if there are more, sites are points in ranked order
MAX_NAMED = 6  # headers listed as heuristic
HEIGHT = 160  # px: height of a panel of points
NUMBER = 26  # px: width reserved for the number at the end of a bar
PAYLOAD = "Payload (Data) does not count as a header."
PANELS = (
    ("distinct_headers", "distinct headers (labels)", theme.BLUE),
    ("deepest_stack", "deepest stack (headers)", theme.VERMILION),
)


def draw(source: Source) -> Figure:
    """Draw two panels of bars or points; sites have the same order in both."""
    rows = {row["site"]: row for row in source.required_rows(TABLE)}
    sites = sorted((site for site in rows if site != ALL), key=lambda s: (-rows[s]["distinct_headers"], natural(s)))
    if not sites:
        raise NoData(f"tables/{TABLE}.csv has no row of a site")
    labels = short_labels(sites, MAX_LABEL)
    if len(sites) > MAX_BARS:
        values = [{**rows[site], "label": label} for site, label in labels.items()]
        return Figure(
            title(sites, rows),
            point_panels(values, list(labels.values())),
            (*points_notes(rows), *heuristic_note(source)),
        )
    if len(sites) > 1 and ALL in rows:
        labels = {ALL: ALL_SITES, **labels}
    values = [{**rows[site], "label": label, "whole": site == ALL} for site, label in labels.items()]
    width = (theme.WIDTH - theme.text_width(labels.values()) - 46) // 2
    panels = [panel(values, list(labels.values()), column, width, first=not n) for n, column in enumerate(PANELS)]
    return Figure(title(sites, rows), alt.hconcat(*panels, spacing=24), (PAYLOAD, *heuristic_note(source)))


def heuristic_note(source: Source) -> tuple[str, ...]:
    """Return a note on the headers that tshark detected by payload (table header_occurrence), most frames first."""
    rows = [row for row in source.rows("header_occurrence") if row["site"] == ALL and heuristic_text(row)]
    rows.sort(key=lambda row: (-row["guessed_frames"], natural(row["header"])))
    if not rows:
        return ()
    listed_headers = [f"{row['header']} ({guessed_frames(row)})" for row in rows[:MAX_NAMED]]
    more = f" and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
    return (
        f"Included heuristic headers: {', '.join(listed_headers)}{more}: recognized by payload alone, in an "
        "unknown flow or on a port not registered for the header.",
    )


def guessed_frames(row: dict) -> str:
    """Return the number of frames in which the header was detected by payload: ``2 frames``, ``2 of 3 frames``."""
    if row["guessed_frames"] == row["frames"]:
        return count(row["frames"], "frame")
    return f"{row['guessed_frames']:,} of {count(row['frames'], 'frame')}"


def points_notes(rows: dict) -> tuple[str, ...]:
    """Return notes on how to read the points, and on the row of the whole campaign, which is not a site."""
    key = f"Sites by their number of distinct headers, in the same order in both panels. {PAYLOAD}"
    if ALL not in rows:
        return (key,)
    total = rows[ALL]
    return (f"{key} All sites: {total['distinct_headers']} distinct headers, deepest stack {total['deepest_stack']}.",)


def largest(values: list[dict], column: str) -> int:
    """Return the largest number in a panel, at which its axis ends."""
    return max(row[column] for row in values) or 1


def point_panels(values: list[dict], order: list[str]) -> alt.VConcatChart:
    """Return one panel per column, one above the other, with a point and a line to the axis for each site."""
    panels = []
    for column, name, color in PANELS:
        maximum = largest(values, column)
        last = (column, name, color) == PANELS[-1]
        y = alt.Y(
            f"{column}:Q",
            title=name,
            scale=alt.Scale(domain=[0, maximum], nice=False),
            axis=alt.Axis(values=theme.whole_ticks(maximum), format=",d", domain=False),
        )
        axis = alt.Axis(labels=last, labelAngle=-90, labelOverlap=False, ticks=False)
        x = alt.X("label:N", sort=order, title="site" if last else None, axis=axis)
        base = alt.Chart(Rows(values=values)).encode(x=x, y=y, tooltip=tooltip())
        lines = base.mark_rule(color=color, strokeWidth=1.4).encode(y2=alt.datum(0))
        dots = base.mark_point(color=color, size=26, filled=True, opacity=1)
        panels.append((lines + dots).properties(width=theme.WIDTH - 60, height=HEIGHT))
    return alt.vconcat(*panels, spacing=12)


def tooltip() -> list[alt.Tooltip]:
    """Return the tooltip of a site."""
    return [
        alt.Tooltip("site:N"),
        alt.Tooltip("distinct_headers:Q", title="distinct headers"),
        alt.Tooltip("distinct_stacks:Q", title="distinct stacks"),
        alt.Tooltip("deepest_stack:Q", title="deepest stack, headers"),
        alt.Tooltip("deepest_example:N", title="deepest stack"),
        alt.Tooltip("frames:Q", format=","),
        alt.Tooltip("samples:Q", format=","),
    ]


def title(sites: list[str], rows: dict) -> str:
    """Return the title: the ranges of both numbers over sites."""
    min_headers, max_headers = (limit(rows[site]["distinct_headers"] for site in sites) for limit in (min, max))
    shallowest, deepest = (limit(rows[site]["deepest_stack"] for site in sites) for limit in (min, max))
    if len(sites) == 1:
        return f"{sites[0]} shows {max_headers} distinct headers, stacked up to {deepest} deep"
    depths = span(shallowest, deepest)
    return f"Sites show {span(min_headers, max_headers)} distinct headers; their deepest stacks have {depths} headers"


def panel(values, order, description, width, *, first) -> alt.LayerChart:
    """Return the bars of one column with their values."""
    column, name, color = description
    maximum = largest(values, column)
    base = alt.Chart(Rows(values=values)).encode(
        y=alt.Y("label:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False) if first else None),
        x=alt.X(
            f"{column}:Q",
            title=name,
            scale=alt.Scale(domain=[0, maximum], range=[0, width - NUMBER], nice=False),
            axis=alt.Axis(values=theme.whole_ticks(maximum), format=",d", domain=False),
        ),
        tooltip=tooltip(),
    )
    shade = alt.condition("datum.whole", alt.value(theme.GRAY), alt.value(color))
    bars = base.mark_bar(height={"band": 0.72}).encode(color=shade)
    text = base.mark_text(align="left", dx=4, fontSize=theme.SMALL).encode(text=alt.Text(f"{column}:Q", format=","))
    return (bars + text).properties(width=width, height=alt.Step(theme.row_height(len(values))))
