"""The schema of `cell.json`, for what `acapella transfer` writes."""

from typing import Any

from acapella_core import schemas
from acapella_core.validation import load_jsonschema


def validate_written(cell: dict[str, Any]) -> None:
    """Raise an error if a `cell.json` is invalid or has a key that the schema does not describe.

    Readers ignore other keys, because cells may be from elsewhere.
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
