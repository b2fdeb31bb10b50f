"""Reads the JSON documents of an iperf3 file: one or several, complete or truncated, in UTF-8 or UTF-16.

Input may be hostile. A file of more than MAX_BYTES is not read. A fault never stops the reading of other files: it
becomes a line of text with the number of its document. iperf3 3.17 and later can also write a line per event
(--json-stream); these lines are joined to the document that earlier versions write.
"""

import codecs
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

MAX_BYTES = 64 << 20  # maximum size of a file; 24 h of one stream at intervals of 1 s are 52 MB
MAX_DOCUMENTS = 10_000  # maximum per file
MAX_FAULTS = 16  # faults after which the rest of a file is not read: each costs a pass over the rest
BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass
class Documents:
    """The documents of a file, each with its number (from 1), and the faults found, each as (number, text)."""

    found: list[tuple[int, dict]] = field(default_factory=list)
    faults: list[tuple[int, str]] = field(default_factory=list)


class NotFinite(ValueError):
    """NaN or infinity, which do not exist in JSON."""


def reject_constant(name: str) -> None:
    """Raise NotFinite for NaN, Infinity and -Infinity, which Python's decoder would accept."""
    raise NotFinite(f"{name} is not a JSON number")


DECODER = json.JSONDecoder(parse_constant=reject_constant)


def read(path: Path) -> Documents:
    """Return the documents of a file. Raises no exception, even if the file is missing or its content is invalid."""
    result = Documents()
    try:
        content = bounded_bytes(path)
    except OSError as error:
        result.faults.append((0, f"cannot read: {error.strerror or error}"))
        return result
    if isinstance(content, str):
        result.faults.append((0, content))
        return result
    text, replaced = decoded(content)
    if replaced:
        result.faults.append((0, "not UTF-8: invalid bytes were replaced"))
    split(text, result)
    result.found = join_events(result.found)
    if not result.found and not result.faults:
        result.faults.append((0, "contains no JSON document" if text.strip() else "empty"))
    return result


def bounded_bytes(path: Path) -> bytes | str:
    """Return the content of a regular file of at most MAX_BYTES; otherwise the reason. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a FIFO must not block
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return "not a regular file"
        content = file.read(MAX_BYTES + 1)
    return f"larger than {MAX_BYTES >> 20} MiB" if len(content) > MAX_BYTES else content


def decoded(content: bytes) -> tuple[str, bool]:
    """Return the text of a file, and whether it has invalid bytes. A byte order mark selects the encoding."""
    encoding = "utf-8"
    for mark, name in BYTE_ORDER_MARKS:
        if content.startswith(mark):
            content, encoding = content[len(mark) :], name
            break
    try:
        return content.decode(encoding), False
    except UnicodeDecodeError:
        return content.decode(encoding, errors="replace"), True


def split(text: str, result: Documents) -> None:
    """Add the documents of a text. After a fault, continue with the next line that begins with a brace."""
    at, number = text.find("{"), 0
    while at >= 0:
        number += 1
        if number > MAX_DOCUMENTS or len(result.faults) >= MAX_FAULTS:
            result.faults.append((number, "the rest of the file is not read: too many documents or faults"))
            return
        try:
            document, end = DECODER.raw_decode(text, at)
            result.found.append((number, document))
        except (ValueError, RecursionError) as error:
            result.faults.append((number, describe(error, text)))
            end = text.find("\n{", at)
            if end < 0:
                return
        at = text.find("{", end)


def describe(error: Exception, text: str) -> str:
    """Return a short description of the fault of a document."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        # An unterminated string is reported at its first character.
        cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
        return "truncated" if cut else f"not JSON: {error.msg.lower()} (character {error.pos})"
    if isinstance(error, NotFinite):
        return f"not JSON: {error}"
    return "not JSON: an integer with thousands of digits"  # Python converts at most 4,300


def join_events(found: list[tuple[int, dict]]) -> list[tuple[int, dict]]:
    """Return the documents, with the events of --json-stream joined to one document for each test."""
    joined: list[tuple[int, dict]] = []
    current: dict | None = None
    for number, document in found:
        event, data = document.get("event"), document.get("data")
        if not isinstance(event, str) or "data" not in document:
            joined.append((number, document))
        elif event == "start" or current is None:
            current = {"start": {}, "intervals": []}
            joined.append((number, current))
        if isinstance(event, str) and current is not None:
            add_event(current, event, data)
    return joined


def add_event(document: dict, event: str, data: object) -> None:
    """Add the data of an event to its document."""
    if event == "interval":
        document["intervals"].append(data)
    elif event in ("start", "end", "error"):
        document[event] = data
