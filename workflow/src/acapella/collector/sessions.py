"""Assigns queue pairs to data planes: one session per hello, and rules for when older queue pairs become invalid.

A lost connection does not invalidate queue pairs in the registers, because a switch continues to report while its
control plane restarts. The queue pairs of a session are retired when the registers contain a newer session of the same
data plane, or when a different data plane needs the capacity.
"""

from dataclasses import dataclass, field
from typing import Protocol

from acapella.common.control_channel import REPORT_BYTES, Hello, QueuePair, Session
from acapella_core.control_lines import InvalidMessage


class QueuePairAllocator(Protocol):
    """Allocates and retires queue pairs."""

    def allocate(self, count: int, ring_bytes: int, report_format: int) -> tuple[QueuePair, ...]:
        """Return new queue pairs, with numbers not yet used in this run; reports to them are accepted from now on."""

    def next_epoch(self) -> int:
        """Return a number for a data plane's first epoch (32 bits), larger than in any report so far."""

    def retire(self, numbers: list[int]) -> None:
        """Reject and count reports to these queue pairs from now on; reports already in their rings are still read."""


@dataclass
class SessionState:
    """A session and its state."""

    session: Session
    hello: Hello
    connected: bool = True
    written: bool = False
    retired: bool = False
    ended: bool = False
    reports_sent: int | None = None  # reported by the data plane when it ended
    numbers: list[int] = field(default_factory=list)


class Sessions:
    """All sessions of a run, in order of their start, numbered from 1."""

    def __init__(self, allocator: QueuePairAllocator, *, queue_pairs: int, ring_bytes: int, max_sessions: int = 1):
        """Allow ``max_sessions`` data planes at a time, each with ``queue_pairs`` rings of up to ``ring_bytes``."""
        self._allocator = allocator
        self._queue_pairs = queue_pairs
        self._ring_bytes = ring_bytes
        self._max_sessions = max_sessions
        self._sessions: dict[int, SessionState] = {}

    def begin(self, hello: Hello) -> Session:
        """Start a session for a data plane. Raises InvalidMessage if the maximum number of others is connected."""
        others = [entry for entry in self._active() if entry.connected and entry.hello.instance != hello.instance]
        if len(others) >= self._max_sessions:
            raise InvalidMessage(f"busy: {len(others)} other data plane{'s' * (len(others) > 1)} connected")
        report_bytes = REPORT_BYTES[hello.format]
        pairs = self._allocator.allocate(self._queue_pairs, ring_size(self._ring_bytes, report_bytes), hello.format)
        # 0: simultaneous data planes number their first epoch by their start time. With epochs of 1 s, the epochs of a
        # flow that several of them observe then have almost the same numbers.
        epoch = 0 if others else self._allocator.next_epoch()
        session = Session(len(self._sessions) + 1, report_bytes, epoch, pairs)
        self._sessions[session.number] = SessionState(session, hello, numbers=[pair.number for pair in pairs])
        return session

    def connected(self, instance: str, *, before: int) -> list[int]:
        """Return the connected sessions of a data plane that are older than ``before``."""
        entries = [entry for number, entry in self._sessions.items() if number < before and entry.connected]
        return [entry.session.number for entry in entries if entry.hello.instance == instance]

    def written(self, number: int) -> None:
        """Record that a session's queue pairs are in the registers.

        Retire older sessions of the same data plane, and disconnected sessions beyond the maximum.
        """
        entry = self._entry(number)
        entry.written = True
        older = [other for other in self._active() if other.session.number < number]
        self._retire([other for other in older if other.hello.instance == entry.hello.instance])
        disconnected_entries = [other for other in self._active() if not other.connected and other is not entry]
        self._retire(disconnected_entries[: max(0, len(self._active()) - self._max_sessions)])

    def ended(self, number: int, reports: int | None) -> None:
        """Record the end of a data plane, and the number of reports that it sent, if known."""
        entry = self._entry(number)
        entry.ended, entry.reports_sent = True, reports

    def reports_sent(self) -> int | None:
        """Return the number of reports that all data planes sent; None if there are none or one did not report it."""
        sent = {entry.hello.instance: entry.reports_sent for entry in self._sessions.values()}  # last session
        return None if None in sent.values() or not sent else sum(sent.values())

    def all_ended(self) -> bool:
        """Return whether at least one data plane connected, and all active ones have ended."""
        return bool(self._sessions) and all(entry.ended for entry in self._active())

    def disconnected(self, number: int) -> bool:
        """Record a lost connection; retire queue pairs not yet in registers. Return whether it was unexpected."""
        entry = self._entry(number)
        entry.connected = False
        if not entry.written:
            self._retire([entry])
        return not entry.ended

    def summary(self) -> list[dict]:
        """Return a row per session, without keys, for counters.json and for requests."""
        return [
            {
                "session": number,
                "program": entry.hello.program,
                "format": entry.hello.format,
                "instance": entry.hello.instance,
                "queue_pairs": entry.numbers,
                "connected": entry.connected,
                "written": entry.written,
                "retired": entry.retired,
                "ended": entry.ended,
                "reports_sent": entry.reports_sent,
            }
            for number, entry in self._sessions.items()
        ]

    def _entry(self, number: int) -> SessionState:
        if number not in self._sessions:
            raise InvalidMessage("no such session")
        return self._sessions[number]

    def _active(self) -> list[SessionState]:
        return [entry for entry in self._sessions.values() if not entry.retired]

    def _retire(self, entries: list[SessionState]) -> None:
        for entry in entries:
            entry.retired = True
            self._allocator.retire(entry.numbers)


def ring_size(max_bytes: int, report_bytes: int) -> int:
    """Return the largest multiple of a report's length up to ``max_bytes``, but at least one report."""
    return max(1, max_bytes // report_bytes) * report_bytes
