"""Manages a collector's output directory: its results, its lock, and the request socket of a running collector."""

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
SNAPSHOT = "snapshot"  # directory of the latest snapshot of the tables, removed at the end of the run
SOCKET = "collector.sock"
SECRET = "collector.secret"  # secret of the control channel, new for each run
LOCK = ".collector.lock"
PRIVATE_MODE = 0o700


@contextlib.contextmanager
def claimed(directory: Path, *, replace: bool = False) -> Iterator[Path]:
    """Create and lock a directory for one collector, and remove the results of an earlier run. Yield its path.

    Raises UserError if a collector is already running there, or if it has results and ``replace`` is false.
    """
    with locked(directory):
        existing = [name for name in RESULTS if (directory / name).exists()]
        if existing and not replace:
            raise UserError(
                f"already contains results: {', '.join(existing)}",
                where=directory,
                fix="specify a different directory, or use --replace",
            )
        for name in RESULTS:
            (directory / name).unlink(missing_ok=True)
        clear(directory)  # files of a killed collector
        try:
            yield directory
        finally:
            clear(directory)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, which is created if needed. Raises UserError if another process holds it.

    The kernel releases the lock when the process ends, even after kill -9. The lock file is kept: if it were removed,
    another process could hold a lock on the removed file. A directory created here is removed again if the block
    fails without results.
    """
    created = not directory.exists()
    try:
        directory.mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
        lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=directory, fix="set a directory with -o") from error
    try:
        if core_files.locked(lock, fcntl.flock) is False:
            raise UserError(
                "a collector is running in this directory", where=directory, fix="set a different one with -o"
            )
        yield
    except BaseException:
        if created and [path.name for path in directory.iterdir()] == [LOCK]:
            shutil.rmtree(directory)
        raise
    finally:
        os.close(lock)


def clear(directory: Path) -> None:
    """Remove files that are valid only while a collector runs."""
    for name in (SOCKET, SECRET):
        (directory / name).unlink(missing_ok=True)
    shutil.rmtree(directory / SNAPSHOT, ignore_errors=True)


@contextlib.contextmanager
def short_path(directory: Path) -> Iterator[str]:
    """Yield a path of the socket within the kernel's limit of 107 bytes, for directories with paths of any length."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def listening_socket(directory: Path) -> socket.socket:
    """Return a listening socket in the directory; only the owner can connect to it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    previous = os.umask(0o177)
    try:
        with short_path(directory) as path:
            listener.bind(path)
    finally:
        os.umask(previous)
    listener.listen()
    return listener


def connect(directory: Path) -> socket.socket | None:
    """Return a connection to the collector running in the directory; None if none is running. Raises UserError."""
    if not directory.is_dir():
        raise UserError("no such directory", where=directory, fix="use the directory of acapella p4 collect -o")
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(directory) as path:
            connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except OSError as error:
        connection.close()
        raise UserError(f"cannot connect to the collector: {error.strerror}", where=directory / SOCKET) from error
    return connection
