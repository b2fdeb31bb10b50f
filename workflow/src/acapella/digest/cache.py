"""Snakemake's cache of digests between campaigns, with private files whose checksums are verified.

Beside each entry is NAME.sha256, in the format of sha256sum: `sha256sum -c *.sha256` in the cache's directory verifies
it. An entry that is damaged, is not a regular file, or belongs to another user is not used: one line names the entry
and the sample, and the digest is computed again. A cache that cannot be written stops no run.
"""

import contextlib
import functools
import os
import shutil
import stat
import sys
import tempfile
from pathlib import Path

from snakemake.caching.local import OutputFileCache

from acapella.common.links import ENTRY
from acapella_core import names
from acapella_core.errors import UserError
from acapella_core.files import atomic_link, atomic_path, atomic_text, sha256_of

KINDS = ("acap", "flows")
MISSING = "is missing"
MAGIC = b"PAR1"  # the first and the last bytes of a Parquet file

LOCATION = "SNAKEMAKE_OUTPUT_CACHE"  # Snakemake's variable

_reported: set[str] = set()
_verified: dict[Path, int] = {}  # entries whose checksum was computed, and when by their file system, in ns since 1970


class CheckedCache(OutputFileCache):
    """Snakemake's cache in a directory; entries are verified when they are used, and readable by their owner alone."""

    async def fetch(self, job) -> None:
        """Link a job's outputs to the entries; Snakemake runs the job if one is missing or not intact.

        No output is linked before all entries are verified: the job would write through such a link.
        """
        entries = [entry for _, entry in await self.get_outputfiles_and_cachefiles(job)]
        faults = {entry: fault for entry in entries if (fault := fault_of(entry))}
        for entry, fault in faults.items():
            if fault != MISSING:
                report(warning(entry, sample_of(job), fault))
            with contextlib.suppress(OSError):  # `store` reports a directory that cannot be written
                discard(entry)
        if faults:
            self.raise_cache_miss_exception(job)
        await super().fetch(job)

    async def exists(self, job) -> bool:
        """Return whether the outputs are there, for a dry run: without their checksums, which take long."""
        files = await self.get_outputfiles_and_cachefiles(job)
        return all(sum_file(entry).is_file() and not quick_fault(entry) for _, entry in files)

    async def store(self, job) -> None:
        """Move a job's outputs to the cache and leave links; outputs stay where they are if that fails."""
        for output, entry in await self.get_outputfiles_and_cachefiles(job):
            try:
                prepare_directory(entry.parent)
                keep(output, entry)
            except (OSError, UserError) as error:
                reason = getattr(error, "strerror", None) or error
                report(f"warning: sample {sample_of(job)} is not cached: {entry}: {reason}")
                return


def report(line: str) -> None:
    """Print a line on standard error, at once and in one piece, once in a run.

    It begins with a line break: jobs run in threads, and Snakemake may have written the first half of a line.
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


def sample_of(job) -> str:
    """Return the sample of a digest's job."""
    return job.wildcards.sample


def warning(entry: Path, sample: str, fault: str) -> str:
    """Return the line that reports an entry that is not used."""
    return f"warning: cache entry {entry} of sample {sample} {fault}; the digest is computed again"


def entry_of(output: Path) -> Path | None:
    """Return the entry that a digest's output is a symbolic or hard link to; None if it is no such link.

    A hard link is recognized if the entry is in the cache that Snakemake uses.
    """
    if output.is_symlink():
        return output.parent / output.readlink() if ENTRY.fullmatch(output.readlink().name) else None
    if not os.environ.get(LOCATION) or not output.is_file() or (found := output.stat()).st_nlink == 1:
        return None
    return entries_by_inode(Path(os.environ[LOCATION])).get((found.st_dev, found.st_ino))


@functools.cache
def entries_by_inode(cache: Path) -> dict[tuple[int, int], Path]:
    """Return the entries of a cache by device and inode; none if it cannot be read."""
    found = {}
    with contextlib.suppress(OSError):
        for path in cache.iterdir():
            if ENTRY.fullmatch(path.name) and not path.is_symlink():
                inode = path.stat()
                found[inode.st_dev, inode.st_ino] = path
    return found


def sum_file(entry: Path) -> Path:
    """Return the file with an entry's checksum."""
    return entry.with_name(f"{entry.name}.sha256")


def recorded_checksum(entry: Path) -> str | None:
    """Return the checksum in an entry's .sha256 file; None if there is none."""
    try:
        return sum_file(entry).read_text(encoding="utf-8").partition("  ")[0].strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def keep(output: Path, entry: Path) -> None:
    """Move ``output`` to ``entry``, write the checksum, and leave a link in the place of the output.

    The entry is written under a temporary name; its checksum comes last, because every step before it sets the change
    time of the entry (`changed`). An entry without a checksum is not used.
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
    """Create the cache's directory if it is missing; remove the write permission of others if it is ours."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o022:
        directory.chmod(stat.S_IMODE(found.st_mode) & ~0o022)
        report(f"warning: others could write to the cache {directory}; its mode has no w for them now")


def discard(entry: Path) -> None:
    """Remove an entry and its checksum; a directory in its place is renamed, what a link points to is left alone."""
    sum_file(entry).unlink(missing_ok=True)
    if entry.is_dir() and not entry.is_symlink():
        entry.rename(Path(tempfile.mkdtemp(prefix=f"{entry.name}.", suffix=".rejected", dir=entry.parent)) / entry.name)
    else:
        entry.unlink(missing_ok=True)


def fault_of(entry: Path) -> str | None:
    """Return why an entry cannot be used, None if it is intact."""
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
    """Return what is wrong with an entry as far as its inode and its first and last bytes show; None if nothing is."""
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
    """Return what `quick_fault` finds in an open file."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        return "is not a regular file"
    if found.st_uid not in (os.geteuid(), 0):
        return "belongs to another user"
    if found.st_mode & 0o022:
        return "can be written by others"
    if found.st_size < 3 * len(MAGIC):
        return f"is truncated: {found.st_size} bytes"
    ends = {os.pread(descriptor, len(MAGIC), place) for place in (0, found.st_size - len(MAGIC))}
    return None if ends == {MAGIC} else "is damaged or truncated: it does not begin and end as Parquet"


def damaged_entries(campaign: Path, sample: str) -> dict[Path, str]:
    """Return the entries that a sample's outputs are links to and that are not intact, and why; nothing is changed.

    The checksum is computed of entries that may have changed since it was computed last; of the others only the inode
    and the ends are read, because this precedes every run. `acapella campaign index` computes the checksums of all.
    """
    faults = {}
    for kind in KINDS:
        entry = entry_of(campaign / kind / f"{sample}.parquet")
        if entry and (fault := fault_since(entry) if changed(entry) else quick_fault(entry)):
            faults[entry] = fault
    return faults


def fault_since(entry: Path) -> str | None:
    """As `fault_of`; `record_verified` can record that the entry is intact."""
    began_ns = time_of_file_system(entry.parent)
    fault = fault_of(entry)
    if fault is None and began_ns is not None:
        _verified[entry] = began_ns
    return fault


def time_of_file_system(directory: Path) -> int | None:
    """Return the time of a directory's file system, ns since 1970; None if no file can be made there.

    Change times come from the clock of a file server, which may differ from that of this machine.
    """
    try:
        with tempfile.TemporaryFile(prefix=".clock.", dir=directory) as probe:
            return os.fstat(probe.fileno()).st_ctime_ns
    except OSError:
        return None


def record_verified() -> None:
    """Set the time of .sha256 files to when `damaged_entries` computed the checksum: the next run does not."""
    for entry, began_ns in _verified.items():
        with contextlib.suppress(OSError):  # of another user; the next run computes it again
            os.utime(sum_file(entry), ns=(began_ns, began_ns))
    _verified.clear()


def changed(entry: Path) -> bool:
    """Return whether an entry changed after its checksum was computed, or one of the two is missing.

    By the change time of its inode: no program can set that back, as it can the modification time. A change at the
    same time counts, since a file system's clock advances in steps of milliseconds.
    """
    try:
        return entry.stat().st_ctime_ns >= sum_file(entry).stat().st_mtime_ns
    except OSError:
        return True
