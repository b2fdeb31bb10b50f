"""What a running collector answers: its largest flows, its state, and snapshots of its tables as Parquet."""

import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from acapella_core import collector as core
from acapella_core import files

from ..control_channel import Refused
from .place import SNAPSHOT
from .questions import MOST_FLOWS, Answer
from .sessions import Sessions
from .settings import Settings

ORDERS = {  # of `top`, largest first: the column
    "bytes": "bytes",
    "packets": "packets",
    "throughput": "rate_bps",
    "rtt": "handshake_rtt_ns",
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
            flows = self._rates.beside(self._collector.snapshot())
        order = pc.sort_indices(  # nulls last
            flows, [(ORDERS[by], "descending"), ("flow", "ascending")]
        )
        return {"flows": flows.take(order[:count]).to_pylist(), **state}

    def snapshot(self, question: dict) -> dict:
        """All flows as they are now, and the newest rows of the series, as Parquet files in the folder SNAPSHOT."""
        state = self.state(question)
        folder = self._settings.folder / SNAPSHOT
        folder.mkdir(mode=0o700, exist_ok=True)
        flows = pa.Table.from_batches([self._collector.snapshot()])
        for name, table in (("flows", flows), ("series", self._tail())):
            with files.atomic_path(folder / f"{name}.parquet") as part:
                pq.write_table(table, part)
        return {"folder": SNAPSHOT, **state}


class Rates:
    """Bits per second between two looks at the flows, by the reports' own times."""

    def __init__(self):
        self._bytes = np.zeros(0, np.uint64)  # by the flow's number, as of the look before
        self._last_ns = np.zeros(0, np.int64)

    def beside(self, flows: pa.RecordBatch) -> pa.Table:
        """The flows with the column rate_bps: since the look before; of a new flow since its start; 0 where no report
        came.
        """
        number = flows.column("flow").to_numpy()
        seen = flows.column("bytes").to_numpy()
        last_ns = flows.column("last_ns").to_numpy()
        mean = pc.fill_null(flows.column("throughput_bps"), 0).to_numpy()
        known = number < len(self._bytes)
        was = np.where(known, number, 0)
        before, then = (self._bytes[was], self._last_ns[was]) if len(self._bytes) else (seen, last_ns)
        passed = last_ns - then
        with np.errstate(divide="ignore", invalid="ignore"):
            moving = np.where(passed > 0, (seen - before) * 8e9 / passed, 0)
        rate = np.where(known, moving, mean)
        self._bytes, self._last_ns = np.zeros(len(number), np.uint64), np.zeros(len(number), np.int64)
        inside = number < len(number)
        self._bytes[number[inside]], self._last_ns[number[inside]] = seen[inside], last_ns[inside]
        rates = pa.array(np.round(rate).astype(np.uint64))
        return pa.Table.from_batches([flows]).append_column("rate_bps", rates)
