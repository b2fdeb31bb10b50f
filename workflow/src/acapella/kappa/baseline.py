"""Check whether the baseline is the outlier: the other trials agree with each other but not with it.

Every kappa of an environment compares a trial with the first one. If the first trial is an outlier, all of these
kappas are low even if the network is as consistent as the other trials indicate. Only a comparison of all pairs reveals
this.
"""

import statistics

from acapella.common.wording import listed

from .ratios import COMPONENTS
from .summary import format_kappa

CODE = "odd_baseline"
# Low kappas with the baseline can be due to chance: with five equally consistent trials, its four kappas are the lowest
# four of ten in one of 210 cases; with three trials, its two are the lowest in one of three. So the median
# distance from 1 must also be larger by this factor.
DISTANCE_RATIO = 2


def with_baseline_warning(pairs: list[dict], names: list[str]) -> list[dict]:
    """Return ``pairs``; if the baseline ``names[0]`` is the outlier, add a warning to each of its pairs.

    ``pairs`` are defined in result.py. Nothing is added for fewer than three trials, if a pair is missing, or if a
    kappa is undefined.
    """
    warning = baseline_warning(pairs, names)
    if not warning:
        return pairs
    return [
        {**pair, "warnings": [*pair["warnings"], warning]} if names[0] in trial_names(pair) else pair for pair in pairs
    ]


def baseline_warning(pairs: list[dict], names: list[str]) -> dict | None:
    """Return the warning, or None."""
    with_baseline = [pair for pair in pairs if names[0] in trial_names(pair)]
    others = [pair for pair in pairs if names[0] not in trial_names(pair)]
    pair_count = len(names) * (len(names) - 1) // 2
    if len(names) < 3 or len(pairs) < pair_count or any(pair["kappa"] is None for pair in pairs):
        return None
    with_first, without_first = ([pair["kappa"] for pair in group] for group in (with_baseline, others))
    if max(with_first) >= min(without_first) or median_distance(with_first) < DISTANCE_RATIO * median_distance(
        without_first
    ):
        return None
    trials = listed(names[1:]) if len(names) <= 6 else f"the other {len(names) - 1}"
    text = (
        f"the baseline {names[0]} is an outlier: kappa with it is {kappa_range(with_first)}, but among {trials} it is "
        f"{kappa_range(without_first)}. Each kappa therefore measures the distance of this trial from the others, not "
        "their consistency: check its capture and its run, or list another trial first."
    )
    return {"code": CODE, "components": affected_components(with_baseline, others), "text": text}


def trial_names(pair: dict) -> tuple[str, str]:
    """Return the names of a pair's two trials."""
    return pair["a"], pair["b"]


def median_distance(kappas: list[float]) -> float:
    """Return the median distance from 1."""
    return 1 - statistics.median(kappas)


def affected_components(with_baseline: list[dict], others: list[dict]) -> list[str]:
    """Return the components whose median with the baseline is at least DISTANCE_RATIO times larger, or else all."""
    medians = {
        name: [statistics.median(component_value(pair, name) for pair in group) for group in (with_baseline, others)]
        for name in COMPONENTS
    }
    return [
        name
        for name, (with_first, without_first) in medians.items()
        if 0 < with_first >= DISTANCE_RATIO * without_first
    ] or list(COMPONENTS)


def component_value(pair: dict, name: str) -> float:
    """Return a component's value; 1, the largest, if it is undefined because no packet is common."""
    return 1.0 if pair[name] is None else pair[name]


def kappa_range(kappas: list[float]) -> str:
    """Return the range of kappas as text, such as ``0.7462 to 0.768``."""
    low, high = format_kappa(min(kappas)), format_kappa(max(kappas))
    return low if low == high else f"{low} to {high}"
