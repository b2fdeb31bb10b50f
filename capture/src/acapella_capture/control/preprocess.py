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
NO_PROGRAM = 127
WORK_S = 3600  # for a node to read and write a capture
CARRIED = "acapella-anonymize"  # make setup-fabric
KEY = "acapella-key"


def preprocessed(testbed: Testbed, node: str, file: str, settings: PreprocessSettings) -> list[str]:
    """Anonymize a node's file in place; what is to be noted of it.

    Raises UserError where that cannot be done: then the capture stays on the node, as it is, and may not be fetched.
    """
    if not settings.anonymize:
        return []
    path = testbed.place(node, file)
    made = f"{path}.anonymized"
    try:
        if carries(testbed.name, settings):
            run_carried(testbed, node, path, made, settings)
        else:
            words = ["anonymize", path, "-o", made, "--key-file", str(settings.key_file), "--macs", settings.macs]
            succeed(testbed, node, [program_of(testbed, settings), *words])
        succeed(testbed, node, ["mv", "-f", made, path])
    except UserError:
        with contextlib.suppress(UserError):  # of a node that is out of reach: what went wrong first is told
            testbed.run(node, ["rm", "-f", made])  # a part of it, of a program that was killed: the disk may be full
        raise
    return [NOTE]


def check(testbed: str, settings: PreprocessSettings) -> None:
    """Raises UserError where what would be brought to the nodes is not here, before anything is asked for."""
    if settings.anonymize and carries(testbed, settings):
        carried_program()
        read_key(str(settings.key_file))


def carries(testbed: str, settings: PreprocessSettings) -> bool:
    """Whether program and key are brought to the nodes; then `key_file` is a file here."""
    return testbed == "fabric" and settings.program is None


def run_carried(testbed: Testbed, node: str, path: str, made: str, settings: PreprocessSettings) -> None:
    """Anonymize with a program, lists and a key that are brought there. The key does not stay."""
    program = carried_program()
    places = [bring(testbed, node, each, each.name) for each in (program, *vendor_lists())]
    try:
        key = bring(testbed, node, Path(str(settings.key_file)), KEY, again=True)
        succeed(testbed, node, [places[0], path, made, key, settings.macs, *places[1:]])
    finally:
        testbed.run(node, ["rm", "-f", testbed.place(node, KEY)])


def bring(testbed: Testbed, node: str, source: Path, file: str, *, again: bool = False) -> str:
    """Have a file on a node, which may have it already; its path there, by which it can be run."""
    place = testbed.place(node, file)
    place = place if "/" in place else f"./{place}"
    if again or testbed.run(node, ["test", "-f", place]).status != 0:
        try:
            testbed.put(node, source, file)
        except UserError as error:
            raise UserError(f"not anonymized, so not fetched: {error}", where=f"node {node}") from error
    return place


def carried_program() -> Path:
    """The program that is brought to nodes. Raises UserError where it was not built."""
    program = Path(sys.executable).with_name(CARRIED)
    if not program.is_file():
        raise UserError(f"no {CARRIED} here, which would be put on the nodes", where="preprocess",
                        fix="make setup-fabric tells why")  # fmt: skip
    return program


def vendor_lists() -> list[Path]:
    """The lists of vendors of the tshark here; none where it has none: `acapella anonymize` does without as well."""
    directory = Path("/usr/share/wireshark")
    lists = [directory / name for name in ("manuf", "wka")]
    return lists if all(path.is_file() for path in lists) else []


def succeed(testbed: Testbed, node: str, argv: Sequence[str]) -> None:
    """Run a program on a node. Raises UserError where it fails: what it was for is not fetched then."""
    done = testbed.run(node, argv, timeout_s=WORK_S)
    if done.status == NO_PROGRAM:
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
