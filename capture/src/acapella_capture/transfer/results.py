"""Files of a grid below transfers/: a directory per run, written whole, and lists of all runs.

schemas/transfer_cell.schema.json describes `cell.json`.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import atomic_text, locked_directory, remove_abandoned_directories, remove_locked, sync

from .grid import Cell

GRID, COMPLETE, CELL = "grid.json", "complete.json", "cell.json"
PART = ".part"  # end of the names of incomplete directories
PREFIX = ".cell-"


class Results:
    """The directory transfers/ of a campaign."""

    def __init__(self, campaign: Path):
        self.directory = campaign / "transfers"

    def prepare(self) -> None:
        """Create the directory; remove what a killed run left incomplete."""
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_abandoned_directories(self.directory, PREFIX, PART)
        for left in self.directory.glob(f"{PREFIX}*.old"):
            shutil.rmtree(left)

    def write_grid(self, content: dict[str, Any]) -> None:
        """Write the list of planned runs."""
        atomic_text(self.directory / GRID, json.dumps(content, indent=1) + "\n")

    def finished(self, cell: Cell) -> dict[str, Any] | None:
        """Return `cell.json` of a run; None if there is none, or if it has an error."""
        try:
            content = json.loads((self.directory / cell.cell_id / CELL).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read: {error}", where=self.directory / cell.cell_id / CELL) from error
        return content if content["error"] is None else None

    @contextlib.contextmanager
    def part(self) -> Iterator[Path]:
        """Yield a private directory for the files of a run, removed at the end unless `publish` renamed it."""
        descriptor, directory = locked_directory(self.directory, PREFIX, PART)
        try:
            yield directory
        finally:
            remove_locked(descriptor, directory)

    def publish(self, part: Path, cell: Cell, content: dict[str, Any]) -> None:
        """Write `cell.json` into a directory of `part` and give it the name of the run. Replaces a failed run."""
        (part / CELL).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        for file in part.iterdir():
            file.chmod(0o600)
            sync(file)
        sync(part)
        target = self.directory / cell.cell_id
        if target.exists():
            old = part.with_suffix(".old")
            target.rename(old)
            part.rename(target)
            shutil.rmtree(old)
        else:
            part.rename(target)
        sync(self.directory)

    def write_complete(self, runs: list[Cell]) -> None:
        """Write the list of all runs with their errors and flags. Every run exists."""
        cells = []
        for cell in runs:
            content = json.loads((self.directory / cell.cell_id / CELL).read_bytes())
            cells.append({key: content[key] for key in ("cell_id", "error", "flags")})
        atomic_text(self.directory / COMPLETE, json.dumps({"version": 1, "cells": cells}, indent=1) + "\n")
