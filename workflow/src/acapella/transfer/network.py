"""Represents links with rates, and paths as directed links: the part of a topology on which rates and completion times
depend.

Each direction of a link has the full rate.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from acapella_core.topology import Topology

MAX_FLOWS = 10_000
Directed = tuple[str, str]  # a link, and the node at which it is entered


@dataclass(frozen=True)
class Network:
    """The rates of limited links by name, and the paths as directed links."""

    rates_bps: dict[str, Fraction]
    paths: dict[str, tuple[Directed, ...]]

    def capacity(self) -> dict[Directed, Fraction]:
        """Return the rate of each limited link in each direction that a path uses."""
        hops = dict.fromkeys(hop for path in self.paths.values() for hop in path)
        return {hop: self.rates_bps[hop[0]] for hop in hops if hop[0] in self.rates_bps}

    def path_of(self, flow: int) -> str:
        """Return the path of a flow by round robin: flow 0 takes the first path, and so on."""
        names = list(self.paths)
        return names[flow % len(names)]


def of_topology(topology: Topology, rate_bps: Fraction | None, ratio: Fraction) -> Network:
    """Return the network of a topology file.

    ``rate_bps``: rate of emulated links without a rate; links with ``times_ratio`` have ``ratio`` times their rate.
    """
    rates: dict[str, Fraction] = {}
    for name, link in topology.emulated().items():
        link_rate_bps = rate_bps if link.rate_mbps is None else Fraction(str(link.rate_mbps)) * 10**6
        if link_rate_bps is not None:
            rates[name] = link_rate_bps * ratio if link.times_ratio else link_rate_bps
    ends = {name: link.between for name, link in topology.links.items()}
    return Network(rates, {name: directed(name, nodes, ends) for name, nodes in topology.paths.items()})


def of_cell(links: dict, paths: dict) -> Network:
    """Return the network of the keys ``links`` and ``paths`` of a valid cell.json. Raises ValueError."""
    rates = {name: Fraction(link["rate_bps"]) for name, link in links.items() if link.get("rate_bps") is not None}
    ends = {name: tuple(link["between"]) for name, link in links.items()}
    return Network(rates, {name: directed(name, nodes, ends) for name, nodes in paths.items()})


def directed(name: str, nodes: list[str], ends: dict[str, tuple[str, str]]) -> tuple[Directed, ...]:
    """Return the links of a path with the nodes at which they are entered. Raises ValueError."""
    between = {frozenset(pair): link for link, pair in ends.items()}
    hops = []
    for node, next_node in pairwise(nodes):
        link = between.get(frozenset((node, next_node)))
        if link is None:
            raise ValueError(f"paths.{name}: no link between {node} and {next_node}")
        hops.append((link, node))
    return tuple(hops)
