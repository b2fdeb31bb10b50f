"""Sites, their switch ports and what their hosts have free, as FABRIC tells them.

Ports come from two sources: the links between sites (uplinks) and the counters of the switch (all ports that are up).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acapella_core.errors import UserError

from ..base import Host, Port, ResourceRequest, Site
from .credentials import WHERE

GBPS = 1_000_000_000
RATES = {  # a switch port's name begins with its rate
    "FourHundredGig": 400 * GBPS, "TwoHundredGig": 200 * GBPS, "HundredGig": 100 * GBPS, "FiftyGig": 50 * GBPS,
    "FortyGig": 40 * GBPS, "TwentyFiveGig": 25 * GBPS, "TenGig": 10 * GBPS, "GigabitEthernet": GBPS,
}  # fmt: skip
USABLE_SITE = ("Active", "PartMaint")  # of the latter some hosts are in maintenance; their own state says which
USABLE_HOST = "Active"


def port_name(interface: str) -> str:
    """The switch port of an interface: `HundredGigE0/0/0/15` of `HundredGigE0/0/0/15.3370`, a VLAN's sub-interface."""
    return interface.partition(".")[0]


def rate_bps(port: str) -> int | None:
    """A port's line rate by its name, None where the name does not say."""
    return next((rate for prefix, rate in RATES.items() if port.startswith(prefix)), None)


def natural_key(name: str) -> list[tuple[bool, int, str]]:
    """A sort key: numbers within names by their value."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def uplinks(links: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Ports that lead to other sites, by site, of FABRIC's link records."""
    found: dict[str, set[str]] = {}
    for link in links:
        for end in link.get("endpoints") or []:
            if end.get("site") and end.get("port"):
                found.setdefault(end["site"], set()).add(port_name(end["port"]))
    return found


def sites_of(
    sites: Iterable[Mapping[str, Any]],
    links: Iterable[Mapping[str, Any]],
    counted_ports: Mapping[str, Iterable[str]],
    slices_by_port: Mapping[tuple[str, str], Sequence[str]],
) -> tuple[Site, ...]:
    """The sites that can be used, with their ports: `counted` ports by site, `used` slices by site and port."""
    uplink_ports = uplinks(links)
    made = []
    for record in sites:
        name = record.get("name")
        if not name or record.get("state") not in USABLE_SITE:
            continue
        up = uplink_ports.get(name, set())
        down = {port_name(port) for port in counted_ports.get(name, ())} - up
        ports = [(port, "uplink") for port in up] + [(port, "downlink") for port in down]
        made.append(Site(name, tuple(
            Port(port, rate_bps(port), kind, tuple(slices_by_port.get((name, port), ())))
            for port, kind in sorted(ports, key=lambda each: natural_key(each[0]))
        )))  # fmt: skip
    return tuple(sorted(made, key=lambda site: site.name))


def component(model: str) -> str:
    """A NIC model as FABRIC's resources call it: `SmartNIC-ConnectX-6` of `NIC_ConnectX_6`."""
    return "Smart" + model.replace("_", "-")


def free_nics(record: Mapping[str, Any], model: str) -> int:
    """How many NICs of a model a host has free; `available` in these records counts what is promised already."""
    found = (record.get("components") or {}).get(component(model)) or {}
    return max(0, (found.get("capacity") or 0) - (found.get("allocated") or 0))


def hosts_of(records: Iterable[Mapping[str, Any]], site: str, nics: Sequence[str]) -> tuple[Host, ...]:
    """What the active hosts of a site have free; NICs of all the models that will do."""
    return tuple(
        Host(
            name=record["name"],
            cores=max(0, record.get("cores_available") or 0),
            ram_gb=max(0, record.get("ram_available") or 0),
            disk_gb=max(0, record.get("disk_available") or 0),
            nics=sum(free_nics(record, model) for model in nics),
        )
        for record in records
        if record.get("site") == site and record.get("state") == USABLE_HOST
    )


def choose_nics(
    records: Iterable[Mapping[str, Any]], site: str, nics: Sequence[str], request: ResourceRequest
) -> list[str] | None:
    """A NIC model for each instance so that all fit the hosts, the first models first; None where they do not.

    Totals of a site can be wrong, and no instance is shared by two hosts: hosts are filled one by one.
    """
    hosts = [
        {"cores": record.get("cores_available") or 0, "ram_gb": record.get("ram_available") or 0,
         "disk_gb": record.get("disk_available") or 0} | {model: free_nics(record, model) for model in nics}
        for record in records if record.get("site") == site and record.get("state") == USABLE_HOST
    ]  # fmt: skip
    sizes = {"cores": request.cores, "ram_gb": request.ram_gb, "disk_gb": request.disk_gb}
    chosen: list[str] = []
    for model in nics:
        for host in hosts:
            while len(chosen) < request.instances and host[model] > 0 and all(host[k] >= n for k, n in sizes.items()):
                host[model] -= 1
                for key, number in sizes.items():
                    host[key] -= number
                chosen.append(model)
    return chosen if len(chosen) == request.instances else None


def unknown(site: str) -> UserError:
    """No such site: FABRIC's client would build a slice for it."""
    return UserError(f"no site {site!r} that is in use", where=WHERE)
