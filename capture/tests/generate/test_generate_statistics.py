"""Gaps and sizes of generated captures have the distributions of their models.

Mean and variance are compared with theory at 5 standard errors, if the theoretical moments are finite, and the
distribution with a Kolmogorov-Smirnov test at a significance of 1e-6. The seed is fixed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from acapella_capture.generate.program import output_of

PACKETS = 40_001
LEVEL = 1e-6
ERRORS = 5.0
HEAD = f"""
seed: 20261127
flows:
  - headers: [ethernet, {{ipv4: {{src: 10.0.0.1, dst: 10.0.0.2}}}}, {{udp: {{src: 1, dst: 2}}}}]
    packets: {PACKETS}
"""


def critical_value(count: int) -> float:
    """Return the critical value of the Kolmogorov-Smirnov statistic (Smirnov's limit; Massey, 1951)."""
    return math.sqrt(-math.log(LEVEL / 2) / (2 * count))


def statistic(values: np.ndarray, below: Callable, at_most: Callable) -> float:
    """Return the largest distance between the empirical distribution and P(X < x), P(X <= x)."""
    values, counts = np.unique(values, return_counts=True)
    upper = np.cumsum(counts) / counts.sum()
    lower = upper - counts / counts.sum()
    return float(max(np.abs(upper - at_most(values)).max(), np.abs(lower - below(values)).max()))


@dataclass(frozen=True)
class Law:
    """A distribution: P(X <= x) of its integer values, mean, variance, and fourth central moment (None: infinite)."""

    text: str
    at_most: Callable
    mean: float
    variance: float | None
    fourth: float | None

    def check(self, values: np.ndarray) -> None:
        """Compare values with the distribution."""
        count = len(values)
        assert statistic(values, lambda x: self.at_most(x - 1), self.at_most) < critical_value(count)
        if self.variance is not None:
            assert abs(values.mean() - self.mean) <= ERRORS * math.sqrt(self.variance / count)
        if self.fourth is not None:
            error = math.sqrt(max(self.fourth - self.variance**2, 0) / count)
            assert abs(values.var() - self.variance) <= ERRORS * error + 1e-9


def exponential(mean: float) -> Law:
    """Return gaps of a Poisson process, rounded to ns."""
    at_most = np.vectorize(lambda x: -math.expm1(-(x + 0.5) / mean) if x >= 0 else 0.0)
    return Law(f"poisson: {{mean_ns: {mean}}}", at_most, mean, mean**2, 9 * mean**4)


def pareto(mean: float, shape: float) -> Law:
    """Return gaps of a Pareto distribution, rounded to ns."""
    minimum = mean * (shape - 1) / shape
    at_most = np.vectorize(lambda x: 1 - (minimum / (x + 0.5)) ** shape if x + 0.5 > minimum else 0.0)

    def moment(order: int) -> float:
        return shape * minimum**order / (shape - order)

    variance = moment(2) - mean**2 if shape > 2 else None
    fourth = moment(4) - 4 * mean * moment(3) + 6 * mean**2 * moment(2) - 3 * mean**4 if shape > 4 else None
    return Law(f"pareto: {{mean_ns: {mean}, shape: {shape}}}", at_most, mean, variance, fourth)


def on_off(gap: int, on: float, off: float) -> Law:
    """Return gaps in bursts of floor(X / gap) + 1 packets, X exponential. An exponential pause follows each burst."""
    last = -math.expm1(-gap / on)  # the probability that a packet is the last one of its burst

    def at_most(x):
        x = np.asarray(x, float)
        pause = np.where(x >= gap, -np.expm1(-(np.maximum(x - gap, 0) + 0.5) / off), 0.0)
        return np.where(x >= gap, (1 - last) + last * pause, 0.0)

    mean = gap + last * off
    central = [sum(math.comb(order, k) * (-last * off) ** (order - k) * (last * math.factorial(k) * off**k if k else 1)
                   for k in range(order + 1)) for order in (2, 4)]  # fmt: skip
    durations = [f"{{exponential: {{mean_ns: {mean_ns}}}}}" for mean_ns in (on, off)]
    return Law(f"on_off: {{gap_ns: {gap}, burst: {durations[0]}, pause: {durations[1]}}}", at_most, mean, *central)


def of_values(text: str, probability: dict[int, float]) -> Law:
    """Return a distribution of few values."""
    values = np.array(sorted(probability))
    sums = np.cumsum([probability[value] for value in values])
    mean = sum(value * p for value, p in probability.items())
    moments = [sum((value - mean) ** order * p for value, p in probability.items()) for order in (2, 4)]

    def at_most(x):
        index = np.searchsorted(values, x, side="right")
        return np.where(index > 0, sums[np.maximum(index - 1, 0)], 0.0)

    return Law(text, at_most, mean, *moments)


def uniform(lowest: int, highest: int) -> Law:
    """Return sizes from ``lowest`` to ``highest``."""
    sizes = range(lowest, highest + 1)
    return of_values(f"uniform: [{lowest}, {highest}]", dict.fromkeys(sizes, 1 / len(sizes)))


def weighted(weights: dict[int, float]) -> Law:
    """Return sizes with weights."""
    total = sum(weights.values())
    return of_values(f"weighted: {weights}", {size: weight / total for size, weight in weights.items()})


def truncated_exponential(lowest: int, highest: int, scale: float) -> Law:
    """Return sizes from ``lowest`` to ``highest``: the integer part of an exponential distribution that ends there."""
    share = math.expm1(-1 / scale) / math.expm1(-(highest + 1 - lowest) / scale)  # probability of the shortest size
    probability = {size: share * math.exp(-(size - lowest) / scale) for size in range(lowest, highest + 1)}
    return of_values(f"exponential: {{least: {lowest}, most: {highest}, scale_bytes: {scale}}}", probability)


def pairs_of(generated) -> np.ndarray:
    """Return time and size of each packet of a capture."""
    return np.frombuffer(output_of(["--trace", str(generated.path)]), np.int64).reshape(-1, 2)


def trace_of(generate, lines: str) -> tuple[np.ndarray, np.ndarray]:
    """Return gaps and sizes of the packets of a model."""
    pairs = pairs_of(generate(HEAD + lines))
    assert len(pairs) == PACKETS
    return np.diff(pairs[:, 0]), pairs[:, 1]


@pytest.mark.parametrize(
    "law",
    [
        *(exponential(2345.6), exponential(50.0)),
        *(pareto(5000.0, 1.5), pareto(5000.0, 2.5), pareto(900.0, 6.0)),
        *(on_off(100, 1500.0, 9000.0), on_off(1000, 300.0, 500.0)),
    ],
    ids=lambda law: law.text,
)
def test_gaps_follow_their_distribution(generate, law):
    gaps, _ = trace_of(generate, f"    gaps: {{{law.text}}}\n    sizes: 60\n")
    law.check(gaps)


@pytest.mark.parametrize(
    "law",
    [uniform(60, 1514), weighted({64: 7, 594: 4, 1518: 1}), truncated_exponential(60, 1514, 300.0)],
    ids=lambda law: law.text,
)
def test_sizes_follow_their_distribution(generate, law):
    _, sizes = trace_of(generate, f"    gaps: {{constant: {{gap_ns: 10}}}}\n    sizes: {{{law.text}}}\n")
    law.check(sizes)


def test_kolmogorov_smirnov_test_rejects_a_mean_that_is_5_percent_too_large(generate):
    gaps, _ = trace_of(generate, "    gaps: {poisson: {mean_ns: 2400}}\n    sizes: 60\n")
    wrong = exponential(2400 * 1.05)
    assert statistic(gaps, lambda x: wrong.at_most(x - 1), wrong.at_most) > critical_value(len(gaps))


@pytest.mark.parametrize(("gaps", "rate"), [("packets_per_s: 3000007", 3_000_007), ("rate_bps: 1440003361", 3_000_007)])
def test_constant_rates_have_no_drift(generate, gaps, rate):
    found, _ = trace_of(generate, f"    gaps: {{{gaps}}}\n    sizes: 60\n")
    assert set(found) <= {333, 334} and found.sum() == (PACKETS - 1) * 10**9 // rate


def test_gaps_and_sizes_of_a_trace_are_repeated(generate, tmp_path):
    """The last gap of a repetition is the mean of the others."""
    lines = "    gaps: {poisson: {mean_ns: 999}}\n    sizes: {uniform: [60, 200]}\n"
    times, lengths = pairs_of(generate(HEAD.replace(str(PACKETS), "100") + lines, "trace")).T
    gaps, sizes = trace_of(generate, "    gaps: {trace: trace.pcap}\n    sizes: {trace: trace.pcap}\n")
    assert np.array_equal(gaps, np.resize(np.append(np.diff(times), int(np.diff(times).mean())), PACKETS - 1))
    assert np.array_equal(sizes, np.resize(lengths, PACKETS))


@pytest.mark.parametrize("limit", ["    rate_bps: 50000000\n", "port: {rate_bps: 50000000}\n"])
def test_rates_of_flow_and_port_are_never_exceeded(generate, limit):
    gaps, sizes = trace_of(generate, "    gaps: {poisson: {mean_ns: 40000}}\n    sizes: {uniform: [60, 300]}\n" + limit)
    spent = sizes[:-1] * 8 * 20  # ns at 50 Mbit/s
    assert (gaps >= spent).all()
    assert (gaps == spent).any()
    assert (gaps > spent).any()
