"""Errors of validation contain no terms of JSON Schema. Importing jsonschema is fast with any optional packages."""

import datetime
import json
import os
import sys
from collections.abc import Iterator

import pytest
import yaml
from acapella_testing.processes import run

from acapella_core import schemas, unique_keys
from acapella_core.validation import FORMS, first_error


@pytest.mark.parametrize(
    "code",
    [
        "from acapella_capture import settings; settings.parse_settings({'testbed': 'local'})",
        "from acapella.snakefile import config; config.checked({'campaign': 'x', 'samples': 's.tsv'})",
        "from acapella_core.validation import load_jsonschema; load_jsonschema(); import altair",
    ],
    ids=["capture", "config", "Altair"],
)
def test_jsonschema_is_imported_without_the_iri_grammar(tmp_path, code):
    """The grammar, which is slow to import, is replaced by a module that fails. Only an explicit import runs it."""
    (tmp_path / "rfc3987_syntax.py").write_text("raise RuntimeError('imported')\n")
    code += "\nimport jsonschema\nimport rfc3987_syntax"
    ended = run(sys.executable, "-c", code, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert ended.stderr.splitlines()[-1] == "RuntimeError: imported"
    assert '"<string>", line 3' in ended.stderr


def keywords(schema: dict) -> Iterator[tuple[str, object]]:
    """Yield the keywords of a schema and of the schemas in it, with their values."""
    yield from schema.items()
    for keyword in ("properties", "patternProperties", "$defs"):
        for inner in schema.get(keyword, {}).values():
            yield from keywords(inner)
    alternatives = [*schema.get("anyOf", []), *schema.get("prefixItems", [])]
    for inner in (*alternatives, *(schema.get(each) for each in ("items", "additionalProperties", "propertyNames"))):
        yield from keywords(inner) if isinstance(inner, dict) else ()


NAME = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$"}
A_NAME = "a name (letters, digits, dot, dash, underscore; first a letter or digit)"
PAIR = {"type": "array", "minItems": 2, "maxItems": 2, "uniqueItems": True, "items": NAME, "description": "both ends"}
NODES = {"type": "object", "minProperties": 1, "maxProperties": 2, "propertyNames": NAME, "description": "x" * 101}
EITHER = {"anyOf": [{"enum": ["all", None]}, PAIR, {"type": "object", "required": ["default"]}]}
CLOSED = {"type": "object", "properties": {"rate": {}}, "additionalProperties": False}
OPTIONS = {
    "type": ["object", "null"],
    "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 2}, "mode": {"enum": ["one"]}},
}
MESSAGES = [  # keyword, schema of key k, value, message
    ("type", {"type": "integer", "minimum": 1, "maximum": 9}, "abc", "expected an integer from 1 to 9, found 'abc'"),
    ("type", {"type": "integer"}, "12", "expected an integer, found '12'; remove the quotes"),
    ("type", {"type": ["number", "null"]}, [1], "expected a number, or null, found a list"),
    ("type", {"type": "object"}, None, "expected a mapping of keys to values, found null"),
    ("type", {"type": "boolean"}, 1, "expected true or false, found 1"),
    ("type", {"type": "string"}, 5, "expected text, found 5; write it in quotes"),
    ("type", {"type": "string"}, datetime.date(2026, 1, 2), "expected text, found 2026-01-02; write it in quotes"),
    ("type", {"type": "array"}, {"a": 1}, "expected a list, found a mapping"),
    ("type", {"type": "array", "items": {"enum": ["svg"]}}, "svg", "expected a list, found 'svg'; did you mean [svg]?"),
    ("type", {"type": "array", "items": {"enum": ["svg"]}}, "gif", "expected a list, found 'gif'"),
    ("type", OPTIONS, 200, "expected a mapping of keys to values, or null, found 200; for example k: {size: 200}"),
    ("type", OPTIONS, "one", "expected a mapping of keys to values, or null, found 'one'; for example k: {mode: one}"),
    ("type", OPTIONS, "x", "expected a mapping of keys to values, or null, found 'x'; keys: name, size, mode"),
    ("enum", {"enum": ["rx", "tx", None]}, "r", "expected rx, tx or null, found 'r'; did you mean rx?"),
    (
        "enum",
        {"enum": [*"abcdefghij", "rate"]},
        "rates",
        "expected one of 11 values, found 'rates'; did you mean rate?",
    ),
    ("const", {"const": 1}, True, "expected 1, found true"),
    ("minimum", {"type": "integer", "minimum": 2}, 1, "expected an integer of at least 2, found 1"),
    ("maximum", {"type": "number", "maximum": 2}, 2.5, "expected a number of at most 2, found 2.5"),
    (
        "exclusiveMinimum",
        {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        0,
        "expected a number greater than 0 and of at most 1, found 0",
    ),
    ("pattern", NAME, "../x", f"expected {A_NAME}, found '../x'"),
    ("pattern", NODES, {"a b": 1}, f"key 'a b': expected {A_NAME}"),
    ("minLength", {"type": "string", "minLength": 1}, "", "expected text that is not empty, found ''"),
    ("maxLength", {"type": "string", "maxLength": 2}, "abc", "expected text of at most 2 characters, found 'abc'"),
    ("minItems", PAIR, ["a"], "expected at least 2 items, found 1 (both ends)"),
    ("maxItems", PAIR, ["a", "b", "c"], "expected at most 2 items, found 3 (both ends)"),
    ("uniqueItems", PAIR, ["a", "a"], "'a' occurs twice"),
    ("minProperties", NODES, {}, "expected at least 1 key, found none"),
    ("maxProperties", NODES, {"a": 1, "b": 2, "c": 3}, "expected at most 2 keys, found 3"),
    (
        "anyOf",
        EITHER,
        "al",
        "expected all, null, a list, or a mapping of keys to values, found 'al'; did you mean all?",
    ),
    ("anyOf", EITHER, ["a"], "expected at least 2 items, found 1 (both ends)"),
    ("required", EITHER, {"x": 1}, "default: missing"),
    ("additionalProperties", CLOSED, {"rat": 1}, "rat: unknown key; did you mean rate?"),
    ("additionalProperties", CLOSED, {3: 1}, "3: unknown key; known keys: rate"),
]


@pytest.mark.parametrize(("schema", "value", "message"), [case for _, *case in MESSAGES])
def test_error_states_the_key_what_is_allowed_and_what_was_found(schema, value, message):
    assert first_error({"k": value}, {"properties": {"k": schema}}) in (f"k: {message}", f"k.{message}")


def test_every_keyword_and_pattern_of_the_schemas_has_a_message():
    paths = [*schemas.root().glob("*.schema.json"), schemas.root() / "generated.json"]
    used = [pair for path in paths for pair in keywords(json.loads(path.read_text()))]
    without_errors = {"$schema", "$id", "$defs", "$ref", "title", "description", "default"}
    without_errors |= {"properties", "patternProperties", "propertyNames", "items", "prefixItems"}
    assert {keyword for keyword, _ in used} - without_errors == {keyword for keyword, *_ in MESSAGES}
    assert {pattern for keyword, pattern in used if keyword == "pattern"} == FORMS.keys()


def test_errors_resolve_references():
    trials = schemas.json_schema("config")["properties"]["trials"]["additionalProperties"]["items"]["anyOf"]
    assert trials[0].keys() == {"$ref"}
    error = first_error({"campaign": "x", "trials": {"quiet": ["a", 5]}}, schemas.json_schema("config"))
    assert error == f"trials.quiet[1]: expected {A_NAME}, or a list, found 5; write it in quotes"


MERGED = """
base: &base {x: 1, y: 2}
outer: {inner: &inner {<<: *base, x: 2}}
last: {<<: *inner, z: 3}
"""


def test_documents_without_repeated_keys_are_read():
    """A key may override a merged one. Tabs are allowed in JSON, not in YAML."""
    assert unique_keys.load(MERGED) == yaml.safe_load(MERGED)
    assert unique_keys.load('{\n\t"campaign": "x",\n\t"rate": 1e3\n}') == {"campaign": "x", "rate": 1000.0}


@pytest.mark.parametrize(
    "text", ["a: 1\na: 2", "a: {b: 1, b: 2}", "{'a': 1, a: 2}", '{"a": 1,\t"a": 2}', '[{"a": {}, "a": {}}]']
)
def test_repeated_key_is_an_error(text):
    with pytest.raises(yaml.YAMLError, match=r"key '[ab]' occurs twice") as caught:
        unique_keys.load(text)
    assert unique_keys.describe(caught.value).startswith("key '")
