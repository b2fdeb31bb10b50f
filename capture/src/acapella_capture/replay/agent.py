"""The agent of a replayer: accepts one controller at a time, by TCP or in-band, and passes its requests to the program.

No peer without the secret can stop the agent. A connection without proof of the secret has a short timeout, and the
oldest of too many is closed. A controller whose connection is lost does not leave anything running: the recording or
the run that it started ends, and the next controller can connect. After `bye`, the recording or run continues.
"""

import asyncio
import base64
import contextlib
import hmac
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acapella_core import names
from acapella_core.control_lines import Challenge, InvalidMessage, Secret, read_line
from acapella_core.errors import UserError
from acapella_core.files import atomic_path, sha256_of

from . import channel, messages
from .channel import MAX_REQUEST_BYTES, InvalidLine
from .clocks import own_clock
from .controller import detect_lost_peer
from .inband import InBand
from .program import ReplayProgram

MAX_UNAUTHENTICATED = 64
MAX_REFUSED_LINES = 16  # per connection, which is then closed
MAX_UNSENT_BYTES = 4 * channel.MAX_RESPONSE_BYTES  # limit for a controller that does not read
PART_BYTES = 65_536  # bytes of a departures file in each response
POLL_S = 0.2  # interval of checks of the program


@dataclass(frozen=True)
class Timeouts:
    """Seconds: ``proof_s`` for the proof of the secret, ``silent_s`` for a controller that sends nothing, except
    during a run.

    ``busy_s``: how long a second controller waits for the end of a connection that was just lost.
    """

    proof_s: float = 2.0
    silent_s: float = 10.0
    busy_s: float = 1.0


@dataclass
class Replayer:
    """State of the agent: the program, the directory of saved recordings, and facts of the recording.

    ``scratch`` is a private directory, removed at the end. ``ports`` is a readable description of the ports.
    """

    program: ReplayProgram
    directory: Path
    scratch: Path
    ports: str
    pacing: str
    recording_sha256: str | None = None
    fetched: Path | None = None  # departures of the last run
    run: int = 0  # number of the event before the last run
    runs: int = 0


@dataclass
class Agent:
    """Listens for controllers. ``counts`` contains the numbers of connections, sessions, rejected lines by reason, ...

    ``clock`` returns the time in ns since 1970.
    """

    replayer: Replayer
    secret: Secret = field(repr=False)
    timeouts: Timeouts = Timeouts()
    clock: Callable[[], int] = time.time_ns
    own_clock: Callable[[], dict[str, Any]] = own_clock
    log: Callable[[str], None] = names.report
    counts: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._tasks: set[asyncio.Task] = set()
        self._unauthenticated: dict[asyncio.Task, asyncio.StreamWriter] = {}  # oldest first
        self._connected: Connection | None = None  # the controller's connection
        self._ended = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def serve(self, host: str, port: int, ready: Callable[[str, int], None] = lambda host, port: None) -> None:
        """Serve controllers until one of them ends the agent, or a signal arrives.

        ``ready`` is called with the address, whose port the kernel chooses for port 0. Raises UserError if the agent
        cannot listen or the program ends.
        """
        self._loop = asyncio.get_running_loop()
        try:
            server = await asyncio.start_server(self._serve, host, port, limit=MAX_REQUEST_BYTES)
        except OSError as error:
            raise UserError(f"cannot listen: {error.strerror or error}", where=f"--listen {host}:{port}") from error
        in_band = InBand(self.replayer.program, self._serve, self.counts)
        try:
            ready(*server.sockets[0].getsockname()[:2])
            await self._wait_for_end()
        finally:
            server.close()
            await in_band.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop(self) -> None:
        """End the agent."""
        self._ended.set()

    def request_stop(self) -> None:
        """End the agent from another thread or a signal handler; no effect if it has ended."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.stop)

    def stop_on_signals(self) -> None:
        """End the agent on Ctrl-C, kill, or a closed terminal, unless the signal is ignored, as with nohup.

        Further signals have no effect. The loop's own handlers are not used: they are removed when it is closed, and a
        signal after that would end the process before its files are removed.
        """
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, lambda *_: self.request_stop())

    async def _wait_for_end(self) -> None:
        """Wait for a request to end the agent. Raises UserError if the program has ended."""
        while not self._ended.is_set():
            if fault := self.replayer.program.fault:
                raise fault
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), POLL_S)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends."""
        self.counts["connections"] += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            if tcp_socket := writer.get_extra_info("socket"):  # None for in-band control
                detect_lost_peer(tcp_socket)  # even during a run, in which the controller sends nothing
            keys = await self._authenticated(task, reader, writer)
            if keys is None:
                return
            connection = Connection(self, keys, writer)
            if not await self._admitted(connection):
                return
            try:
                await self._session(connection, reader)
            finally:
                self.release(connection)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # disconnected, or canceled at the end
        finally:
            self._tasks.discard(task)
            with contextlib.suppress(OSError):
                writer.close()

    async def _authenticated(
        self, task: asyncio.Task, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> channel.Keys | None:
        """Send a challenge and wait for the proof of the secret; return the keys, or None without valid proof."""
        self._unauthenticated[task] = writer
        if len(self._unauthenticated) > MAX_UNAUTHENTICATED:
            self.counts["evicted"] += 1
            self._unauthenticated.pop(next(iter(self._unauthenticated))).transport.abort()
        challenge = Challenge.new()
        try:
            writer.write(channel.encode_challenge(challenge))
            async with asyncio.timeout(self.timeouts.proof_s):
                line = await read_line(reader)
        except TimeoutError:
            self.counts["silent"] += 1
            return None
        finally:
            self._unauthenticated.pop(task, None)
        with contextlib.suppress(InvalidMessage):
            challenge_of_controller, proof = channel.decode_proof(line or b"")
            keys = channel.Keys.derive(self.secret, challenge, challenge_of_controller)
            if hmac.compare_digest(proof, keys.proof):
                return keys
        self.counts["without_secret"] += 1
        writer.write(channel.plain_line({"error": "the proof of the secret is wrong; check --secret FILE"}))
        await writer.drain()
        return None

    async def _admitted(self, connection: "Connection") -> bool:
        """Return whether no other controller is connected; otherwise send an error."""
        end = time.monotonic() + self.timeouts.busy_s
        while self._connected is not None and time.monotonic() < end:
            await asyncio.sleep(POLL_S / 10)
        if self._connected is None:
            self._connected = connection
            return True
        self.counts["busy"] += 1
        connection.send(error=f"busy: another controller is connected from {self._connected.peer}")
        await connection.drain()
        return False

    def release(self, connection: "Connection") -> None:
        """Allow another controller to connect after this one."""
        if self._connected is connection:
            self._connected = None

    async def _session(self, connection: "Connection", reader: asyncio.StreamReader) -> None:
        """Serve an authenticated controller, and stop its recording or run if its connection is lost."""
        peer = connection.peer
        self.counts["sessions"] += 1
        self.log(f"replay: controller {peer} connected")
        try:
            await connection.run(reader)
        finally:
            if connection.left_running and self.replayer.program.fault is None:
                self.log(f"replay: connection of controller {peer} lost: stopping its recording or run")
                await self._stop_program()
            else:
                self.log(f"replay: controller {peer} disconnected")

    async def _stop_program(self) -> None:
        """Stop the program's recording or run. Count and log an error: the program may continue."""
        program = self.replayer.program
        try:
            await asyncio.shield(asyncio.to_thread(program.command, "stop"))
        except UserError as error:
            # `_wait_for_end` reports a program that has ended; a run may also end before it is stopped.
            if program.fault is None and program.state != "idle":
                self.counts["failed_stops"] += 1
                self.log(f"replay: the recording or run may continue: {error}")


def format_peer(writer: asyncio.StreamWriter) -> str:
    """Return the address of a peer; it may have disconnected."""
    peer = writer.get_extra_info("peername")
    if isinstance(peer, str):
        return peer
    return f"{peer[0]}:{peer[1]}" if peer else "unknown"


class Connection:
    """The connection of one authenticated controller.

    ``left_running``: its recording or run continues, and it did not send `bye`.
    """

    def __init__(self, agent: Agent, keys: channel.Keys, writer: asyncio.StreamWriter):
        self._agent = agent
        self._replayer = agent.replayer
        self._reader = channel.Reader(keys.from_controller, MAX_REQUEST_BYTES)
        self._lines = channel.Writer(keys.from_agent)
        self._writer = writer
        self.peer = format_peer(writer)
        self._refused = 0
        self._over = False
        self._started = False
        self._run_ns: tuple[int, int] | None = None  # planned start and end of the last run

    @property
    def left_running(self) -> bool:
        """Return whether the controller has started something that is still running."""
        return self._started and not self._over and self._replayer.program.state != "idle"

    def send(self, **message: Any) -> None:
        """Send a line; close the connection of a controller that does not read."""
        if self._writer.transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self._agent.counts["not_reading"] += 1
            self._writer.transport.abort()
        elif not self._writer.is_closing():
            self._writer.write(self._lines.line(**message))

    async def drain(self) -> None:
        """Wait until the send buffer is nearly empty."""
        await self._writer.drain()

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Handle requests until the controller disconnects, is silent, or has sent too many invalid lines."""
        # once per connection: a program that reads the clock would disturb a run
        own_clock = await asyncio.to_thread(self._agent.own_clock)
        self.send(welcome={"ports": self._replayer.ports, "pacing": self._replayer.pacing, "clock": own_clock})
        try:
            while True:
                async with asyncio.timeout(self._silent_s()):
                    line = await read_line(reader)
                received_ns = self._agent.clock()
                await self._handle_line(line, received_ns)
                if self._over or self._refused >= MAX_REFUSED_LINES:
                    await self._writer.drain()
                    return
        except TimeoutError:
            self._agent.counts["silent"] += 1

    def _silent_s(self) -> float:
        """Return how long the controller may be silent; this includes a run that has started or starts soon.

        Requests would disturb the run, and during dense traffic a bridge does not receive in-band requests.
        """
        silent_s = self._agent.timeouts.silent_s
        if self._run_ns is None or self._replayer.program.state == "idle":
            return silent_s
        start_ns, end_ns = self._run_ns
        now_ns = self._agent.clock()
        return silent_s if start_ns - now_ns > silent_s * 1e9 else silent_s + max(0, end_ns - now_ns) / 1e9

    async def _handle_line(self, line: bytes | None, received_ns: int) -> None:
        """Handle one line: respond to a request, or reject the line."""
        try:
            sequence, message = self._reader.message(line)
        except InvalidLine as error:
            self._refuse(error.count, None, str(error))
            return
        try:
            request = messages.decode(message)
        except InvalidMessage as error:
            self._refuse("invalid", sequence, str(error))
            return
        self._agent.counts["requests"] += 1
        try:
            done = await self._handle(request, received_ns)
        except (UserError, OSError) as error:
            self._fail(sequence, request, error)
            return
        self.send(to=sequence, done=done)

    def _fail(self, sequence: int, request: messages.Request, error: UserError | OSError) -> None:
        """Count a failed request and send the reason. Log a system error: the cause is on this machine."""
        self._agent.counts["failed"] += 1
        name, reason = messages.NAMES[type(request)], str(error)
        if isinstance(error, OSError):
            file = f"{error.filename}: " if error.filename else ""
            reason = f"{name} failed: {file}{error.strerror or error}"
        if isinstance(error, OSError) or isinstance(error.__cause__, OSError):
            self._agent.counts["system_errors"] += 1
            self._agent.log(f"replay: {reason}")
        self.send(to=sequence, error=reason[: messages.MAX_TEXT])

    def _refuse(self, count: str, sequence: int | None, why: str) -> None:
        """Count a rejected line and send the reason; ``sequence`` is None if the line was not authentic."""
        self._refused += 1
        self._agent.counts[count] += 1
        self.send(to=sequence, error=why)

    async def _handle(self, request: messages.Request, received_ns: int) -> dict[str, Any]:
        """Return the result of a request. Raises UserError if the program rejects it."""
        match request:
            case messages.Clock():
                return {"received_ns": received_ns, "sent_ns": self._agent.clock()}
            case messages.Disconnect():
                self._over = True
                self._agent.release(self)  # before the response: the next controller may connect immediately
                return {}
            case messages.Quit():
                self._over = True
                self._agent.stop()
                return {}
        return await asyncio.to_thread(self._command, request)

    def _command(self, request: messages.Request) -> dict[str, Any]:
        """Return the result of a request that the program executes. Raises UserError."""
        program, replayer = self._replayer.program, self._replayer
        match request:
            case messages.Record(from_ns=from_ns, until_ns=until_ns):
                result = self._start("record", from_ns, until_ns)
            case messages.Rolling(seconds=seconds):
                result = self._start("rolling", seconds)
            case messages.Stop() | messages.Clear():
                result = without_name(program.command(messages.NAMES[type(request)]))
            case messages.Save():
                result = save(replayer)
            case messages.Run(at_ns=at_ns, loops=loops, speed_ppm=speed_ppm):
                replayer.run, replayer.fetched = program.received, None
                result = self._start("run", at_ns, loops, speed_ppm)
                self._run_ns = result["at_ns"], result["at_ns"] + result["period_ns"] * result["loops"]
                replayer.runs += 1
            case messages.Fetch(offset=offset):
                result = part_of(departures_of(replayer), offset)
            case _:
                result = self._status()
        if isinstance(request, messages.Record | messages.Rolling | messages.Clear):
            replayer.recording_sha256 = None
        return result

    def _start(self, *command: object) -> dict[str, Any]:
        """Send a command that starts a recording or a run."""
        event = self._replayer.program.command(*command)
        self._started = True
        return without_name(event)

    def _status(self) -> dict[str, Any]:
        """Return state, counters, and the end of the last run."""
        replayer = self._replayer
        return {
            "state": replayer.program.state,
            "runs": replayer.runs,
            "run": without_name(replayer.program.latest("done", replayer.run)) if replayer.runs else None,
            "program": without_name(replayer.program.command("status")),
            "recording_sha256": replayer.recording_sha256,
            "control": dict(sorted(self._agent.counts.items())),
        }


def without_name(event: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an event without its name."""
    return None if event is None else {key: value for key, value in event.items() if key != "event"}


def save(replayer: Replayer) -> dict[str, Any]:
    """Write the recording to a new file of the directory; return its name and SHA-256. Raises UserError."""
    number = 1
    while (path := replayer.directory / f"recording-{number}.pcapng").exists():
        number += 1
    with contextlib.ExitStack() as files:
        unnamed = replayer.scratch / "recording.pcapng"
        files.callback(unnamed.unlink, missing_ok=True)
        event = replayer.program.command("save", unnamed)
        temporary = files.enter_context(atomic_path(path))
        copy(unnamed, temporary)
    checksum = sha256_of(path)
    replayer.recording_sha256 = replayer.recording_sha256 or checksum  # of a loaded file: its own checksum
    return without_name(event) | {"file": path.name, "sha256": checksum}


def copy(source: Path, target: Path) -> None:
    """Copy the content of a file."""
    with source.open("rb") as reading, target.open("wb") as writing:
        while part := reading.read(1 << 20):
            writing.write(part)


def departures_of(replayer: Replayer) -> Path:
    """Return the file of departures of the last run, which the program writes once. Raises UserError."""
    if not replayer.runs or replayer.program.latest("done", replayer.run) is None:
        raise UserError("there are no departures: no run has ended", where="replay")
    if replayer.fetched is None:
        path = replayer.scratch / "departures"
        path.unlink(missing_ok=True)
        replayer.program.command("departures", path)
        replayer.fetched = path
    return replayer.fetched


def part_of(path: Path, offset: int) -> dict[str, Any]:
    """Return a part of a file from an offset, as base64, and the size of the file."""
    with path.open("rb") as stream:
        stream.seek(offset)
        part = stream.read(PART_BYTES)
    return {"size": path.stat().st_size, "part": base64.b64encode(part).decode("ascii")}
