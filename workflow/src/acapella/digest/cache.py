"""The cache of digests, shared by campaigns. Its files are private, and their checksums are verified.

Entries are addressed by content: the key is the SHA-256 of the capture's SHA-256 and of everything else on which a
digest depends. The entry CACHE/KK/KEY_acap.parquet, where KK are the first two digits of the key, has a file
KEY_acap.parquet.sha256 in the format of sha256sum: `sha256sum -c *.sha256` in a directory verifies all its entries. An
entry that is damaged, is not a regular file, or belongs to a different user is not used. A warning then names the entry
and the sample, and the digest is recomputed. A cache that cannot be written only causes a warning.

Users share a cache whose directory belongs to their group (`chgrp GROUP CACHE; chmod 2770 CACHE`): entries of all
members of the group are then used. Writers of the same entry do not interfere with each other: each writes a temporary
file and renames it, and both files have the same bytes. Readers remove nothing: a writer replaces damaged entries.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella.common.links import ENTRY
from acapella_core import names, shards
from acapella_core.errors import UserError
from acapella_core.files import (
    PRIVATE,
    atomic_link,
    atomic_path,
    atomic_text,
    open_directory,
    remove_abandoned,
    sha256_of,
)

KINDS = ("acap", "flows")
MISSING = "is missing"
MAGIC = b"PAR1"  # the first and the last 4 bytes of a Parquet file

LOCATION = "ACAPELLA_CACHE"  # environment variable with the directory of the cache
SHARED = 0o2770  # mode of the directory of a cache that a group shares
SHARED_ENTRY = 0o640  # mode of the files in it
TEMPORARY = re.compile(r"\.(?P<target>.+)\.[0-9a-f]{8}\.part")  # name of a file that `atomic_path` yields

_reported: set[str] = set()
_verified: dict[Path, int] = {}  # entry -> start of its verification, file system time in ns since 1970


def report(line: str) -> None:
    """Print a line on standard error with a single write, unless it was printed before.

    A line break precedes it, because jobs run in threads and Snakemake may have written a part of a line.
    """
    if line in _reported:
        return
    _reported.add(line)
    sys.stderr.write(f"\n{names.shown(line)}\n")
    sys.stderr.flush()


def report_damaged(campaign: Path, sample: str) -> bool:
    """Report the entries of a sample that are not intact; return whether there are any."""
    faults = damaged_entries(campaign, sample)
    for entry, fault in faults.items():
        report(warning(entry, sample, fault))
    return bool(faults)


def warning(entry: Path, sample: str, fault: str) -> str:
    """Return the warning about an entry that is not used."""
    return f"warning: cache entry {entry} of sample {sample} {fault}; the digest is computed again"


def entry_of(output: Path) -> Path | None:
    """Return the entry that an output of digest is a symbolic or hard link to; None if it is not such a link.

    A hard link is recognized only if the entry is in the cache that the campaign uses.
    """
    if output.is_symlink():
        return output.parent / output.readlink() if ENTRY.fullmatch(output.readlink().name) else None
    if not os.environ.get(LOCATION) or not output.is_file() or (status := output.stat()).st_nlink == 1:
        return None
    return entries_by_inode(Path(os.environ[LOCATION])).get((status.st_dev, status.st_ino))


@functools.cache
def entries_by_inode(cache: Path) -> dict[tuple[int, int], Path]:
    """Return the entries of a cache by device and inode; an empty dict if the cache cannot be read."""
    entries = {}
    with contextlib.suppress(OSError):
        for path in cache.glob("??/*.parquet"):
            if ENTRY.fullmatch(path.name) and not path.is_symlink():
                inode = path.stat()
                entries[inode.st_dev, inode.st_ino] = path
    return entries


def key_of(capture_sha256: str, dependencies: dict) -> str:
    """Return the key of a digest. ``dependencies``: all parameters and versions on which it depends."""
    return hashlib.sha256(json.dumps([capture_sha256, dependencies], sort_keys=True).encode()).hexdigest()


def entries_of(cache: Path, key: str) -> list[Path]:
    """Return the entries of a key, in the order of KINDS."""
    return [cache / key[:2] / f"{key}_{kind}.parquet" for kind in KINDS]


def is_shared(directory: Path) -> bool:
    """Return whether a directory of a cache is shared by the members of a group of this user.

    Its mode must be exactly SHARED: `mkdir` in a shared directory, such as a project's, creates one of mode 2775.
    """
    try:
        status = directory.stat()
    except OSError:
        return False
    return stat.S_IMODE(status.st_mode) == SHARED and status.st_gid in (os.getegid(), *os.getgroups())


def fetch(entries: list[Path], outputs: list[Path]) -> bool:
    """Link the outputs of a sample to their entries and return True; False if an entry is missing or not intact.

    Outputs are linked after all entries are verified. The entries become the most recently used.
    """
    began_ns = time_of_file_system(entries[0].parent)
    faults = {entry: fault for entry in entries if (fault := fault_of(entry))}
    for entry, fault in faults.items():
        if fault != MISSING:
            report(warning(entry, outputs[0].stem, fault))
    if faults:
        return False
    for entry, output in zip(entries, outputs, strict=True):
        atomic_link(entry.absolute(), output)
        if began_ns is not None:
            record_use(entry, began_ns)
    return True


def record_use(entry: Path, time_ns: int) -> None:
    """Set the modification time of an entry's .sha256 file, the time of its last use or verification.

    In a shared cache, a copy replaces the file of a different user, because only its owner may set the time. If the
    directory is not writable, the time does not change.
    """
    path = sum_file(entry)
    with contextlib.suppress(OSError, UserError, UnicodeDecodeError):
        try:
            os.utime(path, ns=(time_ns, time_ns))
        except PermissionError:
            if not is_shared(entry.parent):
                return
            atomic_text(path, path.read_text(encoding="utf-8"), SHARED_ENTRY)
            os.utime(path, ns=(time_ns, time_ns))


def store(entries: list[Path], outputs: list[Path]) -> None:
    """Move the outputs of a sample to the cache and replace them with links. If that fails, they stay in place."""
    for entry, output in zip(entries, outputs, strict=True):
        try:
            prepare_directory(entry.parent.parent)
            prepare_directory(entry.parent, shared=is_shared(entry.parent.parent))
            keep(output, entry)
        except (OSError, UserError) as error:
            reason = getattr(error, "strerror", None) or error
            report(f"warning: sample {output.stem} is not cached: {entry}: {reason}")
            return


def sum_file(entry: Path) -> Path:
    """Return the path of the file with the checksum of an entry."""
    return entry.with_name(f"{entry.name}.sha256")


def recorded_checksum(entry: Path) -> str | None:
    """Return the checksum in the .sha256 file of an entry; None if it is missing or unreadable."""
    try:
        return sum_file(entry).read_text(encoding="utf-8").partition("  ")[0].strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def keep(output: Path, entry: Path) -> None:
    """Move an output to the cache and replace it with a link.

    The checksum is written first, so that readers never find an entry without its checksum, or with the checksum of a
    damaged entry. The modification time of the checksum's file is set last, because all earlier steps set the change
    time of the entry (see `changed`).
    """
    mode = SHARED_ENTRY if is_shared(entry.parent) else PRIVATE
    if any(path.is_symlink() or path.is_dir() for path in (entry, sum_file(entry))):  # a rename replaces other faults
        discard(entry)
    atomic_text(sum_file(entry), f"{sha256_of(output)}  {entry.name}\n", mode)
    with atomic_path(entry, mode) as temporary:
        shutil.copyfile(output, temporary)  # a hard link would not have the lock that protects it from other writers
    atomic_link(entry.absolute(), output)
    with contextlib.suppress(OSError):  # meanwhile replaced by a different user; the next run verifies the entry
        os.utime(sum_file(entry))


def prepare_directory(directory: Path, *, shared: bool = False) -> None:
    """Create a directory of the cache if it is missing. If this user owns it, remove write permission for other users.

    ``shared``: a new directory is shared by a group. Users share a cache on purpose, so a new cache is always private,
    even in a directory that a group shares.
    """
    try:
        if shared:
            make_shared(directory)
        else:
            directory.mkdir(mode=0o700, parents=True)
            directory.chmod(0o700)
    except FileExistsError:  # possibly just created by a different user, who alone may set its mode
        if not directory.is_dir():
            raise
    status = directory.stat()
    if is_shared(directory):
        return
    if status.st_uid == os.geteuid() and status.st_mode & 0o022:
        directory.chmod(stat.S_IMODE(status.st_mode) & ~0o022)
        report(f"warning: other users could write to the cache {directory}; removed their write permission")


def make_shared(directory: Path) -> None:
    """Create a directory in a shared one, from which it inherits S_ISGID. Raises OSError.

    If this process were killed between mkdir and chmod, no other user could use the directory.
    """
    previous_umask = os.umask(0)
    try:
        directory.mkdir(mode=SHARED & 0o777)
    finally:
        os.umask(previous_umask)


def discard(entry: Path) -> None:
    """Remove an entry and its checksum. A directory with the name of an entry is renamed; targets of links are kept."""
    sum_file(entry).unlink(missing_ok=True)
    if entry.is_dir() and not entry.is_symlink():
        entry.rename(Path(tempfile.mkdtemp(prefix=f"{entry.name}.", suffix=".rejected", dir=entry.parent)) / entry.name)
    else:
        entry.unlink(missing_ok=True)


def fault_of(entry: Path) -> str | None:
    """Return why an entry cannot be used; None if it is intact."""
    if fault := quick_fault(entry):
        return fault
    try:
        checksum, _, name = sum_file(entry).read_text(encoding="utf-8").strip().partition("  ")
        if name != entry.name or checksum != sha256_of(entry):
            return "is damaged: its bytes do not have the checksum in its .sha256 file"
    except FileNotFoundError:
        return "has no .sha256 file"
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be verified: {getattr(error, 'strerror', None) or error}"
    return None


def quick_fault(entry: Path) -> str | None:
    """Return a fault that the inode or the first and last bytes of an entry show; None if there is none."""
    try:
        descriptor = os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return "is a link" if entry.is_symlink() else f"cannot be read: {error.strerror}"
    try:
        return fault_of_open(descriptor, shared=is_shared(entry.parent))
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    finally:
        os.close(descriptor)


def fault_of_open(descriptor: int, *, shared: bool) -> str | None:
    """Return the fault that `quick_fault` reports for an open file; None if there is none.

    ``shared``: entries may belong to other users.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_uid not in (os.geteuid(), 0) and not shared:
        return "belongs to another user"
    if status.st_mode & 0o022:
        return "can be written by others"
    if status.st_size < 3 * len(MAGIC):
        return f"is truncated: {status.st_size} bytes"
    magic_numbers = {os.pread(descriptor, len(MAGIC), offset) for offset in (0, status.st_size - len(MAGIC))}
    return (
        None if magic_numbers == {MAGIC} else "is damaged or truncated: it does not begin and end like a Parquet file"
    )


def damaged_entries(campaign: Path, sample: str) -> dict[Path, str]:
    """Return the entries that the outputs of a sample link to and that are not intact, each with its fault.

    This check precedes every run. To keep it short, it computes the checksum only of entries that may have changed
    since their last verification, and reads only the inode and both ends of the others. `acapella campaign check`
    computes all checksums.
    """
    faults = {}
    for kind in KINDS:
        entry = entry_of(shards.directory_of(campaign, kind, sample) / f"{sample}.parquet")
        if entry and (fault := fault_since(entry) if changed(entry) else quick_fault(entry)):
            faults[entry] = fault
    return faults


def fault_since(entry: Path) -> str | None:
    """Return the result of `fault_of`, and note an intact entry for `record_verified`."""
    began_ns = time_of_file_system(entry.parent)
    fault = fault_of(entry)
    if fault is None and began_ns is not None:
        _verified[entry] = began_ns
    return fault


def time_of_file_system(directory: Path) -> int | None:
    """Return the time of a directory's file system in ns since 1970; None if no file can be created there.

    Change times of a network file system come from the clock of its server, which may differ from the local clock.
    """
    try:
        with tempfile.TemporaryFile(prefix=".clock.", dir=directory) as probe:
            return os.fstat(probe.fileno()).st_ctime_ns
    except OSError:
        return None


def record_verified() -> None:
    """Set the modification times of .sha256 files to the time of verification, so that the next run skips it."""
    for entry, began_ns in _verified.items():
        record_use(entry, began_ns)
    _verified.clear()


def changed(entry: Path) -> bool:
    """Return whether an entry may have changed since its last verification, or it or its checksum is missing.

    This compares the change time of the inode, because programs can set back the modification time but not the change
    time. Equal times count as changed, because the clock of a file system advances in steps of milliseconds.
    """
    try:
        return entry.stat().st_ctime_ns >= sum_file(entry).stat().st_mtime_ns
    except OSError:
        return True


@dataclass(frozen=True)
class Digest:
    """The entries of one key in a cache: their bytes and when they were last used, in ns since 1970."""

    entries: tuple[Path, ...]
    size_bytes: int
    used_ns: int


def digests(cache: Path) -> list[Digest]:
    """Return the digests in a cache, the least recently used first."""
    paths_by_key: dict[str, list[Path]] = {}
    for path in cache.glob("??/*.parquet"):
        if ENTRY.fullmatch(path.name) and not path.is_symlink():
            paths_by_key.setdefault(path.name[:64], []).append(path)
    result = []
    for paths in paths_by_key.values():
        states = [state for path in (*paths, *map(sum_file, paths)) if (state := existing_state(path))]
        size, used_ns = sum(state.st_size for state in states), max((state.st_mtime_ns for state in states), default=0)
        result.append(Digest(tuple(sorted(paths)), size, used_ns))
    return sorted(result, key=lambda digest: (digest.used_ns, digest.entries))


def existing_state(path: Path) -> os.stat_result | None:
    """Return the state of a file; None if it does not exist, for example because another process removed it."""
    try:
        return path.stat()
    except OSError:
        return None


def prunable(found: Sequence[Digest], *, max_bytes: int | None, unused_since_ns: int | None) -> list[Digest]:
    """Return the digests to remove: unused since a given time, then the least recently used until the size fits."""
    total = sum(digest.size_bytes for digest in found)
    removed = []
    for digest in found:
        too_old = unused_since_ns is not None and digest.used_ns < unused_since_ns
        if too_old or (max_bytes is not None and total > max_bytes):
            removed.append(digest)
            total -= digest.size_bytes
    return removed


def remove_orphans(cache: Path, before_ns: int) -> None:
    """Remove temporary files of killed writers, and checksums without an entry that are older than ``before_ns``.

    A writer writes the checksum before the entry.
    """
    for directory in cache.glob("??"):
        with contextlib.suppress(OSError):  # not a directory, not writable, or removed by another process
            for path in list(directory.iterdir()):
                if temporary := TEMPORARY.fullmatch(path.name):
                    remove_temporary(directory, temporary["target"])
                elif path.suffix == ".sha256" and not os.path.lexists(path.with_suffix("")):
                    remove_older(path, before_ns)


def remove_older(path: Path, before_ns: int) -> None:
    """Remove a file that was last modified before a time in ns since 1970."""
    if path.lstat().st_mtime_ns < before_ns:
        path.unlink()


def remove_temporary(directory: Path, target: str) -> None:
    """Remove temporary files of ``target`` whose writers have ended."""
    descriptor = open_directory(directory)
    try:
        remove_abandoned(descriptor, target)
    finally:
        os.close(descriptor)
