"""Identifies the installed program in the keys of a cache of digests, if the caller states no versions (--cache-key).

Unlike the code hash in Snakemake's rules, it covers all bytes of the installed files, including the compiled core, and
does not need the core's sources, which wheels do not contain.
"""

import functools
import hashlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import acapella
import acapella_core
from acapella.common import tshark, vendors
from acapella_core import _native, schemas


def versions(engine: str) -> str:
    """Return the versions of code, pyarrow and vendor list, and of tshark if the engine uses it."""
    lists = vendors.find()
    return " ".join(
        [
            f"{code_sha256()} pyarrow-{version('pyarrow')}",
            tshark.find().version if engine != "native" else "",
            *(lists.sha256.values() if lists else ()),
        ]
    )


@functools.cache
def code_sha256() -> str:
    """Return the SHA-256, in hexadecimal, of the files of the program that can change a digest."""
    total = hashlib.sha256()
    for directory in directories():
        for path in files_in(directory):
            content = path.read_bytes()
            total.update(f"{path.relative_to(directory.parent)}\0{len(content)}\0".encode() + content)
    total.update(Path(_native.__file__).read_bytes())
    return total.hexdigest()


def directories() -> tuple[Path, ...]:
    """Return the directories with the modules and data of a digest."""
    package = Path(acapella.__file__).parent
    return (package / "common", package / "digest", Path(acapella_core.__file__).parent, schemas.root())


def files_in(directory: Path) -> Iterator[Path]:
    """Yield the files beneath a directory in a fixed order, without Python's compiled files."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
