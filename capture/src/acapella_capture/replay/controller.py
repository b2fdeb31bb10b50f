"""The user's side of the control channel: connections to one or several agents; requests to all of them in parallel."""

import base64
import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from acapella_core.control_lines import Challenge, InvalidMessage, Secret, address
from acapella_core.errors import UserError

from . import channel, clocks, messages
from .channel import MAX_RESPONSE_BYTES
from .clocks import Offset
from .frame_socket import FrameSocket, is_frame_address
from .program import COMMAND_S, FILE_S

CONNECT_S = 5.0
RESPONSE_S = COMMAND_S + 5
FILE_RESPONSE_S = FILE_S + 5  # the agent writes a file first
IDLE_S, PROBE_S, PROBES = 5, 2, 3  # TCP keepalive: a peer that vanished is noticed within 11 s
KEEPALIVE_S = 2.0  # interval of requests to an agent that waits for others; less than Timeouts.silent_s
SIGNAL_CHECK_S = 0.5
MAX_DEPARTURES_BYTES = 1 << 40


@dataclass
class Remote:
    """A connection to an agent. ``name`` is its address, HOST:PORT or INTERFACE/MAC; ``welcome`` is the content of
    its first message.

    As a context, it connects, and ends the connection with `bye`. After an exception, it closes the connection without
    `bye`, so the agent stops the recording or run of this controller. Methods raise UserError if the agent rejects a
    request, or the connection is lost.
    """

    name: str
    secret: Secret = field(repr=False)
    welcome: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._socket: socket.socket | FrameSocket | None = None
        self._quit = False  # the agent ends, and so does this connection

    def __enter__(self) -> Self:
        try:
            with self._errors():
                self._connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and not self._quit:
                self.end()
        finally:
            self.close()

    def end(self) -> None:
        """End the connection; the recording or run of this controller continues. No effect if it has ended."""
        if self._socket is not None:
            try:
                self.request(messages.Disconnect())
            finally:
                self.close()

    def keep_alive(self, until: threading.Event) -> None:
        """Send requests until an event, so that the agent does not regard this side as lost.

        Returns earlier if the connection has ended or fails: the next request raises the reason.
        """
        with contextlib.suppress(UserError):
            while not until.wait(KEEPALIVE_S) and self._socket is not None and not self._quit:
                self.request(messages.Clock())

    def is_lost(self) -> bool:
        """Return whether the agent has closed a TCP connection or no longer responds to TCP. Sends no request."""
        if not isinstance(self._socket, socket.socket):
            return False  # in-band: only a request can find out
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)  # nothing else arrives between requests
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self.interrupt()
            self._socket.close()
            self._socket = None

    def interrupt(self) -> None:
        """End a request of another thread, and the connection."""
        with contextlib.suppress(OSError, AttributeError):  # not connected
            self._socket.shutdown(socket.SHUT_RDWR)

    def request(self, request: messages.Request) -> dict[str, Any]:
        """Send a request and return its result."""
        uses_file = isinstance(request, messages.Save | messages.Fetch)
        self._quit = isinstance(request, messages.Quit)
        with self._errors():
            if self._socket is None:
                raise InvalidMessage("the connection is closed")
            self._socket.settimeout(FILE_RESPONSE_S if uses_file else RESPONSE_S)
            self._socket.sendall(self._writer.line(**messages.encode(request)))
            return messages.done_of(self._message(), self._writer.sequence)

    def status(self) -> dict[str, Any]:
        """Return the state and the counters of the agent."""
        return self.request(messages.Status())

    def clock(self, now_ns: Callable[[], int] = time.time_ns) -> Offset:
        """Return the offset of the agent's clock from this machine's."""

        def request() -> tuple[int, int]:
            done = self.request(messages.Clock())
            return whole_number(done, "received_ns"), whole_number(done, "sent_ns")

        with self._errors():
            return clocks.measure(request, now_ns)

    def fetch_departures(self, target: Path) -> None:
        """Write the binary departures of the last run to a file."""
        with self._errors(), target.open("wb") as file:
            size = None
            while size is None or file.tell() < size:
                done = self.request(messages.Fetch(file.tell()))
                size = whole_number(done, "size") if size is None else size
                part = base64.b64decode(str(done.get("part")), validate=True)
                if not size <= MAX_DEPARTURES_BYTES or not 0 < len(part) <= size - file.tell():
                    raise InvalidMessage("a part of the departures is missing")
                file.write(part)

    def _connect(self) -> None:
        """Connect and prove that this side has the secret. The HMAC of the welcome proves that the agent has it."""
        self._socket = FrameSocket(self.name, CONNECT_S) if is_frame_address(self.name) else tcp_socket(self.name)
        self._lines = self._socket.makefile("rb")
        agent_challenge, own_challenge = channel.decode_challenge(self._line()), Challenge.new()
        keys = channel.Keys.derive(self.secret, agent_challenge, own_challenge)
        self._socket.sendall(channel.encode_proof(own_challenge, keys.proof))
        self._writer = channel.Writer(keys.from_controller)
        self._reader = channel.Reader(keys.from_agent, MAX_RESPONSE_BYTES)
        self._socket.settimeout(RESPONSE_S)
        message = self._message()
        if "error" in message:
            messages.done_of({"to": None, **message}, 0)  # raises the agent's reason
        if not isinstance(message.get("welcome"), dict):
            raise InvalidMessage("the replayer's first line is not a welcome")
        self.welcome = message["welcome"]

    def _message(self) -> dict[str, Any]:
        """Return the next authentic message."""
        line = self._line()
        if line.startswith(b"{"):  # before the proof was accepted
            raise InvalidMessage(channel.error_text(channel.parsed(line)))
        return self._reader.message(line)[1]

    def _line(self) -> bytes:
        """Return the next line without its end."""
        line = self._lines.readline(MAX_RESPONSE_BYTES + 1)
        if not line.endswith(b"\n"):
            raise InvalidMessage("line too long" if len(line) > MAX_RESPONSE_BYTES else "the connection was closed")
        return line[:-1]

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise connection errors and rejected requests as UserError with the agent's address."""
        try:
            yield
        except InvalidMessage as error:
            raise UserError(str(error), where=f"replayer {self.name}") from None
        except TimeoutError:
            raise UserError("no reply", where=f"replayer {self.name}", outside=True) from None
        except ValueError:  # of base64
            raise UserError("sent departures that are not base64", where=f"replayer {self.name}") from None
        except OSError as error:
            what = f"connection failed: {error.strerror or error}"
            raise UserError(what, where=f"replayer {self.name}", outside=True) from error


def tcp_socket(name: str) -> socket.socket:
    """Return a connection to HOST:PORT. Raises OSError."""
    host, port = address(name)
    connection = socket.create_connection((host, port), timeout=CONNECT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    detect_lost_peer(connection)
    return connection


def detect_lost_peer(connection: socket.socket) -> None:
    """Have the kernel end a connection whose peer vanished without a reset, even if unacknowledged data is pending."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, (IDLE_S + PROBE_S * PROBES) * 1000)


def whole_number(done: dict[str, Any], name: str) -> int:
    """Return a number of a result. Raises InvalidMessage if it is not a non-negative integer."""
    value = done.get(name)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise InvalidMessage(f"{name} is not a whole number")
    return value


class Group:
    """Several agents, controlled together. As a context, it connects to all of them, or to none."""

    def __init__(self, names: Sequence[str], secret: Secret):
        self.remotes = [Remote(name, secret) for name in names]
        self._connections = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self.each(Remote.__enter__)  # in parallel: no agent waits in silence for the others
        except BaseException:
            for remote in self.remotes:
                remote.close()
            raise
        for remote in self.remotes:
            self._connections.push(remote)
        return self

    def __exit__(self, *error: object) -> None:
        self._connections.__exit__(*error)

    def each(self, function: Callable[[Remote], Any], chosen: Sequence[Remote] | None = None) -> list[Any]:
        """Return the results of a function for all agents, or for the chosen ones, in parallel.

        Raises the first error after all have ended.

        Meanwhile, the connections of agents that have finished are kept alive. Ctrl-C does not wait for agents that do
        not reply: closing their connections ends the requests.
        """
        remotes = self.remotes if chosen is None else chosen
        ended: list[Remote] = []
        all_ended = threading.Event()

        def work(remote: Remote) -> Any:
            try:
                return function(remote)
            finally:
                ended.append(remote)
                if len(ended) == len(remotes):
                    all_ended.set()
                remote.keep_alive(all_ended)

        with ThreadPoolExecutor(len(remotes)) as pool:
            try:
                futures = [pool.submit(work, remote) for remote in remotes]
                while wait(futures, SIGNAL_CHECK_S).not_done:
                    pass  # a signal that arrives just before a wait does not end it
                return [future.result() for future in futures]
            except (KeyboardInterrupt, SystemExit):
                for remote in self.remotes:
                    remote.interrupt()
                raise
            finally:
                all_ended.set()  # even if a thread could not be started

    def request(self, request: messages.Request) -> list[dict[str, Any]]:
        """Send the same request to every agent and return the results."""
        return self.each(lambda remote: remote.request(request))
