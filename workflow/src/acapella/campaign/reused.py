"""Decides which rows of the earlier catalog are kept: those of files that have not changed since it was written.

A file counts as unchanged if its size, modification time, change time and inode are those recorded in the earlier
catalog (schema `indexed`). As in git's index, the state of a file that changed shortly before indexing is not recorded:
the file may change again without a different time, if the clock of the file system is coarse. The next run reads such a
file again. Users cannot set change times, so all files count as changed after a campaign was copied with its catalog.

The earlier catalog is ignored if a different version of the code or of DuckDB wrote it, if it is damaged, or if less
than half of its samples are unchanged. Otherwise, the new catalog is a copy of it, in which rows are replaced. DuckDB
reuses the space of deleted rows.
"""

import contextlib
import functools
import hashlib
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import acapella
from acapella.common import queries
from acapella_core import names
from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from .layout import Campaign
from .views import quoted

DIGEST_TABLES = ("indexed.files", "stored.flows", "main.stacks")  # rows of acaps and flow tables
MANIFEST_TABLES = ("indexed.manifest_files", "indexed.manifests")  # rows of manifests
MODULES = (
    "campaign/analyze.py",
    "campaign/index.py",
    "campaign/reused.py",
    "campaign/views.py",
    "digest/acap_files.py",
)
# The coarsest clock of a file system: FAT has times in steps of 2 s.
CLOCK_STEP_NS = 2 * 10**9


class Digest(NamedTuple):
    """The files of a sample's digest: the path of its acap, sizes, checksums, and their state (None: not recorded)."""

    sample: str
    acap: str
    acap_bytes: int
    acap_sha256: str
    flows_bytes: int
    flows_sha256: str
    state: str | None


class Manifest(NamedTuple):
    """The manifest of a sample: its checksum, and its state (None: not recorded)."""

    sample: str
    sha256: str
    state: str | None


@dataclass(frozen=True)
class Earlier:
    """Files in the earlier catalog by sample, and site, port and `excluded` of their rows."""

    digests: Mapping[str, Digest] = field(default_factory=dict)
    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    places: Mapping[str, tuple] = field(default_factory=dict)


@dataclass(frozen=True)
class Files:
    """The input files of a catalog, and those of the earlier catalog."""

    digests: Sequence[Digest]
    manifests: Sequence[Manifest]
    earlier: Earlier = Earlier()

    def kept_digests(self) -> set[str]:
        """Return the samples whose digests are unchanged."""
        return unchanged(self.digests, self.earlier.digests)

    def kept_manifests(self) -> set[str]:
        """Return the samples whose manifests are unchanged."""
        return unchanged(self.manifests, self.earlier.manifests)

    def for_samples(self, samples: Collection[str]) -> "Files":
        """Return the files of some samples, without an earlier catalog."""
        digests, manifests = (
            [file for file in files if file.sample in samples] for files in (self.digests, self.manifests)
        )
        return Files(digests, manifests)


def unchanged(files: Iterable[Digest | Manifest], earlier: Mapping[str, Digest | Manifest]) -> set[str]:
    """Return the samples of files that are unchanged since the earlier catalog was written."""
    return {file.sample for file in files if file.state is not None and earlier.get(file.sample) == file}


def status_of(*files: Path) -> str:
    """Return the state of files as text: size, modification time and change time in ns, and inode of each."""
    statuses = [file.stat() for file in files]
    return "; ".join(f"{s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_ino}" for s in statuses)


def recordable(state: str, start_ns: int) -> str | None:
    """Return the state of files, or None if one has changed shortly before indexing or later.

    ``start_ns``: start of indexing, by the clock of the file system.
    """
    times = [int(number) for file in state.split("; ") for number in file.split()[1:3]]
    return state if max(times) < start_ns - CLOCK_STEP_NS else None


def digest_of(acap: Path, flows: Path, name: str, earlier: Earlier, start_ns: int) -> Digest:
    """Return the files of a digest; their checksums are those of the earlier catalog if they are unchanged.

    ``name``: path of the acap, relative to the campaign; ``start_ns``: see `recordable`.
    """
    state, known = status_of(acap, flows), earlier.digests.get(acap.stem)
    if known and (known.state, known.acap) == (state, name):
        return known
    sizes = [int(file.split()[0]) for file in state.split("; ")]
    return Digest(acap.stem, name, sizes[0], sha256_of(acap), sizes[1], sha256_of(flows), recordable(state, start_ns))


def manifest_of(sample: str, path: Path, earlier: Earlier, start_ns: int) -> Manifest:
    """Return the manifest of a sample; its checksum is that of the earlier catalog if it is unchanged."""
    state, known = status_of(path), earlier.manifests.get(sample)
    return known if known and known.state == state else Manifest(sample, sha256_of(path), recordable(state, start_ns))


@functools.cache
def version() -> str:
    """Return the SHA-256, in hexadecimal, of everything that determines the rows of a file: queries, code, DuckDB."""
    import duckdb  # noqa: PLC0415

    package = Path(acapella.__file__).parent
    files = [*sorted((queries.DIRECTORY / "index").glob("*.sql")), *(package / name for name in MODULES)]
    versions = [acapella.__version__, duckdb.__version__, *(sha256_of(file) for file in files)]
    return hashlib.sha256(" ".join(versions).encode()).hexdigest()


def read_earlier(campaign: Campaign) -> Earlier:
    """Return the files in the earlier catalog; none if there is no catalog that this version can read.

    A damaged catalog is reported. Raises UserError if memory or the disk fails.
    """
    if not campaign.catalog.is_file():
        return Earlier()
    with damage_reported(campaign), contextlib.closing(queries.open_catalog(campaign.directory)) as con:
        tables = con.execute("select schema_name || '.' || table_name from duckdb_tables()").fetchall()
        if not {*DIGEST_TABLES, *MANIFEST_TABLES, "indexed.version"} <= {name for (name,) in tables}:
            return Earlier()
        if con.execute("from indexed.version").fetchall() != [(version(),)]:
            return Earlier()
        digests = con.execute(f"select {', '.join(Digest._fields)} from indexed.files").fetchall()
        manifests = con.execute(f"select {', '.join(Manifest._fields)} from indexed.manifest_files").fetchall()
        places = con.execute("select sample, site, port, excluded from samples where acap is not null").fetchall()
        return Earlier(
            {row[0]: Digest(*row) for row in digests},
            {row[0]: Manifest(*row) for row in manifests},
            {sample: tuple(place) for sample, *place in places},
        )
    return Earlier()


@contextlib.contextmanager
def damage_reported(campaign: Campaign):
    """Report a DuckDB error while the earlier catalog is read. Raise UserError if memory or the disk is the cause."""
    import duckdb  # noqa: PLC0415

    try:
        yield
    except duckdb.Error as error:
        if queries.is_unrelated_to_samples(error):
            raise UserError(str(error).splitlines()[0], where=campaign.catalog) from error
        reason = str(error).splitlines()[0]
        names.report(f"acapella: {campaign.catalog} cannot be read; all samples are indexed again: {reason}")


def copy_earlier(campaign: Campaign, files: Files, database: Path) -> Files:
    """Copy the earlier catalog to ``database`` if the new one can keep enough of its rows.

    Return the files, without those of the earlier catalog if it was not copied. DuckDB verifies checksums of the blocks
    that it reads, so a query of all rows finds damage that would otherwise remain in all later catalogs.
    """
    kept = files.kept_digests()
    if kept and 2 * len(kept) >= len(files.earlier.digests):
        with damage_reported(campaign), contextlib.closing(queries.open_catalog(campaign.directory)) as con:
            for table in (*DIGEST_TABLES, *MANIFEST_TABLES):
                con.execute(f"select bit_xor(hash(t)) from {table} as t").fetchall()
            shutil.copyfile(campaign.catalog, database)
            return files
    return replace(files, earlier=Earlier())


def remove_changed(con, files: Files) -> None:
    """Remove everything from a copy of the earlier catalog except the rows of unchanged files."""
    for kind in ("view", "table"):
        objects = con.execute(
            f"select schema_name, {kind}_name from duckdb_{kind}s() where not internal and not temporary"
        ).fetchall()
        for schema, name in objects:
            if f"{schema}.{name}" not in (*DIGEST_TABLES, *MANIFEST_TABLES):
                con.execute(f"drop {kind} {quoted(schema)}.{quoted(name)}")
    for tables, kept in ((DIGEST_TABLES, files.kept_digests()), (MANIFEST_TABLES, files.kept_manifests())):
        for table in tables:
            con.execute(f"delete from {table} where sample not in (select unnest($kept::varchar[]))", {"kept": [*kept]})
