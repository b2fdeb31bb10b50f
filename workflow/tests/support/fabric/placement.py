"""Operations on nodes (POA) of the FABRIC on loopback: CPU and memory placement, reboot.

CPUs are pinned immediately; memory moves at the next reboot. The host has two NUMA nodes, and the NICs are at the
second. Replies have the form of the examples in FABRIC's client (`Node.get_cpu_info`, `Node.get_numa_info`).
"""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from acapella_testing.fabric.graphs import graph
from acapella_testing.fabric.orchestrator import Orchestrator, StoredSlice
from fim.slivers.capacities_labels import Labels

NIC_NUMA = "1"
HOST_CPUS = {"0": range(0, 8), "1": range(8, 16)}
HOST_MB = 64_000
OTHER_MB = 1  # memory of the hypervisor that is not moved


@dataclass
class Machine:
    """The virtual machine of a node: the host CPU of each virtual CPU, and the NUMA node of its memory."""

    host: str
    instance: str
    cores: int
    ram_mb: int
    pinned: dict[int, int] = field(default_factory=dict)
    memory: str = "0"
    next_memory: str = "0"  # after the reboot


@dataclass
class PlacementFaults:
    """Active faults, until a test removes them."""

    fail: set[str] = field(default_factory=set)  # operations that end in state Failed
    ignore: set[str] = field(default_factory=set)  # operations that succeed and change nothing
    taken: int = 0  # CPUs of the NIC's NUMA node that other machines use


class PlacingOrchestrator(Orchestrator):
    """An orchestrator with operations on nodes. `reboot` restarts a node, by its name."""

    def __init__(self, sites: dict[str, list[dict]] | None = None):
        self.placement_faults = PlacementFaults()
        self.operations: list[tuple[str, str]] = []  # operation and node, in order
        self.reboot: Callable[[str], None] = lambda node: None
        self._machines: dict[str, Machine] = {}  # by node
        self._results: dict[str, dict] = {}  # by id of the POA
        super().__init__(sites)

    def _routes(self):
        return (
            *super()._routes(),
            ("/poas/create/([^/]+)", "POST", self._operate),
            ("/poas/([^/]+)", "GET", self._operation),
        )

    def _begin(self, name: str, query: dict, body: bytes) -> StoredSlice:
        stored = super()._begin(name, query, body)
        topology = graph(stored.model)
        for number, (node, each) in enumerate(topology.nodes.items()):
            site, has = each.site.lower(), each.capacities
            machine = Machine(f"{site}-w1.fabric-testbed.net", f"instance-{number:08x}", has.core, has.ram * 1024)
            self._machines[str(node)] = machine
            labels = Labels(instance=machine.instance, instance_parent=machine.host)
            each.set_properties(capacity_allocations=has, label_allocations=labels)
            for component in each.components.values():
                component.set_properties(label_allocations=Labels(numa=NIC_NUMA))
        stored.model = topology.serialize()
        return stored

    def _operate(self, sliver_id: str, _query: dict, body: bytes) -> tuple[int, object]:
        request = json.loads(body)
        operation, data = request["operation"], request.get("data", {})
        node = sliver_id.removeprefix("sliver-")
        self.operations.append((operation, node))
        faults = self.placement_faults
        result = {"poa_id": str(uuid.uuid4()), "operation": operation, "sliver_id": sliver_id, "state": "Success"}
        if operation in faults.fail:
            result |= {"state": "Failed", "error": f"{operation} is not possible now"}
        elif operation not in faults.ignore:
            result |= {"info": {operation: self._apply(operation, node, data)}}
        self._results[result["poa_id"]] = result
        return 200, {"data": [result]}

    def _operation(self, poa_id: str, _query: dict, _body: bytes) -> tuple[int, object]:
        return 200, {"data": [self._results[poa_id]]}

    def _apply(self, operation: str, node: str, data: dict) -> object:
        machine = self._machines[node]
        if operation == "cpupin":
            machine.pinned = {int(each["vcpu"]): int(each["cpu"]) for each in data["vcpu_cpu_map"]}
        elif operation == "numatune":
            machine.next_memory = data["node_set"][0]
        elif operation == "reboot":
            machine.memory = machine.next_memory
            self.reboot(node)
        elif operation == "cpuinfo":
            return {machine.host: self._host_cpus(), machine.instance: self._cpus(machine)}
        elif operation == "numainfo":
            return {machine.host: self._host_memory(), machine.instance: self._memory(machine)}
        return None

    def _host_cpus(self) -> dict:
        ranges = {f"NUMA node{name} CPU(s):": f"{cpus[0]}-{cpus[-1]}" for name, cpus in HOST_CPUS.items()}
        return {"pinned_cpus": [str(cpu) for cpu in HOST_CPUS[NIC_NUMA][: self.placement_faults.taken]]} | ranges

    def _cpus(self, machine: Machine) -> list[dict]:
        everywhere = ",".join(str(cpu) for cpus in HOST_CPUS.values() for cpu in cpus)
        return [
            {"CPU": "3", "CPU Affinity": str(machine.pinned.get(cpu, everywhere)), "State": "running", "VCPU": str(cpu)}
            for cpu in range(machine.cores)
        ]

    def _host_memory(self) -> dict:
        nodes = {f"node {name}": {"free": f"{HOST_MB} MB", "size": f"{HOST_MB} MB"} for name in HOST_CPUS}
        return {"available": "2 nodes (0-1)"} | nodes

    def _memory(self, machine: Machine) -> dict:
        totals = {name: machine.ram_mb if name == machine.memory else OTHER_MB for name in HOST_CPUS}
        shown = {f"Node {name}": {"Private": str(total), "Total": str(total)} for name, total in totals.items()}
        return shown | {"Total": {"Private": str(sum(totals.values())), "Total": str(sum(totals.values()))}}
