"""Files that are whole or not there: write to a temporary name, sync, rename."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .errors import UserError

PRIVATE = 0o600  # captures and what is made from them hold other people's traffic


@contextlib.contextmanager
def atomic_path(target: str | os.PathLike, mode: int = PRIVATE) -> Iterator[Path]:
    """Yield a temporary path beside ``target``; on success sync it and rename it, on error remove it.

    A link is followed. Raises UserError where the folder is missing or not writable, the disk is full, or something
    other than a file stands there: a rename would put a file in a device's place.
    """
    target = Path(target).resolve()
    if target.exists() and not target.is_file():
        raise UserError("is not a regular file", where=target, fix="name a file to write")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=target) from error
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(mode)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror or error}", where=target) from error
    finally:
        temporary.unlink(missing_ok=True)


def atomic_text(target: str | os.PathLike, text: str, mode: int = PRIVATE) -> None:
    """Write ``text`` as UTF-8 to ``target``, whole or not at all."""
    with atomic_path(target, mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256_of(path: str | os.PathLike) -> str:
    """Hex sha256 of a file's bytes, in constant memory."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
