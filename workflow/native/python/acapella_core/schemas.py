"""Read schemas/, the definitions of columns, config keys and manifests."""

import functools
import json
from pathlib import Path

import yaml

from .errors import UserError

# libyaml's loader is ten times faster; it is missing if PyYAML was compiled without it.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@functools.cache
def root() -> Path:
    """Return the directory schemas/: the one in this package, which wheels have, else that of the source tree."""
    directory = Path(__file__).with_name("schemas")
    if not directory.is_dir():
        directory = Path(__file__).resolve().parents[4] / "schemas"
    if not directory.is_dir():
        raise UserError("schemas/ is missing", where=directory, fix="install acapella again")
    return directory


@functools.cache
def table(name: str) -> dict:
    """Return a table's schema: ``table``, ``grain`` and ``columns`` (name, type, unit, null, about)."""
    text = (root() / "tables" / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml.load(text, LOADER)


@functools.cache
def json_schema(name: str) -> dict:
    """Return a JSON Schema of schemas/ by its stem, such as ``config`` or ``manifest``."""
    return json.loads((root() / f"{name}.schema.json").read_text(encoding="utf-8"))
