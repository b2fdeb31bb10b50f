"""The source archive from which nodes build the capture program. Identical sources yield identical bytes."""

import gzip
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from acapella_core import schemas
from acapella_core.errors import UserError

DIRECTORIES = ("capture/common", "capture/dpdk", "p4/loader")
# meson.build reads the versions of both packages; the loader includes the header.
FILES = (
    "meson.build",
    "workflow/setup/hardening.mk",
    "capture/pyproject.toml",
    "workflow/pyproject.toml",
    "workflow/native/src/frame/plausible_time.hpp",
)
SOURCES = re.compile(r".*\.[ch]|meson\.build|forward\.spec|leaks\.txt")  # files that meson.build needs
MTIME = 0


def source_archive() -> bytes:
    """Return the archive, tar with gzip. Raises UserError if the sources are missing on this machine."""
    root = schemas.root().parent
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=packed, mode="wb", mtime=MTIME) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(source_files(root)):
            data = read(root / name)
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(data), 0o644, MTIME
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def source_files(root: Path) -> Iterator[str]:
    """Yield the names of the files, relative to the root directory of the project."""
    yield from FILES
    for directory in DIRECTORIES:
        for path in (root / directory).rglob("*"):
            if path.is_file() and SOURCES.fullmatch(path.name):
                yield str(path.relative_to(root))


def read(path: Path) -> bytes:
    """Return the bytes of a source file. Raises UserError if it is missing."""
    try:
        return path.read_bytes()
    except OSError as error:
        fix = "run make setup-fabric in a clone of the project, or set capture.method: tcpdump"
        raise UserError(
            f"cannot read {path}, a source file of the capture program: {error.strerror}",
            where="capture.method",
            fix=fix,
        ) from error
