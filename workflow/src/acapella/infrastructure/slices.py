"""Reads slice records (schemas/inputs/slice_records.yaml)."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from acapella_core.errors import UserError

from .inputs import columns_of

TABLE = "slice_records"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
YEARS = (1970, 2200)  # valid years, the last one excluded; ns since 1970 fit into 64 bits until 2262


def read(paths: Iterable[Path]) -> tuple[list[dict], list[dict]]:
    """Return rows of slices (slice, start_ns, end_ns) and of their sites (slice, site).

    Raises UserError for a malformed row, a time without offset, or a slice that occurs twice.
    """
    slices: list[dict] = []
    sites: list[dict] = []
    seen: set[str] = set()
    for path in paths:
        for line, row in rows_of(path):
            name = row["slice"]
            if not name or name in seen:
                raise UserError(f"line {line}: slice {name!r} occurs twice or has no name", where=path)
            seen.add(name)
            start_ns, end_ns = (time_ns(row[column], f"line {line}: {column}", path) for column in ("start", "end"))
            slices.append({"slice": name, "start_ns": start_ns, "end_ns": end_ns})
            sites += [{"slice": name, "site": site} for site in dict.fromkeys((row["sites"] or "").split())]
    return slices, sites


def rows_of(path: Path) -> Iterable[tuple[int, dict[str, str]]]:
    """Yield the rows of a file, each with its line. Raises UserError if the file has different columns."""
    columns = columns_of(TABLE)
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            reader = csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8", newline=""), strict=True)
            if reader.fieldnames != columns:
                raise UserError(f"expected the columns {', '.join(columns)}", where=path)
            for row in reader:
                if None in row or None in row.values():
                    raise UserError(f"line {reader.line_num}: expected {len(columns)} values", where=path)
                yield reader.line_num, row
    except (csv.Error, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise UserError(f"not CSV: {error}", where=path) from error
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror or error}", where=path) from error


def time_ns(text: str, what: str, path: Path) -> int:
    """Return a time in ns since 1970. Raises UserError if it is not ISO 8601 with an offset, or out of range."""
    try:
        time = datetime.fromisoformat(text.replace(" +", "+").replace(" -", "-"))
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise UserError(f"{what}: {text!r} is not a time such as 2024-02-19 10:00:00 +0000", where=path)
    if not YEARS[0] <= time.year < YEARS[1]:
        raise UserError(f"{what}: {text!r} is not between {YEARS[0]} and {YEARS[1]}", where=path)
    return (time - EPOCH) // MICROSECOND * 1000
