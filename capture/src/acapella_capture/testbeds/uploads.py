"""Uploads files of this machine that programs on a node use."""

from pathlib import Path

from acapella_core.files import sha256_of

from ..control.gather import checksum_on_node
from .base import Testbed


def upload(testbed: Testbed, node: str, source: Path, file: str) -> str:
    """Upload a file to a node unless the node already has it. Return its path on the node, usable as a command.

    Raises UserError.
    """
    path = testbed.path_on_node(node, file)
    if checksum_on_node(testbed, node, file) != sha256_of(source):
        testbed.put(node, source, file)
    return path if "/" in path else f"./{path}"
