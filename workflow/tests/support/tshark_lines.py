"""The output of tshark for a capture."""

from pathlib import Path

from acapella.common.tshark import Tshark


def tshark_lines(program: Tshark, capture: Path, *fields: str) -> list[str]:
    """Return a line for each frame of a capture, which may be truncated, with the values of fields."""
    with program.start(capture, fields or ("frame.protocols",)) as run:
        lines = run.stdout.read().decode().splitlines()
        run.finish(cut_allowed=True)
    return lines
