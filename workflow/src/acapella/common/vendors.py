"""The vendors of MAC addresses that the installed tshark knows.

No header field indicates whether an Ethernet pseudowire over MPLS has a control word (RFC 4448). tshark 4.0 looks up
the vendors of the two MAC addresses with which the payload would start without a control word, in lists that are
installed with it. The core reads the same lists to decide in the same way. Later versions have no such files and use
other rules. With these, the core cannot determine the headers of such frames with certainty.

Without tshark, the core uses vendors.txt, the prefixes that IEEE had assigned when workflow/setup/vendors.py generated
it. It has fewer prefixes than the lists of tshark.
"""

import functools
import hashlib
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acapella_core import _native
from acapella_core.errors import UserError

from . import tshark

VERSIONS = "4.0."
FILES = ("manuf", "wka")  # in the order in which tshark reads them
INCLUDED = Path(__file__).with_name("vendors.txt")
SOURCE = re.compile(r"^# version: (.+)$", re.MULTILINE)
DIRECTORY = re.compile(r"^Global configuration:\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Vendors:
    """The vendors in the form that the core uses, and the SHA-256 of each list.

    ``version``: version of tshark, or of the included list.
    """

    core: "_native.Vendors"
    version: str
    sha256: dict[str, str]
    included: bool = False

    def metadata(self) -> dict:
        """Return the record of the lists for the metadata of a digest."""
        if self.included:
            return {"tshark": None, "included": self.version, "sha256": self.sha256}
        return {"tshark": self.version, "sha256": self.sha256}


def find(program: tshark.Tshark | None = None) -> Vendors | None:
    """Return the vendors that ``program`` knows (default: the tshark on the PATH, or the included list if there is
    none).

    Return None if tshark has no lists of vendors in files.
    """
    try:
        program = program or tshark.find()
    except UserError:
        return included()
    if not program.version.startswith(VERSIONS):
        return None
    directory = directory_of(program)
    if directory is None:
        return None
    try:
        state = tuple((status.st_ino, status.st_mtime_ns) for status in ((directory / name).stat() for name in FILES))
    except OSError:
        return None
    return read(directory, program.version, state)


def lists() -> tuple[dict | None, dict[str, bytes]]:
    """Return the metadata of the lists that `find` uses, and their contents by name, as the core reads them.

    Without lists, return None and no contents.
    """
    installed = find()
    if installed is None:
        return None, {}
    if installed.included:
        return installed.metadata(), {INCLUDED.name: expanded(INCLUDED.read_text(encoding="ascii"))}
    directory = directory_of(tshark.find())
    return installed.metadata(), {name: (directory / name).read_bytes() for name in FILES}


@functools.cache
def read(directory: Path, version: str, state: tuple) -> Vendors | None:
    """Return the vendors of the lists in ``directory``; None if one of them cannot be read.

    They are cached for processes that fork others, such as `acapella campaign batch`. ``state``: state of the lists'
    files.
    """
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


@functools.cache
def included() -> Vendors:
    """Return the vendors of the list that the package includes (cached)."""
    text = INCLUDED.read_bytes()
    listing = text.decode("ascii")
    core = _native.Vendors()
    core.add(expanded(listing))
    return Vendors(core, SOURCE.search(listing)[1], {INCLUDED.name: hashlib.sha256(text).hexdigest()}, included=True)


def expanded(listing: str) -> bytes:
    """Return an included list in the format of tshark's lists."""
    return "".join(f"{prefix}\t\n" for prefix in prefixes(listing)).encode()


def prefixes(listing: str) -> Iterator[str]:
    """Yield the prefixes of an included list, as ``00:1b:21``. A word such as 001b:21-23,ff contains four."""
    lines = (line for line in listing.splitlines() if not line.startswith("#"))
    for word in " ".join(lines).split():
        head, _, parts = word.partition(":")
        for part in parts.split(","):
            first, _, last = part.partition("-")
            for third in range(int(first, 16), int(last or first, 16) + 1):
                yield f"{head[:2]}:{head[2:]}:{third:02x}"


def directory_of(program: tshark.Tshark) -> Path | None:
    """Return tshark's data directory; None if it is unknown.

    It is usually ../share/wireshark, relative to the program. Otherwise tshark has to report it, which is slow.
    """
    default = Path(program.path).resolve().parents[1] / "share" / "wireshark"
    if (default / FILES[0]).is_file():
        return default
    try:
        listing = subprocess.run(
            [program.path, "-G", "folders"],
            capture_output=True,
            text=True,
            env=tshark.environment(),
            check=False,
            timeout=tshark.VERSION_S,
        )
    except subprocess.TimeoutExpired:
        return None
    match = DIRECTORY.search(listing.stdout)
    return Path(match[1]) if match else None
