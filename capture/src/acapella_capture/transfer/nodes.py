"""Runs programs and accesses files on the nodes of a slice. `LocalNodes` are network namespaces on this machine."""

import json
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.topology import Topology

from ..testbeds.base import CompletedProgram, Job
from ..testbeds.local import processes, sandbox
from ..testbeds.local.network import disable_offloads, make_namespace, tear_down
from .cleanup import clean_up
from .link_process import Link, LinkProcess

MTU = 1500
ETHERNET_BYTES = 14
OFFLOADS = {"tcp-segmentation-offload": "tso", "generic-segmentation-offload": "gso", "generic-receive-offload": "gro"}
PROGRAMS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ss": "iproute2",
    "ethtool": "ethtool",
    "nsenter": "util-linux",
    "iperf3": "iperf3",
    "tcpdump": "tcpdump",
}


class Nodes(ABC):
    """The nodes of a slice, with an interface per link, and without addresses or routes."""

    on_this_machine = False  # whether programs of the nodes are processes of this machine

    @abstractmethod
    def device(self, node: str, peer: str) -> str:
        """Return the name of the interface that connects a node to a neighbor."""

    @abstractmethod
    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> CompletedProgram:
        """Run a program until it exits. Raises UserError after `timeout_s`."""

    @abstractmethod
    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        """Start a program; its standard output is written to the node's file `output`, by default to the log."""

    def start_all(self, node: str, programs: Sequence[tuple[Sequence[str], str]]) -> list[Job]:
        """Start programs, each with its own output file, as simultaneously as possible. If one fails, none remains."""
        jobs: dict[int, Job] = {}

        def start(number: int) -> None:
            argv, output = programs[number]
            jobs[number] = self.start(node, argv, output=output)

        try:
            self._call_for_each(start, range(len(programs)))
        except BaseException:
            clean_up([partial(job.signal, "KILL") for job in jobs.values()], failed=True)
            raise
        return [jobs[number] for number in range(len(programs))]

    def _call_for_each(self, call: Callable[[int], None], numbers: Iterable[int]) -> None:
        for number in numbers:
            call(number)

    @abstractmethod
    def path(self, node: str, file: str) -> str:
        """Return the path of a node's file."""

    @abstractmethod
    def fetch(self, node: str, file: str, target: Path) -> None:
        """Move a node's file to a local path. Raises UserError if there is none."""

    @abstractmethod
    def python(self, node: str, script: Path) -> list[str]:
        """Return the command that runs a script on a node. The script may only use the standard library."""

    @abstractmethod
    def start_link(self, program: Path, devices: Sequence[tuple[str, str]]) -> Link:
        """Start acapella-link for TUN devices, given as pairs of name and node. Raises UserError."""

    @abstractmethod
    def environment(self) -> dict[str, Any]:
        """Return properties of the nodes that affect results, as in `cell.json`."""

    @abstractmethod
    def close(self) -> None:
        """Stop all programs, and remove or release the nodes unless they are kept."""

    def checked(self, node: str, argv: Sequence[str], *, stdin: str = "") -> str:
        """Run a program and return its output. Raises UserError with the reason if it fails."""
        done = self.run(node, argv, stdin=stdin)
        if done.status != 0:
            raise UserError(f"{argv[0]} failed: {done.failure_reason(stdin)}", where=f"node {node}")
        return done.stdout

    def batch(self, node: str, program: str, lines: Sequence[str]) -> None:
        """Run lines of `ip` or `tc`. Raises UserError at the first line that fails."""
        if lines:
            self.checked(node, [program, "-batch", "-"], stdin="\n".join(lines) + "\n")

    def active_offloads(self, node: str, device: str) -> list[str]:
        """Return the OFFLOADS that are active on a node's interface. Raises UserError."""
        features = json.loads(self.checked(node, ["ethtool", "--json", "-k", device]))[0]
        return [short for name, short in OFFLOADS.items() if features[name]["active"]]

    def check_offloads(self, node: str, device: str) -> None:
        """Raise UserError if an offload of a node's interface could not be disabled."""
        if active := self.active_offloads(node, device):
            raise UserError(f"{', '.join(active)} of {device} cannot be disabled", where=f"node {node}")

    def read(self, node: str, path: str) -> str:
        """Return the content of a small file of a node, stripped of surrounding whitespace."""
        return self.checked(node, ["cat", path]).strip()

    def load(self, node: str) -> float:
        """Return the load average of a node's machine over the last minute."""
        return float(self.read(node, "/proc/loadavg").split()[0])

    def write(self, node: str, path: str, value: str) -> None:
        """Write a value to a file below /proc/sys. Raises UserError if the kernel rejects it."""
        self.checked(node, ["sh", "-c", 'printf "%s\\n" "$1" > "$2"', "sh", value, path])


class LocalNodes(Nodes):
    """Nodes in network namespaces. The constructor builds them; it only works inside the sandbox."""

    on_this_machine = True

    def __init__(self, topology: Topology, spool: Path):
        for program, package in PROGRAMS.items():
            sandbox.require(program, package)
        sandbox.enter()
        self._spool = spool  # on disk, because the scratch file system is in memory
        processes.NAMESPACES.mkdir()
        processes.SPOOL.mkdir()
        try:
            self._build(topology)
        except BaseException:
            self.close()
            raise

    def _build(self, topology: Topology) -> None:
        for node in topology.nodes:
            make_namespace(node, ipv6=False)
            # before interfaces exist, because they copy the default; a router receives a flow's packets on several
            # interfaces
            for scope in ("all", "default"):
                self.write(node, f"/proc/sys/net/ipv4/conf/{scope}/rp_filter", "0")
        lines = []
        for link in topology.links.values():
            first, second = link.between
            near = f"{self.device(first, second)} mtu {MTU} netns {processes.NAMESPACES / first}"
            far = f"{self.device(second, first)} mtu {MTU} netns {processes.NAMESPACES / second}"
            lines.append(f"link add {near} type veth peer name {far}")
        self.batch(topology.sender, "ip", lines)
        for link in topology.links.values():
            for node, peer in (link.between, link.between[::-1]):
                disable_offloads(node, self.device(node, peer))
                self.check_offloads(node, self.device(node, peer))

    def device(self, node: str, peer: str) -> str:
        del node
        return f"to-{peer}"

    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> CompletedProgram:
        return processes.run(node, argv, timeout_s=timeout_s, stdin=stdin)

    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        return processes.start(node, argv, output=output and self.path(node, output))

    def path(self, node: str, file: str) -> str:
        return str(self._spool / f"{node}.{file}")

    def fetch(self, node: str, file: str, target: Path) -> None:
        source = Path(self.path(node, file))
        if not source.is_file():
            raise UserError(f"no file {file!r}", where=f"node {node}")
        shutil.move(source, target)

    def python(self, node: str, script: Path) -> list[str]:
        del node
        return [sys.executable, "-I", "-S", str(script)]

    def start_link(self, program: Path, devices: Sequence[tuple[str, str]]) -> Link:
        return LinkProcess(program, devices)

    def environment(self) -> dict[str, Any]:
        return {"testbed": "local"}

    def close(self) -> None:
        processes.terminate_all()
        tear_down()
