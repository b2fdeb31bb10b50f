"""The command line of acapella-dpdk-replay: its ports, memory and times."""

import fcntl
import re
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError

from ..programs.dpdk import LIMITS, MAX_MTU, ring_kib
from ..programs.dpdk import device as af_packet_device
from .program import executable

PCI = re.compile(r"([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
VIRTUAL = re.compile(r"(net|eth|crypto)_\w+(,.*)?")  # DPDK's names of virtual devices
SIOCGIFMTU = 0x8921  # netdevice(7)
NAME_BYTES = 16
MTU_OFFSET = 16  # in struct ifreq
RING_KIB = 8192  # size of a net_af_packet ring, if it may be locked in memory
MIN_FRAME = 2048
MIN_DEPARTURES = 1 << 20
LOOPS_OF_AGENT = 16  # loops of a full recording whose departures an agent keeps


@dataclass(frozen=True)
class ProgramSettings:
    """Options of the program; None: its default. ``ports`` are network interfaces or DPDK devices."""

    ports: tuple[str, ...]
    bridge: bool = False
    queues: int | None = None
    in_band: bool = False
    packets: int | None = None
    departures: int | None = None
    max_frame: int | None = None
    pace: str | None = None
    burst: int | None = None
    lead_ns: int | None = None
    measure_lead: tuple[str, ...] = ()  # tx, or for each port the one that receives what it sends
    retry_ns: int | None = None
    late_ns: int | None = None
    drop_late_ns: int | None = None
    tag: str | None = None
    node: int | None = None
    cpus: str | None = None
    priority: int | None = None
    wake_ns: int | None = None
    huge: bool = False
    mtu: int | None = None  # MTU of interfaces in a different network namespace; None: they are in this one

    def argv(self, program: str | Path | None = None) -> list[str]:
        """Return the command line. Raises UserError if there is no such interface, or no program."""
        devices, ports, longest = [], {}, MIN_FRAME
        loops = [name for name in self.measure_lead if name != "tx"]
        names = dict.fromkeys((*self.ports, *loops))
        for number, name in enumerate(names):
            options, ports[name], frame = port_options(
                name, number, self.mtu, ring=RING_KIB // len(names), queues=self.queues or 1
            )
            devices += options
            longest = max(longest, frame)
        port_names = [ports[name] for name in self.ports]
        tx = [argument for port in port_names for argument in ("--tx", port)]
        roles = ["--bridge", ",".join(port_names)] if self.bridge else tx
        values = {
            "--queues": self.queues,
            "--packets": self.packets,
            "--departures": self.departures,
            "--max-frame": self.max_frame or longest,
            "--pace": self.pace,
            "--burst": self.burst,
            "--lead-ns": self.lead_ns,
            "--retry-ns": self.retry_ns,
            "--late-ns": self.late_ns,
            "--drop-late-ns": self.drop_late_ns,
            "--tag": self.tag,
            "--node": self.node,
            "--cpus": self.cpus,
            "--priority": self.priority,
            "--wake-ns": self.wake_ns,
        }
        options = [argument for key, value in values.items() if value is not None for argument in (key, str(value))]
        for name in self.measure_lead:
            options += ["--measure-lead", ports.get(name, name)]
        huge = ["--huge"] if self.huge else []
        in_band = ["--in-band"] if self.in_band else []
        return [str(program or executable()), *devices, *roles, *options, *huge, *in_band]


def port_options(
    name: str, number: int, mtu: int | None = None, *, ring: int = RING_KIB, queues: int = 1
) -> tuple[list[str], str, int]:
    """Return the program's options for a port, the port's device name, and the frame size that it needs.

    ``ring`` is the total size in KiB of the rings of a net_af_packet device, which has one ring per queue. The limit on
    locked memory may reduce it.

    A PCI address and DRIVER,ARGUMENTS are DPDK devices, whose frame size is unknown (0); everything else is a network
    interface. Raises UserError if there is no such interface.
    """
    if PCI.fullmatch(name):
        return ["--pci", name], name, 0
    if VIRTUAL.fullmatch(name):
        return ["--vdev", name], name.partition(",")[0], 0
    mtu = min(mtu or mtu_of(name), MAX_MTU)
    limits = subprocess.run(["sh", "-c", LIMITS], capture_output=True, text=True, check=True).stdout
    options, frame = af_packet_device(name, mtu, ring_kib(RING_KIB, limits) * ring // RING_KIB // queues)
    device = f"net_af_packet{number}"
    pairs = f",qpairs={queues}" if queues > 1 else ""
    return ["--vdev", device + options[options.index(",") :] + pairs], device, frame


def mtu_of(interface: str) -> int:
    """Return the MTU of an interface of this network namespace. Raises UserError if it does not exist."""
    name, fault = interface.encode(), "not an interface name"
    if 0 < len(name) < NAME_BYTES:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            try:
                reply = fcntl.ioctl(any_socket, SIOCGIFMTU, struct.pack(f"{NAME_BYTES}s24x", name))
                return struct.unpack_from("i", reply, MTU_OFFSET)[0]
            except OSError as error:
                fault = error.strerror
    raise UserError(f"no interface {interface!r}: {fault}", fix="ip link lists them")
