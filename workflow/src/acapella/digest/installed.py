"""Identifies the installed program in the keys of a cache of digests, unless the caller passes versions (--cache-key).

With --cache-key, it is used to check that the installed program is the one that the key describes, so that no other
program stores digests. Unlike the code hash in Snakemake's rules, the identifier covers all bytes of the installed
files, including the compiled core, and does not need the core's sources, which wheels do not contain.
"""

import functools
import hashlib
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import acapella
import acapella_core
from acapella.common import tshark, vendors
from acapella_core import _native, schemas

DESCRIBED = "ACAPELLA_CACHE_PROGRAM"  # environment variable: `versions` of the program that --cache-key describes


def is_described(engine: str) -> bool:
    """Return whether the installed program is the one that --cache-key describes.

    Snakemake computes the key when it starts. The program may be updated before the last job of the run. This reads all
    files of the program, in about 6 ms, so call it only to store a digest. `preload` of `acapella digest` reads them
    once for a batch, whose forks run the code that was loaded then.
    """
    described = os.environ.get(DESCRIBED)
    return not described or described == versions(engine)


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
            with open(path, "rb") as stream:  # noqa: PTH123 - pathlib takes most of the time
                content = stream.read()
            total.update(f"{os.path.relpath(path, directory.parent)}\0{len(content)}\0".encode() + content)
    total.update(Path(_native.__file__).read_bytes())
    return total.hexdigest()


def directories() -> tuple[Path, ...]:
    """Return the directories with the modules and data of a digest."""
    package = Path(acapella.__file__).parent
    return (package / "common", package / "digest", Path(acapella_core.__file__).parent, schemas.root())


def files_in(directory: Path) -> Iterator[str]:
    """Yield the files beneath a directory in a fixed order, without Python's compiled files."""
    for parent, directories_below, file_names in os.walk(directory):
        directories_below[:] = sorted({*directories_below} - {"__pycache__"})
        paths = (f"{parent}/{name}" for name in sorted(file_names))
        yield from filter(os.path.isfile, paths)  # an editor may lock a file by a link without a target
