"""Figure flowreport_accuracy of the report, described by ABOUT."""

import math

import altair as alt

from acapella.common.agreement import (
    INTERVAL,
    KINDS,
    STATEMENT,
    TOO_FEW,
    differs,
    disagreement,
    faults,
    own_rows,
    severity,
)
from acapella.common.wording import GAP, count, percent

from . import theme
from .compose import Figure
from .flowreport_scope import scope
from .rows import Rows
from .source import ALL, NoData, Source

SUBJECT = "Accuracy of flow reports"
ABOUT = "Values of flow reports compared with those of the digest, flow by flow (P4/RDMA, figure 5)."
TABLE = "flowreport_flows"
COLUMNS = (
    "bytes",
    "bytes_measured",
    "packets",
    "packets_measured",
    "rtt_syn_ns",
    "rtt_syn_measured_ns",
    "iat_at_report_ns",
)
SCOPE = scope
PANEL, HEIGHT, PANELS_PER_ROW = 196, 150, 3  # px: size of a panel; panels per row
MAX_TICKS = 5
GRID_CELLS = 90  # grid of 90 x 90 cells per panel: points in the same cell are drawn once
MEASURES = {  # measure: heading, axis title, columns of flowreport_flows or None, factor to the unit of the axis
    "rtt_syn": ("Handshake: SYN to SYN-ACK", "ms", ("rtt_syn_ns", "rtt_syn_measured_ns"), 1e-6),
    "rtt_ack": ("Handshake: SYN-ACK to ACK", "ms", ("rtt_ack_ns", "rtt_ack_measured_ns"), 1e-6),
    "start": ("Start time", "s", ("start_ns", "start_measured_ns"), 1e-9),
    "end": ("End time", "s", ("end_ns", "end_measured_ns"), 1e-9),
    "duration": ("Duration", "s", None, 1e-9),
    "bytes": ("Flow size", "B of IP", ("bytes", "bytes_measured"), 1),
    "packets": ("Packets", "packets", ("packets", "packets_measured"), 1),
    "packet_size": ("Packet size between reports", "B of IP", None, 1),
    "bytes_in_flight": ("Bytes in flight at reports", "B", None, 1),
    "acknowledged_bytes": ("Acknowledged bytes at reports", "B", None, 1),
    "loss": ("Packet loss rate", "%", None, 100),
    "retransmitted": ("Retransmitted payload", "%", None, 100),
    "iat": ("Last inter-arrival time", "ms", ("iat_at_report_ns", "iat_measured_ns"), 1e-6),
    "iat_reports": ("Inter-arrival time at reports", "ms", None, 1e-6),
    "throughput_reports": ("Throughput between reports", "Mbit/s", None, 1e-6),
    "throughput": ("Throughput in windows", "Mbit/s", None, 1e-6),
    "throughput_known": ("Windows without reason code", "Mbit/s", None, 1e-6),
}
BINS_PER_DECADE = 20  # resolution of table flowreport_by_report


def draw(source: Source) -> Figure:
    """Draw one scatter plot per measure with logarithmic axes; on the diagonal, measured and exact values are equal."""
    rows = {row["measure"]: row for row in own_rows(source.rows("flowreport_accuracy")) if row["sample"] == ALL}
    points_by_measure = {measure: points(source, measure) for measure in MEASURES if measure in rows}
    measures = sorted(
        (measure for measure in points_by_measure if points_by_measure[measure]),
        key=lambda measure: severity(rows[measure]),
    )
    if not measures:
        raise NoData("no flow has a value on both sides that is above 0")
    panels = [panel(points_by_measure[measure], measure, rows[measure]) for measure in measures]
    hidden = sum(rows[measure]["n"] - rows[measure]["n_log"] for measure in measures)
    outside_note = (
        " Outside: flows that the program does not see." if any(rows[name]["outside"] for name in measures) else ""
    )
    key = (
        f"Measures that differ come first, the worst first. Each point is {point_description(hidden)}; on the "
        "diagonal, measured and exact values are equal. R² is computed from the values and from their logarithms, "
        "without missing values (those that the digest has but no report has). Times are relative to the first packet. "
        "In windows, the last two packets of each report count at their own times, and the others are spread evenly "
        "over the time since the previous report. Values at reports are drawn within 6 % of their position. Packet "
        "loss and retransmitted payload: a point is the lower bound, and a vertical line reaches to the upper bound; "
        "if the line crosses the diagonal, the interval contains the exact value."
        f"{outside_note}",
        STATEMENT,
    )
    return Figure(title(rows), alt.concat(*panels, columns=PANELS_PER_ROW, spacing=16), key)


def point_description(hidden: int) -> str:
    """Return the description of a point."""
    zero = f" ({count(hidden, 'pair')} with a 0 not drawn)" if hidden else ""
    return f"a flow, a report, or a window of a flow{zero}, darker if there are many"


def points(source: Source, measure: str) -> list[dict]:
    """Return the points of a panel with their number of pairs. Pairs are drawn in the middle of their grid cell.

    ``top`` and ``y`` are the ends of a measured interval; they are equal for values without an interval.
    """
    _, _, columns, factor = MEASURES[measure]
    if columns is None:
        pairs = PAIRS_BY_MEASURE.get(measure, report_pairs)(source, measure)
    elif measure in ("start", "end"):
        pairs = time_pairs(source, columns)
    else:
        pairs = flow_pairs(source, columns)
    pairs = [
        ([exact * factor, measured * factor, (measured + (width[0] if width else 0)) * factor], number)
        for exact, measured, number, *width in pairs
        if exact and measured
    ]
    if not pairs:
        return []
    logarithms = [math.log10(value) for values, _ in pairs for value in values]
    low, high = min(logarithms), max(logarithms)
    step = (high - low) / GRID_CELLS or 1
    counts: dict[tuple, int] = {}
    for values, number in pairs:
        cell = tuple(round((math.log10(value) - low) / step) for value in values)
        counts[cell] = counts.get(cell, 0) + number
    ends = {"low": 10**low, "high": 10**high}
    return [
        dict(zip(("x", "y", "top"), (10 ** (low + index * step) for index in cell), strict=True))
        | {"pairs": number}
        | ends
        for cell, number in sorted(counts.items())
    ]


def flow_pairs(source: Source, columns: tuple[str, str]) -> list[tuple]:
    """Return the pairs of two columns, each with the count 1."""
    table = source.table(TABLE)
    return [(*pair, 1) for pair in zip(*(table[name].to_pylist() for name in columns), strict=True)]


def time_pairs(source: Source, columns: tuple[str, str]) -> list[tuple]:
    """Return the pairs of two columns of times, relative to the first packet of the flow's sample."""
    rows = source.rows(TABLE)
    first: dict[str, int] = {}
    for row in rows:
        if row["start_ns"] is not None:
            first[row["sample"]] = min(row["start_ns"], first.get(row["sample"], row["start_ns"]))
    return [
        (*(row[name] - first[row["sample"]] for name in columns), 1)
        for row in rows
        if all(row[name] is not None for name in columns)
    ]


def duration_pairs(source: Source, _: str) -> list[tuple]:
    """Return exact and measured durations of flows, ns."""
    names = ("start_ns", "end_ns", "start_measured_ns", "end_measured_ns")
    times = ([row[name] for name in names] for row in source.rows(TABLE))
    return [(b - a, d - c, 1) for a, b, c, d in times if None not in (a, b, c, d)]


def loss_pairs(source: Source, _: str) -> list[tuple]:
    """Return exact loss, measured loss (lower bound), 1, and the width of the interval for each flow.

    Loss is missing bytes / bytes sent. Uncertain bytes are either both missing and retransmitted, or neither, so they
    do not change the bytes sent.
    """
    pairs = []
    for row in source.rows(TABLE):
        sent = [bytes_sent(row, infix) for infix in ("", "measured_")]
        if all(sent) and row["loss_reason"] is None:
            shares = row["missing_bytes"] / sent[0], row["missing_measured_bytes"] / sent[1]
            pairs.append((*shares, 1, (row["uncertain_bytes"] or 0) / sent[1]))
    return pairs


def bytes_sent(row: dict, infix: str) -> int | None:
    """Return the bytes of payload that a flow sent, with missing and without retransmitted bytes; None if unknown."""
    payload, retransmitted, missing = (row[f"{name}_{infix}bytes"] for name in ("payload", "retransmitted", "missing"))
    return None if payload is None else payload - retransmitted + missing


def retransmission_pairs(source: Source, _: str) -> list[tuple]:
    """Return exact and measured shares of retransmitted payload, 1, and the width of the interval for each flow."""
    pairs = []
    for row in source.rows(TABLE):
        shares = [(row[f"retransmitted_{infix}bytes"], row[f"payload_{infix}bytes"]) for infix in ("", "measured_")]
        if all(payload for _, payload in shares) and row["loss_reason"] is None:
            width = (row["uncertain_bytes"] or 0) / row["payload_measured_bytes"]
            pairs.append((*(retransmitted / payload for retransmitted, payload in shares), 1, width))
    return pairs


def report_pairs(source: Source, measure: str) -> list[tuple]:
    """Return the exact and measured values at reports, in ns or bit/s, with the number of pairs."""
    return [
        (10 ** (row["place"] / BINS_PER_DECADE), 10 ** (row["place_measured"] / BINS_PER_DECADE), row["pairs"])
        for row in source.rows("flowreport_by_report")
        if row["measure"] == measure
    ]


def window_pairs(source: Source, measure: str) -> list[tuple]:
    """Return exact and measured throughput of windows, in bit/s: all windows, or only those without a reason code."""
    matched_flows = {
        (row["sample"], row["flow"]) for row in source.rows(TABLE) if row["found"] == "both" and not row["outside"]
    }
    length_ns = window_ns(source)
    return [
        (row["bytes"] * 8e9 / length_ns, row["bytes_measured"] * 8e9 / length_ns, 1)
        for row in source.rows("flowreport_windows")
        if (row["sample"], row["flow"]) in matched_flows and (measure == "throughput" or row["reason"] is None)
    ]


PAIRS_BY_MEASURE = {
    "duration": duration_pairs,
    "loss": loss_pairs,
    "retransmitted": retransmission_pairs,
    "throughput": window_pairs,
    "throughput_known": window_pairs,
}


def window_ns(source: Source) -> int:
    """Return the length of the windows, in ns."""
    settings = {row["counter"]: row["value"] for row in source.rows("flowreport_counts") if row["stage"] == "settings"}
    return settings["window_ns"]


def title(rows: dict[str, dict]) -> str:
    """Return the title: how many measures agree with the digest, the worst that differs, and the largest error."""
    with_values = {name: row for name, row in rows.items() if row["n"] + row["missing"]}
    if not with_values:
        return "Flow reports compared with the digest"
    differing = [name for name, row in with_values.items() if differs(row)]
    with_few_values = sum(disagreement(row) is not None for row in with_values.values()) - len(differing)
    parts = [
        f"{len(with_values) - len(differing) - with_few_values} of {count(len(with_values), 'measure')} "
        "agree with the digest"
    ]
    if with_few_values:
        parts.append(f"{count(with_few_values, 'measure')} with {TOO_FEW} to compare")
    if differing:
        worst = min(differing, key=lambda name: severity(with_values[name]))
        heading, reason = MEASURES[worst][0], disagreement(with_values[worst]).replace("R2", "R²")
        position = "the worst that differs" if len(differing) > 1 else "the one that differs"
        parts.append(f"{position} is {heading[0].lower()}{heading[1:]} ({reason})")
    parts += largest_error(with_values)
    return "; ".join(parts)


def largest_error(rows: dict[str, dict]) -> list[str]:
    """Return the largest relative error of a value, and its measure; empty if there is none or all are 0.

    Measures with intervals are omitted, because their measured values are lower bounds.
    """
    values = {name: row["error_largest"] or 0 for name, row in rows.items() if KINDS[name] is not INTERVAL}
    worst = max(values, key=values.get, default=None)
    if worst is None or not values[worst]:
        return []
    heading = MEASURES[worst][0]
    return [f"largest relative error: {percent(values[worst])} ({heading[0].lower()}{heading[1:]})"]


def format_r2(value: float) -> str:
    """Return R² with four decimals, rounded down, so that only 1 is shown as 1."""
    return "1" if value == 1 else f"{math.floor(value * 1e4) / 1e4:.4f}"


def panel_subtitle(row: dict) -> list[str]:
    """Return the lines below a panel's heading."""
    r2 = "R² undefined" if row["r2"] is None else f"R² {format_r2(row['r2'])}"
    if row["r2_log"] is not None:
        r2 += f", log {format_r2(row['r2_log'])}"
    parts = [
        f"n{GAP}={GAP}{row['n']:,}",
        f"{percent(row['missing_share'])} missing",
        *(f"{row[name]:,} {name}" for name in ("outside", "extra", "ambiguous") if row[name]),
    ]
    return [verdict_text(row), r2, ", ".join(parts), *error_summary(row)]


def verdict_text(row: dict) -> str:
    """Return the verdict in a few words: ``agrees``, or ``differs`` and the criteria that are not met."""
    reason = disagreement(row)
    if reason is None or not differs(row):
        return TOO_FEW if reason else "agrees"
    return f"differs; not met: {', '.join(faults(row)).replace('R2', 'R²')}" if row["n"] else f"differs: {reason}"


def error_summary(row: dict) -> list[str]:
    """Return the share of values within the error bound for agreement, the 99th percentile, and the largest error.

    For intervals, return the share that contain the exact value, and the median and 99th percentile of their widths.
    """
    kind = KINDS[row["measure"]]
    if kind is INTERVAL:
        if row["covered_share"] is None:
            return ["no intervals"]
        share = f"{percent(row['covered_share'])} contain the exact value"
        if row["width_p99"] is None:
            return [share, "no interval is wider than 0"]
        return [share, f"width: median {percent(row['width_median'])}, p99 {percent(row['width_p99'])}"]
    share = f"{percent(row[kind.within])} {kind.error}"
    if row["error_p99"] is None:
        return [share]
    return [share, f"error: p99 {percent(row['error_p99'])}, largest {percent(row['error_largest'])}"]


def axis_ticks(low: float, high: float) -> list[float]:
    """Return at most MAX_TICKS powers of ten. If fewer than two fit, return 1, 2 and 5 times these, or the ends."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = max(1, math.ceil((last - first + 1) / MAX_TICKS))
    powers = [10.0**power for power in range(first, last + 1, step)]
    if len(powers) > 1:
        return powers
    values = [float(f"{lead}e{power}") for power in range(first - 1, last + 1) for lead in (1, 2, 5)]
    values = [value for value in values if low <= value <= high]
    ends = [float(f"{end:.2g}") for end in (low * 1.15, high / 1.15)]  # within the axis even after rounding
    return values if len(values) > 1 else sorted({*values, *ends})


def panel(values: list[dict], measure: str, row: dict) -> alt.LayerChart:
    """Return the panel of one measure."""
    heading, unit, _, _ = MEASURES[measure]
    low, high = values[0]["low"] / 1.3, values[0]["high"] * 1.3
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    axis_options = dict(
        labelExpr=theme.SHORT_NUMBERS,
        values=axis_ticks(low, high),
        labelOverlap=True,
        labelSeparation=4,
        domain=False,
        grid=True,
    )
    ends = Rows(values=[{"x": low, "y": low}, {"x": high, "y": high}])
    line = alt.Chart(ends).mark_line(color=theme.VERMILION, strokeWidth=1).encode(x="x:Q", y="y:Q")
    dots = (
        alt.Chart(Rows(values=values))
        .mark_circle(color=theme.BLUE, size=16)
        .encode(
            x=alt.X("x:Q", title=f"exact ({unit})", scale=scale, axis=alt.Axis(**axis_options)),
            y=alt.Y("y:Q", title=f"measured ({unit})", scale=scale, axis=alt.Axis(minExtent=30, **axis_options)),
            opacity=alt.Opacity(
                "pairs:Q",
                scale=alt.Scale(type="log", domain=[1, max(2, *(v["pairs"] for v in values))], range=[0.45, 1]),
                legend=None,
            ),
            tooltip=[
                alt.Tooltip("x:Q", title=f"exact ({unit})", format=".4~g"),
                alt.Tooltip("y:Q", title=f"measured ({unit})", format=".4~g"),
                alt.Tooltip("pairs:Q", title="pairs here", format=","),
            ],
        )
    )
    intervals = (
        alt.Chart(Rows(values=[value for value in values if value["top"] > value["y"]]))
        .mark_rule(color=theme.BLUE, strokeWidth=1, opacity=0.5)
        .encode(x="x:Q", y="y:Q", y2="top:Q")
    )
    head = alt.TitleParams(
        heading,
        subtitle=panel_subtitle(row),
        fontSize=theme.TEXT,
        subtitleFontSize=theme.SMALL,
        offset=4,
        frame="group",
        color=theme.INK,
        subtitlePadding=2,
    )
    return alt.layer(line, intervals, dots).properties(width=PANEL - 46, height=HEIGHT, title=head)
