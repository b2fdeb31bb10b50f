"""Validation of configs and other mappings with the schemas of schemas/; errors name the key.

jsonschema is imported without the part of it that is slow to import.
"""

import difflib
import importlib
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import ValidationError

# jsonschema imports this grammar of IRIs, which builds a parser for about a second, if it is installed: FABRIC's client
# installs it. Only jsonschema's check of the formats `iri` and `iri-reference` needs it, which no schema here uses.
IRI_GRAMMAR = "rfc3987_syntax"


def load_jsonschema() -> ModuleType:
    """Return the module jsonschema. Call this before importing a package that imports jsonschema itself (Altair)."""
    if "jsonschema" in sys.modules or IRI_GRAMMAR in sys.modules:
        return importlib.import_module("jsonschema")
    sys.modules[IRI_GRAMMAR] = None  # an import of it fails
    try:
        return importlib.import_module("jsonschema")
    finally:
        del sys.modules[IRI_GRAMMAR]


def first_error(value: Any, schema: dict) -> str | None:
    """Return the error of a value that is nearest to its root, with its key; None if the value matches the schema."""
    errors = load_jsonschema().Draft202012Validator(schema).iter_errors(value)
    first = min(errors, key=lambda error: (len(error.absolute_path), str(error.absolute_path)), default=None)
    return None if first is None else describe(first)


def describe(error: "ValidationError") -> str:
    """Return the path of the key and a short description of the error."""
    alternatives = None  # description of all alternatives together
    while error.context:  # anyOf: prefer the deepest error, then one with a correct type
        alternatives = error.schema.get("description")
        error = max(error.context, key=specificity)
    key = dotted(error.absolute_path)
    if error.validator == "additionalProperties":
        known = list(error.schema.get("properties", {}))
        unknown = next(key for key in error.instance if key not in known)
        hint = did_you_mean(str(unknown), known) or f"; known keys: {', '.join(known)}"
        return f"{key}{'.' if key else ''}{unknown}: unknown key{hint}"
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        about = error.schema.get("properties", {}).get(missing, {}).get("description")
        return f"{key}{'.' if key else ''}{missing}: missing{f' ({about})' if about else ''}"
    if error.validator == "pattern" and alternatives and "description" not in error.schema:
        return f"{key}: {error.instance!r} is not valid; expected: {alternatives}"
    if error.validator == "pattern":
        about = error.schema.get("description")
        return f"{key}: {error.instance!r} does not match {error.validator_value}{f' ({about})' if about else ''}"
    if error.validator == "minItems":
        minimum, items = error.validator_value, error.schema.get("description", "items")
        return f"{key}: {len(error.instance)} given; at least {minimum} needed ({items})"
    return f"{key or 'config'}: {error.message}"


def specificity(error: "ValidationError") -> tuple[int, bool, bool]:
    """Return a key that is larger for an error of the alternative that was probably meant: deeper, of the same type."""
    listed = error.validator in ("enum", "const")
    wrong_type = error.validator == "type" or (listed and isinstance(error.instance, dict))
    return len(error.absolute_path), not wrong_type, not listed


def dotted(path: Iterable[str | int]) -> str:
    """Return a JSON path as text, for example ``capture.sites[2].name``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suffix for the error about an unknown name that suggests a similar known name; "" if none is similar."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def with_defaults(value: Any, schema: dict) -> Any:
    """Return a value with the schema's defaults for absent keys, including those in nested objects and lists."""
    if isinstance(value, dict) and "properties" in schema:
        filled = dict(value)
        for key, property_ in schema["properties"].items():
            if key in value or "default" in property_:
                filled[key] = with_defaults(value.get(key, property_.get("default")), property_)
        return filled
    if isinstance(value, list) and "items" in schema:
        return [with_defaults(item, schema["items"]) for item in value]
    return value
