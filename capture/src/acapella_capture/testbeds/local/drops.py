"""Counts the frames that the queues and interfaces of a path drop, by qdisc and interface, from the kernel's
counters."""

import json
from collections.abc import Iterable, Mapping

from .processes import run_checked

INGRESS = "ingress"  # this qdisc has no queue


def dropped_frames(interfaces: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the frames that each qdisc and each interface has dropped on sending, by its name.

    ``interfaces``: pairs of node and interface. The name of a qdisc is `NODE INTERFACE KIND PARENT`; the name of an
    interface is `NODE INTERFACE`. A veth interface also counts frames for which its peer had no room. Raises
    UserError.
    """
    found = {}
    for node, device in interfaces:
        qdiscs = json.loads(run_checked(node, ["tc", "-s", "-j", "qdisc", "show", "dev", device]))
        found |= {f"{node} {device} {name}": count for name, count in own_drops(qdiscs).items()}
        (link,) = json.loads(run_checked(node, ["ip", "-s", "-j", "link", "show", "dev", device]))
        found[f"{node} {device}"] = link["stats64"]["tx"]["dropped"]
    return found


def own_drops(qdiscs: Iterable[Mapping]) -> dict[str, int]:
    """Return the drops of each qdisc of a device, excluding its children, whose drops a classful qdisc also counts."""
    queues = [qdisc for qdisc in qdiscs if qdisc["kind"] != INGRESS]
    found = {}
    for queue in queues:
        children = [
            qdisc for qdisc in queues if qdisc is not queue and qdisc.get("parent", "").startswith(queue["handle"])
        ]
        count = queue["drops"] - sum(child["drops"] for child in children)
        found[f"{queue['kind']} {queue.get('parent', 'root')}"] = count
    return found


def since(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Return the frames dropped between two readings; only names with drops."""
    counts = {name: count - before.get(name, 0) for name, count in now.items()}
    return {name: count for name, count in counts.items() if count}


def queued_bytes(node: str, device: str) -> int:
    """Return the sum of the backlogs of a device's qdiscs in bytes; a classful qdisc also counts its children's."""
    qdiscs = json.loads(run_checked(node, ["tc", "-s", "-j", "qdisc", "show", "dev", device]))
    return sum(qdisc.get("backlog", 0) for qdisc in qdiscs)
