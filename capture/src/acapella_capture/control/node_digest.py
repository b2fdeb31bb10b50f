"""Digest of a capture on the node that recorded it (config key collect.digest_on: node).

The node needs no other software: acapella-digest is linked statically and uploaded, with the vendor lists that
`acapella digest` uses here. Only the digest is fetched; rule digest creates the Parquet files from it. The files are
therefore the same as with engine native on this machine. The capture is deleted on the node.
"""

import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import sha256_of

from ..plan.samples import PlannedSample
from ..scan import Facts, facts_of
from ..settings import CollectSettings
from ..testbeds.base import Testbed
from ..testbeds.uploads import upload
from .gather import checksum_on_node, delete_on_node, gather
from .sampling import ActiveSample

PROGRAM = "acapella-digest"  # built by make setup-fabric
SUFFIX = ".columns"
MEMORY_BYTES = (
    2 << 30
)  # memory for flows and header stacks, like the default of digest.memory_mb; about 330 bytes per flow
OWN_NODE_DIVISOR = 4  # on a node of the user, at most a quarter of the available memory is used
MEM_AVAILABLE = re.compile(r"(?m)^MemAvailable:\s+([0-9]{1,15}) kB$")
# Runs a command at the lowest CPU priority, and as the first to be killed if memory runs out (proc(5)).
LOW_PRIORITY = 'echo 1000 > /proc/self/oom_score_adj; exec nice -n 19 "$@"'
GB = 10**9
TIMEOUT_S = 3600  # time for a node to digest a capture
READ_S = 60
ENTRY_POINT = "acapella.node_digest"  # entry-point group of the package that provides `acapella digest`


class CannotDigest(UserError):
    """The node cannot digest a capture. The capture is still on the node."""


@dataclass(frozen=True)
class NodeDigest:
    """A fetched digest: its path, the facts about the capture, and the capture's SHA-256 and size."""

    path: Path
    facts: Facts
    sha256: str
    bytes: int

    def manifest_key(self) -> dict[str, Any]:
        """Return manifest key `node_digest`."""
        return {
            "file": self.path.name,
            "sha256": sha256_of(self.path),
            "bytes": self.path.stat().st_size,
            "engine": "native",
            "program_sha256": sha256_of(digest_program()),
        }


def digest_program() -> Path:
    """Return the path of the program for the nodes. Raises UserError if it was not built."""
    program = Path(sys.executable).with_name(PROGRAM)
    if not program.is_file():
        raise UserError(f"{PROGRAM}, which is needed on the nodes, is missing", where="collect.digest_on",
                        fix="run make setup-fabric and read its messages, or set collect.digest_on: here")  # fmt: skip
    return program


def preparation() -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the record that the digest has to contain, and the vendor lists by name. Raises UserError."""
    for entry in entry_points(group=ENTRY_POINT):
        prepare: Callable[[], tuple[dict[str, Any], dict[str, bytes]]] = entry.load()
        return prepare()
    raise UserError("the package acapella is not installed", where="collect.digest_on", fix="run make setup")


def check() -> None:
    """Raise UserError if something that the nodes need is missing, before any resource is requested."""
    digest_program()
    preparation()


def deliver_digest(testbed: Testbed, sample: ActiveSample, raw: Path, settings: CollectSettings) -> NodeDigest:
    """Digest a capture on its node, fetch the digest, and delete the capture.

    If the capture ended early, an incomplete last record is removed first. Raises CannotDigest if the node cannot
    digest the capture, UserError if the digest cannot be fetched.
    """
    node, planned = sample.instance.name, sample.planned
    file, columns = planned.file, f"{planned.name}{SUFFIX}"
    try:
        facts = digest(testbed, node, planned, columns, settings)
        if sample.ended_early and facts.fault and facts.whole_bytes is not None and file.endswith(".pcap"):
            run_checked(testbed, node, ["truncate", "-s", str(facts.whole_bytes), testbed.path_on_node(node, file)])
            facts = digest(testbed, node, planned, columns, settings)
        size = size_on_node(testbed, node, file)
        checksum = checksum_on_node(testbed, node, file)
        if checksum is None:
            raise CannotDigest("sha256sum failed", where=f"node {node}")
    except CannotDigest:
        delete_on_node(testbed, node, columns)
        raise
    path = gather(testbed, node, columns, raw, replace(settings, compress=True))
    delete_on_node(testbed, node, file)
    return NodeDigest(path, facts, checksum, size)


def digest(testbed: Testbed, node: str, planned: PlannedSample, columns: str, settings: CollectSettings) -> Facts:
    """Write the digest of a capture to a file on its node; return the facts about the capture. Raises CannotDigest."""
    record, lists = preparation()
    record |= {"site": planned.site.name, "port": planned.port.name}
    program, vendors = programs_on_node(testbed, node, lists)
    memory = memory_limit(testbed, node, settings)
    paths = [testbed.path_on_node(node, file) for file in (planned.file, columns)]
    argv = [program, *paths, record["site"], record["port"], str(memory), json.dumps(record, sort_keys=True), *vendors]
    if not testbed.allocates:
        argv = ["sh", "-c", LOW_PRIORITY, "sh", *argv]
    printed = run_checked(testbed, node, argv)
    try:
        return facts_of(json.loads(printed))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise CannotDigest(f"{PROGRAM} printed no facts", where=f"node {node}") from error


def memory_limit(testbed: Testbed, node: str, settings: CollectSettings) -> int:
    """Return the memory that a digest may use on its node, in bytes. Raises CannotDigest.

    On a node of the user, the limit is also a share of the available memory.
    """
    if testbed.allocates:
        return min(MEMORY_BYTES, settings.ram_gb * GB // 2)
    found = MEM_AVAILABLE.search(run_checked(testbed, node, ["cat", "/proc/meminfo"], timeout_s=READ_S))
    if found is None:
        raise CannotDigest("/proc/meminfo has no MemAvailable", where=f"node {node}")
    return min(MEMORY_BYTES, int(found[1]) * 1024 // OWN_NODE_DIVISOR)


def programs_on_node(testbed: Testbed, node: str, lists: dict[str, bytes]) -> tuple[str, list[str]]:
    """Return the paths of the program and of the vendor lists on a node, to which they are uploaded once.

    Raises CannotDigest.
    """
    source, names = digest_program(), [f"vendors-{name}" for name in lists]
    with tempfile.TemporaryDirectory() as directory:
        for name, content in zip(names, lists.values(), strict=True):
            Path(directory, name).write_bytes(content)
        try:
            program = upload(testbed, node, source, PROGRAM)
            return program, [upload(testbed, node, Path(directory, name), name) for name in names]
        except UserError as error:
            raise CannotDigest(str(error)) from error


def size_on_node(testbed: Testbed, node: str, file: str) -> int:
    """Return the size of a node's file in bytes. Raises CannotDigest."""
    printed = run_checked(testbed, node, ["stat", "-c", "%s", testbed.path_on_node(node, file)], timeout_s=READ_S)
    if not re.fullmatch(r"[0-9]{1,18}\n?", printed):
        raise CannotDigest(f"stat printed {printed[:40]!r}", where=f"node {node}")
    return int(printed)


def run_checked(testbed: Testbed, node: str, argv: Sequence[str], timeout_s: float = TIMEOUT_S) -> str:
    """Run a program on a node and return its standard output. Raises CannotDigest if it fails."""
    try:
        result = testbed.run(node, argv, timeout_s=timeout_s)
    except UserError as error:
        raise CannotDigest(str(error)) from error
    if result.status != 0:
        lines = result.stderr.strip().splitlines()
        reason = lines[-1].removeprefix(f"{PROGRAM}: error: ") if lines else f"exit status {result.status}"
        name = PROGRAM if any(Path(word).name == PROGRAM for word in argv) else argv[0]
        raise CannotDigest(f"{name} failed: {reason}", where=f"node {node}")
    return result.stdout
