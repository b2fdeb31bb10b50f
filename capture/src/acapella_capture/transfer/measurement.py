"""Measures a slice before its grid: round-trip time, rate and queue of every path.

The rate is the arrival rate of datagrams that waited for at least half of the queue. The queue is the median number of
datagrams in a full queue, times their size. Both are measured at the hosts, not read from the settings.
"""

import bisect
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from acapella_core.errors import OUTSIDE, UserError, exit_code_of
from acapella_core.topology import Topology

from ..testbeds.local.processes import wait_until
from . import probe
from .grid import Cell
from .nodes import Nodes
from .topology import CLIENT_PORT, SERVER_PORT

TOLERANCE = 0.05
MIN_DELAY_ERROR_NS = 200_000  # for short delays, 5 % is less than the jitter of a shared machine
QUEUE_ERROR_BYTES = 1.5 * probe.FRAME  # a queue contains only whole frames
ROUND_TRIPS = 10  # per path and delay
RTT_TIMEOUT_S = 30
TRIES = 2  # attempts per probe
SATURATED_S = 0.25  # duration over which the rate is measured
OVERLOAD = 3  # rate of the probe, relative to the link's rate
MIN_OVERLOAD = 1.2  # below this, the queue may not be full, so rate and queue may be too small
LISTEN_S = 20
MIN_ARRIVALS = 10
QUANTILE = 0.9  # of the numbers of frames in a queue that may have been full


@dataclass(frozen=True)
class PathMeasurement:
    """The values measured on a path."""

    path: str
    rtt_base_ns: int
    rtt_ns: int
    rate_bps: int | None  # None: the probe was too slow to fill the queue
    buffer_bytes: int | None
    rate_at_least_bps: int | None = (
        None  # only if the probe was too slow: the rate is between this and the requested rate
    )


class Measurements:
    """Measures a slice with the settings of a grid: each delay once, and each combination of rate and queue once."""

    def __init__(self, nodes: Nodes, topology: Topology, apply: Callable[[Cell], None], scratch: Path):
        self._scratch = scratch
        self._nodes = nodes
        self._topology = topology
        self._apply = apply  # applies the settings of a cell to the slice
        self._rtt: dict[tuple[str, int], int] = {}  # by path and delay
        # by queue_key and path: the last fields of PathMeasurement
        self._queues: dict[tuple, dict[str, tuple[int | None, ...]]] = {}
        self._errors: dict[object, str] = {}  # of probes that failed, by delay or queue_key

    def measure(self, cells: list[Cell]) -> None:
        """Measure the slice with the settings of the cells. `error_of` returns the error of a probe that failed.

        Raises UserError for an error outside of the slice, such as a full disk.
        """
        by_delay = {cell.delay_ns: cell for cell in cells}
        if cells and 0 not in by_delay:
            by_delay[0] = Cell(**{**asdict(cells[0]), "delay_ns": 0})
        for delay, cell in sorted(by_delay.items()):
            if (self._measured_paths()[0], delay) not in self._rtt:
                self._attempt(delay, lambda cell=cell: self._measure_delay(cell))
        for cell in cells:
            if (key := queue_key(cell)) not in self._queues and key not in self._errors:
                self._attempt(key, lambda cell=cell: self._measure_queue(cell))

    def error_of(self, cell: Cell) -> str | None:
        """Return the error of a probe for the settings of a cell; None if all succeeded."""
        return next((self._errors[key] for key in (0, cell.delay_ns, queue_key(cell)) if key in self._errors), None)

    def round_trip_ns(self, cell: Cell) -> int:
        """Return the longest round-trip time of all paths with the delay of a cell.

        If the delay was not measured by this process: the sum of the delay and the round-trip time without delay.
        """
        paths = self._measured_paths()
        base_times = [self._rtt.get((path, 0), 0) for path in paths]
        return max(
            self._rtt.get((path, cell.delay_ns), base + cell.delay_ns)
            for path, base in zip(paths, base_times, strict=True)
        )

    def _attempt(self, key: object, measure: Callable[[], None]) -> None:
        """Measure, retry after a failure, and store the error of the last attempt."""
        for _ in range(TRIES):
            try:
                measure()
            except UserError as error:
                if exit_code_of(error) == OUTSIDE:
                    raise
                self._errors[key] = f"probe: {error}"
            else:
                self._errors.pop(key, None)
                return

    def _measure_delay(self, cell: Cell) -> None:
        self._apply(without_loss(cell))
        for path in self._measured_paths():
            self._rtt[path, cell.delay_ns] = self._round_trip(path)

    def _measure_queue(self, cell: Cell) -> None:
        self._apply(without_loss(Cell(**{**asdict(cell), "delay_ns": 0})))
        self._queues[queue_key(cell)] = {path: self._fill(cell, path) for path in self._measured_paths()}

    def of(self, cell: Cell) -> list[PathMeasurement]:
        """Return the measurements of a cell's settings, one per path. Only valid if `error_of` returns None."""
        return [
            PathMeasurement(path, self._rtt[path, 0], self._rtt[path, cell.delay_ns], *measured)
            for path, measured in self._queues[queue_key(cell)].items()
        ]

    def _measured_paths(self) -> list[str]:
        """Return the paths that the ports of a flow select; if a hash selects them, only the first path."""
        names = list(self._topology.paths)
        return names[:1] if self._topology.path_of_flow(0) is None else names

    def _round_trip(self, path: str) -> int:
        """Return the median round-trip time of a path in ns."""
        number = list(self._topology.paths).index(path)
        sender, receiver = self._topology.sender, self._topology.receiver
        ports = (SERVER_PORT + number, CLIENT_PORT + number)
        arguments = [self._topology.address(receiver), *map(str, (*ports, ROUND_TRIPS))]
        script = [*self._nodes.python(sender, Path(probe.__file__)), "rtt", *arguments]
        done = self._nodes.run(sender, script, timeout_s=RTT_TIMEOUT_S)
        times = json.loads(done.stdout) if done.status == 0 else []
        if not times:
            lines = done.stderr.strip().splitlines() or [f"all {ROUND_TRIPS} connections timed out"]
            raise UserError(f"no reply from {receiver} over path {path}: {lines[-1]}", where=f"node {sender}")
        return round(statistics.median(times))

    def _fill(self, cell: Cell, path: str) -> tuple[int | None, ...]:
        """Fill the queue of a path; return the last fields of its PathMeasurement."""
        number = list(self._topology.paths).index(path)
        rate = self._topology.rate_of_path(path, cell.rate_bps, cell.ratio)
        bucket = cell.buffer_bytes if cell.mode == "published" else 0
        filling = (cell.buffer_bytes + bucket) * OVERLOAD / (OVERLOAD - 1)
        total = round(1.2 * filling + SATURATED_S * OVERLOAD * rate / 8)
        arrivals = self._send(SERVER_PORT + number, OVERLOAD * rate, total, CLIENT_PORT + number)
        return measured_link(arrivals, rate, where=f"path {path}")

    def _send(self, port: int, rate_bps: int, total: int, source_port: int) -> list[list[int]]:
        """Send datagrams from the sender to the receiver; return their arrivals."""
        script = Path(probe.__file__)
        sender, receiver = self._topology.sender, self._topology.receiver
        seconds = total * 8 / rate_bps * OVERLOAD + LISTEN_S
        job = self._nodes.start(
            receiver,
            [*self._nodes.python(receiver, script), "receive", str(port), str(LISTEN_S)],
            output="probe.json",
        )
        if not wait_until(lambda: "listening" in job.log() or job.poll() is not None, timeout_s=LISTEN_S):
            job.signal("KILL")
            raise UserError("the probe does not listen", where=f"node {receiver}")
        arguments = [self._topology.address(receiver), str(port), str(rate_bps), str(total), str(source_port)]
        done = self._nodes.run(sender, [*self._nodes.python(sender, script), "send", *arguments], timeout_s=2 * seconds)
        if done.status != 0 or job.wait(seconds) != 0:
            job.signal("KILL")
            lines = (done.stderr or job.log()).strip().splitlines()
            raise UserError(f"the probe failed: {lines[-1] if lines else 'no message'}", where=f"node {sender}")
        arrivals = self._scratch / "probe.json"
        self._nodes.fetch(receiver, "probe.json", arrivals)
        return json.loads(arrivals.read_text(encoding="utf-8"))


def without_loss(cell: Cell) -> Cell:
    """Return a cell without loss and reordering."""
    return Cell(**{**asdict(cell), "loss_percent": 0, "reorder_percent": 0})


def queue_key(cell: Cell) -> tuple:
    """Return the settings that rate and queue of a link depend on."""
    return cell.rate_bps, cell.buffer_bytes, cell.ratio


def measured_link(arrivals: list[list[int]], rate_bps: int, *, where: object) -> tuple[int | None, ...]:
    """Return rate and queue of a link from arrivals of the probe, and a lower bound of the rate if the probe was slow.

    ``rate_bps``: the requested rate. If the machine cannot send MIN_OVERLOAD times as fast, the queue may be empty at
    times. Then rate and queue are None if the queue was never full; otherwise, they may be too small.

    Raises UserError if the probe was fast enough but did not fill the queue, or if too few datagrams arrived.
    """
    slow = len(arrivals) >= MIN_ARRIVALS and sent_bps(arrivals) < MIN_OVERLOAD * rate_bps
    try:
        found = rate_and_queue(arrivals, where=where)
    except UserError:
        if not slow:
            raise
        found = (None, None)
    return (*found, arrived_bps(arrivals)) if slow else found


def sent_bps(arrivals: list[list[int]]) -> float:
    """Return the rate at which the probe sent its datagrams, including those that did not arrive, in bit/s."""
    (first, start, _, _), (last, end, _, _) = arrivals[0], arrivals[-1]
    return (last - first) * probe.FRAME * 8e9 / max(1, end - start)


def arrived_bps(arrivals: list[list[int]]) -> int:
    """Return the rate at which datagrams arrived, in bit/s: a lower bound of the link's rate."""
    return round((len(arrivals) - 1) * probe.FRAME * 8e9 / max(1, arrivals[-1][2] - arrivals[0][2]))


def rate_and_queue(arrivals: list[list[int]], *, where: object) -> tuple[int, int]:
    """Return the rate in bit/s and the queue in bytes, from arrivals of the probe at a full queue.

    ``arrivals``: number, time sent, time of arrival, time when the predecessor was sent, in ns.

    Only gaps between two datagrams that both waited for at least half of the queue count for the rate: the link was
    busy in between, even if the sender of the probe was not scheduled for some time.

    A datagram that is queued immediately after a drop took the last free place in the queue: a frame had just left. The
    queue is the median number of frames that were in the queue after such a datagram was added, times the frame size.
    Late arrivals do not change a median. Unlike a waiting time, a number of frames does not grow while the link pauses.
    A frame has left the queue once a later frame arrives, so a single late timestamp has no effect. If the machine is
    so busy that there are too few such datagrams, the queue is the 90 % quantile over all datagrams sent after a
    dropped one: a pause of the sender between the two can only make the number smaller.

    Raises UserError if too few datagrams arrived, or if they did not fill the queue.
    """
    if len(arrivals) < MIN_ARRIVALS:
        raise UserError(f"only {len(arrivals)} datagrams of the probe arrived", where=where)
    delays = [arrived - sent for _, sent, arrived, _ in arrivals]
    after_drops = [index for index in range(1, len(arrivals)) if arrivals[index][0] > arrivals[index - 1][0] + 1]
    if len(after_drops) < MIN_ARRIVALS:
        raise UserError("the probe did not fill the queue", where=where)
    min_delay = min(delays)  # one-way time with an empty queue: nothing makes a datagram faster
    median_wait = statistics.median(delays[index] for index in after_drops) - min_delay
    queued = [delay - min_delay > median_wait / 2 for delay in delays]
    gaps = [
        after[2] - before[2]
        for (before, after), waited in zip(pairwise(arrivals), pairwise(queued), strict=True)
        if all(waited)
    ]
    if len(gaps) < MIN_ARRIVALS or sum(gaps) <= 0:
        raise UserError("the probe did not fill the queue", where=where)
    frame_ns = sum(gaps) / len(gaps)
    full = [index for index in after_drops if arrivals[index][1] - arrivals[index][3] < frame_ns / 2]
    # for each frame, a time at which it had left the queue
    departed = [*accumulate((arrived - min_delay for _, _, arrived, _ in reversed(arrivals)), min)][::-1]
    chosen, share = (full, 0.5) if len(full) >= MIN_ARRIVALS else (after_drops, QUANTILE)
    lengths = sorted(index + 1 - bisect.bisect_right(departed, arrivals[index][1]) for index in chosen)
    return round(probe.FRAME * 8e9 / frame_ns), lengths[int(share * len(lengths))] * probe.FRAME


def measured_values(found: list[PathMeasurement]) -> dict[str, Any]:
    """Return the measured part of `cell.json`. Values outside of `paths` are those of the first path."""
    first = found[0]
    return {
        "rtt_base_ns": first.rtt_base_ns,
        "rtt_ns": first.rtt_ns,
        "rate_bps": first.rate_bps,
        "buffer_bytes": first.buffer_bytes,
        "rate_at_least_bps": first.rate_at_least_bps,
        "paths": [asdict(measurement) for measurement in found],
    }


def delay_error_ns(cell: Cell) -> float:
    """Return the tolerated error of a cell's delay."""
    return max(TOLERANCE * cell.delay_ns, MIN_DELAY_ERROR_NS)


def is_off(value: int | None, requested: float, error: float, *, above_only: bool) -> bool:
    """Return whether a measured value differs from the requested value by more than an error; False without a value."""
    if value is None:
        return False
    return value - requested > error or (not above_only and requested - value > error)


def flags_of(cell: Cell, topology: Topology, found: list[PathMeasurement]) -> list[str]:
    """Return the flags of a measurement: values outside of the tolerance, and a probe that was too slow."""
    flags = set()
    for measurement in found:
        rate = topology.rate_of_path(measurement.path, cell.rate_bps, cell.ratio)
        slow = measurement.rate_at_least_bps is not None  # then values below the request do not show an error
        if slow:
            flags.add("probe_limited")
        bounds = ((measurement.rate_bps, slow), (measurement.rate_at_least_bps, True))
        if any(is_off(value, rate, TOLERANCE * rate, above_only=above_only) for value, above_only in bounds):
            flags.add("rate_off")
        error = max(TOLERANCE * cell.buffer_bytes, QUEUE_ERROR_BYTES)
        if is_off(measurement.buffer_bytes, cell.buffer_bytes, error, above_only=slow):
            flags.add("buffer_off")
        error = abs(measurement.rtt_ns - measurement.rtt_base_ns - cell.delay_ns)
        if error > delay_error_ns(cell):
            flags.add("delay_off")
    return sorted(flags)
