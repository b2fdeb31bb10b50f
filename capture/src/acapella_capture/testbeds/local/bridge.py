"""Kernel bridges as switches, and the kernel's port mirrors: tc's mirred action on what a port receives and sends.

The counters of a mirror must still exist after copying has ended; otherwise the last frames would be missing. A shared
action referenced by the filters would solve this, but cannot be created in a user namespace. Therefore, the copying
filter remains; to end copying, a filter that accepts every frame is added before it.
"""

import json

from ..base import Direction, Host, Instance, MirrorCounters
from .network import NAMESPACES, add_link, disable_offloads, make_namespace, remove_namespace, sent
from .processes import run, run_checked, wait_until
from .switch import Link, LocalMirror, Switches

MIRROR = "mirror0"
CAPTURE = "capture0"
PARENTS = {"rx": "ffff:", "tx": "1:"}  # the ingress qdisc, the root htb
EVERY_FRAME = "filter add dev {port} parent {parent} protocol all prio {prio} u32 match u32 0 0"
COPY = EVERY_FRAME.replace("{prio}", "2") + f" action mirred egress mirror dev {MIRROR}"
ACCEPT_WITHOUT_COPY = EVERY_FRAME.replace("{prio}", "1") + " flowid 1:1"
CLEAR = "filter del dev {port} parent {parent}"
TBF_BURST_BYTES, TBF_LIMIT_BYTES = 32 << 10, 64 << 10  # queue of a rate-limited mirror port
ETHERNET_BYTES = 14  # tc counts the bytes of a received frame without its Ethernet header


class BridgeSwitches(Switches):
    """A bridge per site, with one listening node that has one receiver."""

    note = "no MPLS labels and no provider tags: the switches are kernel bridges"
    receivers = 1

    def programs(self) -> dict[str, str]:
        return {}

    def links(self, site: int) -> list[Link]:
        mtu = self.network.mtu
        links = [
            Link((f"site{site}", f"port{host.number}"), (host.name, "eth0"), mtu) for host in self.network.hosts(site)
        ]
        if site < self.network.sites:
            links.append(
                Link((f"site{site}", f"uplink-site{site + 1}"), (f"site{site + 1}", f"uplink-site{site}"), mtu)
            )
        return links

    def build(self) -> None:
        for number in range(1, self.network.sites + 1):
            site = self.network.site(number)
            ports = [port.name for port in site.ports]
            lines = [f"link add br0 mtu {self.network.mtu} type bridge stp_state 0 mcast_snooping 0"]
            lines += [f"link set {port} master br0" for port in ports]
            lines += [f"link set {device} up" for device in ("br0", *ports)]
            run_checked(site.name, ["ip", "-batch", "-"], stdin="\n".join(lines))
            lines = [f"qdisc add dev {port} ingress" for port in ports]
            lines += [line for port in ports for line in self.network.limit(port)]
            run_checked(site.name, ["tc", "-batch", "-"], stdin="\n".join(lines))
            for port in ports:
                disable_offloads(site.name, port)

    def hardware(self, site: str) -> tuple[Host, ...]:
        return (Host(f"{site}-rack1", cores=8, ram_gb=32, disk_gb=500, nics=1),)

    def node(self, site: str, number: int) -> str:
        return f"{site}-listener"

    def attach(self, site: str, number: int) -> Instance:
        node = self.node(site, number)
        make_namespace(node, ipv6=False)
        add_link(Link((site, MIRROR), (node, CAPTURE), self.network.mtu))
        if self.network.mirror_rate_bps:
            limit_mirror(site, MIRROR, self.network.mirror_rate_bps)
        return Instance(node, site, (CAPTURE,))

    def detach(self, site: str, number: int) -> None:
        if (NAMESPACES / site).exists():
            run(site, ["ip", "link", "del", MIRROR])
        remove_namespace(self.node(site, number))

    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> LocalMirror:
        return BridgeMirror(instance, receiver, port, direction)


def limit_mirror(site: str, device: str, rate_bps: int) -> None:
    """Limit the rate of a mirror port; it drops excess frames."""
    rate = f"rate {rate_bps}bit burst {TBF_BURST_BYTES} limit {TBF_LIMIT_BYTES}"
    run_checked(site, ["tc", "qdisc", "add", "dev", device, "root", "tbf", *rate.split()])


def backlog(site: str, device: str) -> int:
    """Return the bytes queued at a rate-limited device."""
    qdiscs = json.loads(run_checked(site, ["tc", "-s", "-j", "qdisc", "show", "dev", device]))
    return sum(qdisc.get("backlog", 0) for qdisc in qdiscs)


class BridgeMirror(LocalMirror):
    """Mirror of one port, made with tc filters."""

    def __init__(self, instance: Instance, receiver: str, port: str, direction: Direction):
        self.site = instance.site
        self.port = port
        self.instance = instance.name
        self.interface = receiver
        self.directions = ("rx", "tx") if direction == "both" else (direction,)
        self._start_counts = sent(self.site, MIRROR)

    def start(self) -> None:
        self._batch(COPY)

    def stop(self) -> None:
        """Stop copying, and wait until the mirror port's queue is empty."""
        self._batch(ACCEPT_WITHOUT_COPY)
        wait_until(lambda: backlog(self.site, MIRROR) == 0)

    def remove(self) -> None:
        """Remove the filters and their counters."""
        self._batch(CLEAR)

    def counters(self) -> MirrorCounters:
        frames = offered_bytes = 0
        for direction in self.directions:
            filters = json.loads(self._tc("-s", "-j", "filter", "show", "dev", self.port, "parent", PARENTS[direction]))
            for action in (action for entry in filters for action in entry.get("options", {}).get("actions", [])):
                statistics = action["stats"]
                frames += statistics["packets"]
                offered_bytes += statistics["bytes"] + (
                    ETHERNET_BYTES * statistics["packets"] if direction == "rx" else 0
                )
        delivered = sent(self.site, MIRROR)
        return MirrorCounters(
            offered_frames=frames,
            delivered_frames=delivered[0] - self._start_counts[0],
            offered_bytes=offered_bytes,
            delivered_bytes=delivered[1] - self._start_counts[1],
        )

    def _batch(self, command: str) -> None:
        """Run one tc command per direction in a batch."""
        lines = [command.format(port=self.port, parent=PARENTS[direction]) for direction in self.directions]
        self._tc("-batch", "-", stdin="\n".join(lines) + "\n")

    def _tc(self, *arguments: str, stdin: str = "") -> str:
        return run_checked(self.site, ["tc", *arguments], stdin=stdin)
