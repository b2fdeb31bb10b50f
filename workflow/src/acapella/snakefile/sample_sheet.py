"""The user's sample sheet (testbed files)."""

import atexit
import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acapella_core import names
from acapella_core.errors import UserError

from .exit import exit_on_user_error
from .samples import Sample


@dataclass(frozen=True)
class SampleSheet:
    """The rows of a sample sheet by sample. ``path``: None if the campaign has no samples.

    ``fault_of``: function that returns the reason why a capture is unreadable, or None; ``empty``: function that
    returns the error for an empty sheet. Both are from `acapella_capture`, which no package of `acapella` imports.
    """

    path: str | None
    rows: Mapping[str, Any]
    fault_of: Callable[[Path], str | None]
    empty: Callable[[str], UserError]

    @classmethod
    def read(cls, path: str | None, *, read: Callable, fault_of: Callable, empty: Callable) -> "SampleSheet":
        """Return the sheet in a file. ``read``: function that parses it, and raises UserError if it is invalid."""
        rows = read(Path(path), may_be_empty=True) if path else []
        return cls(path, {row.sample: row for row in rows}, fault_of, empty)

    def samples(self) -> dict[str, Sample]:
        """Return the samples by name. An empty or missing sheet ends Snakemake.

        This is called only for rules that need samples, so that `snakemake --lint` works with an empty sheet.
        """
        if not self.rows:
            with exit_on_user_error("config error: "):
                raise self.empty(self.path) if self.path else UserError("samples: missing; this stage needs samples")
        return self._samples

    @functools.cached_property
    def _samples(self) -> dict[str, Sample]:
        return {name: Sample(row.site, row.port, str(row.file)) for name, row in self.rows.items()}

    def captures(self) -> dict[str, str]:
        """Return the path of the capture in each row; {} if the campaign has no samples."""
        return {name: str(row.file) for name, row in self.rows.items()}

    def is_readable(self, capture: str) -> bool:
        """Return whether a capture can be read."""
        return self.fault_of(Path(capture)) is None

    def warnings(self, excluded: Collection[str]) -> list[str]:
        """Return a warning for each unreadable capture of a sample that is not ``excluded``."""
        return [
            f"warning: {self.path} line {row.line}: {row.file}: {fault}; sample {row.sample} will fail"
            for row in self.rows.values()
            if row.sample not in excluded and (fault := self.fault_of(row.file))
        ]

    def print_warnings(self, excluded: Collection[str], is_dry_run: Callable[[], bool]) -> None:
        """Print the warnings, and after a dry run again, because its plan is long.

        ``is_dry_run`` is called when Snakemake ends; before it has read all rules, the answer is not known.
        """
        lines = self.warnings(excluded)
        for line in lines:
            names.report(line)
        if lines:
            atexit.register(lambda: is_dry_run() and [names.report(line) for line in lines])

    def manifest_values(self, sample: str) -> list:
        """Return the values that the manifest of a sample contains from the sheet: parameters of its rule."""
        row = self.rows[sample]
        return [row.site, row.port, row.start_ns, *row.restriction]

    def list_values(self) -> list[list]:
        """Return the values that raw/samples.tsv contains from the sheet: parameters of its rule."""
        return [[row.sample, row.site, row.port, row.link] for row in self.rows.values()]
