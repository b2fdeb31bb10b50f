"""Evidence of congestion at a mirror port, from the counters of the switch.

The counters cannot rule out that bursts were lost (docs/collect.md).

`acapella campaign analyze` computes the final verdict, with the evidence of the captured frames.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..testbeds.base import Direction, Rates, Readings, Telemetry, Testbed

FACTORS = {"rx": (0, 1), "tx": (1, 0), "both": (1, 1)}  # of the port's Tx and Rx: 1 if mirrored, otherwise 0
AT_RISK, CONGESTED, UNKNOWN = "at risk", "congested", "unknown"


@dataclass(frozen=True)
class MirrorPort:
    """The switch port that sends a mirror's copies to the receiver.

    Its rate and queue are None if unknown. A frame's length excludes FCS and preamble. On the line, a frame occupies
    its length plus `overhead_bytes`; the counters of the mirrored port count its length plus `counter_overhead_bytes`.
    """

    capacity_bps: int | None
    overhead_bytes: int = 24
    counter_overhead_bytes: int = 4
    buffer_bytes: int | None = None

    @classmethod
    def of(cls, testbed: Testbed, capacity_bps: int | None) -> "MirrorPort":
        """Return the mirror port of a testbed."""
        overheads = testbed.capacity_overhead_bytes, testbed.counter_overhead_bytes
        return cls(capacity_bps, *overheads, testbed.mirror_buffer_bytes)


def offered_bps(rates: Rates, direction: Direction) -> float:
    """Return the rate that a mirror has to carry: Mirrored(Tx) + Mirrored(Rx) for both (Patchwork, section 6.2.2)."""
    tx_factor, rx_factor = FACTORS[direction]
    return tx_factor * rates.tx_bps + rx_factor * rates.rx_bps


Series = Sequence[tuple[float, float]]


def mirrored(readings: Readings, direction: Direction) -> list[tuple[float, float]]:
    """Return (time in s, bytes to be mirrored since the first reading) for each reading of the port.

    After a counter reset, the bytes since the reset are added. If Tx and Rx are read at different times, Rx is
    interpolated at the Tx times.
    """
    tx_factor, rx_factor = FACTORS[direction]
    tx, rx = growth(readings.tx), growth(readings.rx)
    if not tx_factor:
        return rx
    return [(time, counted_bytes + rx_factor * interpolate(rx, time)) for time, counted_bytes in tx]


def readings_around(readings: Series, start_s: float, end_s: float) -> tuple[tuple[float, int], ...]:
    """Return the readings between two times, with the last one before and the first one after them."""
    first = max((time for time, _ in readings if time <= start_s), default=start_s)
    last = min((time for time, _ in readings if time >= end_s), default=end_s)
    return tuple((time, counted_bytes) for time, counted_bytes in readings if first <= time <= last)


def covers(congestion: Mapping[str, Any], end_ns: int) -> bool:
    """Return whether the readings in a manifest's key `congestion` extend to a time (ns since 1970)."""
    return bool(congestion["readings"]) and congestion["readings"][-1][0] >= end_ns


def mean_bps(readings: Series) -> float | None:
    """Return the mean rate between the first and the last reading; None for fewer than two readings."""
    counted = growth(readings)
    if len(counted) < 2 or counted[-1][0] <= counted[0][0]:
        return None
    return counted[-1][1] * 8 / (counted[-1][0] - counted[0][0])


def growth(readings: Series) -> list[tuple[float, float]]:
    """Return (time in s, bytes counted since the first reading) for each reading."""
    total, counted = 0.0, [(time_s, 0.0) for time_s, _ in readings[:1]]
    for (_, previous), (time_s, current) in pairwise(readings):
        total += current - previous if current >= previous else current
        counted.append((time_s, total))
    return counted


def interpolate(series: Series, time_s: float) -> float:
    """Return the bytes at a time between two readings; outside of them, the first or last value."""
    for (start, first), (end, last) in pairwise(series):
        if start <= time_s <= end and end > start:
            return first + (last - first) * (time_s - start) / (end - start)
    return series[-1][1] if series and time_s > series[-1][0] else 0.0


def peak_bps(series: Series) -> tuple[float, float] | None:
    """Return the highest rate between two successive readings (bit/s) and the time between them (s)."""
    rates = [
        ((last - first) * 8 / (end - start), end - start)
        for (start, first), (end, last) in pairwise(series)
        if end > start
    ]
    return max(rates, default=None)


def certain_loss(series: Series, start_s: float, end_s: float, port: MirrorPort) -> float:
    """Return the minimum share of bytes that a mirror must have lost between two times.

    All bytes counted by readings between the two times were offered. Meanwhile, the mirror can have delivered at most
    what the line rate allows plus a full queue. A queue of unknown size is assumed to hold 0.1 s at line rate.
    """
    counts = [counted_bytes for time_s, counted_bytes in series if start_s <= time_s <= end_s]
    if len(counts) < 2 or not port.capacity_bps:
        return 0.0
    offered = counts[-1] - counts[0]
    queue = port.buffer_bytes if port.buffer_bytes is not None else port.capacity_bps / 80
    carried = port.capacity_bps / 8 * (end_s - start_s) + queue
    return max(0.0, 1 - carried / offered) if offered else 0.0


def verdict(
    telemetry: Telemetry | None, name: str, direction: Direction, port: MirrorPort, span_ns: tuple[int, int]
) -> dict[str, Any]:
    """Return manifest key `congestion` for the mirrored port `name` between two times (ns since 1970).

    `congested`: the mean rate over some interval of the counters exceeds the capacity. Otherwise `at risk`, never
    `clear`, because counters do not show bursts within their interval. `unknown`: fewer than two readings, or no known
    capacity. `loss` contains bounds for the share of bytes lost.
    """
    start_s, end_s = span_ns[0] / 1e9, span_ns[1] / 1e9
    counted = telemetry.readings.get(name, Readings()) if telemetry else Readings()
    readings = Readings(readings_around(counted.tx, start_s, end_s), readings_around(counted.rx, start_s, end_s))
    tx, rx = mean_bps(readings.tx), mean_bps(readings.rx)
    series = mirrored(readings, direction)
    peak = peak_bps(series)
    result, low, high = UNKNOWN, None, None
    if peak is not None and port.capacity_bps:
        low, high = certain_loss(series, start_s, end_s, port), 1.0 if peak[0] else 0.0
        result = CONGESTED if peak[0] > port.capacity_bps else AT_RISK
    return {
        "verdict": result,
        "source": telemetry.source if telemetry else None,
        "seconds": series[-1][0] - series[0][0] if peak else None,
        "tx_bps": tx,
        "rx_bps": rx,
        "offered_bps": offered_bps(Rates(tx, rx), direction) if peak else None,
        "peak_bps": peak[0] if peak else None,
        "peak_seconds": peak[1] if peak else None,
        "capacity_bps": port.capacity_bps,
        "capacity_overhead_bytes": port.overhead_bytes,
        "counter_overhead_bytes": port.counter_overhead_bytes,
        "buffer_bytes": port.buffer_bytes,
        "loss": {"low": low, "high": high},
        "readings": [[round(time_s * 1e9), round(counted_bytes)] for time_s, counted_bytes in series],
    }
