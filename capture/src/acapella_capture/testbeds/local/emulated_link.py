"""An emulated link for generated packets: a router at site1 that passes them through acapella-link.

    sender -- [ site1: br1 ] -- direct -- [ site2: br0 ] -- receiver
                  |
              emulator -- site1-emulator: eth0 -> TUN device -> acapella-link -> eth0

The sender sends its packets to the MAC address of the router, and the router forwards them to the receiver's MAC
address.
"""

import shutil
import sys
from pathlib import Path

from acapella_core.errors import UserError

from ...settings import LinkSettings
from ...transfer.link_process import PROGRAM, LinkProcess
from .network import Network, disable_offloads, link_command, make_namespace, remove_namespace
from .processes import NAMESPACES, run, run_checked
from .switch import Link

NODE, PORT, DEVICE = "site1-emulator", "emulator", "emulated"
QUEUE_PACKETS = 10_000  # queue of the TUN device, until acapella-link reads it
TABLE = 90
GATEWAYS = {"-4": "192.0.2.1", "-6": "fe80::1"}  # addresses for documentation (RFC 5737), and link-local
PPM_PER_PERCENT = 10_000
NS_PER_MS = 1_000_000


def executable() -> Path:
    """Return the path of the program. Raises UserError if it was not built."""
    found = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=str(Path(sys.executable).parent))
    if found is None:
        raise UserError(f"{PROGRAM} is missing", where="local.generate", fix="make setup")
    return Path(found)


class EmulatedLink:
    """The router and its program, between ``open`` and ``close``. ``mac``: address of the router."""

    def __init__(self, network: Network, settings: LinkSettings, mac: str, receiver_mac: str):
        self._network = network
        self._mac = mac
        self._receiver_mac = receiver_mac
        self._values = {
            "delay_ns": round(settings.delay_ms * NS_PER_MS),
            "loss_ppm": round(settings.loss_percent * PPM_PER_PERCENT),
            "reorder_ppm": round(settings.reorder_percent * PPM_PER_PERCENT),
            "duplicate_ppm": round(settings.duplicate_percent * PPM_PER_PERCENT),
            "seed": settings.seed,
        }
        self._process: LinkProcess | None = None
        self._before: dict[str, int] = {}

    @property
    def queue_interfaces(self) -> list[tuple[str, str]]:
        """Node and interface of the queues of the router."""
        return [("site1", PORT), (NODE, DEVICE), (NODE, "eth0")]

    @property
    def delay_ns(self) -> int:
        """The delay."""
        return self._values["delay_ns"]

    def open(self, bridge: str) -> None:
        """Create the router at a bridge of site1, and start the program. Raises UserError."""
        make_namespace(NODE, ipv6=True)
        mtu = self._network.mtu
        link = Link(("site1", PORT), (NODE, "eth0"), mtu)
        near = [link_command(link), f"link set {PORT} master {bridge}", f"link set {PORT} up"]
        run_checked("site1", ["ip", "-batch", "-"], stdin="\n".join(near))
        run_checked(NODE, ["sh", "-c", settings_script()])
        run_checked(NODE, ["ip", "-batch", "-"], stdin="\n".join(device_lines(mtu, self._mac)))
        for version, gateway in GATEWAYS.items():
            lines = route_lines(gateway, self._receiver_mac)
            run_checked(NODE, ["ip", version, "-batch", "-"], stdin="\n".join(lines))
        for node, device in (link.near, link.far):
            disable_offloads(node, device)
        self._process = LinkProcess(executable(), [(DEVICE, NODE)])

    def close(self) -> None:
        """Remove what ``open`` created, even if it failed."""
        if self._process:
            self._process.close()
            self._process = None
        if (NAMESPACES / NODE).exists():
            remove_namespace(NODE)
        run("site1", ["ip", "link", "del", PORT])

    def begin(self) -> None:
        """Begin a trial: the seed determines which packets are lost, reordered or duplicated. Raises UserError."""
        self._process.set(DEVICE, **self._values)
        self._before = self._process.statistics()[DEVICE]

    def facts(self) -> dict[str, int]:
        """Return the settings, and the counts of packets since ``begin``. Raises UserError."""
        now = self._process.statistics()[DEVICE]
        names = ("received", "sent", "lost", "reordered", "duplicated", "full", "unsent")
        return self._values | {name: now[name] - self._before[name] for name in names}


def settings_script() -> str:
    """Return the shell commands that make a namespace a router that never replies itself."""
    values = {
        "ipv4/ip_forward": 1,
        "ipv4/conf/all/rp_filter": 0,
        "ipv4/conf/default/rp_filter": 0,
        "ipv4/conf/all/send_redirects": 0,
        "ipv4/conf/default/send_redirects": 0,
        "ipv6/conf/all/forwarding": 1,
        # A device that forwards joins the group of all routers, and its report would count as a packet of the link.
        "ipv6/conf/default/forwarding": 0,
        "ipv6/conf/eth0/forwarding": 0,
    }
    return "; ".join(f"if [ -e /proc/sys/net/{name} ]; then echo {value} > /proc/sys/net/{name}; fi"
                     for name, value in values.items())  # fmt: skip


def device_lines(mtu: int, mac: str) -> list[str]:
    """Return the commands of `ip` that set up the devices of the router. Without addresses, they send nothing."""
    return [
        "link set dev lo up",  # has the loopback addresses: without an address, the kernel rejects gateways
        f"link set dev eth0 address {mac} addrgenmode none",
        "link set dev eth0 multicast off",
        "link set dev eth0 up",
        f"tuntap add dev {DEVICE} mode tun",
        f"link set dev {DEVICE} addrgenmode none",
        f"link set dev {DEVICE} multicast off",
        f"link set dev {DEVICE} mtu {mtu} txqueuelen {QUEUE_PACKETS} up",
    ]


def route_lines(gateway: str, receiver_mac: str) -> list[str]:
    """Return the commands of `ip` for the routes of one IP version: from eth0 to the program, and from it to eth0."""
    return [
        f"route add default dev {DEVICE} table {TABLE}",
        f"rule add pref {TABLE} iif eth0 lookup {TABLE}",
        f"neigh replace {gateway} lladdr {receiver_mac} dev eth0 nud permanent",
        f"route add default via {gateway} dev eth0 onlink",
    ]
