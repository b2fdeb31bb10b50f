"""What flowstats is set to, looked at before it runs: values that would spoil its numbers without a word."""

from collections.abc import Sequence
from pathlib import Path

from acapella.flowreports.settings import MOST_CELLS, MOST_ROWS, SKETCHES, SLOTS
from acapella_core.errors import UserError
from acapella_core.p4_control import Statement, check_ranges, number, registers_of, statements

DEFAULT_CELL_MASK = 65_535
QUEUE_PAIRS = 16
MASKS = {"cell_mask": MOST_CELLS, "slot_mask": SLOTS, "qp_mask": QUEUE_PAIRS}  # register: how many there may be
RANGES = {"rows": (1, MOST_ROWS), "format": (1, 2)}
EXAMPLE = "register qp_number 0 0x11"


def prepared(paths: Sequence[Path], *, queue_pairs: bool) -> list[str]:
    """Check control files; lines that they leave out: where there is an epoch, what is cleared at its end.

    ``queue_pairs``: they have to set those up, because nobody else does. Raises UserError.
    """
    said = statements(paths)
    registers = registers_of(said)
    check_values(registers)
    if queue_pairs:
        check_queue_pairs(registers)
    return clears(said, registers)


def check_values(registers: dict) -> None:
    """Raise UserError where a register has a value that the program would take for another."""
    for (name, index), (value, where) in registers.items():
        if index == 0 and name in MASKS and (value & (value + 1) or value >= MASKS[name]):
            fix = f"a power of two less 1, at most {MASKS[name] - 1}"
            raise UserError(f"{name} {value} is no mask", where=where, fix=fix)
    check_ranges(registers, RANGES)


def check_queue_pairs(registers: dict) -> None:
    """Raise UserError where reports would have nowhere to go: the program drops them."""
    mask, where = registers.get(("qp_mask", 0), (0, None))
    without = [index for index in range(mask + 1) if not registers.get(("qp_number", index), (0, ""))[0]]
    if len(without) == mask + 1:
        fix = (
            f"--collector HOST:PORT, or a --control FILE with lines such as {EXAMPLE} (docs/collector.md has them all)"
        )
        raise UserError("no queue pair, so that no report would be sent", where="flowstats", fix=fix)
    if without:
        missing = f"no queue pair {', '.join(map(str, without))}, so that their flows' reports would not be sent"
        raise UserError(f"qp_mask {mask}: {missing}", where=where, fix=f"add: register qp_number {without[0]} NUMBER")


def clears(said: Sequence[Statement], registers: dict) -> list[str]:
    """`epoch-clear` of the sketch's arrays that none names. Raises UserError where one has not as many cells as a row.

    Without them a bank would go on from what it counted two epochs ago.
    """
    if not any(statement.words[0] == "epoch" for statement in said):
        return []
    cells = registers.get(("cell_mask", 0), (DEFAULT_CELL_MASK, ""))[0] + 1
    named = set()
    for statement in said:
        if statement.words[0] == "epoch-clear" and len(statement.words) == 3 and statement.words[1] in SKETCHES:
            named.add(statement.words[1])
            if number(statement.words[2]) not in (None, cells):
                what = f"{statement.words[2]} cells of {statement.words[1]}, whose rows have {cells}"
                raise UserError(what, where=statement.where, fix=f"write {cells}, or set cell_mask")
    return [f"epoch-clear {name} {cells}" for name in SKETCHES if name not in named]
