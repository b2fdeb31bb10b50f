"""Replay of a capture from site1 to host1 of site2 (replay_path.py), in environments that the config describes.

The capture is sent by tcpreplay or by the program of `acapella replay`, which also records when each packet departed.

If nothing else sends, the queues of the bottleneck stay empty. If TCP streams share the path, the queue for
non-expedited packets is full most of the time: packets are delayed, overtaken by expedited ones, or dropped.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from acapella_core.errors import UserError

from ...scan import scan_in_subprocess
from ...settings import ReplayEnvironment, ReplaySettings
from ..base import Replay
from ..sent_trials import Part
from . import drops, replay_capture, sandbox
from .network import Network
from .processes import SPOOL, run, wait_until
from .replay_load import Load
from .replay_path import QUEUE_BYTES, TAG_BYTES, ReplayPath, check_path
from .replay_sender import AcapellaSender
from .replay_tcpreplay import TcpreplaySender

KEY = "local.replay.capture"
SENDER_MAC = "02:00:00:00:fe:{:02x}"  # used by no host: identifies replayed frames, by the number of the replayer
CAPTURE = SPOOL / "replay.pcap"
RECORDING_NAME = "replayed.pcap"  # name of the sent capture in raw/
LOADED_S = 10  # timeout for a queue to form at the bottleneck
SENDERS = {"acapella": AcapellaSender, "tcpreplay": TcpreplaySender}


class Replayer:
    """The replays of one allocation of the testbed. ``bridges``: the switches are kernel bridges."""

    def __init__(self, network: Network, settings: ReplaySettings, *, bridges: bool):
        if network.sites < 2:
            raise UserError("requires at least two sites", where="local.replay", fix="local.sites: 2")
        self.settings = settings
        self.network = network
        self.receiver = network.hosts(2)[0]
        host = network.hosts(1)[0]
        slice_ = network.slice_of(host)
        if not network.connected(host, self.receiver) or (slice_ and slice_.encapsulation not in TAG_BYTES):
            message = f"{host.name} and {self.receiver.name} must be in the same slice, which must not be a pseudowire"
            raise UserError(message, where="local.replay")  # the frames of a pseudowire have different MAC addresses
        self.environments = {environment.name: environment for environment in settings.environments}
        for environment in settings.environments:
            check_path(network, environment, bridges=bridges)
        self._rate_bps = round(settings.bottleneck_mbps * 1e6)
        self._senders = {environment.sender for environment in settings.environments}
        self._source: BinaryIO | None = None
        self._current: tuple[ReplayEnvironment, ReplayPath, AcapellaSender | TcpreplaySender] | None = None
        self._load: Load | None = None
        self._dropped: dict[str, int] = {}  # during the last trial, by qdisc or interface

    def replay_plan(self) -> Replay:
        """Return the plan of the trials (testbeds.base): the receiver's switch port is mirrored as it sends frames."""
        site = self.network.site(self.receiver.site)
        macs = self._macs(max(environment.replayers for environment in self.settings.environments))
        return Replay(
            site=site,
            port=next(port for port in site.ports if port.name == f"port{self.receiver.number}"),
            direction="tx",
            filter=" or ".join(f"ether src {mac}" for mac in macs),
            repeats=dict.fromkeys(self.environments, self.settings.repeats),
            notes={name: self._note(environment) for name, environment in self.environments.items()},
        )

    def _note(self, environment: ReplayEnvironment) -> str:
        path = self._path(environment)
        nodes = ", ".join(dict.fromkeys(endpoint.node for endpoint in path.endpoints))
        rate = f"{path.facts()['rate_bps'] / 1e6:g} Mbit/s"
        speed = "" if environment.speed == 1 else f", {environment.speed:g} times as fast as recorded"
        noise = f"so do {self.settings.load_streams} TCP streams of iperf3 between the sites"
        return (
            f"trial: replayed by {SENDERS[environment.sender].name} from {nodes} to {self.receiver.name} over "
            f"{path.link} at {rate}{speed}; {noise if environment.noise else 'nothing else sends'}"
        )

    @staticmethod
    def _macs(replayers: int) -> list[str]:
        return [SENDER_MAC.format(number) for number in range(1, replayers + 1)]

    def _path(self, environment: ReplayEnvironment) -> ReplayPath:
        return ReplayPath(self.network, environment, self._rate_bps, one_process=self._one_process(environment))

    def _one_process(self, environment: ReplayEnvironment) -> bool:
        """Return whether one polling thread serves all replayers of an environment."""
        if self.settings.polling == "auto":
            return len(os.sched_getaffinity(0)) <= environment.replayers  # the recorder also needs a CPU
        return self.settings.polling == "shared"

    def require(self) -> None:
        """Check the programs, and open the capture, which the scratch file system may hide later. Raises UserError."""
        for sender in sorted(self._senders):
            SENDERS[sender].require()
        if self.settings.capture is not None and "acapella" in self._senders:
            sandbox.require("editcap", "wireshark-common")
        if any(environment.noise for environment in self.settings.environments):
            sandbox.require("iperf3", "iperf3")
        if self.settings.capture is not None:
            try:
                self._source = Path(self.settings.capture).open("rb")  # noqa: SIM115 - `prepare` closes it
            except OSError as error:
                raise UserError(f"cannot read {self.settings.capture}: {error.strerror}", where=KEY) from error

    def prepare(self) -> None:
        """Create or copy the capture with the MAC addresses of this network. Raises UserError if that fails."""
        (mac,) = self._macs(1)
        if self._source is None:
            replay_capture.write(CAPTURE, mac, self.receiver.mac)
            return
        copied = SPOOL / "given.pcap"
        with self._source as source, copied.open("wb") as copy:
            shutil.copyfileobj(source, copy)
        if "acapella" in self._senders and replay_capture.is_ethernet_pcap(copied):
            copied.rename(CAPTURE)
        else:
            self._rewrite(copied, mac)
        replay_capture.set_mac_addresses(CAPTURE, mac, self.receiver.mac)
        if "acapella" in self._senders and (fault := scan_in_subprocess(CAPTURE).fault):
            raise UserError(f"cannot replay {self.settings.capture}: {fault}", where=KEY)

    def _rewrite(self, copied: Path, mac: str) -> None:
        """Convert a copy of the user's capture to Ethernet pcap. Raises UserError if that is impossible."""
        if "acapella" in self._senders:  # tcprewrite would round its times to microseconds
            self._convert(["editcap", "-F", "nsecpcap", str(copied), str(CAPTURE)])
            if not replay_capture.is_ethernet_pcap(CAPTURE):
                raise UserError(f"cannot replay {self.settings.capture}: its frames are not Ethernet", where=KEY)
        else:
            options = [f"--enet-smac={mac}", f"--enet-dmac={self.receiver.mac}"]
            self._convert(["tcprewrite", *options, f"--infile={copied}", f"--outfile={CAPTURE}"])
        copied.unlink()

    def _convert(self, argv: list[str]) -> None:
        """Run a converter of captures. Raises UserError with its last message if it fails."""
        done = run("site1", argv)
        if done.status != 0:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise UserError(f"{argv[0]} cannot use {self.settings.capture}: {lines[-1].strip()}", where=KEY)

    @contextlib.contextmanager
    def environment(self, name: str) -> Iterator[None]:
        """Set up the path and the sender and, with noise, fill the queue. Raises UserError if that fails."""
        environment = self.environments[name]
        path = self._path(environment)
        try:
            path.open()
            sender = self._sender(environment, path)
            self._current = environment, path, sender
            sender.open()
            if environment.noise:
                self._load = Load(self.network, self.settings.load_streams)
                self._make_queue()
            yield
        finally:
            if self._load:
                self._load.stop()
                self._load = None
            if self._current:
                self._current[2].close()
                self._current = None
            path.close()

    def _sender(self, environment: ReplayEnvironment, path: ReplayPath) -> AcapellaSender | TcpreplaySender:
        """Return the sender of an environment, with its captures."""
        if environment.sender == "tcpreplay":
            rate_pps = 10**9 // replay_capture.GAP_NS if self.settings.capture is None else None
            return TcpreplaySender(path.endpoints[0], CAPTURE, environment.speed, rate_pps)
        parts = self._parts(environment)
        gap_ns = replay_capture.mean_gap_ns(CAPTURE) / environment.speed
        return AcapellaSender(path.endpoints, parts, self.network.mtu, environment.speed, gap_ns)

    def _parts(self, environment: ReplayEnvironment) -> list[Part]:
        """Write the capture of each process of an environment; return them."""
        macs = self._macs(environment.replayers)
        if len(macs) == 1:
            return [Part(CAPTURE, RECORDING_NAME)]
        if self._one_process(environment):
            name = f"replayed-{len(macs)}ports.pcapng"
            replay_capture.write_interfaces(CAPTURE, SPOOL / name, macs)
            return [Part(SPOOL / name, name)]
        names = [f"replayed-{number}of{len(macs)}.pcap" for number in range(1, len(macs) + 1)]
        offsets = replay_capture.split(CAPTURE, [SPOOL / name for name in names])
        for name, mac in zip(names, macs, strict=True):
            replay_capture.set_mac_addresses(SPOOL / name, mac, self.receiver.mac)
        return [Part(SPOOL / name, name, offset) for name, offset in zip(names, offsets, strict=True)]

    def play(self) -> int:
        """Send the capture once (testbeds.base)."""
        environment, path, sender = self._current
        if self._load and self._load.fault():
            self._make_queue()
        before = drops.dropped_frames(path.queue_interfaces)
        sent_packets = sender.send()
        time.sleep(2 * 2 * QUEUE_BYTES * 8 / self._rate_bps)  # twice the time to drain both queues
        if not self._load:  # with it, the queues are never empty
            wait_until(lambda: not any(drops.queued_bytes(*interface) for interface in path.queue_interfaces))
        self._dropped = drops.since(before, drops.dropped_frames(path.queue_interfaces))
        if self._load and self._load.fault():
            raise UserError(f"the load ended: {self._load.fault()}", where=f"environment {environment.name}")
        return sent_packets

    def deliver(self, sample: str, raw: Path) -> dict[str, Any]:
        """Write the files of the last trial (testbeds.base)."""
        environment, path, sender = self._current
        return {
            "replay": {
                "sender": sender.name,
                "replayers": environment.replayers,
                "speed": environment.speed,
                "path": path.facts(),
                "noise_streams": self.settings.load_streams if environment.noise else 0,
                "dropped": self._dropped,
                **sender.deliver(sample, raw),
            }
        }

    def _make_queue(self) -> None:
        """Start or restart the load until the bottleneck has a queue. Raises UserError if no queue builds up."""
        environment, path, _ = self._current
        self._load.start()
        if not wait_until(lambda: self._load.fault() or path.backlog() > 0, timeout_s=LOADED_S) or self._load.fault():
            why = self._load.fault() or f"no queue between the sites within {LOADED_S} s"
            raise UserError(f"the load is not running: {why}", where=f"environment {environment.name}")
