"""Read YAML strictly: no aliases, no duplicate keys, no unknown keys. Every error names the location in the file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from acapella_core.errors import UserError

MAX_BYTES = 1 << 26
MAX_NUMBER = 1 << 62
REQUIRED = object()


class Loader(yaml.SafeLoader):
    """A loader without aliases, which may expand to any size, and without duplicate keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node. Raises yaml.YAMLError for an alias."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.composer.ComposerError(None, None, "aliases are not supported", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict:
        """Return a mapping. Raises yaml.YAMLError if a key occurs twice."""
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) != len(node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key occurs twice", node.start_mark)
        return mapping


def read_bytes(path: Path) -> bytes:
    """Return the content of a file. Raises UserError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read: {getattr(error, 'strerror', None) or error}", where=path) from error
    if len(content) > MAX_BYTES:
        raise UserError(f"larger than {MAX_BYTES} bytes", where=path)
    return content


def parse(content: bytes | str, where: object) -> Any:
    """Return the value of a YAML document. Raises UserError."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        return yaml.load(text, Loader)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise UserError(f"not YAML: {' '.join(str(error).split())[:200]}", where=where) from error


class Section:
    """A mapping in the file. Its keys are taken one by one; ``done`` rejects keys that were not taken."""

    def __init__(self, value: Any, where: str):
        if not isinstance(value, dict) or not all(isinstance(key, str | int) for key in value):
            raise UserError(f"expected a mapping, found {text_of(value)}", where=where)
        self.values = {str(key): item for key, item in value.items()}
        if len(self.values) < len(value):  # 80 and "80"
            raise UserError("a key occurs twice", where=where)
        self.where = where

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def location_of(self, name: str) -> str:
        """Return the location of a key for messages."""
        return f"{self.where}{'.' if ': ' in self.where else ': '}{name}"

    def take(self, name: str, parse_value: Callable[[Any, str], Any], default: Any = REQUIRED) -> Any:
        """Return a value, parsed by ``parse_value(value, where)``, or the default."""
        if name not in self.values:
            if default is REQUIRED:
                raise UserError(f"{name} is missing", where=self.where)
            return default
        return parse_value(self.values.pop(name), self.location_of(name))

    def one_of(self, *names: str) -> str:
        """Return the only key, which must be one of ``names``."""
        if len(self.values) != 1 or next(iter(self.values)) not in names:
            raise UserError(f"expected one of {', '.join(names)}", where=self.where)
        return next(iter(self.values))

    def done(self) -> None:
        """Raise UserError if a key was not taken."""
        if self.values:
            raise UserError(f"unknown key {text_of(next(iter(self.values)))}", where=self.where)


def text_of(value: Any) -> str:
    """Return a value as text for a message, on one line."""
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def integer(minimum: int = 0, maximum: int = MAX_NUMBER) -> Callable[[Any, str], int]:
    """Return a parser of integers within limits. 1e9 is also an integer."""

    def parse_value(value: Any, where: str) -> int:
        if isinstance(value, str):  # YAML 1.1: 1e9 without a dot is a string
            value = to_float(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int or not minimum <= value <= maximum:
            raise UserError(f"expected an integer from {minimum} to {maximum}, found {text_of(value)}", where=where)
        return value

    return parse_value


def to_float(value: str) -> Any:
    """Return the number in a string, or the string if it is not a number."""
    try:
        return float(value) if len(value) < 30 and value.isascii() else value
    except ValueError:
        return value


def number(minimum: float, maximum: float) -> Callable[[Any, str], float]:
    """Return a parser of numbers within limits."""

    def parse_value(value: Any, where: str) -> float:
        if isinstance(value, str):
            value = to_float(value)
        if type(value) not in (int, float) or not minimum <= value <= maximum:
            raise UserError(f"expected a number from {minimum:g} to {maximum:g}, found {text_of(value)}", where=where)
        return float(value)

    return parse_value


def string(value: Any, where: str) -> str:
    """Return a printable string of at most 200 characters."""
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise UserError(f"expected a printable string, found {text_of(value)}", where=where)
    return value


def choice(*names: str) -> Callable[[Any, str], str]:
    """Return a parser that accepts only these names."""

    def parse_value(value: Any, where: str) -> str:
        if not isinstance(value, str) or value not in names:
            raise UserError(f"expected one of {', '.join(names)}, found {text_of(value)}", where=where)
        return value

    return parse_value


def items(value: Any, where: str) -> Iterator[tuple[Any, str]]:
    """Yield the items of a non-empty list, and their locations for messages."""
    if not isinstance(value, list) or not value:
        raise UserError(f"expected a list, found {text_of(value)}", where=where)
    for index, item in enumerate(value):
        yield item, f"{where}[{index}]"
