"""How many of the reports that are offered at a rate the collector takes (P4/RDMA, figure 7b)."""

import altair as alt

from . import theme
from .compose import Figure
from .source import NoData, Source
from .wording import GAP, count, digits, percent

SUBJECT = "Success against offered rate"
TABLE = "flowreport_offered"
COLUMNS = ("offered_rps", "reached_rps", "success_share", "trace_bps", "speed")
PRINTED = 22e6  # section IV-C, reports/s with negligible losses
HEIGHT = 190
COLOURS = (theme.BLUE, theme.VERMILION)


def scope(source: Source) -> tuple[str, ...]:
    """How much was offered, and what of it was lost, without the replays of traces."""
    rows = [row for row in source.rows(TABLE) if row["trace"] is None]
    if not rows:
        return ()
    offered = sum(row["offered"] for row in rows)
    lost, discarded = (sum(row[name] for row in rows) for name in ("lost", "discarded"))
    one = rows[0]
    reports = f"{count(offered, 'report')} of {one['report_bytes']}{GAP}B of {count(one['flows'], 'flow')}"
    what = f"{count(len(rows), 'run')}, {reports}, {count(one['threads'], 'thread')}"
    shares = [f"{percent(n / offered) if n else 'none'}" for n in (lost, discarded)]
    return (f"{what}; losses: {shares[0]}, discarded as old: {shares[1]}",)


SCOPE = scope


def draw(source: Source) -> Figure:
    """Return a point per run: above of reports made in memory, below of replayed traces."""
    rows = [row for row in source.rows(TABLE) if row["trace"] is None]
    replays = [row for row in source.rows(TABLE) if row["trace"] is not None]
    if not rows:
        raise NoData("no rate was measured (acapella measure-collector)")
    values = [
        {
            "rate": row["reached_rps"] / 1e6,
            "success": 100 * row["success_share"],
            "set": f"{digits(row['offered_rps'] / 1e6)} M/s",
            "lost": row["lost"],
            "offered": row["offered"],
        }
        for row in rows
    ]
    values.sort(key=lambda value: value["rate"])
    every = [PRINTED / 1e6, *(value["rate"] for value in values)]
    domain = [min(every) / 1.2, max(every) * 1.2]
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X(
            "rate:Q",
            title="offered (million reports/s)",
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=alt.Axis(format="~g", values=ticks(*domain)),
        ),
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
        "Reports are in memory as a NIC would have written them; one is lost if its place in the ring is written again "
        "before a worker has read it. The highest rate is that at which this machine copies reports in memory. Dashed: "
        "the rate that the P4/RDMA paper reached with negligible losses. Its collapse to 125,000 reports/s beyond that "
        "rate is of its NIC and cannot be reproduced here."
        f"{' ' + REPLAYED if replays else ''}",
    )
    chart = chart.properties(width=theme.WIDTH - 70, height=HEIGHT)
    return Figure(title(rows), alt.vconcat(chart, drops(replays), spacing=14) if replays else chart, key)


REPLAYED = (
    "Below: reports that the P4 program makes of generated traces with the mean rates of the paper's, replayed at "
    "multiples of their own rate; the rate of the packets is on the axis. Circles are single replays, the line "
    "joins their medians."
)


def drops(replays: list[dict]) -> alt.LayerChart:
    """Return the share of reports lost against the replay rate, a line per trace through the medians of its replays."""
    values = [
        {
            "trace": f"trace of {row['trace']}",
            "rate": row["trace_bps"] * row["speed"] / 1e6,
            "drops": 100 * row["lost"] / row["offered"],
            "speed": row["speed"],
            "rps": row["offered_rps"] / 1e6,
        }
        for row in replays
        if row["offered"]
    ]
    names = list(dict.fromkeys(value["trace"] for value in values))
    legend = alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolSize=200, labelLimit=200)
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X(
            "rate:Q",
            title="replay rate (Mbit/s)",
            scale=alt.Scale(type="log", nice=False, padding=8),
            axis=alt.Axis(format=",~f", values=[10.0**power for power in range(10)], labelOverlap=True),
        ),
        y=alt.Y("drops:Q", title="reports lost (%)", scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("trace:N", scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])), legend=legend),
        tooltip=[
            alt.Tooltip("trace:N"),
            alt.Tooltip("speed:Q", title="speed"),
            alt.Tooltip("rps:Q", title="million reports/s", format=".3~g"),
            alt.Tooltip("drops:Q", title="lost (%)", format=".3~g"),
        ],
    )
    median = base.encode(y=alt.Y("drops:Q", aggregate="median", title="reports lost (%)"), tooltip=[])
    marks = alt.layer(median.mark_line(strokeWidth=1.6), base.mark_circle(size=30, opacity=0.7))
    return marks.properties(width=theme.WIDTH - 70, height=HEIGHT)


def ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two ends of an axis."""
    every = (step * 10.0**power for power in range(-3, 6) for step in (1, 2, 5))
    return [value for value in every if low <= value <= high]


def title(rows: list[dict]) -> str:
    """Return between which rates losses begin."""
    failing = [row["reached_rps"] for row in rows if row["accepted"] < row["offered"]]
    whole = [row["reached_rps"] for row in rows if row["accepted"] == row["offered"]]
    if not whole:
        return "Reports were lost at every rate that was offered"
    if not failing:
        return f"Up to {digits(max(whole) / 1e6)} million reports/s no report was lost"
    below = [rate for rate in whole if rate < min(failing)]
    if not below:
        return f"Reports were lost from {digits(min(failing) / 1e6)} million/s on"
    return f"Losses begin between {digits(max(below) / 1e6)} and {digits(min(failing) / 1e6)} million reports/s"
