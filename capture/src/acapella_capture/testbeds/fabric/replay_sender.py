"""Replays on a node of the user's own slice with a program that is uploaded and controlled over SSH.

The node has no software installed, so the program is linked statically (make setup-fabric). It reads commands from a
FIFO and writes events to a file.
"""

import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError

from ...control.watchdog import CLOCK
from ...replay import departures
from ...replay.clocks import clock_of, measure
from ...replay.ports import ProgramSettings
from ...scan import scan_in_subprocess
from ..base import Job, Testbed
from ..sent_trials import unsent
from ..uploads import upload
from .replay_clocks import NodeClock
from .replies import is_count

PROGRAM = "acapella-dpdk-replay-static"  # built by make setup-fabric
KEY = "fabric.replay"
PACING = "bursts"
MAX_RUN_NS = 86_400 * 10**9  # maximum duration of a run
MAX_COUNT = (1 << 63) - 1
MAX_VALUES = {"priority": 99}  # maximum values in the report of a run; MAX_COUNT for others
COMMAND_S = 60  # time for a command to take effect, in addition to the duration of a run
POLL_S = 0.2
ROUND_TRIPS = 4  # round trips over SSH; the shortest counts
# The FIFO is opened for reading and writing, so that the program sees no end of its input between two commands.
START = 'rm -f "$1" && mkfifo -m 600 "$1" && fifo=$1 && shift && exec "$@" <> "$fifo"'
SEND = 'printf "%s\\n" "$2" > "$1"'


def program() -> Path:
    """Return the path of the program to upload. Raises UserError if it was not built."""
    found = Path(sys.executable).with_name(PROGRAM)
    if not found.is_file():
        raise UserError(f"{PROGRAM}, which is needed on the node, is missing", where=KEY,
                        fix="run make setup-fabric and read its messages")  # fmt: skip
    return found


class NodeSender:
    """The program on a node. Between `open` and `close`, it has its part of the capture in memory.

    ``number`` distinguishes the files of several senders on one node. All methods raise UserError.
    """

    def __init__(self, testbed: Testbed, node: str, interface: str, number: int):
        self.node = node
        self.interface = interface
        self.done: dict[str, Any] = {}  # report of the last run
        self._testbed = testbed
        self._number = number
        self._where = f"replay on node {node}"
        self._job: Job | None = None
        self._scheduled: dict[str, Any] = {}
        self._frames = 0  # in the capture
        self._events_before = 0  # number of events when the last run was scheduled

    def open(self, capture: Path) -> None:
        """Upload program and capture, start the program, and load the capture."""
        self._frames = frames = scan_in_subprocess(capture).frames
        if not frames:
            raise UserError("the capture has no frames", where=f"{KEY}.capture")
        self._testbed.put(self.node, capture, self._file("capture"))
        path = upload(self._testbed, self.node, program(), PROGRAM)
        settings = ProgramSettings((self.interface,), packets=frames, departures=frames, pace=PACING, mtu=self._mtu())
        argv = ["sh", "-c", START, "sh", self._path("commands"), *settings.argv(path)]
        self._job = self._testbed.start(self.node, argv, output=self._file("events"))
        self._wait(("ready",), 0, COMMAND_S)
        self._command(f"load {self._path('capture')}", ("loaded",))

    def close(self) -> None:
        """End the program."""
        job, self._job = self._job, None
        if job is not None and job.poll() is None:
            job.signal("TERM")
            if job.wait(COMMAND_S) is None:
                job.signal("KILL")

    def now_ns(self) -> int:
        """Return the time of the node's clock."""
        printed = self._run("date", "+%s%N")
        if not re.fullmatch(r"[0-9]{1,20}\n?", printed):
            raise UserError(f"date printed {printed[:40]!r}", where=self._where)
        return int(printed)

    def clock(self) -> NodeClock:
        """Return the state of the node's clock and its offset from this machine's."""

        def request() -> tuple[int, int]:
            now_ns = self.now_ns()
            return now_ns, now_ns

        state = self.clock_state()
        return NodeClock(self.node, state, measure(request, time.time_ns, ROUND_TRIPS))

    def clock_state(self) -> dict[str, Any]:
        """Return the state of the node's clock, as the clock program there reports it."""
        return clock_of(self._testbed.run(self.node, ["sh", "-c", CLOCK]).stdout)

    def schedule(self, at_ns: int, speed_ppm: int) -> int:
        """Schedule a run, which starts at a time of the node's clock; return its planned end time."""
        self._events_before = len(self._events())
        self._scheduled = self._command(f"run {at_ns} 1 {speed_ppm}", ("scheduled",))
        period_ns = self._scheduled.get("period_ns")
        if not is_count(period_ns) or period_ns > MAX_RUN_NS:
            raise UserError("the program reported no valid period", where=self._where)
        return at_ns + self._scheduled["period_ns"]

    def finish(self, lead_ns: int) -> int:
        """Wait for the end of the run that starts in at most ``lead_ns``; return the number of packets.

        Raises UserError if some were not sent.
        """
        seconds = (self._scheduled["period_ns"] + lead_ns) / 1e9 + COMMAND_S
        self.done = checked_report(self._wait(("done",), self._events_before, seconds), self._where)
        if fault := unsent(self.done):
            raise UserError(fault, where=self._where)
        return self.done["sent"]

    def stop(self) -> None:
        """Stop a run; no effect if it has ended."""
        self._command("stop", ("done", "stopped"))

    def fetch_departures(self, target: Path) -> None:
        """Write the program's records of the last run to a file."""
        self._testbed.run(self.node, ["rm", "-f", self._path("departures")])
        self._command(f"departures {self._path('departures')}", ("saved",))
        self._testbed.fetch(self.node, self._path("departures"), target)
        departures.check_size(target, self._frames)

    def _file(self, kind: str) -> str:
        """Return the name of a file of this sender on the node."""
        return f"replay-{self._number}-{kind}"

    def _path(self, kind: str) -> str:
        return self._testbed.path_on_node(self.node, self._file(kind))

    def _mtu(self) -> int:
        shown = self._run("ip", "-o", "link", "show", "dev", self.interface)
        found = re.search(r" mtu ([0-9]{1,9}) ", shown)
        if found is None:
            raise UserError(f"no interface {self.interface}", where=self._where)
        return int(found[1])

    def _run(self, *argv: str) -> str:
        """Run a program to its end and return its output. Raises UserError if it fails."""
        done = self._testbed.run(self.node, argv)
        if done.status != 0:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.status}"]
            raise UserError(f"{argv[0]}: {lines[-1]}", where=self._where)
        return done.stdout

    def _command(self, line: str, wanted: Sequence[str]) -> dict[str, Any]:
        """Send a command and return its event. Raises UserError if the program rejects it or has ended."""
        before = len(self._events())
        self._check_running()
        self._run("sh", "-c", SEND, "sh", self._path("commands"), line)
        return self._wait(wanted, before, COMMAND_S)

    def _wait(self, wanted: Sequence[str], after: int, timeout_s: float) -> dict[str, Any]:
        """Return the first wanted event after a number of events. Raises UserError for an error of the program."""
        end = time.monotonic() + timeout_s
        while True:
            for event in self._events()[after:]:
                if event.get("event") == "error":
                    raise UserError(str(event.get("message")), where=self._where)
                if event.get("event") in wanted:
                    return event
            self._check_running()
            if time.monotonic() > end:
                raise UserError(f"no reply for {timeout_s:.0f} s", where=self._where)
            time.sleep(POLL_S)

    def _check_running(self) -> None:
        """Raise UserError with the program's last message if it has ended."""
        status = self._job.poll()
        if status is not None:
            lines = self._job.log().strip().splitlines() or [f"exit status {status}"]
            raise UserError(f"ended: {lines[-1]}", where=self._where)

    def _events(self) -> list[dict[str, Any]]:
        """Return the events of the program so far. Raises UserError if they are not JSON."""
        done = self._testbed.run(self.node, ["cat", self._path("events")])
        complete_lines = done.stdout[: done.stdout.rfind("\n") + 1] if done.status == 0 else ""
        try:
            events = [json.loads(line) for line in complete_lines.splitlines()]
            json.dumps(events, ensure_ascii=False).encode()  # fails for lone surrogates, which JSON may contain
        except (ValueError, RecursionError) as error:
            raise UserError("an event of the program is malformed", where=self._where) from error
        return [event for event in events if isinstance(event, dict)]


def checked_report(done: dict[str, Any], where: str) -> dict[str, Any]:
    """Return an event `done` of a node's program, which is untrusted. Raises UserError for an invalid value."""
    dropped, polling = done.get("dropped", {}), done.get("polling", {})
    if isinstance(dropped, dict) and isinstance(polling, dict):
        optional = {key: done.get(key) for key in ("sent_late", "late_ns", "priority")}
        optional |= {key: polling.get(key) for key in ("preemptions", "largest_gap_ns")}
        counts = [
            ("sent", done.get("sent")),
            *dropped.items(),
            *(item for item in optional.items() if item[1] is not None),
        ]
        if all(is_count(count) and count <= MAX_VALUES.get(key, MAX_COUNT) for key, count in counts):
            return done
    raise UserError("the report of a run is malformed", where=where)
