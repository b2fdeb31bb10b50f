"""The collector's end of the control channel: one asyncio server, a task a connection.

Whatever a client says, it gets a line or is let go; nothing of it stops the collector. A connection that has not proved
that it has the secret has a short time limit, takes no place of those that have, and is closed if too many others wait.
"""

import asyncio
import contextlib
import hmac
from collections import Counter
from collections.abc import AsyncIterator

from acapella.common.control_channel import (
    MOST_LINE_BYTES,
    PACE,
    Alive,
    Challenge,
    Ended,
    Error,
    Hello,
    Message,
    Pace,
    Proof,
    Refused,
    Secret,
    Written,
    decode,
    encode,
)
from acapella_core import names
from acapella_core.errors import UserError

from .sessions import Sessions

MOST_CONNECTIONS = 64  # that have the secret
MOST_WAITING = 256  # that did not yet: more than the backlog of a listening socket
MOST_REFUSALS = 16  # lines of one connection; then it is let go
MOST_UNSENT_BYTES = 65_536  # to a client that does not read
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ControlServer:
    """Gives sessions to control planes. ``counts`` has what happened: connections, refused lines, and so on."""

    def __init__(self, sessions: Sessions, secret: Secret, pace: Pace = PACE):
        self.sessions = sessions
        self.secret = secret
        self.pace = pace
        self.connections: dict[int, asyncio.StreamWriter] = {}  # by the session that each has
        self._tasks: set[asyncio.Task] = set()
        self._waiting: dict[asyncio.Task, asyncio.StreamWriter] = {}  # for their proofs, the longest first
        self.counts: Counter[str] = Counter()

    async def start(self, host: str, port: int, *, anywhere: bool = False) -> tuple[str, int]:
        """Listen; the address, where port 0 is the one that was free. Raises UserError.

        The keys of queue pairs are sent as they are, so other than loopback is asked for by name.
        """
        if host not in LOOPBACK and not anywhere:
            raise UserError(
                "others could read the control channel, which is not encrypted and hands out keys",
                where=f"--listen {host}",
                fix="listen on 127.0.0.1, or say --listen-anywhere where the network is yours alone",
            )
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=MOST_LINE_BYTES)
        except OSError as error:
            raise UserError(f"cannot listen: {error.strerror or error}", where=f"--listen {host}:{port}") from error
        return self._server.sockets[0].getsockname()[:2]

    async def close(self) -> None:
        """Stop listening and let everybody go."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        self.counts["connections"] += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        conversation = Conversation(self, writer)
        try:
            if not await self._admitted(task, conversation, reader, writer):
                return
            if len(self._tasks) - len(self._waiting) > MOST_CONNECTIONS:
                conversation.refuse("too many connections")
            else:
                await conversation.run(reader)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # it is gone, or we are to end: both end here
        finally:
            self._tasks.discard(task)
            conversation.over()
            with contextlib.suppress(OSError):
                writer.close()

    async def _admitted(self, task: asyncio.Task, conversation: "Conversation", reader, writer) -> bool:
        """Wait for the proof that the other side has the secret; whether it came."""
        self._waiting[task] = writer
        if len(self._waiting) > MOST_WAITING:
            self.counts["crowded_out"] += 1
            self._waiting.pop(next(iter(self._waiting))).transport.abort()
        try:
            return await conversation.has_secret(reader)
        finally:
            self._waiting.pop(task, None)


class Conversation:
    """What is said on one connection."""

    def __init__(self, server: ControlServer, writer: asyncio.StreamWriter):
        self._server = server
        self._writer = writer
        self._session: int | None = None
        self._refusals = 0

    async def has_secret(self, reader: asyncio.StreamReader) -> bool:
        """Send a challenge and read the first line; return whether that proves that the other side has the secret.

        Else the other side gets a line, or was silent.
        """
        challenge = Challenge.new()
        self._say(challenge)
        try:
            async with asyncio.timeout(self._server.pace.secret_s):
                line = await whole_line(reader)
        except TimeoutError:
            self._server.counts["silent"] += 1
            return False
        with contextlib.suppress(Refused):
            match decode(line or b""):
                case Proof(value=value) if hmac.compare_digest(value, self._server.secret.proof(challenge).value):
                    return True
        self._server.counts["without_secret"] += 1
        self.refuse("first comes the proof of this run's secret: --secret DIRECTORY/collector.secret")
        return False

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Answer line after line until the other side is gone, silent for too long, or refused too often."""
        beat = asyncio.create_task(self._beat())
        try:
            async for line in lines(reader, self._server.pace.dead_s):
                if line is None:
                    self.refuse(f"it is longer than {MOST_LINE_BYTES} bytes")
                else:
                    self._heed(line)
                if self._refusals >= MOST_REFUSALS:
                    return
        except TimeoutError:
            self._server.counts["silent"] += 1
        finally:
            beat.cancel()

    def refuse(self, why: str) -> None:
        """Say why in one line, and count it."""
        self._refusals += 1
        self._server.counts["refused_lines"] += 1
        self._say(Error(why))

    def over(self) -> None:
        """The connection is gone."""
        if self._session is not None:
            self._server.connections.pop(self._session, None)
            if self._server.sessions.lost(self._session):
                note(f"session {self._session} has lost its connection; its queue pairs stay until another needs them")

    def _heed(self, line: bytes) -> None:
        """Do what one line asks for."""
        try:
            self._do(decode(line))
        except Refused as why:
            self.refuse(str(why))

    def _do(self, message: Message) -> None:
        sessions = self._server.sessions
        match message:
            case Hello() if self._session is None:
                self._begin(message)
            case Proof():
                raise Refused("this connection has sent it")
            case Hello():
                raise Refused("this connection has its session; a new one needs a new connection")
            case Written(session=number) if number == self._session:
                sessions.written(number)
                self._server.counts["sessions_written"] += 1
            case Ended(session=number, reports=reports) if number == self._session:
                sessions.ended(number, reports)
                note(
                    f"session {number} has ended after {'an unknown number of' if reports is None else reports} reports"
                )
            case Alive() if self._session is None:
                raise Refused("say hello first")
            case Alive():
                pass
            case Written() | Ended():
                raise Refused("that is not this connection's session")
            case _:
                raise Refused("that is for the collector to say")

    def _begin(self, hello: Hello) -> None:
        """Give a session to a data plane; an older connection of the same one is let go."""
        session = self._server.sessions.begin(hello)
        for older in self._server.sessions.connected(hello.instance, before=session.number):
            self._server.counts["replaced"] += 1
            self._server.connections[older].transport.abort()
        self._session = session.number
        self._server.connections[session.number] = self._writer
        self._server.counts["sessions"] += 1
        self._say(session)
        pairs = len(session.queue_pairs)
        note(f"session {session.number} of {hello.program}, instance {hello.instance}: {pairs} queue pairs")

    def _say(self, message: Message) -> None:
        """Send a line; who does not read is let go before memory fills."""
        if self._writer.transport.get_write_buffer_size() > MOST_UNSENT_BYTES:
            self._server.counts["not_reading"] += 1
            self._writer.transport.abort()
        elif not self._writer.is_closing():
            self._writer.write(encode(message))

    async def _beat(self) -> None:
        """Say that the collector is there, again and again."""
        count = 0
        while True:
            await asyncio.sleep(self._server.pace.alive_s)
            count += 1
            self._say(Alive(count))


async def lines(reader: asyncio.StreamReader, patience_s: float) -> AsyncIterator[bytes | None]:
    """Lines without their ends; None for one that is longer than the reader's limit, which is skipped.

    Raises TimeoutError where none comes for ``patience_s``, asyncio.IncompleteReadError at the end.
    """
    while True:
        async with asyncio.timeout(patience_s):
            line = await whole_line(reader)
        yield line


async def whole_line(reader: asyncio.StreamReader) -> bytes | None:
    """The next line; None where it is too long."""
    try:
        return (await reader.readuntil(b"\n"))[:-1]
    except asyncio.LimitOverrunError as overrun:
        await skip_line(reader, overrun.consumed)
        return None


async def skip_line(reader: asyncio.StreamReader, buffered: int) -> None:
    """Read up to the end of a line that is too long for the buffer."""
    while True:
        await reader.readexactly(buffered)
        try:
            await reader.readuntil(b"\n")
            return
        except asyncio.LimitOverrunError as overrun:
            buffered = overrun.consumed


def note(text: str) -> None:
    """A line for people, on standard error."""
    names.report(f"collector: {text}")
