"""Runs a program in the loader (p4/loader) while a control plane writes its registers.

The loader starts once the collector has assigned a session; its queue pairs are in a control file. Later sessions are
written by commands on the loader's standard input; the loader responds to each command with a line. Epochs are numbered
from the time of the start in seconds since 1970, or from the session's ``epoch`` if it is larger, so that a restarted
data plane never repeats numbers.
"""

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from acapella.common.control_channel import Collector, Hello, Session
from acapella_core import files, names
from acapella_core.errors import UserError

from .control_plane import ControlPlane, register_commands

SESSION_TIMEOUT_S = 60.0
# Starts the loader with additional arguments and options of subprocess.Popen.
Start = Callable[..., subprocess.Popen]
STOP_TIMEOUT_S = 10.0


class DataPlane:
    """A running loader. ``write`` writes a session to its registers; the first call starts the loader.

    ``start`` starts the loader, which prints errors on standard error.
    """

    def __init__(self, start: Start, directory: Path):
        self._start = start
        self._registers = directory / "session.control"
        self._process: subprocess.Popen | None = None
        self._started = threading.Event()

    def write(self, session: Session) -> None:
        """Make the program report to a session's queue pairs.

        Raises OSError if the loader has ended or rejects a command.
        """
        lines = register_commands(session)
        if self._process is None:
            lines.insert(0, f"register epoch 0 {max(int(time.time()), session.epoch)}")
            files.atomic_text(self._registers, "".join(f"{line}\n" for line in lines))  # private: contains keys
            self._begin()
        else:
            for line in lines:
                self._command(line)

    def _begin(self) -> None:
        """Start the loader."""
        arguments = ["--commands", "--control", str(self._registers)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = self._start(arguments, **pipes, text=True)
        self._started.set()

    def _command(self, line: str) -> None:
        """Send a command; the loader responds with ``ok`` or an error."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        response = self._process.stdout.readline()
        if not response.startswith("ok"):
            name = " ".join(line.split()[:3])  # the value may be a key
            raise OSError(f"the data plane rejected {name}: {response.strip() or 'it has ended'}")

    def wait(self) -> int:
        """Wait for the loader's end; return its exit code."""
        self._started.wait()
        return self._process.wait()

    def stop(self) -> None:
        """Stop the loader, which then writes its outputs."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def log(text: str) -> None:
    """Print a line on standard error."""
    names.report(f"p4: {text}")


@contextlib.contextmanager
def with_session(start: Start, collector: Collector, hello: Hello) -> Iterator[tuple]:
    """Yield a data plane and its control plane once there is a session. Raises UserError if there is none."""
    with files.scratch_directory() as directory:
        data_plane = DataPlane(start, directory)
        with ControlPlane(collector, hello, data_plane.write, log=log) as control_plane:
            try:
                if not control_plane.wait(SESSION_TIMEOUT_S):
                    reason = control_plane.failure or control_plane.reason
                    raise UserError(f"no session: {reason}", where=f"--collector {collector.host}:{collector.port}")
                yield data_plane, control_plane
            finally:
                data_plane.stop()


def run(start: Start, collector: Collector, hello: Hello, statistics: Path) -> int:
    """Run the loader while its reports go to the collector; return the loader's exit code.

    At the end, even after a signal, the number of reports is sent to the collector. It is read from ``statistics``, the
    file of the loader's option --stats. Raises UserError if there is no session, or the loader is killed.
    """
    statistics.unlink(missing_ok=True)  # left by an earlier run
    with with_session(start, collector, hello) as (data_plane, control_plane):
        try:
            code = data_plane.wait()
        finally:
            data_plane.stop()
            control_plane.ended(reports_of(statistics))
    if code < 0:
        raise UserError(f"the data plane was killed by {signal.Signals(-code).name}", fix="restart it")
    return code


def reports_of(statistics: Path) -> int | None:
    """Return the number of reports that the program sent; None if the file does not contain it."""
    try:
        return int(json.loads(statistics.read_text(encoding="utf-8"))["reports"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
