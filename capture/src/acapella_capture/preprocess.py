"""What is done to a capture on the node that took it, before it leaves: `acapella anonymise`, where that is asked for.

The key is on the node, where its user put it. It is no part of what is sent there, so it is in no command line and no
log, and where it is missing nothing is fetched.
"""

import sys
from pathlib import Path

from acapella_core.errors import UserError

from .settings import PreprocessSettings
from .testbeds.base import Testbed

NOTE = "anonymised on its node, before it was fetched: headers alone, pseudonyms for addresses (docs/release.md)"
NO_PROGRAM = 127
WORK_S = 3600  # for a node to read and write a capture


def preprocessed(testbed: Testbed, node: str, file: str, settings: PreprocessSettings) -> list[str]:
    """Anonymise a node's file in place; what is to be noted of it.

    Raises UserError where that cannot be done: then the capture stays on the node, as it is, and may not be fetched.
    """
    if not settings.anonymise:
        return []
    path = testbed.place(node, file)
    made = f"{path}.anonymised"
    words = ["anonymise", path, "-o", made, "--key-file", str(settings.key_file), "--macs", settings.macs]
    done = testbed.run(node, [program_of(testbed, settings), *words], timeout_s=WORK_S)
    if done.status == NO_PROGRAM:
        raise UserError("not anonymised, so not fetched: there is no acapella on the node", where=f"node {node}")
    if done.status != 0:
        lines = done.stderr.strip().splitlines()
        raise UserError(f"not anonymised, so not fetched: {lines[-1] if lines else done.status}", where=f"node {node}")
    done = testbed.run(node, ["mv", "-f", made, path])
    if done.status != 0:
        raise UserError(f"not anonymised, so not fetched: {done.stderr.strip()}", where=f"node {node}")
    return [NOTE]


def program_of(testbed: Testbed, settings: PreprocessSettings) -> str:
    """The program on the node; a node of the local testbed is this machine, where it is beside our Python."""
    if settings.program:
        return settings.program
    return str(Path(sys.executable).with_name("acapella")) if testbed.name == "local" else "acapella"
