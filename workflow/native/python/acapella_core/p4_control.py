"""Parse control files of P4 programs, and check the values of registers that a program would silently misinterpret.

The loader accepts any number for any register. Statements that cannot be parsed are left to the loader, which reports
their line.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError

INDICES = 16  # entries checked per register; enough for the queue pairs
SAMPLE_ALL = 1 << 32  # threshold that samples all: flows or packets with a hash below the threshold are sampled
NUMBER = re.compile("0|[1-9][0-9]*|0[xX][0-9a-fA-F]+")  # no leading zero, which C would read as octal
PREPROCESS = {
    "edit_which": (0, 1 + 2 + 4),
    "sample_flows_below": (0, SAMPLE_ALL),
    "sample_packets_below": (0, SAMPLE_ALL),
}


@dataclass(frozen=True)
class Statement:
    """A line of a control file. ``where`` is FILE:LINE."""

    where: str
    words: tuple[str, ...]


def statements(paths: Sequence[Path]) -> list[Statement]:
    """Return the statements of control files, in order; none of files that cannot be read."""
    found = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            words = tuple(line.split("#")[0].split())
            if words:
                found.append(Statement(f"{path}:{number}", words))
    return found


def registers_of(found_statements: Sequence[Statement]) -> dict[tuple[str, int], tuple[int, str]]:
    """Return (name, index): (value, where) of the last statement for each register."""
    found = {}
    for statement in found_statements:
        if statement.words[0] == "register" and len(statement.words) in (4, 5):
            numbers = [number(word) for word in statement.words[2:]]
            if None not in numbers:
                first, value, count = (*numbers, 1)[:3]
                found |= {
                    (statement.words[1], index): (value, statement.where)
                    for index in range(max(first, 0), min(first + count, INDICES))
                }
    return found


def number(word: str) -> int | None:
    """Parse a decimal number or one with the prefix 0x, as the loader does; None if invalid."""
    return int(word, 0) if NUMBER.fullmatch(word) else None


def check_ranges(registers: dict, ranges: dict[str, tuple[int, int]]) -> None:
    """Raise UserError if entry 0 of a register is outside its range."""
    for (name, index), (value, where) in registers.items():
        low, high = ranges.get(name, (value, value))
        if index == 0 and not low <= value <= high:
            raise UserError(f"{name} {value}", where=where, fix=f"from {low} to {high}")


def check_preprocess(paths: Sequence[Path]) -> None:
    """Raise UserError if a control file sets a register of preprocess to an invalid value."""
    check_ranges(registers_of(statements(paths)), PREPROCESS)
