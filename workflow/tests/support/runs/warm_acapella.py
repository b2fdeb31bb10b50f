"""An `acapella` that starts fast in the shells of Snakemake's jobs: a fork of an interpreter with its modules.

Starting Python and importing the modules takes longer than most jobs of a small campaign. Other tests start the
installed program: those that kill or interrupt a run, and those of each command.
"""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from acapella_testing.new_files import write_file
from acapella_testing.runs.warm_python import WarmPython

MODULE = "acapella_testing.runs.acapella_program"
FAULTS = "acapella_testing.runs.fault_program"
LIBRARY = "ACAPELLA_FAIL_LIBRARY"  # variable with the path of the library that FAULTS uses
PROGRAM = "from {} import run\nraise SystemExit(run())"
NOT_READ_AT_START = {"PATH"}  # variables that do not affect the start of the interpreter
# Read by the shell of each job (BASH_ENV). A process substitution is an open file that only a child of the shell has,
# and a collection may need modules that the environment replaces.
FUNCTION = """acapella() {{
    case "$*" in
        collect* | */dev/fd/*) command acapella "$@" ;;
        *) WARM_PYTHON='{directory}' REAL_PYTHON=/bin/false '{directory}/python3' -IS -c '{program}' "$@" ;;
    esac
}}
"""


@functools.cache
def environment() -> dict[str, str]:
    """Return variables with which the shells of jobs have this `acapella`; start its server at the first call.

    Without a C compiler there are none, and jobs start the installed program.
    """
    directory = Path(tempfile.mkdtemp(prefix="warm-acapella-"))
    atexit.register(shutil.rmtree, directory)
    warm = WarmPython(directory, MODULE, "acapella_testing.without_sync")
    atexit.register(warm.close)
    if not warm.environment:
        return {}
    shell = write_file(directory / "shell", FUNCTION.format(directory=directory, program=PROGRAM.format(MODULE)))
    return {"BASH_ENV": str(shell)}


def environment_for(changes: dict[str, str]) -> dict[str, str]:
    """Return these variables unless ``changes`` to the environment affect the start of an interpreter."""
    return environment() if changes.keys() <= NOT_READ_AT_START else {}
