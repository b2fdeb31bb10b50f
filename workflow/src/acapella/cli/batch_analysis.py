"""Analyzes the samples of a batch, several in one fork, which extends the partial tables of the batch."""

import argparse
import contextlib
import itertools
import math
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from acapella.campaign.batches import (
    STAGES,
    Member,
    current_file,
    groups,
    key_of,
    log_of,
    outputs_of,
    recorded_as_current,
    state_of,
)
from acapella.campaign.journal import Journal
from acapella.campaign.layout import Campaign
from acapella_core import beneath
from acapella_core.errors import INTERRUPTED
from acapella_core.files import convert_errors

from .forks import Outcome, load, run_in_fork

# Size of the acaps and flow tables of samples that are analyzed together.
TOGETHER_BYTES = 48 << 20
PARTS = 16  # minimum of number_of_parts


def number_of_parts(samples: int) -> int:
    """Return the number of parts into which a group that ended the job is divided, of a batch of ``samples``.

    After two divisions, a part is a single sample: if a sample always ends the job, the third attempt (`retries` of
    profiles/slurm) processes it alone.
    """
    return max(PARTS, math.isqrt(samples) + 1)


class BatchAnalysis:
    """The analysis of a batch. Requires the lock of the batch, because all forks extend the same tables.

    ``args``: arguments of `acapella campaign batch`.
    """

    def __init__(self, campaign: Path, args: argparse.Namespace, members: Sequence[Member]):
        stage = STAGES[args.stage]
        self.campaign = campaign
        self.stage = args.stage
        self.options = args.options
        self.current = current_file(campaign, args.stage, args.batch)
        self.journal = Journal(campaign, args.stage, args.batch)
        self.tables = outputs_of(campaign, stage, members[0])
        self.versions = QueryVersions(campaign, args, self.tables)
        self.keys = {member.sample: key_of(campaign, stage, member, args.options, args.code) for member in members}
        self.complete: dict[str, str] = {}  # key of each sample whose rows are in the tables
        self.started = self.journal.started_groups(self.keys)  # by earlier runs
        self._loaded = False

    def run(self) -> Iterator[Outcome]:
        """Analyze the samples that are not complete; yield all outcomes.

        A failed group is halved until only the sample that causes the failure fails. Each fork rewrites the tables of
        the batch, so analyzing each sample of the group separately would take too long.
        """
        yield from self._update_tables()
        queue = self._groups()
        while queue:
            group = queue.pop(0)
            outcome = self._analyze(group, keep=self.complete)
            if outcome.exit_code and len(group) > 1:
                queue += parts(group, 2)
                continue
            if outcome.exit_code == 0:
                self._record(group)
            for sample in group:
                yield outcome.share(sample, len(group))

    def _update_tables(self) -> list[Outcome]:
        """Update the tables to the current rows of complete samples, and of no others; return their outcomes.

        If this fails, or a damaged journal does not contain all samples whose rows are in the tables, no sample is
        complete, and the first group that is analyzed replaces the tables.
        """
        if self.journal.damaged:
            self.journal.clear()
        self.complete = self.journal.completed(self.keys, self.tables)
        outcomes = self._recreate_changed() if self.complete else []
        if outcomes and self.journal.left(self.keys) and not self._remove_left():
            outcomes = []
        if not outcomes:
            self.complete = {}
        return outcomes

    def _recreate_changed(self) -> list[Outcome]:
        """Recreate tables whose queries have changed; return the outcomes of complete samples, [] if a group fails."""
        changed = self.versions.changed()
        if not changed:
            return [Outcome(sample, "kept") for sample in self.complete]
        outcomes: list[Outcome] = []
        for group in sample_groups(self.campaign, [*self.complete]):
            outcome = self._analyze(group, keep=[outcome.sample for outcome in outcomes], only=changed)
            if outcome.exit_code:
                return []
            copy_log(self.campaign, group)
            outcomes += [outcome.share(sample, len(group)) for sample in group]
        self.journal.add(self.complete, self.tables)
        self.versions.record()
        return outcomes

    def _remove_left(self) -> bool:
        """Remove rows of samples that have left the batch; return whether this succeeds."""
        outcome = self._run([], None, keep=self.complete)
        if outcome.exit_code:
            return False
        self.journal.add(self.complete, self.tables)
        self.versions.record()
        self.journal.remove(self.journal.left(self.keys))
        return True

    def _groups(self) -> list[list[str]]:
        """Return the groups in which samples that are not complete are analyzed.

        Samples that an earlier run started are last, because they may also end this run, for example if a cluster kills
        the job because of its memory or its run time. Each of their groups is divided.
        """
        number = number_of_parts(len(self.keys))
        started = {sample for group in self.started for sample in group}
        others = [sample for sample in self.keys if sample not in self.complete and sample not in started]
        return [
            *sample_groups(self.campaign, others),
            *(part for group in self.started for part in parts(group, number)),
        ]

    def _analyze(self, group: Sequence[str], *, keep: Iterable[str], only: Sequence[str] = ()) -> Outcome:
        """Analyze samples; return the outcome under the name of the first one."""
        self.journal.start(*group)
        with recorded_as_current(self.current, group[0]) if len(group) == 1 else contextlib.nullcontext():
            return self._run(group, log_of(self.campaign, self.stage, group[0]), keep=keep, only=only)

    def _run(
        self, samples: Sequence[str], log: Path | None, *, keep: Iterable[str], only: Sequence[str] = ()
    ) -> Outcome:
        """Run `acapella campaign analyze` for samples of the batch. Exits if a signal to stop interrupts it.

        ``keep``: other samples whose rows the tables keep; ``only``: tables to create (default: all).
        """
        command = ["campaign", "analyze", str(self.campaign)]
        for option, words in (("--sample", samples), ("--keep", [*keep]), ("--only", only)):
            command += [option, *words] if words else []
        command += ["-o", str(self.tables[0].parent), *self.options]
        if not self._loaded:
            load(command)
            self._loaded = True
        outcome = run_in_fork(command, samples[0] if samples else "", log)
        if outcome.exit_code in INTERRUPTED:
            sys.exit(outcome.exit_code)
        return outcome

    def _record(self, group: Sequence[str]) -> None:
        """Record that samples are complete, and that the tables contain no rows of samples that are not."""
        self.complete |= {sample: self.keys[sample] for sample in group}
        remove_earlier(self.campaign, group)  # first: a complete sample is skipped, and must not be in two tables
        self.journal.add(self.complete, self.tables)
        if left := self.journal.left(self.keys):
            self.journal.remove(left)
        self.versions.record()
        copy_log(self.campaign, group)


class QueryVersions:
    """The versions of the queries that created the partial tables of a batch.

    A journal contains the version and the file state of each table, like the stage's journal for samples.
    """

    def __init__(self, campaign: Path, args: argparse.Namespace, tables: Sequence[Path]):
        versions: Mapping[str, str] = dict(text.partition("=")[::2] for text in args.tables)
        self._versions = {path: versions[path.stem] for path in tables if path.stem in versions}
        self._journal = Journal(campaign, args.stage, f"{args.batch}.tables")

    def changed(self) -> list[str]:
        """Return the names of tables that were not created by the current version of their queries."""
        return [
            path.stem
            for path, version in self._versions.items()
            if not self._journal.is_complete(path.stem, version, [path])
        ]

    def record(self) -> None:
        """Record that all tables are of the current version."""
        for path, version in self._versions.items():
            self._journal.add({path.stem: version}, [path])


def parts(group: Sequence[str], number: int) -> list[list[str]]:
    """Return a group divided into this number of parts of almost the same size, or into single samples."""
    number = min(number, len(group))
    bounds = [len(group) * part // number for part in range(number + 1)]
    return [[*group[start:end]] for start, end in itertools.pairwise(bounds)]


def sample_groups(campaign: Path, samples: Sequence[str]) -> Iterator[list[str]]:
    """Yield groups of samples that are analyzed together."""
    layout = Campaign.at(campaign)
    sizes = {
        sample: sum(state_of(path)[0] or 0 for path in (layout.acap(sample), layout.flows(sample)))
        for sample in samples
    }
    return groups(samples, sizes, TOGETHER_BYTES)


def copy_log(campaign: Path, samples: Sequence[str]) -> None:
    """Copy the common log of samples that were analyzed together from the first sample to the others."""
    content = log_of(campaign, "analyze", samples[0]).read_bytes()
    for sample in samples[1:]:
        path, flags = log_of(campaign, "analyze", sample), os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with convert_errors(path), os.fdopen(beneath.open_file(path, flags), "wb") as stream:
            stream.write(content)


def remove_earlier(campaign: Path, samples: Sequence[str]) -> None:
    """Remove the tables that an analysis without batches has created for samples."""
    for sample in samples:
        directory = campaign / "partial" / sample
        if directory.is_dir() and not directory.is_symlink():
            shutil.rmtree(directory)
