"""Checks that departures fit the arrivals of their trial: departures of a different run yield a wrong corrected kappa.

docs/kappa_path.md, "Which departures are rejected", describes the comparisons. Loss does not matter, because only
packets that departed and arrived are compared. Jitter and queues are allowed for.
"""

import numpy as np

from acapella.common.wording import GAP, nanoseconds
from acapella_core.errors import UserError

from .replayed import Schedule

MIN_PACKETS = 20  # fewer packets do not show a trend
MAX_RATE = 0.01  # share of the duration; clocks differ by far less
# Largest change of the delay during a trial. A filling queue increases the delay, up to the limit of its buffer.
MAX_DECREASE_NS = 10_000_000
MAX_INCREASE_NS = 250_000_000
MAX_OFFSET_CHANGE_NS = 1_000_000_000  # between trials, plus 1 % of the time between them
# A queue or a route changes the delay at certain times; a different speed changes it linearly. In the latter case, the
# median distance of the delays from a line is a small share of the whole change.
MAX_DISTANCE_SHARE = 0.05
# Departures of a different trial are reported if they fit twice as well: without a swap, they fit at most equally well.
SWAPPED_MISFIT_SHARE = 0.5
SWAPPED_CHANGE_SHARE = 0.1  # change of the clocks' difference with departures swapped, as a share of that without


def check_durations(keys: np.ndarray, ts_ns: np.ndarray, own: Schedule, name: str, paths: list[str]) -> None:
    """Raise UserError if packets arrived at a different speed than they departed. Each replayer has its own clock.

    ``paths``: the files of departures of the trial ``name``, one for each replayer.
    """
    for source, path in enumerate(paths):
        usable = own.usable & (own.source == source)
        check_duration(*timed_packets(keys, ts_ns, usable, own.departed_ns), f"trial {name}, {path}")


def check_duration(arrived: np.ndarray, departed: np.ndarray, where: str) -> None:
    """Raise UserError if the delay of packets, in order of departure, changes linearly and by more than is allowed."""
    if len(arrived) < MIN_PACKETS:
        return
    delay = (arrived - arrived.min()) - (departed - departed[0])
    half = len(delay) // 2
    distance = np.median(departed[half:]) - np.median(departed[:half])
    if distance <= 0:
        return
    slope = (np.median(delay[half:]) - np.median(delay[:half])) / distance
    spans = [int(times.max() - times.min()) for times in (departed, arrived)]
    change = slope * spans[0]
    line = slope * (departed - departed[0])
    from_line = np.median(np.abs(delay - line - np.median(delay - line)))
    allowed = MAX_RATE * spans[0] + (MAX_INCREASE_NS if change > 0 else MAX_DECREASE_NS)
    if abs(change) > allowed and from_line < MAX_DISTANCE_SHARE * abs(change):
        text = f"packets arrived within {nanoseconds(spans[1])}, but departed within {nanoseconds(spans[0])}"
        raise UserError(
            f"departures of a different run: {text}".replace(GAP, " "),
            where=where,
            fix="specify the departures of this trial",
        )


def check_order(trials: list[tuple], schedules: list[Schedule], names: list[str]) -> None:
    """Raise UserError if the departures of two trials (as returned by align) fit far better when swapped.

    The criteria are a clock difference that is constant only with swapped departures, and the gaps of packets.
    """
    own, other = (offset_change_ns(trials, order) for order in (schedules, schedules[::-1]))
    if (is_too_large(own, schedules) and other < SWAPPED_CHANGE_SHARE * own) or fits_better_swapped(trials, schedules):
        text = f"the departures of trials {' and '.join(names)} are swapped: those of the other trial fit better"
        raise UserError(text, where="--departures", fix="specify them in the order of the trials")


def fits_better_swapped(trials: list[tuple], schedules: list[Schedule]) -> bool:
    """Return whether the gaps of both trials fit the departures of the other trial far better than their own."""
    usable = np.logical_and(*(schedule.usable & (schedule.late_ns == 0) for schedule in schedules))
    for index, (keys, ts_ns) in enumerate(trials):
        own, other = (misfit(keys, ts_ns, usable, schedules[at].departed_ns) for at in (index, 1 - index))
        if own is None or other is None or other >= SWAPPED_MISFIT_SHARE * own:
            return False
    return True


def unexpected_offset_ns(trials: list[tuple], schedules: list[Schedule]) -> int:
    """Return the apparent change of the clock difference between two trials; 0 if it is within expectations."""
    change = offset_change_ns(trials, schedules)
    return change if is_too_large(change, schedules) else 0


def offset_change_ns(trials: list[tuple], schedules: list[Schedule]) -> int:
    """Return the change of the median of arrival - departure between two trials; 0 for too few packets."""
    medians = []
    for (keys, ts_ns), schedule in zip(trials, schedules, strict=True):
        arrived, departed = timed_packets(keys, ts_ns, schedule.usable, schedule.departed_ns)
        if len(arrived) < MIN_PACKETS:
            return 0
        medians.append(upper_median(arrived - departed))
    return abs(medians[1] - medians[0])


def is_too_large(change_ns: int, schedules: list[Schedule]) -> bool:
    """Return whether a change is too large for clocks that were not set between two trials."""
    if not change_ns:
        return False
    departed = [upper_median(schedule.departed_ns[schedule.usable]) for schedule in schedules]
    return change_ns > MAX_OFFSET_CHANGE_NS + MAX_RATE * abs(departed[1] - departed[0])


def upper_median(times_ns: np.ndarray) -> int:
    """Return the upper median of a nonempty array of times."""
    middle = len(times_ns) // 2
    return int(np.partition(times_ns, middle)[middle])


def timed_packets(keys, ts_ns, usable: np.ndarray, departed_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrivals and departures of the usable packets of a trial, in order of departure."""
    replayed = keys < len(usable)
    number, arrived = keys[replayed].astype(np.int64), ts_ns[replayed]
    number, arrived = number[usable[number]], arrived[usable[number]]
    order = np.argsort(departed_ns[number], kind="stable")
    return arrived[order], departed_ns[number][order]


def misfit(keys, ts_ns, usable: np.ndarray, departed_ns: np.ndarray) -> float | None:
    """Return the median difference, in ns, between gaps of arrivals and of departures; None for too few packets."""
    arrived, departed = timed_packets(keys, ts_ns, usable, departed_ns)
    if len(arrived) < MIN_PACKETS:
        return None
    return float(np.median(np.abs(np.diff(arrived) - np.diff(departed))))
