"""Write and run programs, and search for running processes as /proc lists them."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from acapella_testing.new_files import write_file
from acapella_testing.waiting import wait_until

from acapella.common import confined

PYTHON = "/usr/bin/python3"  # the system's Python, which a confined program may execute
# For scripts of confined processes: the error number of a call that fails, or 0.
ATTEMPT = """
def refused(attempt):
    try:
        attempt()
    except OSError as error:
        return error.errno
    return 0
"""


def executable(path: Path, text: str) -> Path:
    """Write a script that can be executed; return its path."""
    write_file(path, text)
    path.chmod(0o755)
    return path


@contextlib.contextmanager
def running(command: list, **options) -> Iterator[subprocess.Popen]:
    """Start a program and kill it at the end."""
    process = subprocess.Popen(command, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def confined_python(script: str, *words: str):
    """Start a script in a confined process; yield the process, and the stream of what it prints."""
    reading, writing = os.pipe()
    with Path(os.devnull).open("rb") as nothing, os.fdopen(reading) as printed:
        process = confined.Process([PYTHON, "-I", "-c", script, *words], {}, (nothing.fileno(), writing, writing))
        os.close(writing)
        yield process, printed


def status_of(pid: int) -> dict[str, str]:
    """Return the lines of /proc/PID/status as a dictionary."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def until_confined(process: subprocess.Popen) -> dict[str, str]:
    """Return the status of a process once it has a seccomp filter. Fails if the process ends first."""
    wait_until(lambda: status_of(process.pid)["Seccomp"] == "2", "not confined", running=process)
    return status_of(process.pid)


def run(*words: object, check: bool = False, **options: object) -> subprocess.CompletedProcess:
    """Run a command to its end; return its exit code and both outputs as text. ``options``: of subprocess.run."""
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=check, **options)


@contextlib.contextmanager
def with_umask(mask: int) -> Iterator[None]:
    """Set this process's umask during the block. Fails if the block changes it."""
    before = os.umask(mask)
    try:
        yield
    finally:
        assert os.umask(before) == mask


def children_of(pid: int) -> list[int]:
    """Return the processes that any thread of a process has started."""
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in content_of(path).split()]


def content_of(path: Path) -> str:
    """Return the text of a file in /proc; empty if its process or thread has ended."""
    try:
        return path.read_text(errors="surrogateescape")
    except OSError:
        return ""


def has_child(pid: int, name: str) -> bool:
    """Return whether a process has started a program with this name that has not ended."""
    return any(content_of(Path(f"/proc/{child}/comm")) == f"{name}\n" for child in children_of(pid))


def runs(*words: str) -> bool:
    """Return whether a process with this command line runs."""
    command = "".join(f"{word}\0" for word in words)
    return any(content_of(path) == command for path in Path("/proc").glob("[0-9]*/cmdline"))
