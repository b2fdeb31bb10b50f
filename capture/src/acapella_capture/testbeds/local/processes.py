"""Run programs on the nodes of the local testbed, each in the network namespace of its node.

Their logs are in the scratch directory.
"""

import contextlib
import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from acapella_core.errors import UserError

from ..base import CompletedProgram, Job
from .sandbox import SCRATCH

NAMESPACES = SCRATCH / "net"  # one file per node, to which its network namespace is bound
SPOOL = SCRATCH / "spool"  # captures and logs until they are fetched
PRIORITY = 50
REAL_TIME = ["chrt", "--fifo", str(PRIORITY)]
END_S = 2  # time for a program to end after SIGTERM
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "HOME": str(SCRATCH)}

_log_numbers = itertools.count(1)
_jobs: list["LocalJob"] = []
_lock = threading.Lock()


def spool_path(node: str, file: str) -> Path:
    """Return the path of a node's file. Raises UserError for an unknown node."""
    if not (NAMESPACES / node).exists():
        raise UserError(f"no node {node!r}", where="testbed local")
    (SPOOL / node).mkdir(exist_ok=True)
    return SPOOL / node / file


def in_namespace(node: str, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs `argv` in the node's network namespace."""
    namespace = NAMESPACES / node
    if not namespace.exists():
        raise UserError(f"no node {node!r}", where="testbed local")
    return ["nsenter", f"--net={namespace}", "--", *argv]


def environment() -> dict[str, str]:
    """Return the environment of a node's program: PATH of this process, locale C, UTC, not the user's home."""
    return {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT}


def run(node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> CompletedProgram:
    """Run a program to its end and return its output as text. Raises UserError after `timeout_s`."""
    try:
        result = subprocess.run(
            in_namespace(node, argv),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=environment(),
            cwd=SCRATCH,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UserError(f"{argv[0]} timed out after {timeout_s} s", where=f"node {node}") from error
    return CompletedProgram(result.returncode, result.stdout, result.stderr)


def run_checked(node: str, argv: Sequence[str], *, stdin: str = "") -> str:
    """Run a program and return its standard output. Raises UserError with the reason if it fails."""
    result = run(node, argv, stdin=stdin)
    if result.status != 0:
        raise UserError(f"{argv[0]} failed: {result.failure_reason(stdin)}", where=f"node {node}")
    return result.stdout


def priority_allowed(node: str) -> bool:
    """Return whether a program on a node may have the real-time priority PRIORITY."""
    return run(node, [*REAL_TIME, "true"]).status == 0


def start(node: str, argv: Sequence[str], *, output: str | None = None) -> "LocalJob":
    """Start a program; standard output goes to file `output`, by default to the log with standard error."""
    log = SPOOL / f"{next(_log_numbers)}.log"
    with contextlib.ExitStack() as files:
        stderr = files.enter_context(log.open("wb"))
        stdout = files.enter_context(Path(output).open("wb")) if output else stderr
        process = subprocess.Popen(
            in_namespace(node, argv),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=environment(),
            cwd=SCRATCH,
            start_new_session=True,  # so that a shell loop and its children can be ended together
        )
    job = LocalJob(node, process, log)
    with _lock:
        _jobs.append(job)
    return job


class LocalJob(Job):
    """A program started by `start`."""

    def __init__(self, node: str, process: subprocess.Popen, log: Path):
        self.node = node
        self._process = process
        self._log = log

    def poll(self) -> int | None:
        return self._process.poll()

    def signal(self, name: str) -> None:
        """Send a signal to the program's process group."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.Signals[f"SIG{name}"])

    def wait(self, timeout_s: float | None) -> int | None:
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def last_line(self) -> str:
        """Return the last line of its log, or its exit status if the log is empty."""
        lines = self.log().strip().splitlines()
        return lines[-1].strip() if lines else f"exit status {self.poll()}, no message"


def terminate(jobs: Iterable[LocalJob]) -> None:
    """Terminate programs: SIGTERM to all at once, SIGKILL to those that take too long."""
    jobs = list(jobs)
    for name in ("TERM", "KILL"):
        for job in jobs:
            job.signal(name)
        end = time.monotonic() + END_S
        if all([job.wait(max(0, end - time.monotonic())) is not None for job in jobs]):
            return


def terminate_all(node: str | None = None) -> None:
    """Terminate all programs that were started, on one node or on all."""
    with _lock:
        ending = [job for job in _jobs if node in (None, job.node)]
        _jobs[:] = [job for job in _jobs if job not in ending]
    terminate(ending)


def wait_until(condition: Callable[[], bool], timeout_s: float = 20, every_s: float = 0.02) -> bool:
    """Wait until a condition holds; return False after the timeout."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True
