"""Reads and writes SHA256SUMS of a release: the checksum of every other file, in the format of `sha256sum`."""

import re
from pathlib import Path

from acapella_core import names
from acapella_core.errors import UserError
from acapella_core.files import atomic_text, sha256_of

FILE = "SHA256SUMS"
LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def write(directory: Path, mode: int = 0o600) -> None:
    """Write the checksums of all files of the release."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path != directory / FILE)
    sums = [f"{sha256_of(path)}  {path.relative_to(directory).as_posix()}" for path in files]
    atomic_text(directory / FILE, "\n".join(sums) + "\n", mode)


def read(directory: Path) -> dict[str, str]:
    """Return the checksums of a release by file. Raises UserError if the list is missing or not in this format."""
    path = directory / FILE
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read: {error}", where=path, fix="specify the directory of a release") from error
    sums = {}
    for number, line in enumerate(lines, start=1):
        match = LINE.fullmatch(line)
        if match is None:
            raise UserError("not a checksum and a file path", where=f"{path} line {number}")
        sums[names.path(match[2], f"{path} line {number}").as_posix()] = match[1]
    return sums


def altered(directory: Path, sums: dict[str, str]) -> dict[str, str]:
    """Return the files of a release that do not match their checksums: name -> `changed`, `missing` or `not listed`."""
    found = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()} - {FILE}
    states = {name: "missing" for name in sums.keys() - found} | {name: "not listed" for name in found - sums.keys()}
    for name in sorted(sums.keys() & found):
        if sha256_of(directory / name) != sums[name]:
            states[name] = "changed"
    return dict(sorted(states.items()))
