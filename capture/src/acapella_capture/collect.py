"""Take samples from a testbed, or describe existing captures; write raw/<sample> and a manifest per sample.

    acapella collect results/mine --config config/config.yaml --dry-run
    acapella collect results/mine --config config/config.yaml

CAMPAIGN/outcomes.csv contains the outcome of every site, and outcomes.csv in the parent directory contains the outcomes
of all collections.

Testbed `local` builds sites, hosts and switches from network namespaces on this machine, sends real traffic and
captures mirrored ports. Testbed `files` uses the captures of a sample sheet (config/README.md).
"""

import argparse
import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acapella_core import beneath, confinement, names
from acapella_core.arguments import Parser
from acapella_core.decompression import limits
from acapella_core.errors import UserError, exit_code_of
from acapella_core.files import atomic_text

from . import manifest as manifests
from .control.coordinator import Event, collect
from .control.experiment import Notice
from .control.outcomes import Outcome
from .control.sampling import Failure, Progress
from .plan.dry_run import dry_run, site_plans, summary
from .plan.samples import sites_to_sample, trials
from .precheck import check
from .settings import Settings, read_settings
from .testbeds import files, testbed_of, testbeds_with_remains
from .testbeds.base import NotReleased, Testbed
from .testbeds.local import sandbox
from .testbeds.stored_captures import StoredCapture

PRIVATE = 0o077  # umask: captures are private, even while they are incomplete

_preloaded: dict[Path, Settings] = {}


def register_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the parser of `acapella collect`."""
    parser = subparsers.add_parser(
        "collect", help="take samples from a testbed, or describe existing captures", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `acapella collect`."""
    parser.add_argument("campaign", type=Path, metavar="CAMPAIGN", help="campaign directory, results/<name>")
    parser.add_argument("--config", type=Path, required=True, help="YAML file with keys testbed, samples, runs, ...")
    parser.add_argument(
        "--only",
        metavar="SAMPLE",
        help="testbed files: describe this sample only, even if others have errors (default: all)",
    )
    parser.add_argument(
        "--stored",
        metavar="JSON",
        type=stored_capture,
        help="with --only, if the sheet names an object in storage: its fetched copy (file) and its metadata, "
        "or the reason why it cannot be fetched (fault); set by Snakemake",
    )
    parser.add_argument("--list", action="store_true", help="print the samples of a collection and exit")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and the requested resources and exit")
    parser.add_argument(
        "--release-all",
        action="store_true",
        help="release resources left by an earlier collection of CAMPAIGN, and exit",
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="with --list: write to FILE (default: standard output)"
    )


def stored_capture(text: str) -> StoredCapture:
    """Return the value of --stored."""
    return StoredCapture(**json.loads(text))


def preload(args: argparse.Namespace) -> None:
    """Read the config and the sample sheet, before `acapella campaign batch` forks a process for each sample."""
    settings = _preloaded[args.config] = read_settings(args.config)
    files.preload(settings.samples)


def run(args: argparse.Namespace) -> int | None:
    """Run the command; testbed `local` runs it again inside its own namespaces."""
    settings = _preloaded.get(args.config) or read_settings(args.config)
    if args.only and settings.testbed != "files":
        raise UserError("--only requires testbed files", where=args.config)
    if args.stored and not args.only:
        raise UserError("--stored requires --only", where=args.config)
    if args.output and not args.list:
        raise UserError("-o requires --list", where=args.output)
    if args.release_all:
        release_all(testbeds_with_remains(settings, args.campaign.resolve().name), args)
        return None
    if settings.testbed != "files":
        check(settings)
    beneath.protect(args.campaign)
    if args.list:
        write_sample_list(settings, args.output)
        return None
    if args.dry_run:
        sys.stdout.write(dry_run(settings, args.campaign.resolve().name, args.campaign))
        return None
    if settings.testbed == "local" and not sandbox.inside():
        command = [str(args.campaign.resolve()), "--config", str(args.config.resolve())]
        debug = ["--debug"] if getattr(args, "debug", False) else []
        return sandbox.call(sandbox.python_argv("acapella_capture.collect", *command, *debug))
    with contextlib.closing(
        describe_files(args, settings) if settings.testbed == "files" else collect_samples(args, settings)
    ) as events:  # closed here, so that an error of the release after an interrupt is reported
        write_results(args, events)
    return None


def write_results(args: argparse.Namespace, events: Iterator[Event]) -> None:
    """Report events as they arrive, then write the sheets. Raises NotReleased last if only the final release failed."""
    failures: list[Failure] = []
    rows: list[dict[str, Any]] = []
    not_released: NotReleased | None = None
    try:
        rows.extend(report_progress(events, failures))
    except NotReleased as error:
        if not is_after_samples(error):
            raise
        not_released = error
    try:
        if not args.only:
            write_sheets(args.campaign / "raw", rows, failures)
    finally:
        if not_released is not None:
            raise not_released


def describe_files(args: argparse.Namespace, settings: Settings) -> Iterator[Event]:
    """Yield the manifests of existing captures; a separate process confines itself first."""
    if getattr(args, "own_process", False):
        confinement.confine_self(args.campaign / "raw", starts=True)
    return files.describe(
        settings.samples, args.campaign, sample=args.only, limits=limits(**settings.limits), stored=args.stored
    )


def is_after_samples(error: NotReleased) -> bool:
    """Return whether nothing but the release at the end of a collection failed."""
    if isinstance(error.__cause__, KeyboardInterrupt):
        return False
    return error.__cause__ is None or error.__cause__.__context__ is None


def collect_samples(args: argparse.Namespace, settings: Settings) -> Iterator[Event]:
    """Yield the results of a collection on a testbed. Raises NotReleased with the command to release what remains."""
    testbed: Testbed | None = None
    try:
        testbed = testbed_of(settings, args.campaign.resolve().name)
    finally:  # without a testbed, the summary lists what is missing
        for row in summary(settings, testbed):
            names.report(row, sys.stdout)
    try:
        yield from collect(testbed, settings, args.campaign)
    except NotReleased as error:
        raise still_allocated(testbed, args, error) from error
    except KeyboardInterrupt as error:  # perhaps during the release
        remaining = testbed.leftovers()
        if not remaining:
            raise
        raise NotReleased(remaining, "interrupted", f"testbed {testbed.name}", release_command(args)) from error


def still_allocated(testbed: Testbed, args: argparse.Namespace, error: NotReleased) -> UserError:
    """Return the error that lists the allocated resources and the command to release them."""
    remaining = resources_after_release(testbed, error)
    if not remaining:  # released by a later attempt
        return UserError(error.reason, where=f"testbed {testbed.name}")
    return NotReleased(remaining, error.reason, where=f"testbed {testbed.name}", fix=release_command(args))


def resources_after_release(testbed: Testbed, error: UserError | None) -> tuple[str, ...]:
    """Return the resources that remain after a release; ``error``: why it failed, or None. Raises UserError."""
    try:
        return testbed.leftovers()
    except UserError:  # resources allocated before may still exist
        if not isinstance(error, NotReleased):
            raise
        return error.names


def release_command(args: argparse.Namespace) -> str:
    """Return the command to release the resources that a collection left."""
    return f"acapella collect {shlex.quote(str(args.campaign))} --config {shlex.quote(str(args.config))} --release-all"


def release_all(testbeds: Sequence[Testbed], args: argparse.Namespace) -> None:
    """Release the resources that an earlier collection left. Raises UserError, or NotReleased if some remain."""
    where = f"testbed {testbeds[0].name}"
    leftovers: list[tuple[Testbed, tuple[str, ...]]] = []
    remaining: list[str] = []
    reasons: list[str] = []
    for testbed in testbeds:
        try:
            leftovers.append((testbed, testbed.leftovers()))
        except UserError as error:
            reasons.append(str(error).removeprefix(f"{where}: "))
    lines = [f"still allocated: {name}" for _, left in leftovers for name in left]
    print("\n".join(lines) or ("" if reasons else "nothing to release"), flush=True)
    for testbed in [testbed for testbed, left in leftovers if left]:
        error: UserError | None = None
        try:
            testbed.release()
        except UserError as raised:
            error = raised
            reasons.append(raised.reason if isinstance(raised, NotReleased) else str(raised).removeprefix(f"{where}: "))
        remaining += resources_after_release(testbed, error)
    if remaining:
        raise NotReleased(remaining, "; ".join(reasons) or "try again later", where, release_command(args))
    if reasons:
        raise UserError("; ".join(reasons), where=where)
    if lines:
        print("released")


def write_sheets(raw: Path, rows: list[dict[str, Any]], failures: list[Failure]) -> None:
    """Write raw/samples.tsv and, if samples failed, raw/failed.tsv. Raises UserError if all failed."""
    sheet, failed = raw / manifests.SHEET, raw / manifests.FAILED
    if failures:
        atomic_text(failed, manifests.sheet(map(asdict, failures), manifests.FAILED_COLUMNS))
        names.report(f"{names.pluralize(len(failures), 'sample')} failed: {failed}")
    else:
        failed.unlink(missing_ok=True)
    if failures and not rows:
        sheet.unlink(missing_ok=True)
        raise UserError(f"no sample could be taken; first failure: {failures[0].why}", where=failed)
    ordered = sorted(rows, key=lambda row: ("trial" in row, row["site"], row["requested"]["start_ns"] or 0))
    atomic_text(sheet, manifests.sheet(map(manifests.sheet_row, ordered)))
    print(f"{names.pluralize(len(rows), 'sample')}: {sheet}")


def write_sample_list(settings: Settings, output: Path | None) -> None:
    """Write the samples of a future collection to a file or to standard output."""
    text = manifests.sheet(planned(settings))
    if output:
        atomic_text(output, text)
    else:
        sys.stdout.write(text)


def planned(settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the samples of a future collection as lines of the sheet."""
    if settings.testbed == "files":
        for row in files.read_sheet(settings.samples):
            yield {"sample": row.sample, "site": row.site, "port": row.port, "file": row.link}
        return
    testbed = testbed_of(settings)
    settings = testbed.adapt(settings)
    sites = sites_to_sample(settings, testbed.sites(), testbed.unavailable_sites())
    batches = [batch for plan in site_plans(settings, testbed, sites) for batch in plan.batches_in_advance()]
    for batch in (*batches, *trials(testbed.replay_plan(), settings.capture.format)):
        for sample in batch:
            yield {"sample": sample.name, "site": sample.site.name, "port": sample.port.name, "file": sample.file}


def report_progress(events: Iterable[Event], failures: list[Failure]) -> Iterator[dict[str, Any]]:
    """Print each result, and each note once. Yield manifests; append failures to a list."""
    printed_notes: set[str] = set()
    for event in events:
        if isinstance(event, Failure):
            failures.append(event)
            names.report(f"warning: {event.sample} failed: {event.why}")
            continue
        if isinstance(event, Notice):
            names.report(f"warning: {event.text}")
            continue
        if isinstance(event, Progress):
            names.report(event.text, sys.stdout)
            continue
        if isinstance(event, Outcome):
            names.report(f"{event.site}: {event.outcome}{event.reason and ': '}{event.reason}", sys.stdout)
            continue
        manifest = event
        frames = manifest["frames_captured"]
        size = f"{frames} frames" if frames is not None else f"{manifest['bytes']} bytes"
        names.report(f"{manifest['sample']}: {size}", sys.stdout)
        for note in manifest["notes"]:
            if note not in printed_notes:
                names.report(f"note: {note}", sys.stdout)
                printed_notes.add(note)
        yield manifest


def main() -> int:
    """Run `acapella collect` inside the sandbox, where the package of the command line need not be installed."""
    parser = Parser(prog="acapella collect")
    add_arguments(parser)
    parser.add_argument("--debug", action="store_true")
    args = parser.parse_args()
    args.own_process = True
    previous = os.umask(PRIVATE)
    try:
        return run(args) or 0
    except BrokenPipeError:  # the reader of the output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (UserError, OSError) as error:
        if args.debug:
            raise
        names.report(f"acapella: error: {error}")
        return exit_code_of(error)
    except KeyboardInterrupt:
        return 130
    finally:
        os.umask(previous)


if __name__ == "__main__":
    sys.exit(main())
