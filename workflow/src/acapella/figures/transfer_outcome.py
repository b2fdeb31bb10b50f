"""Determines whether BBR or CUBIC is faster: only if their runs do not overlap and the rounded difference is not 0."""

import math

from acapella.common.wording import GAP, count

DECIMALS = 0  # decimals of a gain in a cell and in a title
EQUAL_PERCENT = 0.5 / 10**DECIMALS  # differences up to this are not a win; gains up to this are printed as 0
EQUAL = f"equal within {EQUAL_PERCENT}{GAP}%"
UNDECIDED = "undecided (runs overlap)"


def gain_of(row: dict) -> float | None:
    """Return the gain of a row of transfer_gain in percent, -inf if only BBR transferred nothing; None if undefined."""
    return -math.inf if row["comparison"] == "bbr_zero" else row["gain_percent"]


def outcome(row: dict) -> str | None:
    """Return ``bbr`` or ``cubic`` if its throughput is larger, ``equal`` at the printed precision, or ``undecided``.

    ``undecided``: the runs of both overlap by more than the rounding. None if there is nothing to compare. ``row``: a
    row of transfer_gain.
    """
    gain = gain_of(row)
    if gain is None:
        return None
    low, high = row["gain_low"], row["gain_high"]
    if None not in (low, high) and low < 0 < high and (round(low, DECIMALS) or round(high, DECIMALS)):
        return "undecided"
    printed = round(gain, DECIMALS)
    return "bbr" if printed > 0 else "cubic" if printed < 0 else "equal"


def first(bbr: dict, cubic: dict) -> str:
    """Return ``bbr`` or ``cubic`` if it completes first, ``equal`` or ``undecided``. The arguments are rows of
    transfer_settings."""
    (bbr_low, bbr_high), (cubic_low, cubic_high) = (
        (row["completion_ns_low"], row["completion_ns_high"]) for row in (bbr, cubic)
    )
    reference_ns = max(1, cubic["completion_ns_mean"])
    overlap = bbr_low < cubic_high and cubic_low < bbr_high
    if overlap and 100 * (max(bbr_high, cubic_high) - min(bbr_low, cubic_low)) > EQUAL_PERCENT * reference_ns:
        return "undecided"
    gain = 100 * (cubic["completion_ns_mean"] - bbr["completion_ns_mean"]) / reference_ns
    return "equal" if abs(gain) <= EQUAL_PERCENT else "bbr" if gain > 0 else "cubic"


def setting_text(verb: str, result: str | None) -> str:
    """Return the outcome of one setting as text."""
    names = {"bbr": f"BBR {verb}", "cubic": f"CUBIC {verb}"}
    without_winner = {"equal": f"BBR and CUBIC are {EQUAL}", "undecided": UNDECIDED.capitalize()}
    return (names | without_winner).get(result, "BBR and CUBIC are not comparable")


def summary(verb: str, outcomes: list[str | None], settings: int) -> str:
    """Return ``BBR is faster in 3, CUBIC in 4, equal within 0.5 % in 2 of 9 settings``. ``verb``: ``is faster``.

    With one setting: ``BBR is faster in the only setting``.
    """
    if settings == 1:
        return f"{setting_text(verb, outcomes[0])} in the only setting"
    parts = [f"BBR {verb} in {outcomes.count('bbr')}", f"CUBIC in {outcomes.count('cubic')}"]
    parts += [
        f"{text} in {number}"
        for name, text in (("equal", EQUAL), ("undecided", UNDECIDED))
        if (number := outcomes.count(name))
    ]
    return f"{', '.join(parts)} of {count(settings, 'setting')}"
