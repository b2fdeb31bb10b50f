"""The command line: each command is a module of `COMMANDS`, whose docstring is the help text.

A stage module has `register_parser(subparsers)`, which returns its parser, and `run(args)`, which returns None or
an exit code. Other packages bring stages by the entry point group `acapella.commands` (`acapella collect`).
"""

import argparse
import contextlib
import errno
import importlib
import os
import signal
import sys
import time
from importlib.metadata import entry_points

from acapella import __version__
from acapella_core import names
from acapella_core.arguments import Parser
from acapella_core.errors import UserError, exit_code_of
from acapella_core.files import remove_scratch

from . import entry as start

PRIVATE = 0o077  # umask: files hold other people's traffic, also while they are written

# Python would end at once, leave half-written files, and nodes of a testbed that nobody gives back: a terminal that is
# closed, as a browser's tab, is no other wish than Ctrl-C.
ENDS = (signal.SIGTERM, signal.SIGHUP)

COMMANDS = {
    "anonymize": "release.anonymize",
    "digest": "digest.command",
    "show": "digest.show",
    "verify": "verify.command",
    "kappa": "kappa.command",
    "index": "campaign.index",
    "check": "cli.check",
    "sql": "campaign.sql",
    "analyze": "campaign.analyze",
    "process": "campaign.process",
    "trials": "campaign.trials",
    "conformance": "kappa.conformance",
    "outcomes": "campaign.outcomes",
    "p4": "p4.command",
    "storage": "campaign.storage",
    "collector": "collector.command",
    "flowreports": "flowreports.command",
    "flowtables": "flowreports.tables",
    "flowstudy": "flowreports.study",
    "flowpublished": "flowreports.published",
    "comparators": "flowreports.comparators",
    "figures": "figures.command",
    "report": "report.command",
    "release": "release.command",
    "doctor": "cli.doctor",
}


def stage_modules(wanted: str | None):
    """Yield the stages' modules: only the wanted one where there is such a stage, so that the start stays quick."""
    if wanted in COMMANDS:
        yield importlib.import_module(f"acapella.{COMMANDS[wanted]}")
        return
    others = sorted(entry_points(group="acapella.commands"), key=lambda entry: entry.name)
    asked_for = [entry for entry in others if entry.name == wanted]
    if not asked_for:
        yield from (importlib.import_module(f"acapella.{module}") for module in COMMANDS.values())
    yield from (entry.load() for entry in asked_for or others)


def build_parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The command line; where `wanted` names a stage, with that stage alone."""
    parser = Parser(prog="acapella", description="Samples of a testbed's traffic in, statistics out.")
    parser.add_argument("--version", action="version", version=f"acapella {__version__}")
    subparsers = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for module in stage_modules(wanted):
        stage = module.register_parser(subparsers)
        stage.add_argument("--debug", action="store_true", help="show a traceback on error")
        stage.set_defaults(run=module.run, confine=getattr(module, "confine", None))
    return parser


def told(error: Exception) -> str:
    """An error in words: of a file its name and why. A full disk without a name is standard output's.

    What is left for standard output is dropped then, or Python would complain of it once more.
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    if not isinstance(error, OSError) or error.errno != errno.ENOSPC or error.filename is not None:
        return str(error)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"standard output: {error.strerror}"


INTERRUPTED = "Query interrupted"  # DuckDB's RuntimeError, in place of what a signal's handler raised
SAME_WISH_S = 2.0


@contextlib.contextmanager
def ended_by_signals():
    """Have Ctrl-C raise KeyboardInterrupt and the signals of `ENDS` SystemExit. Yields the list of those that came.

    What comes right behind the first is the same wish (Ctrl-C reaches a whole group of processes, and Snakemake ends
    its jobs once more), and would only keep us from tidying up. The handlers are put back: who calls `main` twice
    would write the second call's signals to the first one's list.
    """
    came = []
    heeded_at = -SAME_WISH_S

    def end(number, _):
        nonlocal heeded_at
        now = time.monotonic()
        if now - heeded_at < SAME_WISH_S:
            return
        heeded_at = now
        came.append(number)
        if queries := sys.modules.get("acapella.common.queries"):
            queries.interrupt()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDS)}
    # nohup has SIGHUP ignored, a shell's background job SIGINT
    usual = (signal.SIG_DFL, signal.default_int_handler, start.stop)
    heeded = [number for number, handler in before.items() if handler in usual]
    for number in heeded:
        signal.signal(number, end)
    try:
        yield came
    finally:
        for number in heeded:
            signal.signal(number, before[number])


def main(argv: list[str] | None = None) -> int:
    """Run one stage and return an exit code of `acapella_core.errors`: 0 on success."""
    own_process = argv is None
    argv = sys.argv[1:] if argv is None else argv
    args = build_parser(argv[0] if argv else None).parse_args(argv)
    args.own_process = own_process
    if own_process and args.confine:
        args.confine(args)
    before = os.umask(PRIVATE)
    try:
        with ended_by_signals() as came:
            return run_stage(args, came)
    finally:
        os.umask(before)


def run_stage(args: argparse.Namespace, came: list[int]) -> int:
    """Run the stage that was asked for, its errors told in one line; `came` has the signals that came."""
    try:
        remove_scratch()
        code = args.run(args) or 0
        sys.stdout.flush()  # a full disk behind it shows here, not after the end
    except BrokenPipeError:  # `acapella show ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (UserError, OSError, MemoryError) as error:
        if args.debug:
            raise
        code = exit_code_of(error)
        said = "out of memory" if isinstance(error, MemoryError) else told(error)
        names.report(f"acapella: error: {said}")
        return code
    except SystemExit as ended:
        if ended.code in {128 + number for number in ENDS}:
            with contextlib.suppress(OSError):  # a terminal that was closed
                print("acapella: stopped", file=sys.stderr)
        raise
    except (KeyboardInterrupt, RuntimeError) as stop:
        if isinstance(stop, RuntimeError) and str(stop) != INTERRUPTED:
            raise
        print("acapella: stopped", file=sys.stderr)
        return 128 + (came or [signal.SIGINT])[-1]
    return code


if __name__ == "__main__":
    sys.exit(main())
