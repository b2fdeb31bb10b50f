"""Which queue pairs are whose: a session for each data plane that said hello, and when old numbers stop counting.

A lost connection alone takes no number away: a switch goes on reporting while its control plane is started anew. The
numbers of a session are refused once a newer one of the same data plane is in its registers, or once the room is
needed for another data plane.
"""

from dataclasses import dataclass, field
from typing import Protocol

from acapella.common.control_channel import REPORT_BYTES, Hello, QueuePair, Refused, Session


class Receiver(Protocol):
    """What receives the reports: it makes queue pairs and takes them back."""

    def issue(self, count: int, ring_bytes: int, report_format: int) -> tuple[QueuePair, ...]:
        """New queue pairs, with numbers that this run never had; from now on reports to them are taken."""

    def next_epoch(self) -> int:
        """A number for a data plane's first epoch: above that of every epoch in any report so far; 32 bits."""

    def retire(self, numbers: list[int]) -> None:
        """Refuse and count reports to these numbers from now on; what is in their rings is still read."""


@dataclass
class Entry:
    """A session and what is known of it."""

    session: Session
    hello: Hello
    connected: bool = True
    written: bool = False
    retired: bool = False
    ended: bool = False
    reports_told: int | None = None  # by the data plane, when it ended
    numbers: list[int] = field(default_factory=list)


class Sessions:
    """All sessions of a run, in the order of their beginning, numbered from 1."""

    def __init__(self, receiver: Receiver, *, queue_pairs: int, ring_bytes: int, most: int = 1):
        """``most`` data planes at once, each with ``queue_pairs`` rings of at most ``ring_bytes``."""
        self._receiver = receiver
        self._queue_pairs = queue_pairs
        self._ring_bytes = ring_bytes
        self._most = most
        self._entries: dict[int, Entry] = {}

    def begin(self, hello: Hello) -> Session:
        """A session for a data plane. Raises Refused where as many others as may be are connected."""
        others = [entry for entry in self._open() if entry.connected and entry.hello.instance != hello.instance]
        if len(others) >= self._most:
            raise Refused(f"busy: {len(others)} other data plane{'s' * (len(others) > 1)} may report here at once")
        report_bytes = REPORT_BYTES[hello.format]
        pairs = self._receiver.issue(self._queue_pairs, ring_size(self._ring_bytes, report_bytes), hello.format)
        # Data planes that report at once both count seconds: an epoch of a flow that both see is one then.
        epoch = 0 if others else self._receiver.next_epoch()
        session = Session(len(self._entries) + 1, report_bytes, epoch, pairs)
        self._entries[session.number] = Entry(session, hello, numbers=[pair.number for pair in pairs])
        return session

    def connected(self, instance: str, *, before: int) -> list[int]:
        """The sessions of a data plane that have a connection and are older than ``before``."""
        entries = [entry for number, entry in self._entries.items() if number < before and entry.connected]
        return [entry.session.number for entry in entries if entry.hello.instance == instance]

    def written(self, number: int) -> None:
        """The session's numbers are in the registers: older ones of the same data plane are refused from now on."""
        entry = self._entry(number)
        entry.written = True
        older = [other for other in self._open() if other.session.number < number]
        self._retire([other for other in older if other.hello.instance == entry.hello.instance])
        gone = [other for other in self._open() if not other.connected and other is not entry]
        self._retire(gone[: max(0, len(self._open()) - self._most)])

    def ended(self, number: int, reports: int | None) -> None:
        """The data plane has ended, after so many reports of this session, if it can tell."""
        entry = self._entry(number)
        entry.ended, entry.reports_told = True, reports

    def reports_sent(self) -> int | None:
        """Reports that all data planes say they sent since their starts; None where one has not said it."""
        told = {entry.hello.instance: entry.reports_told for entry in self._entries.values()}  # of its last session
        return None if None in told.values() or not told else sum(told.values())

    def all_ended(self) -> bool:
        """Whether there were data planes, and each that may still report has said that it ended."""
        return bool(self._entries) and all(entry.ended for entry in self._open())

    def lost(self, number: int) -> bool:
        """The connection is gone; numbers that no register has are refused at once. Whether nobody said so before."""
        entry = self._entry(number)
        entry.connected = False
        if not entry.written:
            self._retire([entry])
        return not entry.ended

    def summary(self) -> list[dict]:
        """A row a session, without any key: for counters.json and for who asks."""
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
                "reports_sent": entry.reports_told,
            }
            for number, entry in self._entries.items()
        ]

    def _entry(self, number: int) -> Entry:
        if number not in self._entries:
            raise Refused("there is no such session")
        return self._entries[number]

    def _open(self) -> list[Entry]:
        return [entry for entry in self._entries.values() if not entry.retired]

    def _retire(self, entries: list[Entry]) -> None:
        for entry in entries:
            entry.retired = True
            self._receiver.retire(entry.numbers)


def ring_size(most: int, report_bytes: int) -> int:
    """The largest multiple of a report's bytes that is no more than ``most``; one report at least."""
    return max(1, most // report_bytes) * report_bytes
