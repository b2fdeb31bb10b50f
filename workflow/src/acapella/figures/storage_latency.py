"""Figure storage_latency of the report, described by ABOUT."""

import math

import altair as alt

from acapella.campaign import storage
from acapella.common.wording import GAP, count, listed, nanoseconds, percent, scaled

from . import theme
from .compose import Figure
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Latency of writes while the page cache fills"
ABOUT = "Latency of writes while the page cache fills, and dirty memory (Patchwork, figure 14)."
TABLE = "storage_growth"
COLUMNS = ("written_percent", "dirty_percent", "latency_upper_ns", "long_upper_ns")
WRITERS = {"buffered": theme.VERMILION, "direct": theme.BLUE}
NAMES = {"buffered": "writev", "direct": "io_uring"}
DIRTY_LINES = {"buffered": "dirty memory, writev", "direct": "dirty memory, io_uring"}
LINES = {  # legend of all three columns
    DIRTY_LINES["buffered"]: theme.INK,
    DIRTY_LINES["direct"]: theme.SKY,
    "writev, long calls": theme.VERMILION,
    "writev, average case": theme.ORANGE,
    "io_uring, all calls": theme.BLUE,
}
HEIGHT = 118  # px: height of a panel
SPACING = 62  # px: space for an axis between two panels of a row
AXIS_MIN_MS = 1.0  # lower end of the axis; smaller sums are drawn there
AXIS_LABEL = f"datum.value <= {AXIS_MIN_MS} ? '\u2264{AXIS_MIN_MS:g}' : ({theme.SHORT_NUMBERS})"
EXACT_NOTE = (
    "in the title, the time for which writev blocked the capture and the share of calls are exact; the share of the "
    "summed latency is computed from upper bounds"
)
THRESHOLDS = ("background", "midpoint", "limit")


def scope(source: Source) -> tuple[str, ...]:
    """Return the numbers of runs and calls, and the size of the memory, as text."""
    runs = source.rows("storage_runs")
    if not runs:
        return ()
    memory = sorted({row["memory_bytes"] for row in runs})
    return (
        f"{count(len(runs), 'run')}, {count(sum(row['calls'] for row in runs), 'call')}; percentages are of "
        f"{listed([scaled(size, 'B') for size in memory])} of memory.",
    )


def lost_frames_text(runs: list[dict]) -> str:
    """Return the share of offered frames that each writer lost: ``frames lost: writev 35.0 %, io_uring 45.1 %``."""
    parts = []
    for writer, name in NAMES.items():
        writer_runs = [row for row in runs if row["writer"] == writer]
        if offered := sum(row["offered"] for row in writer_runs):
            parts.append(f"{name} {percent(sum(row['lost'] for row in writer_runs) / offered)}")
    return f"frames lost: {', '.join(parts)}" if parts else "no frames offered"


SCOPE = scope


def draw(source: Source) -> Figure:
    """Draw a row for each disk and pair of thresholds: dirty memory, latency of writev, and of writes by io_uring."""
    runs = source.rows("storage_runs")
    if not runs:
        raise NoData(storage.read(source.campaign)["skipped"] or "the storage study has no runs")
    growth = source.rows(TABLE)
    points = {
        row["run"]: [point(row, interval) for interval in growth if interval["run"] == row["run"]] for row in runs
    }
    intervals = [interval for run_intervals in points.values() for interval in run_intervals]
    if not intervals:
        raise NoData("no run of the storage study made a call")
    conditions = list(dict.fromkeys(condition(row) for row in runs))
    memory = {row["memory_bytes"] for row in runs}
    frame = {
        "x": max(interval["x"] for interval in intervals),
        "dirty": 1.05 * max(*(limit for _, _, limit in conditions), *(interval["dirty"] for interval in intervals)),
        "memory": memory.pop() if len(memory) == 1 else None,
        "width": (theme.WIDTH - 70 - 2 * SPACING) // 3,
    }
    rows = []
    for number, condition_ in enumerate(conditions, 1):
        points_by_writer = {row["writer"]: points[row["run"]] for row in runs if condition(row) == condition_}
        lost = lost_frames_text([row for row in runs if condition(row) == condition_])
        panels = panel_row(points_by_writer, condition_, intervals, frame, last=number == len(conditions))
        rows.append(panels.properties(title=row_title(f"{condition_text(condition_)}; {lost}")))
    chart = alt.vconcat(*rows, spacing=10).resolve_scale(color="shared")
    return Figure(title(runs), chart, notes_of(runs))


def notes_of(runs: list[dict]) -> tuple[str, ...]:
    """Return notes on how to read the panels."""
    ends = sorted({row["long_from_ns"] for row in runs if row["writer"] == "buffered" and row["calls"]})
    parts = []
    if ends:
        low, high = (nanoseconds(end) for end in (ends[0], ends[-1]))
        share = f"at most {percent(1 - storage.AVERAGE_SHARE)} of a run's calls"
        parts = [
            f"Long calls: {low if low == high else f'{low} to {high}'} or more, {share}; "
            "all others are the average case"
        ]
    return (
        "Curves are sums of upper bounds since the first call: each latency counts as the upper end of its bin, a "
        f"power of two, as in Patchwork's figure 14; sums below {AXIS_MIN_MS:g} ms are at the lower end. "
        f"{'; '.join([*parts, EXACT_NOTE])}.",
        "writev and io_uring are not comparable: writev (buffered, through the page cache) blocks the capture until it "
        "returns; writes submitted to io_uring (direct, O_DIRECT) overlap each other and the capture.",
        "Dashed, from the lowest: background threshold, midpoint (above it the kernel slows writers down), limit; for "
        "writev, the points at which its dirty memory first reached them.",
    )


def panel_row(
    points_by_writer: dict[str, list[dict]], condition_: tuple, intervals: list[dict], frame: dict, *, last: bool
) -> alt.HConcatChart:
    """Return the panels of one condition: dirty memory, and latencies of each writer that made calls."""
    buffered, direct = points_by_writer.get("buffered", []), points_by_writer.get("direct", [])
    marks = thresholds(condition_)
    split = [
        {**interval, "line": line, "ms": interval[column]}
        for line, column in (("writev, long calls", "long_ms"), ("writev, average case", "average_ms"))
        for interval in buffered
    ]
    all_calls = [{**interval, "line": "io_uring, all calls", "ms": interval["all_ms"]} for interval in direct]
    reached = [
        {"x": interval["x"], "name": mark["name"]}
        for mark in marks
        if (interval := next((interval for interval in buffered if interval["dirty"] >= mark["at"]), None))
    ]
    panels = [dirty_panel(buffered + direct, marks, frame, last=last)]
    if split:
        panels.append(
            latency_panel(split, frame, largest_sum_ms(intervals, "buffered"), "writev", last=last) + crossings(reached)
        )
    if all_calls:
        panels.append(latency_panel(all_calls, frame, largest_sum_ms(intervals, "direct"), "io_uring", last=last))
    return alt.hconcat(*panels, spacing=SPACING, bounds="flush")


def row_title(text: str) -> alt.TitleParams:
    """Return the heading of a row of panels."""
    return alt.TitleParams(text, fontSize=theme.TEXT, offset=4, anchor="start", color=theme.INK)


def thresholds(condition_: tuple) -> list[dict]:
    """Return the three thresholds of a condition, in percent of memory."""
    _, background, limit = condition_
    return [
        {"at": percent_, "name": name}
        for percent_, name in zip((background, (background + limit) / 2, limit), THRESHOLDS, strict=True)
    ]


def largest_sum_ms(intervals: list[dict], writer: str) -> float:
    """Return the largest sum of latencies of a writer, in ms."""
    return max([AXIS_MIN_MS, *(interval["all_ms"] for interval in intervals if interval["kind"] == writer)])


def condition(row: dict) -> tuple:
    """Return the condition of a run: disk speed and thresholds. Runs with the same condition share a row of panels."""
    return (row["disk_mbps"] or 0, row["background_percent"], row["limit_percent"])


def condition_text(condition_: tuple) -> str:
    """Return a condition as text."""
    mbps, background, limit = condition_
    return f"Thresholds {background}:{limit}, {f'disk slowed to {mbps}{GAP}MB/s' if mbps else 'the disk as it is'}"


def point(row: dict, interval: dict) -> dict:
    """Return the values of an interval for the chart."""
    average = interval["latency_upper_ns"] - interval["long_upper_ns"]
    return {
        "x": interval["written_percent"],
        "all_ms": max(AXIS_MIN_MS, interval["latency_upper_ns"] / 1e6),
        "long_ms": max(AXIS_MIN_MS, interval["long_upper_ns"] / 1e6),
        "average_ms": max(AXIS_MIN_MS, average / 1e6),
        "t": interval["t_ns"],
        "kind": row["writer"],
        "writer": NAMES[row["writer"]],
        "calls": interval["calls"],
        "long_calls": interval["long_calls"],
        "dirty": interval["dirty_percent"],
    }


def title(runs: list[dict]) -> str:
    """Return the title: the largest sum of writev latencies, its ratio to the offering time, and long calls."""
    buffered = [row for row in runs if row["writer"] == "buffered" and row["calls"]]
    if not buffered:
        return "No write through the page cache was measured"
    worst = max(buffered, key=lambda row: row["latency_ns"])
    waited = nanoseconds(worst["latency_ns"])
    share = percent(worst["latency_ns"] / worst["offered_ns"]) if worst["offered_ns"] else "an unknown part"
    share += " of the time in which frames were offered"
    share_of_latency = worst["long_upper_ns"] / worst["latency_upper_ns"] if worst["latency_upper_ns"] else 0
    long_calls = "none of its calls is long"
    if worst["long_calls"]:
        share_of_calls = percent(worst["long_calls"] / worst["calls"])
        long_calls = f"{share_of_calls} of its calls have {percent(share_of_latency)} of the summed latency"
    condition_ = condition_text(condition(worst))
    condition_ = f"{condition_[0].lower()}{condition_[1:]}"
    if len(buffered) > 1:
        condition_ += f"; the longest of {count(len(buffered), 'run')}"
    return f"writev blocked the capture for {waited}, {share} ({condition_}); {long_calls}"


def powers_of_ten(maximum: float) -> list[float]:
    """Return the powers of ten from the lower end of the axis to ``maximum``."""
    return [10.0**power for power in range(math.floor(math.log10(AXIS_MIN_MS)), math.floor(math.log10(maximum)) + 1)]


def written_axis(frame: dict, *, last: bool) -> alt.X:
    """Return the axis of written bytes. Its title has the size of the memory if all runs have the same."""
    memory = scaled(frame["memory"], "B") if frame["memory"] else "memory"
    return alt.X(
        "x:Q",
        title=f"written so far (% of {memory})" if last else None,
        scale=alt.Scale(domain=[0, frame["x"]], nice=False),
        axis=alt.Axis(labels=last, ticks=last, domain=False, tickCount=5),
    )


def crossings(marks: list[dict]) -> alt.Chart:
    """Return vertical lines at the points where thresholds were crossed."""
    return alt.Chart(Rows(values=marks)).mark_rule(color=theme.GRAY, strokeDash=[3, 3]).encode(x="x:Q")


def dirty_panel(values: list[dict], marks: list[dict], frame: dict, *, last: bool) -> alt.LayerChart:
    """Return the panel of dirty memory of both runs, with the thresholds."""
    y = alt.Y(
        "dirty:Q",
        title="dirty memory (%)",
        scale=alt.Scale(domain=[0, frame["dirty"]], nice=False),
        axis=alt.Axis(tickCount=5, domain=False, minExtent=30),
    )
    color = alt.Color("line:N", scale=alt.Scale(domain=list(LINES), range=list(LINES.values())), legend=LEGEND)
    points = [{**value, "line": DIRTY_LINES[value["kind"]]} for value in values]
    lines = (
        alt.Chart(Rows(values=points))
        .mark_line(strokeWidth=1.4, clip=True)
        .encode(x=written_axis(frame, last=last), y=y, color=color, order="t:Q", tooltip=tooltip())
    )
    base = alt.Chart(Rows(values=marks))
    rules = base.mark_rule(color=theme.GRAY, strokeDash=[3, 3]).encode(y="at:Q")
    return (rules + lines).properties(width=frame["width"], height=HEIGHT)


def latency_panel(values: list[dict], frame: dict, maximum: float, name: str, *, last: bool) -> alt.LayerChart:
    """Return the panel of summed latencies over the amount written."""
    y = alt.Y(
        "ms:Q",
        title=f"{name}: summed latency (ms)",
        scale=alt.Scale(type="log", domain=[AXIS_MIN_MS, max(10 * AXIS_MIN_MS, 1.2 * maximum)]),
        axis=alt.Axis(values=powers_of_ten(maximum), domain=False, minExtent=34, labelExpr=AXIS_LABEL),
    )
    color = alt.Color("line:N", scale=alt.Scale(domain=list(LINES), range=list(LINES.values())), legend=LEGEND)
    lines = (
        alt.Chart(Rows(values=values))
        .mark_line(strokeWidth=1.6, interpolate="step-after", clip=True)
        .encode(x=written_axis(frame, last=last), y=y, color=color, order="t:Q", tooltip=tooltip())
    )
    return alt.layer(lines).properties(width=frame["width"], height=HEIGHT)


LEGEND = alt.Legend(title=None, orient="bottom", symbolType="stroke", symbolSize=200, columns=3, labelLimit=220)


def tooltip() -> list[alt.Tooltip]:
    """Return the tooltip."""
    return [
        alt.Tooltip("writer:N"),
        alt.Tooltip("x:Q", title="written (% of memory)", format=".3~g"),
        alt.Tooltip("dirty:Q", title="dirty (% of memory)", format=".3~g"),
        alt.Tooltip("long_ms:Q", title="summed latency of long calls (ms)", format=",.4~g"),
        alt.Tooltip("all_ms:Q", title="summed latency of all calls (ms)", format=",.4~g"),
        *(alt.Tooltip("calls:Q", format=","), alt.Tooltip("long_calls:Q", title="long calls", format=",")),
    ]
