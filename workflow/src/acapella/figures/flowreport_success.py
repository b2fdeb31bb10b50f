"""Figure flowreport_success of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import GAP, count, digits, percent

from . import theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Success against offered rate"
ABOUT = "Share of offered reports that the collector accepts, by rate (P4/RDMA, figure 7b)."
TABLE = "flowreport_offered"
COLUMNS = ("trace", "speed", "offered_rps", "offered", "lost", "success_share")
PAPER_RATE = 22e6  # section IV-C: reports/s with negligible losses
HEIGHT = 190
RATE_TITLE = "offered (million reports/s)"
LOST_TITLE = "lost (% of offered)"
COLORS = (theme.BLUE, theme.VERMILION)
IN_MEMORY, REPLAYED = "Reports generated in memory", "Reports of replayed traces"  # titles of the two panels


def scope(source: Source) -> tuple[str, ...]:
    """Return the numbers of reports offered and lost as text, one line per panel."""
    in_memory, replays = split_replays(source.rows(TABLE))
    lines = []
    for rows, description, run in ((in_memory, IN_MEMORY, "run"), (replays, REPLAYED, "replay")):
        if not rows:
            continue
        offered = sum(row["offered"] for row in rows)
        lost, discarded = (sum(row[name] for row in rows) for name in ("lost", "discarded"))
        first = rows[0]
        reports = f"{count(offered, 'report')} of {first['report_bytes']}{GAP}B"
        if rows is in_memory:
            reports += f" of {count(first['flows'], 'flow')}"
        shares = [percent(n / offered) if n else "none" for n in (lost, discarded)]
        runs = f"{count(len(rows), run)}, {reports}, {count(first['threads'], 'thread')}"
        lines.append(f"{description}: {runs}; of these lost: {shares[0]}, discarded as old: {shares[1]}")
    return tuple(lines)


SCOPE = scope


def split_replays(rows: list[dict]) -> tuple[list[dict], list[dict]]:
    """Return the runs with reports generated in memory, and the replays that offered any reports."""
    replays = [row for row in rows if row["trace"] is not None and row["offered"]]
    return [row for row in rows if row["trace"] is None], replays


def draw(source: Source) -> Figure:
    """Draw a point per run: reports generated in memory in the upper panel, replayed traces in the lower one."""
    rows, replays = split_replays(source.rows(TABLE))
    if not rows:
        raise NoData("no rate was measured (acapella measure collector)")
    values = [
        {
            "rate": row["offered_rps"] / 1e6,
            "success": 100 * row["success_share"],
            "set": f"{digits(row['offered_rps'] / 1e6)} M/s",
            "lost": row["lost"],
            "offered": row["offered"],
        }
        for row in rows
    ]
    values.sort(key=lambda value: value["rate"])
    rates = [PAPER_RATE / 1e6, *(value["rate"] for value in values)]
    domain = [min(rates) / 1.2, max(rates) * 1.2]
    base = alt.Chart(Rows(values=values)).encode(
        x=alt.X(
            "rate:Q",
            title=RATE_TITLE,
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=alt.Axis(format="~g", values=ticks(*domain)),
        ),
        y=alt.Y("success:Q", title="accepted (% of offered)", scale=alt.Scale(domain=[0, 100])),
        tooltip=[
            alt.Tooltip("set:N", title="set"),
            alt.Tooltip("rate:Q", title="offered (M/s)", format=".3~g"),
            alt.Tooltip("success:Q", title="accepted (% of offered)", format=".4~g"),
            alt.Tooltip("lost:Q", format=","),
            alt.Tooltip("offered:Q", format=","),
        ],
    )
    mark = alt.Chart(Rows(values=[{"rate": PAPER_RATE / 1e6}])).mark_rule(color=theme.GRAY, strokeDash=[3, 3])
    chart = alt.layer(
        mark.encode(x="rate:Q"),
        base.mark_line(color=theme.BLUE, strokeWidth=1.6),
        base.mark_circle(color=theme.BLUE, size=40, opacity=1),
    )
    key = (
        "Reports are written to memory as a NIC would write them; a report is lost if its slot in the ring is "
        "overwritten before a worker has read it, for example while other programs use the processor. The highest rate "
        "is the rate at which this machine copies reports in memory. Dashed: the rate of the P4/RDMA paper with "
        "negligible losses. "
        "The collapse to 125,000 reports/s at higher rates is a property of the paper's NIC and cannot be reproduced "
        "here."
        f"{' ' + REPLAY_NOTE if replays else ''}",
    )
    chart = chart.properties(width=theme.WIDTH - 70, height=HEIGHT, title=panel_title(IN_MEMORY))
    return Figure(
        title(rows, replays), alt.vconcat(chart, replay_panel(replays), spacing=14) if replays else chart, key
    )


REPLAY_NOTE = (
    "Bottom: reports of the P4 program for generated traces with the mean rates of the paper's traces, replayed at "
    "multiples of that rate. Circles are single replays, the line connects their medians. A replay at 1,000 times the "
    "rate ends after half a millisecond, so it is rarely interrupted and may lose less than a slower one."
)


def panel_title(text: str) -> alt.TitleParams:
    """Return the heading of a panel."""
    return alt.TitleParams(text, fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK)


def replay_panel(replays: list[dict]) -> alt.LayerChart:
    """Return the share of reports lost against the offered rate, with a line per trace through its medians."""
    values = [
        {
            "trace": f"trace of {row['trace']}",
            "rate": row["offered_rps"] / 1e6,
            "drops": 100 * row["lost"] / row["offered"],
            "speed": row["speed"],
            "mbps": row["trace_bps"] * row["speed"] / 1e6,
        }
        for row in replays
    ]
    rates = [value["rate"] for value in values]
    domain = [min(rates) / 1.2, max(rates) * 1.2]
    names = list(dict.fromkeys(value["trace"] for value in values))
    legend = alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolSize=200, labelLimit=200)
    base = alt.Chart(Rows(values=values)).encode(
        x=alt.X(
            "rate:Q",
            title=RATE_TITLE,
            scale=alt.Scale(type="log", domain=domain, nice=False),
            axis=alt.Axis(format="~g", values=ticks(*domain), labelOverlap=True),
        ),
        y=alt.Y("drops:Q", title=LOST_TITLE, scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("trace:N", scale=alt.Scale(domain=names, range=list(COLORS[: len(names)])), legend=legend),
        tooltip=[
            alt.Tooltip("trace:N"),
            alt.Tooltip("speed:Q", title="speed"),
            alt.Tooltip("rate:Q", title="million reports/s", format=".3~g"),
            alt.Tooltip("mbps:Q", title="replay rate (Mbit/s)", format=",.3~r"),
            alt.Tooltip("drops:Q", title="lost (%)", format=".3~g"),
        ],
    )
    median = base.encode(y=alt.Y("drops:Q", aggregate="median", title=LOST_TITLE), tooltip=[])
    marks = alt.layer(median.mark_line(strokeWidth=1.6), base.mark_circle(size=30, opacity=0.7))
    return marks.properties(width=theme.WIDTH - 70, height=HEIGHT, title=panel_title(REPLAYED))


def ticks(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two ends of an axis."""
    values = (step * 10.0**power for power in range(-3, 6) for step in (1, 2, 5))
    return [value for value in values if low <= value <= high]


def title(rows: list[dict], replays: list[dict]) -> str:
    """Return the title: the rates between which losses begin, for reports generated in memory and for each trace."""
    traces = dict.fromkeys(row["trace"] for row in replays)
    parts = [
        f"replayed trace of {name}: {loss_onset([row for row in replays if row['trace'] == name])}" for name in traces
    ]
    return "; ".join([f"{IN_MEMORY}: {loss_onset(rows)}", *parts])


def loss_onset(rows: list[dict]) -> str:
    """Return the rates between which losses begin, as text."""
    lossy = [row["offered_rps"] for row in rows if row["lost"]]
    lossless = [row["offered_rps"] for row in rows if not row["lost"]]
    if not lossless:
        return "losses at every offered rate"
    if not lossy:
        return f"no losses up to {digits(max(lossless) / 1e6)} million reports/s"
    below = [rate for rate in lossless if rate < min(lossy)]
    above = [row for row in rows if row["offered_rps"] >= min(lossy)]
    lossless_above = sum(not row["lost"] for row in above)
    suffix = (
        f" ({lossless_above} of {count(len(above), 'run')} at that rate or above without losses)"
        if lossless_above
        else ""
    )
    if not below:
        return f"losses at {digits(min(lossy) / 1e6)} million reports/s and above{suffix}"
    ends = f"{digits(max(below) / 1e6)} and {digits(min(lossy) / 1e6)} million reports/s"
    return f"losses begin between {ends}{suffix}"
