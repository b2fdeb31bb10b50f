"""What is done to a capture on the node that took it, before it leaves: anonymized, where that is asked for.

Nodes of testbed fabric are ours alone, for a while, and have nothing installed: the program, lists of vendors and the
key are brought there, and the key is deleted as soon as the program has ended. Elsewhere a node has its own `acapella`
and key. The key is in no command line and no log; where it is missing nothing is fetched.
"""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from acapella_core.anonymize import read_key
from acapella_core.errors import UserError

from ..settings import PreprocessSettings
from ..testbeds.base import Testbed

NOTE = "anonymized on its node, before it was fetched: headers alone, pseudonyms for addresses (docs/release.md)"
COMMAND_NOT_FOUND = 127
TIMEOUT_S = 3600  # for a node to read and write a capture
PROGRAM = "acapella-anonymize"  # make setup-fabric
KEY = "acapella-key"


def preprocess(testbed: Testbed, node: str, file: str, settings: PreprocessSettings) -> list[str]:
    """Anonymize a node's file in place; what is to be noted of it.

    Raises UserError where that cannot be done: then the capture stays on the node, as it is, and may not be fetched.
    """
    if not settings.anonymize:
        return []
    path = testbed.path_on_node(node, file)
    output = f"{path}.anonymized"
    try:
        if uploads_program(testbed.name, settings):
            run_uploaded(testbed, node, path, output, settings)
        else:
            arguments = ["anonymize", path, "-o", output, "--key-file", str(settings.key_file), "--macs", settings.macs]
            run_checked(testbed, node, [program_of(testbed, settings), *arguments])
        run_checked(testbed, node, ["mv", "-f", output, path])
    except UserError:
        with contextlib.suppress(UserError):  # of a node that is out of reach: what went wrong first is told
            testbed.run(node, ["rm", "-f", output])  # a part of it, of a program that was killed: the disk may be full
        raise
    return [NOTE]


def check(testbed: str, settings: PreprocessSettings) -> None:
    """Raises UserError where what would be brought to the nodes is not here, before anything is asked for."""
    if settings.anonymize and uploads_program(testbed, settings):
        anonymizer_program()
        read_key(str(settings.key_file))


def uploads_program(testbed: str, settings: PreprocessSettings) -> bool:
    """Whether program and key are brought to the nodes; then `key_file` is a file here."""
    return testbed == "fabric" and settings.program is None


def run_uploaded(testbed: Testbed, node: str, path: str, output: str, settings: PreprocessSettings) -> None:
    """Anonymize with a program, lists and a key that are brought there. The key does not stay."""
    program = anonymizer_program()
    places = [upload(testbed, node, each, each.name) for each in (program, *vendor_lists())]
    try:
        key = upload(testbed, node, Path(str(settings.key_file)), KEY, again=True)
        run_checked(testbed, node, [places[0], path, output, key, settings.macs, *places[1:]])
    finally:
        testbed.run(node, ["rm", "-f", testbed.path_on_node(node, KEY)])


def upload(testbed: Testbed, node: str, source: Path, file: str, *, again: bool = False) -> str:
    """Have a file on a node, which may have it already; its path there, by which it can be run."""
    place = testbed.path_on_node(node, file)
    place = place if "/" in place else f"./{place}"
    if again or testbed.run(node, ["test", "-f", place]).status != 0:
        try:
            testbed.put(node, source, file)
        except UserError as error:
            raise UserError(f"not anonymized, so not fetched: {error}", where=f"node {node}") from error
    return place


def anonymizer_program() -> Path:
    """The program that is brought to nodes. Raises UserError where it was not built."""
    program = Path(sys.executable).with_name(PROGRAM)
    if not program.is_file():
        raise UserError(f"no {PROGRAM} here, which would be put on the nodes", where="preprocess",
                        fix="make setup-fabric tells why")  # fmt: skip
    return program


def vendor_lists() -> list[Path]:
    """The lists of vendors of the tshark here; none where it has none: `acapella anonymize` does without as well."""
    directory = Path("/usr/share/wireshark")
    lists = [directory / name for name in ("manuf", "wka")]
    return lists if all(path.is_file() for path in lists) else []


def run_checked(testbed: Testbed, node: str, argv: Sequence[str]) -> None:
    """Run a program on a node. Raises UserError where it fails: what it was for is not fetched then."""
    done = testbed.run(node, argv, timeout_s=TIMEOUT_S)
    if done.status == COMMAND_NOT_FOUND:
        raise UserError(f"not anonymized, so not fetched: there is no {Path(argv[0]).name} on the node",
                        where=f"node {node}")  # fmt: skip
    if done.status != 0:
        lines = done.stderr.strip().splitlines()
        raise UserError(f"not anonymized, so not fetched: {lines[-1] if lines else done.status}", where=f"node {node}")


def program_of(testbed: Testbed, settings: PreprocessSettings) -> str:
    """The program on the node; a node of the local testbed is this machine, where it is beside our Python."""
    if settings.program:
        return settings.program
    return str(Path(sys.executable).with_name("acapella")) if testbed.name == "local" else "acapella"
