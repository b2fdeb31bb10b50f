"""Figure flow_times of the report, described by ABOUT."""

import altair as alt

from acapella.common.wording import count, nanoseconds, percent, scaled

from .compose import Figure
from .quality import time_range, without_times
from .source import ALL, NoData, Source
from .survival import (
    INTERPOLATION_NOTE,
    Tick,
    ValueAxis,
    chart,
    distribution_lines,
    median_interval,
    median_text,
    power_ticks,
)

SUBJECT = "Flow durations and rates"
ABOUT = "Complementary distributions of flow durations and rates, stitched across samples."
TABLE = "flow_times"
COLUMNS = ("scope", "site", "measure", "value", "ccdf")
MIN_NS, HOUR_NS, DAY_NS = 60 * 10**9, 3600 * 10**9, 86_400 * 10**9
DURATION_TICKS = (
    *(tick for tick in power_ticks(("ns", "µs", "ms", "s")) if tick.value < MIN_NS),
    *(Tick(MIN_NS, "1 min", 0), Tick(10 * MIN_NS, "10 min", 1)),
    *(Tick(HOUR_NS, "1 h", 0), Tick(10 * HOUR_NS, "10 h", 2)),
    *(Tick(10**power * DAY_NS, f"{10**power:,} d", power % 2) for power in range(6)),
)
PANELS = {
    "duration_ns": ValueAxis("value", "flow duration (first to last frame)", DURATION_TICKS, "at least, ns"),
    "rate_bps": ValueAxis(
        "value", "flow rate (bit/s, mean on the wire)", power_ticks(("", "k", "M", "G", "T")), "at least, bit/s"
    ),
}
HEIGHT = 190  # px: height of a panel


def draw(source: Source) -> Figure:
    """Draw two log-log panels, durations and rates, with lines as in flow_sizes."""
    table = source.required_rows(TABLE)
    rows = [row for row in table if row["flows_ge"]]
    panels, campaign_lines = [], {}
    for measure, axis in PANELS.items():
        values, order = distribution_lines([row for row in rows if row["measure"] == measure], axis.column)
        campaign_line = [row for row in values if row["line"] == order[0]]
        if campaign_line:
            campaign_lines[measure] = campaign_line
            panels.append(chart(values, order, axis, y_title="share of flows of at least that value", height=HEIGHT))
    if not panels:
        raise NoData("no flow has more than one frame, so none has a duration or rate")
    key = (
        *zero_durations(table),
        "Duration: from the first to the last frame of a flow, including time between samples. It is too short if the "
        "flow started before or continued after its samples, and too long if several flows had the same addresses and "
        "ports at different times. Rate: bytes on the wire without FCS, divided by the observed time without gaps. "
        f"{INTERPOLATION_NOTE}",
        *(f"{note[0].upper()}{note[1:]}." for note in without_times(source)),
        *without_duration(source, table),
    )
    drawing = alt.vconcat(*panels, spacing=16).resolve_scale(color="shared", strokeDash="shared", strokeWidth="shared")
    return Figure(title(campaign_lines), drawing, key)


def zero_durations(table: list[dict]) -> tuple[str, ...]:
    """Return a note on flows with a duration of 0. They are below every threshold and have no rate."""
    lowest = [
        row
        for row in table
        if (row["scope"], row["site"], row["measure"], row["value"]) == ("campaign", ALL, "duration_ns", 1)
    ]
    if not lowest or not lowest[0]["flows"]:
        return ()
    flows, zero = lowest[0]["flows"], lowest[0]["flows"] - lowest[0]["flows_ge"]
    return (
        f"Duration 0 and no rate (one frame, or all frames with the same timestamp): {zero:,} of "
        f"{count(flows, 'directed flow')} ({percent(zero / flows)}).",
    )


def without_duration(source: Source, table: list[dict]) -> tuple[str, ...]:
    """Return a note on the flows without a duration if some samples are misdated; () if all or none are."""
    samples = sum(bool(row["misdated"]) for row in source.traffic)
    if not samples or not time_range(source.traffic):
        return ()

    def flows(rows: list[dict], measure: str) -> int:
        campaign_rows = (
            row for row in rows if (row["scope"], row["site"], row["measure"]) == ("campaign", ALL, measure)
        )
        return next((row["flows"] for row in campaign_rows), 0)

    number = flows(source.rows("flow_sizes"), "wire") - flows(table, "duration_ns")
    misdated_samples = count(samples, "misdated sample")
    return (f"Omitted: {count(number, 'directed flow')} without timestamps or seen only in {misdated_samples}.",)


def title(campaign_lines: dict[str, list[dict]]) -> str:
    """Return the title: the medians of durations and rates, as thresholds (ten per decade)."""
    first = next(iter(campaign_lines.values()))[0]
    flows = first["flows"]
    medians = {measure: median_interval(line, "value") for measure, line in campaign_lines.items()}
    parts = []
    duration, rate = medians.get("duration_ns"), medians.get("rate_bps")
    if duration and duration[1] == 1:  # the lowest threshold: the frames of flows below it all have the same timestamp
        parts.append(f"{flows - first['flows_ge']:,} of {count(flows, 'directed flow')} have a duration of 0")
    elif duration:
        parts.append(f"median duration of {count(flows, 'directed flow')} {median_text(duration, nanoseconds)}")
    if rate:
        rates = count(campaign_lines["rate_bps"][0]["flows"], "rate")
        parts.append(f"median of {rates} {median_text(rate, lambda value: scaled(value, 'bit/s'))}")
    text = "; ".join(parts) or f"durations and rates of {count(flows, 'directed flow')}"
    return text[0].upper() + text[1:]
