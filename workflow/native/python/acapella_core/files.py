"""Files that are whole or not there: write to a temporary name, sync, rename."""

import contextlib
import errno
import fcntl
import fnmatch
import glob
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from . import beneath
from .errors import UserError

PRIVATE = 0o600  # captures and what is made from them hold other people's traffic


@contextlib.contextmanager
def atomic_path(target: str | os.PathLike, mode: int = PRIVATE) -> Iterator[Path]:
    """Yield a temporary path beside ``target``; on success sync it and rename it, on error remove it.

    A link is followed, but not beneath a directory that `beneath.protect` names. The path goes through the descriptor
    of the target's directory, for this process alone: what replaces that directory meanwhile is not written to. What
    killed writers of the same target left behind is removed. Raises UserError where the directory is missing or not
    writable, the disk is full, a component is a link that is not followed, or something other than a file stands there:
    a rename would put a file in a device's place.
    """
    try:
        target = beneath.located(target)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=target) from error
    if target.exists() and not target.is_file():
        raise UserError("is not a regular file", where=target, fix="name a file to write")
    with contextlib.ExitStack() as opened:
        try:
            directory = opened.enter_context(beneath.parent(target, make=True))
            remove_abandoned(directory, target.name)
            descriptor, name = held_temporary(directory, target.name)
        except OSError as error:
            raise UserError(f"cannot write: {error.strerror}", where=target) from error
        opened.callback(os.close, descriptor)
        opened.callback(remove, name, directory)
        with written_whole(target):
            yield beneath.inside(directory, target.parent) / name
            finish(directory, name, mode)
            os.replace(name, target.name, src_dir_fd=directory, dst_dir_fd=directory)
            os.fsync(directory)


def finish(directory: int, name: str, mode: int) -> None:
    """Set the mode of a file in an open directory and sync it. Raises OSError, also if it is a link."""
    written = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.fchmod(written, mode)
        os.fsync(written)
    finally:
        os.close(written)


def remove(name: str, directory: int) -> None:
    """Remove a file of an open directory, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def atomic_link(source: str | os.PathLike, target: Path) -> None:
    """Make ``target`` a symbolic link to ``source``, in place of an earlier file or link; make missing directories.

    Raises OSError, and UserError as `beneath.parent`, but ``target`` itself may be a link.
    """
    with beneath.parent(target, make=True, link=True) as directory:
        name = f".{target.name}.{os.getpid()}.part"
        remove(name, directory)
        os.symlink(source, name, dir_fd=directory)
        os.replace(name, target.name, src_dir_fd=directory, dst_dir_fd=directory)


@contextlib.contextmanager
def written_whole(target: Path) -> Iterator[None]:
    """Raise UserError for an OSError while ``target`` is written."""
    try:
        yield
    except OSError as error:
        fix = "free some space, or write elsewhere" if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        raise UserError(f"cannot write: {error.strerror or error}", where=target, fix=fix) from error


def held_temporary(directory: int, target: str) -> tuple[int, str]:
    """Make an empty file for ``target`` in an open directory; return the descriptor, whose lock shows others that its
    writer lives, and the name.

    The kernel lets go of the lock when the descriptor is closed or the process ends, by kill -9 too.
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
        os.close(descriptor)  # in the instant before the lock another writer took it for abandoned


def remove_abandoned(directory: int, target: str) -> None:
    """Remove temporary files of ``target`` in an open directory whose writers are gone: nobody holds a lock on them."""
    for name in fnmatch.filter(os.listdir(directory), f".{glob.escape(target)}.????????.part"):
        with contextlib.suppress(OSError):  # gone by now, not ours, or a link
            flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=directory)
            try:
                # flock is ours; DuckDB holds the other kind on a file that it has made anew under the name.
                ours = os.fstat(descriptor).st_uid == os.geteuid()
                if ours and locked(descriptor, fcntl.flock) and locked(descriptor, fcntl.lockf):
                    for left in (name, f"{name}.wal", f"tmp_{name}"):  # DuckDB's, of a database and of Parquet
                        remove(left, directory)
            finally:
                os.close(descriptor)


def locked(descriptor: int, kind: Callable[[int, int], None]) -> bool | None:
    """Take a lock: False where somebody has it, None where the file system has none."""
    try:
        kind(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


def atomic_text(target: str | os.PathLike, text: str, mode: int = PRIVATE) -> None:
    """Write ``text`` as UTF-8 to ``target``, whole or not at all."""
    with atomic_path(target, mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


def temporary_directory(named: str | os.PathLike | None = None) -> Path:
    """Where temporary files go: ``named``, else TMPDIR, else /tmp, and nowhere else.

    tempfile.gettempdir() would go on to other directories in silence where the one that was asked for is full or may
    not be written, and fill a disk that nobody named. Raises UserError there.
    """
    directory = Path(named or os.environ.get("TMPDIR") or "/tmp")
    try:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as probe:
            probe.write(b"\0")
    except OSError as error:
        what, fix = f"cannot write: {error.strerror}", "make room, or " if error.errno == errno.ENOSPC else ""
        if not directory.is_dir():
            what, fix = "there is no such directory", "make it, or "
        fix += f"name another one: {'--spool ' if named else 'TMPDIR='}DIRECTORY"
        raise UserError(what, where=f"directory of temporary files {directory}", fix=fix) from error
    return directory.resolve()


SCRATCH = "acapella-scratch-"


@contextlib.contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """A private directory in ``parent`` (default: `temporary_directory`), removed at the end.

    After kill -9 the next one in the same place removes it, or the next start of any command (`remove_scratch`).
    """
    descriptor, directory = held_directory(parent)
    try:
        yield directory
    finally:
        remove_held(descriptor, directory)


def held_directory(parent: Path | None = None, prefix: str = SCRATCH, suffix: str = "") -> tuple[int, Path]:
    """Return a new private directory in ``parent`` and a descriptor; its lock shows others that the process lives.

    ``parent`` is `temporary_directory` by default. Directories of the same prefix and suffix are removed if their
    processes were killed.
    """
    parent = parent or temporary_directory()
    remove_abandoned_directories(parent, prefix, suffix)
    while True:
        directory = Path(tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=parent))
        with contextlib.suppress(FileNotFoundError):  # in the instant before the lock another process removed it
            descriptor = open_directory(directory)
            if locked(descriptor, fcntl.flock) is not False and os.fstat(descriptor).st_nlink:
                return descriptor, directory
            os.close(descriptor)


def remove_scratch() -> None:
    """Remove what `scratch_directory` made in TMPDIR for processes that were killed: it may contain packets."""
    remove_abandoned_directories(Path(os.environ.get("TMPDIR") or "/tmp"))


def remove_abandoned_directories(parent: Path, prefix: str = SCRATCH, suffix: str = "") -> None:
    """Remove directories of `held_directory` whose processes are gone."""
    for left in parent.glob(f"{glob.escape(prefix)}????????{glob.escape(suffix)}"):
        with contextlib.suppress(OSError):  # gone by now, not ours, or a link
            remove_abandoned_directory(left)


def open_directory(directory: Path) -> int:
    """A descriptor of a directory, not of what a link names."""
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def remove_held(descriptor: int, directory: Path) -> None:
    """Remove a directory and let go of its lock."""
    shutil.rmtree(directory, ignore_errors=True)
    os.close(descriptor)


def remove_abandoned_directory(directory: Path) -> None:
    """Remove a directory of this user's that nobody holds a lock on."""
    descriptor = open_directory(directory)
    if os.fstat(descriptor).st_uid == os.geteuid() and locked(descriptor, fcntl.flock):
        remove_held(descriptor, directory)
    else:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a directory, survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: str | os.PathLike) -> str:
    """Hex sha256 of a file's bytes, in constant memory."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
