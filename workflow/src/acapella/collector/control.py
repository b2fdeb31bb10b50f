"""The collector's side of the control channel: an asyncio server with one task per connection.

Every invalid line is answered with an error, and no client can stop the collector. A connection without proof of the
secret has a short timeout, does not count towards the limit of authenticated connections, and is closed if too many
others are waiting.
"""

import asyncio
import contextlib
import hmac
from collections import Counter

from acapella.common.control_channel import PACE, Alive, Ended, Error, Hello, Message, Pace, Written, decode, encode
from acapella_core import names
from acapella_core.control_lines import MAX_LINE_BYTES, Challenge, InvalidMessage, Proof, Secret, lines, read_line
from acapella_core.errors import UserError

from .sessions import Sessions

MAX_CONNECTIONS = 64  # authenticated
MAX_UNAUTHENTICATED = 256  # more than the backlog of a listening socket
MAX_REJECTED_LINES = 16  # per connection, which is then closed
MAX_UNSENT_BYTES = 65_536  # to a client that does not read
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ControlServer:
    """Assigns sessions to control planes. ``counts`` contains the numbers of connections, rejected lines, and so on."""

    def __init__(self, sessions: Sessions, secret: Secret, pace: Pace = PACE):
        self.sessions = sessions
        self.secret = secret
        self.pace = pace
        self.connections: dict[int, asyncio.StreamWriter] = {}  # by session number
        self._tasks: set[asyncio.Task] = set()
        self._unauthenticated: dict[asyncio.Task, asyncio.StreamWriter] = {}  # unauthenticated, oldest first
        self.counts: Counter[str] = Counter()

    async def start(self, host: str, port: int, *, anywhere: bool = False) -> tuple[str, int]:
        """Listen; return the address, with the port chosen by the kernel for port 0. Raises UserError.

        The keys of queue pairs are sent unencrypted, so only loopback addresses are allowed without ``anywhere``.
        """
        if host not in LOOPBACK and not anywhere:
            raise UserError(
                "the control channel sends keys unencrypted, so others could read them",
                where=f"--listen {host}",
                fix="listen on 127.0.0.1, or add --listen-anywhere if no one else uses the network",
            )
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=MAX_LINE_BYTES)
        except OSError as error:
            raise UserError(f"cannot listen: {error.strerror or error}", where=f"--listen {host}:{port}") from error
        return self._server.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        """Stop listening and close all connections."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        self.counts["connections"] += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        connection = Connection(self, writer)
        try:
            if not await self._authenticated(task, connection, reader, writer):
                return
            if len(self._tasks) - len(self._unauthenticated) > MAX_CONNECTIONS:
                connection.refuse("too many connections")
            else:
                await connection.run(reader)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # disconnected, or canceled by close()
        finally:
            self._tasks.discard(task)
            connection.closed()
            with contextlib.suppress(OSError):
                writer.close()

    async def _authenticated(self, task: asyncio.Task, connection: "Connection", reader, writer) -> bool:
        """Wait for proof that the client has the secret; return whether it was valid."""
        self._unauthenticated[task] = writer
        if len(self._unauthenticated) > MAX_UNAUTHENTICATED:
            self.counts["evicted"] += 1
            self._unauthenticated.pop(next(iter(self._unauthenticated))).transport.abort()
        try:
            return await connection.authenticate(reader)
        finally:
            self._unauthenticated.pop(task, None)


class Connection:
    """One connection of a control plane."""

    def __init__(self, server: ControlServer, writer: asyncio.StreamWriter):
        self._server = server
        self._writer = writer
        self._session: int | None = None
        self._rejected_lines = 0

    async def authenticate(self, reader: asyncio.StreamReader) -> bool:
        """Send a challenge and read the first line; return whether it proves that the client has the secret.

        If it does not, the client is sent an error.
        """
        challenge = Challenge.new()
        self._send(challenge)
        try:
            async with asyncio.timeout(self._server.pace.secret_s):
                line = await read_line(reader)
        except TimeoutError:
            self._server.counts["silent"] += 1
            return False
        with contextlib.suppress(InvalidMessage):
            match decode(line or b""):
                case Proof(value=value) if hmac.compare_digest(value, self._server.secret.proof(challenge).value):
                    return True
        self._server.counts["without_secret"] += 1
        self.refuse("the first line must be a proof of this run's secret: --secret DIRECTORY/collector.secret")
        return False

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Handle lines until the client disconnects, times out, or has sent too many invalid lines."""
        keepalive = asyncio.create_task(self._send_keepalives())
        try:
            async for line in lines(reader, self._server.pace.dead_s):
                if line is None:
                    self.refuse(f"line longer than {MAX_LINE_BYTES} bytes")
                else:
                    self._handle_line(line)
                if self._rejected_lines >= MAX_REJECTED_LINES:
                    return
        except TimeoutError:
            self._server.counts["silent"] += 1
        finally:
            keepalive.cancel()

    def refuse(self, why: str) -> None:
        """Send an error and count it."""
        self._rejected_lines += 1
        self._server.counts["refused_lines"] += 1
        self._send(Error(why))

    def closed(self) -> None:
        """Update the session after the connection was closed."""
        if self._session is not None:
            self._server.connections.pop(self._session, None)
            if self._server.sessions.disconnected(self._session):
                log(
                    f"session {self._session} disconnected; its queue pairs stay valid until another session needs them"
                )

    def _handle_line(self, line: bytes) -> None:
        """Handle one line, and send an error if it is invalid."""
        try:
            self._handle(decode(line))
        except InvalidMessage as why:
            self.refuse(str(why))

    def _handle(self, message: Message) -> None:
        sessions = self._server.sessions
        match message:
            case Hello() if self._session is None:
                self._start_session(message)
            case Proof():
                raise InvalidMessage("this connection is already authenticated")
            case Hello():
                raise InvalidMessage("this connection already has a session; a new one needs a new connection")
            case Written(session=number) if number == self._session:
                sessions.written(number)
                self._server.counts["sessions_written"] += 1
            case Ended(session=number, reports=reports) if number == self._session:
                sessions.ended(number, reports)
                log(f"session {number} ended after {'an unknown number of' if reports is None else reports} reports")
            case Alive() if self._session is None:
                raise InvalidMessage("hello is missing")
            case Alive():
                pass
            case Written() | Ended():
                raise InvalidMessage("that is not this connection's session")
            case _:
                raise InvalidMessage("only the collector sends this message")

    def _start_session(self, hello: Hello) -> None:
        """Assign a session to a data plane, and close an older connection of the same data plane."""
        session = self._server.sessions.begin(hello)
        for older in self._server.sessions.connected(hello.instance, before=session.number):
            self._server.counts["replaced"] += 1
            self._server.connections[older].transport.abort()
        self._session = session.number
        self._server.connections[session.number] = self._writer
        self._server.counts["sessions"] += 1
        self._send(session)
        pairs = len(session.queue_pairs)
        log(f"session {session.number} of {hello.program}, instance {hello.instance}: {pairs} queue pairs")

    def _send(self, message: Message) -> None:
        """Send a line; close the connection of a client that does not read."""
        if self._writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._server.counts["not_reading"] += 1
            self._writer.transport.abort()
        elif not self._writer.is_closing():
            self._writer.write(encode(message))

    async def _send_keepalives(self) -> None:
        """Send keepalives periodically."""
        count = 0
        while True:
            await asyncio.sleep(self._server.pace.alive_s)
            count += 1
            self._send(Alive(count))


def log(text: str) -> None:
    """Print a line on standard error."""
    names.report(f"collector: {text}")
