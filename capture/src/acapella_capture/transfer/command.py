"""Run a grid of transfers over a slice with emulated links, and write transfers/ with a directory per run.

    acapella transfer results/mine --config config/config.yaml --dry-run
    acapella transfer results/mine --config config/config.yaml

The config key `transfer` describes the slice (topology, mode) and the grid (algorithms, delays, buffers, rates,
streams, sizes). The command builds the slice, measures its links, runs the missing transfers in random order with
iperf3, captures each at the sender, and removes the slice. With --keep, a slice on FABRIC remains for the next
invocation; --release deletes it. Each run is written when it is complete, so an interrupted grid continues with the
missing runs. A failed run is written with its error, and the tables list it. Later invocations retry it until it has
failed three times.

Exit codes:

    0    all runs are written (a warning states the number of failed runs)
    2    invalid config, or all runs or 10 consecutive runs failed
    75   a system error
    130  interrupted

docs/transfer.md describes the files.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from acapella_core import beneath, names
from acapella_core.arguments import Parser
from acapella_core.errors import UserError, exit_code_of

from ..testbeds.local import sandbox
from . import fabric
from .estimate import estimate_s
from .grid import Cell, grid_file, plan
from .nodes import LocalNodes
from .results import Results
from .runner import Runner, check_failed, duration, run_grid
from .settings import TransferSettings, check_algorithms, listed_algorithms, read_transfer_settings

PRIVATE = 0o077  # umask: captures are private, even while they are written


def register_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the parser of `acapella transfer`."""
    parser = subparsers.add_parser(
        "transfer", help="run a grid of transfers over a slice with emulated links", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add_arguments(parser)
    return parser


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `acapella transfer`."""
    parser.add_argument("campaign", type=Path, metavar="CAMPAIGN", help="campaign directory, results/<name>")
    parser.add_argument("--config", type=Path, required=True, help="YAML file with key transfer")
    parser.add_argument("--dry-run", action="store_true", help="print the slice and the missing runs, and exit")
    parser.add_argument(
        "--retry-failed", action="store_true", help="repeat all failed runs, including those that failed three times"
    )
    parser.add_argument("--keep", action="store_true", help="testbed fabric: keep the slice, as transfer.keep does")
    parser.add_argument("--release", action="store_true", help="testbed fabric: delete a slice that was kept, and exit")


def run(args: argparse.Namespace) -> int | None:
    """Run the command; testbed `local` runs it again inside its own namespaces."""
    settings = read_transfer_settings(args.config)
    if (args.keep or args.release) and settings.testbed == "local":
        raise UserError("--keep and --release need testbed fabric; a local slice is always removed", where=args.config)
    settings = replace(settings, keep=settings.keep or args.keep)
    name = args.campaign.resolve().name
    beneath.protect(args.campaign)
    if args.release:
        fabric.release(settings, args.campaign)
        return None
    results = Results(args.campaign)
    runs = plan(settings)
    missing = [cell for cell in runs if results.is_missing(cell, retry=args.retry_failed)]
    if args.dry_run:
        print("\n".join(describe(settings, name, runs, missing)))
        return None
    if missing and settings.testbed == "local":
        check_algorithms((cell.algorithm for cell in missing), listed_algorithms())
    if missing and not sandbox.inside():
        for omitted in settings.omitted:
            names.report(f"transfer: no runs of {omitted}, which this kernel does not list (modprobe tcp_{omitted})")
    if missing and settings.testbed == "local" and not sandbox.inside():
        command = [str(args.campaign.resolve()), "--config", str(args.config.resolve())]
        command += ["--retry-failed"] * args.retry_failed + ["--debug"] * getattr(args, "debug", False)
        return sandbox.call(sandbox.python_argv("acapella_capture.transfer.command", *command))
    with fabric.locked(args.campaign):
        results.prepare()
        results.write_grid(grid_file(settings, runs))
        if missing and settings.testbed == "local":
            run_local(settings, runs, missing, results)
        elif missing:
            fabric.run_fabric(settings, name, runs, missing, results)
        failed = results.write_complete(runs)
    check_failed(failed, len(runs))
    print(f"{len(runs)} runs: {results.directory}", flush=True)
    if args.config.resolve() != results.directory.resolve() / "config.json":  # the workflow itself continues
        print(next_commands(args.campaign, settings.grid["algorithm"]), flush=True)
    return None


def next_commands(campaign: Path, algorithms: Collection[str]) -> str:
    """Return a line with the commands that write the tables and the heatmaps of the runs."""
    path = shlex.quote(f"{campaign}")
    figures = ["transfer_gain"] * ({"bbr", "cubic"} <= {*algorithms}) + ["transfer_throughput"]
    return f"next: acapella campaign transfers {path}; acapella campaign figures {path} --only {' '.join(figures)}"


def run_local(settings: TransferSettings, runs: list[Cell], missing: list[Cell], results: Results) -> None:
    """Perform the missing runs in network namespaces. Raises UserError."""
    with results.part() as spool:
        nodes = LocalNodes(settings.topology, spool)
        try:
            with Runner(nodes, settings, runs, spool) as runner:
                runner.prepare(missing)
                run_grid(runner, runs, missing, results, lambda line: names.report(line, sys.stdout))
        finally:
            nodes.close()


def describe(settings: TransferSettings, campaign: str, runs: list[Cell], missing: list[Cell]) -> list[str]:
    """Return the lines of a dry run."""
    topology = settings.topology
    lines = [f"slice {topology.name} on testbed {settings.testbed}, mode {settings.mode}"]
    if settings.testbed == "fabric":
        lines += fabric.describe(settings, campaign)
    for name, path in topology.paths.items():
        lines.append(f"path {name}: {' - '.join(path)}")
    lines += [f"emulated link {name}: {' - '.join(link.between)}" for name, link in topology.emulated().items()]
    unset = [f"{key}: [{', '.join(map(str, values))}]" for key, values in settings.defaults.items() if values]
    lines += [f"not set in transfer.grid, so defaults are used: {', '.join(unset)}"] if unset else []
    lines += missing_algorithm(settings, missing)
    seconds = estimate_s(settings, missing)
    lines.append(
        f"{len(runs)} runs, {len(missing)} missing; about {duration(seconds)} if transfers reach the full rate"
    )
    return [*lines, *(f"run {cell.cell_id}: {cell.summary}" for cell in missing)]


def missing_algorithm(settings: TransferSettings, missing: list[Cell]) -> list[str]:
    """Return a line that names an algorithm of the runs that this machine's kernel does not list, if there is one."""
    if settings.testbed != "local":
        return []
    try:
        listed = listed_algorithms()
    except UserError:  # a dry run does not need the list
        return []
    try:
        check_algorithms((cell.algorithm for cell in missing), listed)
    except UserError as error:
        return [f"missing: {error}"]
    return []


def main() -> int:
    """Run `acapella transfer` inside the sandbox, where the package of the command line need not be installed."""
    parser = Parser(prog="acapella transfer")
    add_arguments(parser)
    parser.add_argument("--debug", action="store_true")
    args = parser.parse_args()
    previous = os.umask(PRIVATE)
    try:
        return run(args) or 0
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
