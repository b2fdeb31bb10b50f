"""A `python3` that starts fast: forks of a running interpreter, for programs that are started for each command."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


@functools.cache
def client() -> Path | None:
    """Return the path of the client, compiled once; None without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    program = Path(tempfile.mkdtemp(prefix="warm-python-")) / "python3"
    atexit.register(shutil.rmtree, program.parent)
    subprocess.run([compiler, "-O1", "-o", str(program), str(HERE / "warm_python_client.c")], check=True)
    return program


class WarmPython:
    """A program `python3` in a directory; without a compiler, a link to the interpreter.

    `environment` contains the variables that the program needs.
    ``modules``: modules of the virtual environment that the server imports before the first program; without any, it
    has only the standard library. ``variables``: changes to the environment of the server.
    """

    def __init__(self, directory: Path, *modules: str, **variables: str):
        program = client()
        self.environment: dict[str, str] = {}
        self._server = None
        if program is None:
            (directory / "python3").symlink_to(sys.executable)
            return
        shutil.copy2(program, directory / "python3")
        isolated = ["-P"] if modules else ["-IS"]
        command = [sys.executable, *isolated, str(HERE / "warm_python_server.py"), str(directory), *modules]
        pipe, changed = subprocess.PIPE, os.environ | variables
        self._server = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True, env=changed)
        assert self._server.stdout.readline() == b"ready\n"
        self.environment = {"WARM_PYTHON": str(directory), "REAL_PYTHON": sys.executable}

    def close(self) -> None:
        """End the server; programs that run continue."""
        if self._server is not None:
            self._server.stdin.close()
            self._server.wait()
            self._server.stdout.close()
