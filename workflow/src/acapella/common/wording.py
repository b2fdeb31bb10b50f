"""Formatting of numbers and names: shares in percent, bytes and rates with SI prefixes, S2 sorted before S10."""

import re
from collections.abc import Iterable

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
GAP = "\N{NO-BREAK SPACE}"  # between a number and its unit
SI = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))


def count(number: int, singular: str = "", plural: str | None = None) -> str:
    """Return a number with its noun (``24,000 frames``), or only the number if there is no noun."""
    noun = singular if number == 1 else (plural or f"{singular}s")
    return f"{number:,}{GAP}{noun}" if singular else f"{number:,}"


def percent(share: float) -> str:
    """Return a fraction in percent with three digits, or two below 1 %: ``74.7 %``, ``0.031 %``, ``253 %``.

    Only 1 is ``100 %``; close to it, there are more digits: ``99.98 %``.
    """
    value = 100 * share
    if 0 < value < 1e-4:
        return f"<{GAP}0.0001{GAP}%"
    if value < 1:
        return f"{value:.2g}{GAP}%"
    text = f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 101 else f"{value:.0f}"
    if text == "100.0":
        text = near_100(value)
    return f"{text}{GAP}%"


def near_100(value: float) -> str:
    """Return a number with the fewest digits, at most four after the point, that distinguish it from 100."""
    if value == 100:
        return "100"
    texts = [f"{value:.{decimals}f}" for decimals in (2, 3, 4)]
    return next((text for text in texts if float(text) != 100), f">{GAP}99.9999" if value < 100 else f"<{GAP}100.0001")


def scaled(value: float, unit: str) -> str:
    """Return three significant digits with an SI prefix (powers of 1000): ``1.54 kB``, ``100 Gbit/s``, ``0 B``."""
    for size, prefix in SI:
        if value >= 0.9995 * size:
            return f"{digits(value / size)}{GAP}{prefix}{unit}"
    return f"{digits(value)}{GAP}{unit}"


def digits(value: float) -> str:
    """Return three significant digits without trailing zeros after the decimal point; all digits from 1,000 on."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"


def nanoseconds(value: float) -> str:
    """Return a time in a unit that suits its size: ``20 s``, ``1.5 h``, ``4 µs``, ``-3 ms``.

    Seconds and shorter units are used for values of at least 1, longer units for values of at least 2.
    """
    if value < 0:
        return f"-{nanoseconds(-value)}"
    units = ((86400 * 10**9, "d"), (3600 * 10**9, "h"), (60 * 10**9, "min"), (10**9, "s"), (10**6, "ms"), (10**3, "µs"))
    for size, unit in units:
        if value >= 2 * size or (unit in ("s", "ms", "µs") and value >= size):
            return f"{digits(value / size)}{GAP}{unit}"
    return f"{digits(value)}{GAP}ns"


def listed(names: list[str]) -> str:
    """Return a list of names as text: ``a``, ``a and b``, ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def span(low: object, high: object) -> str:
    """Return a range as ``6 to 12``, or as ``6`` if both ends are the same."""
    return f"{low}" if low == high else f"{low} to {high}"


def natural(name: str) -> list:
    """Return a sort key that places S2 before S10. Different names have different keys."""
    parts = re.findall(r"[0-9]+|[^0-9]+", name)
    stripped = [part.lstrip("0") if part[0] in "0123456789" else None for part in parts]
    keys = [
        (0, 0, part) if digits is None else (1, len(digits), digits)
        for part, digits in zip(parts, stripped, strict=True)
    ]
    return [*keys, (-1, 0, name)]


def shortened(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` characters; an ellipsis replaces the middle of a longer one."""
    if len(text) <= limit:
        return text
    head = limit // 2
    return text[:head] + ELLIPSIS + text[len(text) - (limit - head - 1) :]


def short_labels(names: Iterable[str], limit: int) -> dict[str, str]:
    """Return a label of at most ``limit`` characters for each name; labels that would be equal get a number."""
    labels: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        label, number = shortened(name, limit), 1
        while label in used:
            number += 1
            mark = f" ({number})"
            label = shortened(name, limit - len(mark)) + mark
        used.add(label)
        labels[name] = label
    return labels
