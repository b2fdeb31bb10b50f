"""Slices of hosts and routers: nodes with dedicated NICs, possibly at several sites, and a layer-2 network per link.

FABRIC names an interface after its node, NIC and port: `h1-nic1-p2` is port 2 of NIC `nic1` of node `h1`. The links of
a node use its ports in the order of the topology file, so the same topology always results in the same slice.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acapella_core.errors import UserError
from acapella_core.topology import Topology

from ...settings import FabricSettings
from ..base import InsufficientResources, ResourceRequest
from . import requirements, resources
from .credentials import WHERE
from .session import graph_access
from .slices import Slices, slice_name

SITE = "slice"  # replaces the site in the name of the slice, which has several sites
BRIDGE, SITE_TO_SITE = "L2Bridge", "L2STS"
MIN_NAME_LENGTH = 2  # of a node or network, in characters
MULTISITE = "Slice.Multisite"


@dataclass(frozen=True)
class NodePlan:
    """A node: its site and the number of its NICs."""

    name: str
    site: str
    nics: int


@dataclass(frozen=True)
class NetworkPlan:
    """The network of a link: its name and type on FABRIC, and the interfaces by node."""

    link: str
    name: str
    kind: str
    interfaces: Mapping[str, str]


@dataclass(frozen=True)
class SlicePlan:
    """The nodes and networks of a slice."""

    nodes: tuple[NodePlan, ...]
    networks: tuple[NetworkPlan, ...]

    @property
    def sites(self) -> list[str]:
        return sorted({node.site for node in self.nodes})


def plan_slice(topology: Topology) -> SlicePlan:
    """Return the slice of a topology. Raises UserError if a node has no site, or a name that FABRIC rejects."""
    ports = dict.fromkeys(topology.nodes, 0)
    networks = []
    for name, link in topology.links.items():
        interfaces = {}
        for node in link.between:
            nic, port = divmod(ports[node], requirements.PORTS_PER_NIC)
            interfaces[node] = f"{node}-nic{nic + 1}-p{port + 1}"
            ports[node] += 1
        sites = {topology.nodes[node].site for node in link.between}
        networks.append(NetworkPlan(name, f"link-{name}", BRIDGE if len(sites) == 1 else SITE_TO_SITE, interfaces))
    nodes = []
    for name, node in topology.nodes.items():
        if len(name) < MIN_NAME_LENGTH:
            raise UserError(f"nodes.{name}: FABRIC rejects names of one character", where=f"topology {topology.name}")
        if node.site is None:
            raise UserError(f"nodes.{name}.site: missing; testbed fabric needs it", where=f"topology {topology.name}")
        nodes.append(NodePlan(name, node.site, -(-ports[name] // requirements.PORTS_PER_NIC)))
    return SlicePlan(tuple(nodes), tuple(networks))


def required_tags(settings: FabricSettings, plan: SlicePlan, request: ResourceRequest) -> list[tuple[str, ...]]:
    """Return the permission tags that a project needs: any one of each tuple."""
    tags = [(*map(requirements.nic_tag, settings.nics), requirements.SMART_NIC)]
    if len(plan.sites) > 1:
        tags.append((MULTISITE,))
    free = requirements.FREE
    return tags + [
        (tag, requirements.NO_LIMIT) for key, tag in requirements.LIMITS.items() if getattr(request, key) > free[key]
    ]


def check_tags(required: Iterable[tuple[str, ...]], tags: Collection[str]) -> None:
    """Raise UserError if the project lacks tags; FABRIC's client would submit the request without them."""
    missing = [" or ".join(names) for names in required if not set(names) & set(tags)]
    if missing:
        raise UserError(
            f"the project lacks the permission {', '.join(missing)}",
            where=WHERE,
            fix="request it in FABRIC's portal (docs/fabric.md)",
        )


def choose_models(
    plan: SlicePlan, records: Iterable[Mapping[str, Any]], nics: Sequence[str], request: ResourceRequest
) -> dict[str, str]:
    """Return the NIC model of each node so that all fit onto the hosts, preferred models first.

    Raises InsufficientResources naming the first node that does not fit. All NICs of a node are in the same host.
    """
    sizes = {"cores": request.cores, "ram": request.ram_gb, "disk": request.disk_gb}
    hosts = [
        {"site": record.get("site")}
        | {key: record.get(f"{key}_available") or 0 for key in sizes}
        | {model: resources.free_nics(record, model) for model in nics}
        for record in records
        if record.get("state") in resources.USABLE
    ]
    chosen = {}
    for node in sorted(plan.nodes, key=lambda node: -node.nics):
        fitting = [
            (model, host)
            for model in nics
            for host in hosts
            if host["site"] == node.site
            and host[model] >= node.nics
            and all(host[key] >= size for key, size in sizes.items())
        ]
        if not fitting:
            needed = f"{node.nics} free NIC{'s' * (node.nics > 1)} ({' or '.join(nics)})"
            raise InsufficientResources(
                f"no host for node {node.name} with {needed}, {request.cores} cores, {request.ram_gb} GB of memory and "
                f"{request.disk_gb} GB of disk",
                where=f"site {node.site}",
            )
        model, host = fitting[0]
        chosen[node.name] = model
        host[model] -= node.nics
        for key, size in sizes.items():
            host[key] -= size
    return chosen


class OtherSliceError(UserError):
    """The slice exists, but does not match the topology."""


class NetworkSlices(Slices):
    """Creates the slice of a plan, and compares an existing one with it."""

    sites = SITE

    @property
    def name(self) -> str:
        return slice_name(self.campaign, SITE)

    def create_plan(self, plan: SlicePlan, models: Mapping[str, str], request: ResourceRequest) -> Any:
        """Create the slice and wait until it is active. The caller deletes it if that fails. Raises UserError."""
        with graph_access(f"cannot describe slice {self.name}"):
            fablib = self.session.fablib()
            created = fablib.new_slice(name=self.name)
            for node in plan.nodes:
                added = created.add_node(
                    name=node.name,
                    site=node.site,
                    cores=request.cores,
                    ram=request.ram_gb,
                    disk=request.disk_gb,
                    image=self.settings.image,
                )
                requirements.check_image(self.settings.image, added.get_username())
                for number in range(node.nics):
                    added.add_component(model=models[node.name], name=f"nic{number + 1}")
            for network in plan.networks:
                ends = [created.get_node(node).get_interface(name=name) for node, name in network.interfaces.items()]
                created.add_l2network(name=network.name, interfaces=ends, type=network.kind)
            graph, key = created.get_fim_topology().serialize(), created.get_slice_public_key().strip()
            fablib.remove_slice_from_cache(created)  # cached by name, which the next slice may reuse
        slice_id = self._submit(SITE, graph, key)
        return self.wait_until_stable(slice_id, self.settings.wait_timeout_s)

    def check_plan(self, fabric_slice: Any, plan: SlicePlan) -> None:
        """Raise OtherSliceError if the nodes or networks of an existing slice differ from the plan."""
        with graph_access(f"cannot read slice {self.name}"):
            topology = fabric_slice.get_fim_topology()
            nodes = {str(name): (node.site, len(node.components)) for name, node in topology.nodes.items()}
            networks = {
                str(name): {peer.name for interface in service.interface_list for peer in interface.get_peers() or ()}
                for name, service in topology.network_services.items()
                if str(service.type) in (BRIDGE, SITE_TO_SITE)  # NICs also contain services
            }
        if nodes != {node.name: (node.site, node.nics) for node in plan.nodes} or networks != {
            network.name: set(network.interfaces.values()) for network in plan.networks
        }:
            raise OtherSliceError(
                f"slice {self.name} exists, but its nodes or networks differ from the topology",
                where=WHERE,
                fix="delete it: the same command with --release",
            )
