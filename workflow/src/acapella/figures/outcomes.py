"""Figure outcomes of the report, described by ABOUT."""

import altair as alt

from acapella.campaign.outcomes import OUTCOMES
from acapella.common.wording import count, percent

from . import theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Outcomes of collections"
ABOUT = "Share of sites by outcome for each collection (Patchwork, figure 10)."
TABLE = "outcomes"
COLUMNS = ("started", "outcome", "site_share")
COLORS = dict(zip(OUTCOMES, (theme.BLUE, theme.SKY, theme.ORANGE, theme.VERMILION), strict=True))
MAX_COLLECTIONS = 60  # collections drawn, the latest ones


def scope(source: Source) -> tuple[str, ...]:
    """Return the numbers of collections and sites as text."""
    rows = [row for row in source.rows(TABLE) if row["outcome"] == OUTCOMES[0]]
    sites = sum(row["sites_of_all"] for row in rows)
    return (f"{count(len(rows), 'collection')}, {count(sites, 'site')}; a site counts once per collection",)


SCOPE = scope


def draw(source: Source) -> Figure:
    """Draw a bar per collection, divided into the shares of outcomes."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("nothing was collected from a testbed")
    starts = sorted({(row["started"], row["campaign"]) for row in rows})
    drawn_starts = starts[-MAX_COLLECTIONS:]
    values = [bar_values(row) for row in rows if (row["started"], row["campaign"]) in drawn_starts and row["sites"]]
    key = ["degraded: fewer listening nodes than requested", "incomplete: stopped, crashed, or samples failed"]
    key.append("failed: no sample")
    if len(drawn_starts) < len(starts):
        key.append(f"the latest {MAX_COLLECTIONS} of {count(len(starts), 'collection')}")
    return Figure(title(rows), chart(values, [label(*start) for start in drawn_starts]), ("; ".join(key) + ".",))


def label(started: str, campaign: str) -> str:
    """Return the label of a collection: ``2026-01-31 12:00 star``."""
    return f"{started[:16].replace('T', ' ')} {campaign}"


def bar_values(row: dict) -> dict:
    """Return the values of a row for the chart."""
    return {
        "label": label(row["started"], row["campaign"]),
        "outcome": row["outcome"],
        "order": OUTCOMES.index(row["outcome"]),
        "share": 100 * row["site_share"],
        "text": f"{percent(row['site_share'])}, {row['sites']} of {count(row['sites_of_all'], 'site')}",
        "reasons": row["reasons"] or "-",
    }


def title(rows: list[dict]) -> str:
    """Return the title: the share of each outcome."""
    sites = {outcome: sum(row["sites"] for row in rows if row["outcome"] == outcome) for outcome in OUTCOMES}
    total = sum(sites.values())
    parts = [f"{percent(sites[outcome] / total)} {outcome}" for outcome in OUTCOMES if sites[outcome]]
    return f"Of all sites sampled: {', '.join(parts)}"


def chart(values: list[dict], order: list[str]) -> alt.Chart:
    """Return stacked bars, the earliest collection at the top."""
    names = [outcome for outcome in OUTCOMES if any(row["outcome"] == outcome for row in values)]
    scale = alt.Scale(domain=names, range=[COLORS[name] for name in names])
    legend = alt.Legend(title=None, orient="bottom", symbolType="square", symbolStrokeWidth=0)
    axis = alt.Axis(ticks=False, domain=False, labelLimit=220, labelPadding=6)
    return (
        alt.Chart(Rows(values=values))
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="share of sites (%)", scale=alt.Scale(domain=[0, 100], nice=False)),
            y=alt.Y("label:N", sort=order, title=None, axis=axis),
            color=alt.Color("outcome:N", scale=scale, sort=names, legend=legend),
            order="order:Q",
            tooltip=[alt.Tooltip(f"{field}:N") for field in ("label", "outcome", "text", "reasons")],
        )
        .properties(width=theme.WIDTH - theme.text_width(order) - 40)
        .properties(height=alt.Step(theme.row_height(len(order), low=10, total=480)))
    )
