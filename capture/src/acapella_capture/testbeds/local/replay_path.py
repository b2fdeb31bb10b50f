"""The path of replayed packets from site1 to host1 of site2: the link between the sites, or a separate one.

    shared      host1 -- [ site1: br0 ] -- uplink -- [ site2: br0 ] -- port1
    dedicated   host1 -- [ site1: br1 ] -- direct -- [ site2: br0 ] -- port1    (also path `direct`)

The link between the sites has a bottleneck during all replays: a token bucket (tbf) followed by two queues, one of them
for expedited packets with strict priority. A dedicated link has the same bottleneck; a direct link has only the rate
limit of a port. The interfaces exist only as long as the path is open. The first replayer sends from host1, on a
separate link from an additional interface. The others each have an interface, in separate network namespaces, or in
host1's namespace if one process serves them all.
"""

import json
from dataclasses import dataclass
from typing import Any

from acapella_core.errors import UserError

from ...settings import GenerateEnvironment, ReplayEnvironment
from .network import Network, disable_offloads, link_command, make_namespace, remove_namespace
from .processes import run, run_checked
from .switch import Link

QUEUE_BYTES = 65536
EXPEDITED = 0xB8  # DSCP EF (RFC 3246) in the IPv4 type of service field
ETHERNET_BYTES = 14
TAG_BYTES = {"vlan": 4, "mpls": 8, "mpls2": 12}  # bytes before the IP header
LOAD_BYTE, AND, JUMP_EQUAL, RETURN = 0x30, 0x54, 0x15, 0x06  # instructions of classic BPF
BRIDGE = "br1"
NEAR, FAR = "direct-site2", "direct-site1"


Environment = ReplayEnvironment | GenerateEnvironment


@dataclass(frozen=True)
class Endpoint:
    """An interface from which a replayer sends."""

    node: str
    interface: str


class ReplayPath:
    """The path of one environment; ``one_process``: all replayers send from the namespace of host1."""

    def __init__(self, network: Network, environment: Environment, rate_bps: int, *, one_process: bool):
        self._network = network
        self._environment = environment
        self._rate_bps = rate_bps
        self._host, self._receiver = network.hosts(1)[0], network.hosts(2)[0]
        self._uplink = network.uplinks(1)[0]
        self._separate = environment.path != "shared"
        numbers = range(1, environment.replayers + 1)
        self.endpoints = tuple(self._endpoint(number, one_process=one_process) for number in numbers)

    def _endpoint(self, number: int, *, one_process: bool) -> Endpoint:
        if number == 1 and not self._separate:
            return Endpoint(self._host.name, "eth0")
        alone = number > 1 and not one_process
        return Endpoint(f"site1-replayer{number}" if alone else self._host.name, f"replay{number}")

    @property
    def link(self) -> str:
        """Return the port of site1 through which replayed packets leave it."""
        return NEAR if self._separate else self._uplink

    @property
    def queue_interfaces(self) -> list[tuple[str, str]]:
        """Return node and interface of each queue before the mirror, which also copies what the mirrored port drops."""
        return [*((endpoint.node, endpoint.interface) for endpoint in self.endpoints), ("site1", self.link)]

    def facts(self) -> dict[str, Any]:
        """Return the path as manifest key `replay.path`."""
        direct = self._environment.path == "direct"
        return {
            "kind": self._environment.path,
            "link": self.link,
            "rate_bps": self._network.port_rate_bps if direct else self._rate_bps,
            "queue_bytes": None if direct else QUEUE_BYTES,
        }

    def open(self) -> None:
        """Create the interfaces and the bottlenecks. Raises UserError with the kernel's message."""
        self._tc("-batch", "-", stdin="\n".join(bottleneck(self._network, self._uplink, self._rate_bps)))
        if self._separate:
            self._add_link()
        bridge = BRIDGE if self._separate else "br0"
        for number, endpoint in enumerate(self.endpoints, 1):
            if endpoint.interface != "eth0":
                self._add_replayer(number, endpoint, bridge)

    def close(self) -> None:
        """Remove what `open` created, even if it failed."""
        for endpoint in self.endpoints:
            if endpoint.node != self._host.name:
                remove_namespace(endpoint.node)  # this removes both ends of its link
        created = [f"replayer{number}" for number in range(1, len(self.endpoints) + 1)]
        for device in (*created, *((NEAR, BRIDGE) if self._separate else ())):
            run("site1", ["ip", "link", "del", device])
        run("site1", ["tc", "qdisc", "del", "dev", self._uplink, "parent", "1:1"])

    def backlog(self) -> int:
        """Return the bytes queued at the bottleneck of the link between the sites."""
        shown = json.loads(self._tc("-s", "-j", "qdisc", "show", "dev", self._uplink))
        return sum(qdisc["backlog"] for qdisc in shown if qdisc["kind"] == "bfifo")

    def _add_link(self) -> None:
        """Create the separate link, from a second bridge at site1 to the bridge of site2."""
        mtu = self._network.mtu
        link = Link(("site1", NEAR), ("site2", FAR), mtu)
        near = [
            f"link add {BRIDGE} mtu {mtu} type bridge stp_state 0 mcast_snooping 0",
            link_command(link),
            f"link set {NEAR} master {BRIDGE}",
            f"link set {NEAR} up",
            f"link set {BRIDGE} up",
        ]
        run_checked("site1", ["ip", "-batch", "-"], stdin="\n".join(near))
        run_checked("site2", ["ip", "-batch", "-"], stdin=f"link set {FAR} master br0\nlink set {FAR} up\n")
        for node, device in (link.near, link.far):
            disable_offloads(node, device)
        commands = self._network.limit(NEAR)
        if self._environment.path == "dedicated":
            commands += bottleneck(self._network, NEAR, self._rate_bps)
        self._tc("-batch", "-", stdin="\n".join(commands))
        # Without these entries, bridges copy the packets to all ports until the receiver sends something.
        mac = self._receiver.mac
        for node, device in (("site1", NEAR), ("site2", f"port{self._receiver.number}")):
            run_checked(node, ["bridge", "fdb", "replace", mac, "dev", device, "master", "static"])

    def _add_replayer(self, number: int, endpoint: Endpoint, bridge: str) -> None:
        """Create the interface of a replayer and connect it to a bridge of site1."""
        if endpoint.node != self._host.name:
            make_namespace(endpoint.node, ipv6=False)
        port = f"replayer{number}"
        link = Link(("site1", port), (endpoint.node, endpoint.interface), self._network.mtu)
        near = [link_command(link), f"link set {port} master {bridge}", f"link set {port} up"]
        run_checked("site1", ["ip", "-batch", "-"], stdin="\n".join(near))
        # without an IPv6 address the kernel sends nothing on its own
        far = [f"link set {endpoint.interface} addrgenmode none", f"link set {endpoint.interface} up"]
        run_checked(endpoint.node, ["ip", "-batch", "-"], stdin="\n".join(far))
        for node, device in (link.near, link.far):
            disable_offloads(node, device)

    def _tc(self, *arguments: str, stdin: str = "") -> str:
        return run_checked("site1", ["tc", *arguments], stdin=stdin)


def check_path(network: Network, environment: Environment, *, bridges: bool) -> None:
    """Raise UserError if the network cannot provide the path. ``bridges``: the switches are kernel bridges."""
    key = "replay" if isinstance(environment, ReplayEnvironment) else "generate"
    where = f"local.{key}: environment {environment.name}"
    if not bridges and (environment.path != "shared" or environment.replayers > 1):
        needs = "several replayers" if environment.path == "shared" else f"path {environment.path}"
        raise UserError(f"{needs}: not supported by Open vSwitch", where=where, fix="local.switch: bridge")
    ends = network.hosts(1)[1], network.hosts(2)[1]
    if environment.noise and not network.connected(*ends):
        raise UserError(f"{ends[0].name} and {ends[1].name} must be in the same slice", where=where)


def bottleneck(network: Network, device: str, rate_bps: int) -> list[str]:
    """Return the `tc` commands for a port of site1, below the class that limits its rate."""
    burst = 2 * (network.mtu + ETHERNET_BYTES)  # a smaller burst would never pass a frame of maximum size
    add = f"add dev {device} parent"
    return [
        f"qdisc {add} 1:1 handle 10: tbf rate {rate_bps}bit burst {burst} limit {2 * QUEUE_BYTES}",
        f"qdisc {add} 10: handle 20: htb default 2",
        *(
            line
            for number in (1, 2)
            for line in (
                f"class {add} 20: classid 20:{number} htb rate 10gbit prio {number} quantum 60000",
                f"qdisc {add} 20:{number} bfifo limit {QUEUE_BYTES}",
            )
        ),
        f"filter {add} 20: {expedited(network)} flowid 20:1",
    ]


def expedited(network: Network) -> str:
    """Return the `tc` filter that matches expedited packets, including those with the headers of host1's slice."""
    slice_ = network.slice_of(network.hosts(1)[0])
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
