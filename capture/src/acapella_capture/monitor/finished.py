"""Stores the trials of an unfinished search, so that a later search with the same settings can continue it."""

import hashlib
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acapella_core.files import atomic_text

from .. import generate, monitor, programs, replay
from ..generate import program as generator
from ..testbeds import local
from . import program
from .search import Trial

NAME = "monitor_searches.trials.json"
PACKAGES = (generate, monitor, programs, replay, local)  # that run a trial: processes, ports, namespaces


class FinishedTrials:
    """The finished trials of a search, in a directory; None: not stored.

    ``settings``: settings that all trials have in common. Trials with different settings or code, or of a different
    machine, are not used.
    """

    def __init__(self, directory: Path | None, settings: Sequence[Any]):
        self._path = directory and directory / NAME
        self._measured_with = measured_with(settings) if directory else ""
        self._trials: dict[str, dict[str, Any]] = self._read() if directory else {}

    def __len__(self) -> int:
        """Return the number of trials in the file."""
        return len(self._trials) if self._path else 0

    def run(self, key: Sequence[Any], trial: Callable[[], Trial]) -> Trial:
        """Return the trial with a key: a finished trial, or a new one, which is added to the file. Raises UserError."""
        name = json.dumps(key)
        if name not in self._trials:
            self._trials[name] = asdict(trial())
            if self._path:
                content = {"measured_with": self._measured_with, "trials": self._trials}
                atomic_text(self._path, json.dumps(content) + "\n")
        return Trial(**self._trials[name])

    def remove(self) -> None:
        """Remove the file of a search that has ended."""
        if self._path:
            self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, dict[str, Any]]:
        """Return the trials of the file; empty if it is missing, damaged, or belongs to a different search."""
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            if content["measured_with"] != self._measured_with:
                return {}
            return {key: asdict(Trial(**trial)) for key, trial in content["trials"].items()}
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return {}


def measured_with(settings: Sequence[Any]) -> str:
    """Return a hash of the settings, the machine and the code: PACKAGES and the programs.

    Raises UserError if a program was not built.
    """
    content = hashlib.sha256(json.dumps([platform.node(), *settings]).encode())
    sources = (path for package in PACKAGES for path in sorted(Path(package.__path__[0]).glob("*.py")))
    for path in (*sources, Path(program.executable()), Path(generator.executable())):
        content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()
