"""Records which figures of a campaign are current: their code, tables and options have not changed since the last run.

For each figure, CAMPAIGN/figures/.drawn.json contains the SHA-256 of everything on which its files depend, and the
SHA-256 of the files. It is only a cache: if it is missing or damaged, all figures are drawn.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from acapella.campaign.layout import Campaign
from acapella_core.files import atomic_text, sha256_of

FILE = ".drawn.json"  # hidden, because it is not a figure


class DrawnFigures:
    """The record of the figures of a campaign that were drawn.

    ``versions``: code version of each figure that may be kept; ``options``: options that determine the files.
    """

    def __init__(self, campaign: Campaign, versions: Mapping[str, str], options: Sequence):
        self._directory = campaign.directory / "figures"
        self._versions = versions
        inputs = [*(campaign.directory / "tables").glob("*.parquet"), campaign.directory / "storage" / "study.json"]
        self._inputs = [[path.name, sha256_of(path)] for path in sorted(inputs) if path.is_file()] if versions else []
        self._options = [*options]
        self._recorded = self._read()

    def _read(self) -> dict:
        """Return the content of the file; an empty dict if it is missing or damaged."""
        with contextlib.suppress(OSError, ValueError):
            content = json.loads((self._directory / FILE).read_text(encoding="utf-8"))
            return content if isinstance(content, dict) else {}
        return {}

    def _record(self, name: str, paths: Sequence[Path]) -> list:
        """Return the entry of a figure in the file: a key, and the SHA-256 of each of its files.

        Modification times are ignored, because Snakemake sets them for all outputs at the end of the job.
        """
        described = json.dumps([self._versions[name], self._options, self._inputs])
        return [
            hashlib.sha256(described.encode()).hexdigest(),
            [sha256_of(path) if path.is_file() else None for path in paths],
        ]

    def keep(self, name: str, paths: Sequence[Path]) -> bool:
        """Return whether the files of a figure are current; their modification times are then set to the current time.

        Snakemake expects results that are newer than their inputs.
        """
        if name not in self._versions or self._recorded.get(name) != self._record(name, paths):
            return False
        for path in paths:
            os.utime(path, follow_symlinks=False)
        return True

    def add(self, name: str, paths: Sequence[Path]) -> None:
        """Record that the files of a figure are current."""
        self._recorded.pop(name, None)
        if name in self._versions:
            self._recorded[name] = self._record(name, paths)

    def save(self) -> None:
        """Write the file."""
        if self._versions:
            atomic_text(self._directory / FILE, json.dumps(self._recorded, indent=1, sort_keys=True) + "\n")
