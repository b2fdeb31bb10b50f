"""Records which samples of a batch a stage has completed, so that the batch skips them when it runs again.

Each line of CAMPAIGN/batches/done/STAGE/BATCH.tsv has three fields: a sample, a key, and a JSON list. Lines are
appended, and the last line of a sample counts. The key determines what the line and the list mean:

    key      the sample                                          list
    SHA-256  was completed with this command, code and inputs    state of each output file
    (empty)  was started, and failed or was interrupted          [N]: number of the group in which it was started
    -        has left the batch, whose tables have no rows of it []

A file with many lines is replaced by one with the last line of each sample of the batch.
done/analyze/BATCH.tables.tsv has the same format, with a table instead of a sample, the version of its queries as key,
and the state of the table.
"""

import contextlib
import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from acapella_core import beneath, names
from acapella_core.errors import UserError
from acapella_core.files import atomic_text, convert_errors

from .batches import state_of

STARTED_MARK = ""
LEFT_MARK = "-"
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
MAX_LINES = 10  # for each sample; a longer journal is replaced


class Entry(NamedTuple):
    """A line of a journal, without the sample. ``values``: the JSON list."""

    key: str
    values: list

    @classmethod
    def parse(cls, line: str) -> tuple[str, "Entry"]:
        """Return the sample and the entry of a line. Raises ValueError if the line is damaged."""
        sample, key, text = line.split("\t")
        values = json.loads(text)
        if not isinstance(values, list) or (key == STARTED_MARK and [*map(type, values)] != [int]):
            raise ValueError(line)
        return sample, cls(key, values)

    def line(self, sample: str) -> str:
        """Return the line of a sample."""
        return f"{sample}\t{self.key}\t{json.dumps(self.values)}\n"


class Journal:
    """The journal of a batch in a stage.

    ``damaged``: a line cannot be read, for example after a power failure. It is ignored; the journal then does not
    contain all samples whose rows may be in the tables of a batch.
    """

    def __init__(self, campaign: Path, stage: str, batch: str):
        self.path = journal_file(campaign, stage, batch)
        text = self.path.read_text(encoding="utf-8", errors="replace") if self.path.is_file() else ""
        *lines, self._incomplete = text.split("\n")  # not empty if the process that wrote the last line was killed
        self._lines = len(lines)
        self._entries: dict[str, Entry] = {}
        self.damaged = False
        for line in lines:
            try:
                sample, entry = Entry.parse(line)
            except ValueError:
                self.damaged = True
            else:
                self._entries[sample] = entry

    def completed(self, keys: Mapping[str, str], outputs: Sequence[Path]) -> dict[str, str]:
        """Return those of ``keys`` whose samples were completed with this key, if the outputs exist and are unchanged.

        ``keys``: key of each sample; ``outputs``: files with the results of all of them.
        """
        states = [state_of(path) for path in outputs]
        if [None, None] in states:
            return {}
        return {sample: key for sample, key in keys.items() if self._entries.get(sample) == Entry(key, states)}

    def is_complete(self, sample: str, key: str, outputs: Sequence[Path]) -> bool:
        """Return whether a sample was completed with this key, and its outputs exist and are unchanged."""
        return bool(self.completed({sample: key}, outputs))

    def has_completed(self, sample: str, outputs: Sequence[Path]) -> bool:
        """Return whether a sample was completed with any key, and its outputs exist and are unchanged."""
        return sample in self._entries and self.is_complete(sample, self._entries[sample].key, outputs)

    def is_started(self, sample: str) -> bool:
        """Return whether a sample was started in an earlier run, and failed or was interrupted."""
        return sample in self._entries and self._entries[sample].key == STARTED_MARK

    def started_groups(self, samples: Iterable[str]) -> list[list[str]]:
        """Return those of ``samples`` that were started, in the groups in which they were started together."""
        samples_by_group: dict[int, list[str]] = {}
        for sample in filter(self.is_started, samples):
            samples_by_group.setdefault(self._entries[sample].values[0], []).append(sample)
        return [*samples_by_group.values()]

    def left(self, members: Iterable[str]) -> set[str]:
        """Return the samples that have left the batch and whose rows may still be in its tables."""
        return {sample for sample, entry in self._entries.items() if entry.key != LEFT_MARK} - {*members}

    def start(self, *samples: str) -> None:
        """Record that samples are being processed together. They are incomplete until `add`."""
        numbers = (entry.values[0] for entry in self._entries.values() if entry.key == STARTED_MARK)
        self._append(dict.fromkeys(samples, Entry(STARTED_MARK, [1 + max(numbers, default=0)])))

    def add(self, keys: Mapping[str, str], outputs: Sequence[Path]) -> None:
        """Record that samples were completed. ``keys``: key of each sample; ``outputs``: files with their results."""
        states = [state_of(path) for path in outputs]
        self._append({sample: Entry(key, states) for sample, key in keys.items()})

    def remove(self, samples: Iterable[str]) -> None:
        """Record that no output has rows of samples that have left the batch."""
        self._append(dict.fromkeys(samples, Entry(LEFT_MARK, [])))

    def clear(self) -> None:
        """Remove all entries, so that no sample is complete."""
        self._entries, self.damaged = {}, False
        self._rewrite()

    def _append(self, entries: Mapping[str, Entry]) -> None:
        """Append the lines of samples. Raises UserError, for example if the disk is full."""
        self._entries |= entries
        self._lines += len(entries)
        if self._incomplete or self._lines > MAX_LINES * len(self._entries):
            self._rewrite()
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with (
            convert_errors(self.path),
            os.fdopen(beneath.open_file(self.path, flags), "w", encoding="utf-8") as stream,
        ):
            stream.writelines(entry.line(sample) for sample, entry in entries.items())

    def _rewrite(self) -> None:
        """Replace the file with the last entry of each sample that has not left the batch."""
        self._entries = {sample: entry for sample, entry in self._entries.items() if entry.key != LEFT_MARK}
        atomic_text(self.path, "".join(entry.line(sample) for sample, entry in self._entries.items()))
        self._lines, self._incomplete = len(self._entries), ""


def journal_file(campaign: Path, stage: str, batch: str) -> Path:
    """Return the path of the journal of a batch in a stage."""
    return campaign / "batches" / "done" / stage / f"{batch}.tsv"


@contextlib.contextmanager
def locked(campaign: Path, stage: str, batch: str) -> Iterator[None]:
    """Hold the lock of a batch in a stage; wait while another process holds it.

    A cluster may repeat a job that still runs on a node that it considers down, and jobs continue if Snakemake is
    killed. Both jobs would extend the same tables, or remove files that the other one has completed. Forks share the
    lock. Raises UserError if the file system has no locks, because rows of one of the jobs could then be lost.
    """
    path = journal_file(campaign, stage, batch).with_suffix(".lock")  # a journal may be replaced
    with os.fdopen(beneath.open_file(path, os.O_WRONLY | os.O_CREAT), "w", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            names.report(f"acapella: waiting for another process that runs {stage} of batch {batch}")
            fcntl.flock(stream, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            what = "this file system has no locks (flock), without which two jobs of a batch may lose rows"
            fix = "mount it with locks (docs/cluster.md, File system), or set `batches: {samples: 1}` in the config"
            raise UserError(what, where=path, fix=fix, outside=True) from error
        yield
