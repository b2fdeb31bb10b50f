"""Fetches a file from a node: optionally compresses it there, compares checksums, and then deletes it on the node."""

import re
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from ..settings import CollectSettings
from ..testbeds.base import Testbed

SHA256 = re.compile(r"\\?([0-9a-f]{64}) ")  # sha256sum(1) prints a backslash if the name has special characters
COMPRESSED = ".zst"
COMMAND_NOT_FOUND = 127
TIMEOUT_S = 3600  # time for a node to compress or checksum a capture


def gather(testbed: Testbed, node: str, file: str, raw: Path, settings: CollectSettings) -> Path:
    """Fetch a file into a directory and return its path, with suffix `.zst` if it was compressed.

    Raises UserError if that fails or the checksum never matches the node's; the file then remains on the node.
    """
    if settings.compress:
        file = compress(testbed, node, file)
    expected = checksum_on_node(testbed, node, file)
    target = raw / file
    fault: UserError | None = None
    for _ in range(settings.fetch_tries):
        try:
            testbed.fetch(node, file, target)
        except UserError as error:
            fault = error
            continue
        checksum = sha256_of(target)
        if expected is None or checksum == expected:
            delete_on_node(testbed, node, file)
            return target
        fault = UserError(f"checksum {checksum[:12]}... after the transfer, {expected[:12]}... on {node}", where=target)
        target.unlink()
    raise fault


def compress(testbed: Testbed, node: str, file: str) -> str:
    """Compress a node's file in place with zstd. Return the new name, or the old one if the node has no zstd.

    Raises UserError with the message of zstd.
    """
    path = testbed.path_on_node(node, file)
    result = testbed.run(node, ["zstd", "-q", "-f", "--rm", path, "-o", f"{path}{COMPRESSED}"], timeout_s=TIMEOUT_S)
    if result.status == COMMAND_NOT_FOUND:
        return file
    if result.status != 0:
        lines = result.stderr.strip().splitlines()
        raise UserError(f"zstd failed: {lines[-1] if lines else result.status}", where=f"node {node}")
    return f"{file}{COMPRESSED}"


def checksum_on_node(testbed: Testbed, node: str, file: str) -> str | None:
    """Return the SHA-256 of a file as computed on the node; None if the node cannot compute it."""
    result = testbed.run(node, ["sha256sum", testbed.path_on_node(node, file)], timeout_s=TIMEOUT_S)
    match = SHA256.match(result.stdout)
    return match[1] if match and result.status == 0 else None


def delete_on_node(testbed: Testbed, node: str, *files: str) -> None:
    """Delete files on a node; files that do not exist are ignored."""
    testbed.run(node, ["rm", "-f", *(testbed.path_on_node(node, file) for file in files)])
