"""The elements of a slice, compared before and after our nodes and mirrors were in it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..slices import SITES

# Properties that FABRIC and its client change by themselves: states, and the client's progress records.
VOLATILE = ("GraphID", "ReservationInfo", "UserData")

Element = tuple[tuple[str, str], ...]  # properties
Topology = Mapping[str, Element]  # by identifier; `neighbors` is also a property


def machines(fabric_slice: Any) -> list[Any]:
    """Return FABRIC's objects of the virtual machines of a slice; its P4 switches have neither NICs nor tcpdump."""
    return [node for node in fabric_slice.get_nodes() if str(node.get_type()) == "VM"]


def our_names(campaign: str, site: str | None = None) -> re.Pattern[str]:
    """Return the pattern of the names of our nodes, and mirrors, in a user's slice; group 1 is the node's name."""
    site_pattern = SITES if site is None else re.escape(site)
    return re.compile(
        rf"(?:mirror-)?({re.escape(node_prefix(campaign, ''))}{site_pattern}-listener\d+)(?:-[A-Za-z0-9]+-[0-9a-f]+)?"
    )


def node_prefix(campaign: str, site: str) -> str:
    """Return the beginning of the names of our nodes in a user's slice, before `-listener1`."""
    return f"acapella-{campaign}-{site}"


def without_ours(fabric_slice: Any, campaign: str) -> Topology:
    """Return the elements of a slice except our nodes, our mirrors, and everything that is connected only to them."""
    import networkx  # noqa: PLC0415 (belongs to FABRIC's client)

    graph = networkx.parse_graphml(fabric_slice.get_fim_topology().serialize())
    ours = our_names(campaign)
    elements: dict[str, Element] = {}
    for group in networkx.connected_components(graph.to_undirected()):
        group_elements = (graph.nodes[node] for node in group)
        if any(is_top(element) and ours.fullmatch(element.get("Name", "")) for element in group_elements):
            continue
        for node in group:
            properties = {key: str(value) for key, value in graph.nodes[node].items() if key not in VOLATILE}
            neighbors = sorted(graph.nodes[other]["NodeID"] for other in networkx.all_neighbors(graph, node))
            elements[properties["NodeID"]] = (*sorted(properties.items()), ("neighbors", " ".join(neighbors)))
    return elements


def is_top(properties: Mapping[str, Any]) -> bool:
    """Return whether an element is a node or a service of the slice, not a part of one."""
    return properties.get("Class") in ("NetworkNode", "NetworkService")


def differences(before: Topology, after: Topology) -> Iterator[str]:
    """Yield descriptions of the differences of two topologies."""
    for identifier in [*before, *(added for added in after if added not in before)]:
        old, new = before.get(identifier), after.get(identifier)
        if old == new:
            continue
        properties = dict(new or old or ())
        change = "is missing" if new is None else "is new" if old is None else "differs"
        yield f"{properties['Class']} {properties.get('Name')} {change}"
