"""The control plane's end of the control channel: a session with the collector, in the program's registers.

A thread connects, proves that it has the secret, says hello, and has each session's queue pairs written. Where the
connection ends, or the collector is silent, it connects again, after longer and longer pauses; a collector that was
started anew has a new secret, which is read again each time, and gives new queue pairs.
Meanwhile the program goes on reporting to the old ones: a collector that lives takes them, a new one refuses and counts
them, and what nobody received shows as a gap in the reports' numbers.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

from acapella.common.control_channel import (
    MOST_LINE_BYTES,
    MOST_QUEUE_PAIRS,
    PACE,
    Alive,
    Challenge,
    Collector,
    Ended,
    Error,
    Hello,
    Message,
    Pace,
    Refused,
    Secret,
    Session,
    Written,
    decode,
    encode,
    secret_of,
)

FIRST_PAUSE_S = 0.1  # before the second attempt; each next one is twice as long
LONGEST_PAUSE_S = 5.0
RECEIVE_BYTES = 65_536


def register_commands(session: Session, slots: int = MOST_QUEUE_PAIRS) -> list[str]:
    """The loader's commands that have a program report into a session's queue pairs.

    Numbers are taken away first and given last: a report between two writes finds no queue pair, which the program
    counts, and never one that is half written. Raises ValueError where the program's mask cannot choose among them.
    """
    count = len(session.queue_pairs)
    if count & (count - 1) or count > slots:
        raise ValueError(f"{count} queue pairs are no power of two up to {slots}")
    lines = [f"register qp_number 0 0 {slots}", f"register qp_mask 0 {count - 1}"]
    for pair in session.queue_pairs:
        values = {
            "qp_psn": pair.psn,
            "qp_address": pair.base,
            "qp_base": pair.base,
            "qp_end": pair.base + pair.size,
            "qp_key": pair.key,
        }
        lines += [f"register {name} {pair.index} {value}" for name, value in values.items()]
    return lines + [f"register qp_number {pair.index} {pair.number}" for pair in session.queue_pairs]


class ControlPlane:
    """Keeps a data plane in a session. ``write`` puts a session into its registers; it may raise OSError.

    ``say`` gets a line for people at every change. Use as a context: the thread ends with it.
    """

    def __init__(
        self,
        collector: Collector,
        hello: Hello,
        write: Callable[[Session], None],
        *,
        say: Callable[[str], None],
        pace: Pace = PACE,
    ):
        self._collector = collector
        self._hello = hello
        self._write = write
        self._say = say
        self._pace = pace
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._taking = threading.Lock()  # while a session is written
        self._session: Session | None = None
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._keep, name="control plane", daemon=True)
        self.sessions = 0  # so many were written
        self.failure: Exception | None = None  # of ``write``: the data plane is gone
        self.reason = "nothing answers"  # why there is no session

    def __enter__(self) -> "ControlPlane":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, timeout_s: float, sessions: int = 1) -> bool:
        """Wait until so many sessions were written; whether they were."""
        with self._changed:
            return (
                self._changed.wait_for(lambda: self.sessions >= sessions or self.failure, timeout_s)
                and not self.failure
            )

    def ended(self, reports: int | None) -> None:
        """Tell the collector that the data plane has ended after so many reports; where there is a connection."""
        with self._taking, self._changed:
            session, connection = self._session, self._socket
        if session and connection:
            try:
                self._send(connection, Ended(session.number, reports))
            except OSError as error:
                self._say(f"the collector was not told of the end: {error}")

    def _send(self, connection: socket.socket, message: Message) -> None:
        """Send a line, whole: two threads do."""
        with self._sending:
            connection.sendall(encode(message))

    def _keep(self) -> None:
        """Connect again and again until there is an end."""
        pause = FIRST_PAUSE_S
        while not self._stop.is_set():
            before = self.sessions
            self.reason = self._converse()
            if self._stop.is_set() or self.failure:
                return
            pause = FIRST_PAUSE_S if self.sessions > before else min(2 * pause, LONGEST_PAUSE_S)
            where = f"{self._collector.host}:{self._collector.port}"
            self._say(f"no session with the collector at {where}: {self.reason}; trying again")
            self._stop.wait(pause)

    def _converse(self) -> str:
        """One connection, until it ends; why it did."""
        try:
            secret = secret_of(self._collector.secret)
            address = (self._collector.host, self._collector.port)
            with socket.create_connection(address, timeout=self._pace.dead_s) as connection:
                self._socket = connection
                for line in self._lines(connection):
                    self._heed(line, connection, secret)
                close(connection, self._pace.dead_s)
            return "it closed the connection"
        except (OSError, Refused) as why:
            where = f"{why.filename}: " if getattr(why, "filename", None) else ""
            return where + (getattr(why, "strerror", None) or str(why) or type(why).__name__)
        finally:
            with self._changed:
                self._socket, self._session = None, None

    def _lines(self, connection: socket.socket) -> Iterator[bytes]:
        """Lines from the collector, while signs of life go out. Raises OSError where it is silent for too long."""
        waiting, heard, said, count = b"", time.monotonic(), time.monotonic(), 0
        connection.settimeout(self._pace.alive_s / 4)
        while not self._stop.is_set():
            try:
                received = connection.recv(RECEIVE_BYTES)
                if not received:
                    return
                heard = time.monotonic()
                waiting += received
            except TimeoutError:
                pass
            *whole, waiting = waiting.split(b"\n")
            yield from whole
            if len(waiting) > MOST_LINE_BYTES:
                raise Refused("its line is too long")
            now = time.monotonic()
            if now - heard > self._pace.dead_s:
                raise OSError("it is silent")
            if self._session and now - said >= self._pace.alive_s:
                count, said = count + 1, now
                self._send(connection, Alive(count))

    def _heed(self, line: bytes, connection: socket.socket, secret: Secret) -> None:
        """Do what the collector asks for."""
        match decode(line):
            case Challenge() as challenge:
                self._send(connection, secret.proof(challenge))
                self._send(connection, self._hello)
            case Session() as session:
                self._take(session, connection)
            case Error(why=why):
                raise Refused(f"it says: {why}")
            case Alive():
                pass
            case _:
                raise Refused("it says what is for the control plane to say")

    def _take(self, session: Session, connection: socket.socket) -> None:
        """Have a session's queue pairs written, and say so."""
        with self._taking:
            try:
                self._write(session)
            except Exception as failure:
                self.failure = failure
                with self._changed:
                    self._changed.notify_all()
                raise OSError("the data plane took no registers") from failure
            self._send(connection, Written(session.number))
            with self._changed:
                self._session = session
                self.sessions += 1
                self._changed.notify_all()
        self._say(f"session {session.number} with the collector: {len(session.queue_pairs)} queue pairs")


def close(connection: socket.socket, patience_s: float) -> None:
    """Say that nothing more comes, and read until the other side has done so: else it may not have read the last."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(patience_s)
        while connection.recv(RECEIVE_BYTES):
            pass
