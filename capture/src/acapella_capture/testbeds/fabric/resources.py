"""Sites, their switch ports, and the free resources of their hosts, as FABRIC reports them.

Ports have these sources: the links between sites (uplinks), the switch counters (all ports that are up), FABRIC's
information model, the slice that is sampled, and the config (downlinks).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..base import Host, Port, ResourceRequest, Site

GBPS = 1_000_000_000
RATES = {  # by prefix of the port name
    "FourHundredGig": 400 * GBPS, "TwoHundredGig": 200 * GBPS, "HundredGig": 100 * GBPS, "FiftyGig": 50 * GBPS,
    "FortyGig": 40 * GBPS, "TwentyFiveGig": 25 * GBPS, "TenGig": 10 * GBPS, "GigabitEthernet": GBPS,
}  # fmt: skip
# In PartMaint some hosts are in maintenance. FABRIC does not report which: each host has the state of its site.
ACTIVE, PARTLY_IN_MAINTENANCE = "Active", "PartMaint"
USABLE = (ACTIVE, PARTLY_IN_MAINTENANCE)
REFUSALS = "partly in maintenance: hosts that are free may reject nodes"


def port_name(interface: str) -> str:
    """Return the port of an interface: `HundredGigE0/0/0/15` of `HundredGigE0/0/0/15.3370`, a VLAN sub-interface."""
    return interface.partition(".")[0]


def is_port(interface: str) -> bool:
    """Return whether an interface of a switch is a port that can be mirrored.

    Bundles of ports, VLAN sub-interfaces, optics, and timing and management ports are not.
    """
    return "/" in interface and "." not in interface and rate_bps(interface) is not None


def rate_bps(port: str) -> int | None:
    """Return a port's line rate from its name; None if unknown."""
    return next((rate for prefix, rate in RATES.items() if port.startswith(prefix)), None)


def natural_key(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that compares numbers within names by value."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


def uplinks(links: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the ports that lead to other sites, by site, from FABRIC's link records."""
    ports: dict[str, set[str]] = {}
    for link in links:
        for end in link.get("endpoints") or []:
            port = port_name(end.get("port") or "")
            if end.get("site") and is_port(port):
                ports.setdefault(end["site"], set()).add(port)
    return ports


def sites_of(
    sites: Iterable[Mapping[str, Any]],
    links: Iterable[Mapping[str, Any]],
    known_ports: Mapping[str, Iterable[str]],
    slices_by_port: Mapping[tuple[str, str], Sequence[str]],
) -> tuple[Site, ...]:
    """Return the usable sites with their ports, from links, other known ports by site, and slices by site and port."""
    uplink_ports = uplinks(links)
    usable = []
    for record in sites:
        name = record.get("name")
        if not name or record.get("state") not in USABLE:
            continue
        up = uplink_ports.get(name, set())
        down = {port_name(port) for port in known_ports.get(name, ())} - up
        ports = [(port, "uplink") for port in up] + [(port, "downlink") for port in down]
        usable.append(Site(name, tuple(
            Port(port, rate_bps(port), kind, tuple(slices_by_port.get((name, port), ())))
            for port, kind in sorted(ports, key=lambda entry: natural_key(entry[0]))
        ), limits_of(record)))  # fmt: skip
    return tuple(sorted(usable, key=lambda site: site.name))


def limits_of(record: Mapping[str, Any]) -> str | None:
    """Return the current limits of a site; None if there are none."""
    return REFUSALS if record.get("state") == PARTLY_IN_MAINTENANCE else None


def unavailable_sites(sites: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the sites that cannot be used now, and why."""
    return {
        record["name"]: f"FABRIC reports state {record.get('state')}"
        for record in sites
        if record.get("name") and record.get("state") not in USABLE
    }


def component(model: str) -> str:
    """Return the name of a NIC model in FABRIC's resources: `SmartNIC-ConnectX-6` of `NIC_ConnectX_6`."""
    return "Smart" + model.replace("_", "-")


def free_nics(record: Mapping[str, Any], model: str) -> int:
    """Return a host's free NICs of a model; FABRIC's field `available` includes NICs that are already reserved."""
    counts = (record.get("components") or {}).get(component(model)) or {}
    return max(0, (counts.get("capacity") or 0) - (counts.get("allocated") or 0))


def hosts_of(records: Iterable[Mapping[str, Any]], site: str, nics: Sequence[str]) -> tuple[Host, ...]:
    """Return the free resources of a site's usable hosts, with the NICs of all accepted models."""
    return tuple(
        Host(
            name=record["name"],
            cores=max(0, record.get("cores_available") or 0),
            ram_gb=max(0, record.get("ram_available") or 0),
            disk_gb=max(0, record.get("disk_available") or 0),
            nics=sum(free_nics(record, model) for model in nics),
        )
        for record in records
        if record.get("site") == site and record.get("state") in USABLE
    )


def choose_nics(
    records: Iterable[Mapping[str, Any]], site: str, nics: Sequence[str], request: ResourceRequest
) -> list[str] | None:
    """Return a NIC model for each instance so that all fit onto the hosts, preferred models first; None if impossible.

    A site's totals can be wrong, and an instance cannot span two hosts, so hosts are filled one by one.
    """
    hosts = [
        {"cores": record.get("cores_available") or 0, "ram_gb": record.get("ram_available") or 0,
         "disk_gb": record.get("disk_available") or 0} | {model: free_nics(record, model) for model in nics}
        for record in records if record.get("site") == site and record.get("state") in USABLE
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


def alternatives(
    records: Sequence[Mapping[str, Any]], site: str, nics: Sequence[str], request: ResourceRequest
) -> list[list[str]]:
    """Return NIC models for each instance, chosen as in `choose_nics`, with each model in turn as the preferred one.

    At a site that is partly in maintenance, all hosts with the preferred model may reject nodes.
    """
    orders = [[first, *(model for model in nics if model != first)] for first in nics]
    chosen = [choose_nics(records, site, order, request) for order in orders]
    return [models for number, models in enumerate(chosen) if models and models not in chosen[:number]]
