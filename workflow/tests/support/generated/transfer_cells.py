"""A topology for `acapella transfer`, and the schema of the `cell.json` that it writes."""

from typing import Any

import yaml

from acapella_core import schemas
from acapella_core.validation import load_jsonschema

HASHED = """
nodes: {h1: {role: host}, r1: {role: router}, r2: {role: router}, r3: {role: router}, r4: {role: router},
        h2: {role: host}}
links:
  a: {between: [h1, r1]}
  up: {between: [r1, r2], emulated: true}
  down: {between: [r1, r3], emulated: true}
  b: {between: [r2, r4]}
  c: {between: [r3, r4]}
  d: {between: [r4, h2]}
paths: {up: [h1, r1, r2, r4, h2], down: [h1, r1, r3, r4, h2]}
assignment: hash
"""


def at_sites(topology: str, **sites: str) -> str:
    """Return a topology whose nodes are at these sites."""
    placed = yaml.safe_load(topology)
    for node, site in sites.items():
        placed["nodes"][node]["site"] = site
    return yaml.safe_dump(placed, sort_keys=False)


def validate_written(cell: dict[str, Any]) -> None:
    """Raise an error if a `cell.json` is invalid or has a key that the schema does not describe.

    Readers ignore other keys, because cells may be imported.
    """
    load_jsonschema().validate(cell, closed(schemas.json_schema("transfer_cell")))


def closed(schema: Any) -> Any:
    """Return a schema that permits only the keys it describes."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    rest = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return rest | {key: closed(value) for key, value in schema.items()}
