"""Run commands, and search for running processes as /proc lists them."""

import contextlib
import subprocess
from pathlib import Path


def run(*words: object, check: bool = False, **options: object) -> subprocess.CompletedProcess:
    """Run a command to its end; return its exit code and both outputs as text. ``options``: of subprocess.run."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=check, **options)


def runs(*words: str) -> bool:
    """Return whether a process with this command line runs."""
    command = "".join(f"{word}\0" for word in words).encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if path.read_bytes() == command:
                return True
    return False
