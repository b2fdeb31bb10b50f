"""Provides the user's sample sheet (testbed files)."""

import atexit
import functools
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from acapella_core import names
from acapella_core.errors import UserError

from .exit import exit_on_user_error
from .samples import Sample, Samples
from .storage.captures import CaptureStorage
from .storage.object_state import ObjectState

REPEATED = "acapella: printed before the plan:"


@dataclass(frozen=True)
class SampleSheet:
    """The rows of a sample sheet by sample. ``path``: None if the campaign has no samples.

    ``fault_of``: function that returns the reason why a capture is unreadable, or None; ``empty``: function that
    returns the error for an empty sheet. Both are from `acapella_capture`, which no package of `acapella` imports.
    ``objects``: the objects in storage that rows name instead of files.
    """

    path: str | None
    rows: Mapping[str, Any]
    fault_of: Callable[[Path], str | None]
    empty: Callable[[str], UserError]
    objects: CaptureStorage | None = None

    @classmethod
    def read(
        cls,
        path: str | None,
        *,
        read: Callable,
        fault_of: Callable,
        empty: Callable,
        objects: CaptureStorage | None = None,
    ) -> "SampleSheet":
        """Return the sheet in a file. ``read``: function that parses it, and raises UserError if it is invalid."""
        rows = read(Path(path), may_be_empty=True) if path else []
        return cls(path, {row.sample: row for row in rows}, fault_of, empty, objects)

    def queries(self) -> list[str]:
        """Return the objects in storage that rows name."""
        return [row.query for row in self.rows.values() if row.query]

    def samples(self) -> dict[str, Sample]:
        """Return the samples by name. Ends Snakemake with an error if the sheet is empty or missing.

        This is called only for rules that need samples, so that `snakemake --lint` works with an empty sheet.
        """
        if not self.rows:
            with exit_on_user_error("config error: "):
                raise self.empty(self.path) if self.path else UserError("samples: missing; this stage needs samples")
        return self._samples

    @functools.cached_property
    def _samples(self) -> dict[str, Sample]:
        return {name: Sample(row.site, row.port, self._input_of(row)) for name, row in self.rows.items()}

    def _input_of(self, row) -> str:
        """Return the capture of a row as an input of rules: a path, or an object that Snakemake fetches."""
        return self.objects.input_of(row.query) if row.query else str(row.file)

    def captures(self, samples: Iterable[str]) -> dict[str, str]:
        """Return the path of the capture of each of these samples that has a row, or the version of its object."""
        rows = [self.rows[sample] for sample in samples if sample in self.rows]
        if queries := [row.query for row in rows if row.query]:
            self.objects.look_up(queries)
        return {row.sample: self.recorded_capture(row.sample) for row in rows}

    def recorded_capture(self, sample: str) -> str:
        """Return the path of the capture of a sample; for an object in storage, its name and its ETag."""
        row = self.rows[sample]
        return f"{row.query}#{self.objects.state(row.query).etag}" if row.query else str(row.file)

    def local_capture(self, sample: str) -> str | None:
        """Return the path of the capture of a sample; None if it is in storage, or if no row has this sample."""
        row = self.rows.get(sample)
        return str(row.file) if row and not row.query else None

    def is_readable(self, capture: str) -> bool:
        """Return whether a capture can be read; ``capture``: input of a rule."""
        if query := self.objects and self.objects.query_of(capture):
            return self.objects.state(query).fault is None
        return self.fault_of(Path(capture)) is None

    def object_state(self, sample: str) -> ObjectState | None:
        """Return the state of a sample's object in storage; None if its capture is a file."""
        query = self.rows[sample].query
        return self.objects.state(query) if query else None

    def stored(self, sample: str) -> dict | None:
        """Return the fetched copy of a sample's capture and the state of its object; None if it is a file."""
        if not (state := self.object_state(sample)):
            return None
        return {"file": None if state.fault else str(self.samples()[sample].capture), **asdict(state)}

    def manifest_of_stored(self, samples: Samples) -> Callable[[object], list[str] | str]:
        """Return an input function: the manifest of a job's sample if its capture is in storage, else no file.

        The digest of a sample then follows its job of rule collect, and has a higher priority than those of other
        samples, so few copies exist at a time. The manifest is not `ancient`: Snakemake would not rerun the digest of a
        changed object, because it skips all checks of a job that depends on another one.
        """
        return lambda wildcards: samples.manifest(wildcards.sample) if self.rows[wildcards.sample].query else []

    def stored_option(self, sample: str) -> list[str]:
        """Return option --stored of `acapella collect` for a sample; [] if its capture is a file."""
        return [f"--stored={json.dumps(stored)}"] if (stored := self.stored(sample)) else []

    def checksum_option(self, sample: str) -> list[str]:
        """Return option --sha256 of `acapella digest`; [] unless the storage has the checksum of the whole object."""
        state = self.object_state(sample)
        return [f"--sha256={state.sha256}"] if state and state.sha256 else []

    def version(self, sample: str) -> str:
        """Return the ETag of a sample's object, a parameter of rules; "" if its capture is a file."""
        state = self.object_state(sample)
        return str(state.etag) if state else ""

    def _fault_of_row(self, row) -> str | None:
        """Return why the capture of a row cannot be read; None if it can."""
        return self.objects.state(row.query).fault if row.query else self.fault_of(row.file)

    def warnings(self, excluded: Collection[str]) -> list[str]:
        """Return a warning for each unreadable capture of a sample that is not ``excluded``, and a note about names."""
        checked = [row for row in self.rows.values() if row.sample not in excluded]
        if queries := [row.query for row in checked if row.query]:
            self.objects.look_up(queries)
        return [
            f"warning: {self.path} line {row.line}: {row.query or row.file}: {fault}; sample {row.sample} will fail"
            for row in checked
            if (fault := self._fault_of_row(row))
        ] + self._note_about_names(checked)

    def _note_about_names(self, rows: Iterable) -> list[str]:
        """Return a note if names of files have no character that names of samples may have; [] otherwise."""
        unnamed = [row for row in rows if row.unnamed]
        if not unnamed:
            return []
        more = f" (and {len(unnamed) - 1} more)" if len(unnamed) > 1 else ""
        row = unnamed[0]
        return [
            f"note: {self.path} line {row.line}: {row.file}: the sample is named {row.sample}, because the file name "
            f"has no ASCII letter or digit{more}; set column sample for another name"
        ]

    def print_warnings(self, excluded: Collection[str], is_dry_run: Callable[[], bool]) -> None:
        """Print the warnings, and repeat them with a headline after a dry run, because its plan is long.

        ``is_dry_run`` is called when Snakemake ends, because its result is unknown until all rules are read.
        """
        lines = self.warnings(excluded)
        for line in lines:
            names.report(line)
        if lines:
            atexit.register(lambda: is_dry_run() and [names.report(line) for line in (REPEATED, *lines)])

    def manifest_values(self, sample: str) -> list:
        """Return the values from the sheet that the manifest of a sample contains; they are parameters of its rule."""
        row = self.rows[sample]
        return [row.site, row.port, row.start_ns, *row.restriction]

    def list_values(self) -> list[list]:
        """Return the values from the sheet that raw/samples.tsv contains; they are parameters of its rule."""
        return [[row.sample, row.site, row.port, row.link] for row in self.rows.values()]
