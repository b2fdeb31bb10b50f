"""The agent's side of in-band control: lines in frames that a port of the bridge received (frames.py).

Each session is served like a TCP connection, with the same challenge, proof, HMACs, sequence numbers and requests.
Frames may be lost: a controller repeats its latest line, and the agent then repeats its response, without executing the
request again.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from acapella_core.control_lines import InvalidMessage
from acapella_core.errors import UserError

from . import frames
from .channel import MAX_REQUEST_BYTES
from .program import ReplayProgram

MAX_SESSIONS = 128  # including ended ones, whose last response may have been lost
CLOSE_S = 2.0  # timeout for sending the remaining frames
MAX_PENDING_LINES = 16  # of a session
# Limits on responses that are sent without proof of the secret, because many of them would disturb a run:
OPENED_PER_S = 10
REPEATED_PER_S = 20
Serve = Callable[[asyncio.StreamReader, Any], Awaitable[None]]


class InBand:
    """Receives control messages of the program and starts a session for each controller. Runs in an event loop."""

    def __init__(self, program: ReplayProgram, serve: Serve, counts: dict[str, int]):
        self._program = program
        self._serve = serve
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._sessions: dict[tuple[bytes, int], Session] = {}  # by address and number, oldest first
        self._openings, self._repeats = Limit(self._loop.time, OPENED_PER_S), Limit(self._loop.time, REPEATED_PER_S)
        self._frames: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._sending = self._loop.create_task(self._send())
        program.on_control = self._receive_soon

    async def close(self) -> None:
        """End after the last frames, such as the response to `quit`, have been sent; the agent cancels the sessions."""
        self._program.on_control = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._frames.join()
        self._sending.cancel()

    def _receive_soon(self, event: dict[str, Any]) -> None:
        """Receive a message in the event loop; called by the thread that reads the program's events."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._receive, event)

    def _receive(self, event: dict[str, Any]) -> None:
        """Pass a message to its session, or open one. Invalid messages are counted."""
        try:
            frame = frames.decode(bytes.fromhex(event["frame"]))
            if frame.kind != frames.REQUEST or frame.parts != 1:
                raise InvalidMessage("not a request")
        except (InvalidMessage, ValueError, LookupError, TypeError):
            self._counts["in_band_malformed"] += 1
            return
        key = (frame.source, frame.session)
        if key not in self._sessions and not self._open(key, frame, int(event["port"])):
            return
        session = self._sessions[key]
        if session.is_latest(frame):
            accepted = self._repeats.permits()
            if accepted:
                session.writer.repeat()
        elif frame.number == session.number + 1:
            accepted = session.receive(frame.text)
        else:  # a duplicate of an earlier line, which the network delayed
            self._counts["in_band_unexpected"] += 1
            return
        if not accepted:
            self._counts["in_band_limited"] += 1

    def _open(self, key: tuple[bytes, int], frame: frames.Frame, port: int) -> bool:
        """Open a session if the message requests one and there are not too many."""
        opens = not frame.text and frame.number == 0
        if not opens or not self._openings.permits() or not self._make_room():
            self._counts["in_band_limited" if opens else "in_band_unknown"] += 1
            return False
        self._counts["in_band_sessions"] += 1
        head = frames.Frame(frame.source, frame.target, frame.session, frames.RESPONSE)
        self._sessions[key] = session = Session(self._frames, port, head)
        session.task = self._loop.create_task(self._serve(session.reader, session.writer))
        return True

    def _make_room(self) -> bool:
        """Forget the oldest session that has ended if there are too many. Return False if none has ended."""
        if len(self._sessions) < MAX_SESSIONS:
            return True
        ended = next((key for key, session in self._sessions.items() if session.writer.is_closing()), None)
        return self._sessions.pop(ended, None) is not None

    async def _send(self) -> None:
        """Send frames, one after the other."""
        while True:
            port, data = await self._frames.get()
            with contextlib.suppress(UserError):  # the controller repeats its line; `Agent.serve` reports an end
                await asyncio.to_thread(self._program.command, "answer", port, data.hex())
            self._frames.task_done()


class Limit:
    """Permits a number of events per second."""

    def __init__(self, clock: Callable[[], float], per_s: int):
        self._clock = clock
        self._latest: deque[float] = deque(maxlen=per_s)

    def permits(self) -> bool:
        """Return whether an event is permitted, and count it."""
        now = self._clock()
        if len(self._latest) == self._latest.maxlen and now - self._latest[0] < 1:
            return False
        self._latest.append(now)
        return True


class Session:
    """The lines from and to one controller, as the streams of a connection.

    ``latest`` is the latest line and ``number`` its number. The opening has number 0.
    """

    def __init__(self, queue: asyncio.Queue, port: int, head: frames.Frame):
        self.reader = asyncio.StreamReader(limit=MAX_REQUEST_BYTES)
        self.writer = Writer(queue, port, head, self.reader)
        self.task: asyncio.Task | None = None
        self.number = 0
        self.latest = b""

    def is_latest(self, frame: frames.Frame) -> bool:
        """Return whether a frame repeats the latest line."""
        return frame.number == self.number and frame.text == self.latest

    def receive(self, text: bytes) -> bool:
        """Pass on the next line. Return False if it is not accepted because too many lines are waiting."""
        if self.writer.is_closing() or len(self.writer.unanswered) >= MAX_PENDING_LINES:
            return False
        self.number, self.latest = self.number + 1, text
        self.writer.unanswered.append(self.number)
        self.writer.sent.clear()
        self.reader.feed_data(text + b"\n")
        return True


class Writer:
    """The part of asyncio.StreamWriter that the agent uses; each write is one line, the response to one line."""

    def __init__(self, queue: asyncio.Queue, port: int, head: frames.Frame, reader: asyncio.StreamReader):
        self.sent: list[bytes] = []  # frames since the latest line of the controller
        self.unanswered = deque([0])  # numbers of the lines of the controller without a response
        self.transport = self
        self._queue = queue
        self._port = port
        self._head = head
        self._reader = reader
        self._closing = False

    def write(self, line: bytes) -> None:
        """Send a line."""
        if self.unanswered:
            self._head = replace(self._head, number=self.unanswered.popleft())
        sent = [frames.encode(frame) for frame in frames.split(line.removesuffix(b"\n"), self._head)]
        self.sent += sent
        self._enqueue(sent)

    def repeat(self) -> None:
        """Resend the frames since the latest line, unless frames are still waiting to be sent."""
        if self._queue.empty():
            self._enqueue(self.sent)

    def _enqueue(self, sent: list[bytes]) -> None:
        for data in sent:
            self._queue.put_nowait((self._port, data))

    async def drain(self) -> None:
        """Do nothing: InBand sends the frames."""

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that have not been sent yet."""
        return self._queue.qsize() * frames.TEXT_BYTES

    def get_extra_info(self, name: str) -> str | None:
        """Return the address of the controller."""
        return f"in-band {frames.mac_text(self._head.target)}" if name == "peername" else None

    def is_closing(self) -> bool:
        """Return whether the session has ended."""
        return self._closing

    def close(self) -> None:
        """End the session."""
        self._closing = True

    def abort(self) -> None:
        """End the session now: nothing more is read."""
        self._closing = True
        self._reader.feed_eof()
