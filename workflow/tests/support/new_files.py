"""Create directories and files with the directories above them."""

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
