"""Remove rights from this process or a program before it reads untrusted input.

docs/collect.md lists the profile of each command and program.
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
CPU_S = 24 * 3600  # of CPU time of a program


def confine_self(*written: str | os.PathLike | None, serves: bool = False, starts: bool = False) -> None:
    """Confine this process before it reads untrusted input: no network, and writes only in certain directories.

    These are the directories of the files ``written`` (None is skipped) and of temporary files, and those beneath them;
    for a directory that does not exist yet, its nearest existing parent. With ``serves`` it may listen on Unix
    sockets. It can signal only itself; with ``starts`` also programs that it starts, and before Landlock ABI 6 all
    processes of the user. Applies to the calling thread and everything that it starts. `acapella doctor` reports the
    features of the kernel.
    """
    directories = [str(existing(Path(path).absolute().parent)) for path in written if path]
    _native.confine_self([*directories, os.environ.get("TMPDIR") or "/tmp"], serves, starts)


def existing(directory: Path) -> Path:
    """Return a directory, or its nearest existing parent."""
    return next(path for path in (directory, *directory.parents) if path.is_dir())


def start(command: Sequence[str], writable: Sequence[Path] = (), **options) -> subprocess.Popen:
    """Start a program that reads untrusted input, as subprocess.Popen with ``options``.

    It and its children have no network and can write only beneath the directories ``writable``; memory and CPU time are
    limited. It keeps the user id, so it can read the same files. Raises OSError if it cannot be started.

    The thread that starts the program lives as long as the program, because a program that requests a signal at the end
    of its parent (PR_SET_PDEATHSIG) receives this signal when that thread ends.
    """

    def confined() -> subprocess.Popen:
        _native.confine_self([str(existing(Path(path).absolute())) for path in writable], False, True)
        return subprocess.Popen(command, **options)

    # Only one thread gives up rights. A preexec function would not be safe with other threads.
    process = in_lasting_thread(confined)
    for kind, maximum in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_CORE, 0),
    ):
        limit(process.pid, kind, maximum)
    return process


def in_lasting_thread(start_process: Callable[[], subprocess.Popen]) -> subprocess.Popen:
    """Return the process that ``start_process`` starts in a new thread, which ends with that process."""
    started: concurrent.futures.Future[subprocess.Popen] = concurrent.futures.Future()

    def run_thread() -> None:
        try:
            process = start_process()
            handle = os.pidfd_open(process.pid)  # valid: nothing has waited for the process yet
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result(process)
        end = select.poll()
        end.register(handle, select.POLLIN)
        end.poll()
        os.close(handle)

    threading.Thread(target=run_thread, name="confined", daemon=True).start()
    return started.result()


def limit(pid: int, kind: int, maximum: int) -> None:
    """Lower a resource limit of a child process that has not been waited for; never raise it."""
    _, hard = resource.prlimit(pid, kind)
    new_limit = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
    resource.prlimit(pid, kind, (new_limit, new_limit))
