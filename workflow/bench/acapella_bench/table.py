"""Prints results as text, and compares them with their goals."""

import operator
import re
from collections.abc import Iterable

GOAL = re.compile(r"(?P<relation>>=|<=|<|>|)\s*(?P<number>\d[\d,]*(?:\.\d+)?)(?![\d.])")
RELATIONS = {">=": operator.ge, "<=": operator.le, "<": operator.lt, ">": operator.gt, "": operator.eq}


def checked(rows: Iterable[dict]) -> Iterable[dict]:
    """Yield rows with ``met``: whether the value meets the goal, a relation and a number (only a number: equal).

    Rows without a goal, or with one that starts with a word, such as "aim", are not changed. A value that is not a
    number does not meet any goal.
    """
    for row in rows:
        goal = GOAL.match(row.get("goal", ""))
        if goal is None:
            yield row
            continue
        number = float(goal["number"].replace(",", ""))
        met = isinstance(row["value"], int | float) and RELATIONS[goal["relation"]](row["value"], number)
        yield {**row, "met": met, "note": "; ".join(filter(None, ("met" if met else "MISSED", row.get("note"))))}


def shown(value: object) -> str:
    """Return a number with separators and a suitable number of digits."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
        return f"{value:,.{digits}f}"
    return str(value)


def of(rows: list[dict]) -> str:
    """Return rows of {measured, value, unit, goal, note} as aligned columns. Goal and note are optional."""
    cells = [[row["measured"], shown(row["value"]), row.get("unit", ""), row.get("goal", "")] for row in rows]
    widths = [max((len(cell[i]) for cell in cells), default=0) for i in range(4)]
    lines = []
    for cell, row in zip(cells, rows, strict=True):
        measured, value, unit, goal = cell
        line = f"  {measured:{widths[0]}}  {value:>{widths[1]}} {unit:{widths[2]}}  {goal:{widths[3]}}"
        lines.append(f"{line}  {row.get('note', '')}".rstrip())
    return "\n".join(lines)


def lines_of(facts: dict) -> str:
    """Return facts as `name: value` lines."""
    return "\n".join(f"{name}: {shown(value)}" for name, value in facts.items())


def format_table(names: tuple[str, ...], rows: list[list]) -> str:
    """Return a table with a header and right-aligned columns."""
    cells = [list(names)] + [[shown(value) for value in row] for row in rows]
    widths = [max(len(cell[i]) for cell in cells) for i in range(len(names))]
    return "\n".join("  " + "  ".join(f"{cell[i]:>{widths[i]}}" for i in range(len(names))) for cell in cells)
