"""Anonymizes a capture on the node that took it, before it is fetched, if the config requests it.

On testbed fabric, the program, the vendor lists and the key are uploaded, unless `preprocess.program` is set: a node
that is allocated for the collection has no software installed, but the user's own node may have it. The key is deleted
as soon as the program has ended. On other testbeds, the node has its own `acapella` and key. The key never appears in a
command line or log. Without a key, nothing is fetched.
"""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from acapella_core.anonymize import read_key
from acapella_core.errors import UserError

from ..settings import PreprocessSettings
from ..testbeds.base import Testbed
from ..testbeds.uploads import upload

OUTPUT_SUFFIX = ".anonymized"  # of the output, until it replaces the capture
NOTE = "anonymized on its node before it was fetched: headers only, pseudonyms for addresses (docs/release.md)"
COMMAND_NOT_FOUND = 127
TIMEOUT_S = 3600  # time for a node to process a capture
PROGRAM = "acapella-anonymize"  # built by make setup-fabric
KEY = "acapella-key"


def preprocess(testbed: Testbed, node: str, file: str, settings: PreprocessSettings) -> list[str]:
    """Anonymize a node's file in place; return notes for the manifest.

    Raises UserError if that fails: the capture on the node is then unchanged and must not be fetched.
    """
    if not settings.anonymize:
        return []
    path = testbed.path_on_node(node, file)
    output = f"{path}{OUTPUT_SUFFIX}"
    try:
        if uploads_program(testbed.name, settings):
            run_uploaded(testbed, node, path, output, settings)
        else:
            arguments = ["anonymize", path, "-o", output, "--key-file", str(settings.key_file), "--macs", settings.macs]
            run_checked(testbed, node, [program_of(testbed, settings), *arguments])
        run_checked(testbed, node, ["mv", "-f", output, path])
    except UserError:
        with contextlib.suppress(UserError):  # node unreachable: report the first error
            testbed.run(node, ["rm", "-f", output])  # incomplete output of a killed program; the disk may be full
        raise
    return [NOTE]


def check(testbed: str, settings: PreprocessSettings) -> None:
    """Raise UserError if a file to be uploaded to the nodes is missing, before any resource is requested."""
    if settings.anonymize and uploads_program(testbed, settings):
        anonymizer_program()
        read_key(str(settings.key_file))


def uploads_program(testbed: str, settings: PreprocessSettings) -> bool:
    """Return whether program and key are uploaded to the nodes; `key_file` is then a local file."""
    return testbed == "fabric" and settings.program is None


def run_uploaded(testbed: Testbed, node: str, path: str, output: str, settings: PreprocessSettings) -> None:
    """Anonymize with an uploaded program, vendor lists and key, and delete the key."""
    program = anonymizer_program()
    try:
        try:
            paths = [upload(testbed, node, file, file.name) for file in (program, *vendor_lists())]
            key = upload(testbed, node, Path(str(settings.key_file)), KEY)
        except UserError as error:
            raise UserError(f"not anonymized, so not fetched: {error}", where=f"node {node}") from error
        run_checked(testbed, node, [paths[0], path, output, key, settings.macs, *paths[1:]])
    finally:
        testbed.run(node, ["rm", "-f", testbed.path_on_node(node, KEY)])


def anonymizer_program() -> Path:
    """Return the path of the program to upload. Raises UserError if it was not built."""
    program = Path(sys.executable).with_name(PROGRAM)
    if not program.is_file():
        raise UserError(f"{PROGRAM}, which is needed on the nodes, is missing", where="preprocess",
                        fix="run make setup-fabric and read its messages")  # fmt: skip
    return program


def vendor_lists() -> list[Path]:
    """Return the vendor lists of the local tshark, if any; `acapella anonymize` works without them."""
    directory = Path("/usr/share/wireshark")
    lists = [directory / name for name in ("manuf", "wka")]
    return lists if all(path.is_file() for path in lists) else []


def run_checked(testbed: Testbed, node: str, argv: Sequence[str]) -> None:
    """Run a program on a node. Raises UserError if it fails; the capture is then not fetched."""
    result = testbed.run(node, argv, timeout_s=TIMEOUT_S)
    if result.status == COMMAND_NOT_FOUND:
        raise UserError(f"not anonymized, so not fetched: no {Path(argv[0]).name} on the node",
                        where=f"node {node}")  # fmt: skip
    if result.status != 0:
        lines = result.stderr.strip().splitlines()
        cause = lines[-1] if lines else f"exit status {result.status}"
        raise UserError(f"not anonymized, so not fetched: {cause}", where=f"node {node}")


def program_of(testbed: Testbed, settings: PreprocessSettings) -> str:
    """Return the program's name on the node. On testbed local, it is next to the Python interpreter."""
    if settings.program:
        return settings.program
    return str(Path(sys.executable).with_name("acapella")) if testbed.name == "local" else "acapella"
