"""schemas/ holds each fact about a column, a config key or a manifest once; this finds and reads it."""

import functools
import json
from pathlib import Path

import yaml

from .errors import UserError


@functools.cache
def root() -> Path:
    """The project's schemas/ directory: four levels above this package in the tree."""
    directory = Path(__file__).resolve().parents[4] / "schemas"
    if not directory.is_dir():
        raise UserError(
            "schemas/ is missing", where=directory, fix="install acapella from its source tree (make setup)"
        )
    return directory


@functools.cache
def table(name: str) -> dict:
    """A table's schema: ``table``, ``grain`` and ``columns`` (name, type, unit, null, about)."""
    return yaml.safe_load((root() / "tables" / f"{name}.yaml").read_text(encoding="utf-8"))


@functools.cache
def json_schema(name: str) -> dict:
    """A JSON Schema of schemas/, by its stem: ``config`` or ``manifest``."""
    return json.loads((root() / f"{name}.schema.json").read_text(encoding="utf-8"))
