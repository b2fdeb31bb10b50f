"""How many different headers each site shows, and how deep they stack (Patchwork, figure 11)."""

import altair as alt

from . import theme
from .compose import Figure
from .header_occurrence import heuristic
from .source import ALL, NoData, Source
from .wording import count, natural, short_labels, span

SUBJECT = "Headers and header stacks of each site"
TABLE = "header_depth"
COLUMNS = ("distinct_headers", "deepest_stack")
EVERYTHING = "all sites"
LABEL = 24
FEW = 12  # sites that have bars; more have two curves over the ranked sites, as in the paper
GUESSES = 6  # headers named as heuristic
HEIGHT = 230  # px of the curves
PANELS = (
    ("distinct_headers", "distinct headers (labels)", theme.BLUE),
    ("deepest_stack", "deepest stack (headers)", theme.VERMILION),
)


def draw(source: Source) -> Figure:
    """Two bars a site in two panels, or two curves with an axis each; the sites in the same order in both."""
    rows = {row["site"]: row for row in source.wanted(TABLE)}
    sites = sorted((site for site in rows if site != ALL), key=lambda s: (-rows[s]["distinct_headers"], natural(s)))
    if not sites:
        raise NoData(f"tables/{TABLE}.csv has no row of a site")
    labels = short_labels(sites, LABEL)
    if len(sites) > FEW:
        values = [{**rows[site], "label": label} for site, label in labels.items()]
        return Figure(
            title(sites, rows), curves(values, list(labels.values())), (*key_of_curves(rows), *guessed(source))
        )
    if len(sites) > 1 and ALL in rows:
        labels = {ALL: EVERYTHING, **labels}
    values = [{**rows[site], "label": label, "whole": site == ALL} for site, label in labels.items()]
    width = (theme.WIDTH - theme.text_width(labels.values()) - 46) // 2
    panels = [panel(values, list(labels.values()), which, width, first=not n) for n, which in enumerate(PANELS)]
    return Figure(title(sites, rows), alt.hconcat(*panels, spacing=24), guessed(source))


def guessed(source: Source) -> tuple[str, ...]:
    """State the headers that tshark guessed from payload (table header_occurrence), most frames first."""
    rows = [row for row in source.rows("header_occurrence") if row["site"] == ALL and heuristic(row)]
    rows.sort(key=lambda row: (-row["guessed_frames"], natural(row["header"])))
    if not rows:
        return ()
    named = [f"{row['header']} ({guesses_of(row)})" for row in rows[:GUESSES]]
    more = f" and {len(rows) - GUESSES} more" if len(rows) > GUESSES else ""
    return (
        f"Heuristic, and counted with the others: {', '.join(named)}{more}: recognized by payload alone, in an "
        "unknown flow or on a port not registered for the header.",
    )


def guesses_of(row: dict) -> str:
    """Return the number of frames in which the header is guessed: ``2 frames``, ``2 of 3 frames``."""
    if row["guessed_frames"] == row["frames"]:
        return count(row["frames"], "frame")
    return f"{row['guessed_frames']:,} of {count(row['frames'], 'frame')}"


def key_of_curves(rows: dict) -> tuple[str, ...]:
    """How to read the curves, and the row of the whole campaign, which is no site."""
    key = "Sites by their number of distinct headers, in the same order for both curves"
    if ALL not in rows:
        return (f"{key}.",)
    whole = rows[ALL]
    return (f"{key}. All sites: {whole['distinct_headers']} distinct headers, deepest stack {whole['deepest_stack']}.",)


def curves(values: list[dict], order: list[str]) -> alt.LayerChart:
    """One curve for each column, each with an axis in its color (Patchwork, figure 11)."""
    layers = []
    for (column, name, color), orient, shape in zip(PANELS, ("left", "right"), ("circle", "square"), strict=True):
        most = max(row[column] for row in values) or 1
        y = alt.Y(
            f"{column}:Q",
            scale=alt.Scale(domain=[0, most * 1.12], nice=False),
            axis=alt.Axis(
                **{"title": name, "titleColor": color, "labelColor": color, "orient": orient, "domain": False},
                **{"values": theme.whole_ticks(most), "format": ",d", "grid": orient == "left"},
            ),
        )
        x = alt.X("label:N", sort=order, title="site", axis=alt.Axis(labelAngle=-90, labelOverlap=False, ticks=False))
        base = alt.Chart(alt.Data(values=values)).encode(x=x, y=y, tooltip=tooltip())
        line = base.mark_line(color=color, strokeWidth=1.4, strokeJoin="round")
        points = base.mark_point(color=color, shape=shape, size=26, filled=True, opacity=1)
        layers.append(line + points)
    return alt.layer(*layers).resolve_scale(y="independent").properties(width=theme.WIDTH - 100, height=HEIGHT)


def tooltip() -> list[alt.Tooltip]:
    """What the pointer shows of a site."""
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
    """What the sites show, from the fewest to the most."""
    few, many = (pick(rows[site]["distinct_headers"] for site in sites) for pick in (min, max))
    flat, deep = (pick(rows[site]["deepest_stack"] for site in sites) for pick in (min, max))
    if len(sites) == 1:
        return f"{sites[0]} shows {many} distinct headers, stacked up to {deep} deep"
    return f"Sites show {span(few, many)} distinct headers; their deepest stacks have {span(flat, deep)} headers"


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
        tooltip=tooltip(),
    )
    shade = alt.condition("datum.whole", alt.value(theme.FAINT), alt.value(colour))
    bars = base.mark_bar(height={"band": 0.72}).encode(color=shade)
    text = base.mark_text(align="left", dx=4, fontSize=theme.SMALL).encode(text=alt.Text(f"{column}:Q", format=","))
    return (bars + text).properties(width=width, height=alt.Step(theme.row_height(len(values))))
