"""Counts the frames that the queues and interfaces of a path drop, by place of the drop, from the kernel's counters."""

import json
from collections.abc import Iterable, Mapping

from .processes import run_checked

INGRESS = "ingress"  # this qdisc has no queue


def dropped(places: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the frames that each qdisc and each interface has dropped on sending, by its name.

    ``places``: pairs of node and interface. The name of a qdisc is `NODE INTERFACE KIND PARENT`; the name of an
    interface is `NODE INTERFACE`. The interface of a veth also counts frames for which its peer had no room. Raises
    UserError.
    """
    found = {}
    for node, device in places:
        qdiscs = json.loads(run_checked(node, ["tc", "-s", "-j", "qdisc", "show", "dev", device]))
        found |= {f"{node} {device} {name}": count for name, count in own_drops(qdiscs).items()}
        (link,) = json.loads(run_checked(node, ["ip", "-s", "-j", "link", "show", "dev", device]))
        found[f"{node} {device}"] = link["stats64"]["tx"]["dropped"]
    return found


def own_drops(qdiscs: Iterable[Mapping]) -> dict[str, int]:
    """Return the drops of each qdisc of a device, excluding its children, whose drops a classful qdisc also counts."""
    queues = [one for one in qdiscs if one["kind"] != INGRESS]
    found = {}
    for queue in queues:
        children = [one for one in queues if one is not queue and one.get("parent", "").startswith(queue["handle"])]
        count = queue["drops"] - sum(child["drops"] for child in children)
        found[f"{queue['kind']} {queue.get('parent', 'root')}"] = count
    return found


def since(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return the frames dropped between two readings; only places with drops."""
    counts = {place: count - before.get(place, 0) for place, count in now.items()}
    return {place: count for place, count in counts.items() if count}


def queued(node: str, device: str) -> int:
    """Return the bytes in the queues of a device."""
    qdiscs = json.loads(run_checked(node, ["tc", "-s", "-j", "qdisc", "show", "dev", device]))
    return sum(one.get("backlog", 0) for one in qdiscs)
