"""Reads the numbers printed in papers, and where they are printed: workflow/conformance/PAPER_printed.csv."""

import csv
import functools
from pathlib import Path

from acapella_core.errors import UserError

_PACKAGED = Path(__file__).resolve().parents[1] / "conformance"  # in wheels
DIRECTORY = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).resolve().parents[3] / "conformance"
COLUMNS = ("name", "where", "what", "printed", "low", "high", "reason")


@functools.cache
def rows(paper: str) -> list[dict]:
    """Return the printed numbers of a paper; ``low`` and ``high`` are numbers, or None if they are empty.

    Raises UserError for any other table.
    """
    path = DIRECTORY / f"{paper}_printed.csv"
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            found = list(csv.DictReader(stream))
        if found and all(tuple(row) == COLUMNS for row in found):
            return [row | {end: float(row[end]) if row[end] else None for end in ("low", "high")} for row in found]
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"not a table of {', '.join(COLUMNS)}", where=path) from error
    raise UserError(f"not a table of {', '.join(COLUMNS)}", where=path)


def printed(paper: str, name: str) -> str:
    """Return a number as printed in the paper."""
    return next(row["printed"] for row in rows(paper) if row["name"] == name)
