"""Tables of a monitor: schemas/tables/monitor_*.yaml, as Parquet and CSV."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from acapella_core.arrow_tables import arrow_schema
from acapella_core.files import atomic_path

from . import drift, expected, result

TABLES = ("monitor_ports", "monitor_flows", "monitor_histograms", "monitor_intervals", "monitor_clocks")
WHOLE_PORT = -1
COUNTS = ("received", "bytes", "filtered", "foreign", "invalid", "stamped", "unique", "duplicates", "reordered",
          "unclassified", "bit_errors", "dropped_kernel", "missed", "clock_steps",
          *(f"malformed_{name}" for name in result.MALFORMED))  # fmt: skip
FLOW_COUNTS = ("packets", "bytes", "unique", "duplicates", "reordered", "unclassified", "discontinuities", "malformed",
               "extent_known", "bits_checked", "bit_errors", "errored_packets")  # fmt: skip
UNIT_16 = 16  # unit of jitter: 1/16 ns

Row = dict[str, Any]


def rows_of(
    ports: Sequence[result.PortResult],
    wanted: expected.ExpectedFlows | None,
    drifts: Sequence[drift.Drift | None],
    *,
    corrected: bool,
) -> dict[str, list[Row]]:
    """Return the rows of all tables, in the order of their keys.

    ``wanted``: the expected flows; None: unknown. ``drifts``: the drift of each port, before a correction.
    """
    rows: dict[str, list[Row]] = {table: [] for table in TABLES}
    for number, port in enumerate(ports):
        flows = [row | {"clock_set": after_step(port, row["last_ns"])} for row in flow_rows(port, wanted)]
        lost = sum(row["lost"] or 0 for row in flows)
        rows["monitor_ports"].append({"port": number, **port_row(port), "lost": lost})
        rows["monitor_flows"] += [{"port": number, **row} for row in flows]
        rows["monitor_histograms"] += [{"port": number, **row} for row in histogram_rows(port)]
        rows["monitor_intervals"] += [{"port": number, **row} for row in interval_rows(port)]
        if (line := drifts[number]) is not None:
            rows["monitor_clocks"].append({"port": number, **clock_row(line), "corrected": corrected})
    return rows


def port_row(port: result.PortResult) -> Row:
    """Return the row of a port, without its number and lost packets."""
    arrived = int(port.counts["received"]) > 0
    return {
        "name": port.name,
        **{name: int(port.counts[name]) for name in COUNTS},
        "first_ns": int(port.counts["first_ns"]) if arrived else None,
        "last_ns": int(port.counts["last_ns"]) if arrived else None,
        "clock_step_ns": int(port.counts["clock_step_ns"]) if port.counts["clock_steps"] else None,
    }


def flow_rows(port: result.PortResult, wanted: expected.ExpectedFlows | None) -> Iterator[Row]:
    """Yield the rows of a port's flows, ordered by index: all expected flows or, if unknown, those that arrived."""
    arrived = {int(flow["flow"]): flow for flow in port.flows}
    if wanted is None:
        for index, flow in arrived.items():
            yield flow_row(index, flow, int(flow["next"] - flow["lowest"]) if flow["unique"] else 0)
        return
    for index, known in enumerate(wanted.flows):
        row = flow_row(index, arrived.get(index, EMPTY), known["packets"])
        row.update({name: known[name] for name in expected.FLOW_COLUMNS}, expected=known["packets"])
        if known["stamp_offset"] is None:
            row["lost"] = None
        yield row


def after_step(port: result.PortResult, last_ns: int | None) -> bool:
    """Return whether a flow with its last arrival at ``last_ns`` may contain packets from after the clock was set."""
    return last_ns is not None and bool(port.counts["clock_steps"]) and last_ns >= int(port.counts["stepped_from_ns"])


EMPTY = np.zeros(1, result.FLOW)[0]


def flow_row(index: int, flow: np.void, sent: int) -> Row:
    """Return the row of a flow that sent ``sent`` packets."""
    row = {name: int(flow[name]) for name in FLOW_COUNTS}
    packets, unique, known = row["packets"], row["unique"], row["extent_known"]
    latency_sum = (int(flow["latency_sum_high"]) << 64) + int(flow["latency_sum_low"])
    value_if = lambda condition, value: value if condition else None  # noqa: E731
    return row | {
        "flow": index,
        "lost": max(0, sent - unique - row["unclassified"]),
        "extent_mean": value_if(known, int(flow["extent_sum"]) / max(known, 1)),
        "extent_max": value_if(known, int(flow["extent_max"])),
        "late_max_ns": value_if(known, int(flow["late_max_ns"])),
        "first_sequence": value_if(unique, int(flow["lowest"])),
        "last_sequence": value_if(unique, int(flow["next"]) - 1),
        "latency_min_ns": value_if(unique, int(flow["latency_min_ns"])),
        "latency_mean_ns": value_if(unique, latency_sum / max(unique, 1)),
        "latency_max_ns": value_if(unique, int(flow["latency_max_ns"])),
        "latency_p50_ns": quantile_limit_ns(flow["latencies"], 50),
        "latency_p99_ns": quantile_limit_ns(flow["latencies"], 99),
        "jitter_ns": value_if(unique > 1, int(flow["jitter_16"]) / UNIT_16),
        "jitter_max_ns": value_if(unique > 1, int(flow["jitter_max_16"]) / UNIT_16),
        "gap_min_ns": value_if(packets > 1, int(flow["gap_min_ns"])),
        "gap_max_ns": value_if(packets > 1, int(flow["gap_max_ns"])),
        "first_ns": value_if(packets, int(flow["first_ns"])),
        "last_ns": value_if(packets, int(flow["last_ns"])),
    }


def quantile_limit_ns(histogram: np.ndarray, percent: int) -> int | None:
    """Return the upper limit of the bucket that contains a quantile (nearest rank); None if there is none."""
    ordered = np.concatenate((histogram[result.BUCKETS :], histogram[: result.BUCKETS])).astype(np.int64)
    total = int(ordered.sum())
    if not total:
        return None
    rank = max(1, -(-total * percent // 100))
    position = int(np.searchsorted(np.cumsum(ordered), rank))
    return result.bucket_limits(result.BUCKETS if position == 0 else position - 1)[1]


def histogram_rows(port: result.PortResult) -> Iterator[Row]:
    """Yield the rows of the histograms of a port and its flows."""
    entries = [(WHOLE_PORT, port.counts), *((int(flow["flow"]), flow) for flow in port.flows)]
    for flow, record in entries:
        for measure, field in (("gap", "gaps"), ("latency", "latencies")):
            for bucket in np.flatnonzero(record[field]):
                first, end = result.bucket_limits(int(bucket))
                yield {"flow": flow, "measure": measure, "bucket": int(bucket), "from_ns": first, "to_ns": end,
                       "packets": int(record[field][bucket])}  # fmt: skip


def interval_rows(port: result.PortResult) -> Iterator[Row]:
    """Yield the intervals of a port that have packets."""
    length = int(port.counts["length_ns"])
    for index in np.flatnonzero(port.intervals["packets"]):
        interval = port.intervals[index]
        timed = int(interval["first_copies"]) > 0
        yield {
            "begin_ns": int(port.counts["begin_ns"]) + int(index) * length,
            "length_ns": length,
            **{name: int(interval[name]) for name in ("packets", "bytes", "first_copies")},
            "latency_min_ns": int(interval["latency_min_ns"]) if timed else None,
            "latency_at_ns": int(interval["latency_at_ns"]) if timed else None,
        }


def drift_of(port: result.PortResult) -> drift.Drift | None:
    """Return the drift of a port from the smallest latencies of its intervals; None if there are too few."""
    timed = port.intervals[port.intervals["first_copies"] > 0]
    return drift.fit(timed["latency_at_ns"].tolist(), timed["latency_min_ns"].tolist())


def clock_row(line: drift.Drift) -> Row:
    """Return the row of a drift."""
    return {
        "points": line.points,
        "from_ns": line.from_ns,
        "offset_ns": float(line.offset_ns),
        "rate_ppm": float(line.rate * 10**6),
        "residual_rms_ns": line.residual_rms_ns,
        "residual_max_ns": line.residual_max_ns,
    }


def remove(directory: Path, *names: str) -> None:
    """Remove tables of an earlier run, so that they are not mistaken for tables of this run if it fails."""
    for name in names:
        for suffix in ("parquet", "csv"):
            (directory / f"{name}.{suffix}").unlink(missing_ok=True)


def write(directory: Path, rows: Mapping[str, Sequence[Row]], *, with_csv: bool = True) -> list[Path]:
    """Write each table as DIRECTORY/TABLE.parquet and .csv, laid out as the tables of a campaign; return the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for table, table_rows in rows.items():
        content = pa.Table.from_pylist(list(table_rows), schema=arrow_schema(table))
        parquet, text = directory / f"{table}.parquet", directory / f"{table}.csv"
        with atomic_path(parquet) as temporary:
            pq.write_table(content, temporary, compression="zstd")
        written.append(parquet)
        if not with_csv:
            continue
        with atomic_path(text) as temporary, temporary.open("wb") as sink:
            sink.write((",".join(content.schema.names) + "\n").encode())
            csv.write_csv(content, sink, csv.WriteOptions(include_header=False, quoting_style="needed"))
        written.append(text)
    return written
