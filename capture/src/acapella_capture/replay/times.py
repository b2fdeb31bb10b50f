"""Parses times (ns since 1970) and speeds (millionths) of command lines in exact arithmetic."""

import argparse
import datetime
import re
from collections.abc import Callable
from fractions import Fraction

from .messages import MAX_SPEED_PPM, TIME_BITS

SECONDS = re.compile(r"\d{1,12}(\.\d{1,9})?", re.ASCII)
INSTANT = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
NANOSECONDS = re.compile(r"\d{16,19}", re.ASCII)  # since 1970: from 12 January 1970 to 2286
WRONG_TIME = "is not a time; write 2026-01-31T12:00:00Z, +5 (in 5 s), or nanoseconds since 1970"
MILLION = 1_000_000

Time = Callable[[int], int]


def time(text: str) -> Time:
    """Return a function that maps the current time to the time in ``text``, both in ns since 1970.

    ``+S`` is S seconds from now; otherwise, the text is an RFC 3339 time, or nanoseconds since 1970. Raises
    ArgumentTypeError.
    """
    if text.startswith("+") and SECONDS.fullmatch(text[1:]):
        delay_ns = int(Fraction(text[1:]) * 10**9)
        return lambda now_ns: now_ns + delay_ns
    at_ns = instant_ns(text)
    if at_ns is None or not 0 < at_ns < 2**TIME_BITS:
        raise argparse.ArgumentTypeError(f"{text!r} {WRONG_TIME}")
    return lambda _now_ns: at_ns


def instant_ns(text: str) -> int | None:
    """Return the nanoseconds since 1970 of an RFC 3339 time or a number of nanoseconds; None if it is neither."""
    if NANOSECONDS.fullmatch(text):
        return int(text)
    match = INSTANT.fullmatch(text)
    if match is None:
        return None
    try:
        seconds = datetime.datetime.fromisoformat(match[1] + match[3])
        since = seconds - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    except (ValueError, OverflowError):
        return None
    return (since.days * 86_400 + since.seconds) * 10**9 + int(Fraction("0" + (match[2] or ".0")) * 10**9)


def text(at_ns: int) -> str:
    """Return a time in ns since 1970 as RFC 3339 in UTC, such as 2026-01-31T12:00:00.25Z."""
    seconds, ns = divmod(at_ns, 10**9)
    instant = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return f"{instant.isoformat()}{f'.{ns:09d}'.rstrip('0') if ns else ''}Z"


def speed_ppm(text: str) -> int:
    """Return a speed in millionths of the recorded speed. Raises ArgumentTypeError."""
    if len(text) <= 20 and re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        speed = Fraction(text) * MILLION
        if speed.denominator == 1 and 1 <= speed <= MAX_SPEED_PPM:
            return int(speed)
    maximum = MAX_SPEED_PPM // MILLION
    raise argparse.ArgumentTypeError(f"{text!r} is not a speed from 0.000001 to {maximum} with up to 6 decimals")
