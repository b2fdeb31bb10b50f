"""How many of the reports that are offered at a rate the collector takes (P4/RDMA, figure 7b)."""

import altair as alt

from . import theme
from .compose import Figure
from .source import NoData, Source
from .wording import GAP, count, digits, percent

SUBJECT = "Success against offered rate"
TABLE = "flowreport_offered"
COLUMNS = ("offered_rps", "reached_rps", "success_share", "threads")
PRINTED = 22e6  # section IV-C, reports/s with negligible losses
HEIGHT = 230


def scope(source: Source) -> tuple[str, ...]:
    """How much was offered, and what of it was lost."""
    rows = source.rows(TABLE)
    if not rows:
        return ()
    offered, lost = sum(row["offered"] for row in rows), sum(row["lost"] for row in rows)
    one = rows[0]
    reports = f"{count(offered, 'report')} of {one['report_bytes']}{GAP}B of {count(one['flows'], 'flow')}"
    what = f"{count(len(rows), 'run')}, {reports}, {count(one['threads'], 'thread')}"
    return (f"{what}; losses: {percent(lost / offered) if lost else 'none'}",)


SCOPE = scope


def draw(source: Source) -> Figure:
    """A point a run."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("no rate was measured (acapella measure-collector)")
    values = [
        {
            "rate": row["reached_rps"] / 1e6,
            "success": 100 * row["success_share"],
            "set": "as many as go" if row["offered_rps"] is None else f"{digits(row['offered_rps'] / 1e6)} M/s",
            "lost": row["lost"],
            "offered": row["offered"],
        }
        for row in rows
    ]
    most = max(PRINTED / 1e6, *(value["rate"] for value in values)) * 1.05
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("rate:Q", title="offered (million reports/s)", scale=alt.Scale(domain=[0, most], nice=False)),
        y=alt.Y("success:Q", title="taken (%)", scale=alt.Scale(domain=[0, 100])),
        tooltip=[
            alt.Tooltip("set:N", title="set"),
            alt.Tooltip("rate:Q", title="reached (M/s)", format=".3~g"),
            alt.Tooltip("success:Q", title="taken (%)", format=".4~g"),
            alt.Tooltip("lost:Q", format=","),
            alt.Tooltip("offered:Q", format=","),
        ],
    )
    mark = alt.Chart(alt.Data(values=[{"rate": PRINTED / 1e6}])).mark_rule(color=theme.FAINT, strokeDash=[3, 3])
    chart = alt.layer(
        mark.encode(x="rate:Q"),
        base.mark_line(color=theme.BLUE, strokeWidth=1.6),
        base.mark_circle(color=theme.BLUE, size=40, opacity=1),
    )
    key = (
        "Reports lie in memory as a NIC would have written them; one is lost where its place in the ring is written "
        "again before a worker has read it. Dashed: the rate that the P4/RDMA paper reached with negligible losses.",
    )
    return Figure(title(rows), chart.properties(width=theme.WIDTH - 70, height=HEIGHT), key)


def title(rows: list[dict]) -> str:
    """The highest rate without loss."""
    whole = [row["reached_rps"] for row in rows if not row["lost"]]
    if not whole:
        return "Reports were lost at every rate that was offered"
    return f"Up to {digits(max(whole) / 1e6)} million reports a second no report was lost"
