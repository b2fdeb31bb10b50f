"""Which ports of a site are mirrored in a cycle: pure functions of what is known before it.

A selection is a function of a `View` that returns the names of the ports to mirror, at most as many as there are
receivers, none twice. Those here are named in the config (`collect.port_selection`); a package of your own adds one
under its own name by an entry point of the group `acapella.port_selection` (docs/collect.md has an example).
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points

from acapella_core.errors import UserError

from ..testbeds.base import Port, Rates

GROUP = "acapella.port_selection"


@dataclass(frozen=True)
class SiteView:
    """What is known of a site before a cycle.

    ``rates`` are recent ones of its ports, bit/s as the switch sees them; a port without data is absent, and all are
    where nobody counts. ``history`` holds the ports of each earlier cycle, the oldest first.
    """

    site: str
    cycle: int  # from 0
    ports: tuple[Port, ...]
    receivers: int
    rates: Mapping[str, Rates] = field(default_factory=dict)
    history: tuple[tuple[str, ...], ...] = ()
    busiest_every: int = 4
    idle_bps: float = 0
    seed: int = 1

    def rate_bps(self, port: str) -> float | None:
        """Received and sent together; None where unknown."""
        rates = self.rates.get(port)
        return None if rates is None else rates.tx_bps + rates.rx_bps

    def non_idle(self) -> list[str]:
        """Ports above `idle_bps`, and those of which nothing is known; where no port is, all."""
        known = {port.name: self.rate_bps(port.name) for port in self.ports}
        return [name for name, rate in known.items() if rate is None or rate > self.idle_bps] or list(known)


Selection = Callable[[SiteView], Sequence[str]]


def round_robin(view: SiteView) -> list[str]:
    """All ports, idle ones too, one group after the other; the last group of a round may be smaller."""
    group = view.cycle % cycles_per_round(len(view.ports), view.receivers)
    start = group * view.receivers
    return [port.name for port in view.ports[start : start + view.receivers]]


def busiest(view: SiteView) -> list[str]:
    """Every n-th cycle the busiest ports that the last n cycles did not sample, else random ones that are not idle.

    Patchwork, section 6.2.2 (n is `busiest_every`). Random ones are drawn without putting back: none comes again before
    all that are not idle have been sampled, so none starves. The same seed draws the same.
    """
    chosen: list[str] = []
    candidates = view.non_idle()
    if view.cycle % view.busiest_every == view.busiest_every - 1:
        recent = {name for cycle in view.history[-view.busiest_every :] for name in cycle}
        fresh = [name for name in candidates if name not in recent and view.rate_bps(name) is not None]
        chosen = sorted(fresh, key=lambda name: (-view.rate_bps(name), name))[: view.receivers]
    drawing = random.Random(f"{view.seed}/{view.site}/{view.cycle}")
    while len(chosen) < min(view.receivers, len(candidates)):
        waiting = not_yet_sampled(candidates, (*view.history, tuple(chosen)))
        left = [name for name in waiting if name not in chosen] or [name for name in candidates if name not in chosen]
        chosen.append(drawing.choice(sorted(left)))
    return chosen


def not_yet_sampled(ports: Sequence[str], history: Sequence[Sequence[str]]) -> list[str]:
    """Ports that were not sampled since all of them had been."""
    seen: set[str] = set()
    for name in (name for cycle in history for name in cycle):
        seen.add(name)
        if seen.issuperset(ports):
            seen.clear()
    return [name for name in ports if name not in seen]


def cycles_per_round(ports: int, receivers: int) -> int:
    """Cycles until each of so many ports had its turn, at least one."""
    return max(1, math.ceil(ports / max(1, receivers)))


SELECTIONS: dict[str, Selection] = {
    "all": round_robin,
    "fixed": round_robin,
    "uplinks": round_robin,
    "busiest": busiest,
}
STATIC_SELECTIONS = ("all", "fixed", "uplinks")  # their ports and order are known before anything runs


def find_selection(name: str) -> Selection:
    """A selection by its name in the config. Raises UserError where nobody provides it."""
    if name in SELECTIONS:
        return SELECTIONS[name]
    found = entry_points(group=GROUP, name=name)
    if not found:
        known = sorted({*SELECTIONS, *(entry.name for entry in entry_points(group=GROUP))})
        raise UserError(f"no port selection {name!r}; there are {', '.join(known)}", where="collect.port_selection")
    try:
        return next(iter(found)).load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"cannot load {name!r}: {error}", where="collect.port_selection") from error


def choose_ports(selection: Selection, view: SiteView) -> tuple[str, ...]:
    """What a selection chooses. Raises UserError where it is not at most `receivers` of the site's ports, each once.

    So does what a selection raises itself: it is not ours, and `--debug` shows where it did.
    """
    where = f"site {view.site}, cycle {view.cycle + 1}"  # from 1, as in plans and manifests
    try:
        chosen = tuple(selection(view))
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{where}: {type(error).__name__}: {error}", where="collect.port_selection") from error
    known = {port.name for port in view.ports}
    fault = None
    if unknown := [name for name in chosen if name not in known]:
        fault = f"{unknown[0]!r} is no port to choose from"
    elif len(set(chosen)) < len(chosen):
        fault = "a port twice"
    elif len(chosen) > view.receivers:
        fault = f"{len(chosen)} ports, more than the receivers, {view.receivers}"
    if fault:
        raise UserError(f"{where}: {fault}", where="collect.port_selection")
    return chosen


def assign_receivers(chosen: Sequence[str], receivers: Sequence[str], before: Mapping[str, str]) -> dict[str, str]:
    """Port by receiver: a port stays where its mirror is, so that as few mirrors move as can be."""
    kept = {receiver: port for receiver, port in before.items() if port in chosen and receiver in receivers}
    free = [receiver for receiver in receivers if receiver not in kept]
    others = [port for port in chosen if port not in kept.values()]
    return kept | dict(zip(free, others, strict=False))
