"""Atomic writes: write to a temporary name, sync, rename."""

import contextlib
import errno
import fcntl
import fnmatch
import glob
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from . import beneath
from .errors import UserError, failed_allocations

PRIVATE = 0o600  # captures and derived files contain other people's traffic


@contextlib.contextmanager
def atomic_path(target: str | os.PathLike, mode: int = PRIVATE) -> Iterator[Path]:
    """Yield a temporary path in the directory of ``target``; on success sync and rename it, on error remove it.

    A link is followed, unless it is beneath a protected directory (`beneath.protect`). The path uses the descriptor of
    the target's directory and is valid in this process only, so a replaced directory is not written to. Creates missing
    directories, and removes temporary files of killed writers of the same target. Raises UserError if the directory is
    not writable, the disk is full, a library runs out of memory, a component is a link that is not followed, or the
    target is not a regular file, which the rename would replace. Raises NotSynced if the file is complete and renamed,
    but its directory cannot be synced.
    """
    try:
        target = beneath.located(target)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=target) from error
    if target.exists() and not target.is_file():
        raise UserError("not a regular file", where=target, fix="choose another file name")
    with contextlib.ExitStack() as opened:
        try:
            directory = opened.enter_context(beneath.parent(target, make=True))
            remove_abandoned(directory, target.name)
            descriptor, name = locked_temporary(directory, target.name)
        except OSError as error:
            raise UserError(f"cannot write: {error.strerror}", where=target) from error
        opened.callback(os.close, descriptor)
        opened.callback(remove, name, directory)
        failed_before = failed_allocations()
        with convert_errors(target):
            yield beneath.inside(directory, target.parent) / name
            if failed_allocations() > failed_before:  # a library may have ignored it and written incomplete data
                raise UserError("out of memory while it was written", where=target, outside=True)
            finish(directory, name, mode)
            os.replace(name, target.name, src_dir_fd=directory, dst_dir_fd=directory)
            sync_directory(directory, target)


class NotSynced(UserError):
    """A file is complete, but its directory could not be synced, so the file may be missing after a power failure."""


def sync_directory(directory: int, target: Path) -> None:
    """Sync the open directory of ``target``, which was written and renamed. Raises NotSynced."""
    try:
        os.fsync(directory)
    except OSError as error:
        message = f"cannot sync its directory: {error.strerror}; the file is complete, but may be missing after a crash"
        raise NotSynced(message, where=target) from error


def finish(directory: int, name: str, mode: int) -> None:
    """Set the mode of a file in an open directory and sync it. Raises OSError, for example if it is a link."""
    written = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fchmod(written, mode)
        os.fsync(written)
    finally:
        os.close(written)


def remove(name: str, directory: int) -> None:
    """Remove a file of an open directory if it exists."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def atomic_link(source: str | os.PathLike, target: Path) -> None:
    """Make ``target`` a symbolic link to ``source``, replacing an earlier file or link; create missing directories.

    Raises OSError, and UserError as `beneath.parent`, but ``target`` itself may be a link.
    """
    with beneath.parent(target, make=True, link=True) as directory:
        remove_abandoned(directory, target.name)
        name = f".{target.name}.{secrets.token_hex(4)}.link"
        os.symlink(source, name, dir_fd=directory)
        os.replace(name, target.name, src_dir_fd=directory, dst_dir_fd=directory)
        os.fsync(directory)


@contextlib.contextmanager
def convert_errors(target: Path) -> Iterator[None]:
    """Raise UserError for an OSError while ``target`` is written."""
    try:
        yield
    except OSError as error:
        fix = "free some space, or write elsewhere" if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        raise UserError(f"cannot write: {error.strerror or error}", where=target, fix=fix) from error


def locked_temporary(directory: int, target: str) -> tuple[int, str]:
    """Create an empty temporary file for ``target`` in an open directory; return its descriptor and name.

    A lock on the descriptor shows other processes that the writer is running. The kernel releases it when the
    descriptor is closed or the process ends, even after kill -9.
    """
    while True:
        name = f".{target}.{secrets.token_hex(4)}.part"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, PRIVATE, dir_fd=directory)
        except FileExistsError:
            continue
        if locked(descriptor, fcntl.flock) is not False and os.fstat(descriptor).st_nlink:
            return descriptor, name
        os.close(descriptor)  # removed as abandoned by another writer before it was locked


def remove_abandoned(directory: int, target: str) -> None:
    """Remove temporary files of ``target`` in an open directory that are not locked by a running writer."""
    # This search precedes every write, so a directory of 10,000 files is listed only once, without patterns.
    names = [name for name in os.listdir(directory) if name.startswith(f".{target}.")]
    if not names:  # compiling patterns takes milliseconds
        return
    for name in fnmatch.filter(names, f".{glob.escape(target)}.????????.part"):
        with contextlib.suppress(OSError):  # already removed, of another user, or a link
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=directory)
            try:
                # Writers of this package use flock; DuckDB uses fcntl locks on a file that it has recreated.
                is_own = os.fstat(descriptor).st_uid == os.geteuid()
                if is_own and locked(descriptor, fcntl.flock) and locked(descriptor, fcntl.lockf):
                    for abandoned in (
                        name,
                        f"{name}.wal",
                        f"tmp_{name}",
                    ):  # and DuckDB's files for databases and Parquet
                        remove(abandoned, directory)
            finally:
                os.close(descriptor)
    remove_logs(directory, fnmatch.filter(names, f".{glob.escape(target)}.????????.part.wal*"))
    remove_links(directory, fnmatch.filter(names, f".{glob.escape(target)}.????????.link"))


def remove_logs(directory: int, names: Iterable[str]) -> None:
    """Remove logs of DuckDB without their database: DuckDB crashed after the database was removed."""
    for name in names:
        with contextlib.suppress(OSError):  # already removed, or in a directory that allows only owners to remove files
            status = os.lstat(name, dir_fd=directory)
            is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            try:
                os.lstat(name[: name.rindex(".part.wal") + len(".part")], dir_fd=directory)
            except FileNotFoundError:
                if is_own:
                    remove(name, directory)


def remove_links(directory: int, names: Iterable[str]) -> None:
    """Remove temporary links of `atomic_link` that have existed for a minute; `atomic_link` renames its own at once."""
    for name in names:
        with contextlib.suppress(OSError):  # already removed, or in a directory that allows only owners to remove files
            status = os.lstat(name, dir_fd=directory)
            if stat.S_ISLNK(status.st_mode) and status.st_uid == os.geteuid() and time.time() - status.st_mtime > 60:
                remove(name, directory)


def locked(descriptor: int, kind: Callable[[int, int], None]) -> bool | None:
    """Take a lock and return True; False if another process has it, None if the file system has no locks."""
    try:
        kind(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


def atomic_text(target: str | os.PathLike, text: str, mode: int = PRIVATE) -> None:
    """Write ``text`` as UTF-8 to ``target`` atomically."""
    with atomic_path(target, mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


def temporary_directory(named: str | os.PathLike | None = None) -> Path:
    """Return the directory for temporary files: ``named``, else TMPDIR, else /tmp.

    Raises UserError if it is full or not writable; tempfile.gettempdir() would silently use a different directory.
    """
    directory = Path(named or os.environ.get("TMPDIR") or "/tmp")
    try:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as probe:
            probe.write(b"\0")
    except OSError as error:
        message, fix = f"cannot write: {error.strerror}", "free some space, or " if error.errno == errno.ENOSPC else ""
        if not directory.is_dir():
            message, fix = "no such directory", "create it, or "
        fix += f"use a different one: {'--spool ' if named else 'TMPDIR='}DIRECTORY"
        raise UserError(message, where=f"temporary directory {directory}", fix=fix) from error
    return directory.resolve()


SCRATCH = "acapella-scratch-"
RANDOM_LENGTH = 8  # length of the part of a name that tempfile.mkdtemp chooses


@contextlib.contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """Yield a private directory in ``parent`` (default: `temporary_directory`), removed at the end.

    After kill -9 it is removed by the next call with the same parent, or the next command (`remove_scratch`).
    """
    descriptor, directory = locked_directory(parent)
    try:
        yield directory
    finally:
        remove_locked(descriptor, directory)


def locked_directory(parent: Path | None = None, prefix: str = SCRATCH, suffix: str = "") -> tuple[int, Path]:
    """Return a new private directory in ``parent`` and its descriptor, whose lock shows that the process is running.

    ``parent`` is `temporary_directory` by default. Directories of the same prefix and suffix are removed if their
    processes were killed.
    """
    parent = parent or temporary_directory()
    remove_abandoned_directories(parent, prefix, suffix)
    while True:
        directory = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=parent))
        with contextlib.suppress(FileNotFoundError):  # removed by another process before it was locked
            descriptor = open_directory(directory)
            if locked(descriptor, fcntl.flock) is not False and os.fstat(descriptor).st_nlink:
                return descriptor, directory
            os.close(descriptor)


def remove_scratch() -> None:
    """Remove scratch directories of killed processes in TMPDIR: they may contain packets."""
    remove_abandoned_directories(Path(os.environ.get("TMPDIR") or "/tmp"))


def remove_abandoned_directories(parent: Path, prefix: str = SCRATCH, suffix: str = "") -> None:
    """Remove directories of `locked_directory` whose processes have ended."""
    try:
        names = os.listdir(parent)  # noqa: PTH208 - runs for every sample, and most names do not match
    except OSError:  # the creation of a directory in it reports the reason
        return
    length = len(prefix) + RANDOM_LENGTH + len(suffix)
    for name in names:
        if name.startswith(prefix) and name.endswith(suffix) and len(name) == length:
            with contextlib.suppress(OSError):  # already removed, of another user, or a link
                remove_abandoned_directory(parent / name)


def open_directory(directory: Path) -> int:
    """Return a descriptor of a directory; links are not followed."""
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def remove_locked(descriptor: int, directory: Path) -> None:
    """Remove a directory and release its lock."""
    shutil.rmtree(directory, ignore_errors=True)
    os.close(descriptor)


def remove_abandoned_directory(directory: Path) -> None:
    """Remove a directory of this user that is not locked."""
    descriptor = open_directory(directory)
    if os.fstat(descriptor).st_uid == os.geteuid() and locked(descriptor, fcntl.flock):
        remove_locked(descriptor, directory)
    else:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Sync the content of a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: str | os.PathLike) -> str:
    """Return the SHA-256 of a file in hexadecimal, in constant memory."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
