"""Compare environments by the relative difference of their mean kappa.

The CHOIR paper (section 8.2) calls one environment "4% less consistent" than another by their mean kappas (Table 2).
"""

import itertools
import math
import statistics

from acapella.common.bootstrap import SEED, mean_draws, relative_difference_interval

LESS, MORE, UNDECIDED, TOO_FEW = "less consistent", "more consistent", "undecided", "too few runs"
SIGNIFICANCE_LEVEL = 0.05  # of verdicts; intervals are 95 % confidence intervals


def compared(environments: list[tuple[str, list[float]]]) -> list[dict]:
    """Return the rows of consistency_comparisons: each environment compared with each later one.

    ``environments``: name, and kappa of each run against the first trial; runs without a kappa are omitted.
    """
    numbered = [
        (number, name, kappas, mean_draws(kappas, SEED + number) if kappas else None)
        for number, (name, kappas) in enumerate(environments, 1)
    ]
    return [comparison(first, second) for first, second in itertools.combinations(numbered, 2)]


def comparison(first: tuple, second: tuple) -> dict:
    """Return one row; ``first`` and ``second`` are (number, name, kappas, bootstrap means)."""
    (place_a, name_a, a, draws_a), (place_b, name_b, b, draws_b) = first, second
    row = {
        **{"place_a": place_a, "place_b": place_b, "environment_a": name_a, "environment_b": name_b},
        **{"runs_a": len(a), "runs_b": len(b)},
        **{"kappa_a": statistics.fmean(a) if a else None, "kappa_b": statistics.fmean(b) if b else None},
    }
    interval = relative_difference_interval(draws_a, draws_b, min(len(a), len(b))) if a and b else None
    if a and b:
        row["difference"] = row["kappa_b"] - row["kappa_a"]
        row["relative_difference"] = row["difference"] / row["kappa_a"] if row["kappa_a"] else None
    if interval is not None:
        row["relative_lo"], row["relative_hi"] = interval
    return {**row, "verdict": verdict(len(a), len(b), interval)}


def verdict(runs_a: int, runs_b: int, interval: tuple[float, float] | None) -> str:
    """Return whether the second environment is less or more consistent: only if the interval does not contain 0.

    With too few runs, all kappas of one environment exceed all kappas of the other by chance alone in more than 5 % of
    cases (2 of all ways to divide the runs have this order). The interval is then inconclusive.
    """
    if interval is None or 2 / math.comb(runs_a + runs_b, runs_a) > SIGNIFICANCE_LEVEL:
        return TOO_FEW
    lo, hi = interval
    return LESS if hi < 0 else MORE if lo > 0 else UNDECIDED
