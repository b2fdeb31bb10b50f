"""Allocation of listening nodes: estimates how many fit onto a site and requests them, with back-off."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from acapella_core.names import pluralize

from ..settings import Settings
from ..testbeds.base import Host, Instance, InsufficientResources, ResourceRequest, Site, Testbed


@dataclass(frozen=True)
class SiteAllocation:
    """Result of allocating a site: the nodes, the number requested, and why some are missing."""

    instances: tuple[Instance, ...]
    requested: int
    reason: str | None = None

    def receivers(self) -> list[tuple[Instance, str]]:
        """Return every receiver with its node, the first receiver of each node first.

        In this order, the loss of a node affects few ports.
        """
        longest = max((len(node.receivers) for node in self.instances), default=0)
        return [(n, n.receivers[index]) for index in range(longest) for n in self.instances if index < len(n.receivers)]


def instances_needed(ports: int, receivers: int, limit: int | None) -> int:
    """Return the number of listening nodes for a number of ports with `receivers` per node; at most `limit`."""
    needed = max(1, math.ceil(ports / receivers))
    return needed if limit is None else min(needed, limit)


def resource_request(settings: Settings, site: Site, receivers: int) -> ResourceRequest:
    """Return the request for a site whose listening nodes have this number of receivers each."""
    collect = settings.collect
    instances = instances_needed(len(site.ports), receivers, collect.instances)
    return ResourceRequest(instances, collect.cores, collect.ram_gb, collect.disk_gb)


def site_request(settings: Settings, site: Site, testbed: Testbed) -> ResourceRequest:
    """Return the request for a site. Nodes that capture at their own interfaces exist already."""
    nodes = testbed.ports_by_node(site.name)
    if nodes is None:
        return resource_request(settings, site, testbed.receivers_per_instance)
    wanted = {port.name for port in site.ports}
    return ResourceRequest(sum(bool(wanted & set(ports)) for ports in nodes.values()), cores=0, ram_gb=0, disk_gb=0)


def receivers_at(testbed: Testbed, site: Site, instances: int) -> int:
    """Return the number of receivers that a site has with this number of instances."""
    if testbed.ports_by_node(site.name) is not None:
        return max(1, len(site.ports))
    return max(1, instances) * testbed.receivers_per_instance


def node_requirements(request: ResourceRequest) -> dict[str, int]:
    """Return the resources that one listening node takes from a host, scarcest first (Patchwork, section 6.2.1)."""
    return {"nics": 1, "cores": request.cores, "ram_gb": request.ram_gb, "disk_gb": request.disk_gb}


def node_capacity(host: Host, request: ResourceRequest) -> int:
    """Return the number of nodes that fit onto a host."""
    return min(getattr(host, key) // need for key, need in node_requirements(request).items() if need > 0)


def nodes_that_fit(hosts: Sequence[Host], request: ResourceRequest) -> tuple[int, str | None]:
    """Return how many of the requested nodes fit onto the hosts' free resources, and why if not all do.

    All nodes are alike, so filling one host after the other is optimal.
    """
    fitting = sum(node_capacity(host, request) for host in hosts)
    if fitting >= request.instances:
        return request.instances, None
    return (
        fitting,
        f"room for {fitting} of {pluralize(request.instances, 'listening node')}: {describe_shortage(hosts, request)}",
    )


def describe_shortage(hosts: Sequence[Host], request: ResourceRequest) -> str:
    """Return the reason why no further node fits: the first resource that is exhausted on all hosts, if any."""
    remaining = []
    for host in hosts:
        count = node_capacity(host, request)
        free = {key: getattr(host, key) - count * need for key, need in node_requirements(request).items()}
        remaining.append(replace(host, **free))
    for key, need in node_requirements(request).items():
        if all(getattr(host, key) < need for host in remaining):
            noun = {"nics": "dedicated NICs", "cores": "cores", "ram_gb": "GB of RAM", "disk_gb": "GB of disk"}[key]
            return f"{sum(getattr(host, key) for host in hosts)} {noun} free on {pluralize(len(hosts), 'host')}"
    return f"none of {pluralize(len(hosts), 'host')} has all resources that a node needs"


def allocate_with_backoff(testbed: Testbed, site: str, request: ResourceRequest) -> SiteAllocation:
    """Request the nodes that fit, and one node fewer after each refusal (Patchwork, section 6.2.1).

    Raises UserError for a failure other than insufficient resources.
    """
    existing = min(request.instances, len(testbed.instances(site)))  # left by an earlier collection, and reused
    fitting, reason = nodes_that_fit(testbed.resources(site), replace(request, instances=request.instances - existing))
    count = existing + fitting
    while count > 0:
        try:
            return SiteAllocation(testbed.allocate(site, replace(request, instances=count)), request.instances, reason)
        except InsufficientResources as error:
            reason = f"refused {count}: {error}"
            count -= 1
    return SiteAllocation((), request.instances, reason)
