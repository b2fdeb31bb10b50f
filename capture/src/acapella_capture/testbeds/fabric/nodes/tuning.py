"""Places a node's CPUs and memory next to its NIC (Sliced WANs, Code 2), and reads the result after the reboot.

If the NUMA node of the NIC has too few free CPUs, FABRIC's client pins fewer CPUs than requested, and it does not
report operations that time out. Therefore the result is read from FABRIC.
"""

import contextlib
import io
import re
from dataclasses import dataclass
from typing import Any

from acapella_core.errors import UserError

from ..session import graph_access

NIC = "nic1"
MIN_MEMORY_SHARE = (
    0.95  # minimum share of a node's memory on its NIC's NUMA node; the hypervisor keeps a few pages on others
)
FIX = "set transfer.nodes.pin: false to run without it"


@dataclass(frozen=True)
class Placement:
    """The placement of a node's CPUs and memory, as reported by FABRIC."""

    numa_node: str  # NUMA node of its NIC
    cpus: tuple[int, ...]  # CPUs of the host that the node's CPUs may use
    pinned: bool  # every CPU of the node runs on a CPU of that NUMA node
    memory_share: float  # share of the node's memory on that NUMA node

    @property
    def is_local(self) -> bool:
        return self.pinned and self.memory_share >= MIN_MEMORY_SHARE


def tune(node: Any) -> None:
    """Pin the CPUs of a node, move its memory, and reboot it; FABRIC applies this at the reboot. Raises UserError."""
    name = node.get_name()
    with graph_access(f"cannot pin node {name}"), contextlib.redirect_stdout(io.StringIO()):  # the client prints
        node.pin_cpu(component_name=NIC)
        node.numa_tune()
        node.os_reboot()


def placement(node: Any) -> Placement:
    """Return the placement of a node's CPUs and memory. Raises UserError."""
    with graph_access(f"cannot read the placement of node {node.get_name()}"):
        host, instance, numa_node = node.get_host(), node.get_instance_name(), node.get_component(NIC).get_numa_node()
        cpus, memory = node.get_cpu_info(), node.get_numa_info()
        near = cpu_list(cpus[host][f"NUMA node{numa_node} CPU(s):"])
        allowed = [cpu_list(cpu["CPU Affinity"]) for cpu in cpus[instance]]
        instance_memory = memory[instance]
        total = int(instance_memory["Total"]["Total"])
        share = int(instance_memory[f"Node {numa_node}"]["Total"]) / total if total else 0.0
    return Placement(
        numa_node=str(numa_node),
        cpus=tuple(sorted(set().union(*allowed))),
        pinned=bool(allowed) and all(len(cpu) == 1 and cpu <= near for cpu in allowed),
        memory_share=share,
    )


def check(name: str, found: Placement) -> None:
    """Raise UserError if CPUs or memory are not next to the NIC."""
    if not found.pinned:
        raise UserError(f"CPUs are not pinned to NUMA node {found.numa_node}", where=f"node {name}", fix=FIX)
    if not found.is_local:
        share = f"{100 * found.memory_share:.0f} %"
        raise UserError(f"{share} of the memory is on NUMA node {found.numa_node}", where=f"node {name}", fix=FIX)


def cpu_list(text: str) -> set[int]:
    """Return the numbers of a list such as `0-7,64`."""
    cpus: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus
