"""Files of this machine that programs on a node use: they are uploaded once."""

from pathlib import Path

from acapella_core.files import sha256_of

from .base import Testbed


def upload(testbed: Testbed, node: str, source: Path, file: str, *, overwrite: bool = False) -> str:
    """Upload a file to a node unless it already exists there. Return its path on the node, usable as a command.

    Raises UserError.
    """
    path = testbed.path_on_node(node, file)
    path = path if "/" in path else f"./{path}"
    if overwrite or testbed.run(node, ["test", "-f", path]).status != 0:
        testbed.put(node, source, file)
    return path


def upload_version(testbed: Testbed, node: str, source: Path) -> str:
    """Upload a file unless this version of it is there. Return its path on the node. Raises UserError."""
    return upload(testbed, node, source, f"{source.stem}-{sha256_of(source)[:16]}{source.suffix}")
