"""A program of p4/loader that runs while a control plane writes its registers.

The loader begins once the collector gave a session: its queue pairs are in a control file then. Later sessions are
written by commands on its standard input, each of which it answers by a line. Epochs count from the second of the start
(since 1970), or from the session's ``epoch`` where that is later: a data plane that is started anew goes on with
numbers that the collector has not had, however soon that is.
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

PATIENCE_S = 60.0  # for a collector to answer
# Starts the loader, given more words of its command line and the options of subprocess.Popen.
Start = Callable[..., subprocess.Popen]
END_S = 10.0  # for the loader to end after it was told to


class DataPlane:
    """A running loader. ``write`` puts a session into its registers, the first one before it begins.

    ``start`` starts it. Its errors are lines on our standard error.
    """

    def __init__(self, start: Start, directory: Path):
        self._start = start
        self._registers = directory / "session.control"
        self._process: subprocess.Popen | None = None
        self._begun = threading.Event()

    def write(self, session: Session) -> None:
        """Have the program report into a session's queue pairs. Raises OSError where it does not run, or refuses."""
        lines = register_commands(session)
        if self._process is None:
            lines.insert(0, f"register epoch 0 {max(int(time.time()), session.epoch)}")
            files.atomic_text(self._registers, "".join(f"{line}\n" for line in lines))  # keys: private
            self._begin()
        else:
            for line in lines:
                self._tell(line)

    def _begin(self) -> None:
        """Start the loader."""
        more = ["--commands", "--control", str(self._registers)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = self._start(more, **pipes, text=True)
        self._begun.set()

    def _tell(self, line: str) -> None:
        """One command and its answer, which is ``ok`` or says what is wrong."""
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer.startswith("ok"):
            name = " ".join(line.split()[:3])  # the value may be a key
            raise OSError(f"the data plane does not take {name}: {answer.strip() or 'it has ended'}")

    def wait(self) -> int:
        """Wait for its end; its exit code."""
        self._begun.wait()
        return self._process.wait()

    def stop(self) -> None:
        """Have it end where it still runs: it writes what it has."""
        if self._process and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def note(text: str) -> None:
    """A line for people, on standard error."""
    names.report(f"p4: {text}")


@contextlib.contextmanager
def controlled(start: Start, collector: Collector, hello: Hello) -> Iterator[tuple]:
    """A data plane and its control plane, once the collector gave a session. Raises UserError where none does."""
    with files.scratch_directory() as directory:
        data_plane = DataPlane(start, directory)
        with ControlPlane(collector, hello, data_plane.write, say=note) as control_plane:
            try:
                if not control_plane.wait(PATIENCE_S):
                    why = control_plane.failure or control_plane.reason
                    raise UserError(f"no session: {why}", where=f"--collector {collector.host}:{collector.port}")
                yield data_plane, control_plane
            finally:
                data_plane.stop()


def run(start: Start, collector: Collector, hello: Hello, statistics: Path) -> int:
    """Run the loader while its reports go to the collector; the loader's exit code.

    At the end, by a signal too, the collector is told how many reports there were, from the file that ``--stats`` of
    its command names. Raises UserError where no collector gives a session, or the loader is killed.
    """
    statistics.unlink(missing_ok=True)  # of a run before: its reports are not ours
    with controlled(start, collector, hello) as (data_plane, control_plane):
        try:
            code = data_plane.wait()
        finally:
            data_plane.stop()
            control_plane.ended(reports_of(statistics))
    if code < 0:
        raise UserError(f"the data plane was killed by {signal.Signals(-code).name}", fix="start it again")
    return code


def reports_of(statistics: Path) -> int | None:
    """How many reports left the program since it began; None where the file does not tell."""
    try:
        return int(json.loads(statistics.read_text(encoding="utf-8"))["reports"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
