"""Whether the first trial is the odd one: the others agree among themselves, and not with it.

Every kappa of an environment is against its first trial. Where that one is the odd one, all of them are low though the
network may have been as consistent as the kappas among the others say; only all pairs show it.
"""

import statistics

from acapella.common.wording import listed

from .ratios import COMPONENTS
from .summary import score

CODE = "odd_baseline"
# Of five trials that are all alike, the four kappas with the first are the least four of ten by chance once in 210; of
# three, the one is the least two of three times. So the distance counts as well: twice as far from 1 is beyond chance.
TIMES = 2


def warned(pairs: list[dict], names: list[str]) -> list[dict]:
    """``pairs``, those with the first of ``names`` with a warning more where all pairs are there and it is the odd one.

    ``pairs`` are as result.py makes them. Nothing is said of fewer than three trials, or where a kappa is undefined.
    """
    told = warning(pairs, names)
    if not told:
        return pairs
    return [{**pair, "warnings": [*pair["warnings"], told]} if names[0] in ends(pair) else pair for pair in pairs]


def warning(pairs: list[dict], names: list[str]) -> dict | None:
    """The warning, or None."""
    with_it = [pair for pair in pairs if names[0] in ends(pair)]
    others = [pair for pair in pairs if names[0] not in ends(pair)]
    all_pairs = len(names) * (len(names) - 1) // 2
    if len(names) < 3 or len(pairs) < all_pairs or any(pair["kappa"] is None for pair in pairs):
        return None
    far, near = ([pair["kappa"] for pair in some] for some in (with_it, others))
    if max(far) >= min(near) or lacking(far) < TIMES * lacking(near):
        return None
    trials = listed(names[1:]) if len(names) <= 6 else f"the other {len(names) - 1}"
    text = (
        f"the baseline {names[0]} is the odd trial: kappa with it is {interval(far)}, among {trials} it is "
        f"{interval(near)}. So each kappa tells how far that one trial is from the others, not how consistent these "
        "are: see what its capture or its run had of its own, or put another trial first."
    )
    return {"code": CODE, "components": touched(with_it, others), "text": text}


def ends(pair: dict) -> tuple[str, str]:
    """The names of its trials."""
    return pair["a"], pair["b"]


def lacking(kappas: list[float]) -> float:
    """How far from 1, in the middle."""
    return 1 - statistics.median(kappas)


def touched(with_it: list[dict], others: list[dict]) -> list[str]:
    """The components that set the baseline apart: the same factor larger with it; all where none is by itself."""
    middle = {
        name: [statistics.median(value_of(pair, name) for pair in some) for some in (with_it, others)]
        for name in COMPONENTS
    }
    return [name for name, (far, near) in middle.items() if far > 0 and far >= TIMES * near] or list(COMPONENTS)


def value_of(pair: dict, name: str) -> float:
    """A component; undefined (nothing in common) as its largest."""
    return 1.0 if pair[name] is None else pair[name]


def interval(kappas: list[float]) -> str:
    """``0.7462 to 0.768``."""
    low, high = score(min(kappas)), score(max(kappas))
    return low if low == high else f"{low} to {high}"
