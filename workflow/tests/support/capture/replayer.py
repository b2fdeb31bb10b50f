"""Run acapella-dpdk-replay, built with ASan and UBSan: commands in, events out."""

import contextlib
import json
import queue
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from acapella_testing import c_programs
from acapella_testing.capture import dpdk_writer
from acapella_testing.capture.dpdk_writer import LIMIT_S, Frame, pcap_bytes, read_pcap
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require_programs

SOURCE = c_programs.ROOT / "capture" / "replay"
RECORD = struct.Struct("<IHBBQqqIHH")
NEVER = -(1 << 63)
OUTCOMES = ("sent", "ring_full", "late", "too_long", "too_short", "driver_error", "stopped")
SMALL = ("--packets", 4096, "--departures", 65536)
NULL = ("--vdev", "net_null0", "--tx", "net_null0")  # sends to a null device


def built_or_skip() -> Path:
    """Return the program, built with the sanitizers; skip the test if its libraries are not installed."""
    return c_programs.built_or_skip("acapella-dpdk-replay")


def environment() -> dict[str, str]:
    return dpdk_writer.environment(SOURCE)


@dataclass(frozen=True)
class Departure:
    """A record of a file of departures."""

    loop: int
    port: int
    outcome: str
    flags: int
    packet: int
    requested_ns: int
    departed_ns: int | None
    retries: int
    queue: int


def read_departures(path: Path) -> list[Departure]:
    """Return the records of a file of departures."""
    raw = path.read_bytes()
    assert raw[:8] == b"ACDEPv1\0" and (len(raw) - 8) % RECORD.size == 0
    found = []
    for *fields, reserved in RECORD.iter_unpack(raw[8:]):
        loop, port, outcome, flags, packet, requested, departed, *others = fields
        assert reserved == 0
        at = None if departed == NEVER else departed
        found.append(Departure(loop, port, OUTCOMES[outcome], flags, packet, requested, at, *others))
    return found


class Replayer:
    """A running program. Events are read by a thread, so that neither side blocks."""

    def __init__(
        self,
        *arguments: object,
        prefix: tuple[str, ...] = (),
        program: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """``program`` is another build; ``variables`` are added to the environment."""
        argv = [*prefix, str(program or built_or_skip()), *map(str, (*SMALL, *arguments))]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(argv, **pipes, text=True, env=environment() | dict(variables or {}))
        self.events: list[dict] = []
        self.messages = ""
        self._new: queue.Queue = queue.Queue()
        self._threads = [threading.Thread(target=self._read_events), threading.Thread(target=self._read_messages)]
        for thread in self._threads:
            thread.start()

    def _read_events(self) -> None:
        for line in self.process.stdout:
            self._new.put(json.loads(line))
        self._new.put(None)

    def _read_messages(self) -> None:
        for line in self.process.stderr:
            self.messages += line

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join()

    def send(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def wait(self, *kinds: str) -> dict:
        """Return the next event of one of these kinds; an unexpected error or the end fails the test."""
        while True:
            event = self._new.get(timeout=LIMIT_S)
            if event is None:
                self.process.wait(LIMIT_S)
                self._threads[1].join()
                pytest.fail(f"ended without event {kinds}: exit code {self.process.returncode}, {self.messages}")
            self.events.append(event)
            if event["event"] in kinds:
                return event
            assert event["event"] != "error", event

    def ask(self, line: str, *kinds: str) -> dict:
        self.send(line)
        return self.wait(*kinds)

    def run(self, loops: int = 1, speed_ppm: int = 1_000_000, at_ns: int = 0) -> dict:
        """Run to the end and return the event `done`, whose counts must add up."""
        self.send(f"run {at_ns} {loops} {speed_ppm}")
        return checked(self.wait("done"))

    def departures(self, path: Path) -> list[Departure]:
        self.ask(f"departures {path}", "saved")
        return read_departures(path)

    def end(self, how: str | signal.Signals = "quit") -> int:
        """End the program by a command, a signal, or the end of its input; return its exit code."""
        if how == "quit":
            self.send("quit")
        if isinstance(how, signal.Signals):
            self.process.send_signal(how)
        else:
            self.process.stdin.close()
        return self.ended()

    def ended(self) -> int:
        """Wait for the end; return the exit code."""
        status = self.process.wait(LIMIT_S)
        for thread in self._threads:
            thread.join()
        while (event := self._new.get()) is not None:
            self.events.append(event)
        assert "Sanitizer" not in self.messages and "runtime error" not in self.messages, self.messages
        return status

    def errors(self) -> list[str]:
        """Return the error lines of the program, without those of DPDK."""
        return [line for line in self.messages.splitlines() if line.startswith("acapella-dpdk-replay: error: ")]


def startup_error(*arguments: object, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run the program with arguments that it rejects; return its exit code and its message, which is one line."""
    with Replayer(*arguments, prefix=prefix) as program:
        status = program.ended()
    (line,) = program.errors()
    assert program.events == []
    return status, line.removeprefix("acapella-dpdk-replay: error: ")


@contextlib.contextmanager
def loaded(capture: Path, *arguments: object, **options: object) -> Iterator[Replayer]:
    """Run the program with the packets of a capture. ``options``: keyword arguments of Replayer."""
    with Replayer(*arguments, **options) as program:
        program.ask(f"load {capture}", "loaded")
        yield program


def checked(done: dict) -> dict:
    """Return an event `done` after checking its counts."""
    assert done["balanced"] and done["monotone"], done
    assert done["requested"] == done["sent"] + sum(done["dropped"].values()), done
    return done


def write_capture(path: Path, frames: list[Frame]) -> Path:
    return write_file(path, pcap_bytes(frames, nanoseconds=True))


def received(path: Path) -> list[bytes]:
    """Return the frames of a nanosecond pcap, which must not be truncated."""
    frames, left = read_pcap(path)
    assert left == 0
    return [frame.data for frame in frames]


def sent_to_file(path: Path) -> list[bytes]:
    """Return the frames that net_pcap wrote, in a file with microseconds or nanoseconds."""
    return received(write_file(path.with_suffix(".ns"), struct.pack("<I", 0xA1B23C4D) + path.read_bytes()[4:]))


def soon_ns(after_ns: int = 300_000_000) -> int:
    return time.time_ns() + after_ns


@contextlib.contextmanager
def tcpdump(prefix: tuple[str, ...], interface: str, path: Path) -> Iterator[None]:
    """Capture an interface with ns times until the end of the block. All frames are then on disk."""
    require_programs("tcpdump")
    argv = [*prefix, "tcpdump", "-i", interface, "-w", str(path), "-U", "-B", "65536"]
    argv += ["--time-stamp-precision=nano", "--immediate-mode", "-Q", "in"]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    try:
        first = process.stderr.readline()
        assert "listening on" in first, first
        yield
        time.sleep(0.3)  # frames that the kernel has not delivered yet
    finally:
        process.send_signal(signal.SIGINT)
        counts = process.communicate(timeout=LIMIT_S)[1]
    assert "\n0 packets dropped by kernel" in counts, counts
