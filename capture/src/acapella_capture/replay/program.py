"""Runs acapella-dpdk-replay (capture/replay): commands on its standard input, events in JSON on its standard output."""

import contextlib
import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from acapella_core import names
from acapella_core.errors import UserError

from ..programs.dpdk import FANOUT, FanoutTakenError, start_with_retries
from ..programs.executables import find_executable

PROGRAM = "acapella-dpdk-replay"
START_S = 60  # timeout for the program to be ready: huge pages or much memory take seconds
COMMAND_S = 20  # timeout for the acknowledgment of a command
FILE_S = 600  # timeout for loading or writing a file
QUIT_S = 10  # timeout for the program to end after `quit`
MAX_EVENT_BYTES = 1 << 20
UNKNOWN = "unknown"

# The events that acknowledge a command; an event `error` rejects it.
ACKNOWLEDGED = {
    "record": ("recording",),
    "rolling": ("recording",),
    "load": ("loaded",),
    "stop": ("recorded", "done", "stopped"),
    "clear": ("cleared",),
    "run": ("scheduled",),
    "status": ("status",),
    "save": ("saved",),
    "departures": ("saved",),
    "answer": ("answered",),
}
# The state of the program after an event.
STATES = {
    "ready": "idle",
    "recording": "recording",
    "recorded": "idle",
    "loaded": "idle",
    "scheduled": "scheduled",
    "running": "running",
    "done": "idle",
}

Event = dict[str, Any]


def executable() -> str:
    """Return the program's path. Raises UserError if it was not built."""
    return find_executable(PROGRAM, fix="apt-get install libdpdk-dev libpcap-dev, then make setup")


LOST = {
    "missed": "missed by the device",
    "no_mbuf": "without memory",
    "kernel_dropped": "dropped by the kernel because the ring of the driver was full",
    "not_received": "counted by the interface and not received",
}
# rx_dropped of Linux includes frames that the bridge received but no protocol of the kernel accepted.
NOTED = {"interface_dropped": "dropped by the interface or after the bridge received them"}
LACKING = {"recorded": "the recording lacks packets", "done": "packets were not received during the run"}


def losses(event: Mapping[str, Any]) -> list[str]:
    """Return a line for each port of a bridge that lost packets during a recording or a run before it received them.

    ``event`` is `recorded` or `done` of the program. Values that are not counts are ignored.
    """
    lacking = LACKING.get(event.get("event"), LACKING["done"])
    return [f"{name}: {lacking}: {counts}" for name, counts in receptions(event, LOST)]


def drops_to_note(event: Mapping[str, Any]) -> list[str]:
    """Return a line for each port with drops in an event that need not be losses of the bridge."""
    return [f"{name}: frames were counted as {counts}" for name, counts in receptions(event, NOTED)]


def receptions(event: Mapping[str, Any], kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the name of each port of an event that has counts of the given kinds, and these counts as text."""
    ports = event.get("ports")
    for port in ports if isinstance(ports, list) else ():
        reception = port.get("reception") if isinstance(port, dict) else None
        counts = {key: number_in(reception.get(key)) for key in kinds} if isinstance(reception, dict) else {}
        found = [f"{count} {kinds[key]}" for key, count in counts.items() if count]
        if found:
            name = text if isinstance(text := port.get("name"), str) and text.isprintable() else UNKNOWN
            yield name, ", ".join(found)


def number_in(value: object) -> int:
    """Return the value if it is a count, otherwise 0."""
    return value if type(value) is int and value > 0 else 0


class ReplayProgram:
    """One run of the program. As a context, it starts the program and always ends it.

    ``received`` and ``state`` change while the program runs. Methods raise UserError if the program ends, does not
    reply in time, or rejects a command. Only one thread at a time may send a command.
    """

    def __init__(
        self, argv: Sequence[str], *, report: Callable[[str], None] = names.report, where: str = PROGRAM, **popen: Any
    ):
        """``report`` is called with each message of the program; ``popen``: arguments of subprocess.Popen."""
        self._argv = list(argv)
        self._popen = popen
        self._report = report
        self._where = where
        self._process: subprocess.Popen | None = None
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._commands = threading.Lock()
        self._fault: str | None = None
        self._fanout_taken = False
        self._last_message = ""
        self._error: str | None = None  # its last error, until a UserError contains it
        self._received = 0  # events so far
        self._latest: dict[str, tuple[int, Event]] = {}  # by name, with the number of the event
        self.state = "starting"
        self.on_control: Callable[[Event], None] | None = None  # called with each in-band control message

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the program and wait until it is ready."""
        start_with_retries(self._start)

    def _start(self) -> None:
        self._fault, self._fanout_taken = None, False
        try:
            # In a separate session: Ctrl-C reaches this process only, which then ends the program with `quit`.
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                **self._popen,
            )
        except OSError as error:
            raise UserError(f"cannot start: {error.strerror}", where=self._argv[0]) from error
        self._threads = [threading.Thread(target=read, daemon=True) for read in (self._read_events, self._read_errors)]
        for thread in self._threads:
            thread.start()
        try:
            self._wait(("ready",), 0, START_S)
        except BaseException:
            self.close()
            raise

    def command(self, name: str, *arguments: object, timeout_s: float | None = None) -> Event:
        """Send a command and return the event that acknowledges it."""
        fields = [name, *map(str, arguments)]
        if any(character in field for field in fields for character in "\n\r\0"):
            raise UserError(f"{name}: a file name has a control character", where=self._where)
        timeout_s = timeout_s or (FILE_S if name in ("load", "save", "departures") else COMMAND_S)
        with self._commands:
            with self._changed:
                received_before = self._received
            try:
                self._process.stdin.write(" ".join(fields).encode() + b"\n")
                self._process.stdin.flush()
            except OSError:
                self._wait_for_end()
                raise self._ended() from None
            event = self._wait((*ACKNOWLEDGED[name], "error"), received_before, timeout_s)
        if event["event"] == "error":
            raise UserError(f"{name} failed: {event.get('message', 'no message')}", where=self._where)
        if event["event"] == "stopped":
            raise UserError("stop failed: nothing to stop", where=self._where)
        return event

    def wait(self, event: str, timeout_s: float | None = None, *, after: int = 0) -> Event:
        """Wait for an event, such as `done`, and return it; an event up to number ``after`` does not count."""
        return self._wait((event,), after, timeout_s)

    def latest(self, event: str, after: int = 0) -> Event | None:
        """Return the latest event of a name whose number exceeds ``after``; None if there is none."""
        with self._changed:
            number, event_ = self._latest.get(event, (0, None))
            return event_ if number > after else None

    @property
    def received(self) -> int:
        """Return the number of events so far."""
        with self._changed:
            return self._received

    @property
    def fault(self) -> UserError | None:
        """Return the error if the program has ended or failed; None while it runs."""
        with self._changed:
            return self._ended() if self._fault is not None else None

    def close(self) -> None:
        """End the program: `quit`, then signals. No effect if it has ended."""
        process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(b"quit\n")
        with contextlib.suppress(OSError, ValueError):
            process.stdin.close()
        for end in (None, process.terminate, process.kill):
            if end:
                end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(QUIT_S)
                break
        for thread in self._threads:
            thread.join()
        process.stdout.close()
        process.stderr.close()
        self._report_error()
        self._process = None

    def _wait(self, names_: Sequence[str], after: int, timeout_s: float | None) -> Event:
        """Return the first of several events whose number exceeds ``after``."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while True:
                matches = [self._latest[name] for name in names_ if self._latest.get(name, (0,))[0] > after]
                if matches:
                    return min(matches, key=lambda pair: pair[0])[1]
                if self._fault is not None:
                    raise self._ended()
                remaining_s = None if end is None else end - time.monotonic()
                if remaining_s is not None and remaining_s <= 0:
                    raise UserError(f"no reply for {timeout_s:g} s", where=self._where)
                self._changed.wait(remaining_s)

    def _ended(self) -> UserError:
        """Return the error of a program that has ended or failed."""
        self._error = None
        kind = FanoutTakenError if self._fanout_taken else UserError
        return kind(self._fault or "has ended", where=self._where)

    def _wait_for_end(self) -> None:
        """After a failed write, wait until it is known why the program ended."""
        end = time.monotonic() + QUIT_S
        with self._changed:
            while self._fault is None and (remaining_s := end - time.monotonic()) > 0:
                self._changed.wait(remaining_s)

    def _read_events(self) -> None:
        """Read events until the program closes its standard output."""
        fault = None
        while fault is None and (line := self._process.stdout.readline(MAX_EVENT_BYTES)):
            fault = self._add(line)
        if fault is not None:
            self._process.kill()  # its output is not read from now on
        status = self._process.wait()
        self._threads[1].join()  # the last message on standard error is the reason
        with self._changed:
            reason = self._last_message or (f"killed by signal {-status}" if status < 0 else f"exit status {status}")
            self._fault = fault or f"ended: {reason}"
            self._changed.notify_all()

    def _add(self, line: bytes) -> str | None:
        """Add an event; return the reason if the line is not a valid event, or None."""
        try:
            event = json.loads(line)
            name = event["event"]
            if not isinstance(name, str):
                raise TypeError
        except (ValueError, TypeError, LookupError, RecursionError):
            return "its output is not an event in JSON"
        with self._changed:
            self._received += 1
            self._latest[name] = (self._received, event)
            self.state = STATES.get(name, self.state)
            self._changed.notify_all()
        if name == "recorded":
            for line_ in losses(event):
                self._report(f"acapella: warning: {line_}")
        if name in LACKING:
            for line_ in drops_to_note(event):
                self._report(f"acapella: note: {line_}")
        if name == "control" and (receive := self.on_control) is not None:
            receive(event)
        return None

    def _read_errors(self) -> None:
        """Print the messages of the program."""
        for line in self._process.stderr:
            text = line.decode("utf-8", "replace").strip()
            if text:
                self._last_message = text.removeprefix(f"{PROGRAM}: ").removeprefix("error: ")
                self._fanout_taken |= FANOUT in text
                if text.startswith(f"{PROGRAM}: error: "):
                    self._report_error()
                    self._error = text  # the reason of a UserError, unless a later one follows
                else:
                    self._report(text)

    def _report_error(self) -> None:
        """Print the error that the program printed, unless a UserError contains it."""
        if self._error is not None:
            self._report(self._error)
        self._error = None
