"""Reads the settings of a transfer from cell.json or, for imported files, from a sheet or the file names."""

import csv
import os
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.validation import did_you_mean

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}  # sizes, as in tc and iperf3 -n
SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?)([KMGT]?)(?:I?B)?", re.ASCII | re.IGNORECASE)
NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)
LARGEST = 2**63 - 1
MODES = ("published", "clean")
MAX_TEXT = 64


def size(text: str) -> int:
    """Return the bytes of a size such as ``100K``, ``1G`` or ``1.5M``; K is 1024. Raises ValueError."""
    found = SIZE.fullmatch(text)
    exact = Fraction(found[1]) * UNITS[found[2].upper()] if found else Fraction(1, 2)
    if exact.denominator != 1 or exact > LARGEST:
        raise ValueError("expected bytes, such as 100K (K is 1024)")
    return int(exact)


def scaled(factor: int) -> Callable[[str], int]:
    """Return a parser of decimal numbers in a unit of ``factor``."""

    def parse(text: str) -> int:
        exact = Fraction(text) * factor if NUMBER.fullmatch(text) else Fraction(1, 2)
        if exact.denominator != 1 or exact > LARGEST:
            raise ValueError("expected a number")
        return int(exact)

    return parse


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """Return a parser of whole numbers in a range."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) or not low <= int(text) <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return int(text)

    return parse


def ratio(text: str) -> float:
    """Return a positive number. Raises ValueError."""
    if not NUMBER.fullmatch(text) or float(text) <= 0:
        raise ValueError("expected a positive number")
    return float(text)


def percent(text: str) -> float:
    """Return a number from 0 to 100. Raises ValueError."""
    if not NUMBER.fullmatch(text) or float(text) > 100:
        raise ValueError("expected a number from 0 to 100")
    return float(text)


def word(text: str) -> str:
    """Return a short text. Raises ValueError."""
    if not text.isprintable() or len(text) > MAX_TEXT:
        raise ValueError(f"expected at most {MAX_TEXT} printable characters")
    return text


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a parser of fixed words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"expected {' or '.join(allowed)}")
        return text

    return parse


# Columns of a sheet and groups of a name pattern: column of the tables, and parser. Empty fields are null.
PARAMETERS: dict[str, tuple[str, Callable]] = {
    "mode": ("mode", one_of(*MODES)),
    "topology": ("topology", word),
    "algorithm": ("algorithm", word),
    "delay_ms": ("delay_ns", scaled(10**6)),
    "buffer_bytes": ("buffer_bytes", size),
    "rate_mbps": ("rate_bps", scaled(10**6)),
    "streams": ("streams", whole_number(1, 65535)),
    "size_bytes": ("size_bytes", size),
    "ratio": ("ratio", ratio),
    "delay_on": ("delay_on", one_of("return", "both")),
    "loss_percent": ("loss_percent", percent),
    "reorder_percent": ("reorder_percent", percent),
    "rtt_ms": ("rtt_ns", scaled(10**6)),
    "run": ("run", whole_number(0, 2**32 - 1)),
}
SETTINGS = tuple(
    column for name, (column, _) in PARAMETERS.items() if name not in ("rtt_ms", "run")
)  # columns of the tables that identify a setting
FILE = "file"


def parsed(values: dict[str, str | None]) -> dict:
    """Return the columns of the tables for texts, given by parameter. Raises ValueError, which names the parameter."""
    found = {}
    for name, text in values.items():
        column, parse = PARAMETERS[name]
        if text is None or not text.strip():
            continue
        try:
            found[column] = parse(text.strip())
        except ValueError as error:
            raise ValueError(f"{name}: {text[:MAX_TEXT]!r}: {error}") from error
    return found


def of_cell(cell: dict) -> dict:
    """Return the settings in a valid cell.json as columns of the tables."""
    given = cell["settings"]
    delay = given.get("delay_ms")
    found = {name: given.get(name) for name in SETTINGS}
    return found | {
        **{"mode": cell["mode"], "topology": cell["topology"]},
        "delay_ns": None if delay is None else round(delay * 10**6),
    }


def name_pattern(text: str) -> re.Pattern:
    """Return the compiled pattern for the names of files. Raises UserError."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UserError(f"transfer.name_pattern: not a regular expression: {error}") from error
    known = ", ".join(PARAMETERS)
    if not pattern.groupindex:
        raise UserError("transfer.name_pattern: it has no named group", fix=f"write (?P<NAME>...), NAME: {known}")
    for name in pattern.groupindex:
        if name not in PARAMETERS:
            raise UserError(f"transfer.name_pattern: unknown group {name}", fix=f"known: {known}")
    return pattern


def of_name(name: str, pattern: re.Pattern) -> dict:
    """Return the settings in the name of a file. Raises ValueError if the name does not match."""
    found = pattern.fullmatch(name)
    if found is None:
        raise ValueError("the name does not match transfer.name_pattern")
    return parsed(found.groupdict())


def sheet(path: Path) -> dict[Path, dict]:
    """Return the settings of the files of a sheet (TSV) by path; relative paths start at the sheet's directory.

    Raises UserError if the sheet is unreadable or invalid, or contains a file twice.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read: {getattr(error, 'strerror', None) or 'not UTF-8'}", where=path) from error
    rows = list(csv.reader([line for line in lines if line.strip()], delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or FILE not in rows[0]:
        raise UserError(
            f"no column {FILE}", where=path, fix=f"the first line names the columns: {FILE}, algorithm, ..."
        )
    for name in rows[0]:
        if name != FILE and name not in PARAMETERS:
            hint = did_you_mean(name, [FILE, *PARAMETERS])
            known = f"known: {FILE}, {', '.join(PARAMETERS)}"
            raise UserError(f"unknown column {name!r}{hint}", where=path, fix=known)
    found: dict[Path, dict] = {}
    absolute_paths: set[str] = set()
    for number, row in enumerate(rows[1:], 2):
        values: dict[str, str | None] = dict(zip(rows[0], row, strict=False))
        file = path.parent / (values.pop(FILE) or "")
        absolute_path = os.path.abspath(file)  # noqa: PTH100 - removes ..
        if absolute_path in absolute_paths:
            raise UserError(f"row {number}: {file} is in the sheet twice", where=path)
        absolute_paths.add(absolute_path)
        try:
            found[file] = parsed(values)
        except ValueError as error:
            raise UserError(f"row {number}: {error}", where=path) from error
    return found
