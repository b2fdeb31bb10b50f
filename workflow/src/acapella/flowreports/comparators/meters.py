"""Flow meters of others, each run over a file: softflowd, nfpcapd with nfdump, Zeek.

Each leaves a text that the SELECT of its name in workflow/sql/comparators reads, and counters of its own.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella.common import decompression
from acapella_core import confinement
from acapella_core.errors import UserError

PLAIN = {  # first bytes of captures that libpcap reads itself
    bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "0a0d0d0a")
}
NEVER_S = 604_800  # softflowd's longest: a flow ends with the capture, and is one record
MOST_FLOWS = 10_000_000  # softflowd's own 8,192 would have it forget flows
SOFTFLOWD_TIMEOUTS = ("tcp", "tcp.rst", "tcp.fin", "udp", "icmp", "general", "maxlife", "expint")
NFPCAPD_EXPIRE_S = 3_600  # the longest that it takes
FILE_S = 999_999  # of nfpcapd's: as few files as can be
COMPLAINT = re.compile(r"(?i)error|fail|cannot|exiting on|truncated")  # softflowd's first line is its greeting
NFDUMP_COLUMNS = "fmt:%sa|%da|%pr|%sp|%dp|%pkt|%byt"


STANDARD_INPUT = Path("/dev/stdin")
TOO_LARGE = "without compression it exceeds the limits on it, or takes more than half of the space in TMPDIR"


class CopyTooLargeError(UserError):
    """A capture that is too large without its compression."""


@dataclass(frozen=True)
class Meter:
    """A flow meter: its program, the Debian package, its version's words, and what runs it over a file.

    ``read(capture, directory, source)`` returns the file that the meter's SELECT takes, and its own counters;
    ``capture`` may be standard input, then ``source``, if the meter ``streams``.
    """

    program: str
    package: str
    ask: tuple[str, ...]
    read: Callable[..., tuple[Path, dict]]
    streams: bool = True

    def missing(self) -> str | None:
        """Why it cannot run; None where it can."""
        return None if which(self.program) else f"{self.program} is not installed ({self.package})"

    def version(self) -> str:
        """The first number with dots that it says of itself."""
        done = subprocess.run([which(self.program), *self.ask], capture_output=True, text=True, check=False)
        found = re.search(r"\d+\.\d+(?:\.\d+)*", done.stdout + done.stderr)
        return found[0] if found else "not told"


def which(program: str) -> str | None:
    """A program's path; softflowd is where administrators keep theirs."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin:/opt/zeek/bin")


def is_plain(capture: Path) -> bool:
    """Return whether libpcap reads a capture itself."""
    with capture.open("rb") as stream:
        return stream.read(4) in PLAIN


@contextlib.contextmanager
def whole_frames(capture: Path, directory: Path, limits=None) -> Iterator[int]:
    """Yield a pipe from which the frames that are whole are read, without compression, and nothing is on the disk.

    ``limits`` on decompression (acapella_core.decompression), by default the core's. Raises UserError,
    CopyTooLargeError if the capture exceeds them.
    """
    editcap = which("editcap")
    if not editcap:
        fix = "apt-get install wireshark-common"
        raise UserError("is compressed or cut, and editcap is missing", where=capture, fix=fix)
    command = [editcap, "-F", "nsecpcap", "-", "-"]
    with decompression.streamed([capture], [decompression.ALL], limits) as streams:
        source, _ = streams.descriptors
        pipes = {"stdin": source, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with confinement.start(command, **pipes) as process:
            yield process.stdout.fileno()
    if streams.faults and streams.faults[0].kind == "decompression_limit":
        raise CopyTooLargeError(TOO_LARGE, where=capture, fix="raise the limits if you trust the capture")


def read_whole(meter: Meter, capture: Path, directory: Path, limits=None) -> tuple[Path, dict]:
    """Return what a meter finds in the whole frames of a capture. One that reads files alone gets a copy in
    ``directory``.

    nfpcapd 1.7.1 is the one: it refuses a FIFO, and a pipe as /dev/stdin, because they are no regular
    files, and "-" because there is no file of this name.

    Raises UserError, CopyTooLargeError if the copy takes more than half of the free space, too.
    """
    with whole_frames(capture, directory, limits) as frames:
        if meter.streams:
            try:
                return meter.read(STANDARD_INPUT, directory, frames)
            except UserError as error:
                raise UserError(str(error).replace(str(STANDARD_INPUT), str(capture))) from error
        space = os.statvfs(directory)
        most = space.f_bavail * space.f_frsize // 2
        copy = directory / "plain.pcap"
        with open(frames, "rb", closefd=False) as source, copy.open("wb") as target:
            while block := source.read(1 << 20):
                if target.tell() + len(block) > most:
                    fix = "set TMPDIR to a larger file system"
                    raise CopyTooLargeError(TOO_LARGE, where=capture, fix=fix)
                target.write(block)
    return meter.read(copy, directory)


def ran(
    command: Sequence[str], directory: Path, name: str, where: Path, source: int = subprocess.DEVNULL
) -> tuple[Path, Path]:
    """Run a command in ``directory``, with standard input from ``source``; the files of what it said on standard output
    and error. Raises UserError.
    """
    said, complained = directory / f"{name}.out", directory / f"{name}.err"
    with said.open("wb") as output, complained.open("wb") as complaints:
        environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C"}
        streams = {"stdin": source, "stdout": output, "stderr": complaints}
        process = confinement.start(command, [directory], **streams, cwd=directory, env=environment)
        try:
            process.wait()
        finally:  # also if we are interrupted
            process.kill()
            process.wait()
    if process.returncode:
        lines = [line for line in complained.read_text(errors="replace").splitlines() if line.strip()]
        why = next(filter(COMPLAINT.search, lines), lines[0] if lines else f"exit code {process.returncode}")
        raise UserError(f"{Path(command[0]).name} cannot read it: {why}", where=where)
    return said, complained


def counters(text: str, patterns: dict[str, str]) -> dict[str, int]:
    """The numbers that ``patterns`` find in what a tool said of its end, by their names; the last of each."""
    found = {name: re.findall(pattern, text) for name, pattern in patterns.items()}
    return {name: int(numbers[-1]) for name, numbers in found.items() if numbers}


def softflowd(capture: Path, directory: Path, source: int = subprocess.DEVNULL) -> tuple[Path, dict]:
    """Its log names every flow when it ends, and its statistics what it ignored."""
    timeouts = [word for name in SOFTFLOWD_TIMEOUTS for word in ("-t", f"{name}={NEVER_S}")]
    command = [which("softflowd"), "-D", "-r", str(capture), "-m", str(MOST_FLOWS), *timeouts]
    said, log = ran(
        [*command, "-p", str(directory / "softflowd.pid"), "-c", "none"], directory, "softflowd", capture, source
    )
    own = {
        "processed": r"Packets processed: (\d+)",
        "ignored": r"Ignored packets: (\d+)",
        "not_ip": r"Ignored packets: .*?(\d+) non-IP",
        "too_short": r"Ignored packets: .*?(\d+) too short",
        "forced_out": r"Flows expired: \d+ \((\d+) forced\)",
    }
    return log, counters(said.read_text(errors="replace"), own)


def nfdump(capture: Path, directory: Path, source: int = subprocess.DEVNULL) -> tuple[Path, dict]:
    """nfpcapd makes files of flows, nfdump prints them."""
    made = directory / "nfpcapd"
    made.mkdir()
    expire = f"{NFPCAPD_EXPIRE_S},{NFPCAPD_EXPIRE_S}"
    command = [which("nfpcapd"), "-r", str(capture), "-w", str(made), "-e", expire, "-t", str(FILE_S)]
    _, complained = ran(command, directory, "nfpcapd", capture, source)
    printed, _ = ran(
        [which("nfdump"), "-R", str(made), "-q", "-N", "-6", "-o", NFDUMP_COLUMNS], directory, "nf", capture
    )
    own = {
        "processed": r"Total: Processed: (\d+)",
        "skipped": r"Total: .*skipped: (\d+)",
        "too_short": r"Total: .*short caplen: (\d+)",
        "unknown": r"Total: .*unknown: (\d+)",
    }
    return printed, counters(complained.read_text(errors="replace"), own)


def zeek(capture: Path, directory: Path, source: int = subprocess.DEVNULL) -> tuple[Path, dict]:
    """Its connection log alone, as the paper has every other script off; checksums are not minded, as offload does."""
    command = [which("zeek"), "-b", "-C", "-r", str(capture), "base/protocols/conn", "LogAscii::use_json=T"]
    ran(command, directory, "zeek", capture, source)
    log = directory / "conn.log"
    log.touch()  # without a connection it writes none
    return log, {}


METERS = {
    "softflowd": Meter("softflowd", "apt-get install softflowd", ("-h",), softflowd),
    "nfdump": Meter("nfpcapd", "apt-get install nfdump", ("-V",), nfdump, streams=False),
    "zeek": Meter("zeek", "none in Debian 12", ("--version",), zeek),
}
