"""Open vSwitch as the switch of a site: two bridges in its userspace datapath, Mirror rows, ports for listening nodes.

    host1   host2               a namespace each, interface eth0
      |       |
    [   edge    ]               bridge `edge`: ports host1, host2; adds and removes headers (openflow.py)
      |       |
    port1   port2               links edge1 - port1, ... within the site
    [   core    ] -- uplink     bridge `core`: the mirrored ports
      |       |
    mirror0 mirror1             output ports of Mirror rows, each to a receiver of a listening node

Each site has its own ovsdb-server and ovs-vswitchd inside its namespace; they end with the sandbox.

The frames to be copied are counted by the kernel at the mirror's output port: the counter of Open vSwitch in a Mirror
row lags, and is wrong if the row changes under traffic. If the mirror port is rate-limited, the limit applies to a
second link after it, because Open vSwitch drops whole batches at a port that rejects one frame:

    core - mirror0 - queue0 => limit0 - capture0        => is mirred (tc); the token bucket (tbf) is on limit0

mirred forwards a copy of each frame, not the frame itself: a queued frame occupies memory of the single socket through
which Open vSwitch sends all its frames, so a few mirrors with full queues would stop the switch.
"""

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError

from ..base import Direction, Host, Instance, MirrorCounters
from .bridge import backlog, limit_mirror
from .network import NAMESPACES, Network, add_link, disable_offloads, make_namespace, remove_namespace
from .openflow import CORE, EDGE, FAR_SIDE, UPLINK, core_flows, edge_flows
from .processes import run, run_checked, start, wait_until
from .sandbox import SCRATCH
from .switch import Link, LocalMirror, Switches

DIRECTORY = SCRATCH / "ovs"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
TUN = Path("/dev/net/tun")  # bridges of the userspace datapath are TAP devices
START_S = 20  # timeout for a daemon to reply
TAGS = 64  # maximum bytes that tags, labels and a pseudowire header add to a frame, rounded up
MIRROR_PORT = 300  # core bridge: port 300 + N carries mirror N
RECEIVERS = 2  # ports of a NIC
PACKAGE = "openvswitch-switch"


class OvsSwitches(Switches):
    """An Open vSwitch per site."""

    note = None
    receivers = RECEIVERS

    def __init__(self, network: Network):
        super().__init__(network)
        self.sites = {f"site{number}": Site(f"site{number}") for number in range(1, network.sites + 1)}

    def programs(self) -> dict[str, str]:
        return dict.fromkeys(
            ("ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovs-vsctl", "ovs-ofctl", "ovs-appctl"), PACKAGE
        )

    def links(self, site: int) -> list[Link]:
        name, mtu = f"site{site}", self.network.mtu
        links = []
        for host in self.network.hosts(site):
            links.append(Link((name, f"host{host.number}"), (host.name, "eth0"), mtu))
            links.append(Link((name, f"edge{host.number}"), (name, f"port{host.number}"), mtu + TAGS))
        if site < self.network.sites:
            far = (f"site{site + 1}", f"uplink-site{site}")
            links.append(Link((name, f"uplink-site{site + 1}"), far, mtu + TAGS))
        return links

    def build(self) -> None:
        if not TUN.exists():
            raise UserError(f"Open vSwitch needs {TUN}", where="local.switch", fix="modprobe tun, or switch: bridge")
        DIRECTORY.mkdir(exist_ok=True)
        for site in self.sites.values():
            site.start()
        for number, site in enumerate(self.sites.values(), start=1):
            ports = [port.name for port in self.network.site(number).ports]
            hosts = [host.number for host in self.network.hosts(number)]
            devices = [*ports, *(f"{kind}{host}" for host in hosts for kind in ("host", "edge"))]
            lines = [f"link set {device} up" for device in devices]
            run_checked(site.name, ["ip", "-batch", "-"], stdin="\n".join(lines))
            for device in devices:
                disable_offloads(site.name, device)
            site.wait_until_ready()
            self.configure(number, site, hosts)
            # only now, because Open vSwitch clears the qdiscs of its ports
            lines = [line for port in ports for line in self.network.limit(port)]
            run_checked(site.name, ["tc", "-batch", "-"], stdin="\n".join(lines))

    def configure(self, number: int, site: "Site", hosts: list[int]) -> None:
        """Configure the bridges, ports and rules of a site."""
        edge = {f"host{host}": host for host in hosts} | {f"edge{host}": FAR_SIDE + host for host in hosts}
        core = {f"port{host}": host for host in hosts}
        core |= {name: UPLINK + int(name.removeprefix("uplink-site")) for name in self.network.uplinks(number)}
        site.add_bridges({EDGE: edge, CORE: core})
        slices = self.network.slices
        site.add_flows(
            EDGE, [flow for slice_ in slices if number in slice_.sites for flow in edge_flows(number, slice_)]
        )
        site.add_flows(CORE, [flow for slice_ in slices for flow in core_flows(number, self.network.sites, slice_)])

    def hardware(self, site: str) -> tuple[Host, ...]:
        resources = dict(self.network.resources)
        machines = resources.pop("machines")
        return tuple(Host(f"{site}-rack{number}", **resources) for number in range(1, machines + 1))

    def node(self, site: str, number: int) -> str:
        return f"{site}-listener{number}"

    def attach(self, site: str, number: int) -> Instance:
        node = self.node(site, number)
        make_namespace(node, ipv6=False)
        receivers = []
        for index in range(RECEIVERS):
            mirror, receiver = RECEIVERS * (number - 1) + index, f"capture{index}"
            self._add_mirror_links(site, mirror, node, receiver)
            self.sites[site].add_mirror_port(mirror)
            receivers.append(receiver)
        return Instance(node, site, tuple(receivers))

    def _add_mirror_links(self, site: str, mirror: int, node: str, receiver: str) -> None:
        """Create the links from a mirror port to a receiver, the second one rate-limited if there is a limit."""
        rate, mtu = self.network.mirror_rate_bps, self.network.mtu + TAGS
        if not rate:
            add_link(Link((site, f"mirror{mirror}"), (node, receiver), mtu))
            return
        queue, limit = f"queue{mirror}", f"limit{mirror}"
        add_link(Link((site, f"mirror{mirror}"), (site, queue), mtu))
        add_link(Link((site, limit), (node, receiver), mtu))
        limit_mirror(site, limit, rate)
        # so that the VLAN tag is back in the frame when it is counted
        run_checked(site, ["ethtool", "-K", limit, "txvlan", "off"])
        every_frame = f"filter add dev {queue} parent ffff: protocol all prio 1 u32 match u32 0 0"
        lines = [f"qdisc add dev {queue} ingress", f"{every_frame} action mirred egress mirror dev {limit}"]
        run_checked(site, ["tc", "-batch", "-"], stdin="\n".join(lines))

    def detach(self, site: str, number: int) -> None:
        if (NAMESPACES / site).exists():
            for mirror in range(RECEIVERS * (number - 1), RECEIVERS * number):
                self.sites[site].remove_mirror_port(mirror)
                for device in (f"mirror{mirror}", f"limit{mirror}"):
                    run(site, ["ip", "link", "del", device])
        remove_namespace(self.node(site, number))

    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> LocalMirror:
        number = int(instance.name.rpartition("-listener")[2])
        mirror = RECEIVERS * (number - 1) + instance.receivers.index(receiver)
        last = f"limit{mirror}" if self.network.mirror_rate_bps else f"mirror{mirror}"
        return OvsMirror(self.sites[instance.site], Output(mirror, last, instance, receiver), port, direction)


class Site:
    """The Open vSwitch of one site, and its control commands."""

    def __init__(self, name: str):
        self.name = name
        self.directory = DIRECTORY / name
        self._jobs = []

    def start(self) -> None:
        """Start its database and its switch."""
        shutil.rmtree(self.directory, ignore_errors=True)  # left by an earlier allocation
        self.directory.mkdir()
        database = str(self.directory / "conf.db")
        run_checked(self.name, ["ovsdb-tool", "create", database, SCHEMA])
        self._jobs = [
            self._daemon("ovsdb-server", f"--remote=punix:{self._socket}", database),
            self._daemon("ovs-vswitchd", f"unix:{self._socket}"),
        ]

    @property
    def _socket(self) -> Path:
        return self.directory / "db.sock"

    def _daemon(self, program: str, *arguments: str):
        control = f"--unixctl={self.directory / program}.ctl"
        logging = ["--no-chdir", "--verbose=console:warn", "--verbose=syslog:off"]
        # OVS_RUNDIR: directory of the bridges' sockets
        return start(self.name, ["env", f"OVS_RUNDIR={self.directory}", program, *arguments, control, *logging])

    def wait_until_ready(self) -> None:
        """Wait until the switch is ready. Raises UserError with its message if it does not start."""

        def ready() -> bool:
            if any(job.poll() is not None for job in self._jobs):
                return True
            return self._socket.exists() and run(self.name, self._appctl("version")).status == 0

        if not wait_until(ready, timeout_s=START_S) or any(job.poll() is not None for job in self._jobs):
            job = next((job for job in self._jobs if job.poll() is not None), self._jobs[-1])
            raise UserError(f"Open vSwitch cannot start: {job.last_line()}", where=f"site {self.name}")

    def add_bridges(self, bridges: dict[str, dict[str, int]]) -> None:
        """Create bridges with numbered ports. Raises UserError if the switch cannot use a port."""
        arguments = ["set", "Open_vSwitch", ".", "other_config:vlan-limit=2"]
        for bridge, ports in bridges.items():
            arguments += ["--", "add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=netdev"]
            arguments += ["fail_mode=secure", "protocols=OpenFlow13"]
            for port, number in ports.items():
                arguments += ["--", "add-port", bridge, port]
                arguments += ["--", "set", "Interface", port, f"ofport_request={number}"]
        self.vsctl("--no-wait", "init")
        self.vsctl(*arguments)
        self._check_interfaces()

    def _check_interfaces(self) -> None:
        errors = self.vsctl("--bare", "--columns=name,error", "find", "Interface", "error!=[]").split("\n")
        if errors[0]:
            raise UserError(f"Open vSwitch cannot use {' '.join(errors).strip()}", where=f"site {self.name}")

    def add_flows(self, bridge: str, flows: Sequence[str]) -> None:
        """Add OpenFlow rules."""
        manager = f"unix:{self.directory / bridge}.mgmt"
        run_checked(self.name, ["ovs-ofctl", "-O", "OpenFlow13", "add-flows", manager, "-"], stdin="\n".join(flows))

    def add_mirror_port(self, mirror: int) -> None:
        """Add a port for copies, and a Mirror row that does not copy anything yet."""
        port = f"mirror{mirror}"
        disable_offloads(self.name, port)
        self.vsctl("add-port", CORE, port, "--", "set", "Interface", port, f"ofport_request={MIRROR_PORT + mirror}",
                   "--", "--id=@port", "get", "Port", port,
                   "--", "--id=@mirror", "create", "Mirror", f"name={port}", "output_port=@port",
                   "--", "add", "Bridge", CORE, "mirrors", "@mirror")  # fmt: skip
        self._check_interfaces()

    def remove_mirror_port(self, mirror: int) -> None:
        """Remove a port for copies and its Mirror row, if they exist."""
        port = f"mirror{mirror}"
        result = run(self.name, self._vsctl("--bare", "--columns=_uuid", "find", "Mirror", f"name={port}"))
        if row := result.stdout.strip():
            run(self.name, self._vsctl("remove", "Bridge", CORE, "mirrors", row))
        run(self.name, self._vsctl("--if-exists", "del-port", CORE, port))

    def mirror_port(self, mirror: int, port: str | None, direction: Direction = "both") -> None:
        """Mirror a port, or none, and remove the datapath's flows, which still have the previous actions."""
        row = f"mirror{mirror}"
        arguments = ["clear", "Mirror", row, "select_src_port", "--", "clear", "Mirror", row, "select_dst_port"]
        if port is not None:
            sides = {"rx": ("src",), "tx": ("dst",), "both": ("src", "dst")}[direction]
            arguments += ["--", "--id=@port", "get", "Port", port]
            arguments += ["--", "set", "Mirror", row, *(f"select_{side}_port=@port" for side in sides)]
        self.vsctl(*arguments)
        run_checked(self.name, self._appctl("revalidator/purge"))

    def vsctl(self, *arguments: str) -> str:
        """Run ovs-vsctl. Raises UserError with its message."""
        return run_checked(self.name, self._vsctl(*arguments))

    def _vsctl(self, *arguments: str) -> list[str]:
        return ["ovs-vsctl", f"--db=unix:{self._socket}", f"--timeout={START_S}", *arguments]

    def _appctl(self, *arguments: str) -> list[str]:
        return ["ovs-appctl", f"--target={self.directory / 'ovs-vswitchd.ctl'}", *arguments]


@dataclass(frozen=True)
class Output:
    """Destination of a mirror's copies: number of its port, the last device before the receiver, and the receiver."""

    number: int
    last: str
    instance: Instance
    receiver: str


class OvsMirror(LocalMirror):
    """A Mirror row that copies a port between `start` and `stop`."""

    def __init__(self, site: Site, output: Output, port: str, direction: Direction):
        self.site = site
        self.output = output
        self.instance = output.instance.name
        self.interface = output.receiver
        self.port = port
        self.direction = direction
        self._start_counts = self._count()

    def start(self) -> None:
        self._start_counts = self._count()
        self.site.mirror_port(self.output.number, self.port, self.direction)

    def stop(self) -> None:
        """Stop copying, and wait until the mirror port's queue is empty."""
        self.site.mirror_port(self.output.number, None)
        wait_until(self._idle)

    def remove(self) -> None:
        self.site.mirror_port(self.output.number, None)

    def counters(self) -> MirrorCounters:
        offered, delivered = (
            tuple(now - then for now, then in zip(counted, before, strict=True))
            for counted, before in zip(self._count(), self._start_counts, strict=True)
        )
        return MirrorCounters(
            offered_frames=offered[0],
            delivered_frames=delivered[0],
            offered_bytes=offered[1],
            delivered_bytes=delivered[1],
        )

    def _count(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the frames and bytes sent to the mirror port, and the frames and bytes sent to the receiver."""
        links = json.loads(run_checked(self.site.name, ["ip", "-s", "-j", "link", "show"]))
        sent = {link["ifname"]: link["stats64"]["tx"] for link in links}
        first, last = sent[f"mirror{self.output.number}"], sent[self.output.last]
        return (first["packets"], first["bytes"]), (last["packets"], last["bytes"])

    def _idle(self) -> bool:
        """Return whether no frame is in transit."""
        before = self._count()
        time.sleep(0.01)
        return backlog(self.site.name, self.output.last) == 0 and self._count() == before
