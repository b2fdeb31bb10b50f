"""The vendors of addresses as the installed tshark lists them.

No field says whether an Ethernet pseudowire over MPLS has a control word (RFC 4448). tshark 4.0 decides by the vendors
of what would be two addresses without one, from the lists that it is installed with; the core reads the same lists, so
that it decides as tshark does. Later versions have no such files and decide by other rules: there, and without a
tshark, the core is not sure of these frames.
"""

import hashlib
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from acapella_core import _native
from acapella_core.errors import UserError

from . import tshark

VERSIONS = "4.0."
FILES = ("manuf", "wka")  # in the order in which tshark reads them
DIRECTORY = re.compile(r"^Global configuration:\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Vendors:
    """What the core takes, and where it is from: the tshark's version and the SHA-256 of each list."""

    core: "_native.Vendors"
    version: str
    sha256: dict[str, str]

    def told(self) -> dict:
        """What the metadata of a digest says of them."""
        return {"tshark": self.version, "sha256": self.sha256}


def find(program: tshark.Tshark | None = None) -> Vendors | None:
    """The vendors that ``program``, or else the tshark on the PATH, knows; None where none says them in a file."""
    try:
        program = program or tshark.find()
    except UserError:
        return None
    if not program.version.startswith(VERSIONS):
        return None
    directory = directory_of(program)
    return read(directory, program.version) if directory else None


def read(directory: Path, version: str) -> Vendors | None:
    """The lists in ``directory``; None where one of them cannot be read."""
    core = _native.Vendors()
    sha256 = {}
    for name in FILES:
        try:
            text = (directory / name).read_bytes()
        except OSError:
            return None
        core.add(text)
        sha256[name] = hashlib.sha256(text).hexdigest()
    return Vendors(core, version, sha256)


def directory_of(program: tshark.Tshark) -> Path | None:
    """Return tshark's data directory: next to bin/ in a usual installation, else as tshark reports it (slow)."""
    usual = Path(program.path).resolve().parents[1] / "share" / "wireshark"
    if (usual / FILES[0]).is_file():
        return usual
    try:
        told = subprocess.run(
            [program.path, "-G", "folders"],
            capture_output=True,
            text=True,
            env=tshark.environment(),
            check=False,
            timeout=tshark.VERSION_S,
        )
    except subprocess.TimeoutExpired:
        return None
    named = DIRECTORY.search(told.stdout)
    return Path(named[1]) if named else None
