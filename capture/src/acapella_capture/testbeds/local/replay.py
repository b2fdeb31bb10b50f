"""Replay of a capture from host1 of site1 to host1 of site2, over a bottleneck between these sites.

It is sent by tcpreplay or by the program of `acapella replay`, which also records when each packet departed.

The bottleneck is a token bucket (tbf) on the uplink followed by two queues, one of them for expedited packets with
strict priority. Without other traffic, both remain empty. If TCP streams share the path, the other queue is full most
of the time: packets are delayed, overtaken by expedited ones, or dropped. The bottleneck only exists during trials.
"""

import contextlib
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from acapella_core.errors import UserError

from ...scan import scan_apart
from ...settings import ReplaySettings
from ..base import Replay
from . import replay_capture, sandbox
from .network import Network
from .processes import SPOOL, LocalJob, run, run_checked, start, terminate, wait_until
from .replay_sender import AcapellaSender
from .services import Services

KEY = "local.replay.capture"
SENDER_MAC = "02:00:00:00:fe:01"  # not that of a host: identifies replayed frames
CAPTURE = SPOOL / "replay.pcap"
QUEUE_BYTES = 65536
EXPEDITED = 0xB8  # DSCP EF (RFC 3246) in the IPv4 type of service field
ETHERNET_BYTES = 14
TAG_BYTES = {"vlan": 4, "mpls": 8, "mpls2": 12}  # bytes before the IP header
LOAD_BYTE, AND, JUMP_EQUAL, RETURN = 0x30, 0x54, 0x15, 0x06  # instructions of classic BPF
PORT = 5300  # port of the load
LOADED_S = 10  # until the bottleneck has a queue
SENT = re.compile(r"Successful packets:\s+(\d+)\s+Failed packets:\s+(\d+)\s+Truncated packets:\s+(\d+)")


class Replayer:
    """The replays of one allocation of the testbed."""

    def __init__(self, network: Network, settings: ReplaySettings):
        if network.sites < 2:
            raise UserError("requires at least two sites", where="local.replay", fix="local.sites: 2")
        self.settings = settings
        self.network = network
        self.sender, self.receiver = network.hosts(1)[0], network.hosts(2)[0]
        self.device = network.uplinks(1)[0]
        slice_ = network.slice_of(self.sender)
        if not network.connected(self.sender, self.receiver) or (slice_ and slice_.encapsulation not in TAG_BYTES):
            message = (
                f"{self.sender.name} and {self.receiver.name} must be in the same slice, which must not be a pseudowire"
            )
            raise UserError(message, where="local.replay")  # a pseudowire's frames have other MAC addresses
        ends = network.hosts(1)[1], network.hosts(2)[1]
        if "loaded" in settings.environments and not network.connected(*ends):
            raise UserError(f"{ends[0].name} and {ends[1].name} must be in the same slice", where="local.replay")
        self._rate_bps = round(settings.bottleneck_mbps * 1e6)
        self._acapella = (
            AcapellaSender(self.sender.name, network.mtu, CAPTURE) if settings.sender == "acapella" else None
        )
        self._source: BinaryIO | None = None
        self._load: Load | None = None

    def replay_plan(self) -> Replay:
        """Return the replay (testbeds.base); frames are recorded as the receiver's switch port sends them."""
        site = self.network.site(self.receiver.site)
        settings = self.settings
        program = self._acapella.name if self._acapella else "tcpreplay"
        note = (
            f"trials: replayed by {program} from {self.sender.name} to {self.receiver.name} over {self.device} at "
            f"{settings.bottleneck_mbps:g} Mbit/s; quiet: nothing else sends; loaded: so do {settings.load_streams} "
            "TCP streams of iperf3"
        )
        return Replay(
            site=site,
            port=next(port for port in site.ports if port.name == f"port{self.receiver.number}"),
            direction="tx",
            filter=f"ether src {SENDER_MAC}",
            environments=tuple(settings.environments),
            repeats=settings.repeats,
            note=note,
        )

    def require(self) -> None:
        """Open the capture, which the scratch file system may hide later. Raises UserError if it is missing."""
        if self._acapella:
            self._acapella.require()
        if self._acapella is None:
            sandbox.require("tcpreplay", "tcpreplay")
        elif self.settings.capture is not None:
            sandbox.require("editcap", "wireshark-common")
        if "loaded" in self.settings.environments:
            sandbox.require("iperf3", "iperf3")
        if self.settings.capture is not None:
            try:
                self._source = Path(self.settings.capture).open("rb")  # noqa: SIM115 - `prepare` closes it
            except OSError as error:
                raise UserError(f"cannot read {self.settings.capture}: {error.strerror}", where=KEY) from error

    def prepare(self) -> None:
        """Create or copy the capture with the MAC addresses of this network. Raises UserError if that fails."""
        if self._source is None:
            replay_capture.write(CAPTURE, SENDER_MAC, self.receiver.mac)
            return
        copied = SPOOL / "given.pcap"
        with self._source as source, copied.open("wb") as copy:
            shutil.copyfileobj(source, copy)
        if self._acapella and replay_capture.is_ethernet_pcap(copied):
            copied.rename(CAPTURE)
        else:
            self._rewrite(copied)
        replay_capture.put_between(CAPTURE, SENDER_MAC, self.receiver.mac)
        if self._acapella and (fault := scan_apart(CAPTURE).fault):
            raise UserError(f"cannot replay {self.settings.capture}: {fault}", where=KEY)

    def _rewrite(self, copied: Path) -> None:
        """Convert a copy of the user's capture to Ethernet pcap. Raises UserError if that is not possible."""
        if self._acapella:  # tcprewrite would round its times to microseconds
            self._convert(["editcap", "-F", "nsecpcap", str(copied), str(CAPTURE)])
            if not replay_capture.is_ethernet_pcap(CAPTURE):
                raise UserError(f"cannot replay {self.settings.capture}: its frames are not Ethernet", where=KEY)
        else:
            options = [f"--enet-smac={SENDER_MAC}", f"--enet-dmac={self.receiver.mac}"]
            self._convert(["tcprewrite", *options, f"--infile={copied}", f"--outfile={CAPTURE}"])
        copied.unlink()

    def _convert(self, argv: list[str]) -> None:
        """Run a converter of captures. Raises UserError with its last message if it fails."""
        result = run(self.sender.name, argv)
        if result.status != 0:
            lines = result.stderr.strip().splitlines() or ["no message"]
            raise UserError(f"{argv[0]} cannot use {self.settings.capture}: {lines[-1].strip()}", where=KEY)

    @contextlib.contextmanager
    def environment(self, name: str) -> Iterator[None]:
        """Configure the bottleneck and, in environment `loaded`, fill its queue. Raises UserError if that fails."""
        self._tc("-batch", "-", stdin="\n".join(self.bottleneck()))
        try:
            if self._acapella:
                self._acapella.open()
            if name == "loaded":
                self._load = Load(self.network, self.settings.load_streams)
                self._make_queue()
            yield
        finally:
            if self._load:
                self._load.stop()
                self._load = None
            if self._acapella:
                self._acapella.close()
            self._tc("qdisc", "del", "dev", self.device, "parent", "1:1")

    def play(self) -> int:
        """Send the capture once (testbeds.base)."""
        if self._load and self._load.fault():
            self._make_queue()
        sent = self._acapella.send() if self._acapella else self._send_with_tcpreplay()
        time.sleep(2 * 2 * QUEUE_BYTES * 8 / self._rate_bps)  # twice the duration of both queues
        if self._load and self._load.fault():
            raise UserError(f"the load ended: {self._load.fault()}", where="environment loaded")
        return sent

    def deliver(self, sample: str, raw: Path) -> dict[str, Any] | None:
        """Write the departures of the last trial (testbeds.base)."""
        return self._acapella.deliver(sample, raw) if self._acapella else None

    def _send_with_tcpreplay(self) -> int:
        """Send the capture once and return the number of packets. Raises UserError if some were not sent."""
        job = start(self.sender.name, self.tcpreplay())
        job.wait(None)
        counts = SENT.search(job.log())
        if job.poll() != 0 or not counts:
            raise UserError(f"tcpreplay failed: {job.last_line()}", where=f"node {self.sender.name}")
        sent, *failed = map(int, counts.groups())
        if any(failed):
            raise UserError(
                f"tcpreplay sent {sent} packets and failed to send {sum(failed)}", where=f"node {self.sender.name}"
            )
        return sent

    def tcpreplay(self) -> list[str]:
        """Return the tcpreplay command: with real-time priority if permitted, otherwise polling the clock.

        A real-time program must not loop without a pause: the kernel stops it for 50 ms of each second. With `--pps`,
        tcpreplay keeps the capture's fixed rate; without, it keeps each gap, and a late packet delays all that follow.
        """
        realtime = ["chrt", "--fifo", "50"]
        allowed = run(self.sender.name, [*realtime, "true"]).status == 0
        timing = ["--timer=nano"] if allowed else ["--timer=gtod"]
        if self.settings.capture is None:
            timing.append(f"--pps={10**9 // replay_capture.GAP_NS}")
        command = ["tcpreplay", "--preload-pcap", "--quiet", *timing, "--intf1=eth0", str(CAPTURE)]
        return [*realtime, *command] if allowed else command

    def _make_queue(self) -> None:
        """Start or restart the load until the bottleneck has a queue. Raises UserError if it gets none."""
        self._load.start()
        if not wait_until(lambda: self._load.fault() or self._backlog() > 0, timeout_s=LOADED_S) or self._load.fault():
            reason = self._load.fault() or f"no queue at {self.device} within {LOADED_S} s"
            raise UserError(f"the load is not running: {reason}", where="environment loaded")

    def bottleneck(self) -> list[str]:
        """Return the `tc` commands, below the class that limits the port's rate."""
        burst = 2 * (self.network.mtu + ETHERNET_BYTES)  # a smaller burst would never pass a frame of maximum size
        add = f"add dev {self.device} parent"
        return [
            f"qdisc {add} 1:1 handle 10: tbf rate {self._rate_bps}bit burst {burst} limit {2 * QUEUE_BYTES}",
            f"qdisc {add} 10: handle 20: htb default 2",
            *(
                line
                for number in (1, 2)
                for line in (
                    f"class {add} 20: classid 20:{number} htb rate 10gbit prio {number} quantum 60000",
                    f"qdisc {add} 20:{number} bfifo limit {QUEUE_BYTES}",
                )
            ),
            f"filter {add} 20: {self._expedited()} flowid 20:1",
        ]

    def _expedited(self) -> str:
        """Return the `tc` filter that matches expedited packets, also with the headers of the sender's slice."""
        slice_ = self.network.slice_of(self.sender)
        if slice_ is None:
            return f"protocol ip prio 1 u32 match ip dsfield {EXPEDITED:#x} 0xfc"
        offset = ETHERNET_BYTES + TAG_BYTES[slice_.encapsulation]
        program = [  # classic BPF, offsets from the start of the frame: version 4, and type of service
            (LOAD_BYTE, 0, 0, offset), (AND, 0, 0, 0xF0), (JUMP_EQUAL, 0, 4, 0x40),
            (LOAD_BYTE, 0, 0, offset + 1), (AND, 0, 0, 0xFC), (JUMP_EQUAL, 0, 1, EXPEDITED),
            (RETURN, 0, 0, 0xFFFFFFFF), (RETURN, 0, 0, 0),
        ]  # fmt: skip
        arguments = [f"{len(program)}", *(" ".join(map(str, step)) for step in program)]
        return f"protocol all prio 1 bpf bytecode '{','.join(arguments)}'"

    def _backlog(self) -> int:
        qdiscs = json.loads(self._tc("-s", "-j", "qdisc", "show", "dev", self.device))
        return sum(qdisc["backlog"] for qdisc in qdiscs if qdisc["kind"] == "bfifo")

    def _tc(self, *arguments: str, stdin: str = "") -> str:
        return run_checked(f"site{self.sender.site}", ["tc", *arguments], stdin=stdin)


class Load:
    """iperf3 TCP streams at full speed between hosts that do not replay; they share the bottleneck."""

    def __init__(self, network: Network, streams: int):
        self._client, self._server = network.hosts(1)[1], network.hosts(2)[1]
        self._streams = streams
        self._services = Services()
        self._job: LocalJob | None = None
        self._server_error: str | None = None

    def start(self) -> None:
        """Start or restart server and client."""
        self.stop()
        self._server_error = self._services.iperf3({0: (self._server, PORT)}).get(0)
        if self._server_error is None:
            argv = ["iperf3", "-c", self._server.address(4), "-p", str(PORT), "-t", "0", "-P", str(self._streams)]
            self._job = start(self._client.name, argv)

    def stop(self) -> None:
        """Stop sending."""
        if self._job:
            terminate([self._job])
        self._services.end_iperf3([0])

    def fault(self) -> str | None:
        """Return why nothing is sent; None if the load is running."""
        if self._server_error or self._job is None:
            return self._server_error or "not started"
        return None if self._job.poll() is None else self._job.last_line()
