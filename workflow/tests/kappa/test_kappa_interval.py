"""The interval of the corrected kappa covers the true kappa of simulated paths, and shrinks with the errors."""

import itertools
import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from acapella_testing.generated import replay_files
from acapella_testing.oracles import naive_kappa, replay_simulation
from acapella_testing.oracles.replay_simulation import Path, Replayer, Setup
from acapella_testing.soak import SOAK

from acapella.kappa import interval, replay_result, replayed
from acapella.kappa.departures import Departures
from acapella_core import kappa as core

RUNS, PACKETS = (100, 4000) if SOAK else (20, 1000)
LATE_REPLAYER = Replayer(late_ns=2_000)
DISTURBED_PATH = Path(jitter_ns=1_000, loss=0.02, reordered=0.02)
USUAL_SETUP = Setup(replayer=LATE_REPLAYER, receiver_error_ns=20)
SHORT_GAPS = replace(USUAL_SETUP, gap_ns=300)
CLASSES = {
    "perfect path": USUAL_SETUP,
    "loss, small": replace(USUAL_SETUP, path=Path(loss=0.002)),
    "loss, large": replace(USUAL_SETUP, path=Path(loss=0.1)),
    "jitter, small": replace(USUAL_SETUP, path=Path(jitter_ns=100)),
    "jitter, large": replace(USUAL_SETUP, path=Path(jitter_ns=5_000)),
    "reordering, small": replace(USUAL_SETUP, path=Path(reordered=0.002)),
    "reordering, large": replace(USUAL_SETUP, path=Path(reordered=0.1)),
    "two routes": replace(USUAL_SETUP, path=Path(jitter_ns=200, route_ns=30_000)),
    "two routes, short gaps": replace(
        SHORT_GAPS, path=Path(jitter_ns=100, route_ns=2_000, loss=0.01), receiver_error_ns=30
    ),
    "all": replace(USUAL_SETUP, path=DISTURBED_PATH, replayer=replace(LATE_REPLAYER, unsent=0.01)),
    "all, in bursts": replace(
        USUAL_SETUP, path=DISTURBED_PATH, replayer=replace(LATE_REPLAYER, burst=8, wire_ns=50, unsent=0.01)
    ),
    "replayer worse than path": replace(
        USUAL_SETUP, path=Path(jitter_ns=100, loss=0.001), replayer=Replayer(late_ns=20_000)
    ),
    "receiver as bad as path": replace(USUAL_SETUP, path=Path(jitter_ns=300, loss=0.01), receiver_error_ns=300),
    "uniform errors": replace(USUAL_SETUP, path=Path(jitter_ns=100, loss=0.01), receiver_error_ns=100, even=True),
    "errors of departures and arrivals": Setup(
        path=Path(jitter_ns=500), replayer=replace(LATE_REPLAYER, stamp_error_ns=50), receiver_error_ns=30
    ),
    "short gaps": replace(
        SHORT_GAPS, path=Path(jitter_ns=100, loss=0.01), replayer=Replayer(late_ns=100), receiver_error_ns=10
    ),
    "reversed blocks": replace(USUAL_SETUP, path=Path(reversed_blocks=True)),
    "clock with drift": Setup(replayer=replace(LATE_REPLAYER, drift_ns=4_000), receiver_error_ns=1),
    "two replayers": Setup(replayer=replace(LATE_REPLAYER, second_ns=1_000), receiver_error_ns=1),
    "two replayers, short gaps": Setup(
        gap_ns=300, replayer=replace(LATE_REPLAYER, second_ns=1_000), receiver_error_ns=1
    ),
}
NAMES = ("U", "O", "L", "I", "kappa")


def sources_of(replayer: Replayer, replay: replay_simulation.Replay) -> list[Departures]:
    """Return the departures of each replayer, whose clocks have exactly the stated errors."""
    rows = replace(replay_files.rows_of(replay), receiver_error_ns=math.ceil(replayer.drift_ns / 2))
    if not replayer.second_ns:
        return [rows]
    arrays = [name for name, value in vars(rows).items() if isinstance(value, np.ndarray)]
    first, second = (replace(rows, **{name: getattr(rows, name)[n::2] for name in arrays}) for n in range(2))
    return [first, replace(second, clock_offset_ns=math.ceil(replayer.second_ns))]


def estimate(setup: Setup, a, b, *, burst_error: bool = True) -> dict:
    """Return the corrected components with their limits, as the command computes them from files.

    ``burst_error``: whether the longest time from the first to the last departure of a burst is given.
    """
    burst_ns = math.ceil((setup.replayer.burst - 1) * setup.replayer.wire_ns) if burst_error else None
    numbering = replayed.Numbering(["r"], [setup.packets], [1])
    sigma_ns = math.hypot(setup.receiver_error_ns, setup.replayer.stamp_error_ns)
    own = [replayed.schedule_of(sources_of(setup.replayer, replay), numbering, burst_ns) for replay in (a, b)]
    trials = [
        replayed.correct(replay.number.astype(np.uint32), replay.arrived_ns, own[at], own[1 - at], sigma_ns).trial
        for at, replay in enumerate((a, b))
    ]
    native = core.compare_numbered(*((trial.keys, trial.ts_ns) for trial in trials))
    return replay_result.bounded(native, trials, core.compare_numbered)


def runs_of(setup: Setup, seeds: range, **options) -> list[tuple[dict, dict]]:
    """Return (truth, estimate) of several seeds. ``options``: those of `estimate`."""
    pairs = [replay_simulation.two_replays(setup, seed) for seed in seeds]
    return [(replay_simulation.truth(a, b), estimate(setup, a, b, **options)) for a, b in pairs]


def covers(truth: dict, found: dict, name: str) -> bool:
    """Return whether the interval contains the true value; the reference divides in floating point."""
    return found[f"{name}_lo"] - 1e-12 <= truth[name] <= found[f"{name}_hi"] + 1e-12


def width(found: dict, name: str = "kappa") -> float:
    """Return the width of an interval."""
    return found[f"{name}_hi"] - found[f"{name}_lo"]


@pytest.mark.parametrize("name", CLASSES)
def test_interval_covers_the_true_kappa(name, record_property):
    setup, replayer = CLASSES[name], CLASSES[name].replayer
    runs = runs_of(setup.with_packets(PACKETS), range(RUNS))
    covered = {part: sum(covers(truth, found, part) for truth, found in runs) for part in NAMES}
    record_property("covered", covered)
    assert covered == dict.fromkeys(NAMES, RUNS), "the seeds are fixed, so fewer would be a change of the limits"
    # A random error of sigma changes a gap by 2 sigma between two trials. I is relative to the mean gap.
    error = 2 * math.hypot(setup.receiver_error_ns, replayer.stamp_error_ns) + 2 * replayer.wire_ns
    # A drift D changes L by up to 3 D and I by up to 2 D of the duration; an offset S changes a gap by 2 S.
    clocks = 2 * replayer.drift_ns / PACKETS + 2 * replayer.second_ns
    lost = statistics.median(1 - truth["kappa"] for truth, _ in runs)
    assert statistics.median(width(found) for _, found in runs) < lost + (error + clocks) / setup.gap_ns


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        *((name, (250, 1_000, 4_000)) for name in ("perfect path", "loss, large", "jitter, small")),
        # If the path reorders, there are swaps of close packets that errors may have caused. These are rare in short
        # trials, so widths of few packets vary too much.
        *((name, (4_000, 16_000, 64_000) if SOAK else (4_000, 32_000)) for name in ("reordering, large", "all")),
    ],
)
def test_interval_shrinks_with_the_number_of_packets(name, sizes):
    runs = [runs_of(CLASSES[name].with_packets(packets), range(9 if SOAK else 5)) for packets in sizes]
    medians = [statistics.median(width(found) for _, found in each) for each in runs]
    assert all(later < earlier for earlier, later in itertools.pairwise(medians))


@pytest.mark.parametrize("name", ["perfect path", "loss, large", "jitter, small", "reordering, large", "all"])
def test_interval_shrinks_to_the_true_kappa_with_the_errors(name):
    setup = replace(CLASSES[name].with_packets(1_000), receiver_error_ns=0.0)
    # Without errors of timestamps the correction is exact except for the rounding of times to 1 ns.
    ((truth, found),) = runs_of(setup, range(1, 2))
    for part in NAMES:
        assert width(found, part) == 0
        assert found[part] == pytest.approx(truth[part], abs=4 / setup.gap_ns)
    noisy = [runs_of(replace(setup, receiver_error_ns=error_ns), range(1, 2)) for error_ns in (1.0, 10.0, 100.0)]
    widths = [width(found) for ((_, found),) in noisy]
    assert 0 < widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize("seed", range(5))
def test_measured_kappa_differs_from_that_of_the_path(seed):
    """The simulation needs a correction: the measured kappa is outside the interval in nearly every run."""
    setup = CLASSES["replayer worse than path"].with_packets(PACKETS)
    a, b = replay_simulation.two_replays(setup, seed)
    measured = replay_simulation.components((a.number, a.arrived_ns), (b.number, b.arrived_ns))["kappa"]
    found = estimate(setup, a, b)
    assert not found["kappa_lo"] <= measured <= found["kappa_hi"]


@pytest.mark.parametrize("name", ["perfect path", "jitter, small", "loss, large", "all"])
@pytest.mark.parametrize("factor", [2, 10])
@pytest.mark.parametrize("seed", range(5))
def test_overstated_errors_keep_coverage(name, factor, seed):
    """A stated error is the largest one: the interval is wider if the true error is smaller."""
    setup = CLASSES[name].with_packets(500)
    a, b = replay_simulation.two_replays(setup, seed)
    found = estimate(replace(setup, receiver_error_ns=factor * setup.receiver_error_ns), a, b)
    assert all(covers(replay_simulation.truth(a, b), found, part) for part in NAMES)
    assert width(found) > width(estimate(setup, a, b))


def test_understated_errors_lose_coverage():
    """The test above can fail: with errors stated ten times too small, most intervals miss the true kappa."""
    setup = CLASSES["receiver as bad as path"].with_packets(1_000)
    understated = replace(setup, receiver_error_ns=setup.receiver_error_ns / 10)
    pairs = [replay_simulation.two_replays(setup, seed) for seed in range(10)]
    assert sum(covers(replay_simulation.truth(a, b), estimate(understated, a, b), "kappa") for a, b in pairs) <= 2


def test_departures_of_several_queues_are_within_their_bounds():
    """Packets of a burst depart while the other queue sends its next burst. Bounds by port would be too small."""
    replayer = Replayer(late_ns=500, burst=4, wire_ns=12_000, queues=2)
    setup = Setup(packets=400, path=Path(jitter_ns=100), replayer=replayer, receiver_error_ns=20)
    numbering = replayed.Numbering(["r"], [setup.packets], [1])
    a, _ = replay_simulation.two_replays(setup, 1)
    rows, after = replay_files.rows_of(a), a.true_ns - a.departed_ns
    found = replayed.schedule_of([rows], numbering, None)
    assert not found.unknown and (after <= found.late_ns).all()
    one_queue = replayed.schedule_of([replace(rows, queue=np.zeros_like(rows.queue))], numbering, None)
    assert (after > one_queue.late_ns).sum() > 20
    assert len(np.unique(found.burst)) == setup.packets // replayer.burst


def test_interval_of_several_queues_covers_the_true_kappa_without_a_burst_error():
    replayer = Replayer(late_ns=500, burst=4, wire_ns=12_000, queues=3)
    setup = Setup(packets=PACKETS, path=DISTURBED_PATH, replayer=replayer, receiver_error_ns=20)
    assert all(covers(*run, name) for run in runs_of(setup, range(RUNS // 2), burst_error=False) for name in NAMES)


def bias(x: np.ndarray, error: float) -> np.ndarray:
    """Return E|x + error e| - |x| for a standard normal e."""
    if not error:
        return np.zeros(len(x))
    u = x / error
    density = np.exp(-0.5 * u**2) / math.sqrt(2 * math.pi)
    return error * (2 * density - 2 * u * upper_tail(u))


def upper_tail(u: np.ndarray) -> np.ndarray:
    """Return the probability that a standard normal variable is larger."""
    return np.array([math.erfc(value / math.sqrt(2)) / 2 for value in u])


def expectation(x: np.ndarray, error: float) -> np.ndarray:
    """Return E k(x + error e): a Gaussian of width t becomes one of width sqrt(t^2 + error^2)."""
    kernel = zip(interval.KERNEL, interval.WIDTHS, strict=True)
    return sum(w * t / math.hypot(t, error) * np.exp(-0.5 * x**2 / (t**2 + error**2)) for w, t in kernel)


@pytest.mark.parametrize("error", [0, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 1])
def test_kernel_bounds_the_bias_of_absolute_values(error):
    x = np.linspace(0, 12, 24_001)
    assert (expectation(x, error) >= bias(x, error)).all()


def test_swap_kernel_bounds_the_probability_of_a_swap():
    x = np.linspace(0, 12, 24_001)  # in standard deviations of the distance
    assert (0.7072 / math.sqrt(2) * np.exp(-0.25 * x**2) >= upper_tail(x)).all()


@pytest.mark.parametrize("seed", range(300))
def test_order_limits_contain_every_order_within_bounded_errors(seed):
    """Bounded errors only, so the limits have to hold in every case, not only in 95 % of cases."""
    rng = np.random.default_rng(seed)
    count, late_ns = int(rng.integers(2, 14)), int(rng.integers(0, 4))
    true, found = [], []
    for _ in range(2):
        keys = np.flatnonzero(rng.random(count) < 0.9)
        perfect = (keys if rng.random() < 0.5 else rng.permutation(keys)) * 3 + rng.integers(0, 4, size=len(keys))
        late = rng.integers(0, late_ns + 1, size=len(keys))
        observed = perfect + rng.integers(0, late + 1)
        order = np.argsort(observed, kind="stable")
        bounds = {"late_ns": late[order], "run": np.arange(len(keys)), "sigma_ns": 0.0, "drift_ns": 0.0}
        found.append(interval.TimedTrial(keys[order].astype(np.uint32), observed[order], **bounds))
        order = np.argsort(perfect, kind="stable")
        true.append((keys[order].astype(np.uint32), perfect[order]))

    def distance_of(chosen_a, chosen_b) -> int:
        pairs = zip(found, (chosen_a, chosen_b), strict=True)
        sides = [(trial.keys[chosen], trial.ts_ns[chosen]) for trial, chosen in pairs]
        return core.compare_numbered(*sides)["order"]["distance"]

    native = core.compare_numbered(*true)
    if not native["n_common"]:
        return
    low, high = interval.order_limits(*found, distance_of)
    assert low <= native["order"]["distance"] <= high
    if not any(trial.late_ns.any() for trial in found):
        assert low == high


@pytest.mark.parametrize("seed", range(20))
def test_duration_by_wrong_clocks_is_within_its_error(seed):
    """Two replayers, whose clocks differ and change during the trial, send the first and the last packet."""
    rng = np.random.default_rng(seed)
    bounds = {"drift_ns": float(rng.integers(0, 5000)), "skew_ns": float(rng.integers(0, 5000))}
    late = rng.integers(0, 3000, size=3)
    true = np.array([0, 4000, int(rng.integers(10_000, 10**6))])

    def error(drift: float, skew: float, late_shares: np.ndarray) -> float:
        """Return the error of the duration; the arguments are shares of the bounds, from -1 or 0 to 1."""
        clock = drift * bounds["drift_ns"] * true / true[-1] + np.array([0, 0, skew * bounds["skew_ns"]])
        observed = np.round(true + clock + late_shares * late).astype(np.int64)
        return float(observed[-1] - observed[0] - (true[-1] - true[0]))

    trial = interval.TimedTrial(np.arange(3, dtype=np.uint32), true, late, np.arange(3), sigma_ns=0.0, **bounds)
    allowed = interval.duration_error(trial)
    for _ in range(50):
        assert abs(error(*rng.uniform(-1, 1, size=2), rng.uniform(0, 1, size=3))) <= allowed + 1
    worst = error(1, 1, np.array([0, 0, 1]))
    assert worst == allowed - late[0], "no smaller bound would do, except for the first packet's delay"
    assert error(-1, -1, np.array([1, 0, 0])) == -(allowed - late[-1])


@pytest.mark.parametrize("seed", range(6))
def test_simulation_agrees_with_the_naive_reference(seed):
    setup = replace(CLASSES["all"], packets=120, path=Path(jitter_ns=3_000, loss=0.05, reordered=0.2))
    a, b = replay_simulation.two_replays(setup, seed)
    perfect = [replay_simulation.perfect_trial(*pair) for pair in ((a, b), (b, a))]
    trials = [[naive_kappa.Packet(int(ns), (n,)) for n, ns in zip(*trial, strict=True)] for trial in perfect]
    naive = naive_kappa.compare(*trials)
    assert replay_simulation.truth(a, b) == pytest.approx({part: float(naive[part]) for part in NAMES}, rel=1e-12)
