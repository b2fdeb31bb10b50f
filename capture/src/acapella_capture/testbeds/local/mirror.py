"""A port mirror of the kernel: tc's mirred action on what a bridge port receives (rx) and sends (tx).

The counts have to outlive the copying, or those read before it ends miss the last frames. An action of its own, with
filters that refer to it, would do, but a user namespace may not make one. So the copying filter stays, and another
one before it, which takes every frame to the queue at once, ends the copying.
"""

import json

from ..base import Direction, Mirror, MirrorCounters
from .network import CAPTURE, MIRROR
from .processes import eventually, succeed

PARENTS = {"rx": "ffff:", "tx": "1:"}  # the ingress qdisc, the root htb
EVERY_FRAME = "filter add dev {port} parent {parent} protocol all prio {prio} u32 match u32 0 0"
COPY = EVERY_FRAME.replace("{prio}", "2") + f" action mirred egress mirror dev {MIRROR}"
PASS = EVERY_FRAME.replace("{prio}", "1") + " flowid 1:1"
CLEAR = "filter del dev {port} parent {parent}"
RECEIVED_SHORT = 14  # the Ethernet header is already off where tc counts the bytes of a received frame


class LocalMirror(Mirror):
    """Copies of one port's frames to the site's mirror port."""

    interface = CAPTURE

    def __init__(self, site: str, port: str, direction: Direction, instance: str):
        self.site = site
        self.port = port
        self.instance = instance
        self.directions = ("rx", "tx") if direction == "both" else (direction,)
        self._before = self._delivered()

    def start(self) -> None:
        self._batch(COPY)

    def stop(self) -> None:
        """Copy no more, and wait for what a rate on the mirror port holds back."""
        self._batch(PASS)
        eventually(lambda: self._backlog() == 0)

    def remove(self) -> None:
        """Take the filters away, and with them the counts."""
        self._batch(CLEAR)

    def counters(self) -> MirrorCounters:
        frames = octets = 0
        for direction in self.directions:
            shown = json.loads(self._tc("-s", "-j", "filter", "show", "dev", self.port, "parent", PARENTS[direction]))
            for action in (action for entry in shown for action in entry.get("options", {}).get("actions", [])):
                counted = action["stats"]
                frames += counted["packets"]
                octets += counted["bytes"] + (RECEIVED_SHORT * counted["packets"] if direction == "rx" else 0)
        delivered = self._delivered()
        return MirrorCounters(
            offered_frames=frames,
            delivered_frames=delivered[0] - self._before[0],
            offered_bytes=octets,
            delivered_bytes=delivered[1] - self._before[1],
        )

    def _batch(self, command: str) -> None:
        """One tc command for each direction, in one go."""
        lines = [command.format(port=self.port, parent=PARENTS[direction]) for direction in self.directions]
        self._tc("-batch", "-", stdin="\n".join(lines) + "\n")

    def _tc(self, *words: str, stdin: str = "") -> str:
        return succeed(self.site, ["tc", *words], stdin=stdin)

    def _delivered(self) -> tuple[int, int]:
        shown = json.loads(succeed(self.site, ["ip", "-s", "-j", "link", "show", "dev", MIRROR]))
        sent = shown[0]["stats64"]["tx"]
        return sent["packets"], sent["bytes"]

    def _backlog(self) -> int:
        shown = json.loads(self._tc("-s", "-j", "qdisc", "show", "dev", MIRROR))
        return sum(qdisc.get("backlog", 0) for qdisc in shown)
