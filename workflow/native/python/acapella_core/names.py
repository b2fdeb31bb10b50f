"""Validate names from catalogs, manifests, sample sheets and checksum lists; print names and counts."""

import re
import sys
from pathlib import PurePosixPath
from typing import TextIO

from .errors import UserError

SAMPLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # also in schemas/ and the Snakefile
SAMPLE_RULE = "only letters, digits, dot, dash, underscore; first a letter or digit"
MAX_BYTES = 255  # maximum length of a file name, NAME_MAX of Linux


def sample(name: object, where: object) -> str:
    """Return a sample's name. Raises UserError if it cannot be part of a file name or is not text."""
    if not is_sample(name):
        raise UserError(f"sample {name!r}: {SAMPLE_RULE}", where=where)
    return name


def label(name: object, where: object) -> str:
    """Return the name of a site or port. Raises UserError if it is empty, has control characters or is not text."""
    if not is_label(name):
        raise UserError(f"name {name!r} is empty or has a control character", where=where)
    return name


def file(name: object, where: object) -> str:
    """Return the name of a file in a known directory. Raises UserError if it is a path or has control characters."""
    if not is_component(name):
        raise UserError(f"{name!r} is not the name of a file", where=where)
    return name


def path(name: object, where: object) -> PurePosixPath:
    """Return a relative path from a checksum list. Raises UserError if a part could leave its directory."""
    if not isinstance(name, str) or not all(is_component(part) for part in name.split("/")):
        raise UserError(f"{name!r} is not the path of a file in this directory", where=where)
    return PurePosixPath(name)


def shown(text: str) -> str:
    """Return text for a terminal or a figure: control characters and newlines are escaped as in a Python literal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def pluralize(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun: ``1 frame``, ``2,000 frames``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def report(line: str, stream: TextIO | None = None) -> None:
    """Print one line at once, on standard error or ``stream``, with control characters escaped.

    print() would write the newline separately, so that lines of two threads could be mixed. Use this function for every
    line with the name of a site, port or file: a terminal would interpret control sequences in it.
    """
    out = stream or sys.stderr
    out.write(f"{shown(line)}\n")
    out.flush()


def is_sample(name: object) -> bool:
    """Return True if a value can be the name of a sample, and therefore part of a file name."""
    return isinstance(name, str) and SAMPLE.fullmatch(name) is not None and len(name) <= MAX_BYTES


def is_label(name: object) -> bool:
    """Return True if a value is text that is not empty and has no control characters."""
    return isinstance(name, str) and name != "" and name.isprintable()


def is_component(name: object) -> bool:
    """Return True if a value is one printable component of a path other than `.` and `..`."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and "/" not in name
        and name.isprintable()
        and len(name.encode()) <= MAX_BYTES
    )
