"""Loads YAML without repeated keys, of which YAML's own loaders keep only the last."""

from typing import Any

import yaml

MERGE = "tag:yaml.org,2002:merge"  # the key <<, which may occur several times


class UniqueKeyLoader(yaml.SafeLoader):
    """A loader that raises yaml.YAMLError if a mapping contains a key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        """Return a mapping."""
        lines: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == MERGE:
                continue
            line, name = key.start_mark.line + 1, (key.tag, key.value)
            if name in lines:
                raise yaml.YAMLError(f"key {key.value!r} occurs twice, in lines {lines[name]} and {line}")
            lines[name] = line
        return super().construct_mapping(node, deep=deep)


def load(text: str) -> Any:
    """Return the value of a YAML document. Raises yaml.YAMLError."""
    return yaml.load(text, UniqueKeyLoader)
