"""Writes the files of a grid below transfers/: a directory per run, complete or absent, and lists of all runs.

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
PART = ".part"  # suffix of incomplete directories
PREFIX = ".cell-"
MAX_ATTEMPTS = 3  # attempts of a run that fails


class Results:
    """The directory transfers/ of a campaign."""

    def __init__(self, campaign: Path):
        self.directory = campaign / "transfers"

    def prepare(self) -> None:
        """Create the directory; remove the incomplete directories of processes that were killed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_abandoned_directories(self.directory, PREFIX, PART)
        for left in self.directory.glob(f"{PREFIX}*.old"):
            shutil.rmtree(left)

    def write_grid(self, content: dict[str, Any]) -> None:
        """Write the list of planned runs."""
        atomic_text(self.directory / GRID, json.dumps(content, indent=1) + "\n")

    def is_missing(self, cell: Cell, *, retry: bool) -> bool:
        """Return whether a run is missing: it has no result, or it failed and had fewer than MAX_ATTEMPTS attempts.

        ``retry``: always repeat failed runs.
        """
        content = self._read(cell)
        if content is None:
            return True
        return content["error"] is not None and (retry or content.get("attempts", 1) < MAX_ATTEMPTS)

    def attempts(self, cell: Cell) -> int:
        """Return how many times a run failed; 0 if it has no result or succeeded."""
        content = self._read(cell)
        return 0 if content is None or content["error"] is None else content.get("attempts", 1)

    def _read(self, cell: Cell) -> dict[str, Any] | None:
        """Return `cell.json` of a run; None if there is none. Raises UserError if it cannot be read."""
        try:
            return json.loads((self.directory / cell.cell_id / CELL).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read: {error}", where=self.directory / cell.cell_id / CELL) from error

    @contextlib.contextmanager
    def part(self) -> Iterator[Path]:
        """Yield a private directory for the files of a run, removed at the end unless `publish` renamed it."""
        descriptor, directory = locked_directory(self.directory, PREFIX, PART)
        try:
            yield directory
        finally:
            remove_locked(descriptor, directory)

    def publish(self, part: Path, cell: Cell, content: dict[str, Any]) -> None:
        """Write `cell.json` to a directory from `part()`, and give it its final name. Replaces a failed run."""
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

    def write_complete(self, runs: list[Cell]) -> list[str]:
        """Write the list of all runs with errors and flags; return a line per failed run. All runs need results."""
        cells = []
        for cell in runs:
            content = json.loads((self.directory / cell.cell_id / CELL).read_bytes())
            cells.append({key: content[key] for key in ("cell_id", "error", "flags")})
        atomic_text(self.directory / COMPLETE, json.dumps({"version": 1, "cells": cells}, indent=1) + "\n")
        return [f"{entry['cell_id']}: {entry['error']}" for entry in cells if entry["error"] is not None]
