"""Run one stage for the samples of a batch, each in its own process, and skip samples that are complete.

    acapella campaign batch results/mine digest b0001 -o results/mine/batches/digest/b0001.tsv -- --engine native
    acapella campaign batch results/mine analyze b0001 -o results/mine/batches/analyze/b0001.tsv

The stages are collect, digest and analyze; options after -- are passed to the command `acapella collect`, `acapella
digest` or `acapella campaign analyze`. The program is loaded once. Each sample is processed in a fork, so an error, a
crash or the memory use of one sample does not affect the others. A fork of stage analyze processes several small
samples, because planning the queries takes longer than running them for one; if it fails, each half of these samples is
processed in its own fork, and so on. If only the queries of some tables have changed (--tables), only these tables are
recreated, for all samples of the batch. CAMPAIGN/logs/STAGE/SHARD/SAMPLE.log is the log of a sample. OUT lists the
samples and their outcomes: done, or kept if command, code and input files are the same as in an earlier run.
CAMPAIGN/benchmarks/batches/STAGE/BATCH.samples.tsv lists the time and memory of each sample. Samples that were
processed together have the same log, and their time is divided by their number.

If a sample fails, the others are still processed. A failed sample has no output, not even from an earlier run. The
batch then exits with the exit code of the failed samples (the smallest one, if they differ), and
CAMPAIGN/logs/batches/STAGE/BATCH.failed.tsv lists them. The next run processes only these. If the batch is killed,
CAMPAIGN/logs/batches/STAGE/BATCH.current contains the name of the sample that it was processing, which the next run
processes last.
"""

import argparse
import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from acapella.campaign.batches import (
    STAGES,
    Journal,
    Member,
    current_file,
    failures_file,
    groups,
    key_of,
    locked,
    log_of,
    outputs_of,
    read_plan,
    recorded_as_current,
    sheet,
    state_of,
    write_failures,
)
from acapella.campaign.layout import Campaign, open_campaign
from acapella.digest.cache import damaged_entries
from acapella_core import beneath, names, shards
from acapella_core.errors import INTERNAL, INTERRUPTED, OUTSIDE, UserError
from acapella_core.files import atomic_text, remove

from . import entry
from .commands import build_parser

# Options that do not affect the output, or repeat --code.
NEUTRAL = ("--cache-key=", "--damaged=", "--max-seconds=", "--memory=", "--progress", "--threads=")
# Size of the acaps and flow tables of samples that are analyzed together.
TOGETHER_BYTES = 48 << 20
PR_SET_PDEATHSIG = 1  # of prctl(2)


@dataclass(frozen=True)
class Outcome:
    """How a sample of a batch ended. ``result``: done, kept or failed; ``exit_code``: 128 + N if signal N ended it."""

    sample: str
    result: str
    exit_code: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    max_rss_mb: float = 0.0

    def share(self, sample: str, number: int) -> "Outcome":
        """Return the outcome of one of ``number`` samples that were processed together."""
        return replace(self, sample=sample, seconds=self.seconds / number, cpu_s=self.cpu_s / number)


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign batch`."""
    parser = subparsers.add_parser("batch", help="run a stage for the samples of a batch", description=__doc__)
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    parser.add_argument("stage", choices=[*STAGES], help="stage to run")
    parser.add_argument("batch", metavar="BATCH", help="name of the batch in CAMPAIGN/batches/plan.jsonl")
    parser.add_argument("-o", dest="output", metavar="OUT", required=True, help="list of samples and outcomes (TSV)")
    parser.add_argument(
        "--code", default="", help="version of the code; if it has changed, all samples are processed again"
    )
    parser.add_argument(
        "--tables",
        nargs="+",
        metavar="TABLE=VERSION",
        default=[],
        help="stage analyze: version of the queries of each table; a table whose version has changed is recreated",
    )
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="options of the stage's command")
    return parser


def run(args: argparse.Namespace) -> int:
    """Process the samples of a batch; return 0 if all of them are complete."""
    campaign = open_campaign(args.campaign).directory
    members = [member for member in read_plan(campaign) if member.batch == args.batch]
    if not members:
        raise UserError(f"no batch {args.batch!r}", where=campaign / "batches" / "plan.jsonl")
    beneath.make_directory(shards.marker(campaign, args.stage))
    failures = failures_file(campaign, args.stage, args.batch)
    for earlier in (failures, current_file(campaign, args.stage, args.batch)):
        earlier.unlink(missing_ok=True)
    outcomes: list[Outcome] = []
    try:
        for outcome in process(campaign, args, members):
            outcomes.append(outcome)
            print_progress(outcome, len(outcomes), len(members))
    finally:
        failed = [outcome for outcome in outcomes if outcome.result == "failed"]
        if failed:
            write_failures(failures, {outcome.sample: outcome.exit_code for outcome in failed})
    write_costs(campaign / "benchmarks" / "batches" / args.stage / f"{args.batch}.samples.tsv", outcomes)
    if failed:
        names.report(f"acapella: error: {len(failed)} of {len(members)} samples failed: {failures}")
        return min(outcome.exit_code for outcome in failed)
    results = {outcome.sample: outcome.result for outcome in outcomes}
    rows = ((member.sample, results[member.sample]) for member in members)
    atomic_text(args.output, sheet(("sample", "outcome"), rows))
    return 0


def process(campaign: Path, args: argparse.Namespace, members: Sequence[Member]) -> Iterator[Outcome]:
    """Process each sample that is not complete; yield all outcomes. After a signal to stop, no other sample starts.

    Samples that did not end in an earlier run are processed last, because they may also end this run, for example if a
    cluster kills the job for its memory or its time.
    """
    stage = STAGES[args.stage]
    if stage.together:
        with locked(campaign, args.stage, args.batch):
            yield from process_together(campaign, args, members, Journal(campaign, args.stage, args.batch))
        return
    journal = Journal(campaign, args.stage, args.batch)
    current = current_file(campaign, args.stage, args.batch)
    loaded = False
    for member in sorted(members, key=lambda member: journal.is_started(member.sample)):
        command = command_of(args.stage, campaign, member, args.options)
        outputs = outputs_of(campaign, stage, member)
        key = key_of(campaign, stage, member, [word for word in command if not word.startswith(NEUTRAL)], args.code)
        damaged = args.stage == "digest" and damaged_entries(campaign, member.sample)
        if not damaged and journal.is_complete(member.sample, key, outputs):
            yield Outcome(member.sample, "kept")
            continue
        if not loaded:
            load(command)
            loaded = True
        for path in outputs:
            beneath.make_directory(path.parent)
        remove_outputs(outputs)
        journal.start(member.sample)
        with recorded_as_current(current, member.sample):
            outcome = run_in_fork(command, member.sample, log_of(campaign, args.stage, member.sample))
        if outcome.exit_code == 0:
            journal.add({member.sample: key}, outputs)
        else:
            remove_outputs(outputs)  # a damaged capture has outputs
        yield outcome
        if outcome.exit_code in INTERRUPTED:  # Ctrl-C reaches the whole process group
            sys.exit(outcome.exit_code)


def process_together(
    campaign: Path, args: argparse.Namespace, members: Sequence[Member], journal: Journal
) -> Iterator[Outcome]:
    """Analyze the samples that are not complete, several in one fork; yield all outcomes.

    Samples that were started in an earlier run are analyzed alone. A failed group is halved until only the sample that
    causes the failure fails: each fork rewrites the tables of the batch, so analyzing all of its samples alone takes
    too long. First, tables of complete samples whose queries have changed are recreated; if this fails, all samples are
    analyzed.
    """
    stage = STAGES[args.stage]
    outputs = outputs_of(campaign, stage, members[0])
    tables = BatchTables(campaign, args, outputs)
    words = [word for word in args.options if not word.startswith(NEUTRAL)]
    keys = {member.sample: key_of(campaign, stage, member, words, args.code) for member in members}
    complete = {sample: key for sample, key in keys.items() if journal.is_complete(sample, key, outputs)}
    left = journal.left(keys, outputs)
    if left:
        complete = {}  # all tables are written again, without rows of samples that have left the batch
    outcomes = remake_changed(campaign, args, journal, tables, complete)
    if outcomes is None:
        complete = {}
    yield from outcomes or ()
    pending = [sample for sample in keys if sample not in complete]
    started = [sample for sample in pending if journal.is_started(sample)]
    others = [sample for sample in pending if sample not in started]
    queue = [*grouped(campaign, others), *([sample] for sample in started)]
    if queue:
        load(analysis(campaign, queue[0], tables, args.options))
    while queue:
        group = queue.pop(0)
        command = analysis(campaign, group, tables, args.options, keep=complete)
        outcome = analyze_group(campaign, args, journal, group, command)
        if outcome.exit_code and outcome.exit_code not in INTERRUPTED and len(group) > 1:
            queue += [group[: len(group) // 2], group[len(group) // 2 :]]
            continue
        if outcome.exit_code == 0:
            complete |= {sample: keys[sample] for sample in group}
            remove_earlier(campaign, group)  # first: a complete sample is skipped, and must not be in two tables
            journal.add(complete, outputs)
            if left:
                journal.remove(left)
                left = set()
            tables.record()
            copy_log(campaign, group)
        for sample in group:
            yield outcome.share(sample, len(group))
        if outcome.exit_code in INTERRUPTED:
            sys.exit(outcome.exit_code)


class BatchTables:
    """The partial tables of a batch, and the versions of the queries that created them.

    A journal contains the version and the file state of each table, like the stage's journal for samples.
    """

    def __init__(self, campaign: Path, args: argparse.Namespace, files: Sequence[Path]):
        self.files = files
        self.directory = files[0].parent
        self._versions = dict(text.partition("=")[::2] for text in args.tables)
        self._journal = Journal(campaign, args.stage, f"{args.batch}.tables")

    def changed(self) -> list[str]:
        """Return the names of tables that were not created by the current version of their queries."""
        return [
            path.stem
            for path in self.files
            if path.stem in self._versions
            and not self._journal.is_complete(path.stem, self._versions[path.stem], [path])
        ]

    def record(self) -> None:
        """Record that all tables are of the current version."""
        for path in self.files:
            if path.stem in self._versions:
                self._journal.add({path.stem: self._versions[path.stem]}, [path])


def remake_changed(
    campaign: Path, args: argparse.Namespace, journal: Journal, tables: BatchTables, complete: Mapping[str, str]
) -> list[Outcome] | None:
    """Recreate the tables whose queries have changed; return the outcomes, or None if a group of samples fails.

    ``complete``: key of each complete sample.
    """
    changed = tables.changed() if complete else []
    if not changed:
        return [Outcome(sample, "kept") for sample in complete]
    outcomes: list[Outcome] = []
    for group in grouped(campaign, [*complete]):
        keep = [outcome.sample for outcome in outcomes]
        command = analysis(campaign, group, tables, args.options, keep=keep, only=changed)
        if not outcomes:
            load(command)
        outcome = analyze_group(campaign, args, journal, group, command)
        if outcome.exit_code in INTERRUPTED:
            sys.exit(outcome.exit_code)
        if outcome.exit_code:
            return None
        copy_log(campaign, group)
        outcomes += [outcome.share(sample, len(group)) for sample in group]
    journal.add(complete, tables.files)
    tables.record()
    return outcomes


def analyze_group(
    campaign: Path, args: argparse.Namespace, journal: Journal, group: Sequence[str], command: Sequence[str]
) -> Outcome:
    """Run a command that analyzes samples; return the outcome under the name of the first sample."""
    journal.start(*group)
    current = current_file(campaign, args.stage, args.batch)
    with recorded_as_current(current, group[0]) if len(group) == 1 else contextlib.nullcontext():
        return run_in_fork(command, group[0], log_of(campaign, args.stage, group[0]))


def tables_of(campaign: Path, sample: str) -> list[Path]:
    """Return the paths of the acap and the flow table of a sample."""
    return [Campaign.at(campaign).acap(sample), Campaign.at(campaign).flows(sample)]


def grouped(campaign: Path, samples: Sequence[str]) -> Iterator[list[str]]:
    """Yield groups of samples that are analyzed together."""
    sizes = {sample: sum(state_of(path)[0] or 0 for path in tables_of(campaign, sample)) for sample in samples}
    return groups(samples, sizes, TOGETHER_BYTES)


def analysis(  # noqa: PLR0913
    campaign: Path,
    samples: Sequence[str],
    tables: BatchTables,
    options: Sequence[str],
    *,
    keep: Iterable[str] = (),
    only: Sequence[str] = (),
) -> list[str]:
    """Return the arguments of `acapella` that analyze samples of a batch.

    ``keep``: other samples whose rows the tables keep; ``only``: tables to create (default: all).
    """
    more = [word for option, words in (("--keep", [*keep]), ("--only", only)) if words for word in (option, *words)]
    return ["campaign", "analyze", str(campaign), "--sample", *samples, *more, "-o", str(tables.directory), *options]


def copy_log(campaign: Path, samples: Sequence[str]) -> None:
    """Copy the common log of samples that were analyzed together from the first sample to the others."""
    content = log_of(campaign, "analyze", samples[0]).read_bytes()
    for sample in samples[1:]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(beneath.open_file(log_of(campaign, "analyze", sample), flags), "wb") as stream:
            stream.write(content)


def remove_earlier(campaign: Path, samples: Sequence[str]) -> None:
    """Remove the tables that an analysis without batches has created for samples."""
    for sample in samples:
        directory = campaign / "partial" / sample
        if directory.is_dir() and not directory.is_symlink():
            shutil.rmtree(directory)


def remove_outputs(outputs: Sequence[Path]) -> None:
    """Remove the outputs of a sample, as Snakemake does before a job of a single sample, and after it fails.

    An output may be a link to an entry of a cache; nothing is written through links.
    """
    for path in outputs:
        with beneath.parent(path, link=True) as directory:
            if directory is not None:
                remove(path.name, directory)


def command_of(stage: str, campaign: Path, member: Member, options: Sequence[str]) -> list[str]:
    """Return the arguments of `acapella` that process a sample in stage collect or digest."""
    outputs = [str(path) for path in outputs_of(campaign, STAGES[stage], member)]
    match stage:
        case "collect":
            stored = [f"--stored={json.dumps(member.stored)}"] if member.stored else []
            return ["collect", str(campaign), "--only", member.sample, *stored, *options]
        case _:
            place = [f"--site={member.site}", f"--port={member.port}"]
            if member.stored and member.stored["sha256"]:
                place.append(f"--sha256={member.stored['sha256']}")
            return ["digest", "-o", outputs[0], "--flows", outputs[1], *place, *options, "--", member.capture]


def load(command: Sequence[str]) -> None:
    """Import the modules of a command and read the data that all samples share, before the first fork.

    The module of a command has a function `preload(args)` for this.
    """
    args = build_parser(command).parse_args(command)
    module = importlib.import_module(args.run.__module__)
    if hasattr(module, "preload"):
        module.preload(args)


def run_in_fork(command: Sequence[str], sample: str, log: Path) -> Outcome:
    """Run a command in a fork, with its output in a log. A signal that ends this process is sent to the fork first."""
    descriptor = beneath.open_file(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    start, parent = time.monotonic(), os.getpid()
    sys.stdout.flush()
    gc.freeze()  # garbage collection in the fork would write to all objects of this process, and so copy their pages
    pid = os.fork()
    if pid == 0:
        run_command(command, descriptor, parent)
    gc.unfreeze()
    os.close(descriptor)
    try:
        _, status, usage = os.wait4(pid, 0)
    except BaseException as stop:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM)
        os.waitpid(pid, 0)
        raise
    code = os.waitstatus_to_exitcode(status)
    code = 128 - code if code < 0 else code
    elapsed, cpu_s = time.monotonic() - start, usage.ru_utime + usage.ru_stime
    return Outcome(sample, "failed" if code else "done", code, elapsed, cpu_s, usage.ru_maxrss / 1024)


def run_command(command: Sequence[str], log: int, parent: int) -> None:
    """Run a command in this fork and end the fork; nothing on the parent's stack runs.

    If the parent is killed, the kernel sends SIGTERM, so that the sample is not processed twice at the same time.
    """
    code = INTERNAL
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(OUTSIDE)
        atexit._clear()  # do not run functions that the parent has registered
        for number, handler in ((signal.SIGINT, entry.stop), (signal.SIGTERM, None), (signal.SIGHUP, None)):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, handler or signal.SIG_DFL)
        for stream in (1, 2):
            os.dup2(log, stream)
        sys.argv = ["acapella", *command]
        try:
            code = entry.main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def print_progress(outcome: Outcome, number: int, total: int) -> None:
    """Print a line about a sample that was processed."""
    if outcome.result != "kept":
        code = f", exit code {outcome.exit_code}" if outcome.exit_code else ""
        print(f"{number} of {total}: {outcome.sample}: {outcome.result} in {outcome.seconds:.2f} s{code}", flush=True)


def write_costs(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Write time and memory of the samples that were processed."""
    rows = (
        (o.sample, o.result, f"{o.seconds:.3f}", f"{o.cpu_s:.3f}", f"{o.max_rss_mb:.1f}")
        for o in outcomes
        if o.result != "kept"
    )
    atomic_text(path, sheet(("sample", "outcome", "seconds", "cpu_s", "max_rss_mb"), rows))
