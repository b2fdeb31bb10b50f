"""Control files of P4 programs, and values of their registers that a program would take for others without a word.

The loader knows no program, and a register takes any number. A statement that cannot be read is left to the loader,
which names its line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import UserError

INDICES = 16  # as many of a register are looked at: the most that a program gives a meaning each (queue pairs)
ALL = 1 << 32  # what a share of flows or packets is compared with; kept is what hashes below
PREPROCESS = {"edit_which": (0, 1 + 2 + 4), "sample_flows_below": (0, ALL), "sample_packets_below": (0, ALL)}


@dataclass(frozen=True)
class Statement:
    """A line of a control file. ``where`` is FILE:LINE."""

    where: str
    words: tuple[str, ...]


def statements(paths: Sequence[Path]) -> list[Statement]:
    """Those of control files, in their order; a file that cannot be read has none."""
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


def registers_of(said: Sequence[Statement]) -> dict[tuple[str, int], tuple[int, str]]:
    """(name, index): (value, where) of the last statement about it."""
    found = {}
    for statement in said:
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
    """Decimal or 0x; None: it is none."""
    try:
        return int(word, 0)
    except ValueError:
        return None


def check_ranges(registers: dict, ranges: dict[str, tuple[int, int]]) -> None:
    """Raise UserError where the first value of a register is not from its least to its most."""
    for (name, index), (value, where) in registers.items():
        least, most = ranges.get(name, (value, value))
        if index == 0 and not least <= value <= most:
            raise UserError(f"{name} {value}", where=where, fix=f"from {least} to {most}")


def check_preprocess(paths: Sequence[Path]) -> None:
    """Raise UserError where a line of a control file sets a register of preprocess to what it cannot mean."""
    check_ranges(registers_of(statements(paths)), PREPROCESS)
