"""Handlers of the requests to a running collector: largest flows, state, and snapshots of its tables as Parquet."""

import threading
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from acapella_core import collector as core
from acapella_core import files
from acapella_core.control_lines import InvalidMessage

from .output_directory import SNAPSHOT
from .request_socket import MAX_FLOWS, Handler
from .sessions import Sessions
from .settings import Settings

SORT_COLUMNS = {  # sort columns of `top` (descending), and the core's names; throughput: mean since the flow's start
    "bytes": "bytes",
    "packets": "packets",
    "throughput": "throughput",
    "rtt": "rtt",
    "reports": "reports",
    "last": "last_ns",
}


class RequestHandlers:
    """Request handlers of one run, called in separate threads, one at a time."""

    def __init__(
        self, settings: Settings, collector: core.Collector, sessions: Sessions, recent_rows: Callable[[], pa.Table]
    ):
        """``recent_rows`` returns the newest rows of the series."""
        self._settings = settings
        self._collector = collector
        self._sessions = sessions
        self._recent_rows = recent_rows
        self._rates = Rates()
        self._lock = threading.Lock()

    def by_name(self) -> dict[str, Handler]:
        """Return the handlers by request name."""
        return {"top": self.top, "state": self.state, "snapshot": self.snapshot}

    def state(self, parameters: dict) -> dict:
        """Return counters and sessions."""
        if parameters:
            raise InvalidMessage(f"unknown parameter: {', '.join(sorted(parameters))}")
        return {"state": {"reports": self._collector.counters(), "sessions": self._sessions.summary()}}

    def top(self, parameters: dict) -> dict:
        """Return the largest flows: ``count`` of them, sorted by ``by``, one of SORT_COLUMNS. Raises InvalidMessage."""
        by, count = parameters.pop("by", "bytes"), parameters.pop("count", 20)
        if not isinstance(by, str) or by not in SORT_COLUMNS:
            raise InvalidMessage(f"by must be one of {', '.join(SORT_COLUMNS)}")
        if type(count) is not int or not 0 <= count <= MAX_FLOWS:
            raise InvalidMessage(f"count must be a number from 0 to {MAX_FLOWS}")
        state = self.state(parameters)
        with self._lock:
            flows = self._rates.add_rates(self._collector.snapshot(count, SORT_COLUMNS[by]))
        return {"flows": flows, **state}

    def snapshot(self, parameters: dict) -> dict:
        """Write all flows and the newest rows of the series as Parquet files to the directory SNAPSHOT."""
        state = self.state(parameters)
        directory = self._settings.directory / SNAPSHOT
        directory.mkdir(mode=0o700, exist_ok=True)
        flows = pa.Table.from_batches([self._collector.snapshot()])
        for name, table in (("flows", flows), ("series", self._recent_rows())):
            with files.atomic_path(directory / f"{name}.parquet") as part:
                pq.write_table(table, part)
        return {"directory": SNAPSHOT, **state}


class Rates:
    """Computes bits per second between two successive requests, by the times in the reports."""

    def __init__(self):
        self._before: dict[int, tuple[int, int]] = {}  # flow: bytes and time at the previous request

    def add_rates(self, flows: pa.RecordBatch) -> list[dict]:
        """Return the flows with rate_bps since the previous request (0 without a new report).

        For flows that the previous request did not return, rate_bps is their throughput_bps.
        """
        rows = flows.to_pylist()
        for row in rows:
            row["rate_bps"] = self._rate(row)
        self._before = {row["flow"]: (row["bytes"], row["last_ns"]) for row in rows}
        return rows

    def _rate(self, row: dict) -> int:
        if row["flow"] not in self._before:
            return row["throughput_bps"] or 0
        bytes_before, before_ns = self._before[row["flow"]]
        elapsed_ns = row["last_ns"] - before_ns
        return round((row["bytes"] - bytes_before) * 8e9 / elapsed_ns) if elapsed_ns > 0 else 0
