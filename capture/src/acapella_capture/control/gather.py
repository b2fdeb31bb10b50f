"""Brings a node's file here: compressed there where that is asked for, compared by checksum, and only then deleted."""

import re
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from ..settings import CollectSettings
from ..testbeds.base import Testbed

SHA256 = re.compile(r"\\?([0-9a-f]{64}) ")  # sha256sum(1); the backslash where the name has odd characters
COMMAND_NOT_FOUND = 127
TIMEOUT_S = 3600  # for a node to compress a capture, or to read it for its checksum


def gather(testbed: Testbed, node: str, file: str, raw: Path, settings: CollectSettings) -> Path:
    """Bring a file into a directory; its path there, with `.zst` where it was compressed.

    Raises UserError where that cannot be done or what comes has never the node's checksum; it stays on the node then.
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
        found = sha256_of(target)
        if expected is None or found == expected:
            delete_on_node(testbed, node, file)
            return target
        fault = UserError(f"fetched with checksum {found[:12]}..., on {node} it is {expected[:12]}...", where=target)
        target.unlink()
    raise fault


def compress(testbed: Testbed, node: str, file: str) -> str:
    """Compress a node's file in place with zstd; the new name, the old one where the node has no zstd.

    Raises UserError with what zstd said.
    """
    path = testbed.path_on_node(node, file)
    done = testbed.run(node, ["zstd", "-q", "-f", "--rm", path, "-o", f"{path}.zst"], timeout_s=TIMEOUT_S)
    if done.status == COMMAND_NOT_FOUND:
        return file
    if done.status != 0:
        said = done.stderr.strip().splitlines()
        raise UserError(f"zstd failed: {said[-1] if said else done.status}", where=f"node {node}")
    return f"{file}.zst"


def checksum_on_node(testbed: Testbed, node: str, file: str) -> str | None:
    """SHA-256 of a node's file as the node reads it; None where the node cannot say."""
    done = testbed.run(node, ["sha256sum", testbed.path_on_node(node, file)], timeout_s=TIMEOUT_S)
    found = SHA256.match(done.stdout)
    return found[1] if found and done.status == 0 else None


def delete_on_node(testbed: Testbed, node: str, file: str) -> None:
    """Delete a node's file; harmless where it is gone."""
    testbed.run(node, ["rm", "-f", testbed.path_on_node(node, file)])
