"""The newest rows of the series, for who asks while its file is still being written."""

import threading
from collections import deque

import pyarrow as pa

from acapella_core.arrow_tables import arrow_schema

MOST_ROWS = 1_000_000  # about 120 MB


class Tail:
    """Keeps the last batches of some rows in all; from any thread."""

    def __init__(self, most_rows: int = MOST_ROWS):
        self._most = most_rows
        self._batches: deque[pa.RecordBatch] = deque()
        self._rows = 0
        self._lock = threading.Lock()

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows; the oldest batches go where there are more than there may be, but never the newest."""
        with self._lock:
            self._batches.append(rows)
            self._rows += len(rows)
            while self._rows > self._most and len(self._batches) > 1:
                self._rows -= len(self._batches.popleft())

    def table(self) -> pa.Table:
        """The rows."""
        with self._lock:
            return pa.Table.from_batches(list(self._batches), schema=arrow_schema("flow_report_series"))
