"""Delays packets in a slice: with netem if the kernel has it, otherwise with acapella-link, one process on each
machine that delays packets.

The return direction is delayed at the first router, towards the sender; with delay_on: both, the data direction is also
delayed, at the last router, towards the receiver. So packets are delayed after an emulated link between routers.

acapella-link reads packets from a TUN device per direction and writes them back when they are due. Policy routing rules
send packets for the host to the TUN device if they arrive from another node, but not if they come from that device.
"""

import contextlib
import json
import math
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acapella_core import names
from acapella_core.errors import UserError
from acapella_core.topology import Topology

from .grid import Cell
from .link_process import PROGRAM
from .measurement import TOLERANCE, delay_error_ns
from .nodes import Nodes
from .reserved_cpu import ReservedCpu
from .routing import FIRST_RULE, other_end

TABLE = 90
DELAY_RULE = FIRST_RULE // 2  # preference of the rules
FORWARD, RETURN = DELAY_DEVICES = ("delay-fwd", "delay-rev")
NETEM_LIMIT = 1_000_000  # packets; the default of 1000 drops packets at 300 Mbit/s and 40 ms
TUN_PACKETS = 10_000  # queue of the device until acapella-link reads it
MILLION = 1_000_000
DEVIATIONS = 4  # a difference of more standard deviations is not explained by chance
# messages of tc, with and without netlink extended ACK
NO_NETEM = ("Specified qdisc kind is unknown", "No such file or directory")
EXTRA_PACKETS = 2  # additional tolerance, because small numbers of packets are not normally distributed


@dataclass(frozen=True)
class Direction:
    """A delayed direction: packets to a host are delayed at the router next to the host."""

    name: str
    host: str
    router: str


def directions(topology: Topology, delay_on: str) -> list[Direction]:
    """Return the directions that are delayed."""
    found = []
    if delay_on == "both":
        found.append(Direction(FORWARD, topology.receiver, neighbor(topology, topology.receiver)))
    found.append(Direction(RETURN, topology.sender, neighbor(topology, topology.sender)))
    return found


def neighbor(topology: Topology, host: str) -> str:
    """Return the node next to a host."""
    return next(other_end(link.between, host) for link in topology.links.values() if host in link.between)


@dataclass(frozen=True)
class Counts:
    """Packets of a delayed direction so far, and the delay error since `apply`. None: unknown."""

    packets: int  # arrived, including lost ones
    lost: int  # as requested (netem: all drops)
    reordered: int | None
    dropped: int  # in addition to the requested loss
    late_p99_ns: int | None  # 99th percentile of the lateness
    early_p99_ns: int | None  # 99th percentile of the earliness

    def since(self, before: "Counts") -> "Counts":
        """Return the counts since earlier ones; the delay errors remain those since `apply`."""
        return Counts(
            self.packets - before.packets,
            self.lost - before.lost,
            None if self.reordered is None else self.reordered - before.reordered,
            self.dropped - before.dropped,
            self.late_p99_ns,
            self.early_p99_ns,
        )


def is_share_off(found: int, total: int, percent: float) -> bool:
    """Return whether a number of packets differs from its expected value by more than 5 % plus what chance explains.

    Each packet is selected independently, so the number has a binomial distribution.
    """
    share = percent / 100
    expected = share * total
    chance = DEVIATIONS * math.sqrt(expected * (1 - share)) + (EXTRA_PACKETS if percent else 0)
    return abs(found - expected) > TOLERANCE * expected + chance


def flags_of_counts(cell: Cell, counts: dict[str, Counts]) -> list[str]:
    """Return the flags of a run with these counts of delayed directions."""
    flags = set()
    for measured in counts.values():
        if is_share_off(measured.lost, measured.packets, cell.loss_percent):
            flags.add("loss_off")
        if measured.reordered is not None and is_share_off(
            measured.reordered, measured.packets - measured.lost, cell.reorder_percent
        ):
            flags.add("reorder_off")
        if measured.dropped:
            flags.add("link_loss")
        if measured.late_p99_ns is not None and measured.late_p99_ns > delay_error_ns(cell):
            flags.add("delay_late")
    return sorted(flags)


class Delays:
    """The delayed directions of a slice. This base class is for grids without delay, loss and reordering."""

    def __init__(self, nodes: Nodes, topology: Topology, delay_on: str):
        self._nodes = nodes
        self._directions = directions(topology, delay_on)

    def apply(self, cell: Cell) -> None:
        """Delay, drop and reorder packets as the cell requires. This base class does nothing. Raises UserError."""

    def remove(self) -> None:
        """Remove all delays. Raises UserError."""

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each delayed direction by name. Raises UserError."""
        return {}

    def environment(self) -> dict[str, Any]:
        """Return how packets are delayed, as in `cell.json`."""
        return {"by": None, "realtime": None, "reserved": None, "steered": None}

    def close(self) -> None:
        """Stop all programs that this object started."""

    def share_ns(self, cell: Cell) -> int:
        """Return a cell's delay in each delayed direction."""
        return cell.delay_ns // len(self._directions)


class NetemDelays(Delays):
    """Delays packets with the kernel's netem, on the router's interface to the host.

    Raises UserError if an emulated link uses this interface. As root qdisc, netem would replace the queue of the link;
    below tbf, it would replace the queue's limit with its own.
    """

    def __init__(self, nodes: Nodes, topology: Topology, delay_on: str):
        super().__init__(nodes, topology, delay_on)
        for direction in self._directions:
            for name, link in topology.emulated().items():
                if topology.upstream(link) == (direction.router, direction.host):
                    raise UserError(
                        f"transfer.delay_on: both: netem cannot delay data on the emulated link {name}, "
                        f"which ends at {direction.host}",
                        fix="set delay_on: return, or add a router after this link",
                    )

    def apply(self, cell: Cell) -> None:
        for direction in self._directions:
            device = self._nodes.device(direction.router, direction.host)
            self._nodes.batch(direction.router, "tc", [netem(device, self.share_ns(cell), cell)])

    def remove(self) -> None:
        for direction in self._directions:
            device = self._nodes.device(direction.router, direction.host)
            shown = json.loads(self._nodes.checked(direction.router, ["tc", "-j", "qdisc", "show", "dev", device]))
            if any(qdisc["kind"] == "netem" for qdisc in shown):
                self._nodes.checked(direction.router, ["tc", "qdisc", "del", "dev", device, "root"])

    def counts(self) -> dict[str, Counts]:
        found = {}
        for direction in self._directions:
            device = self._nodes.device(direction.router, direction.host)
            shown = self._nodes.checked(direction.router, ["tc", "-s", "-j", "qdisc", "show", "dev", device])
            qdisc = next(qdisc for qdisc in json.loads(shown) if qdisc["kind"] == "netem")
            # netem counts packets when they leave; its drops include packets that found its queue full
            arrived = qdisc["packets"] + qdisc["drops"] + qdisc["qlen"]
            found[direction.name] = Counts(arrived, qdisc["drops"], None, 0, None, None)
        return found

    def environment(self) -> dict[str, Any]:
        return super().environment() | {"by": "netem"}


def netem(device: str, delay_ns: int, cell: Cell) -> str:
    """Return the line of `tc` that delays packets; tc rejects reordering without a delay."""
    delay_us = delay_ns // 1000
    line = f"qdisc replace dev {device} root netem limit {NETEM_LIMIT} delay {delay_us}us"
    if cell.loss_percent:
        line += f" loss {cell.loss_percent:g}%"
    if cell.reorder_percent and delay_us:
        line += f" reorder {cell.reorder_percent:g}%"
    return line


def has_netem(nodes: Nodes, node: str) -> bool:
    """Return whether netem works on a node. If it does not work although the kernel may have it, print the reason."""
    done = nodes.run(node, ["tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1us"])
    if done.status == 0:
        nodes.checked(node, ["tc", "qdisc", "del", "dev", "lo", "root"])
    elif not any(message in done.stderr for message in NO_NETEM):
        lines = done.stderr.strip().splitlines() or [f"exit status {done.status}, no message"]
        names.report(f"transfer: warning: node {node}: netem is not used: {lines[0]}")
    return done.status == 0


class LinkDelays(Delays):
    """Delays packets with acapella-link, which runs until `close`. Raises UserError if it is missing or fails."""

    def __init__(self, nodes: Nodes, topology: Topology, delay_on: str, seed: int):
        super().__init__(nodes, topology, delay_on)
        self._seed = seed
        self._run = 0
        program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path=str(Path(sys.executable).parent))
        if program is None:
            raise UserError(f"{PROGRAM} is missing, and this kernel has no netem", fix="make setup")
        for direction in self._directions:
            nodes.batch(direction.router, "ip", tun_lines(nodes, topology, direction))
        self._cpu = ReservedCpu() if nodes.on_this_machine else None
        self._steered = False
        with contextlib.ExitStack() as on_failure:
            if self._cpu:
                on_failure.callback(self._cpu.close)
            self._link = nodes.start_link(
                Path(program), [(direction.name, direction.router) for direction in self._directions]
            )
            on_failure.callback(self._link.close)
            if self._cpu:
                self._cpu.assign(self._link.pid)
                interfaces = [
                    (direction.host, nodes.device(direction.host, direction.router)) for direction in self._directions
                ]
                self._steered = all([self._cpu.steer(nodes, host, device) for host, device in interfaces])
            on_failure.pop_all()

    def apply(self, cell: Cell) -> None:
        self._run += 1
        for number, direction in enumerate(self._directions):
            self._link.set(
                direction.name,
                delay_ns=self.share_ns(cell),
                loss_ppm=round(cell.loss_percent * MILLION / 100),
                reorder_ppm=round(cell.reorder_percent * MILLION / 100),
                seed=self._seed * MILLION + self._run * 2 + number,
            )

    def remove(self) -> None:
        for direction in self._directions:
            self._link.set(direction.name)

    def close(self) -> None:
        if self._cpu:
            self._cpu.close()
        self._link.close()

    def counts(self) -> dict[str, Counts]:
        statistics = self._link.statistics()
        found = {}
        for direction in self._directions:
            counted = statistics[direction.name]
            dropped = counted["full"] + counted["unsent"] + self._queue_drops(direction)
            errors = (counted["late_p99_ns"], counted["early_p99_ns"])
            found[direction.name] = Counts(counted["received"], counted["lost"], counted["reordered"], dropped, *errors)
        return found

    def environment(self) -> dict[str, Any]:
        return {
            "by": PROGRAM,
            "realtime": self._link.realtime,
            "reserved": self._cpu is not None and self._cpu.is_reserved,
            "steered": self._steered,
        }

    def _queue_drops(self, direction: Direction) -> int:
        command = ["ip", "-s", "-j", "link", "show", "dev", direction.name]
        shown = json.loads(self._nodes.checked(direction.router, command))
        return shown[0]["stats64"]["tx"]["dropped"]


def tun_lines(nodes: Nodes, topology: Topology, direction: Direction) -> list[str]:
    """Return the lines of `ip` that route packets for a host through a TUN device."""
    address = topology.address(direction.host)
    lines = [
        f"tuntap add dev {direction.name} mode tun",
        f"link set {direction.name} txqueuelen {TUN_PACKETS} up",
        f"route replace {address} dev {direction.name} table {TABLE}",
    ]
    router = direction.router
    peers = [other_end(link.between, router) for link in topology.links.values() if router in link.between]
    lines += [
        f"rule add pref {DELAY_RULE} iif {nodes.device(direction.router, peer)} to {address} lookup {TABLE}"
        for peer in peers
        if peer != direction.host
    ]
    return lines
