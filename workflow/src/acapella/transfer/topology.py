"""Topology files: links with rates, and paths; docs/transfer.md describes them.

links: {NAME: {between: [A, B], rate_mbps: ...}}; paths: {NAME: [NODE, ...]}. Flows take the paths in turn (round
robin). Each direction of a link has the whole rate. Keys that only the runner needs (nodes, assignment) are ignored.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import yaml

from acapella_core.errors import UserError

MAX_BYTES = 1 << 20
MAX_FLOWS = 10_000
Directed = tuple[str, str]  # a link, and the node at which it is entered


@dataclass(frozen=True)
class Topology:
    """The links of a topology with their rates, and its paths as directed links."""

    rates_bps: dict[str, Fraction]  # of limited links, by name
    paths: dict[str, tuple[Directed, ...]]
    flows: int = 1

    def capacity(self) -> dict[Directed, Fraction]:
        """Return the rate of each limited link in each direction that a path uses."""
        used = dict.fromkeys(hop for path in self.paths.values() for hop in path)
        return {hop: self.rates_bps[hop[0]] for hop in used if hop[0] in self.rates_bps}

    def path_of(self, flow: int) -> str:
        """Return the path of a flow by round robin: flow 0 takes the first path, and so on."""
        names = list(self.paths)
        return names[flow % len(names)]


def read(path: Path, rate_bps: Fraction | None = None, ratio: Fraction = Fraction(1)) -> Topology:
    """Return the topology in a YAML file. Raises UserError.

    ``rate_bps``: of emulated links without a rate; those with ``times_ratio`` have ``ratio`` times this rate.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UserError(f"larger than {MAX_BYTES} bytes", where=path)
        found = yaml.safe_load(content.decode("utf-8"))
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=path) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"not YAML: {' '.join(str(error).split())[:200]}", where=path) from error
    try:
        return of_mapping(found, rate_bps, ratio)
    except ValueError as error:
        raise UserError(str(error), where=path, fix="docs/transfer.md describes topology files") from error


def of_mapping(found: object, rate_bps: Fraction | None = None, ratio: Fraction = Fraction(1)) -> Topology:
    """Return the topology of a mapping, as `read`. Raises ValueError."""
    if not isinstance(found, dict) or not isinstance(found.get("links"), dict) or not isinstance(found["paths"], dict):
        raise ValueError("expected the keys links and paths")
    ends: dict[str, tuple[str, str]] = {}
    rates: dict[str, Fraction] = {}
    for name, link in found["links"].items():
        between = link.get("between") if isinstance(link, dict) else None
        if not isinstance(between, list) or len(between) != 2 or between[0] == between[1]:
            raise ValueError(f"links.{name}.between: expected two nodes")
        ends[str(name)] = (str(between[0]), str(between[1]))
        if (rate := link_rate(name, link)) is not None:
            rates[str(name)] = rate
        elif rate_bps is not None and link.get("emulated"):
            rates[str(name)] = rate_bps * (ratio if link.get("times_ratio") else 1)
    paths = {str(name): directed(str(name), nodes, ends) for name, nodes in found["paths"].items()}
    if not paths:
        raise ValueError("paths: expected at least one")
    flows = found.get("flows") or {}
    number = flows.get("number", len(paths)) if isinstance(flows, dict) else None
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= MAX_FLOWS:
        raise ValueError(f"flows.number: expected a whole number from 1 to {MAX_FLOWS}")
    return Topology(rates, paths, number)


def link_rate(name: str, link: dict) -> Fraction | None:
    """Return the rate of a link in bit/s; None if it is not limited. Raises ValueError."""
    for key, factor in (("rate_bps", 1), ("rate_mbps", 10**6)):
        value = link.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e18:
            raise ValueError(f"links.{name}.{key}: expected a positive number")
        return Fraction(str(value)) * factor
    return None


def directed(name: str, nodes: object, ends: dict[str, tuple[str, str]]) -> tuple[Directed, ...]:
    """Return the links of a path with the nodes at which they are entered. Raises ValueError."""
    if not isinstance(nodes, list) or len(nodes) < 2:
        raise ValueError(f"paths.{name}: expected at least two nodes")
    between = {frozenset(pair): link for link, pair in ends.items()}
    hops = []
    for one, other in zip(map(str, nodes), map(str, nodes[1:]), strict=False):
        link = between.get(frozenset((one, other)))
        if link is None:
            raise ValueError(f"paths.{name}: no link between {one} and {other}")
        hops.append((link, one))
    return tuple(hops)
