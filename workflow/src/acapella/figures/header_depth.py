"""How many different headers each site shows, and how deep they stack (Patchwork, figure 11)."""

import altair as alt

from . import theme
from .compose import Figure
from .source import ALL, NoData, Source
from .wording import natural, short_labels, span

SUBJECT = "Headers and header stacks of each site"
TABLE = "header_depth"
COLUMNS = ("distinct_headers", "deepest_stack")
EVERYTHING = "all sites"
LABEL = 24
PANELS = (
    ("distinct_headers", "distinct headers (labels)", theme.BLUE),
    ("deepest_stack", "deepest stack (headers)", theme.ORANGE),
)


def draw(source: Source) -> Figure:
    """Two bars a site, in two panels with the sites in the same order."""
    rows = {row["site"]: row for row in source.wanted(TABLE)}
    sites = sorted((site for site in rows if site != ALL), key=lambda s: (-rows[s]["distinct_headers"], natural(s)))
    if not sites:
        raise NoData(f"tables/{TABLE}.csv has no row of a site")
    labels = short_labels(sites, LABEL)
    if len(sites) > 1 and ALL in rows:
        labels = {ALL: EVERYTHING, **labels}
    values = [{**rows[site], "label": label, "whole": site == ALL} for site, label in labels.items()]
    width = (theme.WIDTH - theme.text_width(labels.values()) - 46) // 2
    panels = [panel(values, list(labels.values()), which, width, first=not n) for n, which in enumerate(PANELS)]
    return Figure(title(sites, rows), alt.hconcat(*panels, spacing=24))


def title(sites: list[str], rows: dict) -> str:
    """What the sites show, from the fewest to the most."""
    few, many = (pick(rows[site]["distinct_headers"] for site in sites) for pick in (min, max))
    flat, deep = (pick(rows[site]["deepest_stack"] for site in sites) for pick in (min, max))
    if len(sites) == 1:
        return f"{sites[0]} shows {many} distinct headers, stacked up to {deep} deep"
    return f"Sites show {span(few, many)} distinct headers; their deepest stacks have {span(flat, deep)}"


def panel(values, order, which, width, *, first) -> alt.LayerChart:
    """Bars of one column with the value at their ends."""
    column, name, colour = which
    most = max(row[column] for row in values) or 1
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("label:N", sort=order, title=None, axis=alt.Axis(ticks=False, domain=False) if first else None),
        x=alt.X(
            f"{column}:Q",
            title=name,
            scale=alt.Scale(domain=[0, most * 1.12], nice=False),
            axis=alt.Axis(values=theme.whole_ticks(most), format=",d", domain=False),
        ),
        tooltip=[
            alt.Tooltip("site:N"),
            alt.Tooltip("distinct_headers:Q", title="distinct headers"),
            alt.Tooltip("distinct_stacks:Q", title="distinct stacks"),
            alt.Tooltip("deepest_stack:Q", title="deepest stack, headers"),
            alt.Tooltip("deepest_example:N", title="deepest stack"),
            alt.Tooltip("frames:Q", format=","),
            alt.Tooltip("samples:Q", format=","),
        ],
    )
    shade = alt.condition("datum.whole", alt.value(theme.FAINT), alt.value(colour))
    bars = base.mark_bar(height={"band": 0.72}).encode(color=shade)
    text = base.mark_text(align="left", dx=4, fontSize=theme.SMALL).encode(text=alt.Text(f"{column}:Q", format=","))
    return (bars + text).properties(width=width, height=alt.Step(theme.row_height(len(values))))
