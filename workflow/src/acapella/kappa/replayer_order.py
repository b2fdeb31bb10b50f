"""Order of arrival of packets that several replayers send: reversed pairs, and those that the replayers do not explain.

Two neighbors in the requested order, from different replayers, may arrive reversed because of the replayers alone if
their requested departures differ by at most the skew of the replayers plus the larger departure error of both packets.
Every port of a replayer counts as a replayer.
"""

from dataclasses import asdict, dataclass

import numpy as np

from .departures import Departures
from .replayed import Numbering, Schedule, keys_of


@dataclass(frozen=True)
class Order:
    """Counts of a trial: neighbors of different replayers that arrived, those reversed, and those not explained."""

    pairs: int
    reversed: int
    unexplained: int


@dataclass(frozen=True)
class Senders:
    """The ports of all replayers of a trial. ``of_key``: the number of the sender of each key, -1 for none.

    ``skew_ns``: for each pair of senders, the difference of their median departure errors plus its uncertainty.
    """

    of_key: np.ndarray
    skew_ns: np.ndarray


def order_of(
    arrivals: tuple[np.ndarray, np.ndarray], own: Schedule, sources: list[Departures], numbering: Numbering
) -> dict | None:
    """Return the counts of a trial (keys and times, as of align); None for one sender, or if the skew is unknown."""
    senders = senders_of(own, sources, numbering)
    if senders is None:
        return None
    keys, ts_ns = arrivals
    known = keys < len(own.usable)
    numbers, times = keys[known].astype(np.int64), ts_ns[known]
    usable = own.usable[numbers]
    numbers, times = numbers[usable], times[usable]
    requested = own.departed_ns[numbers] - own.deviation_ns[numbers]
    in_order = np.lexsort((numbers, requested))
    numbers, times, requested = numbers[in_order], times[in_order], requested[in_order]
    error = np.abs(own.deviation_ns[numbers]) + own.late_ns[numbers]
    sender = senders.of_key[numbers]
    distance = np.diff(requested)
    neighbors = (sender[1:] != sender[:-1]) & (distance > 0)
    reversed_ = neighbors & (np.diff(times) < 0)
    bound = senders.skew_ns[sender[1:], sender[:-1]] + np.maximum(error[1:], error[:-1])
    return asdict(Order(int(neighbors.sum()), int(reversed_.sum()), int((reversed_ & (distance > bound)).sum())))


def senders_of(own: Schedule, sources: list[Departures], numbering: Numbering) -> Senders | None:
    """Return the senders of a trial; None if there is one, or if the error of a replayer's clock is unknown."""
    of_key = np.full(numbering.replayed, -1, dtype=np.int64)
    medians, clocks, replayers = [], [], []
    for number, rows in enumerate(sources):
        keys = keys_of(rows, numbering)
        for port in np.unique(rows.port):
            of_port = keys[rows.port == port]
            timed = of_port[own.usable[of_port]]
            of_key[of_port] = len(medians)
            medians.append((np.median(own.deviation_ns[timed]) if len(timed) else 0) - (rows.clock_offset_ns or 0))
            clocks.append(rows.clock_error_ns)
            replayers.append(number)
    different = np.not_equal.outer(replayers, replayers)
    if len(medians) < 2 or (different.any() and None in clocks):
        return None
    errors = np.array([clock or 0 for clock in clocks])
    skew_ns = np.abs(np.subtract.outer(medians, medians)) + np.where(different, np.add.outer(errors, errors), 0)
    return Senders(of_key, skew_ns)
