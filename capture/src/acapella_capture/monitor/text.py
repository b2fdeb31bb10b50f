"""The tables of a monitor as text for a terminal."""

from collections.abc import Sequence
from typing import Any

from acapella_core.names import pluralize

from ..replay.departures import duration

SHOWN_FLOWS = 20

Row = dict[str, Any]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with aligned columns: the first is left-aligned, the others are right-aligned."""
    cells = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        ).rstrip()
        for row in cells
    ]


def time(ns: float | None) -> str:
    """Return a time with its unit; a dash if it is unknown."""
    return "-" if ns is None else duration(round(ns))


def count(value: int | None) -> str:
    """Return a count; a dash if it is unknown."""
    return "-" if value is None else f"{value:,}"


def port_lines(rows: Sequence[Row]) -> list[str]:
    """Return a line for each port."""
    names = ("received", "stamped", "lost", "duplicates", "reordered", "foreign", "invalid", "filtered")
    malformed = [sum(value for key, value in row.items() if key.startswith("malformed_")) for row in rows]
    return table(
        ("port", *names, "malformed"),
        [[row["name"], *(count(row[name]) for name in names), count(bad)]
         for row, bad in zip(rows, malformed, strict=True)],
    )  # fmt: skip


def flow_lines(rows: Sequence[Row], shown: int = SHOWN_FLOWS) -> list[str]:
    """Return a line for each flow, those with the most lost packets first; at most ``shown``."""
    ordered = sorted(rows, key=lambda row: (-(row["lost"] or 0), row["port"], row["flow"]))
    header = ("flow", "packets", "lost", "duplicates", "reordered", "latency min", "mean", "p99 <", "max", "jitter",
              "bit errors")  # fmt: skip
    several = len({row["port"] for row in rows}) > 1
    cells = [
        [
            f"{row['port']}:{label(row)}" if several else label(row),
            *(count(row[name]) for name in ("packets", "lost", "duplicates", "reordered")),
            *(time(row[f"latency_{name}_ns"]) for name in ("min", "mean", "p99", "max")),
            time(row["jitter_ns"]),
            count(row["bit_errors"]) if row["bits_checked"] else "-",
        ]
        for row in ordered[:shown]
    ]
    more = [f"... and {pluralize(len(rows) - shown, 'more flow')}"] if len(rows) > shown else []
    return table(header, cells) + more


def label(row: Row) -> str:
    """Return the index and name of a flow."""
    return f"{row['flow']} {row['name']}" if row.get("name") else str(row["flow"])


def clock_lines(rows: Sequence[Row]) -> list[str]:
    """Return a line for the clocks of each port."""
    return [
        f"port {row['port']}: clocks drift by {row['rate_ppm']:+.3f} ppm, residuals {time(row['residual_rms_ns'])} "
        f"rms, {time(row['residual_max_ns'])} largest, {row['points']} intervals"
        f"{'; latencies are corrected' if row['corrected'] else ''}"
        for row in rows
    ]


def clock_warnings(ports: Sequence[Row], flows: Sequence[Row]) -> list[str]:
    """Return a line for each port during whose run the system clock was set."""
    lines = []
    for row in ports:
        if steps := row["clock_steps"]:
            flows_set = sum(flow["clock_set"] for flow in flows if flow["port"] == row["port"])
            lines.append(
                f"{row['name']}: the system clock was set {'once, by' if steps == 1 else f'{steps:,} times, by up to'} "
                f"{time(row['clock_step_ns'])}; latencies of {pluralize(flows_set, 'flow')} may include this step"
            )
    return lines


def search_lines(rows: Sequence[Row]) -> list[str]:
    """Return a line for each result of a search, with the latency of its trial."""
    header = (
        "ports",
        "packet",
        "capture",
        "measure",
        "result",
        "packets",
        "latency min",
        "mean",
        "max",
        "jitter",
        "limit",
        "trials",
    )
    searches: dict[tuple, list[Row]] = {}
    for row in rows:
        searches.setdefault((row["ports"], row["frame_bytes"], row["capture"], row["measure"]), []).append(row)
    cells = []
    for (ports, frame_bytes, capture, measure), trials in searches.items():
        found = next((row for row in trials if row["result"]), None)
        shown = value_of(found) if found else no_result(trials)
        times = [time(found[f"latency_{name}_ns"] if found else None) for name in ("min", "mean", "max")]
        jitter = time(found["jitter_ns"] if found else None)
        offered = count(found["offered"] if found else None)
        limit = found["limit"] if found else "-"
        cells.append(
            [str(ports), f"{frame_bytes} B", capture, measure, shown, offered, *times, jitter, limit, str(len(trials))]
        )
    return table(header, cells)


def value_of(found: Row) -> str:
    """Return the value of a trial with its unit."""
    return f"{found['value']:,.0f} {'packets/s' if found['measure'] == 'throughput' else 'packets'}"


def search_result(trials: Sequence[Row]) -> str:
    """Return the result of a search in one line."""
    found = next((row for row in trials if row["result"]), None)
    first = trials[0]
    ports = pluralize(first["ports"], "port")
    shown = value_of(found) if found else no_result(trials)
    return f"{ports}, {first['frame_bytes']} B, capture {first['capture']}, {first['measure']}: {shown}"


def no_result(trials: Sequence[Row]) -> str:
    """Return why a search has no result: its trial with the lowest value failed."""
    return "none is loss-free" if min(trials, key=lambda row: row["value"])["lost"] else "not reached by the generator"


def loss_lines(rows: Sequence[Row]) -> list[str]:
    """Return a summary of the loss events."""
    packets = sum(row["packets"] for row in rows)
    longest = max((row["packets"] for row in rows), default=0)
    events = pluralize(len(rows), "loss event")
    missing, longest_text = pluralize(packets, "packet"), pluralize(longest, "packet")
    return [f"{missing} did not arrive, in {events}; the longest has {longest_text}"]
