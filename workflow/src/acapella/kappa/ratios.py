"""Compute U, O, L, I and kappa from the core's integers; all divisions of a comparison are here.

Source: the CHOIR paper (SC'25 workshops), section 3, equations 1 to 5; docs/kappa.md derives each definition and its
edge cases. Components are fractions.Fraction, or None if undefined; they are converted to float only at the end.
"""

import math
from fractions import Fraction

COMPONENTS = ("U", "O", "L", "I")  # the order of equation 5


def ratio(numerator: int, denominator: int) -> Fraction | None:
    """Return an exact quotient. 0 over anything, including 0, is 0; any other number over 0 is None."""
    if numerator == 0:
        return Fraction(0)
    return Fraction(numerator, denominator) if denominator else None


def uniqueness(n_a: int, n_b: int, n_common: int) -> Fraction:
    """Return U, equation 1: the share of packets of both trials that the other trial lacks; 0 for two empty trials."""
    return ratio(n_a + n_b - 2 * n_common, n_a + n_b)


def ordering(distance: int, n_common: int) -> Fraction | None:
    """Return O, equation 2; ``distance`` is the sum of |rank in A - rank in B| over the moved packets."""
    return ratio(distance, n_common * (n_common + 1) // 2) if n_common else None


def ordering_published(distance: int, moved: int, n_common: int) -> Fraction | None:
    """Return O as printed in the paper: twice the mean distance of the moved packets over N + 1; it may exceed 1."""
    return ratio(2 * distance, moved * (n_common + 1)) if n_common else None


def ordering_kendall(inversions: int, n_common: int) -> Fraction | None:
    """Return the share of pairs of common packets in opposite order (Kendall 1938), which needs no tie-breaking."""
    return ratio(inversions, n_common * (n_common - 1) // 2) if n_common else None


def latency(total: int, n_common: int, duration_ns: int) -> Fraction | None:
    """Return L, equation 3; ``total``: sum of |lA - lB| in ns; ``duration_ns``: duration of the longer trial."""
    return ratio(total, n_common * duration_ns) if n_common else None


def gaps(total: int, n_common: int, durations_ns: int) -> Fraction | None:
    """Return I, equation 4; ``total`` is the sum of |gA - gB| in ns, ``durations_ns`` the sum of both durations."""
    return ratio(total, durations_ns) if n_common else None


def kappa(n_a: int, n_b: int, n_common: int, parts: tuple[Fraction | None, ...]) -> float | None:
    """Return kappa, equation 5, of ``parts`` (U, O, L, I): 0 if no packet is common, None for two empty trials.

    Also None if a part is undefined although packets are common.
    """
    if n_a + n_b == 0:
        return None
    if n_common == 0:
        return 0.0
    if None in parts:
        return None
    return 1 - math.sqrt(sum(part * part for part in parts)) / 2


def contribution(parts: tuple[Fraction | None, ...]) -> dict:
    """Return what each component contributes to 1 - kappa, in proportion to its square (equation 5 adds squares)."""
    if None in parts:
        return dict.fromkeys(COMPONENTS)
    squares = [part * part for part in parts]
    total = sum(squares)
    if total == 0:
        return dict.fromkeys(COMPONENTS, 0.0)
    lost = math.sqrt(total) / 2
    return {name: lost * float(square / total) for name, square in zip(COMPONENTS, squares, strict=True)}


def to_float(value: Fraction | None) -> float | None:
    """Return the nearest double."""
    return None if value is None else float(value)


def deltas(sums: dict, count: int) -> dict:
    """Return mean, lower median, 99th percentile (nearest rank) and maximum of absolute differences, in ns."""
    if not count:
        return dict.fromkeys(("mean", "median", "p99", "largest"))
    return {
        "mean": float(Fraction(sums["sum"], count)),
        "median": sums["median"],
        "p99": sums["p99"],
        "largest": sums["largest"],
    }


def moments(sums: dict) -> dict:
    """Return Table 1 of the paper over ``count`` signed moves: mean and population sigma, signed and absolute."""
    count = sums["count"]
    if not count:
        return dict.fromkeys(("mean", "sigma", "abs_mean", "abs_sigma", "min", "max"))
    mean, abs_mean = Fraction(sums["sum"], count), Fraction(sums["abs_sum"], count)
    square = Fraction(sums["sum_of_squares"], count)
    return {
        "mean": float(mean),
        "sigma": math.sqrt(square - mean * mean),
        "abs_mean": float(abs_mean),
        "abs_sigma": math.sqrt(square - abs_mean * abs_mean),
        "min": sums["smallest"],
        "max": sums["largest"],
    }


def components(native: dict) -> dict:
    """Return U, O, O_published, O_kendall, L, L_offset_removed, I of a native pair, as fractions or None."""
    n_a, n_b, common = native["n_a"], native["n_b"], native["n_common"]
    order = native["order"]
    durations = (native["duration_a_ns"], native["duration_b_ns"])
    return {
        "U": uniqueness(n_a, n_b, common),
        "O": ordering(order["distance"], common),
        "O_published": ordering_published(order["distance"], order["moved"], common),
        "O_kendall": ordering_kendall(order["inversions"], common),
        "L": latency(native["latency"]["sum"], common, max(durations)),
        "L_offset_removed": latency(native["latency_offset_removed"]["sum"], common, max(durations)),
        "I": gaps(native["gap"]["sum"], common, sum(durations)),
    }


def window(native: dict, duration_ns: int) -> dict:
    """Return one window of the timeline.

    ``duration_ns`` is the duration of the longer trial, so that the L of the trials is the mean of the windows' L,
    weighted by common packets.
    """
    n_a, n_b, common = native["n_a"], native["n_b"], native["n_common"]
    parts = (
        uniqueness(n_a, n_b, common),
        ordering(native["order_distance"], common),
        latency(native["latency_sum"], common, duration_ns),
        gaps(native["gap_sum"], common, native["gaps_a_sum"] + native["gaps_b_sum"]),
    )
    return {
        "from_ns": native["from_ns"],
        "to_ns": native["to_ns"],
        "n_a": n_a,
        "n_b": n_b,
        "n_common": common,
        **{name: to_float(part) for name, part in zip(COMPONENTS, parts, strict=True)},
        "O_kendall": to_float(ordering_kendall(native["inversions"], common)),
        "kappa": kappa(n_a, n_b, common, parts),
    }


def shares(counts: list[int], bounds_ns: list[int], n_common: int) -> dict:
    """Return the share of common packets within each bound; keys are the bounds in ns as text."""
    return {
        str(bound): float(Fraction(count, n_common)) if n_common else None
        for bound, count in zip(bounds_ns, counts, strict=True)
    }
