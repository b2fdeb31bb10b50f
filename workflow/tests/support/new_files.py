"""Create directories and files with the directories above them, and change JSON files."""

import json
from pathlib import Path


def new_directory(path: Path) -> Path:
    """Create a directory and return it."""
    path.mkdir(parents=True, exist_ok=True)
    return path


def write_file(path: Path, content: str | bytes) -> Path:
    """Write a file and return it."""
    new_directory(path.parent)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def write_json(path: Path, content) -> Path:
    """Write a JSON file and return it."""
    return write_file(path, json.dumps(content))


def change_json(path: Path, **changes) -> None:
    """Replace keys of a JSON file."""
    write_json(path, json.loads(path.read_text(encoding="utf-8")) | changes)
