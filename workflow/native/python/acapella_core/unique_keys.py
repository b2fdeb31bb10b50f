"""Loads YAML and JSON without repeated keys, of which other loaders keep only the last."""

import json
from typing import Any

import yaml

MERGE = "tag:yaml.org,2002:merge"  # the key <<, which may occur several times


class UniqueKeyLoader(yaml.SafeLoader):
    """A loader that raises yaml.YAMLError if a mapping contains a key twice. A key may override a merged one."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """Return a mapping as it is written, before << is replaced by the keys of other mappings."""
        node = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                raise yaml.YAMLError(f"key {key.value!r} occurs twice, in lines {lines[name]} and {line}")
            lines[name] = line
        return node


def load(text: str) -> Any:
    """Return the value of a JSON or YAML document. JSON may be indented by tabs, unlike YAML. Raises yaml.YAMLError."""
    try:
        return json.loads(text, object_pairs_hook=unique_members)
    except ValueError:
        return yaml.load(text, UniqueKeyLoader)


def unique_members(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object. Raises yaml.YAMLError if a name occurs twice."""
    names = [name for name, _ in members]
    for name in names:
        if names.count(name) > 1:
            raise yaml.YAMLError(f"key {name!r} occurs twice")
    return dict(members)
