"""Gaps and sizes of a flow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acapella_core.errors import UserError

from . import draws
from .compiled import Distribution, Gaps, Sizes
from .reading import Section, integer, items, number, string, text_of

SECOND_NS = 10**9
MAX_NS = 10**15
MAX_BYTES = 65_535
MAX_BPS = 10**13
MAX_EXPONENT = 700.0  # of draws.exp
MAX_WEIGHTS = 256
THRESHOLD_UNITS = 1 << 32

TraceReader = Callable[[str, str], tuple[tuple[int, ...], tuple[int, ...]]]  # (file, where): gaps (ns), sizes (bytes)


@dataclass(frozen=True)
class Origin:
    """Seed and flow, from which the keys of random values are derived, and a function that reads traces."""

    seed: int
    flow: int
    trace: TraceReader

    def key(self, stream: str) -> int:
        """Return the key of a sequence of random values."""
        return draws.key_of(self.seed, self.flow, stream)


def read_gaps(value: Any, where: str, origin: Origin) -> Gaps:
    """Return the gaps of a flow. Raises UserError."""
    outer = Section(value, where)
    kind = outer.one_of("constant", "packets_per_s", "rate_bps", "poisson", "pareto", "on_off", "trace")
    if kind in ("constant", "packets_per_s", "rate_bps"):
        return constant_gaps(outer, kind)
    if kind == "trace":
        return Gaps("list", values=outer.take(kind, lambda value, at: origin.trace(string(value, at), at)[0]))
    if kind == "on_off":
        return on_off_gaps(Section(outer.values[kind], outer.location_of(kind)), origin)
    if kind == "pareto":
        return Gaps("random", random=distribution(outer, origin.key("gaps")))
    mean = in_section(outer, kind, "mean_ns", number(1, MAX_NS))
    return Gaps("random", random=Distribution("exponential", mean, key=origin.key("gaps")))


def constant_gaps(outer: Section, kind: str) -> Gaps:
    """Return gaps for a constant gap, or for a constant rate of packets or bits."""
    if kind == "constant":
        return Gaps("constant", ns=in_section(outer, kind, "gap_ns", integer(1, MAX_NS)))
    rate = outer.take(kind, integer(1, MAX_BPS))
    return Gaps("rate", denominator=rate) if kind == "rate_bps" else Gaps("constant", *divmod(SECOND_NS, rate), rate)


def on_off_gaps(section: Section, origin: Origin) -> Gaps:
    """Return gaps that form bursts and pauses."""
    gap_ns = section.take("gap_ns", integer(1, MAX_NS))
    burst, pause = (distribution(section.take(name, Section), origin.key(name)) for name in ("burst", "pause"))
    section.done()
    return Gaps("on_off", gap_ns, random=burst, off=pause)


def in_section(outer: Section, kind: str, key: str, parse: Callable[[Any, str], Any]) -> Any:
    """Return the only value of a section with one key."""
    section = Section(outer.values[kind], outer.location_of(kind))
    value = section.take(key, parse)
    section.done()
    return value


def distribution(outer: Section, key: int) -> Distribution:
    """Return a distribution of durations with a given mean."""
    kind = outer.one_of("constant", "exponential", "pareto")
    section = Section(outer.values[kind], outer.location_of(kind))
    scale = section.take("mean_ns", number(1, MAX_NS))
    shape = 0.0
    if kind == "pareto":
        shape = section.take("shape", number(1.001, 1000))
        scale *= (shape - 1) / shape  # mean = minimum * shape / (shape - 1)
    section.done()
    return Distribution(kind, scale, shape, key)


def read_sizes(value: Any, where: str, origin: Origin, minimum: int) -> Sizes:
    """Return the sizes of a flow's packets, at least ``minimum`` bytes. Raises UserError."""
    size = integer(1, MAX_BYTES)
    key = origin.key("sizes")
    if not isinstance(value, dict):
        return check_minimum(Sizes("constant", size(value, where)), where, minimum)
    outer = Section(value, where)
    kind = outer.one_of("uniform", "weighted", "exponential", "trace")
    location = outer.location_of(kind)
    if kind == "trace":
        values = outer.take(kind, lambda value, at: origin.trace(string(value, at), at)[1])
        return check_minimum(
            Sizes("list", values=tuple(max(minimum, min(MAX_BYTES, traced)) for traced in values)), location, minimum
        )
    if kind == "uniform":
        limits = [size(item, at) for item, at in items(outer.values[kind], location)]
        if len(limits) != 2 or limits[0] > limits[1]:
            raise UserError(f"expected [LEAST, MOST], found {text_of(limits)}", where=location)
        return check_minimum(Sizes("uniform", limits[0], limits[1] - limits[0] + 1, key=key), location, minimum)
    section = Section(outer.values[kind], location)
    if kind == "weighted":
        return check_minimum(weighted_sizes(section, key), location, minimum)
    low = section.take("least", size)
    high = section.take("most", integer(low, MAX_BYTES))
    mean = section.take("scale_bytes", number(1, 10 * MAX_BYTES))
    section.done()
    count = high - low + 1
    power = float(draws.exp(np.float64(min(count / mean, MAX_EXPONENT))))  # the result of libm differs between machines
    range_probability = 1 - 1 / power
    return check_minimum(Sizes("exponential", low, count, mean, range_probability, key), location, minimum)


def weighted_sizes(section: Section, key: int) -> Sizes:
    """Return weighted sizes from a mapping of sizes to weights."""
    pairs = []
    for name, weight in section.values.items():
        location = section.location_of(name)
        pairs.append((integer(1, MAX_BYTES)(name, location), number(0, 1e12)(weight, location)))
    total = sum(weight for _, weight in pairs)
    if not 0 < len(pairs) <= MAX_WEIGHTS or not total:
        raise UserError(f"expected 1 to {MAX_WEIGHTS} sizes with a weight above 0", where=section.where)
    thresholds, sum_ = [], 0.0
    for _, weight in pairs:
        sum_ += weight
        thresholds.append(round(sum_ / total * THRESHOLD_UNITS))
    return Sizes("weighted", values=tuple(size for size, _ in pairs), thresholds=tuple(thresholds), key=key)


def check_minimum(sizes: Sizes, where: str, minimum: int) -> Sizes:
    """Return ``sizes``. Raises UserError if a packet would be shorter than its headers and stamp."""
    if sizes.smallest < minimum:
        raise UserError(f"{sizes.smallest} bytes are too few: headers and stamp need {minimum} bytes", where=where)
    return sizes
