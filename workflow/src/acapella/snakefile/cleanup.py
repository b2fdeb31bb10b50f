"""Removes results that no longer belong to the configuration or the sample sheet, before the first job."""

import contextlib
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from acapella.campaign.layout import Campaign
from acapella.campaign.stale import capture_name, remove_samples, remove_stages, remove_stale
from acapella_core import beneath, names, shards
from acapella_core.errors import UserError
from acapella_core.files import atomic_link

from .optional_stages import OptionalStage
from .replays import replay_of

DEPARTURES = ".departures.parquet"
# Suffixes of the files of samples; other directories contain logs and benchmarks.
SUFFIXES = {"raw": (".json",), "acap": (".parquet",), "flows": (".parquet",), "quarantine": (".json", ".log")}


def remove_unconfigured(campaign: str, stages: Iterable[OptionalStage]) -> None:
    """Remove tables and figures of stages that are not in the configuration; report them on standard error.

    Files of stages in the configuration are kept even if this machine lacks their programs.
    """
    unconfigured = [stage.output for stage in stages if not stage.configured]
    print_lines(remove_stages(Campaign(Path(campaign)), unconfigured))


def remove_batched(campaign: str) -> None:
    """Remove the partial tables of batches, which a campaign without batches does not use."""
    directory = Path(campaign, "batches", "partial")
    if directory.is_dir() and not directory.is_symlink():
        shutil.rmtree(directory)


def arrange(campaign: str, stages: Collection[str]) -> None:
    """Move the files of samples to shards, or out of them. ``stages``: those with shards (`batches.sharded_stages`).

    A campaign whose batches were created by an earlier version of Acapella keeps its results. After a change of config
    key `batches`, all files are moved. A stage is marked after its files were moved to shards, and the mark is removed
    after they were moved back. Therefore, the next call completes an interrupted one.
    """
    directory = Path(campaign)
    for stage in sorted(set(shards.STAGES.values())):
        marker = shards.marker(directory, stage)
        kinds = [kind for kind, writer in shards.STAGES.items() if writer == stage]
        if marker.is_dir() == (stage in stages):
            continue
        for kind in kinds:
            find = directories_of_samples if kind in shards.DIRECTORIES else files_of_samples
            for path, sample in find(directory / kind, in_shards=marker.is_dir()):
                subdirectory = shards.place(kind, sample, kinds if stage in stages else ())
                move(path, directory / subdirectory / path.name)
        if stage in stages:
            beneath.make_directory(marker)
        else:
            for shard in (shard for kind in kinds for shard in shards.directories(directory / kind, in_shards=True)):
                with contextlib.suppress(OSError):  # contains other files, or is a sample of this name
                    shard.rmdir()
            marker.rmdir()


def files_of_samples(directory: Path, *, in_shards: bool) -> list[tuple[Path, str]]:
    """Return the files in a directory that the stages of samples have written, each with its sample.

    Files that a manifest names precede it, so that it still names them after an interruption.
    """
    found = []
    for suffix in SUFFIXES.get(directory.name, (".log", ".exit", ".tsv")):
        for entry in shards.entries(directory, suffix, in_shards=in_shards):
            path, sample = Path(entry.path), entry.name.removesuffix(suffix)
            if suffix == ".json" and (capture := capture_name(path)):
                named = [path.with_name(Path(name).name) for name in (capture, *departures_of(path))]
                found += [(file, sample) for file in named if os.path.lexists(file)]
            found.append((path, sample))
    return found


def departures_of(manifest: Path) -> list[str]:
    """Return the names of the departure files of a manifest; it may be damaged, and name other files."""
    listed = replay_of(manifest).get("departures")
    files = [entry.get("file") for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    return [name for name in files if isinstance(name, str) and name.endswith(DEPARTURES) and "/" not in name]


def directories_of_samples(directory: Path, *, in_shards: bool) -> list[tuple[Path, str]]:
    """Return the directories of samples in a directory, which may also contain shards."""
    found = [Path(entry.path) for entry in shards.entries(directory, "", in_shards=in_shards) if entry.is_dir()]
    return [(path, path.name) for path in found if not path.name.startswith(shards.PREFIX)]


def move(path: Path, target: Path) -> None:
    """Move a file of a campaign. The target of a relative link does not change."""
    beneath.make_directory(target.parent)
    if path.is_symlink() and not path.readlink().is_absolute():
        source = os.path.relpath(path.parent / path.readlink(), target.parent)
        atomic_link(source, target)
        path.unlink()
    else:
        path.replace(target)


def remove_unlisted(campaign: str, rows: Mapping) -> None:
    """Remove the files of samples that are no longer in the user's sheet; report them on standard error.

    ``rows``: rows of the sheet by sample. `acapella campaign index` also does this, but not if a sample fails.
    """
    directory = Campaign.at(Path(campaign))
    lines = remove_stale(directory, rows, [row.file for row in rows.values()])
    if not lines:
        return
    print_lines(lines)
    try:
        remove_samples(directory, rows)
    except UserError as error:  # stage index writes a new catalog
        names.report(f"acapella: {error}")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines on standard error; control characters in them are already escaped."""
    for line in lines:
        print(line, file=sys.stderr)
