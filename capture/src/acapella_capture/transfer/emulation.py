"""Emulates links: rate and queue with tbf and htb of the kernel, delay with netem or acapella-link (delay.py).

In mode `clean`, the token bucket holds two frames, so that packets leave at the rate of the link. In mode `published`,
as in Code 3 of the paper, the bucket is as large as the queue, below an htb class of the same rate. The class has a
burst of one frame, so the bucket has no effect. The return direction has no limit in either mode.
"""

import json
from functools import partial

from acapella_core.topology import Topology

from .cleanup import clean_up
from .delay import Delays
from .grid import Cell
from .nodes import ETHERNET_BYTES, MTU, Nodes

FRAME_BYTES = MTU + ETHERNET_BYTES
HTB_QUANTUM = 60_000  # bytes; the default grows with the rate, and the kernel warns if it is above 200,000


class Emulation:
    """The emulated links of a slice."""

    def __init__(self, nodes: Nodes, topology: Topology, delays: Delays):
        self._nodes = nodes
        self._topology = topology
        self._delays = delays

    def apply(self, cell: Cell) -> None:
        """Set rate, queue and delay for a run. Raises UserError if the kernel rejects them."""
        self.remove()
        for link in self._topology.emulated().values():
            node, peer = self._topology.upstream(link)
            rate = link.rate_bps(cell.rate_bps, cell.ratio)
            lines = queue(self._nodes.device(node, peer), rate, cell.buffer_bytes, cell.mode)
            self._nodes.batch(node, "tc", lines)
        self._delays.apply(cell)

    def remove(self) -> None:
        """Remove rate, queue and delay. Raises UserError."""
        ends = [self._topology.upstream(link) for link in self._topology.emulated().values()]
        queues = [partial(remove_root, self._nodes, node, self._nodes.device(node, peer)) for node, peer in ends]
        clean_up([self._delays.remove, *queues], failed=False)

    def counters(self) -> dict[str, tuple[int, int, int]]:
        """Return the bytes sent, packets sent and packets dropped by each emulated link."""
        found = {}
        for name, link in self._topology.emulated().items():
            node, peer = self._topology.upstream(link)
            command = ["tc", "-s", "-j", "qdisc", "show", "dev", self._nodes.device(node, peer)]
            qdisc = next(entry for entry in json.loads(self._nodes.checked(node, command)) if entry["kind"] == "tbf")
            found[name] = (qdisc["bytes"], qdisc["packets"], qdisc["drops"])
        return found

    def returned_bytes(self) -> dict[str, int]:
        """Return the bytes sent over each emulated link in the return direction."""
        found = {}
        for name, link in self._topology.emulated().items():
            node, peer = self._topology.upstream(link)
            command = ["ip", "-s", "-j", "link", "show", "dev", self._nodes.device(peer, node)]
            found[name] = json.loads(self._nodes.checked(peer, command))[0]["stats64"]["tx"]["bytes"]
        return found

    def is_empty(self) -> bool:
        """Return whether no packet is in a queue of an emulated link."""
        for link in self._topology.emulated().values():
            node, peer = self._topology.upstream(link)
            command = ["tc", "-s", "-j", "qdisc", "show", "dev", self._nodes.device(node, peer)]
            if any(qdisc["backlog"] for qdisc in json.loads(self._nodes.checked(node, command))):
                return False
        return True


def queue(device: str, rate_bps: int, buffer_bytes: int, mode: str) -> list[str]:
    """Return the lines of `tc` that limit the rate and the queue of an interface."""
    if mode == "published":
        bucket = max(buffer_bytes, 2 * FRAME_BYTES)
        return [
            *htb_lines(device, rate_bps),
            f"qdisc add dev {device} parent 1:10 handle 10: tbf rate {rate_bps}bit burst {bucket} limit {buffer_bytes}",
        ]
    bucket = 2 * FRAME_BYTES
    return [f"qdisc add dev {device} root handle 10: tbf rate {rate_bps}bit burst {bucket} limit {buffer_bytes}"]


def htb_lines(device: str, rate_bps: int) -> list[str]:
    """Return the lines of `tc` that limit the rate of an interface, with the default burst of tc."""
    return [
        f"qdisc add dev {device} root handle 1: htb default 10",
        f"class add dev {device} parent 1: classid 1:10 htb rate {rate_bps}bit quantum {HTB_QUANTUM}",
    ]


def remove_root(nodes: Nodes, node: str, device: str) -> None:
    """Remove the queueing discipline of an interface, if one was set. Raises UserError."""
    shown = json.loads(nodes.checked(node, ["tc", "-j", "qdisc", "show", "dev", device]))
    if any(qdisc.get("root") and qdisc["kind"] not in ("noqueue", "mq", "fq_codel", "pfifo_fast") for qdisc in shown):
        nodes.checked(node, ["tc", "qdisc", "del", "dev", device, "root"])
