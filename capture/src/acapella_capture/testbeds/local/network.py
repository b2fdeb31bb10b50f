"""Sites, hosts and links built from network namespaces, with one of two kinds of switch per site.

    host1   host2          host1   host2         a namespace each, interface eth0
      |       |              |       |
    port1   port2          port1   port2
      [ site1 ] -- uplink -- [ site2 ]           a namespace each, bridge br0; sites in a row
         |                      |
      mirror0                mirror0             not part of the bridge: carries copies only
         |                      |
    site1-listener         site2-listener        a namespace each, interface capture0

Every host has an address of each IP version on every path. Routes to `standard` addresses have an MTU of 1500 bytes,
routes to `jumbo` addresses the link's MTU, so that both kinds of frames use the same links. `vxlan` is a tunnel between
the hosts' standard addresses, `vlan` a VLAN interface of the host. A kernel may lack these two devices.
"""

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from acapella_core.errors import UserError

from ..base import Port, Site
from .processes import NAMESPACES, SPOOL, run_checked
from .sandbox import unmount
from .slices import Slice, host_mac
from .switch import Link, Switches

STANDARD_MTU = 1500
PATHS = {"standard": 10, "jumbo": 20, "vxlan": 30, "vlan": 40}  # second number of addresses; VNI or VLAN ID
DEVICES = {"vxlan": "vxlan0", "vlan": "vlan0"}
VXLAN_OVERHEAD = 50  # outer Ethernet, IPv4, UDP and VXLAN headers


@dataclass(frozen=True)
class Host:
    """A host: the name of its namespace, the numbers of its site and of the host there (from 1), and its MAC
    address."""

    name: str
    site: int
    number: int
    mac: str

    def address(self, ip: int, path: str = "standard") -> str:
        """Return its address of an IP version on a path, without prefix length."""
        if ip == 4:
            return f"10.{PATHS[path]}.{self.site}.{self.number}"
        return f"fd00:{PATHS[path]}::{self.site}:{self.number}"


@dataclass(frozen=True)
class Network:
    """The topology of the testbed; `build` creates it."""

    sites: int
    hosts_per_site: int
    mtu: int
    port_rate_bps: int
    mirror_rate_bps: int | None
    paths: tuple[str, ...] = ("standard", "jumbo")
    slices: tuple[Slice, ...] = ()
    resources: Mapping[str, int] = field(
        default_factory=dict
    )  # number of machines for listening nodes, and resources of each

    def hosts(self, site: int) -> list[Host]:
        """Return the hosts of a site; sites count from 1."""
        hosts = []
        for number in range(1, self.hosts_per_site + 1):
            slice_ = self.slice_at(site, number)
            mac = (slice_.host_mac if slice_ else host_mac)(site, number)
            hosts.append(Host(f"site{site}-host{number}", site, number, mac))
        return hosts

    def uplinks(self, site: int) -> list[str]:
        """Return the ports of a site that lead to its neighbors."""
        return [f"uplink-site{neighbor}" for neighbor in (site - 1, site + 1) if 1 <= neighbor <= self.sites]

    def slice_at(self, site: int, host: int) -> Slice | None:
        """Return the slice of a site's host; None if it is in none."""
        return next((slice_ for slice_ in self.slices if site in slice_.sites and host in slice_.hosts), None)

    def slice_of(self, host: Host) -> Slice | None:
        """Return the slice of a host; None if it is in none."""
        return self.slice_at(host.site, host.number)

    def connected(self, host: Host, other: Host) -> bool:
        """Return whether two hosts can exchange frames."""
        return not self.slices or (self.slice_of(host) is not None and self.slice_of(host) == self.slice_of(other))

    def site(self, number: int) -> Site:
        """Return the site with its ports, for the coordinator."""
        ports = []
        for host in self.hosts(number):
            slice_ = self.slice_of(host)
            ports.append(Port(f"port{host.number}", self.port_rate_bps, "downlink", (slice_.name,) if slice_ else ()))
        for name in self.uplinks(number):
            other = int(name.removeprefix("uplink-site"))
            sides = [min(number, other), max(number, other)]
            crossing = [
                slice_.name for slice_ in self.slices if min(slice_.sites) <= sides[0] and max(slice_.sites) >= sides[1]
            ]
            ports.append(Port(name, self.port_rate_bps, "uplink", tuple(crossing)))
        return Site(f"site{number}", tuple(ports))

    def build(self, switches: Switches) -> None:
        """Create namespaces, links, switches, addresses. Raises UserError with the kernel's message."""
        NAMESPACES.mkdir()
        SPOOL.mkdir()
        numbers = range(1, self.sites + 1)
        for site in numbers:
            for node in (f"site{site}", *(host.name for host in self.hosts(site))):
                make_namespace(node, ipv6=node.partition("-")[2].startswith("host"))
        links = [link_command(link) for site in numbers for link in switches.links(site)]
        run_checked("site1", ["ip", "-batch", "-"], stdin="\n".join(links))
        switches.build()
        for site in numbers:
            for host in self.hosts(site):
                self.build_host(host)

    def limit(self, port: str) -> list[str]:
        """Return the `tc` commands that limit a device to the rate of a port."""
        return [
            f"qdisc add dev {port} root handle 1: htb default 1",
            f"class add dev {port} parent 1: classid 1:1 htb rate {self.port_rate_bps}bit quantum 60000",
        ]

    def build_host(self, host: Host) -> None:
        """Configure addresses and routes of a host."""
        # without offloads TCP still queues segments of up to 64 KiB, a burst above the line rate
        lines = [f"link set eth0 address {host.mac} gso_max_segs 1", "link set lo up"]
        lines.append("link set eth0 up")
        standard = min(STANDARD_MTU, self.mtu)
        mtus = {"standard": standard, "jumbo": self.mtu, "vxlan": standard - VXLAN_OVERHEAD, "vlan": standard}
        for path in self.paths:
            device = DEVICES.get(path, "eth0")
            if path in DEVICES:
                lines += [device_command(path, host), f"link set {device} up"]
            lines += addresses(host, path, device, mtus[path])
        run_checked(host.name, ["ip", "-batch", "-"], stdin="\n".join(lines) + "\n")
        if "vxlan" in self.paths:
            self.add_vxlan_peers(host)
        # sshd needs port 22 in a user namespace that does not own this network
        run_checked(host.name, ["sh", "-c", "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start"])
        disable_offloads(host.name, "eth0")
        # also limit the other direction: a burst must not arrive faster than the line rate
        run_checked(host.name, ["tc", "-batch", "-"], stdin="\n".join(self.limit("eth0")))

    def add_vxlan_peers(self, host: Host) -> None:
        """Add the other hosts as VXLAN peers; no multicast is needed."""
        others = [other for site in range(1, self.sites + 1) for other in self.hosts(site) if other != host]
        lines = [f"fdb append 00:00:00:00:00:00 dev {DEVICES['vxlan']} dst {other.address(4)}" for other in others]
        run_checked(host.name, ["bridge", "-batch", "-"], stdin="\n".join(lines) + "\n")
        disable_offloads(host.name, DEVICES["vxlan"])


def device_command(path: str, host: Host) -> str:
    """Return the `ip` command that creates a path's device on a host."""
    if path == "vlan":
        return f"link add link eth0 name {DEVICES[path]} type vlan id {PATHS[path]}"
    return f"link add {DEVICES[path]} type vxlan id {PATHS[path]} dstport 4789 local {host.address(4)}"


def addresses(host: Host, path: str, device: str, mtu: int) -> list[str]:
    """Return the `ip` commands for a host's addresses and routes on a path."""
    lines = []
    for ip, length in ((4, 16), (6, 64)):
        address = host.address(ip, path)
        prefix = f"10.{PATHS[path]}.0.0/16" if ip == 4 else f"fd00:{PATHS[path]}::/64"
        nodad = "nodad" if ip == 6 else ""
        lines.append(f"address add {address}/{length} dev {device} noprefixroute {nodad}")
        lines.append(f"route add {prefix} dev {device} src {address} mtu {mtu}")
    return lines


def link_command(link: Link) -> str:
    """Return the `ip` command that creates a link, both ends in their namespaces."""
    (node, name), (far_node, far_name) = link.near, link.far
    return (
        f"link add {name} mtu {link.mtu} netns {NAMESPACES / node} "
        f"type veth peer name {far_name} mtu {link.mtu} netns {NAMESPACES / far_node}"
    )


def add_link(link: Link) -> None:
    """Create a link and set both ends up."""
    run_checked(link.near[0], ["ip", "-batch", "-"], stdin=link_command(link))
    for node, name in (link.near, link.far):
        run_checked(node, ["ip", "link", "set", name, "up"])


def sent(node: str, device: str) -> tuple[int, int]:
    """Return the frames and bytes that an interface has sent."""
    links = json.loads(run_checked(node, ["ip", "-s", "-j", "link", "show", "dev", device]))
    statistics = links[0]["stats64"]["tx"]
    return statistics["packets"], statistics["bytes"]


def kernel_has(path: str) -> bool:
    """Return whether the kernel supports the device of a path, by creating one in the current namespace."""
    if path not in DEVICES:
        return True
    subprocess.run(["ip", "link", "add", "eth0", "type", "veth"], capture_output=True, check=False)
    command = device_command(path, Host("", 1, 1, "")).split()
    result = subprocess.run(["ip", *command], capture_output=True, check=False)
    subprocess.run(["ip", "link", "del", "eth0"], capture_output=True, check=False)
    if result.returncode == 0:
        subprocess.run(["ip", "link", "del", DEVICES[path]], capture_output=True, check=False)
    return result.returncode == 0


def make_namespace(node: str, *, ipv6: bool) -> None:
    """Create a named network namespace; without IPv6 if only forwarded or mirrored frames may appear in it."""
    path = NAMESPACES / node
    path.touch()
    result = subprocess.run(["unshare", f"--net={path}", "true"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise UserError(f"cannot create a network namespace: {result.stderr.strip()}", where=f"node {node}")
    if not ipv6:
        for scope in ("all", "default"):
            setting = f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"
            run_checked(node, ["sh", "-c", f"if [ -e {setting} ]; then echo 1 > {setting}; fi"])


def remove_namespace(node: str) -> None:
    """Remove a node's namespace, if it exists."""
    path = NAMESPACES / node
    if path.exists():
        unmount(path)
        path.unlink()


def tear_down() -> None:
    """Remove all namespaces, and with them their interfaces, peers and qdiscs."""
    for path in NAMESPACES.glob("*"):
        unmount(path)
    for directory in (NAMESPACES, SPOOL):
        if directory.exists():
            shutil.rmtree(directory)


def disable_offloads(node: str, device: str) -> None:
    """Disable offloads, so that frames look as on a wire: no 64 KiB segments, no missing checksums."""
    features = ("tso", "gso", "gro", "tx", "sg")
    run_checked(node, ["ethtool", "-K", device, *(argument for name in features for argument in (name, "off"))])
