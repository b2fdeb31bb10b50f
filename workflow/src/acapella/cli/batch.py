"""Run one stage for the samples of a batch, each in its own process, and skip samples that are complete.

    acapella campaign batch results/mine digest b0001 -o results/mine/batches/digest/b0001.tsv -- --engine native
    acapella campaign batch results/mine analyze b0001 -o results/mine/batches/analyze/b0001.tsv

The stages are collect, digest, analyze and flowreports; options after -- are passed to the command `acapella collect`,
`acapella digest`, `acapella campaign analyze` or `acapella p4 reports`. Stage flowreports processes the samples of the
batch that config key flowreports.samples selects (CAMPAIGN/config.json), except those whose flow reports failed before.

The program is loaded once. Each sample is processed in a fork, so an error, a crash or the memory use of one sample
does not affect the others. A fork of stage analyze processes several small samples, because planning the queries takes
longer than running them for one sample. If it fails, these samples are split in half, and each half is processed in a
separate fork, until only the failing sample is left. If the whole job is killed meanwhile, the next run processes these
samples last, in smaller groups. If only the queries of some tables have changed (--tables), only these tables are
recreated, for all samples of the batch.

CAMPAIGN/logs/STAGE/SHARD/SAMPLE.log is the log of a sample. OUT lists the samples and their outcomes: done, or kept if
command, code and input files are the same as in an earlier run. CAMPAIGN/benchmarks/batches/STAGE/BATCH.samples.tsv
lists the time and memory of each processed sample. Samples that were processed together have the same log, and their
time is divided by their number.

If a sample fails, the others are still processed. A failed sample has no output, not even from an earlier run. The
batch then exits with the exit code of the failed samples (the smallest one, if they differ), and
CAMPAIGN/logs/batches/STAGE/BATCH.failed.tsv lists them. The next run processes only these. If the batch is killed,
CAMPAIGN/logs/batches/STAGE/BATCH.current contains the name of the sample that it was processing, which the next run
processes last.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from acapella.campaign.batches import (
    OF_SELECTED,
    STAGES,
    Member,
    current_file,
    failures_file,
    key_of,
    log_of,
    outputs_of,
    read_plan,
    recorded_as_current,
    sheet,
    write_failures,
)
from acapella.campaign.journal import Journal, locked
from acapella.campaign.layout import Campaign, open_campaign
from acapella.campaign.reported import samples_without_reports, selected_samples
from acapella.digest.cache import damaged_entries
from acapella_core import beneath, names, shards
from acapella_core.errors import INTERRUPTED, UserError
from acapella_core.files import atomic_text, remove

from .batch_analysis import BatchAnalysis
from .forks import Outcome, load, run_in_fork


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
    if args.stage == OF_SELECTED:
        selected, failed = selected_samples(campaign), {*samples_without_reports(campaign)}
        selected = {member.sample for member in members} if selected is None else {*selected}
        members = [member for member in members if member.sample in selected - failed]
    if not members:
        what = f"no batch {args.batch!r}, or none of its samples is selected"
        raise UserError(what, where=campaign / "batches" / "plan.jsonl")
    beneath.make_directory(shards.marker(campaign, args.stage))
    with locked(campaign, args.stage, args.batch):  # only the job that holds the lock may change the files of the batch
        return process(campaign, args, members)


def process(campaign: Path, args: argparse.Namespace, members: Sequence[Member]) -> int:
    """Process the samples that are not complete; return the exit code. After a signal to stop, no other sample starts.

    Requires the lock of the batch in this stage.
    """
    failures = failures_file(campaign, args.stage, args.batch)
    for earlier in (failures, current_file(campaign, args.stage, args.batch)):
        earlier.unlink(missing_ok=True)
    together = STAGES[args.stage].together
    finished = BatchAnalysis(campaign, args, members).run() if together else process_one_by_one(campaign, args, members)
    outcomes: list[Outcome] = []
    try:
        for outcome in finished:
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


def process_one_by_one(campaign: Path, args: argparse.Namespace, members: Sequence[Member]) -> Iterator[Outcome]:
    """Process each sample that is not complete in its own fork; yield all outcomes.

    Samples that failed or were interrupted in an earlier run are processed last, because they may also end this run,
    for example if a cluster kills the job because of its memory or its run time.
    """
    stage, journal = STAGES[args.stage], Journal(campaign, args.stage, args.batch)
    current = current_file(campaign, args.stage, args.batch)
    loaded = False
    for member in sorted(members, key=lambda member: journal.is_started(member.sample)):
        command = command_of(args.stage, campaign, member, args.options)
        outputs = outputs_of(campaign, stage, member)
        key = key_of(campaign, stage, member, command, args.code)
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
            remove_outputs(outputs)  # exit code 1 for a damaged capture: the outputs were written
        yield outcome
        if outcome.exit_code in INTERRUPTED:  # Ctrl-C reaches the whole process group
            sys.exit(outcome.exit_code)


def remove_outputs(outputs: Sequence[Path]) -> None:
    """Remove the outputs of a sample, as Snakemake does before a job of a single sample, and after it fails.

    An output may be a link to an entry of a cache; nothing is written through links.
    """
    for path in outputs:
        with beneath.parent(path, link=True) as directory:
            if directory is not None:
                remove(path.name, directory)


def command_of(stage: str, campaign: Path, member: Member, options: Sequence[str]) -> list[str]:
    """Return the arguments of `acapella` that process a sample in a stage other than analyze."""
    outputs = [str(path) for path in outputs_of(campaign, STAGES[stage], member)]
    match stage:
        case "collect":
            stored = [f"--stored={json.dumps(member.stored)}"] if member.stored else []
            return ["collect", str(campaign), "--only", member.sample, *stored, *options]
        case "flowreports":
            layout = Campaign.at(campaign)
            files = [f"--acap={layout.acap(member.sample)}", f"--flows={layout.flows(member.sample)}"]
            directory = str(Path(outputs[0]).parent)
            sample_options = [f"--sample={member.sample}", *files, *options]
            return ["p4", "reports", "-o", directory, *sample_options, "--", member.capture]
        case _:
            sample_options = [f"--site={member.site}", f"--port={member.port}"]
            if member.stored and member.stored["sha256"]:
                sample_options.append(f"--sha256={member.stored['sha256']}")
            return ["digest", "-o", outputs[0], "--flows", outputs[1], *sample_options, *options, "--", member.capture]


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
