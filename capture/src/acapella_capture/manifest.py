"""The manifest of a sample, raw/<sample>.json: see schemas/manifest.schema.json. Unknown values are null."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acapella_core import schemas
from acapella_core.errors import UserError
from acapella_core.files import atomic_text
from acapella_core.validation import first_error

from .testbeds.base import MirrorCounters

VERSION = 1
SHEET = "samples.tsv"
SHEET_COLUMNS = ("sample", "site", "port", "file")
FAILED = "failed.tsv"
FAILED_COLUMNS = ("sample", "site", "port", "why")


def empty() -> dict[str, Any]:
    """Return a manifest with all required keys, whose values are unknown."""
    unknown = dict.fromkeys(schemas.json_schema("manifest")["required"])
    span = {"start_ns": None, "end_ns": None}
    return unknown | {
        "acapella_manifest": VERSION,
        "requested": span,
        "actual": span,
        "mirror": asdict(MirrorCounters()),
        "notes": [],
    }


def check(manifest: object, *, where: object) -> None:
    """Raise UserError naming the key that violates the schema."""
    if error := first_error(manifest, schemas.json_schema("manifest")):
        raise UserError(f"not a manifest: {error}", where=where)


def write(directory: Path, manifest: dict[str, Any]) -> Path:
    """Write raw/<sample>.json atomically and return its path."""
    path = directory / f"{manifest['sample']}.json"
    check(manifest, where=path)
    atomic_text(path, json.dumps(manifest, indent=2) + "\n")
    return path


def read(path: Path) -> dict[str, Any]:
    """Read a manifest. Raises UserError if it is missing or invalid."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=path) from error
    except ValueError as error:
        raise UserError(f"not JSON: {error}", where=path) from error
    check(manifest, where=path)
    return manifest


def sheet_row(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a manifest in raw/samples.tsv. Its file is the digest if the capture was not fetched."""
    return manifest | {"file": manifest.get("node_digest", manifest)["file"]}


def sheet(rows: Iterable[dict[str, Any]], columns: Sequence[str] = SHEET_COLUMNS) -> str:
    """Return the text of raw/samples.tsv, one line per sample; with other columns, of raw/failed.tsv."""
    lines = ["\t".join(columns)]
    lines += ["\t".join(re.sub(r"[\t\r\n]+", " ", str(row[column])) for column in columns) for row in rows]
    return "\n".join(lines) + "\n"
