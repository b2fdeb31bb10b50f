"""Implements the control plane's side of the control channel: writes the collector's queue pairs to the program's
registers.

A thread connects, proves that it knows the secret, sends hello, and writes the queue pairs of each session to the
registers. If the connection is lost or the collector times out, it reconnects with exponential backoff. A restarted
collector has a new secret (the file is reread for each connection) and assigns new queue pairs. Until then, the
program continues to report to the old queue pairs: a running collector accepts these reports, a new one rejects and
counts them, and reports that no collector received appear as a gap in their sequence numbers.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

from acapella.common.control_channel import (
    MAX_QUEUE_PAIRS,
    PACE,
    Alive,
    Collector,
    Ended,
    Error,
    Hello,
    Message,
    Pace,
    Session,
    Written,
    decode,
    encode,
)
from acapella_core.control_lines import MAX_LINE_BYTES, Challenge, InvalidMessage, Secret, secret_of

INITIAL_BACKOFF_S = 0.1  # doubled after each failed attempt
MAX_BACKOFF_S = 5.0
RECEIVE_BYTES = 65_536


def register_commands(session: Session, slots: int = MAX_QUEUE_PAIRS) -> list[str]:
    """Return the loader's commands that make a program report to a session's queue pairs.

    Numbers are cleared first and set last: a report in between finds no queue pair, which the program counts, and never
    an incomplete one. Raises ValueError if the program's mask cannot select among the queue pairs.
    """
    count = len(session.queue_pairs)
    if count & (count - 1) or count > slots:
        raise ValueError(f"{count} queue pairs: must be a power of two up to {slots}")
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
    """Keeps a data plane in a session with the collector. As a context manager, it stops its thread on exit.

    ``write`` writes a session to the registers and may raise OSError. ``log`` is called with a message at every change.
    """

    def __init__(
        self,
        collector: Collector,
        hello: Hello,
        write: Callable[[Session], None],
        *,
        log: Callable[[str], None],
        pace: Pace = PACE,
    ):
        self._collector = collector
        self._hello = hello
        self._write = write
        self._log = log
        self._pace = pace
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._writing = threading.Lock()  # while a session is written
        self._session: Session | None = None
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="control plane", daemon=True)
        self.sessions = 0  # number of sessions written
        self.failure: Exception | None = None  # error of ``write``: the data plane has failed
        self.reason = "no response"  # why there is no session

    def __enter__(self) -> "ControlPlane":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        self._thread.join()

    def wait(self, timeout_s: float, sessions: int = 1) -> bool:
        """Wait until a number of sessions have been written; return False after the timeout or a failure."""
        with self._changed:
            return (
                self._changed.wait_for(lambda: self.sessions >= sessions or self.failure, timeout_s)
                and not self.failure
            )

    def ended(self, reports: int | None) -> None:
        """Report the end of the data plane, and its number of reports, to the collector if connected."""
        with self._writing, self._changed:
            session, connection = self._session, self._socket
        if session and connection:
            try:
                self._send(connection, Ended(session.number, reports))
            except OSError as error:
                self._log(f"cannot report the end to the collector: {error}")

    def _send(self, connection: socket.socket, message: Message) -> None:
        """Send a line without interleaving, because two threads send."""
        with self._sending:
            connection.sendall(encode(message))

    def _run(self) -> None:
        """Connect repeatedly until stopped."""
        backoff = INITIAL_BACKOFF_S
        while not self._stop.is_set():
            sessions_before = self.sessions
            self.reason = self._connect()
            if self._stop.is_set() or self.failure:
                return
            backoff = INITIAL_BACKOFF_S if self.sessions > sessions_before else min(2 * backoff, MAX_BACKOFF_S)
            address = f"{self._collector.host}:{self._collector.port}"
            self._log(f"no session with the collector at {address}: {self.reason}; retrying")
            self._stop.wait(backoff)

    def _connect(self) -> str:
        """Serve one connection until it ends; return the reason for its end."""
        try:
            secret = secret_of(self._collector.secret)
            address = (self._collector.host, self._collector.port)
            with socket.create_connection(address, timeout=self._pace.dead_s) as connection:
                self._socket = connection
                for line in self._lines(connection):
                    self._handle(line, connection, secret)
                close(connection, self._pace.dead_s)
            return "the collector closed the connection"
        except (OSError, InvalidMessage) as error:
            file = f"{error.filename}: " if getattr(error, "filename", None) else ""
            return file + (getattr(error, "strerror", None) or str(error) or type(error).__name__)
        finally:
            with self._changed:
                self._socket, self._session = None, None

    def _lines(self, connection: socket.socket) -> Iterator[bytes]:
        """Yield lines from the collector and send keepalives. Raises OSError if the collector times out."""
        pending, received_at, sent_at, count = b"", time.monotonic(), time.monotonic(), 0
        connection.settimeout(self._pace.alive_s / 4)
        while not self._stop.is_set():
            try:
                received = connection.recv(RECEIVE_BYTES)
                if not received:
                    return
                received_at = time.monotonic()
                pending += received
            except TimeoutError:
                pass
            *lines, pending = pending.split(b"\n")
            yield from lines
            if len(pending) > MAX_LINE_BYTES:
                raise InvalidMessage("line from the collector is too long")
            now = time.monotonic()
            if now - received_at > self._pace.dead_s:
                raise OSError(f"no reply for {self._pace.dead_s:g} s")
            if self._session and now - sent_at >= self._pace.alive_s:
                count, sent_at = count + 1, now
                self._send(connection, Alive(count))

    def _handle(self, line: bytes, connection: socket.socket, secret: Secret) -> None:
        """Handle a message from the collector."""
        match decode(line):
            case Challenge() as challenge:
                self._send(connection, secret.proof(challenge))
                self._send(connection, self._hello)
            case Session() as session:
                self._write_session(session, connection)
            case Error(why=why):
                raise InvalidMessage(f"error from the collector: {why}")
            case Alive():
                pass
            case _:
                raise InvalidMessage("the collector sent a message that only control planes send")

    def _write_session(self, session: Session, connection: socket.socket) -> None:
        """Write a session's queue pairs to the registers, and confirm this to the collector."""
        with self._writing:
            try:
                self._write(session)
            except Exception as failure:
                self.failure = failure
                with self._changed:
                    self._changed.notify_all()
                raise OSError("cannot write the data plane's registers") from failure
            self._send(connection, Written(session.number))
            with self._changed:
                self._session = session
                self.sessions += 1
                self._changed.notify_all()
        self._log(f"session {session.number} with the collector: {len(session.queue_pairs)} queue pairs")


def close(connection: socket.socket, timeout_s: float) -> None:
    """Shut down the connection and read until the collector closes it: then, the collector has the last message."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(timeout_s)
        while connection.recv(RECEIVE_BYTES):
            pass
