"""Simulate two replays of a recording over a path, and compute the kappa that perfect replays would have measured.

Independent of the native core and of acapella.kappa. The path loses packets in bursts, delays them with correlated
jitter, and reorders some. The replayer sends late, in bursts of which only the first packet's departure is known. The
receiver adds its own error to each timestamp.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

START_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Path:
    """A path: sigma of the delay and its correlation between packets, shares of lost and of reordered packets.

    Every second packet takes a different route, whose extra delay is constant during a trial and has sigma
    ``route_ns``. ``reversed_blocks``: trial B has the last third of the packets first, in pairs 10 ns apart, then the
    second third, then the first third in reverse order. Which packets equation 2 keeps then depends on the order inside
    the pairs.
    """

    jitter_ns: float = 0.0
    correlation: float = 0.9
    loss: float = 0.0
    reordered: float = 0.0
    behind_ns: float = 40_000.0  # mean extra delay of a reordered packet
    route_ns: float = 0.0
    reversed_blocks: bool = False


@dataclass(frozen=True)
class Replayer:
    """A replayer: mean lateness, packets per burst, time of a packet on the wire, share that was not sent.

    Bursts are sent by ``queues`` in turn. Each queue sends in order, whatever the others do.
    ``drift_ns``: how much its clock changes during a trial, at an even rate; ``second_ns``: offset of the clock of a
    second replayer, which sends every second packet. Both are positive in trial A and negative in trial B.
    """

    late_ns: float = 0.0
    burst: int = 1
    wire_ns: float = 0.0
    unsent: float = 0.0
    stamp_error_ns: float = 0.0  # sigma
    drift_ns: float = 0.0
    second_ns: float = 0.0
    queues: int = 1


@dataclass(frozen=True)
class Setup:
    """A recording, a path, a replayer and the sigma of the receiver's timestamps; ``even``: their error is uniform."""

    packets: int = 4000
    gap_ns: float = 10_000.0
    path: Path = field(default_factory=Path)
    replayer: Replayer = field(default_factory=Replayer)
    receiver_error_ns: float = 0.0
    even: bool = False

    def with_packets(self, packets: int) -> "Setup":
        """Return the same with a different number of packets."""
        return replace(self, packets=packets)


@dataclass(frozen=True)
class Replay:
    """One replay: its departures by packet, and the arrivals in the order of time (number and time of each packet)."""

    requested_ns: np.ndarray
    departed_ns: np.ndarray  # as the replayer reports them
    true_ns: np.ndarray  # the real departures
    sent: np.ndarray
    resolved: np.ndarray
    burst_first: np.ndarray
    queue: np.ndarray
    number: np.ndarray
    arrived_ns: np.ndarray
    perfect_ns: np.ndarray  # by packet: arrival after a perfect replay
    delivered: np.ndarray  # by packet: whether the path delivers it


def recorded_offsets(setup: Setup, rng: np.random.Generator) -> np.ndarray:
    """Return the offsets of a recording's packets: half of each gap is constant, half is exponential."""
    gaps = setup.gap_ns * (0.5 + 0.5 * rng.exponential(size=setup.packets))
    return np.rint(np.cumsum(gaps) - gaps[0]).astype(np.int64)


def delays(setup: Setup, rng: np.random.Generator) -> np.ndarray:
    """Return the delay of each packet: an autoregressive series, and extra delay for reordered packets."""
    count, path = setup.packets, setup.path
    series = np.empty(count)
    steps = rng.normal(size=count) * path.jitter_ns * math.sqrt(1 - path.correlation**2)
    value = rng.normal() * path.jitter_ns
    for n in range(count):
        value = path.correlation * value + steps[n]
        series[n] = value
    behind = rng.random(count) < path.reordered
    series[behind] += rng.exponential(path.behind_ns, size=int(behind.sum()))
    if path.route_ns:
        series[1::2] += rng.normal() * path.route_ns
    return 1_000_000 + series


def losses(setup: Setup, rng: np.random.Generator) -> np.ndarray:
    """Return whether each packet is lost: runs of lost packets, of 3 on average."""
    lost = np.zeros(setup.packets, dtype=bool)
    for start in np.flatnonzero(rng.random(setup.packets) < setup.path.loss / 3):
        lost[start : start + rng.geometric(1 / 3)] = True
    return lost


def reversed_blocks(offsets: np.ndarray) -> np.ndarray:
    """Return the extra delay of each packet of trial B; see Path."""
    third = len(offsets) // 3
    number = np.arange(len(offsets))
    order = np.concatenate((number[2 * third :], number[third : 2 * third], number[:third][::-1]))
    arrival = offsets.copy()
    pairs = number[1 : len(offsets) - 2 * third : 2]
    arrival[pairs] = arrival[pairs - 1] + 10
    extra = np.empty(len(offsets))
    extra[order] = arrival - offsets[order]
    return extra - extra.min()


def clock_errors(replayer: Replayer, offsets: np.ndarray) -> np.ndarray:
    """Return the error of each packet's reported departure in trial A: that of its replayer's clock."""
    errors = replayer.drift_ns * offsets / offsets[-1]
    errors[1::2] += replayer.second_ns
    return errors


def queue_of(setup: Setup) -> np.ndarray:
    """Return the Tx queue of each packet."""
    return np.arange(setup.packets) // setup.replayer.burst % setup.replayer.queues


def departures(setup: Setup, offsets: np.ndarray, rng: np.random.Generator, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Return true and reported departures as offsets; a burst has the reported departure of its first packet."""
    replayer, count = setup.replayer, setup.packets
    first = np.arange(count) // replayer.burst * replayer.burst
    place = np.arange(count) - first
    late = rng.exponential(replayer.late_ns, size=count)[first] if replayer.late_ns else 0
    true = offsets[first] + late + place * replayer.wire_ns * rng.uniform(0.8, 1.0, size=count)[first]
    for queue in range(replayer.queues):
        own = queue_of(setup) == queue
        true[own] = np.maximum.accumulate(true[own])
    stated = true[first] + rng.normal(size=count)[first] * replayer.stamp_error_ns
    stated += sign * clock_errors(replayer, offsets)
    return true, np.rint(stated).astype(np.int64)


def replay(setup: Setup, offsets: np.ndarray, start_ns: int, rng: np.random.Generator, sign: int) -> Replay:
    """Return one replay; ``sign`` is 1 for trial A and -1 for trial B."""
    count = setup.packets
    true, stated = departures(setup, offsets, rng, sign)
    path = delays(setup, rng)
    if setup.path.reversed_blocks and sign < 0:
        path += reversed_blocks(offsets)
    sent = rng.random(count) >= setup.replayer.unsent
    delivered = ~losses(setup, rng)
    spread = rng.uniform(-math.sqrt(3), math.sqrt(3), size=count) if setup.even else rng.normal(size=count)
    arrived = np.rint(true + path + spread * setup.receiver_error_ns).astype(np.int64)
    seen = np.flatnonzero(sent & delivered)
    order = seen[np.argsort(arrived[seen], kind="stable")]
    first = np.arange(count) % setup.replayer.burst == 0
    return Replay(
        requested_ns=start_ns + offsets,
        departed_ns=start_ns + stated,
        true_ns=start_ns + np.rint(true).astype(np.int64),
        sent=sent,
        resolved=first.copy(),
        burst_first=first,
        queue=queue_of(setup),
        number=order,
        arrived_ns=start_ns + arrived[order],
        perfect_ns=np.rint(offsets + path).astype(np.int64),
        delivered=delivered,
    )


def two_replays(setup: Setup, seed: int) -> tuple[Replay, Replay]:
    """Return trials A and B, which start at different times."""
    rng = np.random.default_rng([20_251_028, seed])
    offsets = recorded_offsets(setup, rng)
    return replay(setup, offsets, START_NS, rng, 1), replay(setup, offsets, START_NS + 10**12, rng, -1)


def perfect_trial(one: Replay, other: Replay) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers and times of the packets that both replays sent, for perfect replays and timestamps."""
    seen = np.flatnonzero(one.delivered & one.sent & other.sent)
    order = seen[np.argsort(one.perfect_ns[seen], kind="stable")]
    return order, one.perfect_ns[order]


def kept_distance(ranks: list[int]) -> int:
    """Return the largest sum of |rank - place| of a longest increasing subsequence, with a Fenwick tree of maxima."""
    size = len(ranks)
    best = [(0, 0)] * (size + 1)
    for place, rank in enumerate(ranks):
        node, found = rank, (0, 0)
        while node > 0:
            found = max(found, best[node])
            node -= node & -node
        here = (found[0] + 1, found[1] + abs(rank - place))
        node = rank + 1
        while node <= size:
            best[node] = max(best[node], here)
            node += node & -node
    return max(best)[1]


def components(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Return U, O, L, I and kappa of two trials (numbers and times), by the equations of docs/kappa.md."""
    (number_a, ns_a), (number_b, ns_b) = a, b
    since_a = dict(zip(number_a.tolist(), (ns_a - ns_a[0]).tolist(), strict=True))
    gap_a = dict(zip(number_a.tolist(), np.diff(ns_a, prepend=ns_a[0]).tolist(), strict=True))
    since_b = dict(zip(number_b.tolist(), (ns_b - ns_b[0]).tolist(), strict=True))
    gap_b = dict(zip(number_b.tolist(), np.diff(ns_b, prepend=ns_b[0]).tolist(), strict=True))
    rank = {number: n for n, number in enumerate(number for number in since_a if number in since_b)}
    ranks = [rank[number] for number in since_b if number in since_a]
    common = len(ranks)
    duration_a, duration_b = int(ns_a[-1] - ns_a[0]), int(ns_b[-1] - ns_b[0])
    moved = sum(abs(r - n) for n, r in enumerate(ranks)) - kept_distance(ranks)
    found = {
        "U": (len(ns_a) + len(ns_b) - 2 * common) / (len(ns_a) + len(ns_b)),
        "O": moved / (common * (common + 1) / 2),
        "L": sum(abs(since_a[n] - since_b[n]) for n in rank) / (common * max(duration_a, duration_b)),
        "I": sum(abs(gap_a[n] - gap_b[n]) for n in rank) / (duration_a + duration_b),
    }
    return found | {"kappa": 1 - math.sqrt(sum(value**2 for value in found.values())) / 2}


def truth(a: Replay, b: Replay) -> dict[str, float]:
    """Return the components of the path alone."""
    return components(perfect_trial(a, b), perfect_trial(b, a))
