"""Separates the replayer from the path: the departures of each trial, and trials corrected by them.

docs/kappa_path.md defines both. Packets are identified by keys, which acapella_core.kappa.align assigns.
"""

from dataclasses import dataclass

import numpy as np

from acapella_core.errors import UserError

from .departures import SENT, Departures
from .interval import TimedTrial

QUEUE_BITS = 16  # width of a queue number
MAX_SLEW = 500e-6  # maximum rate at which a Linux clock is adjusted, adjtimex(2)
NOT_MEASURED = "departures were not measured"
ONE_BURST = "departures inside the only burst of a queue are unknown; specify --burst-error"
NO_QUEUE = "departures inside bursts are unknown, because the file contains no Tx queues; specify --burst-error"
NO_CLOCK_ERROR = "the clock error of at least one of its replayers is unknown"


@dataclass(frozen=True)
class Numbering:
    """The keys of each recording, in the order of acapella_core.kappa.align: first key, frames, loops and SHA-256."""

    sha256: list[str]
    frames: list[int]
    loops: list[int]

    @property
    def first(self) -> list[int]:
        """The first key of each recording."""
        sizes = [frames * loops for frames, loops in zip(self.frames, self.loops, strict=True)]
        return [sum(sizes[:index]) for index in range(len(sizes))]

    @property
    def replayed(self) -> int:
        """The number of keys."""
        return sum(frames * loops for frames, loops in zip(self.frames, self.loops, strict=True))


@dataclass(frozen=True)
class Schedule:
    """The departures of one trial, as arrays by key.

    ``usable``: sent, with a known departure. ``deviation_ns``: departed minus requested. ``late_ns``: how much later
    than its timestamp the packet may have departed. ``burst``, ``source``: numbers of its burst and its replayer.
    ``unknown``: why the departures are unknown, else "". ``retried``: packets not accepted by the driver immediately.
    ``receiver_error_ns``: error of the replayers' clocks relative to the receiver's, None if unknown.
    ``skew_ns``: bound for the difference between two replayers' clocks.
    """

    usable: np.ndarray
    sent: np.ndarray
    departed_ns: np.ndarray
    deviation_ns: np.ndarray
    late_ns: np.ndarray
    burst: np.ndarray
    source: np.ndarray
    unknown: str
    outcomes: dict[str, int]
    unresolved: int
    retried: int
    receiver_error_ns: int | None
    skew_ns: float


def schedule_of(sources: list[Departures], numbering: Numbering, burst_ns: int | None) -> Schedule:
    """Return the departures of the replayers of one trial. Raises UserError if they do not match the recordings."""
    size = numbering.replayed
    usable, sent = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
    departed, deviation, late = (np.zeros(size, dtype=np.int64) for _ in range(3))
    burst, source = np.full(size, -1, dtype=np.int64), np.full(size, -1, dtype=np.int16)
    unresolved, bursts, unbounded = 0, 0, ""
    for number, rows in enumerate(sources):
        keys = keys_of(rows, numbering)
        if (source[keys] >= 0).any():
            raise UserError("a packet departs twice in one trial", where=rows.path, fix="specify each replayer once")
        source[keys], sent[keys] = number, rows.sent
        timed = rows.sent & rows.measured
        usable[keys] = timed
        departed[keys] = rows.departed_ns
        deviation[keys] = np.where(timed, rows.departed_ns - rows.requested_ns, 0)
        in_bursts = int((timed & ~rows.resolved & ~rows.burst_first).sum())
        unresolved += in_bursts
        if in_bursts and rows.queue is None and burst_ns is None:
            unbounded = NO_QUEUE
        for queue_rows in queues_of(rows, timed):
            numbers, bounds, known = lateness(rows, queue_rows, burst_ns)
            burst[keys[queue_rows]], late[keys[queue_rows]] = bursts + numbers, bounds
            bursts += int(numbers.max(initial=-1)) + 1
            unbounded = unbounded or ("" if known else ONE_BURST)
    return Schedule(
        **{"usable": usable, "sent": sent, "departed_ns": departed, "deviation_ns": deviation, "late_ns": late},
        **{"burst": burst, "source": source, "unresolved": unresolved, "outcomes": outcomes_of(sources)},
        unknown=reason(not sent.any() or usable.any(), unbounded, len(sources) < 2 or clock_error(sources) is not None),
        retried=sum(rows.retried for rows in sources),
        receiver_error_ns=largest([rows.receiver_error_ns for rows in sources]),
        skew_ns=skew(sources),
    )


def reason(measured: bool, unbounded: str, comparable: bool) -> str:
    """Return why a trial cannot be corrected, or "". ``unbounded``: why departures in bursts have no bound, or ""."""
    if not measured:
        return NOT_MEASURED
    return unbounded or ("" if comparable else NO_CLOCK_ERROR)


def queues_of(rows: Departures, timed: np.ndarray) -> list[np.ndarray]:
    """Return the indices of the timed packets of each Tx queue of each port; of each port if queues are unknown."""
    numbers = rows.port.astype(np.int64) << QUEUE_BITS
    if rows.queue is not None:
        numbers = numbers + rows.queue
    return [np.flatnonzero(timed & (numbers == number)) for number in np.unique(numbers)]


def keys_of(rows: Departures, numbering: Numbering) -> np.ndarray:
    """Return the key of each row. Raises UserError for a different recording, or for packets not in it."""
    if rows.recording_sha256 not in numbering.sha256:
        fix = "specify the recording that was replayed"
        message = f"departures of a different recording: SHA-256 {rows.recording_sha256}"
        raise UserError(message, where=rows.path, fix=fix)
    index = numbering.sha256.index(rows.recording_sha256)
    frames = numbering.frames[index]
    largest = int(rows.packet.max(initial=-1))
    if largest >= frames:
        raise UserError(f"packet {largest} is out of range: the recording has {frames} frames", where=rows.path)
    return numbering.first[index] + rows.loop.astype(np.int64) * frames + rows.packet


def lateness(rows: Departures, queue_rows: np.ndarray, burst_ns: int | None) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return for the packets of a queue: the number of the burst, how much later each may have departed, and whether
    all of these bounds are known.

    A queue sends in order, so a packet departs before the next burst of the queue.
    """
    stamps = rows.departed_ns[queue_rows]
    new = rows.burst_first[queue_rows] | (np.diff(stamps, prepend=stamps[:1]) != 0)
    new[:1] = True
    numbers = np.cumsum(new) - 1
    starts = stamps[new]
    spans = np.diff(starts).clip(0)
    open_end = (~rows.resolved & ~rows.burst_first)[queue_rows] & (numbers == len(starts) - 1)
    if burst_ns is None:
        bounded = len(spans) > 0 or not open_end.any()
        spans = np.append(spans, spans.max(initial=0))  # the last burst: as long as the longest earlier burst
    else:
        bounded = True
        spans = np.append(np.minimum(spans, burst_ns), burst_ns)
    exact = rows.resolved[queue_rows] | rows.burst_first[queue_rows]
    return numbers, np.where(exact, 0, spans[numbers]) if len(numbers) else numbers, bounded


def outcomes_of(sources: list[Departures]) -> dict[str, int]:
    """Return the number of packets that were not sent, by outcome."""
    names = sorted({name for rows in sources for name in rows.outcomes} - {SENT})
    return {name: sum(rows.outcomes.get(name, 0) for rows in sources) for name in names}


def clock_error(sources: list[Departures]) -> int | None:
    """Return the largest error of the replayers' clocks relative to their reference, or None if one is unknown."""
    return largest([rows.clock_error_ns for rows in sources])


def largest(errors_ns: list[int | None]) -> int | None:
    """Return the largest of some errors, or None if one is unknown."""
    return None if None in errors_ns else max(errors_ns)


def skew(sources: list[Departures]) -> float:
    """Return a bound for the difference between two replayers' clocks; 0 for one replayer, or if it is unknown."""
    if len(sources) < 2 or clock_error(sources) is None:
        return 0.0
    bounds = sorted(abs(rows.clock_offset_ns or 0) + rows.clock_error_ns for rows in sources)
    return float(sum(bounds[-2:]))


@dataclass(frozen=True)
class CorrectedTrial:
    """A trial corrected by its departures, and the affected packets."""

    trial: TimedTrial
    excluded: int  # arrived, but not sent or without a known departure in one of the trials
    arrived_unsent: int  # of these, packets that this trial's replayer reports as not sent
    other: int  # packets that are not in any recording


def correct(
    keys: np.ndarray, ts_ns: np.ndarray, own: Schedule, schedule_of_other: Schedule, sigma_ns: float
) -> CorrectedTrial:
    """Return a trial in order of corrected time, without packets that were not sent, or have no known departure, in
    one of the two trials. ``keys``, ``ts_ns``: the trial as returned by align.

    Packets that are not in any recording are corrected like the replayed packet before them.
    """
    size = len(own.usable)
    in_recording = keys < size
    number = np.where(in_recording, keys, 0).astype(np.int64) if size else np.zeros(len(keys), dtype=np.int64)
    usable = own.usable & schedule_of_other.usable
    compared = ~in_recording | (usable[number] if size else False)
    arrived_unsent = int((~own.sent[number[in_recording]]).sum())
    excluded = int(len(keys) - compared.sum())
    keys, ts_ns, in_recording, number = keys[compared], ts_ns[compared], in_recording[compared], number[compared]
    latest = np.maximum.accumulate(np.where(in_recording, np.arange(len(keys)), -1))
    has_latest = latest >= 0
    deviation = np.zeros(len(keys), dtype=np.int64)
    deviation[has_latest] = own.deviation_ns[number[latest[has_latest]]]
    order = np.argsort(ts_ns - deviation, kind="stable")
    times = (ts_ns - deviation)[order]
    keys, in_recording, number = keys[order], in_recording[order], number[order]
    late = np.where(in_recording, own.late_ns[number], 0) if size else number
    source = np.where(in_recording, own.source[number], -1) if size else number
    alternations = int((np.diff(source) != 0).sum()) if own.skew_ns else 0
    duration = float(times[-1] - times[0]) if len(times) else 0.0
    trial = TimedTrial(
        **{"keys": keys, "ts_ns": times, "late_ns": late, "run": runs(keys, in_recording, number, own)},
        **{"sigma_ns": sigma_ns, "drift_ns": drift(own, duration)},
        **{"skew_ns": own.skew_ns, "alternations": alternations},
    )
    return CorrectedTrial(trial, excluded, arrived_unsent, int((~in_recording).sum()))


def runs(keys: np.ndarray, in_recording: np.ndarray, number: np.ndarray, own: Schedule) -> np.ndarray:
    """Return the run number of each packet; a run: consecutive packets of one burst in order of departure."""
    if not len(keys) or not len(own.burst):
        return np.arange(len(keys))
    burst = np.where(in_recording, own.burst[number], -1)
    same = (np.diff(burst) == 0) & (burst[1:] >= 0) & (np.diff(keys.astype(np.int64)) > 0)
    return np.concatenate(([0], np.cumsum(~same)))


def drift(own: Schedule, duration_ns: float) -> float:
    """Return a bound for the drift of the replayers' clocks relative to the receiver's during a trial."""
    slewed = MAX_SLEW * duration_ns
    return slewed if own.receiver_error_ns is None else min(2.0 * own.receiver_error_ns, slewed)
