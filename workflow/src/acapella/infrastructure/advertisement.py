"""Reads switch ports and NICs from FABRIC's information model: an advertisement, or the models of individual sites.

Both are graphs in GraphML. In an advertisement, a site is a CompositeNode. Its trunk ports are VLAN sub-interfaces,
which links connect to the trunk ports of other sites. Ports to servers are missing, but NICs are counted. The model of
a site has a switch (NetworkNode), whose trunk ports are connected to the ports of NICs. In both, a node `has` a
NetworkService, which `connects` its ports.
"""

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from acapella_core.errors import UserError

GBPS = 10**9
RATES = {  # bit/s, by prefix of the port's name (Cisco IOS XR)
    "FourHundredGig": 400 * GBPS,
    "TwoHundredGig": 200 * GBPS,
    "HundredGig": 100 * GBPS,
    "FiftyGig": 50 * GBPS,
    "FortyGig": 40 * GBPS,
    "TwentyFiveGig": 25 * GBPS,
    "TenGig": 10 * GBPS,
    "GigabitEthernet": GBPS,
}
# FABRIC's component catalog: SmartNICs and FPGAs have two ports. A shared NIC has one connected port with 127 virtual
# functions, which the model counts as units.
PORTS_PER_UNIT = {"SmartNIC": 2, "FPGA": 2}
FUNCTIONS_PER_SHARED_PORT = 127
MAX_NUMBER = 10**6  # NICs, and Gbit/s of a port; a larger number is an error in the file
TRUNK = "TrunkPort"
UPLINK, DOWNLINK = "uplink", "downlink"
NAMESPACE = "{http://graphml.graphdrawing.org/xmlns}"


@dataclass
class Infrastructure:
    """Rows of sites, of trunk ports with the site at the far end of their link, and of NICs."""

    sites: list[dict] = field(default_factory=list)
    ports: list[dict] = field(default_factory=list)
    nics: list[dict] = field(default_factory=list)


class Graph:
    """A graph of the information model: the properties of its nodes, and their neighbors by kind of edge."""

    def __init__(self, path: Path):
        """Read a GraphML file. Raises UserError if it is not GraphML."""
        try:
            root = ET.parse(path).getroot()
        except (ET.ParseError, ValueError, LookupError) as error:  # the last two: an encoding that is not supported
            raise UserError(f"not GraphML: {error}", where=path) from error
        except OSError as error:
            raise UserError(f"cannot read: {error.strerror}", where=path) from error
        names = {key.get("id"): key.get("attr.name") for key in root.iter(f"{NAMESPACE}key")}
        self.path = path
        self.nodes = {node.get("id"): properties(node, names) for node in root.iter(f"{NAMESPACE}node")}
        self.edges: dict[str, list[tuple[str, str]]] = {node: [] for node in self.nodes}
        for edge in root.iter(f"{NAMESPACE}edge"):
            kind, ends = properties(edge, names).get("Class", ""), (edge.get("source"), edge.get("target"))
            if not {*ends} <= self.nodes.keys():
                raise UserError(f"an edge connects {' and '.join(map(str, ends))}, which are not nodes", where=path)
            for node, neighbor in (ends, ends[::-1]):
                self.edges[node].append((kind, neighbor))

    def neighbors(self, node: str, kind: str, node_class: str) -> list[str]:
        """Return the nodes of a class that edges of a kind connect to a node."""
        return [other for edge, other in self.edges[node] if edge == kind and self.value(other, "Class") == node_class]

    def value(self, node: str, name: str) -> str | None:
        """Return a property of a node."""
        return self.nodes[node].get(name)

    def json_of(self, node: str, name: str) -> dict:
        """Return a property that contains JSON. Raises UserError if it does not."""
        try:
            value = json.loads(self.value(node, name) or "{}")
            json.dumps(value, ensure_ascii=False).encode()  # an escaped half of a surrogate pair is not text
        except (ValueError, RecursionError) as error:
            raise UserError(f"node {node}: {name} is not JSON: {error}", where=self.path) from error
        return value if isinstance(value, dict) else {}

    def capacity(self, node: str, key: str) -> int | None:
        """Return a number in the capacities of a node; None if missing. Raises UserError if it is not a number."""
        value = self.json_of(node, "Capacities").get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or not 0 <= value <= MAX_NUMBER or value != int(value):
            raise UserError(
                f"node {node}: {key} in Capacities is not an integer from 0 to {MAX_NUMBER:,}", where=self.path
            )
        return int(value)


def properties(element: ET.Element, names: dict) -> dict[str, str]:
    """Return the properties of a node or edge by name."""
    return {names.get(data.get("key")): data.text or "" for data in element.iter(f"{NAMESPACE}data")}


def read(paths: Iterable[Path]) -> Infrastructure:
    """Return sites, ports and NICs of all files. A site may be in an advertisement and have a model.

    Raises UserError if a file has no site, or two advertisements or two models have the same site.
    """
    result = Infrastructure()
    files: dict[tuple[str, str], Path] = {}
    with_nics: set[str] = set()
    for path in paths:
        found, kinds = contents_of(Graph(path))
        if not kinds:
            raise UserError("contains no site of FABRIC's information model", where=path)
        for key in kinds:
            if key in files:
                raise UserError(f"site {key[0]} is also in {files[key]}", where=path)
            files[key] = path
        result.ports += found.ports
        # An advertisement lists the same NICs as the models of its sites.
        result.nics += [row for row in found.nics if row["site"] not in with_nics]
        with_nics |= {row["site"] for row in found.nics}
    result.sites = [{"site": site} for site in dict.fromkeys(site for site, _ in files)]
    return result


def contents_of(graph: Graph) -> tuple[Infrastructure, list[tuple[str, str]]]:
    """Return the ports and NICs of a graph, and its sites, each with the class of its node."""
    result = Infrastructure()
    kinds: dict[tuple[str, str], None] = {}
    site_of_service: dict[str, str] = {}
    for node, values in graph.nodes.items():
        site, kind = values.get("Site") or values.get("Name"), values.get("Class")
        if kind == "CompositeNode" or (kind == "NetworkNode" and values.get("Type") == "Switch"):
            if not site:
                raise UserError(f"node {node}: a site without a name", where=graph.path)
            kinds[site, kind] = None
            site_of_service |= dict.fromkeys(graph.neighbors(node, "has", "NetworkService"), site)
        if kind in ("CompositeNode", "NetworkNode"):
            result.nics += nics(graph, node, site)
    site_of_port = {
        port: site
        for service, site in site_of_service.items()
        for port in graph.neighbors(service, "connects", "ConnectionPoint")
        if graph.value(port, "Type") == TRUNK
    }
    result.ports = [port_row(graph, port, site, site_of_port) for port, site in site_of_port.items()]
    return result, [*kinds]


def nics(graph: Graph, node: str, site: str) -> list[dict]:
    """Return the NICs of a node, with the number of switch ports to which they are connected."""
    rows = []
    for component in graph.neighbors(node, "has", "Component"):
        kind, units = graph.value(component, "Type"), graph.capacity(component, "unit")
        units = 1 if units is None else units
        shared = -(-units // FUNCTIONS_PER_SHARED_PORT)
        ports = shared if kind == "SharedNIC" else PORTS_PER_UNIT.get(kind, 0) * units
        if ports:
            rows.append({"site": site, "type": kind, "model": graph.value(component, "Model"), "ports": ports})
    return rows


def port_row(graph: Graph, port: str, site: str, site_of_port: dict[str, str]) -> dict:
    """Return the row of a trunk port: an uplink if linked to another site's port, or if the far end is unknown."""
    others = [
        other
        for link in graph.neighbors(port, "connects", "Link")
        for other in graph.neighbors(link, "connects", "ConnectionPoint")
        if other != port
    ]
    far_sites = sorted({site_of_port[other] for other in others if site_of_port.get(other, site) != site})
    to_server = bool(others) and not far_sites
    labels = graph.json_of(port, "Labels")
    interface = labels.get("local_name") or graph.value(port, "Name") or ""
    bandwidth = graph.capacity(port, "bw")
    name = port_name(str(interface))
    return {
        "site": site,
        "port": name,
        "interface": str(interface),
        "kind": DOWNLINK if to_server else UPLINK,
        "far_site": far_sites[0] if far_sites else None,
        "rate_bps": rate_of(name) or (bandwidth * GBPS if bandwidth else None),
    }


def port_name(interface: str) -> str:
    """Return the port of a VLAN sub-interface: ``HundredGigE0/0/0/15`` of ``HundredGigE0/0/0/15.3370``."""
    return interface.partition(".")[0]


def rate_of(port: str) -> int | None:
    """Return the rate that the name of a port implies, bit/s; None if it implies none."""
    return next((rate for prefix, rate in RATES.items() if port.startswith(prefix)), None)
