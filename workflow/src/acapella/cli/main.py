"""Run one command: signals, exit codes, and errors in one line. `commands.py` lists the commands."""

import argparse
import contextlib
import errno
import faulthandler
import os
import signal
import sys
import time
from collections.abc import Iterator

from acapella_core import names, pandas_import
from acapella_core.errors import OUTSIDE, UserError, exit_code_of, is_out_of_memory
from acapella_core.files import remove_scratch

from . import entry
from .commands import build_parser, refuse_other_name

PRIVATE_UMASK = 0o077  # umask: files contain other people's traffic, even while they are incomplete

# By default, these signals end Python immediately. Then incomplete files remain, and testbed nodes are not released. A
# terminal sends SIGHUP when it is closed.
TERMINATION = (signal.SIGTERM, signal.SIGHUP)
DEBOUNCE_S = 2.0
INTERRUPTED = "Query interrupted"  # RuntimeError of DuckDB that replaces the exception of a signal handler


def format_error(error: Exception) -> str:
    """Return the message of an error. If the error concerns a file, return the file name and the reason.

    An error about a full disk without a file name concerns standard output. Its buffer is discarded, because otherwise
    Python would report the error again when it exits.
    """
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    if not isinstance(error, OSError) or error.errno != errno.ENOSPC or error.filename is not None:
        return str(error)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"standard output: {error.strerror}"


def report_error(message: str) -> None:
    """Print an error. If it cannot be printed, for example in a log on a full disk, the exit code must not change: the
    buffer of standard error is discarded.
    """
    try:
        names.report(f"acapella: error: {message}")
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def end_output() -> int:
    """Discard the buffer of standard output, because its reader has closed the pipe; return the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@contextlib.contextmanager
def exceptions_for_signals() -> Iterator[list[int]]:
    """Make Ctrl-C raise KeyboardInterrupt, and the signals of `TERMINATION` raise SystemExit. Yield received signals.

    Further signals within DEBOUNCE_S are ignored, because they would interrupt the cleanup: Ctrl-C reaches a whole
    process group, and Snakemake then signals its jobs again. The previous handlers are restored at the end, for callers
    that call `main` twice.
    """
    received: list[int] = []
    handled_at = -DEBOUNCE_S

    def handle(number, _):
        nonlocal handled_at
        now = time.monotonic()
        if now - handled_at < DEBOUNCE_S:
            return
        handled_at = now
        received.append(number)
        if queries := sys.modules.get("acapella.common.queries"):
            queries.interrupt()
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, *TERMINATION)}
    # nohup ignores SIGHUP, and a shell ignores SIGINT in background jobs; these stay ignored
    defaults = (signal.SIG_DFL, signal.default_int_handler, entry.stop)
    handled = [number for number, handler in previous.items() if handler in defaults]
    for number in handled:
        signal.signal(number, handle)
    try:
        yield received
    finally:
        for number in handled:
            signal.signal(number, previous[number])


def main(argv: list[str] | None = None) -> int:
    """Run one command; return its exit code, 0 on success (`acapella_core.errors` lists all codes)."""
    own_process = argv is None
    argv = sys.argv[1:] if argv is None else argv
    refuse_other_name(argv)
    try:
        try:
            args = build_parser(argv).parse_args(argv)
        finally:
            sys.stdout.flush()  # --help and --print-completion end here
    except BrokenPipeError:  # `acapella --print-completion bash | head`
        return end_output()
    args.own_process = own_process
    if own_process:
        handle_fatal_signals(args.debug)
        pandas_import.prevent()
    previous = os.umask(PRIVATE_UMASK)
    try:
        with exceptions_for_signals() as received:
            return run_command(args, received)
    finally:
        os.umask(previous)


def handle_fatal_signals(debug: bool) -> None:
    """After a crash, such as in a library that runs out of memory, print one line and exit with 128 + the number of the
    signal, as a shell reports it (139 for SIGSEGV). With --debug, print the stacks of all threads.
    """
    if debug:
        faulthandler.enable()
        return
    with contextlib.suppress(ImportError):  # `acapella doctor` reports a missing core
        from acapella_core import _native  # noqa: PLC0415 - may be missing

        _native.exit_on_fatal_signal()


def run_command(args: argparse.Namespace, received: list[int]) -> int:
    """Run the command of parsed arguments; print its error in one line. ``received``: signals received so far."""
    try:
        if args.own_process and args.confine:
            args.confine(args)
        remove_scratch()
        code = args.run(args) or 0
        sys.stdout.flush()  # reports a full disk now, not at exit
    except BrokenPipeError:  # `acapella show ... | head`
        return end_output()
    except (UserError, OSError) as error:
        if args.debug:
            raise
        report_error(format_error(error))
        return exit_code_of(error)
    except SystemExit as ended:
        if ended.code in {128 + number for number in TERMINATION}:
            with contextlib.suppress(OSError):  # the terminal may be closed
                print("acapella: stopped", file=sys.stderr)
        raise
    except (KeyboardInterrupt, Exception) as error:
        if isinstance(error, KeyboardInterrupt) or (isinstance(error, RuntimeError) and str(error) == INTERRUPTED):
            print("acapella: stopped", file=sys.stderr)
            return 128 + (received or [signal.SIGINT])[-1]
        if args.debug or not is_out_of_memory(error):
            raise
        report_error("out of memory")
        return OUTSIDE
    return code


if __name__ == "__main__":
    sys.exit(main())
