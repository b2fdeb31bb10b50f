"""Networks of the FABRIC on loopback: each node of a slice is a network namespace of this machine.

Interfaces have the MAC addresses that the orchestrator assigned, and are connected as the slice's graph describes. On
these nodes `ip`, `tc`, `tcpdump`, `iperf3` are those of this machine, and the kernel forwards packets. Everything
ends with the processes that hold the namespaces.
"""

import contextlib
import shutil
import subprocess
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

from acapella_testing.capture.veth import holder, inside
from acapella_testing.fabric.graphs import graph, mac
from acapella_testing.fabric.nodes import Nodes
from acapella_testing.fabric.orchestrator import Orchestrator, StoredSlice
from acapella_testing.processes import executable
from acapella_testing.requirements import require_programs, require_root, require_success

LIMIT_S = 20
FIRST_BUS = 7  # the first data interface of a node is enp7s0
NETWORKS = ("L2Bridge", "L2STS")
# `modprobe` and the boot identifier concern the whole machine, so nodes have their own.
MODPROBE = '#!/bin/sh\necho "modprobe $*" >> "$HOME/commands.log"\n'
SYSCTL = '#!/bin/sh\n[ "$*" = "-n kernel.random.boot_id" ] && exec cat "$HOME/boot_id"\nexec {sysctl} "$@"\n'


@dataclass
class Namespaces:
    """The namespaces of a slice: the processes that hold them, by node, and the pairs of interfaces."""

    slice_id: str
    holders: dict[str, subprocess.Popen] = field(default_factory=dict)
    pairs: list[tuple[tuple[str, str, str], tuple[str, str, str]]] = field(default_factory=list)  # node, device, MAC


class NodeNetworks:
    """Builds the namespaces of a slice when one of its nodes is first used; replaces `Nodes.prefixes`."""

    def __init__(self, orchestrator: Orchestrator, nodes: Nodes):
        self._orchestrator = orchestrator
        self._nodes = nodes
        self._lock = threading.Lock()
        self._built: Namespaces | None = None
        self.down: set[str] = set()  # nodes that do not boot

    def get(self, node: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the command prefix for programs of a node."""
        with self._lock:
            if self._built is None or node not in self._built.holders or self._current() is None:
                stored = next((each for each in self._orchestrator.alive() if node in graph(each.model).nodes), None)
                if stored is None:
                    return default
                self._build(stored)
            return inside(self._built.holders[node])

    def reboot(self, node: str) -> None:
        """Give a node a new namespace, with unconfigured interfaces, and end its connections."""
        with self._lock:
            if node in self.down:
                return
            pairs = [pair for pair in self._built.pairs if node in (pair[0][0], pair[1][0])]
            for (one, near, _), _ in pairs:  # the kernel would remove them later than the namespace
                ip("link", "del", near, prefix=inside(self._built.holders[one]))
            stop(self._built.holders[node])
            self._built.holders[node] = holder()
            for pair in pairs:
                self._connect(pair)
            (self._nodes.home(node) / "boot_id").write_text(f"{uuid.uuid4()}\n")
        self._nodes.lose_connections()

    def close(self) -> None:
        with self._lock:
            self._remove()

    def _current(self) -> StoredSlice | None:
        return {each.slice_id: each for each in self._orchestrator.alive()}.get(self._built.slice_id)

    def _remove(self) -> None:
        for process in self._built.holders.values() if self._built else ():
            stop(process)
        self._built = None

    def _build(self, stored: StoredSlice) -> None:
        self._remove()
        self._built = Namespaces(stored.slice_id)
        topology = graph(stored.model)
        devices: dict[str, tuple[str, str, str]] = {}
        for name, node in topology.nodes.items():
            self._built.holders[name] = holder()
            (self._nodes.home(name) / "boot_id").write_text(f"{uuid.uuid4()}\n")
            for number, each in enumerate(sorted(interface.name for interface in node.interface_list)):
                devices[each] = (name, f"enp{FIRST_BUS + number}s0", mac(name, each))
        for service in topology.network_services.values():
            if str(service.type) in NETWORKS:
                ends = [peer.name for interface in service.interface_list for peer in interface.get_peers() or ()]
                pair = tuple(devices[end] for end in ends)
                self._built.pairs.append(pair)
                self._connect(pair)

    def _connect(self, pair: tuple) -> None:
        """Create the pair of interfaces of a network."""
        (one, near, near_mac), (other, far, far_mac) = pair
        pids = {node: process.pid for node, process in self._built.holders.items()}
        ip("link", "add", near, "address", near_mac, "netns", str(pids[one]), "type", "veth",
           "peer", "name", far, "address", far_mac, "netns", str(pids[other]))  # fmt: skip


def ip(*words: str, prefix: tuple[str, ...] = ()) -> None:
    done = subprocess.run([*prefix, "ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


def stop(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()


def require_networks() -> None:
    """Skip the test, with the reason, if this machine cannot provide such nodes."""
    require_root("no network namespaces of FABRIC's nodes")
    require_success(["unshare", "--net", "true"], "network namespaces")
    require_programs("ip", "tc", "ss", "ethtool", "iperf3", "tcpdump", "ping", "nsenter", "sysctl")


@contextlib.contextmanager
def node_networks(orchestrator: Orchestrator, nodes: Nodes) -> Iterator[NodeNetworks]:
    """Connect the nodes of a FABRIC on loopback, and let them run the network programs of this machine."""
    require_networks()
    for name in ("ip", "ethtool", "tcpdump"):
        nodes.program(name).unlink()
    for name, text in (("modprobe", MODPROBE), ("sysctl", SYSCTL.format(sysctl=shutil.which("sysctl")))):
        executable(nodes.program(name), text)
    with contextlib.closing(NodeNetworks(orchestrator, nodes)) as networks:
        nodes.prefixes = networks
        yield networks
