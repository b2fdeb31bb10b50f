"""Questions to a running collector: a JSON line each over the socket in its directory, and a JSON line as the answer.

    {"ask": "top", "by": "bytes", "count": 20}     {"flows": [...], "columns": [...], "state": {...}}
    {"ask": "state"}                               {"state": {...}}
    {"ask": "snapshot"}                            {"directory": "snapshot", "state": {...}}: Parquet files in that
    directory

Only the user whom the directory belongs to can connect.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path

from acapella.common.control_channel import Refused, parsed
from acapella_core.errors import UserError

from . import place
from .control import lines

PATIENCE_S = 60.0  # of a client between two questions, and for an answer
MOST_FLOWS = 10_000  # of one answer
MOST_ANSWER_BYTES = 64 << 20
MOST_LINE_BYTES = 4_096

Answer = Callable[[dict], dict]


class QuestionServer:
    """Answers who connects to the socket of a directory. ``answers`` has a function for each kind of question.

    They run in threads, so that a long one does not hold up the others; each raises Refused where it has no answer.
    """

    def __init__(self, answers: dict[str, Answer]):
        self._answers = answers
        self._busy = asyncio.Lock()  # one at a time: a snapshot takes memory
        self._tasks: set[asyncio.Task] = set()

    async def start(self, directory: Path) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(self._serve, sock=place.bound(directory), limit=MOST_LINE_BYTES)

    async def close(self) -> None:
        """Stop listening and let everybody go."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            async for line in lines(reader, PATIENCE_S):
                writer.write(json.dumps(await self._answer(line), allow_nan=False).encode() + b"\n")
                await asyncio.wait_for(writer.drain(), PATIENCE_S)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, TimeoutError):
            pass  # it is gone, or we are to end
        finally:
            self._tasks.discard(task)
            with contextlib.suppress(OSError):
                writer.close()

    async def _answer(self, line: bytes | None) -> dict:
        """The answer to one line; what is wrong with it where there is none."""
        try:
            if line is None:
                raise Refused("the question is too long")
            question = parsed(line)
            kind = question.pop("ask", None)
            if not isinstance(kind, str) or kind not in self._answers:
                raise Refused(f"ask is none of {', '.join(self._answers)}")
            async with self._busy:
                return await asyncio.to_thread(self._answers[kind], question)
        except (Refused, UserError) as why:
            return {"error": str(why)}


class Asked:
    """A connection to a running collector. Use as a context."""

    def __init__(self, link: socket.socket, directory: Path):
        self._link = link
        self._link.settimeout(PATIENCE_S)
        self._lines = link.makefile("rb")
        self._directory = directory

    def __enter__(self) -> "Asked":
        return self

    def __exit__(self, *_) -> None:
        self._lines.close()
        self._link.close()

    def __call__(self, ask: str, **parts) -> dict:
        """The answer. Raises UserError where the collector refuses, is gone or says nothing."""
        try:
            self._link.sendall(json.dumps({"ask": ask, **parts}).encode() + b"\n")
            line = self._lines.readline(MOST_ANSWER_BYTES)
        except OSError as error:
            raise UserError(f"the collector does not answer: {error}", where=self._directory) from error
        if not line.endswith(b"\n"):
            raise UserError("the collector has ended", where=self._directory)
        answer = json.loads(line)
        if "error" in answer:
            raise UserError(answer["error"], where=self._directory)
        return answer


def asked(directory: Path) -> Asked | None:
    """A connection to the collector that runs in ``directory``; None where none does. Raises UserError."""
    link = place.connected(directory)
    return None if link is None else Asked(link, directory)
