"""A collector's folder: its results, the socket by which a running one is asked, and the lock that says it runs."""

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
SNAPSHOT = "snapshot"  # folder of tables as they are while it runs
SOCKET = "collector.sock"
SECRET = "collector.secret"  # of the control channel, new in each run
LOCK = ".collector.lock"
PRIVATE_FOLDER = 0o700


@contextlib.contextmanager
def taken(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder for one collector alone, made where there is none. Yields its path.

    Raises UserError where another collector runs there, or where results are that ``replace`` does not give up.
    """
    with locked(folder):
        there = [name for name in RESULTS if (folder / name).exists()]
        if there and not replace:
            raise UserError(
                f"has results already: {', '.join(there)}",
                where=folder,
                fix="name another folder, or say --replace",
            )
        for name in RESULTS:
            (folder / name).unlink(missing_ok=True)
        clear(folder)  # what a collector left that was killed
        try:
            yield folder
        finally:
            clear(folder)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made where there is none. Raises UserError where somebody else does.

    The kernel lets go of it when the process ends, by kill -9 too. Its file stays: who opened it meanwhile would
    hold a lock on nothing. A folder that we made goes again where we fail and leave nothing in it.
    """
    ours = not folder.exists()
    try:
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=folder, fix="name a folder with -o") from error
    try:
        if core_files.locked(lock, fcntl.flock) is False:
            raise UserError("a collector runs in this folder", where=folder, fix="name another one with -o")
        yield
    except BaseException:
        if ours and [path.name for path in folder.iterdir()] == [LOCK]:
            shutil.rmtree(folder)
        raise
    finally:
        os.close(lock)


def clear(folder: Path) -> None:
    """Remove what is of use while a collector runs alone."""
    for name in (SOCKET, SECRET):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / SNAPSHOT, ignore_errors=True)


@contextlib.contextmanager
def short_path(folder: Path) -> Iterator[str]:
    """The socket's path in as few letters as the kernel takes (107), however long the folder's is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def bound(folder: Path) -> socket.socket:
    """A listening socket in the folder that nobody else may connect to."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        with short_path(folder) as path:
            listener.bind(path)
    finally:
        os.umask(before)
    listener.listen()
    return listener


def connected(folder: Path) -> socket.socket | None:
    """A connection to the collector that runs in the folder; None where none does. Raises UserError."""
    if not folder.is_dir():
        raise UserError(
            "there is no such folder", where=folder, fix="name the folder that acapella collector run -o had"
        )
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(folder) as path:
            link.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        link.close()
        return None
    except OSError as error:
        link.close()
        raise UserError(f"cannot ask the collector: {error.strerror}", where=folder / SOCKET) from error
    return link
