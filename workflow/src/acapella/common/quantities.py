"""Parsers of the whole numbers and durations that users enter."""

import re
from fractions import Fraction

from acapella_core.arguments import MAX_DIGITS
from acapella_core.errors import UserError

UNITS_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
MAX_NS = 2**63 - 1  # maximum of the core's signed integers: 292 years
DURATION = re.compile(r"(-?\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min|h|)", re.ASCII)
WHOLE = re.compile(r"-?\d+", re.ASCII)


def whole_number(text: str, low: int, high: int, option: str, unit: str = "") -> int:
    """Return the value of an option, a whole number from ``low`` to ``high`` in ASCII digits. Raises UserError."""
    is_number = WHOLE.fullmatch(text.strip())
    number = int(text) if is_number and len(text) <= MAX_DIGITS else None
    if number is None or not low <= number <= high:
        where = f"{option} {text[:MAX_DIGITS]}"
        raise UserError(f"must be a whole number from {low:,} to {high:,} {unit}".rstrip(), where=where)
    return number


def duration_ns(text: str) -> int:
    """Return the nanoseconds of a time such as ``1.5s``, ``250ms`` or ``10us``; the default unit is seconds.

    Raises UserError.
    """
    match = DURATION.fullmatch(text.strip()) if len(text) <= MAX_DIGITS else None
    exact = Fraction(match[1]) * UNITS_NS[match[2]] if match else None
    if exact is None or exact.denominator != 1:
        raise UserError(f"{text!r} is not a time in whole nanoseconds", fix="write 1.5s, 250ms, 10us or 80ns")
    if abs(exact) > MAX_NS:
        raise UserError(f"{text!r} is too long", fix=f"a time is at most {MAX_NS // 10**9:,} s (292 years)")
    return int(exact)
