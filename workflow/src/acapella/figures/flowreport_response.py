"""Figure flowreport_response of the report, described by ABOUT."""

import math
from itertools import pairwise

import altair as alt

from acapella.common.wording import GAP, count, digits, listed, nanoseconds, scaled, span

from . import theme
from .compose import Figure
from .flowreport_scope import reports_text
from .rows import Rows
from .source import NoData, Source

SUBJECT = "Response to rate changes"
ABOUT = "Response of reports to rate changes of a flow (P4/RDMA, figure 6)."
TABLE = "flowreport_response"
COLUMNS = ("flow", "t_ns", "set_bps", "bps", "bps_measured", "iat_ns", "iat_measured_ns", "gap_measured_ns")
COLORS = (theme.BLUE, theme.ORANGE)
BACKGROUND = "background"
WIDTH, THROUGHPUT_HEIGHT, INTER_ARRIVAL_HEIGHT = theme.WIDTH - 180, 200, 150


def scope(source: Source) -> tuple[str, ...]:
    """Return the numbers of windows, frames and reports as text."""
    rows = source.rows(TABLE)
    if not rows:
        return ()
    windows = sorted({row["t_ns"] for row in rows})
    length = min((b - a for a, b in pairwise(windows)), default=0)
    counters = counters_of(source)
    windows_and_frames = (
        f"{count(len(windows), 'window')} of {nanoseconds(length)}, {count(counters['frames_in'], 'frame')}"
    )
    return (f"{windows_and_frames}, {reports_text(counters['reports_sent'], counters['reports_accepted'])}",)


SCOPE = scope


def draw(source: Source) -> Figure:
    """Draw throughput above inter-arrival times."""
    rows = source.rows(TABLE)
    if not rows:
        raise NoData("nothing was measured (acapella measure response)")
    flows = [name for name in dict.fromkeys(row["flow"] for row in rows) if name != BACKGROUND]
    values = [point(row) for row in rows]
    flow_values = [value for value in values if value["flow"] != BACKGROUND]
    background = [value for value in values if value["flow"] == BACKGROUND]
    top = throughput_panel(flow_values, background, flows).properties(width=WIDTH, height=THROUGHPUT_HEIGHT)
    chart = alt.vconcat(
        top, inter_arrival_panel(flow_values, flows).properties(width=WIDTH, height=INTER_ARRIVAL_HEIGHT), spacing=10
    )
    key = (
        "Lines and area: from reports; pale dots: exact, drawn at window starts; dashed: the rate that was set. "
        f"{background_note(rows, counters_of(source))} Bottom: the line is the mean gap since the previous report; a "
        "cross is the mean over the reports of a window of the time between the last two packets before each report "
        "(the paper's metric), which differs from the mean gap if packets are sent in bursts.",
    )
    return Figure(title(rows, flows), alt.hconcat(chart.resolve_scale(x="shared", color="shared")), key)


def counters_of(source: Source) -> dict[str, int]:
    """Return the counters and settings of the run."""
    return {row["counter"]: row["value"] for row in source.rows("flowreport_response_counts")}


def background_note(rows: list[dict], counters: dict[str, int]) -> str:
    """Return a note on the background traffic and its exact mean rate while rates were set."""
    set_at = {row["t_ns"] for row in rows if row["set_bps"] is not None}
    rates = [row["bps"] for row in rows if row["flow"] == BACKGROUND and row["t_ns"] in set_at]
    parts = [f"{rate_range(rates)} in single windows (exact)"] if rates else []
    if "background_stream_bps" in counters:
        tcp, udp = (count(counters[f"background_{kind}_streams"], f"{kind.upper()} stream") for kind in ("tcp", "udp"))
        rate, limit = (scaled(counters[f"background_{name}_bps"], "bit/s") for name in ("stream", "limit"))
        parts.insert(0, f"{tcp} and {udp} of iperf3, {rate} of payload each, through one queue limited to {limit}")
    return f"Background (all other packets, with the ACKs of both flows): {', '.join(parts) or 'none'}."


def rate_range(rates: list[float]) -> str:
    """Return mean and range of rates: ``mean 22 Mbit/s, 5.1 Mbit/s to 41.9 Mbit/s``."""
    mean, *ends = (scaled(rate, "bit/s") for rate in (sum(rates) / len(rates), min(rates), max(rates)))
    return f"mean {mean}, {span(*ends)}"


def point(row: dict) -> dict:
    """Return the values of a window in the units of the chart."""
    return {
        "flow": row["flow"],
        "t": row["t_ns"] / 1e9,
        "set": None if row["set_bps"] is None else row["set_bps"] / 1e6,
        "exact": row["bps"] / 1e6,
        "measured": row["bps_measured"] / 1e6,
        "iat": None if not row["iat_ns"] else row["iat_ns"] / 1e3,
        "gap_measured": None if not row["gap_measured_ns"] else row["gap_measured_ns"] / 1e3,
        "iat_measured": None if not row["iat_measured_ns"] else row["iat_measured_ns"] / 1e3,
    }


def title(rows: list[dict], flows: list[str]) -> str:
    """Return the title: the median and the largest relative error of throughput per window."""
    pairs = [(row["bps"], row["bps_measured"]) for row in rows if row["flow"] in flows and row["bps"]]
    errors = sorted(abs(measured - exact) / exact for exact, measured in pairs)
    if not errors:
        return "No window has traffic of the flows"
    median = errors[(len(errors) - 1) // 2]
    if not errors[-1]:
        return f"Throughput of {listed(flows)} according to reports: exact in all {count(len(errors), 'window')}"
    errors_text = f"median {digits(100 * median)}{GAP}%, largest {digits(100 * errors[-1])}{GAP}%"
    return f"Throughput of {listed(flows)} according to reports: error per window: {errors_text}"


def time_axis(*, last: bool) -> alt.X:
    """Return the time axis of both panels; only the last panel has labels."""
    axis = alt.Axis(labels=last, ticks=last, grid=True, tickCount=10)
    return alt.X(
        "t:Q", title="time since the first frame (s)" if last else None, axis=axis, scale=alt.Scale(nice=False)
    )


def color(flows: list[str]) -> alt.Color:
    """Return the colors of the flows and of the background."""
    return alt.Color(
        "flow:N",
        scale=alt.Scale(domain=[*flows, BACKGROUND], range=[*COLORS[: len(flows)], theme.GREEN]),
        legend=alt.Legend(
            title=None, orient="right", symbolType="stroke", symbolSize=200, symbolOpacity=1, labelLimit=130
        ),
    )


def throughput_panel(flow_values: list[dict], background: list[dict], flows: list[str]) -> alt.LayerChart:
    """Return the panel of set, exact and measured throughput."""
    y = {"title": "throughput (Mbit/s)", "axis": alt.Axis(domain=False, minExtent=46)}
    lines = alt.Chart(Rows(values=flow_values)).encode(x=time_axis(last=False), color=color(flows), detail="flow:N")
    area = alt.Chart(Rows(values=background)).mark_area(opacity=0.25, color=theme.GREEN, interpolate="step-after")
    with_set_rate = alt.Chart(Rows(values=[value for value in flow_values if value["set"] is not None]))
    exact_background = alt.Chart(Rows(values=background)).mark_circle(size=14, opacity=0.4)
    return alt.layer(
        area.encode(x=time_axis(last=False), y=alt.Y("measured:Q", **y)),
        exact_background.encode(x=time_axis(last=False), y=alt.Y("exact:Q", **y), color=color(flows)),
        with_set_rate.mark_line(strokeDash=[4, 3], strokeWidth=1, interpolate="step-after").encode(
            x=time_axis(last=False), y=alt.Y("set:Q", **y), color=color(flows), detail="flow:N"
        ),
        lines.mark_circle(size=14, opacity=0.4).encode(y=alt.Y("exact:Q", **y)),
        lines.mark_line(strokeWidth=1.6, interpolate="step-after").encode(
            y=alt.Y("measured:Q", **y),
            tooltip=[
                "flow:N",
                alt.Tooltip("t:Q", title="time (s)", format=".3~f"),
                alt.Tooltip("measured:Q", title="from reports (Mbit/s)", format=".4~g"),
                alt.Tooltip("exact:Q", title="exact (Mbit/s)", format=".4~g"),
                alt.Tooltip("set:Q", title="set (Mbit/s)", format=".4~g"),
            ],
        ),
    )


def powers_of_ten(low: float, high: float) -> list[float]:
    """Return the powers of ten between two ends of an axis."""
    return [10.0**power for power in range(round(math.log10(low)), round(math.log10(high)) + 1)]


def inter_arrival_panel(flow_values: list[dict], flows: list[str]) -> alt.LayerChart:
    """Return the panel of inter-arrival times, on a logarithmic axis."""
    values = [value[name] for value in flow_values for name in ("iat", "iat_measured", "gap_measured") if value[name]]
    low, high = (math.log10(end) for end in (min(values, default=1), max(values, default=10)))
    ends = [10 ** math.floor(low), 10 ** math.ceil(high + 1e-9)]
    y = {
        "title": "inter-arrival time (µs)",
        "scale": alt.Scale(type="log", domain=ends, nice=False),
        "axis": alt.Axis(domain=False, minExtent=46, format=",~r", values=powers_of_ten(*ends)),
    }
    exact = alt.Chart(Rows(values=[value for value in flow_values if value["iat"]])).mark_circle(size=14, opacity=0.4)
    crosses = alt.Chart(Rows(values=[value for value in flow_values if value["iat_measured"]]))
    lines = alt.Chart(Rows(values=[value for value in flow_values if value["gap_measured"]]))
    return alt.layer(
        exact.encode(x=time_axis(last=True), y=alt.Y("iat:Q", **y), color=color(flows)),
        crosses.mark_point(shape="cross", size=12, strokeWidth=0.7, opacity=0.6).encode(
            x=time_axis(last=True), y=alt.Y("iat_measured:Q", **y), color=color(flows)
        ),
        lines.mark_line(strokeWidth=1.4).encode(
            x=time_axis(last=True), y=alt.Y("gap_measured:Q", **y), color=color(flows), detail="flow:N"
        ),
    )
