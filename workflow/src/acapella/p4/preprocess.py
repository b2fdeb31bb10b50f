"""What preprocess is set to, looked at before it runs: values that it would take for others without a word."""

from collections.abc import Sequence
from pathlib import Path

from .flowstats import check_ranges, registers_of, statements

ALL = 1 << 32  # what a share of flows or packets is compared with; kept is what hashes below
RANGES = {"edit_which": (0, 1 + 2 + 4), "sample_flows_below": (0, ALL), "sample_packets_below": (0, ALL)}


def check(paths: Sequence[Path]) -> None:
    """Raise UserError where a line of a control file sets a register to what it cannot mean."""
    check_ranges(registers_of(statements(paths)), RANGES)
