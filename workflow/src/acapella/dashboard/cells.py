"""Cells and tables of a dashboard page."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from acapella.common.wording import nanoseconds, natural, percent, scaled, shortened
from acapella.report.summary import utc_text
from acapella_core import names

UNKNOWN = "?"
MAX_NAME = 80  # characters of a name in the page
TEXT, NUMBER, DATE, CHART = "text", "number", "date", "chart"  # kinds of columns


@dataclass(frozen=True)
class Cell:
    """A cell: its text, its value for sorting (None sorts last), and its link."""

    text: str
    value: float | None = None
    href: str | None = None


EMPTY = Cell("")


def shown(name: str) -> str:
    """Return a name as printable text of limited length. The template escapes it."""
    return shortened(names.shown(name), MAX_NAME)


def link_to(*parts: str) -> str:
    """Return a relative link whose parts may contain any character."""
    return "/".join(quote(part, safe="", errors="surrogateescape") for part in parts)


def ranks(texts: Sequence[str]) -> dict[str, int]:
    """Return the position of each text in natural order."""
    return {text: rank for rank, text in enumerate(sorted(set(texts), key=natural))}


def number(value: int | None) -> Cell:
    """Return the cell of a count."""
    return Cell(UNKNOWN) if value is None else Cell(f"{value:,}", value)


def share(value: float | None) -> Cell:
    """Return the cell of a share."""
    return Cell(UNKNOWN) if value is None else Cell(percent(value), round(value, 9))


def quantity(value: float | None, unit: str) -> Cell:
    """Return the cell of a value with an SI prefix."""
    return Cell("") if value is None else Cell(scaled(value, unit), round(value, 3))


def captured(duration_ns: int) -> Cell:
    """Return the cell of the total duration of samples."""
    return Cell(nanoseconds(duration_ns) if duration_ns else UNKNOWN, duration_ns)


def date(start_ns: int | None) -> Cell:
    """Return the cell of a time."""
    return Cell(UNKNOWN) if start_ns is None else Cell(utc_text(start_ns)[:16], start_ns // 10**9)


def table(name: str, title: str, note: str, columns: list[tuple[str, str]], rows: list[list[Cell]]) -> dict:
    """Return the values of a table for the template. ``columns``: heading and kind of each column."""
    return {"name": name, "title": title, "note": note, "columns": columns, "rows": rows, "csv": None}
