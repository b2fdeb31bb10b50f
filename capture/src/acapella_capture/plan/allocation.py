"""How many listening nodes a site can have: worked out on what its hosts have free, then asked for, with back-off."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..settings import Settings
from ..testbeds.base import Host, Instance, InsufficientResources, ResourceRequest, Site, Testbed

NEEDS = ("nics", "cores", "ram_gb", "disk_gb")  # of a host; the scarcest first (Patchwork, section 6.2.1)


@dataclass(frozen=True)
class SiteAllocation:
    """What a site gave: its listening nodes, how many were wanted, and why there are fewer; none is a failure."""

    instances: tuple[Instance, ...]
    requested: int
    reason: str | None = None

    def receivers(self) -> list[tuple[Instance, str]]:
        """Every receiver with its node, the first ones of all nodes first: one node's loss costs the fewest then."""
        longest = max((len(node.receivers) for node in self.instances), default=0)
        return [(n, n.receivers[at]) for at in range(longest) for n in self.instances if at < len(n.receivers)]


def instances_needed(ports: int, receivers: int, limit: int | None) -> int:
    """Listening nodes for so many ports at once, with so many receivers each; at most `most`."""
    needed = max(1, math.ceil(ports / receivers))
    return needed if limit is None else min(needed, limit)


def resource_request(settings: Settings, site: Site, receivers: int) -> ResourceRequest:
    """What is asked for a site whose listening nodes have so many receivers each."""
    collect = settings.collect
    instances = instances_needed(len(site.ports), receivers, collect.instances)
    return ResourceRequest(instances, collect.cores, collect.ram_gb, collect.disk_gb)


def node_requirements(request: ResourceRequest) -> dict[str, int]:
    """What one listening node takes of a host."""
    return {"nics": 1, "cores": request.cores, "ram_gb": request.ram_gb, "disk_gb": request.disk_gb}


def node_capacity(host: Host, request: ResourceRequest) -> int:
    """How many of the nodes a host has room for."""
    return min(getattr(host, key) // need for key, need in node_requirements(request).items() if need > 0)


def nodes_that_fit(hosts: Sequence[Host], request: ResourceRequest) -> tuple[int, str | None]:
    """How many of the wanted nodes fit onto the hosts' free resources, and what is short where that is not all.

    All nodes are alike, so that filling one host after the other is the best there is.
    """
    fitting = sum(node_capacity(host, request) for host in hosts)
    if fitting >= request.instances:
        return request.instances, None
    return (
        fitting,
        f"room for {fitting} of {pluralize(request.instances, 'listening node')}: {describe_shortage(hosts, request)}",
    )


def describe_shortage(hosts: Sequence[Host], request: ResourceRequest) -> str:
    """What keeps another node from the hosts: the scarcest need that no host can fill once those that fit are there."""
    left = []
    for host in hosts:
        count = node_capacity(host, request)
        used = {key: getattr(host, key) - count * need for key, need in node_requirements(request).items()}
        left.append(replace(host, **used))
    for key, need in node_requirements(request).items():
        if all(getattr(host, key) < need for host in left):
            what = {"nics": "dedicated NICs", "cores": "cores", "ram_gb": "GB of RAM", "disk_gb": "GB of disk"}[key]
            return f"{sum(getattr(host, key) for host in hosts)} {what} free on {pluralize(len(hosts), 'host')}"
    return f"no one of {pluralize(len(hosts), 'host')} has all that a node needs"


def pluralize(number: int, what: str) -> str:
    """A number of things, in words."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def allocate_with_backoff(testbed: Testbed, site: str, request: ResourceRequest) -> SiteAllocation:
    """Ask for what fits, and for one node and one NIC less each time the testbed refuses (Patchwork, section 6.2.1).

    Raises UserError where asking for less is of no use.
    """
    existing = min(request.instances, len(testbed.instances(site)))  # of an earlier collection; they are taken again
    fitting, reason = nodes_that_fit(testbed.resources(site), replace(request, instances=request.instances - existing))
    count = existing + fitting
    while count > 0:
        try:
            return SiteAllocation(testbed.allocate(site, replace(request, instances=count)), request.instances, reason)
        except InsufficientResources as error:
            reason = f"refused {count}: {error}"
            count -= 1
    return SiteAllocation((), request.instances, reason)
