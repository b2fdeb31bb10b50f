"""The command line of Acapella in forks of an interpreter in which the library of fail_nth_call.c is preloaded."""

import ctypes
import os

from acapella_testing.runs import acapella_program
from acapella_testing.runs.warm_acapella import LIBRARY


def run() -> int:
    """Run the command line of this fork with the faults of its environment; return the exit code."""
    library = ctypes.CDLL(os.environ.pop(LIBRARY))
    library.read_environment()
    code = acapella_program.run()
    library.write_counts()
    return code
