"""Figure monitor_latency of the report, described by ABOUT."""

from itertools import accumulate

import altair as alt

from acapella.common.wording import nanoseconds

from . import monitor_scope, theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Latency of generated packets"
ABOUT = "Distribution of the latency of generated packets that arrived, for each trial."
TABLE = "monitor_histograms"
COLUMNS = ("port", "flow", "measure", "from_ns", "to_ns", "packets")
SCOPE = monitor_scope.scope
ALL_FLOWS = -1
LEAST_US = 0.1  # shorter latencies are drawn at this value
HEIGHT = 260  # px
KEY = (
    "One line per trial. A point at the upper end of a bucket of the histogram (four per power of two): share of first "
    "copies whose latency is smaller. Latency: arrival minus departure, with the offset between both clocks.",
)


def draw(source: Source) -> Figure:
    """Draw the cumulative distribution of each trial."""
    names = monitor_scope.environments(source)
    rows = [row for row in source.rows(TABLE) if (row["flow"], row["measure"]) == (ALL_FLOWS, "latency")]
    if not rows:
        raise NoData("no packet arrived with a stamp")
    lines = [point for port in names for point in distribution([row for row in rows if row["port"] == port])]
    values = [{**point, "environment": names[point["port"]]} for point in lines]
    return Figure(title(source, names), chart(values, monitor_scope.unique_environments(names)), KEY)


def distribution(rows: list[dict]) -> list[dict]:
    """Return the points of a trial's line; none for the last bucket, which has no upper end."""
    ordered = sorted(rows, key=lambda row: -1 if row["from_ns"] is None else row["from_ns"])
    total = sum(row["packets"] for row in ordered)
    sums = accumulate(row["packets"] for row in ordered)
    points = [(row["from_ns"], 0) for row in ordered[:1]]
    points += [(row["to_ns"], below) for row, below in zip(ordered, sums, strict=True) if row["to_ns"] is not None]
    port = ordered[0]["port"] if ordered else 0
    return [
        {"port": port, "place": index, "us": max(LEAST_US, (ns or 0) / 1000), "percent": 100 * below / total}
        for index, (ns, below) in enumerate(points)
    ]


def title(source: Source, names: dict[int, str]) -> str:
    """Return the title: for each environment, the largest 99th percentile of the latencies of a flow.

    An environment with a flow whose 99th percentile is in the last bucket (above about an hour) is not in the title.
    """
    flows = [row for row in source.rows("monitor_flows") if row["unique"]]
    parts = []
    for environment in monitor_scope.unique_environments(names):
        limits = [row["latency_p99_ns"] for row in flows if names[row["port"]] == environment]
        if limits and None not in limits:
            parts.append(f"{nanoseconds(max(limits))} ({environment})")
    return f"99 % of the packets of each flow that arrived took less than {', '.join(parts)}" if parts else SUBJECT


def chart(values: list[dict], names: list[str]) -> alt.Chart:
    """Return the lines."""
    scale = alt.Scale(domain=names, range=[*monitor_scope.COLORS[: len(names)]])
    legend = alt.Legend(title="environment", orient="bottom", symbolType="stroke", symbolSize=200)
    ends = [min(value["us"] for value in values), max(value["us"] for value in values)]
    return (
        alt.Chart(Rows(values=values))
        .mark_line(strokeWidth=1.5, point=alt.OverlayMarkDef(size=12))
        .encode(
            x=alt.X(
                "us:Q",
                title="latency (µs, logarithmic axis)",
                scale=alt.Scale(type="log", domain=[ends[0], max(ends[1], 1.1 * ends[0])], nice=False),
                axis=alt.Axis(labelExpr=theme.SHORT_NUMBERS, values=monitor_scope.ticks(*ends), domain=False),
            ),
            y=alt.Y(
                "percent:Q",
                title="packets with a smaller latency (%)",
                scale=alt.Scale(domain=[0, 100]),
                axis=alt.Axis(tickCount=5, domain=False),
            ),
            order="place:Q",
            detail="port:N",
            color=alt.Color("environment:N", sort=names, scale=scale, legend=legend),
            tooltip=[
                alt.Tooltip("environment:N"),
                alt.Tooltip("us:Q", title="latency (µs)", format=",.4~g"),
                alt.Tooltip("percent:Q", title="packets below (%)", format=".4~g"),
            ],
        )
        .properties(width=theme.WIDTH - 60, height=HEIGHT)
    )
