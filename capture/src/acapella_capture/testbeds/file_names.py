"""Derives names of samples from the names of their captures."""

import glob
import os
import re
import zlib
from collections.abc import Sequence
from pathlib import Path

SUFFIXES = (".gz", ".zst", ".lz4", ".pcap", ".pcapng", ".cap", ".ntar", ".dump")


def suffixes(file: Path) -> str:
    """Return the known suffixes of a file's name: `.pcap.gz` of `a.b.pcap.gz`."""
    known, stem = "", file.name
    while (suffix := Path(stem).suffix).lower() in SUFFIXES:
        known, stem = suffix + known, stem[: -len(suffix)]
    return known


def name_from_path(file: Path, directories: int) -> str:
    """Return a sample name from a file's name, preceded by the names of its innermost `directories` directories."""
    return allowed_part(file, directories) or "capture"


def is_unnamed(file: Path) -> bool:
    """Return whether the name of a file, which is not a pattern, has no character that names of samples may have."""
    return not allowed_part(file, 0) and not glob.has_magic(str(file))


def allowed_part(file: Path, directories: int) -> str:
    """Return a file's name, preceded by names of directories, without characters that names of samples cannot have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", qualified_stem(file, directories)).lstrip("._-")


def qualified_stem(file: Path, directories: int) -> str:
    """Return a file's name without suffixes, preceded by the names of its innermost directories."""
    stem = file.name.removesuffix(suffixes(file))
    parts = (
        [part for part in file.absolute().parts[1:-1] if part not in (".", "..")][-directories:] if directories else []
    )
    return "-".join([*parts, stem])


def name_with_crc(file: Path, others: Sequence[Path]) -> str | None:
    """Return a sample name that ends with a CRC-32 of the file's name, if names differ only in replaced characters.

    The order of the files does not matter. None if the names differ only in the suffix, or not at all.
    """
    for directories in range(64):
        name = qualified_stem(file, directories)
        if sum(qualified_stem(other, directories) == name for other in others) == 1:
            return f"{name_from_path(file, directories)}-{zlib.crc32(os.fsencode(name)):08x}"
    return None
