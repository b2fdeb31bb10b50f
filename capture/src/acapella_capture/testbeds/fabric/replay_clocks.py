"""Compares the clocks of nodes that replay together: their offsets from one reference.

If chronyd runs on every node, the reference is the time that it follows, and the error is its root distance. Otherwise
the reference is this machine's clock: a node's clock is read over SSH, and the error is half of the shortest round trip
(acapella_capture.replay.clocks). Replayers on one node have the same clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...replay.clocks import Offset

SAME_CLOCK, CHRONY, ROUND_TRIPS = "system", "chrony", "round trips"


@dataclass(frozen=True)
class NodeClock:
    """The clock of a node: the state that its clock program reports, and the offset by round trips over SSH."""

    node: str
    state: dict[str, Any]
    by_round_trips: Offset

    @property
    def by_chrony(self) -> Offset | None:
        """Return the offset that chronyc reports; None if the node has no chronyd, or it is not synchronized."""
        if self.state["source"] != CHRONY or None in (self.state["offset_ns"], self.state["error_ns"]):
            return None
        return Offset(self.state["offset_ns"], self.state["error_ns"])


def common_reference(before: Sequence[NodeClock], after: Sequence[NodeClock]) -> tuple[str, list[Offset]]:
    """Return the source of the reference, and the offset of each clock from it.

    ``before`` and ``after``: the same clocks, read before and after a trial. Each offset covers both readings.
    """
    if len({clock.node for clock in after}) == 1:
        return SAME_CLOCK, [Offset(0, 0) for _ in after]
    by_chrony = [(first.by_chrony, second.by_chrony) for first, second in zip(before, after, strict=True)]
    if all(None not in pair for pair in by_chrony):
        return CHRONY, [first.union(second) for first, second in by_chrony]
    pairs = zip(before, after, strict=True)
    return ROUND_TRIPS, [first.by_round_trips.union(second.by_round_trips) for first, second in pairs]
