"""Finds captures in the files and directories that a user names."""

import os
import stat
from pathlib import Path

from acapella_core import names
from acapella_core.errors import UserError

SUFFIXES = tuple(kind + packed for kind in (".pcap", ".pcapng", ".cap") for packed in ("", ".gz", ".zst", ".lz4"))
KINDS = "verify compares captures: pcap or pcapng without damage, optionally compressed with gzip, zstd or lz4"
OTHER_SUFFIX = "not the suffix of a capture; specify the file itself to compare it"


def find_captures(paths: list[str]) -> tuple[dict[Path, bool], list[str]]:
    """Return the captures in order, and a line for each skipped file.

    Captures are the files in ``paths`` (True) and the files with the suffix of a capture below directories in ``paths``
    (False). Raises UserError if a path does not exist or no capture is found.
    """
    captures: dict[Path, bool] = {}
    skipped: dict[Path, str] = {}
    for path in map(Path, paths):
        if path.is_dir():
            for file, reason in sorted(files_below(path).items()):
                if reason:
                    skipped[file] = reason
                else:
                    captures.setdefault(file, False)
        elif path.exists():
            captures[path] = True
        else:
            raise UserError("no such file", where=path)
    skipped_lines = [f"{file}: {reason}" for file, reason in skipped.items() if file not in captures]
    if not captures:
        for line in skipped_lines:
            names.report(f"skipped: {line}")
        raise UserError("no capture found", where=" ".join(paths), fix=f"known suffixes: {' '.join(SUFFIXES)}")
    return captures, skipped_lines


def files_below(directory: Path) -> dict[Path, str]:
    """Return every file below a directory, each with the reason why it is skipped; empty for a capture."""
    reasons: dict[Path, str] = {}

    def note_unreadable(error: OSError) -> None:
        reasons[Path(error.filename)] = f"cannot read the directory: {error.strerror}"

    for parent, directories, file_names in os.walk(directory, onerror=note_unreadable):
        links = [name for name in directories if (Path(parent) / name).is_symlink()]
        reasons |= {Path(parent) / name: "symbolic link to a directory" for name in links}
        reasons |= {Path(parent) / name: why_skipped(Path(parent) / name) for name in file_names}
    return reasons


def why_skipped(file: Path) -> str:
    """Return why a file in a directory is not compared; empty if it is."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        return f"cannot read: {error.strerror}"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    return "" if file.name.endswith(SUFFIXES) else OTHER_SUFFIX
