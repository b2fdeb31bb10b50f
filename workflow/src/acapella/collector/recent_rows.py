"""The newest rows of the series, available to requests while the series file is being written."""

import threading
from collections import deque

import pyarrow as pa

from acapella_core.arrow_tables import arrow_schema

MAX_ROWS = 1_000_000  # about 120 MB


class RecentRows:
    """A thread-safe buffer of the last batches, limited by their number of rows."""

    def __init__(self, max_rows: int = MAX_ROWS):
        self._max_rows = max_rows
        self._batches: deque[pa.RecordBatch] = deque()
        self._rows = 0
        self._lock = threading.Lock()

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows and drop the oldest batches beyond the limit, but never the newest."""
        with self._lock:
            self._batches.append(rows)
            self._rows += len(rows)
            while self._rows > self._max_rows and len(self._batches) > 1:
                self._rows -= len(self._batches.popleft())

    def table(self) -> pa.Table:
        """Return the rows."""
        with self._lock:
            return pa.Table.from_batches(list(self._batches), schema=arrow_schema("flow_report_series"))
