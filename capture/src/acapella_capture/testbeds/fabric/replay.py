"""Replay of a capture from a node of the user's own slice: the program is uploaded, and controlled over SSH.

The node has nothing installed, so the program is linked statically (make setup-fabric). The replayed frames have their
own source MAC address; the trials are recorded at the switch port that the config names.
"""

import json
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import atomic_path, scratch_directory, sha256_of

from ...control.watchdog import CLOCK
from ...replay.clocks import clock_of
from ...replay.departures import Origin, convert, median_gap_ns, read
from ...replay.ports import ProgramSettings
from ...scan import scan_apart
from ...settings import FabricReplayEnvironment, FabricReplaySettings
from ..base import Job, Port, Replay, Site, Testbed
from ..local import replay_capture

PROGRAM = "acapella-dpdk-replay-static"  # built by make setup-fabric
KEY = "fabric.replay"
SENDER_MAC = "02:00:00:00:fe:01"  # used by no host: identifies replayed frames
RECORDING = "replayed.pcap"  # in raw/
CAPTURE, EVENTS, COMMANDS, DEPARTURES = "replay.pcap", "replay-events", "replay-commands", "replay-departures"
PACING = "bursts"
PPM = 1_000_000
CONVERT_S = 600
COMMAND_S = 60  # for a command to take effect; a run may take its duration longer
LEAD_NS = 2_000_000_000  # from the command to the start of a run, which SSH has to transmit
POLL_S = 0.2
# The FIFO is opened for reading and writing, so that the program sees no end of its input between two commands.
START = 'rm -f "$1" && mkfifo -m 600 "$1" && fifo=$1 && shift && exec "$@" <> "$fifo"'
SEND = 'printf "%s\\n" "$2" > "$1"'


def program() -> Path:
    """Return the path of the program to upload. Raises UserError if it was not built."""
    found = Path(sys.executable).with_name(PROGRAM)
    if not found.is_file():
        raise UserError(f"{PROGRAM} is missing, which is needed on the node", where=KEY,
                        fix="run make setup-fabric and read its messages")  # fmt: skip
    return found


def check(settings: FabricReplaySettings | None) -> None:
    """Raise UserError if a file to be uploaded is missing, before any resource is requested."""
    if settings is None:
        return
    program()
    if settings.capture is not None:
        try:
            with Path(settings.capture).open("rb"):
                pass
        except OSError as error:
            raise UserError(f"cannot read {settings.capture}: {error.strerror}", where=f"{KEY}.capture") from error


def describe(settings: FabricReplaySettings | None) -> list[str]:
    """Return the lines of a plan."""
    if settings is None:
        return []
    what = settings.capture or f"a generated capture of {replay_capture.PACKETS} packets"
    trials = [f"{one.name}-1 to {one.name}-{settings.repeats}{speed_text(one)}" for one in settings.environments]
    return [
        f"replay: {what}, {settings.repeats} times, by {PROGRAM}, which is uploaded to node {settings.node} of slice "
        f"{settings.slice}, interface {settings.interface}",
        f"replay: recorded at {settings.site} {settings.port} ({settings.direction}), after all other samples",
        f"replay: trials {'; '.join(trials)}",
    ]


def plan(settings: FabricReplaySettings, site: Site, port: Port) -> Replay:
    """Return the replay (testbeds.base), recorded at a port of a site."""
    path = f"{settings.interface} of {settings.node} (slice {settings.slice}) to {settings.destination_mac}"
    return Replay(
        site=site,
        port=port,
        direction=settings.direction,
        filter=f"ether src {SENDER_MAC}",
        environments=tuple(environment.name for environment in settings.environments),
        repeats=settings.repeats,
        notes={
            environment.name: f"trials: replayed by {NodeSender.name} from {path}{speed_text(environment)}"
            for environment in settings.environments
        },
    )


def speed_text(environment: FabricReplayEnvironment) -> str:
    """Return the speed of an environment as part of a sentence, "" for the recorded one."""
    return "" if environment.speed == 1 else f", {environment.speed:g} times as fast as recorded"


def environment_of(settings: FabricReplaySettings, name: str) -> FabricReplayEnvironment:
    """Return an environment by its name."""
    return next(environment for environment in settings.environments if environment.name == name)


def write_capture(settings: FabricReplaySettings, target: Path) -> None:
    """Write the capture to be replayed as Ethernet pcap with the MAC addresses of the path. Raises UserError."""
    if settings.capture is None:
        replay_capture.write(target, SENDER_MAC, settings.destination_mac)
        return
    argv = ["editcap", "-F", "nsecpcap", settings.capture, str(target)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=CONVERT_S, check=False)
    except FileNotFoundError as error:
        fix = "apt-get install wireshark-common"
        raise UserError("editcap is missing", where=f"{KEY}.capture", fix=fix) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise UserError(f"editcap cannot use {settings.capture}: {lines[-1].strip()}", where=f"{KEY}.capture")
    if not replay_capture.is_ethernet_pcap(target):
        raise UserError(f"the frames of {settings.capture} are not Ethernet", where=f"{KEY}.capture")
    replay_capture.put_between(target, SENDER_MAC, settings.destination_mac)


class NodeSender:
    """The program on a node, which has the capture in memory between `open` and `close`."""

    name = "acapella replay"

    def __init__(
        self, testbed: Testbed, node: str, settings: FabricReplaySettings, environment: FabricReplayEnvironment
    ):
        self._testbed = testbed
        self._node = node
        self._settings = settings
        self._speed = environment.speed
        self._speed_ppm = round(environment.speed * PPM)
        self._where = f"replay on node {node}"
        self._files = ExitStack()
        self._job: Job | None = None
        self._done: dict[str, Any] = {}

    def open(self) -> None:
        """Upload program and capture, start the program, and load the capture. Raises UserError if that fails."""
        try:
            self._capture = self._files.enter_context(scratch_directory()) / CAPTURE
            write_capture(self._settings, self._capture)
            frames = scan_apart(self._capture).frames
            if not frames:
                raise UserError("has no frames", where=self._settings.capture)
            self._testbed.put(self._node, self._capture, CAPTURE)
            place = self._upload_program()
            settings = ProgramSettings(
                (self._settings.interface,), packets=frames, departures=frames, pace=PACING, mtu=self._mtu()
            )
            fifo = self._path(COMMANDS)
            argv = ["sh", "-c", START, "sh", fifo, *settings.argv(place)]
            self._job = self._testbed.start(self._node, argv, output=EVENTS)
            self._wait(("ready",), 0, COMMAND_S)
            self._command(f"load {self._path(CAPTURE)}", ("loaded",))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the program, and delete the local copy of the capture."""
        job, self._job = self._job, None
        self._files.close()
        if job is not None and job.poll() is None:
            job.signal("TERM")
            if job.wait(COMMAND_S) is None:
                job.signal("KILL")

    def send(self) -> int:
        """Send the capture once and return the number of packets. Raises UserError if some were not sent."""
        at_ns = int(self._run("date", "+%s%N")) + LEAD_NS  # by the node's clock
        scheduled = self._command(f"run {at_ns} 1 {self._speed_ppm}", ("scheduled",))
        seconds = scheduled["period_ns"] / 1e9 + LEAD_NS / 1e9 + COMMAND_S
        self._done = self._wait(("done",), self._events().index(scheduled) + 1, seconds)
        dropped = {name: count for name, count in self._done.get("dropped", {}).items() if count}
        if dropped:
            reasons = ", ".join(f"{count} {name}" for name, count in dropped.items())
            what = f"sent {self._done['sent']} packets and failed to send others: {reasons}"
            raise UserError(what, where=self._where)
        return self._done["sent"]

    def deliver(self, sample: str, raw: Path) -> dict[str, Any]:
        """Write recording and departures of the last trial to raw/; return manifest key `replay`. Raises UserError."""
        recording, departures = raw / RECORDING, raw / f"{sample}.departures.parquet"
        checksum = sha256_of(self._capture)
        if not recording.is_file() or sha256_of(recording) != checksum:
            with atomic_path(recording) as temporary:
                temporary.write_bytes(self._capture.read_bytes())
        self._testbed.run(self._node, ["rm", "-f", self._path(DEPARTURES)])
        self._command(f"departures {self._path(DEPARTURES)}", ("saved",))
        clock = clock_of(self._testbed.run(self._node, ["sh", "-c", CLOCK]).stdout)
        origin = Origin(
            clock_offset_ns=clock["offset_ns"],
            clock_error_ns=clock["error_ns"],
            clock_source=clock["source"],
            node_clock=clock,
            recording_sha256=checksum,
            speed_ppm=self._speed_ppm,
            pacing=PACING,
        )
        binary = self._capture.with_name(DEPARTURES)
        self._testbed.fetch(self._node, self._path(DEPARTURES), binary)
        convert(binary, departures, origin)
        polling = self._done.get("polling", {})
        return {
            "sender": self.name,
            **{"replayers": 1, "polling": "separate", "priority": self._done.get("priority"), "speed": self._speed},
            "path": {"kind": "slice", "link": self._settings.interface, "rate_bps": None, "queue_bytes": None},
            "noise_streams": 0,
            "recordings": [{"file": recording.name, "sha256": checksum}],
            "departures": [{"file": departures.name, "sha256": sha256_of(departures)}],
            "sent_late": self._done.get("sent_late"),
            "late_ns": self._done.get("late_ns"),
            "preemptions": polling.get("preemptions"),
            "largest_gap_ns": polling.get("largest_gap_ns"),
            "median_gap_ns": median_gap_ns(read(binary)["requested_ns"]),
            **{"skew_ns": None, "skew_error_ns": None},
        }

    def _upload_program(self) -> str:
        """Upload the program unless this version is there. Return its path on the node, usable as a command."""
        source = program()
        file = f"{PROGRAM}-{sha256_of(source)[:16]}"
        place = self._path(file)
        if self._testbed.run(self._node, ["test", "-f", place]).status != 0:
            self._testbed.put(self._node, source, file)
        return place if "/" in place else f"./{place}"

    def _path(self, file: str) -> str:
        return self._testbed.path_on_node(self._node, file)

    def _mtu(self) -> int:
        shown = self._run("ip", "-o", "link", "show", "dev", self._settings.interface)
        found = re.search(r" mtu (\d+) ", shown)
        if found is None:
            raise UserError(f"no interface {self._settings.interface}", where=self._where)
        return int(found[1])

    def _run(self, *argv: str) -> str:
        """Run a program to its end and return its output. Raises UserError if it fails."""
        done = self._testbed.run(self._node, argv)
        if done.status != 0:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.status}"]
            raise UserError(f"{argv[0]}: {lines[-1]}", where=self._where)
        return done.stdout

    def _command(self, line: str, wanted: tuple[str, ...]) -> dict[str, Any]:
        """Send a command and return its event. Raises UserError if the program refuses it or has ended."""
        before = len(self._events())
        self._check_running()
        self._run("sh", "-c", SEND, "sh", self._path(COMMANDS), line)
        return self._wait(wanted, before, COMMAND_S)

    def _wait(self, wanted: tuple[str, ...], after: int, timeout_s: float) -> dict[str, Any]:
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
        done = self._testbed.run(self._node, ["cat", self._path(EVENTS)])
        whole = done.stdout[: done.stdout.rfind("\n") + 1] if done.status == 0 else ""
        try:
            events = [json.loads(line) for line in whole.splitlines()]
        except ValueError as error:
            raise UserError("an event of the program is not JSON", where=self._where) from error
        return [event for event in events if isinstance(event, dict)]
