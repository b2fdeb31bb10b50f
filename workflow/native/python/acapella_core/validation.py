"""Validates configs and other mappings with the schemas of schemas/.

Errors name the key, what is allowed, and what was found, without the terms of JSON Schema.

jsonschema is imported without the part of it that is slow to import.
"""

import contextlib
import difflib
import functools
import importlib
import json
import operator
import re
import sys
from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from . import names

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

# jsonschema imports this grammar of IRIs, which builds a parser for about a second, if it is installed: FABRIC's client
# installs it. Only jsonschema's check of the formats `iri` and `iri-reference` needs it, which no schema here uses.
IRI_GRAMMAR = "rfc3987_syntax"


def load_jsonschema() -> ModuleType:
    """Return the module jsonschema. Call this before importing a package that imports jsonschema itself (Altair)."""
    if "jsonschema" in sys.modules or IRI_GRAMMAR in sys.modules:
        return importlib.import_module("jsonschema")
    sys.modules[IRI_GRAMMAR] = None  # importing it fails
    try:
        return importlib.import_module("jsonschema")
    finally:
        del sys.modules[IRI_GRAMMAR]


def first_error(value: Any, schema: dict) -> str | None:
    """Return the error of a value that is nearest to its root, with its key; None if the value matches the schema."""
    return first_error_of(load_jsonschema().Draft202012Validator(schema), value)


def first_error_of(validator: "Validator", value: Any) -> str | None:
    """Return the error of a value, as `first_error` does, from a validator that is used for several values."""
    error = located_error(value, validator)
    return None if error is None else str(error)


class LocatedError(NamedTuple):
    """An error of a value: the keys and indices that lead to it, what is allowed, and what was found."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        key = dotted(self.path)
        return f"{key}: {self.message}" if key else self.message


def located_error(value: Any, validator: "Validator") -> LocatedError | None:
    """Return the error of a value that is nearest to its root; None if it is valid."""
    errors = validator.iter_errors(value)
    first = min(errors, key=lambda error: (len(error.absolute_path), str(error.absolute_path)), default=None)
    return None if first is None else describe(first, validator)


def describe(error: "ValidationError", validator: "Validator") -> LocatedError:
    """Return the path of the key, what is allowed, and what was found."""
    while error.context:  # anyOf: prefer the deepest error, then one with a correct type
        nearest = max(error.context, key=specificity)
        if nearest.absolute_path == error.absolute_path and nearest.validator not in MESSAGES and not nearest.context:
            break  # it is unknown which alternative was meant, so all are listed
        error = nearest
    message, *inner = MESSAGES.get(error.validator, wrong_value)(error, validator)
    return LocatedError((*error.absolute_path, *inner), message)


def unknown_key(error: "ValidationError", _: "Validator") -> tuple[str, str]:
    """Return the message for a key that the schema does not define, and the key."""
    known = list(error.schema.get("properties", {}))
    patterns = error.schema.get("patternProperties", {})
    unknown = next(
        key for key in error.instance if key not in known and not any(re.search(form, str(key)) for form in patterns)
    )
    listed = f"; known keys: {', '.join(known)}" if known else ""
    return f"unknown key{did_you_mean(str(unknown), known) or listed}", str(unknown)


def missing_key(error: "ValidationError", _: "Validator") -> tuple[str, str]:
    """Return the message for a required key that is missing, and the key."""
    missing = next(key for key in error.validator_value if key not in error.instance)
    about = error.schema.get("properties", {}).get(missing, {}).get("description")
    return f"missing{f' ({about})' if about else ''}", missing


def wrong_size(error: "ValidationError", _: "Validator") -> tuple[str]:
    """Return the message for a list or mapping with too few or too many items."""
    bound = "at least" if error.validator.startswith("min") else "at most"
    limit = names.pluralize(error.validator_value, "item" if error.validator.endswith("Items") else "key")
    about = error.schema.get("description", "")
    description = f" ({about})" if 0 < len(about) <= MAX_ABOUT else ""
    return (f"expected {bound} {limit}, found {len(error.instance) or 'none'}{description}",)


def repeated_item(error: "ValidationError", _: "Validator") -> tuple[str]:
    """Return the message for a list with two equal items."""
    items = error.instance
    return (f"{found(next(item for index, item in enumerate(items) if item in items[:index]))} occurs twice",)


MESSAGES = {
    "additionalProperties": unknown_key,
    "required": missing_key,
    "minItems": wrong_size,
    "maxItems": wrong_size,
    "minProperties": wrong_size,
    "maxProperties": wrong_size,
    "uniqueItems": repeated_item,
}
NAME = "(letters, digits, dot, dash, underscore; first a letter or digit)"
FORMS = {  # descriptions of texts that match a pattern
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": f"a name {NAME}",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$": f"a name of at most 40 characters {NAME}",
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,254}$": f"a name of at most 255 characters {NAME}",
    r"^[A-Za-z0-9._-]{1,15}$": "a name of at most 15 characters (letters, digits, dot, dash, underscore)",
    r"^[A-Za-z][A-Za-z0-9_-]{0,30}$": "a name of at most 31 letters, digits, dashes and underscores; first a letter",
    r"^[a-z][a-z0-9]{0,9}$": "a name of at most 10 lower-case letters and digits; first a letter",
    r"^[a-z][a-z0-9_]{0,14}$": "a name of at most 15 lower-case letters, digits and underscores; first a letter",
    r"^[a-z][a-z0-9_]{0,63}$": "a name of at most 64 lower-case letters, digits and underscores; first a letter",
    r"^[^\x00-\x1f\x7f-\x9f]+$": "text without control characters",
    r"^[0-9a-f]{64}$": "64 hexadecimal digits in lower case",
    r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$": "a MAC address in lower case such as 02:00:00:00:00:01",
    r"^https?://": "a URL that starts with http:// or https://",
    r"^https?://[^@\s]+$": "a URL that starts with http:// or https:// and contains neither @ nor spaces",
    r"^(?!\s*-)": "text that does not start with -",
    r"^/": "an absolute path",
    r"^[0-9]+([.][0-9]+)?[KMGkmg]?$": "bytes such as 65536 or 64K (K, M or G)",
    r"^[0-9]+([.][0-9]+)?[KMGTkmgt]?$": "bytes such as 65536 or 64K (K, M, G or T)",
    r"^[0-9]+:[1-9][0-9]*$": "OFFSET:LENGTH in bytes such as 4:8",
    r"^[1-4]x[1-9][0-9]*$": "ROWSxCELLS such as 4x65536, with at most 4 rows",
    r"^[1-9][0-9]*(ns|us|ms|s)$": "a time such as 100ms (ns, us, ms or s)",
}
MAX_ABOUT = 100  # characters of a description in a message
MAX_LISTED = 10  # allowed values in a message that suggests one of them
MAX_FOUND = 80  # characters of a value in a message
QUOTES = "\"'"


def wrong_value(error: "ValidationError", validator: "Validator") -> tuple[str]:
    """Return the message for a value of a wrong type, or one that is not allowed."""
    choices = alternatives(error.schema, validator.schema)
    texts = [text for choice in choices for text in allowed(choice)]
    if "propertyNames" in error.absolute_schema_path:
        return (f"key {found(error.instance)}: expected {any_of(texts)}",)
    hint = suggestion(error, choices, validator)
    expected = f"one of {len(texts)} values" if hint and len(texts) > MAX_LISTED else any_of(texts)
    return (f"expected {expected}, found {found(error.instance)}{hint}",)


def suggestion(error: "ValidationError", choices: list[dict], validator: "Validator") -> str:
    """Return a suffix with a similar value that is allowed; "" if there is none."""
    value, is_allowed = error.instance, validator.evolve(schema=error.schema).is_valid
    if isinstance(value, str):
        listed = [each for choice in choices for each in choice.get("enum", ()) if isinstance(each, str)]
        if near := did_you_mean(value, listed):
            return near
        with contextlib.suppress(ValueError):
            if is_allowed(json.loads(value)):
                return "; remove the quotes"
    if isinstance(value, (dict, list)) or value is None:
        return ""
    if is_allowed([value]):
        return f"; did you mean [{value}]?"
    if hint := expected_mapping(value, choices, validator, error.absolute_path):
        return hint
    is_number = any({"integer", "number"} & {*types_of(choice)} for choice in choices)
    return "; write it in quotes" if not isinstance(value, str) and not is_number and is_allowed(str(value)) else ""


def expected_mapping(value: Any, choices: list[dict], validator: "Validator", path: Iterable[str | int]) -> str:
    """Return a suffix for a value in place of a mapping: a mapping with this value, or else its keys if they are few.

    The mapping has the first key for which the value is allowed, except keys with any text: `batches: {samples: 200}`.
    Returns "" if other values than a mapping or null are allowed. ``path``: the keys and indices of the value.
    """
    if any(not {*types_of(choice)} <= {"object", "null"} for choice in choices):
        return ""
    schemas = {key: schema for choice in choices for key, schema in choice.get("properties", {}).items()}
    for key, schema in schemas.items():
        has_list = any("enum" in choice for choice in alternatives(schema, validator.schema))
        if (has_list or not isinstance(value, str)) and validator.evolve(schema=schema).is_valid(value):
            names_of_path = [f"{name}: " for name in [*path][-1:] if isinstance(name, str)]
            return f"; for example {''.join(names_of_path)}{{{key}: {found(value).strip(QUOTES)}}}"
    return f"; keys: {', '.join(schemas)}" if 0 < len(schemas) <= MAX_LISTED else ""


def alternatives(schema: dict, root: dict) -> list[dict]:
    """Return the schemas of all alternatives of a value, without references."""
    while "$ref" in schema:
        schema = functools.reduce(operator.getitem, schema["$ref"].removeprefix("#/").split("/"), root)
    return [inner for part in schema.get("anyOf", []) for inner in alternatives(part, root)] or [schema]


def allowed(schema: dict) -> list[str]:
    """Return descriptions of the values that a schema allows, such as ``["an integer from 1 to 10", "null"]``."""
    if "enum" in schema or "const" in schema:
        return [each if isinstance(each, str) else found(each) for each in schema.get("enum", [schema.get("const")])]
    return [text for each in types_of(schema) for text in allowed_of_type(each, schema)]


def types_of(schema: dict) -> list[str]:
    """Return the types that a schema allows; a schema without a type describes a key, which is a string."""
    types = schema.get("type", "string")
    return [types] if isinstance(types, str) else types


def allowed_of_type(type_: str, schema: dict) -> list[str]:
    """Return descriptions of the values of a type that a schema allows."""
    if type_ in ("integer", "number"):
        return [" ".join(["an integer" if type_ == "integer" else "a number", *bounds(schema)])]
    if type_ == "string":
        if "pattern" in schema:
            return [FORMS.get(schema["pattern"]) or f"text that matches {schema['pattern']}"]
        length = f" of at most {schema['maxLength']} characters" if "maxLength" in schema else ""
        return [f"text{length}{' that is not empty' if schema.get('minLength') else ''}"]
    texts = {"object": ["a mapping of keys to values"], "array": ["a list"], "boolean": ["true", "false"]}
    return texts.get(type_, [type_])


def bounds(schema: dict) -> list[str]:
    """Return the range of the numbers that a schema allows, such as ``["from 1 to 10"]``; [] if it is unlimited."""
    if "minimum" in schema and "maximum" in schema:
        return [f"from {schema['minimum']} to {schema['maximum']}"]
    words = {"exclusiveMinimum": "greater than", "minimum": "of at least", "maximum": "of at most"}
    texts = [f"{words[keyword]} {schema[keyword]}" for keyword in words if keyword in schema]
    return [" and ".join(texts)] if texts else []


def any_of(texts: list[str]) -> str:
    """Return alternatives as text: ``a``, ``a or b``, ``a, b or c``. A comma precedes "or" if one has several words."""
    first, last = ", ".join(texts[:-1]), texts[-1]
    comma = "," if any(" " in text for text in texts) else ""
    return f"{first}{comma} or {last}" if first else last


def found(value: Any) -> str:
    """Return a short description of a value that was found."""
    if isinstance(value, (dict, list)) and value:
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = repr(value) if isinstance(value, (str, dict, list)) else str(value)
    return text if len(text) <= MAX_FOUND else f"{text[:MAX_FOUND]}..."


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
