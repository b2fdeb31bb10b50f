"""Describes the input files of the infrastructure study: formats (schemas/inputs/), and configured patterns."""

import functools
import glob
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from acapella_core import schemas
from acapella_core.errors import UserError

KEYS = ("advertisements", "slices", "telemetry")  # keys of config key `infrastructure`


def has_infrastructure(config: Mapping) -> bool:
    """Return whether the configuration has input files of the infrastructure study."""
    return any((config.get("infrastructure") or {}).get(key) for key in KEYS)


@functools.cache
def schema(name: str) -> dict:
    """Return the schema of an input file, in the form of the schemas of tables."""
    return yaml.load((schemas.root() / "inputs" / f"{name}.yaml").read_text(encoding="utf-8"), schemas.LOADER)


def columns_of(name: str) -> list[str]:
    """Return the names of the columns of an input file."""
    return [column["name"] for column in schema(name)["columns"]]


def files(patterns: Iterable[str]) -> list[Path]:
    """Return the sorted files that patterns match, without duplicates. Raises UserError if one matches none."""
    found: set[str] = set()
    for pattern in patterns:
        matches = glob.glob(pattern, recursive=True)  # noqa: PTH207 - patterns may be absolute
        if not matches:
            raise UserError("no such file", where=pattern)
        found |= {*matches}
    return [Path(path) for path in sorted(found)]
