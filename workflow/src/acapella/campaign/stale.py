"""Remove what samples that left the sheet have in a campaign's directory, so that readers of its directories do not
count it.

Only files of known samples are removed: those with a manifest in raw/, and those with a log of `acapella digest` whose
frame or flow table has its metadata. Digests, partial tables and flow reports of such a sample are removed, because
they can be made again. A capture that is a file in raw/ was taken by a testbed and cannot: it is moved to stale/raw/
with its manifest. Links are removed, never followed: captures outside the campaign, entries of a cache, and directories
behind a link stay. All other files stay; those in acap/, flows/, partial/ and flowreports/ are listed.

Published tables and figures of stages that left the config are removed, too.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from acapella_core import beneath
from acapella_core.files import atomic_text
from acapella_core.names import SAMPLE, shown

from .layout import Campaign

TABLES = ("acap", "flows")  # KIND/SAMPLE.parquet
DIRECTORIES = ("partial", "flowreports")  # KIND/SAMPLE/
MOST_SHOWN = 5


@dataclass(frozen=True)
class Removed:
    """A path in the campaign's directory, and where it was moved to (None: it was removed)."""

    path: Path
    to: Path | None = None


@dataclass(frozen=True)
class Stage:
    """What a stage publishes that a config may leave out: tables, figures, and patterns of its other files."""

    tables: Collection[str]
    figures: Collection[str] = ()
    files: Collection[str] = ()


def remove_stale(campaign: Campaign, listed: Collection[str], captures: Iterable[Path] = ()) -> list[str]:
    """Remove the files of known samples that are not ``listed``; return lines that report these and the unknown ones.

    ``captures``: captures of listed samples, which stay wherever they are. The names of all removed files are added to
    logs/stale.log. Without a sample listed nothing is removed.
    """
    directory = campaign.directory
    if not listed:
        return []
    used = {path.resolve() for path in (*captures, *captures_of(campaign, listed))}
    removed, unknown = remove_derived(directory, listed)
    removed += remove_raw(
        directory, listed, used
    )  # last: manifests identify the other files, also after an interruption
    return [*report_removed(directory, removed), *report_unknown(unknown)]


def remove_samples(campaign: Campaign, listed: Collection[str]) -> None:
    """Remove the rows of samples that are not ``listed`` from the tables of a catalog; nothing if there is no catalog.

    For a run that fails before it makes the catalog again. The file keeps its modification time.
    """
    if not campaign.catalog.is_file():
        return
    from acapella.common import queries  # noqa: PLC0415 - what follows is slow to import

    from .views import edited, new_database, quoted  # noqa: PLC0415

    with queries.one_line(campaign.catalog), contextlib.closing(queries.open_catalog(campaign.directory)) as con:
        known = {name for (name,) in con.execute("select sample from samples").fetchall()}
        tables = con.execute(
            "select schema_name, table_name from duckdb_columns() where column_name = 'sample' "
            "and (schema_name, table_name) in (select (schema_name, table_name) from duckdb_tables())"
        ).fetchall()
    if known <= set(listed):
        return
    with (
        edited(campaign) as temporary,
        queries.one_line(campaign.catalog),
        contextlib.closing(new_database(temporary)) as con,
    ):
        for schema, name in tables:
            stale = "not list_contains($listed, sample)"
            con.execute(f"delete from {quoted(schema)}.{quoted(name)} where {stale}", {"listed": [*listed]})
        con.execute("checkpoint")


def remove_stages(campaign: Campaign, stages: Iterable[Stage]) -> list[str]:
    """Remove published tables, their figures and provenance of stages that left the config; return lines for the user.

    What they were made from stays (kappa/, flowreports/), so that they are soon made again.
    """
    found = [
        path
        for stage in stages
        for pattern in (
            *(f"tables/{table}.{suffix}" for table in stage.tables for suffix in ("csv", "parquet")),
            *(f"figures/{figure}.{suffix}" for figure in stage.figures for suffix in ("svg", "pdf", "png", "html")),
            *stage.files,
        )
        for path in sorted(campaign.directory.glob(pattern))
    ]
    for path in found:
        path.unlink()
    return report_removed(campaign.directory, [Removed(path) for path in found], "stages that are not in the config")


def report_removed(
    directory: Path, removed: Collection[Removed], of: str = "samples that are not in the sheet"
) -> list[str]:
    """Add removed files to logs/stale.log; return lines for the user."""
    if not removed:
        return []
    log = directory / "logs" / "stale.log"
    before = log.read_text(encoding="utf-8") if log.is_file() else ""
    told = [shown(f"{one.path}" + (f" -> {one.to}" if one.to else "")) for one in removed]
    atomic_text(log, before + "".join(f"{line}\n" for line in told))
    moved = sum(one.to is not None for one in removed)
    first_ones = [*told[:MOST_SHOWN], *([f"... (all in {log})"] if len(told) > MOST_SHOWN else [])]
    kept = f" {moved} of them moved to {directory / 'stale' / 'raw'};" if moved else ""
    first = f"acapella: removed {len(removed)} files and directories of {of};{kept} list: {log}"
    return [shown(first), *(f"  {line}" for line in first_ones)]


def report_unknown(paths: Collection[Path]) -> list[str]:
    """Return a line that lists files of no known sample."""
    if not paths:
        return []
    first_ones = shown(", ".join(map(str, [*paths][:MOST_SHOWN]))) + (", ..." if len(paths) > MOST_SHOWN else "")
    return [
        f"acapella: {len(paths)} files or directories belong to no sample of the campaign and stay; move them"
        f" elsewhere, readers of these directories count them: {first_ones}"
    ]


def sample_names(directory: Path, pattern: str) -> Iterator[tuple[str, Path]]:
    """Yield sample and path of the entries of a directory; none if the directory is a link."""
    if directory.is_symlink() or not directory.is_dir():
        return
    for path in sorted(directory.glob(pattern)):
        name = path.name.removesuffix(pattern.removeprefix("*"))
        if SAMPLE.fullmatch(name):
            yield name, path


def remove_derived(directory: Path, listed: Collection[str]) -> tuple[list[Removed], list[Path]]:
    """Remove tables and directories of known samples that are not listed; return these, and unknown paths."""
    found = [
        (kind, name, path)
        for kind in (*TABLES, *DIRECTORIES)
        for name, path in sample_names(directory / kind, "*.parquet" if kind in TABLES else "*")
        if name not in listed
    ]
    known = {name for name in {name for _, name, _ in found} if is_known(directory, name)}
    removed, unknown = [], []
    for kind, name, path in found:
        is_directory = path.is_dir() and not path.is_symlink()
        if name not in known or (is_directory and kind in TABLES):
            unknown.append(path)
            continue
        if is_directory:
            shutil.rmtree(path)
        else:
            path.unlink()
        removed.append(Removed(path))
    return removed, unknown


def is_known(directory: Path, name: str) -> bool:
    """Return whether a sample of this name was in the campaign.

    It has a manifest, or `acapella digest` ran for it and one of its two files is from there. The metadata alone is not
    enough, because a copy under another name has the same.
    """
    manifest = directory / "raw" / f"{name}.json"
    if not manifest.is_symlink() and capture_named(manifest) is not None:
        return True
    if not (directory / "logs" / "digest" / f"{name}.log").is_file():
        return False
    from acapella.digest.acap_files import is_digest  # noqa: PLC0415 (pyarrow)

    return any(is_digest(directory / kind / f"{name}.parquet") for kind in TABLES)


def remove_raw(directory: Path, listed: Collection[str], used: Collection[Path]) -> Iterator[Removed]:
    """Remove manifests and links of samples that are not listed, move captures to stale/raw/; yield what was done."""
    for name, manifest in sample_names(directory / "raw", "*.json"):
        if name in listed or manifest.is_symlink():
            continue
        file = capture_named(manifest)
        if file is None:
            continue
        capture = manifest.parent / file
        if capture.is_symlink():
            capture.unlink()
            yield Removed(capture)
        elif capture.is_file():
            if capture.resolve() not in used:
                yield moved(capture, directory)
            yield moved(manifest, directory)
            continue
        manifest.unlink()
        yield Removed(manifest)


def moved(path: Path, directory: Path) -> Removed:
    """Move a file of raw/ to stale/raw/, beside earlier ones of its name."""
    target = directory / "stale" / "raw"
    beneath.make_directory(target, 0o700)
    with beneath.parent(target / path.name, link=True) as opened:
        name, number, there = path.name, 0, {each.name for each in target.iterdir()}
        while name in there:
            number += 1
            name = f"{path.name}.{number}"
        os.rename(path, name, dst_dir_fd=opened)
        os.fsync(opened)
    return Removed(path, target / name)


def capture_named(manifest: Path) -> str | None:
    """Return the capture's file name in a manifest of the sample that the file is named after; None if it is none."""
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or "acapella_manifest" not in content or content.get("sample") != manifest.stem:
        return None
    file = content.get("file")
    return file if isinstance(file, str) and Path(file).name == file else None


def captures_of(campaign: Campaign, samples: Iterable[str]) -> Iterator[Path]:
    """Yield the captures that the manifests of samples name."""
    for sample in samples:
        if file := capture_named(campaign.manifest(sample)):
            yield campaign.directory / "raw" / file
