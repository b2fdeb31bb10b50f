"""Runs acapella-monitor (capture/monitor): its command line, its events and its result."""

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from acapella_core import names
from acapella_core.errors import OUTSIDE, UserError

from ..programs.child_process import kill_and_reap
from ..programs.dpdk import failure, start_with_retries
from ..programs.executables import find_executable
from ..replay.ports import MIN_FRAME, PCI, RING_KIB, port_options
from . import drift, expected, losses, result

PROGRAM = "acapella-monitor"

Event = dict[str, Any]


def executable() -> str:
    """Return the program's path. Raises UserError if it was not built."""
    return find_executable(PROGRAM, fix="apt-get install libdpdk-dev libpcap-dev, then make setup")


def sort_key(interface: str) -> int:
    """Return the sort key of an interface; in results, PCI devices come last."""
    return int(PCI.fullmatch(interface) is not None)


@dataclass(frozen=True)
class Settings:
    """What to monitor and how: options of acapella-monitor. Either ``files`` or ``interfaces``."""

    files: tuple[Path, ...] = ()
    interfaces: tuple[str, ...] = ()  # or DPDK devices
    within: tuple[str, ...] = ()  # command that runs the program in a different network namespace,
    mtu: int | None = None  # and the MTU of that namespace's interfaces
    wanted: expected.ExpectedFlows | None = None
    max_flows: int = 65536
    window: int = 1024
    pattern: str | None = None
    rules: tuple[str, ...] = ()
    packets: bool = False  # log packets
    write: Path | None = None  # truncated capture
    snaplen: int = 64  # snap length of the capture
    duration_s: float | None = None
    idle_s: float | None = None
    every_s: float | None = None  # time between events
    live_flows: int = 0  # flows in events

    def for_file(self, number: int) -> "Settings":
        """Return the settings for one of the files, without a log or a capture of packets."""
        return replace(self, files=self.files[number : number + 1], packets=False, write=None)

    def argv(self, scratch: Path, correction: drift.Drift | None = None) -> list[str]:
        """Return the command line; ``scratch``: directory of the list of flows, the result and logs."""
        argv = [*self.within, executable(), "--result", str(scratch / "result"), "--window", str(self.window)]
        if self.wanted is not None:
            flows = scratch / "flows"
            self.wanted.write(flows)
            argv += ["--flows", str(flows)]
        else:
            argv += ["--max-flows", str(self.max_flows)]
        values = {
            "--pattern": self.pattern,
            "--packets": scratch / "packets" if self.packets else None,
            "--write": self.write,
            "--snaplen": self.snaplen if self.write else None,
            "--duration": self.duration_s,
            "--stop-when-idle": self.idle_s,
            "--every": self.every_s,
            "--live-flows": self.live_flows or None,
            "--drift": correction and f"{correction.rate_ppt},{correction.from_ns}",
        }
        argv += [text for name, value in values.items() if value is not None for text in (name, str(value))]
        argv += [text for rule in self.rules for text in ("--rule", rule)]
        argv += [text for file in self.files for text in ("--read", str(file))]
        return argv + self._devices()

    def _devices(self) -> list[str]:
        """Return the options of the interfaces, and their longest frame."""
        options, longest = [], MIN_FRAME
        for number, name in enumerate(self.interfaces):
            device, _, frame = port_options(name, number, self.mtu, ring=RING_KIB // len(self.interfaces))
            options += device
            longest = max(longest, frame)
        return [*options, "--max-frame", str(longest)] if options else []


@dataclass(frozen=True)
class RunResult:
    """The result of a run: the counts of each port, and the records of its packets if they were logged.

    ``failure``: why an output other than the counts is incomplete; then there are no records.
    """

    ports: list[result.PortResult]
    packets: list[np.ndarray]
    failure: UserError | None = None

    def complete(self) -> "RunResult":
        """Return the result. Raises UserError if an output of the run is not complete."""
        if self.failure is not None:
            raise self.failure
        return self


def count(
    settings: Settings,
    scratch: Path,
    correction: drift.Drift | None = None,
    on_event: Callable[[Event], bool | None] = lambda _: None,
    *,
    until_signal: bool = False,
) -> RunResult:
    """Run the program to its end. ``on_event`` is called with each of its events; the program ends if it returns True.

    ``until_signal``: SIGINT, SIGTERM and SIGHUP end the program, whose counts until then are returned. Otherwise, they
    raise an exception as usual, which also ends the program: partial counts are not a result. Raises UserError with the
    program's message if it fails; if only outputs other than the counts failed, returns the counts.
    """
    return start_with_retries(lambda: count_once(settings, scratch, correction, on_event, until_signal=until_signal))


def count_once(
    settings: Settings,
    scratch: Path,
    correction: drift.Drift | None,
    on_event: Callable[[Event], bool | None],
    *,
    until_signal: bool,
) -> RunResult:
    """Run the program once; see ``count``."""
    for name in ("result", *(f"packets-{number}" for number in range(len(settings.files) + len(settings.interfaces)))):
        (scratch / name).unlink(missing_ok=True)
    with (scratch / "messages").open("w+b") as messages:
        # In a separate session: Ctrl-C reaches only this process, which forwards it or kills the program.
        process = subprocess.Popen(
            settings.argv(scratch, correction), stdout=subprocess.PIPE, stderr=messages, start_new_session=True
        )
        try:
            with passing_signals(process) if until_signal else nullcontext():
                for event in events(process.stdout):
                    if on_event(event):
                        process.send_signal(signal.SIGINT)
                status = process.wait()
        finally:
            kill_and_reap(process)
        messages.seek(0)
        text = messages.read().decode(errors="replace")
    if status != 0:
        error = failure(PROGRAM, text, outside=status == OUTSIDE)
        if not (scratch / "result").exists():
            raise error
        return RunResult(result.read(scratch / "result"), [], error)
    for warning in warnings(text):
        names.report(f"acapella: warning: {warning}")
    return RunResult(result.read(scratch / "result"), logs(settings, scratch))


def logs(settings: Settings, scratch: Path) -> list[np.ndarray]:
    """Return the records of packets of each port."""
    count_ = len(settings.files) + len(settings.interfaces) if settings.packets else 0
    return [losses.read_log(scratch / f"packets-{number}") for number in range(count_)]


def events(lines: Iterator[bytes]) -> Iterator[Event]:
    """Yield the events of the program's output; lines of libraries are ignored."""
    for line in lines:
        if line.startswith(b"{"):
            yield json.loads(line)


@contextmanager
def passing_signals(process: subprocess.Popen) -> Iterator[None]:
    """Forward termination signals of this process to a child process.

    Signals that are ignored, for example because of nohup, remain ignored.
    """
    before = {
        number: signal.signal(number, lambda received, _: process.send_signal(received))
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def warnings(text: str) -> list[str]:
    """Return the program's messages without its name; lines of libraries are ignored."""
    return [line.removeprefix(f"{PROGRAM}: ") for line in text.splitlines() if line.startswith(f"{PROGRAM}: ")]
