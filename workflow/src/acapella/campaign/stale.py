"""Removes files of samples that are no longer in the sample sheet, so that queries over directories do not read them.

Only files of known samples are removed. A sample is known if it has a manifest in raw/, or if it has a log of `acapella
digest` and its frame table or flow table has metadata of digest. Digests, partial tables and flow reports are deleted,
because they can be computed again. Captures that are regular files in raw/ cannot be taken again; they are moved to
stale/raw/ with their manifests. Links are removed, never followed: captures outside the campaign, cache entries and
linked directories are kept. All other files are kept; those in acap/, flows/, partial/ and flowreports/ are reported.

The records of failed samples in quarantine/ are deleted if the sample is not in the sheet.

Published tables and figures of stages that are no longer in the config are also removed.
"""

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from acapella_core import beneath, shards
from acapella_core.files import atomic_text
from acapella_core.names import SAMPLE, pluralize, shown

from .failed_samples import KIND
from .layout import Campaign, node_digest_of

TABLES = ("acap", "flows")  # KIND/SAMPLE.parquet
DIRECTORIES = ("partial", "flowreports")  # KIND/SAMPLE/
MAX_SHOWN = 5


@dataclass(frozen=True)
class RemovedPath:
    """A removed path in the campaign directory, and its new path if it was moved (None: it was deleted)."""

    path: Path
    new_path: Path | None = None


@dataclass(frozen=True)
class Stage:
    """Output of an optional stage: published tables, figures, and patterns of its other files.

    ``only_with``: a file of the stage; if it is missing, the other files do not belong to the stage.
    """

    tables: Collection[str]
    figures: Collection[str] = ()
    files: Collection[str] = ()
    only_with: str | None = None


def remove_stale(campaign: Campaign, listed: Collection[str], captures: Iterable[Path] = ()) -> list[str]:
    """Remove the files of known samples that are not ``listed``; return lines that report removed and unknown files.

    ``captures``: captures of listed samples, which are kept. The names of all removed files are appended to
    logs/stale.log. If ``listed`` is empty, nothing is removed.
    """
    directory = campaign.directory
    if not listed:
        return []
    used = {path.resolve() for path in (*captures, *captures_of(campaign, listed))}
    removed, unknown = remove_derived(campaign, listed)
    removed += remove_records(campaign, listed)
    removed += remove_raw(
        campaign, listed, used
    )  # last: after an interruption, manifests still identify the other files
    return [*report_removed(directory, removed), *report_unknown(unknown)]


def remove_samples(campaign: Campaign, listed: Collection[str]) -> None:
    """Remove the rows of samples that are not ``listed`` from the tables of the catalog, if it exists.

    This keeps the catalog correct if the run fails before it writes a new one. The modification time does not change.
    """
    if not campaign.catalog.is_file():
        return
    from acapella.common import queries  # noqa: PLC0415 - slow to import

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
    """Remove the published files of stages that are not in the config; return lines that report them.

    Their inputs (kappa/, flowreports/) are kept, so that the files can be written again quickly.
    """
    files = [
        path
        for stage in stages
        if stage.only_with is None or (campaign.directory / stage.only_with).is_file()
        for pattern in (
            *(f"tables/{table}.{suffix}" for table in stage.tables for suffix in ("csv", "parquet")),
            *(f"figures/{figure}.{suffix}" for figure in stage.figures for suffix in ("svg", "pdf", "png", "html")),
            *stage.files,
        )
        for path in sorted(campaign.directory.glob(pattern))
    ]
    for path in files:
        path.unlink()
    return report_removed(
        campaign.directory, [RemovedPath(path) for path in files], "stages that are not in the config"
    )


def report_removed(
    directory: Path, removed: Collection[RemovedPath], owners: str = "samples that are not in the sheet"
) -> list[str]:
    """Append removed files to logs/stale.log; return lines that report the first ones."""
    if not removed:
        return []
    log = directory / "logs" / "stale.log"
    earlier_text = log.read_text(encoding="utf-8") if log.is_file() else ""
    lines = [shown(f"{item.path}" + (f" -> {item.new_path}" if item.new_path else "")) for item in removed]
    atomic_text(log, earlier_text + "".join(f"{line}\n" for line in lines))
    moved = sum(item.new_path is not None for item in removed)
    excerpt = [*lines[:MAX_SHOWN], *([f"... (all in {log})"] if len(lines) > MAX_SHOWN else [])]
    moves = f" {moved} of them moved to {directory / 'stale' / 'raw'};" if moved else ""
    counted = pluralize(len(removed), "file or directory", "files and directories")
    first = f"acapella: removed {counted} of {owners};{moves} list: {log}"
    return [shown(first), *(f"  {line}" for line in excerpt)]


def report_unknown(paths: Collection[Path]) -> list[str]:
    """Return a line that reports files of unknown samples; an empty list if there are none."""
    if not paths:
        return []
    excerpt = shown(", ".join(map(str, [*paths][:MAX_SHOWN]))) + (", ..." if len(paths) > MAX_SHOWN else "")
    return [
        f"acapella: {len(paths)} files or directories belong to no sample of the campaign and were not removed; move"
        f" them elsewhere, because queries of these directories read them: {excerpt}"
    ]


def sample_names(campaign: Campaign, kind: str, suffix: str) -> Iterator[tuple[str, Path]]:
    """Yield (sample, path) for the files of samples in a directory; nothing if the directory is a link."""
    for path in campaign.files(kind, suffix):
        name = path.name.removesuffix(suffix)
        if SAMPLE.fullmatch(name):
            yield name, path


def remove_derived(campaign: Campaign, listed: Collection[str]) -> tuple[list[RemovedPath], list[Path]]:
    """Remove tables and directories of known samples that are not listed; return removed paths and unknown paths."""
    candidates = [
        (kind, name, path)
        for kind in (*TABLES, *DIRECTORIES)
        for name, path in sample_names(campaign, kind, ".parquet" if kind in TABLES else "")
        if name not in listed
    ]
    known = {name for name in {name for _, name, _ in candidates} if is_known(campaign, name)}
    removed, unknown = [], []
    for kind, name, path in candidates:
        is_directory = path.is_dir() and not path.is_symlink()
        if name not in known or (is_directory and kind in TABLES):
            unknown.append(path)
            continue
        if is_directory:
            shutil.rmtree(path)
        else:
            path.unlink()
        removed.append(RemovedPath(path))
    return removed, unknown


def remove_records(campaign: Campaign, listed: Collection[str]) -> Iterator[RemovedPath]:
    """Remove the records and logs of failed samples that are not listed. Yield removed paths."""
    for suffix in (".log", ".json"):
        for name, path in sample_names(campaign, KIND, suffix):
            if name not in listed:
                path.unlink()
                yield RemovedPath(path)


def is_known(campaign: Campaign, name: str) -> bool:
    """Return whether a sample of this name was in the campaign.

    It was in the campaign if it has a manifest, or a log of `acapella digest` and a table with metadata of digest. The
    metadata alone is not sufficient, because a copy with a different name has the same metadata.
    """
    manifest = campaign.manifest(name)
    if not manifest.is_symlink() and capture_name(manifest) is not None:
        return True
    if not (campaign.directory / campaign.name("logs/digest", name, ".log")).is_file():
        return False
    from acapella.digest.acap_files import is_digest  # noqa: PLC0415 (pyarrow)

    return any(is_digest(path) for path in (campaign.acap(name), campaign.flows(name)))


def remove_raw(campaign: Campaign, listed: Collection[str], used: Collection[Path]) -> Iterator[RemovedPath]:
    """Remove manifests and links of samples that are not listed; yield removed paths.

    Captures that are regular files are moved to stale/raw/, with their manifests.
    """
    for name, manifest in sample_names(campaign, "raw", ".json"):
        if name in listed or manifest.is_symlink():
            continue
        file = capture_name(manifest)
        if file is None:
            continue
        capture = manifest.parent / file
        if capture.is_symlink():
            capture.unlink()
            yield RemovedPath(capture)
        elif capture.is_file():
            if capture.resolve() not in used:
                yield move_aside(capture, campaign, name)
            departures = manifest.with_suffix(".departures.parquet")
            if departures.is_file() and not departures.is_symlink():
                yield move_aside(departures, campaign, name)
            generated = campaign.directory / campaign.name("generated", name, "")
            if generated.is_dir() and not generated.is_symlink():
                yield move_aside(generated, campaign, name)
            yield move_aside(manifest, campaign, name)
            continue
        manifest.unlink()
        yield RemovedPath(manifest)


def move_aside(path: Path, campaign: Campaign, sample: str) -> RemovedPath:
    """Move a file or directory of a sample to stale/raw/. If the name is taken, append a number."""
    target = campaign.directory / "stale" / shards.place("raw", sample, campaign.sharded)
    beneath.make_directory(target, 0o700)
    with beneath.parent(target / path.name, link=True) as descriptor:
        name, number, existing = path.name, 0, {entry.name for entry in target.iterdir()}
        while name in existing:
            number += 1
            name = f"{path.name}.{number}"
        os.rename(path, name, dst_dir_fd=descriptor)
        os.fsync(descriptor)
    return RemovedPath(path, target / name)


def capture_name(manifest: Path) -> str | None:
    """Return the name of the capture in a manifest, or of its digest if only the digest was fetched.

    Return None if the file is not a manifest of the sample in its name.
    """
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(content, dict) or "acapella_manifest" not in content or content.get("sample") != manifest.stem:
        return None
    file = (node_digest_of(content) or content).get("file")
    return file if isinstance(file, str) and Path(file).name == file else None


def captures_of(campaign: Campaign, samples: Iterable[str]) -> Iterator[Path]:
    """Yield the paths of the captures in the manifests of these samples."""
    for sample in samples:
        if file := capture_name(campaign.manifest(sample)):
            yield campaign.capture(sample, file)
