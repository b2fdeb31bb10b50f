"""Requests to a running collector, one JSON line each, over a Unix socket in its directory; responses are JSON lines.

    {"ask": "top", "by": "bytes", "count": 20}     {"flows": [...], "state": {...}}
    {"ask": "state"}                               {"state": {...}}
    {"ask": "snapshot"}                            {"directory": "snapshot", "state": {...}}; Parquet files are there

Only the owner of the directory can connect.
"""

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable
from pathlib import Path

from acapella_core.control_lines import InvalidMessage, lines, parsed
from acapella_core.errors import UserError

from . import output_directory

TIMEOUT_S = 60.0  # timeout between two requests of a client, and for a response
MAX_FLOWS = 10_000  # per response
MAX_RESPONSE_BYTES = 64 << 20
MAX_REQUEST_BYTES = 4_096

Handler = Callable[[dict], dict]


class RequestServer:
    """Responds to requests on the socket of a directory. ``handlers`` contains a function for each request name.

    Handlers run in threads, so that a long request does not block the event loop. They raise InvalidMessage if the
    request is invalid.
    """

    def __init__(self, handlers: dict[str, Handler]):
        self._handlers = handlers
        self._busy = asyncio.Lock()  # one request at a time: a snapshot needs memory
        self._tasks: set[asyncio.Task] = set()

    async def start(self, directory: Path) -> None:
        """Start listening."""
        self._server = await asyncio.start_unix_server(
            self._serve, sock=output_directory.listening_socket(directory), limit=MAX_REQUEST_BYTES
        )

    async def close(self) -> None:
        """Stop listening and close all connections."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            async for line in lines(reader, TIMEOUT_S):
                writer.write(json.dumps(await self._respond(line), allow_nan=False).encode() + b"\n")
                await asyncio.wait_for(writer.drain(), TIMEOUT_S)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError, TimeoutError):
            pass  # disconnected, timed out, or canceled by close()
        finally:
            self._tasks.discard(task)
            with contextlib.suppress(OSError):
                writer.close()

    async def _respond(self, line: bytes | None) -> dict:
        """Return the response to one line, or an error."""
        try:
            if line is None:
                raise InvalidMessage("the request is too long")
            request = parsed(line)
            kind = request.pop("ask", None)
            if not isinstance(kind, str) or kind not in self._handlers:
                raise InvalidMessage(f"ask must be one of {', '.join(self._handlers)}")
            async with self._busy:
                return await asyncio.to_thread(self._handlers[kind], request)
        except (InvalidMessage, UserError) as why:
            return {"error": str(why)}


class RequestClient:
    """Client of a running collector, a context manager."""

    def __init__(self, connection: socket.socket, directory: Path):
        self._connection = connection
        self._connection.settimeout(TIMEOUT_S)
        self._lines = connection.makefile("rb")
        self._directory = directory

    def __enter__(self) -> "RequestClient":
        return self

    def __exit__(self, *_) -> None:
        self._lines.close()
        self._connection.close()

    def __call__(self, ask: str, **parameters) -> dict:
        """Return the response. Raises UserError if the collector rejects the request or does not respond."""
        try:
            self._connection.sendall(json.dumps({"ask": ask, **parameters}).encode() + b"\n")
            line = self._lines.readline(MAX_RESPONSE_BYTES)
        except OSError as error:
            raise UserError(f"no response from the collector: {error}", where=self._directory) from error
        if not line.endswith(b"\n"):
            raise UserError("the collector has ended", where=self._directory)
        response = json.loads(line)
        if "error" in response:
            raise UserError(response["error"], where=self._directory)
        return response


def connect(directory: Path) -> RequestClient | None:
    """Return a client of the collector running in ``directory``; None if none is running. Raises UserError."""
    connection = output_directory.connect(directory)
    return None if connection is None else RequestClient(connection, directory)
