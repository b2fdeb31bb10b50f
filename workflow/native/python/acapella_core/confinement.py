"""Take rights from this process or from a program, before it reads what others made.

docs/collect.md lists which command and which program gets which profile.
"""

import concurrent.futures
import os
import resource
import select
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from . import _native

MEMORY_BYTES = 16 << 30  # of address space; tshark needs 1 GiB to start
CPU_S = 24 * 3600  # as long as the rule digest may take


def confine_self(*written: str | os.PathLike | None, serves: bool = False, starts: bool = False) -> None:
    """Confine this process before it reads what others made: no network, and no writing but beneath the directories of
    the files ``written`` (nulls are skipped) and of temporary files.

    Of a directory that does not exist yet, it is the nearest one above. With ``serves`` it may listen on Unix sockets.
    It signals itself alone; with ``starts`` also the programs that it starts, and before Landlock's ABI 6 all processes
    of the user. It holds for the calling thread and what that starts. `acapella doctor` reports what the kernel offers.
    """
    beside = [str(existing(Path(path).absolute().parent)) for path in written if path]
    _native.confine_self([*beside, os.environ.get("TMPDIR") or "/tmp"], serves, starts)


def existing(directory: Path) -> Path:
    """Return a directory, or the nearest one above that exists."""
    return next(path for path in (directory, *directory.parents) if path.is_dir())


def start(command: Sequence[str], writable: Sequence[Path] = (), **options) -> subprocess.Popen:
    """Start a program that reads what others made, as subprocess.Popen with ``options`` does.

    It has no network, and writes beneath the directories ``writable`` alone, as do its children;
    its memory and CPU time are limited. It keeps our user id, so that it reads what we can read. Raises OSError if it
    cannot be started.

    The thread that starts it lasts as long as the program: a program that asks for a signal at its parent's end
    (PR_SET_PDEATHSIG) gets it at the end of that thread.
    """

    def confined() -> subprocess.Popen:
        _native.confine_self([str(existing(Path(path).absolute())) for path in writable], False, True)
        return subprocess.Popen(command, **options)

    # What a thread gives up, the others keep. A function between fork and exec would not be safe beside other threads.
    process = in_lasting_thread(confined)
    for what, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        limit(process.pid, what, most)
    return process


def in_lasting_thread(begin: Callable[[], subprocess.Popen]) -> subprocess.Popen:
    """Return the process that ``begin`` starts in a thread of its own, which ends with that process."""
    started: concurrent.futures.Future[subprocess.Popen] = concurrent.futures.Future()

    def last() -> None:
        try:
            process = begin()
            handle = os.pidfd_open(process.pid)  # nobody has waited for it yet
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        end = select.poll()
        end.register(handle, select.POLLIN)
        end.poll()
        os.close(handle)

    threading.Thread(target=last, name="confined", daemon=True).start()
    return started.result()


def limit(pid: int, what: int, most: int) -> None:
    """Lower a limit of a process of ours that has not been waited for; never raise it."""
    _, hard = resource.prlimit(pid, what)
    lower = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.prlimit(pid, what, (lower, lower))
