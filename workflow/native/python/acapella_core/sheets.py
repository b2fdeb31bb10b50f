"""Sheets in raw/: samples.tsv lists the samples taken by a collection, failed.tsv those that failed.

A results directory may come from a third party, so every name in a sheet is validated before it becomes a path or
output.
"""

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from . import names
from .errors import UserError

Columns = Mapping[str, Callable[[object, object], str]]
TAKEN: Columns = {"sample": names.sample, "site": names.label, "port": names.label, "file": names.file}
FAILED: Columns = {"sample": names.label, "site": names.label, "port": names.label}  # also "rest of SITE", port "-"


def read(sheet: Path, columns: Columns = TAKEN) -> list[dict[str, str]]:
    """Return the rows of a sheet; [] if it does not exist. Quotes are ordinary characters.

    Raises UserError for the first line with a missing or invalid name, or a repeated name in the first column of
    samples.tsv.
    """
    if not sheet.is_file():
        return []
    try:
        with sheet.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"not a sheet of samples: {error}", where=sheet) from error
    first: dict[str, int] = {}
    for line, row in enumerate(rows, 2):
        where = f"{sheet} line {line}"
        for column, check in columns.items():
            check(row.get(column), where)
        if columns is TAKEN and first.setdefault(row["sample"], line) != line:
            raise UserError(f"sample {row['sample']!r} is in line {first[row['sample']]} already", where=where)
    return rows
