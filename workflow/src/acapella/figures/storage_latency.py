"""What writes waited for while the page cache filled (Patchwork, figure 14): buffered beside direct."""

import math

import altair as alt

from .. import storage
from . import theme
from .compose import Figure
from .source import NoData, Source
from .wording import GAP, count, listed, nanoseconds, percent, scaled

SUBJECT = "Latency of writes while the page cache fills"
TABLE = "storage_growth"
COLUMNS = ("written_percent", "latency_upper_ns")
WRITERS = {"buffered": theme.VERMILION, "direct": theme.BLUE}
NAMES = {"buffered": "buffered (writev)", "direct": "direct (io_uring)"}
HEIGHT, MARK = 130, 12  # px of a panel, and of the names of thresholds above it
LEAST_MS = 1.0  # the axis begins there: a shorter sum is not worth a decade


def scope(source: Source) -> tuple[str, ...]:
    """What was measured, and what of the frames was lost."""
    runs = source.rows("storage_runs")
    if not runs:
        return ()
    memory = sorted({row["memory_bytes"] for row in runs})
    lost = [
        f"{writer} {percent(sum(row['lost'] for row in own) / max(1, sum(row['offered'] for row in own)))}"
        for writer in WRITERS
        if (own := [row for row in runs if row["writer"] == writer])
    ]
    return (
        f"{count(len(runs), 'run')}, {count(sum(row['calls'] for row in runs), 'call')}; percentages are of "
        f"{listed([scaled(size, 'B') for size in memory])} of memory. Frames lost: {', '.join(lost)}.",
    )


SCOPE = scope


def draw(source: Source) -> Figure:
    """A panel for each disk and pair of thresholds, a line a writer."""
    runs = source.rows("storage_runs")
    if not runs:
        raise NoData(storage.read(source.campaign)["skipped"] or "the storage study has no runs")
    grown = source.rows(TABLE)
    conditions = list(dict.fromkeys(condition(row) for row in runs))
    points = {row["run"]: [point(row, each) for each in grown if each["run"] == row["run"]] for row in runs}
    every = [each for drawn in points.values() for each in drawn]
    if not every:
        raise NoData("no run of the storage study made a call")
    extent = {
        "x": max(each["x"] for each in every),
        "low": max(LEAST_MS, min(each["ms"] for each in every)),
        "high": max(LEAST_MS, *(each["ms"] for each in every)),
    }
    panels = []
    for place, one in enumerate(conditions, 1):
        values = [each for row in runs if condition(row) == one for each in points[row["run"]]]
        panels.append(panel(values, one, extent, last=place == len(conditions)))
    chart = alt.vconcat(*panels, spacing=8).resolve_scale(x="shared", y="shared", color="shared")
    key = (
        "Sum of the latencies of all calls so far, each taken as the upper end of its power of two, as in Patchwork's "
        "figure 14. writev holds the capture up while it lasts; a write given to io_uring does not.",
        "Lines across: background threshold, midpoint (from where on the kernel slows writers), upper threshold.",
    )
    return Figure(title(runs), chart, key)


def condition(row: dict) -> tuple:
    """What the runs of a panel share."""
    return (row["disk_mbps"] or 0, row["background_percent"], row["limit_percent"])


def words_of(one: tuple) -> str:
    """A condition in words."""
    mbps, background, limit = one
    return f"Thresholds {background}:{limit}, {f'disk slowed to {mbps}{GAP}MB/s' if mbps else 'the disk as it is'}"


def point(row: dict, each: dict) -> dict:
    """An interval in the drawing."""
    return {
        "x": each["written_percent"],
        "ms": max(LEAST_MS, each["latency_upper_ns"] / 1e6),
        "t": each["t_ns"],
        "writer": NAMES[row["writer"]],
        "calls": each["calls"],
        "dirty": each["dirty_percent"],
    }


def title(runs: list[dict]) -> str:
    """The longest sum of writev's latencies, and the same run's share of time."""
    buffered = [row for row in runs if row["writer"] == "buffered" and row["calls"]]
    if not buffered:
        return "No write through the page cache was measured"
    worst = max(buffered, key=lambda row: row["latency_ns"])
    waited = nanoseconds(worst["latency_ns"])
    share = percent(min(1.0, worst["latency_ns"] / worst["offered_ns"])) if worst["offered_ns"] else "an unknown part"
    where = words_of(condition(worst))
    return f"writev held the capture up for {waited}, {share} of its time ({where[0].lower()}{where[1:]})"


def powers(most: float) -> list[float]:
    """Powers of ten from the axis's begin to its end."""
    return [10.0**power for power in range(math.floor(math.log10(LEAST_MS)), math.floor(math.log10(most)) + 1)]


def panel(values: list[dict], one: tuple, extent: dict, last: bool) -> alt.LayerChart:
    """Lines over thresholds."""
    x = alt.X(
        "x:Q",
        title="written so far (% of memory)" if last else None,
        scale=alt.Scale(domain=[0, extent["x"]], nice=False),
        axis=alt.Axis(labels=last, ticks=last, domain=False, tickCount=8),
    )
    y = alt.Y(
        "ms:Q",
        title="summed latency (ms)",
        scale=alt.Scale(type="log", domain=[extent["low"], extent["high"]]),
        axis=alt.Axis(values=powers(extent["high"]), domain=False, minExtent=46, format="~g"),
    )
    colour = alt.Color(
        "writer:N",
        scale=alt.Scale(domain=list(NAMES.values()), range=list(WRITERS.values())),
        legend=alt.Legend(title=None, orient="right", symbolType="stroke", symbolSize=200),
    )
    lines = (
        alt.Chart(alt.Data(values=values))
        .mark_line(strokeWidth=1.8, interpolate="step-after", clip=True)
        .encode(
            x=x,
            y=y,
            color=colour,
            order="t:Q",
            tooltip=[
                alt.Tooltip("writer:N"),
                alt.Tooltip("x:Q", title="written (% of memory)", format=".3~g"),
                alt.Tooltip("ms:Q", title="summed latency (ms)", format=",.4~g"),
                alt.Tooltip("calls:Q", format=","),
                alt.Tooltip("dirty:Q", title="dirty (% of memory)", format=".3~g"),
            ],
        )
    )
    _, background, limit = one
    marks = [
        {"at": at, "name": name}
        for at, name in ((background, "background"), ((background + limit) / 2, "midpoint"), (limit, "limit"))
        if at <= extent["x"]
    ]
    rules = alt.Chart(alt.Data(values=marks)).mark_rule(color=theme.FAINT, strokeDash=[3, 3]).encode(x="at:Q")
    return (
        (rules + lines)
        .properties(width=theme.WIDTH - 190, height=HEIGHT)
        .properties(title=alt.TitleParams(words_of(one), fontSize=theme.TEXT, offset=4, frame="group", color=theme.INK))
    )
