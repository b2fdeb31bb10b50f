"""Replies of the agent on a node (agent.py). They are untrusted input: users can change the nodes of a slice."""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Return whether a value is a text that can be written to a file."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def is_count(value: Any) -> bool:
    """Return whether a value is a non-negative integer."""
    return type(value) is int and value >= 0  # True and False are also integers


def is_status(value: Any) -> bool:
    """Return whether a value is the exit status of a program, or None."""
    return value is None or type(value) is int


def is_boolean(value: Any) -> bool:
    """Return whether a value is true or false."""
    return isinstance(value, bool)


def is_text_list(value: Any) -> bool:
    """Return whether a value is a list of strings."""
    return isinstance(value, list) and all(map(is_text, value))


def is_text_object(value: Any) -> bool:
    """Return whether a value is an object whose values are strings."""
    return isinstance(value, dict) and all(map(is_text, (*value, *value.values())))


PROGRAM: dict[str, Check] = {"status": is_status, "out": is_text, "log": is_text}
REQUIRED: Mapping[str, Mapping[str, Check]] = {
    "run": PROGRAM,
    "state": PROGRAM,
    "checksums": {"size": is_count, "sha256": is_text, "checksums": is_text_list},
    "extract_part": {"path": is_text},
    "is_used": {"used": is_boolean},
    "interfaces": {"interfaces": is_text_object},
}  # for other commands, any object is a valid reply


def decode(command: str, encoded: str) -> dict[str, Any]:
    """Return the reply to a command: an object with key `error`, or with the keys of the command.

    Raises ValueError if it is malformed.
    """
    try:
        reply = json.loads(base64.b64decode(encoded, validate=True))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(reply, dict):
        raise ValueError("not an object")
    required = {"error": is_text} if "error" in reply else REQUIRED.get(command, {})
    for key, check in required.items():
        if key not in reply or not check(reply[key]):
            raise ValueError(f"{key} is missing or has the wrong type")
    return reply
