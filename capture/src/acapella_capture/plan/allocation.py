"""How many listening nodes a site can have: worked out on what its hosts have free, then asked for, with back-off."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..settings import Settings
from ..testbeds.base import Host, Instance, Refused, Site, Testbed, Want

NEEDS = ("nics", "cores", "ram_gb", "disk_gb")  # of a host; the scarcest first (Patchwork, section 6.2.1)


@dataclass(frozen=True)
class Acquired:
    """What a site gave: its listening nodes, how many were wanted, and why there are fewer; none is a failure."""

    instances: tuple[Instance, ...]
    wanted: int
    why: str | None = None

    def receivers(self) -> list[tuple[Instance, str]]:
        """Every receiver with its node, the first ones of all nodes first: one node's loss costs the fewest then."""
        longest = max((len(node.receivers) for node in self.instances), default=0)
        return [(n, n.receivers[at]) for at in range(longest) for n in self.instances if at < len(n.receivers)]


def wanted_instances(ports: int, receivers: int, most: int | None) -> int:
    """Listening nodes for so many ports at once, with so many receivers each; at most `most`."""
    needed = max(1, math.ceil(ports / receivers))
    return needed if most is None else min(needed, most)


def want_of(settings: Settings, site: Site, receivers: int) -> Want:
    """What is asked for a site whose listening nodes have so many receivers each."""
    collect = settings.collect
    instances = wanted_instances(len(site.ports), receivers, collect.instances)
    return Want(instances, collect.cores, collect.ram_gb, collect.disk_gb)


def need_of(want: Want) -> dict[str, int]:
    """What one listening node takes of a host."""
    return {"nics": 1, "cores": want.cores, "ram_gb": want.ram_gb, "disk_gb": want.disk_gb}


def fits(host: Host, want: Want) -> int:
    """How many of the nodes a host has room for."""
    return min(getattr(host, key) // need for key, need in need_of(want).items() if need > 0)


def simulated(hosts: Sequence[Host], want: Want) -> tuple[int, str | None]:
    """How many of the wanted nodes fit onto the hosts' free resources, and what is short where that is not all.

    All nodes are alike, so that filling one host after the other is the best there is.
    """
    room = sum(fits(host, want) for host in hosts)
    if room >= want.instances:
        return want.instances, None
    return room, f"room for {room} of {counted(want.instances, 'listening node')}: {shortage(hosts, want)}"


def shortage(hosts: Sequence[Host], want: Want) -> str:
    """What keeps another node from the hosts: the scarcest need that no host can fill once those that fit are there."""
    left = []
    for host in hosts:
        count = fits(host, want)
        taken = {key: getattr(host, key) - count * need for key, need in need_of(want).items()}
        left.append(replace(host, **taken))
    for key, need in need_of(want).items():
        if all(getattr(host, key) < need for host in left):
            what = {"nics": "dedicated NICs", "cores": "cores", "ram_gb": "GB of RAM", "disk_gb": "GB of disk"}[key]
            return f"{sum(getattr(host, key) for host in hosts)} {what} free on {counted(len(hosts), 'host')}"
    return f"no one of {counted(len(hosts), 'host')} has all that a node needs"


def counted(number: int, what: str) -> str:
    """A number of things, in words."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def acquire(testbed: Testbed, site: str, want: Want) -> Acquired:
    """Ask for what fits, and for one node and one NIC less each time the testbed refuses (Patchwork, section 6.2.1).

    Raises UserError where asking for less is of no use.
    """
    there = min(want.instances, len(testbed.instances(site)))  # of an earlier collection; they are taken again
    room, why = simulated(testbed.resources(site), replace(want, instances=want.instances - there))
    count = there + room
    while count > 0:
        try:
            return Acquired(testbed.allocate(site, replace(want, instances=count)), want.instances, why)
        except Refused as error:
            why = f"refused {count}: {error}"
            count -= 1
    return Acquired((), want.instances, why)
