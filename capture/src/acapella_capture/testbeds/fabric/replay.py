"""Replay of a capture from nodes of the user's own slice (replay_sender.py), one or several at the same time.

Packet i is sent by replayer i modulo their number. All of them get the same absolute start time for the capture, and
each reads its node's clock. The replayed frames have their own source MAC addresses; the trials are recorded at the
switch port that the config names.
"""

import contextlib
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from acapella_core.errors import UserError
from acapella_core.files import scratch_directory, sha256_of

from ...replay import departures, skew
from ...replay.clocks import Offset, max_clock_error_ns
from ...replay.departures import NO_TIME, Origin
from ...settings import FabricReplayEnvironment, FabricReplaySettings
from ..base import Port, Replay, Site, Testbed
from ..local import replay_capture
from ..sent_trials import Part, delays, departures_file, keep_recording
from .replay_clocks import NodeClock, common_reference
from .replay_sender import KEY, PACING, PROGRAM, NodeSender, program

SENDER_MAC = "02:00:00:00:fe:{:02x}"  # used by no host: identifies replayed frames, by the number of the replayer
SENDER = "acapella replay"
REPLAYED_CAPTURE = "replayed.pcap"  # name of the sent capture in raw/
CONVERT_S = 600
LEAD_NS = 2_000_000_000  # per replayer: from the command, which SSH has to transmit, to the start of a run
PPM = 1_000_000


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
    senders = "; ".join(f"node {sender.node}, interface {sender.interface}" for sender in settings.senders)
    trials = [
        f"{environment.name}-1 to {environment.name}-{settings.repeats}{conditions(environment)}"
        for environment in settings.environments
    ]
    return [
        f"replay: {what}, {settings.repeats} times in each environment, by {PROGRAM}",
        f"replay: uploaded to slice {settings.slice}: {senders}",
        f"replay: recorded at {settings.site} {settings.port} ({settings.direction}), after all other samples",
        f"replay: trials {'; '.join(trials)}",
    ]


def conditions(environment: FabricReplayEnvironment) -> str:
    """Return the replayers and the speed of an environment as part of a sentence; "" for one at recorded speed."""
    replayers = "" if environment.replayers == 1 else f", by {environment.replayers} replayers together"
    speed = "" if environment.speed == 1 else f", {environment.speed:g} times as fast as recorded"
    return replayers + speed


def plan(settings: FabricReplaySettings, site: Site, port: Port) -> Replay:
    """Return the plan of the trials (testbeds.base), recorded at a port of a site."""
    return Replay(
        site=site,
        port=port,
        direction=settings.direction,
        filter=" or ".join(f"ether src {SENDER_MAC.format(number)}" for number, _ in enumerate(settings.senders, 1)),
        repeats={environment.name: settings.repeats for environment in settings.environments},
        notes={environment.name: note(settings, environment) for environment in settings.environments},
    )


def environment_of(settings: FabricReplaySettings, name: str) -> FabricReplayEnvironment:
    """Return an environment by its name."""
    return next(environment for environment in settings.environments if environment.name == name)


def note(settings: FabricReplaySettings, environment: FabricReplayEnvironment) -> str:
    """Return how the trials of an environment are replayed."""
    senders = environment.senders(settings)
    paths = ", ".join(f"{sender.interface} of {sender.node} to {sender.destination_mac}" for sender in senders)
    return f"trials: replayed by {SENDER} from slice {settings.slice}: {paths}{conditions(environment)}"


def write_capture(given: str | None, target: Path, source_mac: str, destination_mac: str) -> None:
    """Write the capture to be replayed as Ethernet pcap with the MAC addresses of the path. Raises UserError."""
    if given is None:
        replay_capture.write(target, source_mac, destination_mac)
        return
    argv = ["editcap", "-F", "nsecpcap", given, str(target)]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=CONVERT_S, check=False)
    except FileNotFoundError as error:
        fix = "apt-get install wireshark-common"
        raise UserError("editcap is missing", where=f"{KEY}.capture", fix=fix) from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise UserError(f"editcap cannot use {given}: {lines[-1].strip()}", where=f"{KEY}.capture")
    if not replay_capture.is_ethernet_pcap(target):
        raise UserError(f"the frames of {given} are not Ethernet", where=f"{KEY}.capture")
    replay_capture.set_mac_addresses(target, source_mac, destination_mac, f"{KEY}.capture")


def write_parts(given: str | None, directory: Path, destination_macs: Sequence[str]) -> list[Part]:
    """Write the capture of each replayer to a directory. Raises UserError if there are fewer frames than replayers."""
    recording = directory / REPLAYED_CAPTURE
    write_capture(given, recording, SENDER_MAC.format(1), destination_macs[0])
    count = len(destination_macs)
    if count == 1:
        return [Part(recording, REPLAYED_CAPTURE)]
    names = [f"replayed-{number}of{count}.pcap" for number in range(1, count + 1)]
    offsets = replay_capture.split(recording, [directory / name for name in names], f"{KEY}.capture")
    for number, (name, mac) in enumerate(zip(names, destination_macs, strict=True), 1):
        replay_capture.set_mac_addresses(directory / name, SENDER_MAC.format(number), mac)
    return [Part(directory / name, name, offset) for name, offset in zip(names, offsets, strict=True)]


class Replayer:
    """The replayers of an environment. ``nodes``: the testbed's names of their nodes. Methods raise UserError."""

    def __init__(
        self,
        testbed: Testbed,
        nodes: Sequence[str],
        settings: FabricReplaySettings,
        environment: FabricReplayEnvironment,
    ):
        chosen = environment.senders(settings)
        self._testbed = testbed
        self._capture = settings.capture
        self._macs = [sender.destination_mac for sender in chosen]
        self._senders = [
            NodeSender(testbed, node, sender.interface, number)
            for number, (node, sender) in enumerate(zip(nodes, chosen, strict=True), 1)
        ]
        self._speed = environment.speed
        self._speed_ppm = round(environment.speed * PPM)
        self._lead_ns = LEAD_NS * len(chosen)
        self._parts: list[Part] = []
        self._clocks: list[NodeClock] = []
        self._stack = ExitStack()

    def __enter__(self) -> "Replayer":
        """Start the programs and load their parts of the capture."""
        try:
            self._directory = self._stack.enter_context(scratch_directory())
            self._parts = write_parts(self._capture, self._directory, self._macs)
            for node in dict.fromkeys(sender.node for sender in self._senders):
                self._testbed.end_programs(node)
            for sender, part in zip(self._senders, self._parts, strict=True):
                self._stack.callback(sender.close)
                sender.open(part.capture)
            self._clocks = self._read_clocks()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the programs."""
        self._stack.close()

    def send(self) -> int:
        """Send the capture once and return the number of packets. Raises UserError if some were not sent."""
        now_ns = [sender.now_ns() for sender in self._senders]
        read_s = time.monotonic()
        start_ns = max(now_ns) + self._lead_ns
        try:
            ends_ns = [
                sender.schedule(start_ns + part.offset_ns * PPM // self._speed_ppm, self._speed_ppm)
                for sender, part in zip(self._senders, self._parts, strict=True)
            ]
            longest_ns = max(end_ns - now for end_ns, now in zip(ends_ns, now_ns, strict=True))
            # SSH would disturb the runs: it uses the CPUs and possibly the links of the nodes
            time.sleep(max(0, read_s + longest_ns / 1e9 - time.monotonic()))
            return sum(sender.finish(self._lead_ns) for sender in self._senders)
        except UserError:
            for sender in self._senders:
                with contextlib.suppress(UserError):  # it has ended, or there is nothing to stop
                    sender.stop()
            raise

    def deliver(self, sample: str, raw: Path) -> dict[str, Any]:
        """Write recordings and departures of the last trial to raw/; return manifest key `replay`."""
        clocks, self._clocks = self._clocks, self._read_clocks()
        origins = self._origins(clocks)
        recordings, written, records, deviations = [], [], [], []
        for number, (sender, part, origin) in enumerate(zip(self._senders, self._parts, origins, strict=True), 1):
            recordings.append({"file": part.name, "sha256": keep_recording(part, raw)})
            binary = self._directory / f"departures-{number}"
            sender.fetch_departures(binary)
            target = departures_file(sample, raw, number, len(self._senders))
            departures.convert(binary, target, origin)
            written.append({"file": target.name, "sha256": sha256_of(target)})
            records.append(departures.read(binary))
            deviations.append(deviation_of(f"{sender.node}:{sender.interface}", records[-1], origin))
        largest = skew.largest([deviation for deviation in deviations if deviation is not None])
        return {
            "sender": SENDER,
            **{"replayers": len(self._senders), "polling": "separate", "speed": self._speed},
            "priority": self._senders[0].done.get("priority"),
            "path": {"kind": "slice", "link": self._link(), "rate_bps": None, "queue_bytes": None},
            "noise_streams": 0,
            "recordings": recordings,
            "departures": written,
            **delays([sender.done for sender in self._senders]),
            "median_gap_ns": departures.median_gap_ns(np.concatenate([rows["requested_ns"] for rows in records])),
            "skew_ns": largest and largest.skew_ns,
            "skew_error_ns": largest and largest.error_ns,
        }

    def _link(self) -> str:
        """Return the interfaces of the senders."""
        return ", ".join(sender.interface for sender in self._senders)

    def _read_clocks(self) -> list[NodeClock]:
        """Return the clocks of the nodes; [] for a single replayer, which is not compared with others."""
        return [sender.clock() for sender in self._senders] if len(self._senders) > 1 else []

    def _origins(self, before: Sequence[NodeClock]) -> list[Origin]:
        """Return the origin of the departures of each replayer. ``before``: the clocks before the trial."""
        if len(self._senders) == 1:
            state = self._senders[0].clock_state()
            return [self._origin(0, state, state["source"], state["offset_ns"], state["error_ns"])]
        source, offsets = common_reference(before, self._clocks)
        return [
            self._origin(index, clock.state, source, offset.offset_ns, offset.error_ns)
            for index, (clock, offset) in enumerate(zip(self._clocks, offsets, strict=True))
        ]

    def _origin(
        self, index: int, state: dict[str, Any], source: str | None, offset_ns: int | None, error_ns: int | None
    ) -> Origin:
        """Return the origin of the departures of a replayer, by its index. ``error_ns``: error of its node's clock.

        The error relative to the receiver is unknown: the receiver is a different machine, even if all replayers are on
        one node.
        """
        program_ns = max_clock_error_ns(self._senders[index].done) or 0
        return Origin(
            clock_offset_ns=offset_ns,
            clock_error_ns=None if error_ns is None else error_ns + program_ns,
            clock_source=source,
            recording_sha256=sha256_of(self._parts[index].capture),
            speed_ppm=self._speed_ppm,
            pacing=PACING,
            node_clock=state,
        )


def deviation_of(name: str, records: np.ndarray, origin: Origin) -> skew.Deviation | None:
    """Return the deviation of a replayer from the requested times; None if it sent nothing."""
    sent = records[records["departed_ns"] != NO_TIME]
    errors_ns = np.asarray(sent["departed_ns"] - sent["requested_ns"], np.int64)
    return skew.deviation(name, errors_ns, Offset(origin.clock_offset_ns or 0, origin.clock_error_ns or 0))
