"""Creates the report's section on monitored traffic: the arrivals at each port and of each flow (docs/monitor.md)."""

from acapella.common.wording import nanoseconds
from acapella.figures import monitor_scope
from acapella.figures.source import Source

from .tables import number, table

LOSSES = "monitor_losses"
SEARCHES = "monitor_searches"
WRITTEN = {"none": "no", "whole": "whole", "truncated": "truncated, with hashes"}
MAX_ROWS = 100  # rows of the tables of flows and of loss events; all are in the CSV files


def tables(source: Source, *, counted: bool = True) -> list[dict]:
    """Return the tables of the section, without an empty table of clocks.

    ``counted``: whether a monitor counted traffic; otherwise, the section contains only searches.
    """
    shown = []
    if counted:
        clocks_table = clocks(source)
        shown = [ports(source), flows(source), *([clocks_table] if clocks_table["rows"] else [])]
    optional = {LOSSES: losses} if counted else {}
    optional |= {SEARCHES: searches}
    return shown + [
        build(source) for name, build in optional.items() if source.campaign.table(name, "parquet").is_file()
    ]


def ports(source: Source) -> dict:
    """Return the packets of each port by class."""
    classes = (
        "received",
        "stamped",
        "lost",
        "duplicates",
        "reordered",
        "unclassified",
        "foreign",
        "invalid",
        "filtered",
    )
    columns = [("Port", False), *((name.capitalize(), True) for name in classes), ("Malformed", True)]
    columns += [("Not received", True), ("Bit errors", True), ("Clock set", True)]
    cells = [
        [
            row["name"],
            *(number(row[name]) for name in classes),
            number(sum(value for name, value in row.items() if name.startswith("malformed_"))),
            number(row["dropped_kernel"] + row["missed"]),
            number(row["bit_errors"]),
            steps(row) if row["clock_steps"] else "no",
        ]
        for row in source.rows("monitor_ports")
    ]
    note = (
        "Packets. Received = stamped + foreign + invalid + filtered. Foreign: without a stamp of acapella generate. "
        "Malformed packets are also one of these. Not received: dropped by the kernel or missed by the device. "
        "Clock set: while packets were received, so that latencies of later packets may contain the step."
    )
    return table("monitor_ports", "Packets at the ports of the monitor", note, columns, cells)


def flows(source: Source) -> dict:
    """Return loss, reordering and latency of the flows, with the largest loss first."""
    rows = sorted(source.rows("monitor_flows"), key=lambda row: (-(row["lost"] or 0), row["port"], row["flow"]))
    columns = [("Port", True), ("Flow", False), ("Packets", True), ("Lost", True), ("Duplicates", True)]
    columns += [("Reordered", True), ("Latency, min", True), ("Mean", True), ("99 % below", True), ("Max", True)]
    columns += [("Jitter", True), ("Bit errors", True)]
    cells = [
        [
            *(str(row["port"]), f"{row['flow']} {row['name'] or ''}".strip()),
            *(number(row[name]) for name in ("packets", "lost", "duplicates", "reordered")),
            *(time(row[f"latency_{name}_ns"]) for name in ("min", "mean", "p99", "max")),
            *(time(row["jitter_ns"]), number(row["bit_errors"]) if row["bits_checked"] else "not checked"),
        ]
        for row in rows[:MAX_ROWS]
    ]
    shown = f" The {MAX_ROWS} flows of {len(rows):,} with the largest loss." if len(rows) > MAX_ROWS else ""
    note = (
        "Reordered: RFC 4737. Latency: arrival minus departure of first copies; it contains the offset between the "
        f"clocks of sender and receiver. Jitter: RFC 3550.{shown}"
    )
    return table("monitor_flows", "Monitored flows", note, columns, cells)


def losses(source: Source) -> dict:
    """Return the loss events, with the most packets first."""
    rows = sorted(source.rows(LOSSES), key=lambda row: (-row["packets"], row["first_packet"]))
    columns = [("First packet", True), ("Last packet", True), ("Packets", True), ("Bytes", True), ("Flow", True)]
    columns += [("Duration", True)]
    cells = [
        [
            *(number(row[name]) for name in ("first_packet", "last_packet", "packets", "bytes")),
            "several, or none" if row["flow"] is None else str(row["flow"]),
            time(row["last_ns"] - row["first_ns"]),
        ]
        for row in rows[:MAX_ROWS]
    ]
    note = (
        f"{number(sum(row['packets'] for row in rows))} packets in {number(len(rows))} events of consecutive packets "
        "that left the first capture point and did not arrive, identified by a hash of their bytes. Packets are "
        "numbered at that point, from 0. Duration: from the first to the last packet of an event."
    )
    if len(rows) > MAX_ROWS:
        note += f" The {MAX_ROWS} events with the most packets."
    return table(LOSSES, "Loss events", note, columns, cells)


def clocks(source: Source) -> dict:
    """Return the drift between the clocks."""
    columns = [("Port", True), ("Drift (ppm)", True), ("Residuals, rms", True), ("Largest", True), ("Intervals", True)]
    columns += [("Latencies", False)]
    cells = [
        [
            *(str(row["port"]), f"{row['rate_ppm']:+.3f}"),
            *(time(row[f"residual_{name}_ns"]) for name in ("rms", "max")),
            *(number(row["points"]), "corrected" if row["corrected"] else "not corrected"),
        ]
        for row in source.rows("monitor_clocks")
    ]
    note = (
        "Least squares line through the smallest latency of every interval. The drift also contains a change of the "
        "delay of the path."
    )
    return table("monitor_clocks", "Clocks of sender and receiver", note, columns, cells)


def searches(source: Source) -> dict:
    """Return the results of searches by packet size, with the latency of their trials."""
    columns = [
        ("Ports", True),
        ("Packet (B)", True),
        ("Packets written", False),
        ("Measure", False),
        ("Result", True),
        ("Gbit/s", True),
        ("Limit", False),
    ]
    columns += [("Latency, min", True), ("Mean", True), ("Max", True), ("Jitter", True), ("Trials", True)]
    trials: dict[tuple, list[dict]] = {}
    for row in source.rows(SEARCHES):
        trials.setdefault((row["ports"], row["frame_bytes"], row["capture"], row["measure"]), []).append(row)
    cells = []
    for (ports_, frame_bytes, capture, measure), rows in trials.items():
        found = next((row for row in rows if row["result"]), None)
        written = WRITTEN[capture]
        result = (
            [number(round(found["value"])), gigabits(found), found["limit"]] if found else [no_result(rows), "", ""]
        )
        times = [f"latency_{name}_ns" for name in ("min", "mean", "max")] + ["jitter_ns"]
        cells.append(
            [
                str(ports_),
                str(frame_bytes),
                written,
                measure,
                *result,
                *(time(found and found[name]) for name in times),
                str(len(rows)),
            ]
        )
    note = (
        "RFC 2544. Throughput: the highest rate of each port in packets/s at which no packet was lost; burst: the "
        "longest burst at the highest rate of the search. Gbit/s: rate of the departures of all ports without FCS, "
        "preamble and gap. Limit: at the next higher value, packets were lost (loss), or the generator did not reach "
        "it (generator); range: no higher value was tried. The layout is that of figure 5 of OSNT: the rate by packet "
        "size, with and without truncation and hashes."
    )
    note = f"{note} {monitor_scope.unfinished(source)}".strip()
    return table(SEARCHES, "Rates without loss", note, columns, cells)


def no_result(rows: list[dict]) -> str:
    """Return why a search has no result: its trial with the lowest value failed."""
    return "none is loss-free" if min(rows, key=lambda row: row["value"])["lost"] else "not reached by the generator"


def steps(row: dict) -> str:
    """Return the steps of the clock of a port."""
    times = "once, by" if row["clock_steps"] == 1 else f"{number(row['clock_steps'])} times, by up to"
    return f"{times} {time(row['clock_step_ns'])}"


def gigabits(row: dict) -> str:
    """Return the rate of a trial in Gbit/s."""
    return f"{row['rate_pps'] * row['frame_bytes'] * 8 / 1e9:.3f}"


def time(ns: float | None) -> str:
    """Return a time as text; a question mark if it is null."""
    if ns is None:
        return "?"
    return f"-{nanoseconds(-round(ns))}" if ns < 0 else nanoseconds(round(ns))
