"""A collector's directory: its results, the socket by which a running one is asked, and the lock that says it runs."""

import contextlib
import fcntl
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from acapella_core import files as core_files
from acapella_core.errors import UserError

RESULTS = ("flows.parquet", "series.parquet", "counters.json")
SNAPSHOT = "snapshot"  # directory of tables as they are while it runs
SOCKET = "collector.sock"
SECRET = "collector.secret"  # of the control channel, new in each run
LOCK = ".collector.lock"
PRIVATE_DIRECTORY = 0o700


@contextlib.contextmanager
def taken(directory: Path, *, replace: bool = False) -> Iterator[Path]:
    """A directory for one collector alone, made where there is none. Yields its path.

    Raises UserError where another collector runs there, or where results are that ``replace`` does not give up.
    """
    with locked(directory):
        there = [name for name in RESULTS if (directory / name).exists()]
        if there and not replace:
            raise UserError(
                f"has results already: {', '.join(there)}",
                where=directory,
                fix="name another directory, or say --replace",
            )
        for name in RESULTS:
            (directory / name).unlink(missing_ok=True)
        clear(directory)  # what a collector left that was killed
        try:
            yield directory
        finally:
            clear(directory)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which is made where there is none. Raises UserError where somebody else does.

    The kernel lets go of it when the process ends, by kill -9 too. Its file stays: who opened it meanwhile would
    hold a lock on nothing. A directory that we made goes again where we fail and leave nothing in it.
    """
    ours = not directory.exists()
    try:
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=directory, fix="name a directory with -o") from error
    try:
        if core_files.locked(lock, fcntl.flock) is False:
            raise UserError("a collector runs in this directory", where=directory, fix="name another one with -o")
        yield
    except BaseException:
        if ours and [path.name for path in directory.iterdir()] == [LOCK]:
            shutil.rmtree(directory)
        raise
    finally:
        os.close(lock)


def clear(directory: Path) -> None:
    """Remove what is of use while a collector runs alone."""
    for name in (SOCKET, SECRET):
        (directory / name).unlink(missing_ok=True)
    shutil.rmtree(directory / SNAPSHOT, ignore_errors=True)


@contextlib.contextmanager
def short_path(directory: Path) -> Iterator[str]:
    """The socket's path in as few letters as the kernel takes (107), however long the directory's is."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def bound(directory: Path) -> socket.socket:
    """A listening socket in the directory that nobody else may connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with short_path(directory) as path:
            listener.bind(path)
    finally:
        os.umask(before)
    listener.listen()
    return listener


def connected(directory: Path) -> socket.socket | None:
    """A connection to the collector that runs in the directory; None where none does. Raises UserError."""
    if not directory.is_dir():
        raise UserError(
            "there is no such directory", where=directory, fix="name the directory that acapella collector run -o had"
        )
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(directory) as path:
            link.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        link.close()
        return None
    except OSError as error:
        link.close()
        raise UserError(f"cannot ask the collector: {error.strerror}", where=directory / SOCKET) from error
    return link
