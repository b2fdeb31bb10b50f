"""Attributes the failure of a program to the machine or to the program's input, by its exit code."""

import signal

from acapella_core.errors import OUTSIDE, UserError

# Signals caused by the program itself. Other signals have other causes, such as a lack of memory, a user, or Slurm.
CRASHES = (signal.SIGTRAP, signal.SIGABRT, signal.SIGFPE, signal.SIGSEGV, signal.SIGSYS)
NOT_STARTED = (126, 127)  # exit codes of a shell, and of a program that lacks a shared library


def is_outside(code: int) -> bool:
    """Return whether the machine caused an exit code of subprocess.Popen, in which signals are negative."""
    return code in (OUTSIDE, *NOT_STARTED) or (code < 0 and -code not in CRASHES)


def describe(code: int) -> str:
    """Return the exit code or the signal that ended a program."""
    return f"ended by signal {-code}" if code < 0 else f"exit code {code}"


def not_started(program: str, error: OSError) -> UserError:
    """Return the error about a program that cannot be started."""
    return UserError(f"cannot be started: {error.strerror}", where=program, outside=True)
