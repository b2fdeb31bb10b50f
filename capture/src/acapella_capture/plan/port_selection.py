"""Selection of the ports that are mirrored in a cycle: pure functions of the information available before the cycle.

A selection takes a `SiteView` and returns the names of the ports to mirror: at most one per receiver, no name twice.
The config names a selection (`collect.port_selection`). Other packages can add selections with an entry point of group
`acapella.port_selection`; docs/collect.md has an example.
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
    """Information about a site before a cycle.

    `rates` are recent rates of its ports as the switch counts them, bit/s. Ports without data are absent; all ports are
    absent if the switch provides no counters. `history` contains the ports of each earlier cycle, oldest first.
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
        """Return the sum of received and sent rate; None if unknown."""
        rates = self.rates.get(port)
        return None if rates is None else rates.tx_bps + rates.rx_bps

    def non_idle(self) -> list[str]:
        """Return the ports above `idle_bps` and those without data; all ports if there is none."""
        rates = {port.name: self.rate_bps(port.name) for port in self.ports}
        return [name for name, rate in rates.items() if rate is None or rate > self.idle_bps] or list(rates)


Selection = Callable[[SiteView], Sequence[str]]


def round_robin(view: SiteView) -> list[str]:
    """Return all ports in turn, idle ones included, one group per cycle; the last group may be smaller."""
    group = view.cycle % cycles_per_round(len(view.ports), view.receivers)
    start = group * view.receivers
    return [port.name for port in view.ports[start : start + view.receivers]]


def busiest(view: SiteView) -> list[str]:
    """Return the busiest ports not sampled in the last n cycles, in every n-th cycle; otherwise random non-idle ports.

    Patchwork, section 6.2.2 (n is `busiest_every`). Random ports are drawn without replacement: no port is drawn again
    before all non-idle ports have been sampled, so none starves. The same seed yields the same ports.
    """
    chosen: list[str] = []
    candidates = view.non_idle()
    if view.cycle % view.busiest_every == view.busiest_every - 1:
        recent = {name for cycle in view.history[-view.busiest_every :] for name in cycle}
        fresh = [name for name in candidates if name not in recent and view.rate_bps(name) is not None]
        chosen = sorted(fresh, key=lambda name: (-view.rate_bps(name), name))[: view.receivers]
    generator = random.Random(f"{view.seed}/{view.site}/{view.cycle}")
    while len(chosen) < min(view.receivers, len(candidates)):
        unsampled = not_yet_sampled(candidates, (*view.history, tuple(chosen)))
        remaining = [name for name in unsampled if name not in chosen] or [
            name for name in candidates if name not in chosen
        ]
        chosen.append(generator.choice(sorted(remaining)))
    return chosen


def not_yet_sampled(ports: Sequence[str], history: Sequence[Sequence[str]]) -> list[str]:
    """Return the ports not sampled since the last time that all ports had been sampled."""
    sampled: set[str] = set()
    for name in (name for cycle in history for name in cycle):
        sampled.add(name)
        if sampled.issuperset(ports):
            sampled.clear()
    return [name for name in ports if name not in sampled]


def cycles_per_round(ports: int, receivers: int) -> int:
    """Return the number of cycles until each port has been sampled once, at least 1."""
    return max(1, math.ceil(ports / max(1, receivers)))


SELECTIONS: dict[str, Selection] = {
    "all": round_robin,
    "fixed": round_robin,
    "uplinks": round_robin,
    "busiest": busiest,
}
STATIC_SELECTIONS = ("all", "fixed", "uplinks")  # ports and order are known in advance


def find_selection(name: str) -> Selection:
    """Return a selection by its name in the config. Raises UserError if no package provides it."""
    if name in SELECTIONS:
        return SELECTIONS[name]
    entries = entry_points(group=GROUP, name=name)
    if not entries:
        names = sorted({*SELECTIONS, *(entry.name for entry in entry_points(group=GROUP))})
        raise UserError(f"no port selection {name!r}; known: {', '.join(names)}", where="collect.port_selection")
    try:
        return next(iter(entries)).load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"cannot load {name!r}: {error}", where="collect.port_selection") from error


def choose_ports(selection: Selection, view: SiteView) -> tuple[str, ...]:
    """Return the ports that a selection chooses.

    Raises UserError unless they are ports of the site, at most one per receiver.

    An exception of the selection also becomes a UserError; `--debug` shows its traceback.
    """
    where = f"site {view.site}, cycle {view.cycle + 1}"  # from 1, as in plans and manifests
    try:
        chosen = tuple(selection(view))
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{where}: {type(error).__name__}: {error}", where="collect.port_selection") from error
    site_ports = {port.name for port in view.ports}
    fault = None
    if unknown := [name for name in chosen if name not in site_ports]:
        fault = f"{unknown[0]!r} is not a candidate port"
    elif len(set(chosen)) < len(chosen):
        fault = "the same port twice"
    elif len(chosen) > view.receivers:
        fault = f"{len(chosen)} ports for {view.receivers} receivers"
    if fault:
        raise UserError(f"{where}: {fault}", where="collect.port_selection")
    return chosen


def assign_receivers(chosen: Sequence[str], receivers: Sequence[str], before: Mapping[str, str]) -> dict[str, str]:
    """Return the port of each receiver. A port keeps its receiver if possible, so that few mirrors move."""
    unchanged = {receiver: port for receiver, port in before.items() if port in chosen and receiver in receivers}
    free = [receiver for receiver in receivers if receiver not in unchanged]
    moved = [port for port in chosen if port not in unchanged.values()]
    return unchanged | dict(zip(free, moved, strict=False))
