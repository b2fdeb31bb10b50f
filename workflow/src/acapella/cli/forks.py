"""Runs commands in forks of this process, which has imported their modules, one at a time.

An error, a crash or the memory use of a command does not affect this process.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from acapella_core import beneath
from acapella_core.errors import INTERNAL, OUTSIDE

from . import entry
from .commands import keep_parser

PR_SET_PDEATHSIG = 1  # of prctl(2)
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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


def load(command: Sequence[str]) -> None:
    """Import the modules of a command, and keep its parser and the data that all samples share, before the first fork.

    The module of a command may have a function `preload(args)` for this.
    """
    args = keep_parser(command).parse_args(command)
    module = importlib.import_module(args.run.__module__)
    if hasattr(module, "preload"):
        module.preload(args)


def run_in_fork(command: Sequence[str], sample: str, log: Path | None) -> Outcome:
    """Run a command in a fork; return its outcome under the name of a sample.

    ``log``: file for its output; None: the output of this process. If a signal ends this process, the fork
    is ended first.
    """
    descriptor = beneath.open_file(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if log else None
    start, parent = time.monotonic(), os.getpid()
    sys.stdout.flush()
    gc.freeze()  # garbage collection in the fork would write to all objects of this process, and so copy their pages
    pid = 0
    try:
        # Blocked until the fork has its own handlers, because os.fork() discards exceptions of a signal handler that
        # runs inside it (in functions of os.register_at_fork), and `pid` must have a value.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        pid = os.fork()
        if pid == 0:
            run_command(command, descriptor, parent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        gc.unfreeze()
        if descriptor is not None:
            os.close(descriptor)
        _, status, usage = os.wait4(pid, 0)
    except BaseException as stop:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        if pid:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):  # wait4 has returned
                os.kill(pid, signal.SIGINT if isinstance(stop, KeyboardInterrupt) else signal.SIGTERM)
                os.waitpid(pid, 0)
        raise
    code = os.waitstatus_to_exitcode(status)
    code = 128 - code if code < 0 else code
    elapsed, cpu_s = time.monotonic() - start, usage.ru_utime + usage.ru_stime
    return Outcome(sample, "failed" if code else "done", code, elapsed, cpu_s, usage.ru_maxrss / 1024)


def run_command(command: Sequence[str], log: int | None, parent: int) -> None:
    """Run a command in this fork and end the fork; nothing on the parent's stack runs.

    If the parent is killed, the kernel sends SIGTERM, so that the sample is not processed twice at the same time.
    """
    code = INTERNAL
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(OUTSIDE)
        atexit._clear()  # do not run functions that the parent has registered
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, entry.stop if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        for stream in (1, 2) if log is not None else ():
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
