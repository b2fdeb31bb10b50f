"""Paths of the files that a campaign has for each sample: DIRECTORY/SAMPLE.SUFFIX, or DIRECTORY/SHARD/SAMPLE.SUFFIX.

With batches, the stages write below shards, so that no directory has an entry for each sample of a large campaign. The
SHA-256 of a sample's name selects one of 256 shards, so the path of a sample does not depend on the others. The
directory batches/sharded/STAGE of a campaign marks such a stage.
"""

import hashlib
import os
from collections.abc import Collection, Iterator
from pathlib import Path

STAGES = {
    **{"raw": "collect", "generated": "collect", "acap": "digest", "flows": "digest", "quarantine": "quarantine"},
    **{f"logs/{stage}": stage for stage in ("collect", "digest", "analyze")},
    **{kind: "flowreports" for kind in ("flowreports", "logs/flowreports", "benchmarks/flowreports")},
}  # directory -> the stage that writes the files of samples in it; quarantine: records of samples that failed in any
# Those that contain a directory of each sample. There, the name of a shard starts with PREFIX, because a sample may
# have a name like 3f, but none that starts with PREFIX.
DIRECTORIES = ("generated", "flowreports")
PREFIX = "_"
ANY = "[0-9a-f][0-9a-f]"  # pattern of a shard's name, without the prefix


def marker(campaign: Path, stage: str) -> Path:
    """Return the path of the directory that marks a stage whose files are in shards."""
    return campaign / "batches" / "sharded" / stage


def sharded(campaign: Path) -> frozenset[str]:
    """Return the directories of a campaign whose files are in shards."""
    stages = {stage for stage in set(STAGES.values()) if marker(campaign, stage).is_dir()}
    return frozenset(kind for kind, stage in STAGES.items() if stage in stages)


def shard_of(sample: str) -> str:
    """Return the name of a sample's shard."""
    return hashlib.sha256(str(sample).encode()).hexdigest()[:2]


def place(kind: str, sample: str, in_shards: Collection[str]) -> str:
    """Return the directory of a sample's files, relative to the campaign. ``in_shards``: result of `sharded`."""
    return f"{kind}/{prefix_of(kind)}{shard_of(sample)}" if kind in in_shards else kind


def pattern(kind: str, in_shards: Collection[str]) -> str:
    """Return the directory of a sample's files with the wildcard {shard}, for rules. ``in_shards``: as for `place`."""
    return f"{kind}/{prefix_of(kind)}{{shard}}" if kind in in_shards else kind


def prefix_of(kind: str) -> str:
    """Return what precedes the names of shards in a directory."""
    return PREFIX if kind in DIRECTORIES else ""


def directory_of(campaign: Path, kind: str, sample: str) -> Path:
    """Return the directory of a sample's files of a kind, such as raw."""
    return campaign / place(kind, sample, sharded(campaign))


def directories(directory: Path, *, in_shards: bool) -> list[Path]:
    """Return the directories that contain the files of samples: the shards that exist, or ``directory`` itself.

    Symbolic links are ignored.
    """
    if directory.is_symlink() or not directory.is_dir():
        return []
    found = sorted(path for name in (ANY, PREFIX + ANY) for path in directory.glob(name)) if in_shards else [directory]
    return [path for path in found if path.is_dir() and not path.is_symlink()]


def entries(directory: Path, suffix: str, *, in_shards: bool) -> Iterator[os.DirEntry]:
    """Yield the entries of samples with a suffix that are not hidden, by directory and name."""
    for place_of_files in directories(directory, in_shards=in_shards):
        with os.scandir(place_of_files) as found:
            names = [entry for entry in found if entry.name.endswith(suffix) and not entry.name.startswith(".")]
        yield from sorted(names, key=lambda entry: entry.name)
