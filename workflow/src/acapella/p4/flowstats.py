"""Checks the settings of flowstats before it runs: invalid values would silently corrupt its results."""

from collections.abc import Sequence
from pathlib import Path

from acapella.flowreports.settings import MAX_CELLS, MAX_ROWS, SKETCHES, SLOTS
from acapella_core.errors import UserError
from acapella_core.p4_control import Statement, check_ranges, number, registers_of, statements

DEFAULT_CELL_MASK = 65_535
QUEUE_PAIRS = 16
MASKS = {"cell_mask": MAX_CELLS, "slot_mask": SLOTS, "qp_mask": QUEUE_PAIRS}  # register: maximum number of entries
RANGES = {"rows": (1, MAX_ROWS), "format": (1, 2)}
EXAMPLE = "register qp_number 0 0x11"


def check_control_files(paths: Sequence[Path], *, queue_pairs: bool) -> list[str]:
    """Check control files; return the missing statements that clear the sketches at the end of an epoch.

    ``queue_pairs``: require the files to set up queue pairs. Raises UserError.
    """
    control_statements = statements(paths)
    registers = registers_of(control_statements)
    check_values(registers)
    if queue_pairs:
        check_queue_pairs(registers)
    return epoch_clears(control_statements, registers)


def check_values(registers: dict) -> None:
    """Raise UserError if a mask or another register has a value that the program cannot use as intended."""
    for (name, index), (value, where) in registers.items():
        if index == 0 and name in MASKS and (value & (value + 1) or value >= MASKS[name]):
            fix = f"use a power of two minus 1, at most {MASKS[name] - 1}"
            raise UserError(f"{name} {value} is not a mask", where=where, fix=fix)
    check_ranges(registers, RANGES)


def check_queue_pairs(registers: dict) -> None:
    """Raise UserError if reports would be dropped for lack of a queue pair."""
    mask, where = registers.get(("qp_mask", 0), (0, None))
    unset = [index for index in range(mask + 1) if not registers.get(("qp_number", index), (0, ""))[0]]
    if len(unset) == mask + 1:
        fix = f"use --collector HOST:PORT, or a --control FILE with lines such as {EXAMPLE} (see docs/collector.md)"
        raise UserError("no queue pair, so no report would be sent", where="flowstats", fix=fix)
    if unset:
        missing = f"no queue pair {', '.join(map(str, unset))}, so reports of some flows would not be sent"
        raise UserError(f"qp_mask {mask}: {missing}", where=where, fix=f"add: register qp_number {unset[0]} NUMBER")


def epoch_clears(control_statements: Sequence[Statement], registers: dict) -> list[str]:
    """Return `epoch-clear` statements for sketch arrays that have none. Raises UserError for a wrong number of cells.

    Without them, a bank would continue with the counts of two epochs ago.
    """
    if not any(statement.words[0] == "epoch" for statement in control_statements):
        return []
    cells = registers.get(("cell_mask", 0), (DEFAULT_CELL_MASK, ""))[0] + 1
    named = set()
    for statement in control_statements:
        if statement.words[0] == "epoch-clear" and len(statement.words) == 3 and statement.words[1] in SKETCHES:
            named.add(statement.words[1])
            if number(statement.words[2]) not in (None, cells):
                problem = f"{statement.words[2]} cells of {statement.words[1]}, but its rows have {cells}"
                raise UserError(problem, where=statement.where, fix=f"write {cells}, or set cell_mask")
    return [f"epoch-clear {name} {cells}" for name in SKETCHES if name not in named]
