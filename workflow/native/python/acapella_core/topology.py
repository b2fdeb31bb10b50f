"""The topology of a slice: nodes, links, paths, and how flows are assigned to paths. A YAML file describes it.

schemas/topology.schema.json defines the keys. Link n has the network 10.80.n.0/24; its first node has address 1, the
other one address 2. The first path's ends are the sender and the receiver, each with one link. The runner of transfers
and the prediction of their rates read these files.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from . import schemas
from .errors import UserError
from .validation import first_error, with_defaults

MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Node:
    """A host or a router, and its site on FABRIC."""

    role: str
    site: str | None


@dataclass(frozen=True)
class Link:
    """A link between two nodes; an emulated one has a rate and a queue."""

    number: int
    between: tuple[str, str]
    emulated: bool
    rate_mbps: float | None
    times_ratio: bool

    def address(self, node: str) -> str:
        """Return the address of one of its nodes, without prefix length."""
        return f"10.80.{self.number}.{1 + self.between.index(node)}"

    def rate_bps(self, rate_bps: int, ratio: float | None) -> int:
        """Return the rate of an emulated link for the rate and ratio of a cell."""
        own = rate_bps if self.rate_mbps is None else round(self.rate_mbps * 1e6)
        return round(own * ratio) if self.times_ratio and ratio is not None else own


@dataclass(frozen=True)
class Topology:
    """A checked topology."""

    name: str
    nodes: dict[str, Node]
    links: dict[str, Link]
    paths: dict[str, tuple[str, ...]]
    assignment: str

    @property
    def sender(self) -> str:
        """The host that sends data."""
        return next(iter(self.paths.values()))[0]

    @property
    def receiver(self) -> str:
        """The host that receives data."""
        return next(iter(self.paths.values()))[-1]

    def link(self, node: str, neighbor: str) -> Link | None:
        """Return the link between two nodes; None if there is none."""
        return next((link for link in self.links.values() if set(link.between) == {node, neighbor}), None)

    def address(self, host: str) -> str:
        """Return the address of a host, which has one link."""
        return next(link.address(host) for link in self.links.values() if host in link.between)

    def emulated(self) -> dict[str, Link]:
        """Return the emulated links by name."""
        return {name: link for name, link in self.links.items() if link.emulated}

    def upstream(self, link: Link) -> tuple[str, str]:
        """Return the nodes of a link in the direction of the data, as on the first path that uses it."""
        for path in self.paths.values():
            for hop in pairwise(path):
                if set(hop) == set(link.between):
                    return hop
        return link.between

    def is_on_path(self, link: Link, path: str) -> bool:
        """Return whether a path uses a link."""
        return any(set(hop) == set(link.between) for hop in pairwise(self.paths[path]))

    def path_of_flow(self, flow: int) -> str | None:
        """Return the path that is assigned to a flow; None if a hash of the addresses and ports decides."""
        names = list(self.paths)
        if len(names) > 1 and self.assignment == "hash":
            return None
        return names[flow % len(names)]

    def rate_of_path(self, path: str, rate_bps: int, ratio: float | None) -> int:
        """Return the lowest rate of the emulated links of a path."""
        links = [self.link(*hop) for hop in pairwise(self.paths[path])]
        return min(link.rate_bps(rate_bps, ratio) for link in links if link.emulated)


def read(path: Path) -> Topology:
    """Read a topology file, whose name is also that of the topology. Raises UserError naming the wrong key."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UserError(f"larger than {MAX_BYTES} bytes", where=path)
        values = yaml.safe_load(content.decode("utf-8"))
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=path) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"not YAML: {' '.join(str(error).split())[:200]}", where=path) from error
    return parse(values, name=path.stem, where=path)


def parse(values: Any, *, name: str, where: object) -> Topology:
    """Return the topology of a file's keys. Raises UserError naming the wrong key."""
    schema = schemas.json_schema("topology")
    if not isinstance(values, dict):
        raise UserError("not a mapping of keys to values", where=where, fix="docs/transfer.md describes topology files")
    if error := first_error(values, schema):
        raise UserError(error, where=where, fix="docs/transfer.md describes topology files")
    filled = with_defaults(values, schema)
    part = schema["properties"]["links"]["additionalProperties"]
    links = {key: with_defaults(link, part) for key, link in filled["links"].items()}
    topology = Topology(
        name=name,
        nodes={key: Node(node["role"], node.get("site")) for key, node in filled["nodes"].items()},
        links={
            key: Link(number, tuple(link["between"]), link["emulated"], link["rate_mbps"], link["times_ratio"])
            for number, (key, link) in enumerate(links.items())
        },
        paths={key: tuple(path) for key, path in filled["paths"].items()},
        assignment=filled["assignment"],
    )
    check_links(topology, where)
    for key in topology.paths:
        check_path(topology, key, where)
    return topology


def check_links(topology: Topology, where: object) -> None:
    """Raise UserError if a link has an unknown node, joins a node to itself, or is the second between two nodes."""
    seen: set[frozenset[str]] = set()
    for name, link in topology.links.items():
        for node in link.between:
            if node not in topology.nodes:
                raise UserError(f"links.{name}.between: no node {node!r}", where=where)
        ends = frozenset(link.between)
        if len(ends) != 2 or ends in seen:
            raise UserError(
                f"links.{name}.between: expected two different nodes with a single link between them", where=where
            )
        seen.add(ends)
    for name, node in topology.nodes.items():
        number = sum(name in link.between for link in topology.links.values())
        if node.role == "host" and number != 1:
            raise UserError(f"nodes.{name}: a host must have one link, this one has {number}", where=where)


def check_path(topology: Topology, name: str, where: object) -> None:
    """Raise UserError unless a path connects the sender to the receiver by links and routers."""
    path = topology.paths[name]
    key = f"paths.{name}"
    for node in path:
        if node not in topology.nodes:
            raise UserError(f"{key}: no node {node!r}", where=where)
    if len(set(path)) != len(path):
        raise UserError(f"{key}: a node occurs twice", where=where)
    roles = [topology.nodes[node].role for node in path]
    if roles != ["host", *["router"] * (len(path) - 2), "host"]:
        raise UserError(f"{key}: a path must connect two hosts by routers", where=where)
    if (path[0], path[-1]) != (topology.sender, topology.receiver):
        raise UserError(f"{key}: all paths must have the same ends", where=where)
    links = [topology.link(*hop) for hop in pairwise(path)]
    if None in links:
        index = links.index(None)
        raise UserError(f"{key}: no link between {path[index]} and {path[index + 1]}", where=where)
    if not any(link.emulated for link in links):
        raise UserError(f"{key}: no link of the path is emulated", where=where)
