"""Checks symbolic links in a campaign's directory. The workflow does not write through links that it did not create."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from acapella_core import beneath, names, shards
from acapella_core.beneath import FIX
from acapella_core.errors import UserError

SHARD = re.compile(r"[0-9a-f]{2}")  # acapella_core.shards
ENTRY = re.compile(r"[0-9a-f]{64}_(acap|flows)\.parquet")  # entry of a cache (acapella.digest.cache)
WRITTEN = (
    ".json",
    ".tsv",
)  # files in raw/ that the workflow writes; other files that are not hidden may be links


def links(directory: Path) -> Iterator[tuple[Path, str]]:
    """Yield the relative path of each symbolic link that the workflow did not create, and text with its target."""
    for path in map(Path, symbolic_links(directory)):
        relative_path = path.relative_to(directory)
        if not is_ours(relative_path, path):
            yield relative_path, f"is a symbolic link to {path.readlink()}"


def symbolic_links(directory: str | os.PathLike) -> Iterator[str]:
    """Yield the paths of all symbolic links beneath a directory; links in a directory precede links beneath it.

    Every run starts with this check, and a campaign may have millions of files, so only directories are read, not
    files.
    """
    try:
        with os.scandir(directory) as entries:
            sorted_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError:  # not readable, or removed meanwhile
        return
    for entry in sorted_entries:
        if entry.is_symlink():
            yield entry.path
    for entry in sorted_entries:
        if entry.is_dir(follow_symlinks=False):
            yield from symbolic_links(entry.path)


def is_ours(relative_path: Path, path: Path) -> bool:
    """Return whether a link is of a kind that the workflow creates: to a capture or a cache entry."""
    match without_shard(relative_path):
        case ("raw", name):
            return not name.startswith(".") and not name.endswith(WRITTEN) and not path.is_dir()
        case (("acap" | "flows") as kind, name):
            entry = ENTRY.fullmatch(path.readlink().name)
            return name.endswith(".parquet") and entry is not None and entry[1] == kind
        case _:
            return False


def without_shard(relative_path: Path) -> tuple[str, ...]:
    """Return the parts of a path in a campaign, without the shard of a sample."""
    match relative_path.parts:
        case (kind, shard, name) if SHARD.fullmatch(shard):
            return kind, name
    return relative_path.parts


def cached(directory: Path) -> list[Path]:
    """Return the entries of a cache that links in a campaign's acap/ and flows/ point to."""
    in_shards = shards.sharded(directory)
    cache_links = [
        Path(entry.path)
        for kind in ("acap", "flows")
        for entry in shards.entries(directory / kind, ".parquet", in_shards=kind in in_shards)
        if entry.is_symlink()
    ]
    return sorted(path.resolve() for path in cache_links if is_ours(path.relative_to(directory), path))


def refusal(directory: Path) -> str | None:
    """Return a one-line error if a campaign's path is a file, or contains links that the workflow did not create.

    Return None if there is no error.
    """
    try:
        beneath.check_directory(directory)
    except UserError as error:
        return names.shown(str(error))
    foreign_links = [f"{directory / relative_path} {note}" for relative_path, note in links(directory)]
    if not foreign_links:
        return None
    more = f" (and {len(foreign_links) - 1} more)" if len(foreign_links) > 1 else ""
    return names.shown(f"{foreign_links[0]}{more}, and Acapella does not write through links; {FIX}")
