"""Generates the addresses and routes of a slice as lines of `ip -batch`.

The main table of a node has routes to both hosts over all paths: the kernel selects one by a hash of a flow's addresses
and ports. The kernel has no round robin: with assignment `round_robin`, rules for the server port of each flow select
the table of a path.
"""

from acapella_core.errors import UserError
from acapella_core.topology import Topology

from .nodes import Nodes
from .topology import SERVER_PORT

FIRST_TABLE = 100  # routing table of the first path
IPV4 = "/proc/sys/net/ipv4"
HASH_FIELDS = 0x37  # source, destination, protocol, ports (ip-sysctl.rst)
FIRST_RULE = 1000  # preference of the rules of flow 0; the rules of delayed directions have a smaller one


def configure(nodes: Nodes, topology: Topology, flows: int) -> None:
    """Set addresses, routes and rules of all nodes for a number of flows. Raises UserError."""
    for node in topology.nodes:
        nodes.batch(node, "ip", addresses(nodes, topology, node))
        if topology.nodes[node].role == "router":
            nodes.write(node, "/proc/sys/net/ipv4/ip_forward", "1")
            set_hash(nodes, node)
        nodes.batch(node, "ip", [*routes(nodes, topology, node), *rules(topology, node, flows)])


def set_hash(nodes: Nodes, node: str) -> None:
    """Make a router hash addresses, protocol and ports of each packet.

    Policy 1 hashes the same fields, but if packets of a local socket arrive over veth, it uses the random number of
    this socket. Policy 3 dissects every packet and needs Linux 5.14. Raises UserError.
    """
    policy = "3"
    try:
        nodes.write(node, f"{IPV4}/fib_multipath_hash_fields", str(HASH_FIELDS))
    except UserError:
        policy = "1"
    nodes.write(node, f"{IPV4}/fib_multipath_hash_policy", policy)


def addresses(nodes: Nodes, topology: Topology, node: str) -> list[str]:
    """Return the lines that set the addresses of a node's interfaces."""
    lines = ["link set lo up"]
    for link in topology.links.values():
        if node in link.between:
            device = nodes.device(node, other_end(link.between, node))
            # even without offloads, TCP queues segments of up to 64 KiB, which are bursts above the line rate
            lines += [
                f"link set {device} gso_max_segs 1",
                f"address replace {link.address(node)}/24 dev {device}",
                f"link set {device} up",
            ]
    return lines


def other_end(between: tuple[str, str], node: str) -> str:
    """Return the node at the other end of a link."""
    return between[1 - between.index(node)]


def routes(nodes: Nodes, topology: Topology, node: str) -> list[str]:
    """Return the lines that set a node's routes to both hosts, in the main table and in the tables of the paths."""
    lines = []
    for host, order in ((topology.receiver, 1), (topology.sender, -1)):
        hops: dict[str, str] = {}  # by path
        for name, path in topology.paths.items():
            directed = path[::order]
            if node in directed[:-1]:
                hops[name] = directed[directed.index(node) + 1]
        if not hops:
            continue
        network = network_of(topology.address(host))
        if not any(host in link.between and node in link.between for link in topology.links.values()):
            next_hops = [f"nexthop {next_hop_of(nodes, topology, node, hop)}" for hop in dict.fromkeys(hops.values())]
            lines.append(f"route replace {network} {' '.join(next_hops)}")
        for number, name in enumerate(topology.paths):
            if name in hops and len(topology.paths) > 1:
                next_hop = next_hop_of(nodes, topology, node, hops[name])
                lines.append(f"route replace {network} {next_hop} table {FIRST_TABLE + number}")
    return lines


def next_hop_of(nodes: Nodes, topology: Topology, node: str, hop: str) -> str:
    """Return the next hop of a route."""
    return f"via {topology.link(node, hop).address(hop)} dev {nodes.device(node, hop)}"


def network_of(address: str) -> str:
    """Return the /24 network of an address."""
    return f"{address.rsplit('.', 1)[0]}.0/24"


def rules(topology: Topology, node: str, flows: int) -> list[str]:
    """Return the lines that assign the flows to the tables of their paths."""
    if len(topology.paths) == 1 or topology.assignment == "hash":
        return []
    lines = []
    for flow in range(flows):
        path = topology.path_of_flow(flow)
        if node not in topology.paths[path] or topology.nodes[node].role == "host":
            continue
        table = FIRST_TABLE + list(topology.paths).index(path)
        for protocol in ("tcp", "udp"):  # UDP: measurements of a path
            common = f"rule add pref {FIRST_RULE + flow} ipproto {protocol}"
            port = SERVER_PORT + flow
            lines += [
                f"{common} to {topology.address(topology.receiver)} dport {port} lookup {table}",
                f"{common} to {topology.address(topology.sender)} sport {port} lookup {table}",
            ]
    return lines


def path_taken(nodes: Nodes, topology: Topology, client_port: int, server_port: int) -> str | None:
    """Return the path that the routers select for a connection; None if the topology does not contain it."""
    ends = f"from {topology.address(topology.sender)} ipproto tcp sport {client_port} dport {server_port}"
    walk = [topology.sender, topology.paths[next(iter(topology.paths))][1]]
    while walk[-1] != topology.receiver and len(walk) <= len(topology.nodes):
        node, previous = walk[-1], walk[-2]
        neighbors = [other_end(link.between, node) for link in topology.links.values() if node in link.between]
        if topology.receiver in neighbors:  # packets to the receiver may pass through a delaying device
            walk.append(topology.receiver)
            break
        command = f"route get {topology.address(topology.receiver)} {ends} iif {nodes.device(node, previous)}"
        tokens = nodes.checked(node, ["ip", "-o", *command.split()]).split()
        device = tokens[tokens.index("dev") + 1]
        walk.append(next(peer for peer in neighbors if nodes.device(node, peer) == device))
    return next((name for name, path in topology.paths.items() if list(path) == walk), None)
