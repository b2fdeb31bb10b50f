"""Converts rows that were read from files to columns for DuckDB."""

from collections.abc import Iterable
from dataclasses import astuple

import pyarrow as pa

from . import iperf3
from .cells import Fault, Process, Run

CHUNK = 100_000  # rows per batch, so that Python objects of many intervals need little memory

INT, TEXT, UINT = pa.int64(), pa.string(), pa.uint32()
KEY = {"cell_id": TEXT, "run": UINT}
STREAM = {**KEY, "flow": UINT, "stream": UINT}
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "raw_cells": {
        **KEY,
        **{"mode": TEXT, "topology": TEXT, "algorithm": TEXT, "delay_ns": INT, "buffer_bytes": INT, "rate_bps": INT},
        **{"streams": UINT, "size_bytes": INT, "ratio": pa.float64(), "delay_on": TEXT},
        **{"loss_percent": pa.float64(), "reorder_percent": pa.float64(), "measured_rtt_ns": INT},
        **{"measured_rate_bps": INT, "rate_at_least_bps": INT, "measured_buffer_bytes": INT},
        **{"frames_over_mtu": INT, "background_bps": INT},
        **{"flags": pa.list_(TEXT), "error": TEXT, "iperf3_version": TEXT, "kernel": TEXT, "bbr_version": TEXT},
    },
    "raw_flows": {
        **STREAM,
        **{"path": TEXT, "file": TEXT, "iperf3_version": TEXT, "algorithm": TEXT, "reverse": pa.bool_()},
        **{"local_port": pa.uint16(), "remote_port": pa.uint16(), "started_ns": INT, "start_error_ns": INT},
        **{"sent_bytes": INT, "measured_rtt_ns": INT},
        **{"sender_ns": INT, "received_bytes": INT, "receiver_ns": INT, "retransmits": INT, "rtt_min_ns": INT},
        **{"rtt_mean_ns": INT, "rtt_max_ns": INT, "cwnd_max_bytes": INT, "window_bytes": INT, "samples": INT},
        **{"busy_samples": INT, "send_buffer_bytes": INT},
    },
    "raw_intervals": {
        **STREAM,
        **{"place": UINT, "start_ns": INT, "end_ns": INT, "bytes": INT, "omitted": pa.bool_(), "retransmits": INT},
        **{"cwnd_bytes": INT, "rtt_ns": INT},
    },
    "raw_wire": {
        **STREAM,
        **{"syn_ns": INT, "start_ns": INT, "end_ns": INT, "done_ns": INT, "bytes": INT, "retransmitted_bytes": INT},
        **{
            "missing_bytes": INT,
            "ip_bytes": INT,
            "frame_bytes": INT,
            "cut": pa.bool_(),
            "data_frames": INT,
            "retransmits": INT,
        },
        **{"retransmits_late": INT, "rtts": INT, "rtt_min_ns": INT, "rtt_mean_ns": INT, "rtt_p99_ns": INT},
        **{"flight_max_bytes": INT, "flight_p95_bytes": INT},
    },
    "raw_prediction": {
        **KEY,
        **{"flow": UINT, "path": TEXT, "size_bytes": INT, "rate_bps": pa.float64(), "bottleneck": TEXT},
        **{"predicted_ns": INT, "best_ratio": pa.float64(), "together": pa.bool_()},
    },
    "transfer_files": {"place": UINT, "cell_id": TEXT, "run": UINT, "file": TEXT, "document": UINT, "reason": TEXT},
}


class Raw:
    """The raw tables. Lists of a table are converted to Arrow after CHUNK rows."""

    def __init__(self):
        self.open = {table: {name: [] for name in columns} for table, columns in COLUMNS.items()}
        self.closed: dict[str, list[pa.Table]] = {table: [] for table in COLUMNS}

    def add_rows(self, table: str, rows: Iterable[dict]) -> None:
        """Add rows; missing columns are null."""
        columns = self.open[table]
        for row in rows:
            for name, values in columns.items():
                values.append(row.get(name))
        self.close_full(table)

    def close_full(self, table: str, size: int = CHUNK) -> None:
        """Convert the open rows of a table if there are at least ``size``."""
        columns = self.open[table]
        if len(next(iter(columns.values()))) < size:
            return
        arrays = [pa.array(columns[name], kind) for name, kind in COLUMNS[table].items()]
        self.closed[table].append(pa.table(arrays, names=list(columns)))
        for values in columns.values():
            values.clear()

    def add_run(self, run: Run) -> None:
        """Add a run with its streams and intervals."""
        key = {"cell_id": run.cell_id, "run": run.run}
        self.add_rows("raw_cells", [key | cell_columns(run)])
        for process in run.processes:
            process_key = key | {"flow": process.flow}
            flow_values = {name: process.entry.get(name) for name in ("path", "started_ns", "start_error_ns")}
            test = process.test
            flow_values["measured_rtt_ns"] = path_rtt(run.cell, flow_values["path"])
            flow_values["send_buffer_bytes"] = send_buffer(run.cell, process)
            flow_values["window_bytes"] = largest_window(run.cell, process)
            samples = samples_of(run.cell, process)
            flow_values["samples"] = len(samples)
            flow_values["busy_samples"] = sum(each.get("busy_ns") is not None for each in samples)
            self.add_rows(
                "raw_flows",
                (
                    process_key
                    | flow_values
                    | vars(stream)
                    | {"stream": number, "file": process.file, "iperf3_version": test.version}
                    | {"algorithm": lowered(test.algorithm or run.values.get("algorithm"))}
                    for number, stream in enumerate(test.streams)
                ),
            )
            self.add_intervals(process_key, test.intervals)

    def add_intervals(self, process_key: dict, intervals: list[iperf3.Interval]) -> None:
        """Add the intervals of a process, numbered for each stream. Columns are extended without a mapping per row."""
        if not intervals:
            return
        columns = self.open["raw_intervals"]
        streams, starts, ends, sent, omitted, retransmits, windows, rtts = zip(*map(fields_of, intervals), strict=True)
        for name, value in process_key.items():
            columns[name].extend([value] * len(intervals))
        found = {"stream": streams, "place": numbers_in_streams(streams)}
        found |= {"start_ns": starts, "end_ns": ends, "bytes": sent}
        found |= {"omitted": omitted, "retransmits": retransmits, "cwnd_bytes": windows, "rtt_ns": rtts}
        for name, values in found.items():
            columns[name].extend(values)
        self.close_full("raw_intervals")

    def add_faults(self, faults: list[Fault]) -> None:
        """Add the rows of transfer_files."""
        names = [name for name in COLUMNS["transfer_files"] if name != "place"]
        self.add_rows(
            "transfer_files",
            (
                {"place": number, **dict(zip(names, astuple(fault), strict=True))}
                for number, fault in enumerate(faults, 1)
            ),
        )

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return sum(map(len, self.closed[table])) + len(self.open[table][next(iter(COLUMNS[table]))])

    def register(self, con) -> None:
        """Create the raw tables as views of a DuckDB connection."""
        for table, columns in COLUMNS.items():
            self.close_full(table, 1)
            parts = self.closed[table] or [
                pa.table([pa.array([], kind) for kind in columns.values()], names=list(columns))
            ]
            con.register(table, pa.concat_tables(parts))


def path_rtt(cell: dict, path: str | None) -> int | None:
    """Return the round-trip time of a path that was measured before a run, in ns; None if it was not measured."""
    for each in (cell.get("measured") or {}).get("paths") or []:
        if each["path"] == path:
            return each["rtt_ns"]
    return None


def samples_of(cell: dict, process: Process) -> list[dict]:
    """Return the samples of TCP_INFO of a process."""
    samples = cell.get("tcp_info")
    return [each for each in samples if each.get("flow") == process.flow] if isinstance(samples, list) else []


def send_buffer(cell: dict, process: Process) -> int | None:
    """Return the largest number of bytes in the send buffer of a process; None if cell.json does not state it.

    The maximum of tcp_wmem limits the buffer. In mode clean, tcp_notsent_lowat limits the unsent bytes to less, and
    extra_bytes includes this limit.
    """
    wmem = (cell.get("environment") or {}).get("tcp_wmem")
    largest = wmem[-1] if isinstance(wmem, list) and wmem and isinstance(wmem[-1], int) else None
    extra = process.entry.get("extra_bytes")
    return extra or largest if cell.get("mode") == "clean" else largest or extra


def largest_window(cell: dict, process: Process) -> int | None:
    """Return the largest window that the receiver advertised; None if it is unknown or there are several streams."""
    if len(process.test.streams) != 1:
        return None
    windows = [each.get("snd_wnd_bytes") for each in samples_of(cell, process)]
    return max((window for window in windows if window is not None), default=None)


def fields_of(interval: iperf3.Interval) -> tuple:
    """Return the fields of an interval in order; dataclasses.astuple copies each value and is 20 times slower."""
    return tuple(vars(interval).values())


def numbers_in_streams(streams: Iterable[int]) -> list[int]:
    """Return the number of each interval within its stream, from 1."""
    seen: dict[int, int] = {}
    found = []
    for stream in streams:
        seen[stream] = seen.get(stream, 0) + 1
        found.append(seen[stream])
    return found


def cell_columns(run: Run) -> dict:
    """Return the columns of raw_cells for a run."""
    measured = run.cell.get("measured") or {}
    environment = run.cell.get("environment") or {}
    versions = sorted({process.test.version for process in run.processes if process.test.version})
    return {
        **run.values,
        "algorithm": lowered(run.values.get("algorithm")),
        "measured_rtt_ns": run.values.get("rtt_ns"),
        "measured_rate_bps": measured.get("rate_bps"),
        "rate_at_least_bps": measured.get("rate_at_least_bps"),
        "measured_buffer_bytes": measured.get("buffer_bytes"),
        "frames_over_mtu": measured.get("frames_over_mtu"),
        "background_bps": measured.get("background_bps"),
        "flags": run.cell.get("flags") or [],
        "error": run.error,
        "iperf3_version": " ".join(versions) or None,
        "kernel": text_of(environment.get("kernel")),
        "bbr_version": text_of(environment.get("bbr_version")),
    }


def text_of(value: object) -> str | None:
    """Return a value of ``environment`` as text."""
    return None if value is None else iperf3.text(str(value))


def lowered(name: str | None) -> str | None:
    """Return an algorithm's name in lower case."""
    return name.lower() if name else None
