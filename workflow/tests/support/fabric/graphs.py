"""Slices of the FABRIC on loopback as graphs of FABRIC's information model: what they need, and what FABRIC adds."""

import functools
import hashlib
import zlib
from collections import Counter
from dataclasses import dataclass

from fim.graph.networkx_property_graph_disjoint import NetworkXGraphImporterDisjoint
from fim.slivers.capacities_labels import Labels, ReservationInfo
from fim.user.topology import ExperimentTopology

OWN = "HundredGigE0/0/0/31"  # the port that listening nodes are connected to
SHARED_PORT = "HundredGigE0/0/0/32"  # the switch port of the NICs in networks; several users share it


def mac(node: str, interface: str) -> str:
    """Return a MAC address derived from the interface."""
    digest = hashlib.sha256(f"{node} {interface}".encode()).hexdigest()
    return ":".join(["02", *(digest[i : i + 2] for i in range(0, 10, 2))])


def graph(model: str) -> ExperimentTopology:
    """Return a slice's graph, separate from those of FABRIC's client in this process."""
    topology = ExperimentTopology(importer=NetworkXGraphImporterDisjoint())
    topology.load(graph_string=model)
    return topology


@dataclass(frozen=True)
class Needs:
    """The resources that a node takes from a host."""

    name: str
    site: str
    asked: dict[str, int]
    nics: list[str]


@functools.lru_cache(64)
def needs(model: str) -> list[Needs]:
    """Return the resources that the nodes of a graph take."""
    return [
        Needs(
            name, node.site,
            {"cores": node.capacities.core, "ram": node.capacities.ram, "disk": node.capacities.disk},
            [f"{component.type}-{component.model}" for component in node.components.values()],
        )
        for name, node in graph(model).nodes.items()
    ]  # fmt: skip


def place(node: Needs, hosts: list[dict], *, running: bool = False) -> bool:
    """Take a node's resources from the first host of its site that has them.

    A node that is already `running` stays on its host when maintenance begins.
    """
    for host in hosts:
        if host["site"] != node.site or (host["maintenance"] and not running):
            continue
        there, none = host["components"], {"capacity": 0, "allocated": 0}
        if all(host[f"{key}_available"] >= number for key, number in node.asked.items()) and all(
            there.get(nic, none)["capacity"] - there.get(nic, none)["allocated"] >= node.nics.count(nic)
            for nic in node.nics
        ):
            for key, number in node.asked.items():
                host[f"{key}_available"] -= number
            for nic in node.nics:
                there[nic]["allocated"] += 1
            return True
    return False


def mirrors_by_receiver(model: str) -> dict[str, str]:
    """Return the mirror service of each interface that receives mirrored frames."""
    return {
        peer.name: name
        for name, service in graph(model).network_services.items() if service.mirror_port
        for interface in service.interface_list for peer in interface.get_peers() or ()
    }  # fmt: skip


def foreign_mirrors(model: str) -> list[str]:
    """Return the mirrors of ports that no network of the same slice uses."""
    services = graph(model).network_services
    own = {interface.labels.local_name for service in services.values() if not service.mirror_port
           for interface in service.interface_list if interface.labels}  # fmt: skip
    return [name for name, service in services.items() if service.mirror_port and service.mirror_port not in own]


def ports_with_several_mirrors(model: str) -> list[str]:
    """Return the switch ports that several mirrors copy, whatever their VLANs."""
    services, sites = graph(model).network_services, {node.name: node.site for node in needs(model)}
    copied = Counter(
        (site, services[name].mirror_port)
        for receiver, name in mirrors_by_receiver(model).items()
        for node, site in sites.items() if receiver.startswith(f"{node}-")
    )  # fmt: skip
    return [port for (_, port), count in copied.items() if count > 1]


def reused_receivers(before: str, after: str) -> list[str]:
    """Return the interfaces whose mirror a modification replaces with a new one."""
    old = mirrors_by_receiver(before)
    return [receiver for receiver, name in mirrors_by_receiver(after).items() if old.get(receiver, name) != name]


def filled(model: str, state: str = "Active", management_ip: str = "127.0.0.1") -> str:
    """Return a graph with what FABRIC adds: addresses, reservations, switch ports of interfaces."""
    topology = graph(model)
    for name, node in topology.nodes.items():
        node.set_properties(
            management_ip=management_ip,
            reservation_info=ReservationInfo(reservation_id=f"sliver-{name}", reservation_state=state),
        )
        for interface in node.interface_list:
            shared = "SHARED" in str(interface.type).upper()
            vlan = {"vlan": str(2000 + zlib.crc32(interface.name.encode()) % 1000)} if shared else {}
            interface.set_properties(label_allocations=Labels(mac=mac(name, interface.name), **vlan))
    for service in topology.network_services.values():
        for interface in service.interface_list:
            interface.set_properties(labels=Labels(local_name=OWN if service.mirror_port else SHARED_PORT))
    return topology.serialize()


def with_failed_parts(before: str, after: str, management_ip: str) -> str:
    """Return the graph of a failed modification, which has the new nodes and services until it is accepted."""
    topology, old = graph(filled(after, "Active", management_ip)), graph(before)
    for new, existing in ((topology.nodes, old.nodes), (topology.network_services, old.network_services)):
        for name in set(map(str, new)) - set(map(str, existing)):
            failed = ReservationInfo(reservation_id=f"sliver-{name}", reservation_state="Failed")
            new[name].set_properties(reservation_info=failed)
    return topology.serialize()
