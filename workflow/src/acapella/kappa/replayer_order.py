"""Counts reversed pairs of packets from several replayers, and the reversed pairs that the replayers do not explain.

Two neighbors in the requested order, from different replayers, may arrive reversed because of the replayers alone if
their requested departures differ by at most the skew of the replayers plus the larger of the two packets' departure
errors, or if they may have departed in reverse order. Every port of a replayer counts as a replayer. Neighbors with
equal requested departures have no order and are not counted.
"""

import math
from dataclasses import asdict, dataclass

import numpy as np

from .departures import Departures
from .replayed import Numbering, Schedule, keys_of

Z_95 = 1.959964  # quantile of the normal distribution


@dataclass(frozen=True)
class OrderCounts:
    """Counts of a trial: arrived pairs of neighbors from different replayers, and reversed pairs among them.

    ``unexplained``: reversed pairs that the replayers do not explain. ``sent_in_order``: reversed pairs that certainly
    departed in the requested order, however late the two packets were.
    """

    pairs: int
    reversed: int
    unexplained: int
    sent_in_order: int


@dataclass(frozen=True)
class Senders:
    """The ports of all replayers of a trial. ``sender_of_key``: the number of the sender of each key, -1 for none.

    ``skew_ns``: for each pair of senders, the difference of their median departure errors plus its uncertainty.
    ``clock_ns``: for each pair, the largest error of the difference between their clocks. ``offset_ns``: the clock
    offset of each sender.
    """

    sender_of_key: np.ndarray
    skew_ns: np.ndarray
    clock_ns: np.ndarray
    offset_ns: np.ndarray


def order_of(
    arrivals: tuple[np.ndarray, np.ndarray], own: Schedule, sources: list[Departures], numbering: Numbering
) -> dict | None:
    """Return the counts of a trial; None if there is one sender, or if the skew is unknown.

    ``arrivals``: keys and times, from align.
    """
    senders = senders_of(own, sources, numbering)
    if senders is None:
        return None
    keys, ts_ns = arrivals
    known = keys < len(own.usable)
    numbers, times = keys[known].astype(np.int64), ts_ns[known]
    usable = own.usable[numbers]
    numbers, times = numbers[usable], times[usable]
    requested = own.departed_ns[numbers] - own.deviation_ns[numbers]
    order = np.lexsort((numbers, requested))
    numbers, times, requested = numbers[order], times[order], requested[order]
    error = np.abs(own.deviation_ns[numbers]) + own.late_ns[numbers]
    sender = senders.sender_of_key[numbers]
    distance = np.diff(requested)
    neighbors = (sender[1:] != sender[:-1]) & (distance > 0)
    reversed_ = neighbors & (np.diff(times) < 0)
    bound = senders.skew_ns[sender[1:], sender[:-1]] + np.maximum(error[1:], error[:-1])
    earliest = own.departed_ns[numbers] - senders.offset_ns[sender]
    latest = earliest + own.late_ns[numbers]
    in_order = reversed_ & (earliest[1:] - latest[:-1] > senders.clock_ns[sender[1:], sender[:-1]])
    counted = (neighbors, reversed_, in_order & (distance > bound), in_order)
    return asdict(OrderCounts(*(int(pairs.sum()) for pairs in counted)))


def senders_of(own: Schedule, sources: list[Departures], numbering: Numbering) -> Senders | None:
    """Return the senders of a trial; None if there is only one, or if the error of a replayer's clock is unknown."""
    sender_of_key = np.full(numbering.replayed, -1, dtype=np.int64)
    medians, errors, clocks, offsets, replayers = [], [], [], [], []
    for number, rows in enumerate(sources):
        keys = keys_of(rows, numbering)
        for port in np.unique(rows.port):
            port_keys = keys[rows.port == port]
            timed = port_keys[own.usable[port_keys]]
            sender_of_key[port_keys] = len(medians)
            median, error = median_of(own.deviation_ns[timed])
            medians.append(median - (rows.clock_offset_ns or 0))
            errors.append(error)
            clocks.append(rows.clock_error_ns)
            offsets.append(rows.clock_offset_ns or 0)
            replayers.append(number)
    different = np.not_equal.outer(replayers, replayers)
    if len(medians) < 2 or (different.any() and None in clocks):
        return None
    known = np.array([clock or 0 for clock in clocks])
    clock_ns = np.where(different, np.add.outer(known, known), 0)
    skew_ns = np.abs(np.subtract.outer(medians, medians)) + np.add.outer(errors, errors) + clock_ns
    return Senders(sender_of_key, skew_ns, clock_ns, np.array(offsets))


def median_of(deviations_ns: np.ndarray) -> tuple[int, int]:
    """Return the lower median and its largest error (95 %, order statistics, binomial distribution); 0 if empty."""
    ordered, count = np.sort(deviations_ns), len(deviations_ns)
    if not count:
        return 0, 0
    half = Z_95 * math.sqrt(count) / 2
    low, high = max(0, math.floor(count / 2 - half) - 1), min(count - 1, math.ceil(count / 2 + half))
    median = int(ordered[(count - 1) // 2])
    return median, max(int(ordered[high]) - median, median - int(ordered[low]))
