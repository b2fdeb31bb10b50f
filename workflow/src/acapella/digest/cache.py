"""The cache of digests, shared by campaigns. Its files are private, and their checksums are verified.

Each entry NAME has a file NAME.sha256 in the format of sha256sum: `sha256sum -c *.sha256` in the cache directory
verifies all entries. An entry that is damaged, is not a regular file, or belongs to another user is not used. A warning
then names the entry and the sample, and the digest is computed again. A cache that cannot be written only causes a
warning.
"""

import contextlib
import functools
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from acapella.common.links import ENTRY
from acapella_core import names
from acapella_core.files import atomic_link, atomic_path, atomic_text, sha256_of

KINDS = ("acap", "flows")
MISSING = "is missing"
MAGIC = b"PAR1"  # the first and the last 4 bytes of a Parquet file

LOCATION = "SNAKEMAKE_OUTPUT_CACHE"  # environment variable of Snakemake

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

    A hard link is recognized only if the entry is in the cache that Snakemake uses.
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
        for path in cache.iterdir():
            if ENTRY.fullmatch(path.name) and not path.is_symlink():
                inode = path.stat()
                entries[inode.st_dev, inode.st_ino] = path
    return entries


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
    """Move an output to the cache, replace it with a link, and write the checksum.

    The entry is written under a temporary name. The checksum is written last, because all earlier steps set the change
    time of the entry (see `changed`). An entry without a checksum is not used.
    """
    checksum = sha256_of(output)
    if quick_fault(entry):
        discard(entry)
    with atomic_path(entry) as temporary:
        try:
            temporary.unlink()
            os.link(output, temporary)
        except OSError:  # on another file system
            shutil.copyfile(output, temporary)
    atomic_link(entry, output)
    atomic_text(sum_file(entry), f"{checksum}  {entry.name}\n")


def prepare_directory(directory: Path) -> None:
    """Create the cache directory if it is missing; if this user owns it, remove write permission for others."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = directory.stat()
    if status.st_uid == os.geteuid() and status.st_mode & 0o022:
        directory.chmod(stat.S_IMODE(status.st_mode) & ~0o022)
        report(f"warning: other users could write to the cache {directory}; removed their write permission")


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
        return fault_of_open(descriptor)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    finally:
        os.close(descriptor)


def fault_of_open(descriptor: int) -> str | None:
    """Return the fault that `quick_fault` reports for an open file; None if there is none."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return "is not a regular file"
    if status.st_uid not in (os.geteuid(), 0):
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
    since their last verification, and reads only the inode and both ends of the others. `acapella campaign index`
    computes all checksums.
    """
    faults = {}
    for kind in KINDS:
        entry = entry_of(campaign / kind / f"{sample}.parquet")
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
        with contextlib.suppress(OSError):  # file of another user; the next run verifies the entry again
            os.utime(sum_file(entry), ns=(began_ns, began_ns))
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
