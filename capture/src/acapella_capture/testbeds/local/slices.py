"""Defines the slices of the local testbed on Open vSwitch: their hosts, and the encapsulation of their frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from acapella_core.errors import UserError

Encapsulation = Literal["vlan", "mpls", "mpls2", "pseudowire"]
ENCAPSULATIONS: tuple[Encapsulation, ...] = ("vlan", "mpls", "mpls2", "pseudowire")
FIRST_VLAN = 101
LOCAL = "02:00:00:00"
# Without a control word, Ethernet after a label is recognized by the vendor prefix of its MAC addresses: here, that of
# ConnectX NICs, as on FABRIC.
VENDOR = "08:c0:eb:00"


def host_mac(site: int, host: int, prefix: str = LOCAL) -> str:
    """Return a host's MAC address, fixed so that the structure of captures is reproducible."""
    return f"{prefix}:{site:02x}:{host:02x}"


@dataclass(frozen=True)
class Slice:
    """Hosts that can reach only each other: the hosts with these numbers at these sites, both counted from 1.

    `number` counts from 0; VLAN and labels are derived from it, so that no two slices share them.
    """

    name: str
    number: int
    encapsulation: Encapsulation
    hosts: tuple[int, ...]
    sites: tuple[int, ...]

    @property
    def vlan(self) -> int:
        """Return the slice's VLAN between the switches."""
        return FIRST_VLAN + self.number

    @property
    def transport_label(self) -> int:
        """Return the outer of two MPLS labels."""
        return 16000 + self.number

    def host_mac(self, site: int, host: int) -> str:
        """Return the MAC address of one of its hosts."""
        return host_mac(site, host, VENDOR if self.encapsulation == "pseudowire" else LOCAL)

    def service_label(self, ip: int = 0) -> int:
        """Return the label of the slice's frames (0) or of its packets of an IP version.

        Only the label identifies the type of the payload.
        """
        return 17000 + 10 * self.number + ip


def default_slices(sites: int, hosts_per_site: int) -> tuple[Slice, ...]:
    """Return a slice per host number, spanning all sites; with a single site, one per pair of hosts."""
    width = 1 if sites > 1 else 2
    groups = [tuple(range(n, min(n + width, hosts_per_site + 1))) for n in range(1, hosts_per_site + 1, width)]
    if sites == 1 and len(groups[-1]) == 1:
        groups[-2:] = [groups[-2] + groups[-1]]
    all_sites = tuple(range(1, sites + 1))
    return tuple(
        Slice(f"slice{n + 1}", n, ENCAPSULATIONS[n % len(ENCAPSULATIONS)], group, all_sites)
        for n, group in enumerate(groups)
    )


def slices_of(config: Sequence[dict] | None, sites: int, hosts_per_site: int) -> tuple[Slice, ...]:
    """Return the config's slices, or the default. Raises UserError naming the invalid slice."""
    if config is None:
        return default_slices(sites, hosts_per_site)
    slices: list[Slice] = []
    owner: dict[tuple[int, int], str] = {}
    for number, entry in enumerate(config):
        where = f"local.slices[{number}]"
        slice_sites = tuple(entry["sites"] or range(1, sites + 1))
        slices.append(Slice(entry["name"], number, entry["encapsulation"], tuple(entry["hosts"]), slice_sites))
        if [other.name for other in slices].count(entry["name"]) > 1:
            raise UserError(f"duplicate slice name {entry['name']!r}", where=where)
        for site, host in product(slice_sites, entry["hosts"]):
            if site > sites or host > hosts_per_site:
                raise UserError(f"no host site{site}-host{host}", where=where)
            other = owner.setdefault((site, host), entry["name"])
            if other != entry["name"]:
                raise UserError(f"site{site}-host{host} is already in slice {other!r}", where=where)
    return tuple(slices)
