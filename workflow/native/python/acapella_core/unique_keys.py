"""Loads YAML and JSON without repeated keys, of which other loaders keep only the last."""

import json
from typing import Any

import yaml

MERGE = "tag:yaml.org,2002:merge"  # the key <<, which may occur several times


class RepeatedKey(yaml.YAMLError):
    """The error for a mapping that contains a key twice, which YAML and JSON parsers accept."""


class UniqueKeyLoader(yaml.SafeLoader):
    """A loader that raises RepeatedKey if a mapping contains a key twice. A key may override a merged one."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """Return a mapping as it is written, before << is replaced by the keys of other mappings."""
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                where = f" in line {line}" if line == lines[name] else f", in lines {lines[name]} and {line}"
                raise RepeatedKey(f"key {key.value!r} occurs twice{where}; remove one of them")
            lines[name] = line
        return node


def load(text: str) -> Any:
    """Return the value of a JSON or YAML document. JSON may be indented by tabs, unlike YAML. Raises yaml.YAMLError."""
    try:
        return json.loads(text, object_pairs_hook=unique_members)
    except ValueError:
        return yaml.load(text, UniqueKeyLoader)


def unique_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object. Raises RepeatedKey if a name occurs twice."""
    names = [name for name, _ in members]
    for name in names:
        if names.count(name) > 1:
            raise RepeatedKey(f"key {name!r} occurs twice; remove one of them")
    return dict(members)


def describe(error: yaml.YAMLError | UnicodeDecodeError) -> str:
    """Return the message of one line for a document that `load` cannot read: a repeated key, or the error of YAML."""
    return str(error) if isinstance(error, RepeatedKey) else f"not YAML: {' '.join(str(error).split())}"
