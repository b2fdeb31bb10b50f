"""Computes max-min fair rates and completion times of flows in a network, and link capacities in proportion to the
bytes that cross the links.

Rates are computed by water-filling (Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2): all rates grow
equally; if a link is full, the rates of its flows stop growing, and the link is their bottleneck. Completion times
follow a fluid model: the rates are recomputed whenever a flow ends. All numbers are fractions, so results are exact and
do not depend on the order of flows.

TCP with equal round-trip times approximates these rates, but not in slow start or loss recovery.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Link = Hashable


@dataclass(frozen=True)
class Flow:
    """A flow: the links that it crosses, and its size in bytes."""

    links: tuple[Link, ...]
    size_bytes: int = 0


@dataclass(frozen=True)
class Share:
    """The rate of a flow in bit/s and its bottleneck link; both None if no link of the flow is limited."""

    rate_bps: Fraction | None
    bottleneck: Link | None


@dataclass(frozen=True)
class Completion:
    """The end of a flow in seconds after the start of all flows, and its bottleneck when it ends."""

    time_s: Fraction
    bottleneck: Link | None


@dataclass(frozen=True)
class ProportionalDesign:
    """Capacities proportional to the bytes that cross each link, and the completions of flows with these capacities.

    ``together``: whether all flows end at the same time.
    """

    capacity_bps: dict[Link, Fraction]
    completions: tuple[Completion, ...]
    together: bool

    def ratio(self, first: Link, second: Link) -> Fraction:
        """Return the ratio of the capacities of two links."""
        return self.capacity_bps[first] / self.capacity_bps[second]


def fair_shares(flows: Sequence[Flow], capacity_bps: Mapping[Link, Fraction]) -> list[Share]:
    """Return the max-min fair rate of each flow. Links that are not in ``capacity_bps`` are not limited.

    If two links fill at the same time, the first in ``capacity_bps`` is the bottleneck of flows that cross both.
    """
    shares: list[Share | None] = [None] * len(flows)
    free = {link: Fraction(rate) for link, rate in capacity_bps.items()}
    waiting = {link: {n for n, flow in enumerate(flows) if link in flow.links} for link in free}
    while any(waiting.values()):
        level, bottleneck_index = min(
            ((free[link] / len(members), index) for index, (link, members) in enumerate(waiting.items()) if members),
        )
        link = list(waiting)[bottleneck_index]
        for number in sorted(waiting[link]):
            shares[number] = Share(level, link)
            for other in dict.fromkeys(flows[number].links):
                if other in free:
                    free[other] -= level
                    waiting[other].discard(number)
    return [share or Share(None, None) for share in shares]


def completions(flows: Sequence[Flow], capacity_bps: Mapping[Link, Fraction]) -> list[Completion | None]:
    """Return the completion of each flow if all start together; None for flows whose links are not limited.

    Rates are computed by `fair_shares` whenever a flow ends.
    """
    remaining_bits = [Fraction(8 * flow.size_bytes) for flow in flows]
    found: list[Completion | None] = [None] * len(flows)
    now = Fraction(0)
    active = list(range(len(flows)))
    while active:
        shares = dict(zip(active, fair_shares([flows[n] for n in active], capacity_bps), strict=True))
        active = [n for n in active if shares[n].rate_bps is not None]  # the others complete immediately
        if not active:
            break
        step = min(remaining_bits[n] / shares[n].rate_bps for n in active)
        now += step
        for n in active:
            remaining_bits[n] -= step * shares[n].rate_bps
            if remaining_bits[n] == 0:
                found[n] = Completion(now, shares[n].bottleneck)
        active = [n for n in active if remaining_bits[n] > 0]
    return found


def proportional(
    flows: Sequence[Flow], capacity_bps: Mapping[Link, Fraction], adjustable: Sequence[Link]
) -> ProportionalDesign:
    """Return the design in which ``adjustable`` links share their total capacity in proportion to the bytes that cross
    them.

    A link of capacity c that v bytes cross is busy for at least 8 v / c. With a fixed sum of the capacities, the
    largest of these times is smallest if they are equal, that is, if capacities are proportional to v (proportional
    designs: Ros-Giralt et al. 2021). Other links keep the capacity of ``capacity_bps``. Raises ValueError if no bytes
    cross an adjustable link, or it has no capacity.
    """
    volume = {link: sum(flow.size_bytes for flow in flows if link in flow.links) for link in adjustable}
    for link, crossed in volume.items():
        if not crossed or not capacity_bps.get(link):
            raise ValueError(f"link {link}: {'no capacity' if crossed else 'no flow crosses it'}")
    total, total_bytes = sum(Fraction(capacity_bps[link]) for link in adjustable), sum(volume.values())
    changed = {link: Fraction(rate) for link, rate in capacity_bps.items()}
    changed |= {link: total * crossed / total_bytes for link, crossed in volume.items()}
    ends = completions(flows, changed)
    times = {end.time_s if end else None for end in ends}
    known = tuple(end for end in ends if end)
    return ProportionalDesign({link: changed[link] for link in adjustable}, known, together=len(times) == 1)
