"""What a running collector answers: its largest flows, its state, and snapshots of its tables as Parquet."""

import threading
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from acapella.common.control_channel import Refused
from acapella_core import collector as core
from acapella_core import files

from .place import SNAPSHOT
from .questions import MOST_FLOWS, Answer
from .sessions import Sessions
from .settings import Settings

ORDERS = {  # of `top`, largest first, and what the core calls it; throughput: mean since the flow's start
    "bytes": "bytes",
    "packets": "packets",
    "throughput": "throughput",
    "rtt": "rtt",
    "reports": "reports",
    "last": "last_ns",
}


class Answers:
    """The answers of one run. Each is made in a thread of its own, one at a time."""

    def __init__(self, settings: Settings, collector: core.Collector, sessions: Sessions, tail: Callable[[], pa.Table]):
        """``tail`` gives the newest rows of the series."""
        self._settings = settings
        self._collector = collector
        self._sessions = sessions
        self._tail = tail
        self._rates = Rates()
        self._lock = threading.Lock()

    def by_name(self) -> dict[str, Answer]:
        """The answers by the kind of question."""
        return {"top": self.top, "state": self.state, "snapshot": self.snapshot}

    def state(self, question: dict) -> dict:
        """Counters and sessions."""
        if question:
            raise Refused(f"state takes no {', '.join(sorted(question))}")
        return {"state": {"reports": self._collector.counters(), "sessions": self._sessions.summary()}}

    def top(self, question: dict) -> dict:
        """The largest flows: ``by`` one of ORDERS, ``count`` of them. Raises Refused."""
        by, count = question.pop("by", "bytes"), question.pop("count", 20)
        if not isinstance(by, str) or by not in ORDERS:
            raise Refused(f"by is none of {', '.join(ORDERS)}")
        if type(count) is not int or not 0 <= count <= MOST_FLOWS:
            raise Refused(f"count is not a number from 0 to {MOST_FLOWS}")
        state = self.state(question)
        with self._lock:
            flows = self._rates.beside(self._collector.snapshot(count, ORDERS[by]))
        return {"flows": flows, **state}

    def snapshot(self, question: dict) -> dict:
        """All flows as they are now, and the newest rows of the series, as Parquet files in the directory SNAPSHOT."""
        state = self.state(question)
        directory = self._settings.directory / SNAPSHOT
        directory.mkdir(mode=0o700, exist_ok=True)
        flows = pa.Table.from_batches([self._collector.snapshot()])
        for name, table in (("flows", flows), ("series", self._tail())):
            with files.atomic_path(directory / f"{name}.parquet") as part:
                pq.write_table(table, part)
        return {"directory": SNAPSHOT, **state}


class Rates:
    """Bits per second between two looks at some flows, by the reports' own times."""

    def __init__(self):
        self._before: dict[int, tuple[int, int]] = {}  # flow: bytes and time as of the look before

    def beside(self, flows: pa.RecordBatch) -> list[dict]:
        """The flows with rate_bps: since the look before, 0 where no report came; of one that was not seen then its
        throughput_bps.
        """
        rows = flows.to_pylist()
        for row in rows:
            row["rate_bps"] = self._rate(row)
        self._before = {row["flow"]: (row["bytes"], row["last_ns"]) for row in rows}
        return rows

    def _rate(self, row: dict) -> int:
        if row["flow"] not in self._before:
            return row["throughput_bps"] or 0
        sent, then_ns = self._before[row["flow"]]
        passed_ns = row["last_ns"] - then_ns
        return round((row["bytes"] - sent) * 8e9 / passed_ns) if passed_ns > 0 else 0
