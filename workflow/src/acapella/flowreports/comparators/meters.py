"""Runs other flow meters on files: softflowd, nfpcapd with nfdump, Zeek.

Each writes text that the SELECT of the same name in workflow/sql/comparators reads. The counters of softflowd and
nfpcapd are extracted from their output.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella.common import decompression, exits
from acapella_core import confinement
from acapella_core.errors import UserError

UNCOMPRESSED = {  # magic numbers of captures that libpcap can read
    bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "0a0d0d0a")
}
NO_TIMEOUT_S = 604_800  # softflowd's maximum timeout, so that a flow is one record, which ends with the capture
MAX_FLOWS = 10_000_000  # with softflowd's default of 8,192, flows would be expired early
SOFTFLOWD_TIMEOUTS = ("tcp", "tcp.rst", "tcp.fin", "udp", "icmp", "general", "maxlife", "expint")
NFPCAPD_EXPIRE_S = 3_600  # its maximum
ROTATION_S = 999_999  # interval of nfpcapd's files, for as few files as possible
ERROR_LINE = re.compile(r"(?i)error|fail|cannot|exiting on|truncated")  # softflowd's first line is a banner
NFDUMP_COLUMNS = "fmt:%sa|%da|%pr|%sp|%dp|%pkt|%byt"


STANDARD_INPUT = Path("/dev/stdin")
NO_EDITCAP = "compressed or truncated, and editcap is missing"
TOO_LARGE = "exceeds the decompression limits, or half of the free space in TMPDIR"


class CopyTooLargeError(UserError):
    """A capture that is too large when decompressed."""


class NoEditcapError(UserError):
    """A capture that meters can read only with editcap, which is missing."""


@dataclass(frozen=True)
class Meter:
    """A flow meter: its program, how to install it, the option that prints its version, and the function that runs it.

    ``read(capture, directory, source)`` returns the file that the meter's SELECT reads, and the meter's counters;
    ``capture`` may be standard input, which is then ``source``, if the meter ``streams``.
    """

    program: str
    install: str
    version_option: tuple[str, ...]
    read: Callable[..., tuple[Path, dict]]
    streams: bool = True

    def why_unavailable(self) -> str | None:
        """Return why the meter cannot run; None if it can."""
        return None if which(self.program) else f"{self.program} is not installed ({self.install})"

    def version(self) -> str:
        """Return the version number that the meter prints."""
        result = subprocess.run(
            [which(self.program), *self.version_option], capture_output=True, text=True, check=False
        )
        match = re.search(r"\d+\.\d+(?:\.\d+)*", result.stdout + result.stderr)
        return match[0] if match else "unknown"


def which(program: str) -> str | None:
    """Return a program's path; also search the sbin directories (softflowd is in one) and Zeek's directory."""
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/local/sbin:/opt/zeek/bin")


def is_uncompressed(capture: Path) -> bool:
    """Return whether a capture is uncompressed, so that libpcap can read it."""
    with capture.open("rb") as stream:
        return stream.read(4) in UNCOMPRESSED


@contextlib.contextmanager
def complete_frames(capture: Path, limits=None) -> Iterator[int]:
    """Yield a pipe with the complete frames of a capture, decompressed; nothing is written to disk.

    ``limits``: decompression limits (acapella_core.decompression; default: those of the core). Raises UserError,
    CopyTooLargeError if the capture exceeds them, and NoEditcapError. If the machine ended editcap, errors in the
    context are a consequence.
    """
    editcap = which("editcap")
    if not editcap:
        raise NoEditcapError(NO_EDITCAP, where=capture, fix="apt-get install wireshark-common", outside=True)
    command = [editcap, "-F", "nsecpcap", "-", "-"]
    with decompression.streamed([capture], [decompression.ALL], limits) as streams:
        source, _ = streams.descriptors
        pipes = {"stdin": source, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        error = None
        with started(command, **pipes) as process:
            try:
                yield process.stdout.fileno()
            except UserError as caught:
                error = caught
    if process.returncode != -signal.SIGPIPE and exits.is_outside(process.returncode):
        raise UserError(f"editcap failed ({exits.describe(process.returncode)})", where=capture, outside=True)
    if error is not None:
        raise error
    if streams.faults and streams.faults[0].kind == "decompression_limit":
        raise CopyTooLargeError(TOO_LARGE, where=capture, fix="raise the limits if you trust the capture")


def read_complete_frames(meter: Meter, capture: Path, directory: Path, limits=None) -> tuple[Path, dict]:
    """Run a meter on the complete frames of a capture. A meter that only reads files gets a copy in ``directory``.

    nfpcapd 1.7.1 needs the copy: it rejects a FIFO and a pipe as /dev/stdin because they are not regular files, and
    "-" because no file has this name.

    Raises UserError, and CopyTooLargeError if the copy exceeds the limits or half of the free space.
    """
    with complete_frames(capture, limits) as frames:
        if meter.streams:
            try:
                return meter.read(STANDARD_INPUT, directory, frames)
            except UserError as error:
                text = str(error).replace(str(STANDARD_INPUT), str(capture))
                raise UserError(text, outside=error.outside) from error
        space = os.statvfs(directory)
        max_bytes = space.f_bavail * space.f_frsize // 2
        copy = directory / "plain.pcap"
        with open(frames, "rb", closefd=False) as source, copy.open("wb") as target:
            while block := source.read(1 << 20):
                if target.tell() + len(block) > max_bytes:
                    fix = "set TMPDIR to a larger file system"
                    raise CopyTooLargeError(TOO_LARGE, where=capture, fix=fix)
                target.write(block)
    return meter.read(copy, directory)


def started(command: Sequence[str], writable: Sequence[Path] = (), **options) -> subprocess.Popen:
    """Start a confined program. Raises UserError if it cannot be started."""
    try:
        return confinement.start(command, writable, **options)
    except OSError as error:
        raise exits.not_started(command[0], error) from error


def run_tool(
    command: Sequence[str], directory: Path, name: str, where: Path, source: int = subprocess.DEVNULL
) -> tuple[Path, Path]:
    """Run a command in ``directory`` with standard input from ``source``; return the files of its output and errors.

    Raises UserError.
    """
    output_file, error_file = directory / f"{name}.out", directory / f"{name}.err"
    with output_file.open("wb") as output, error_file.open("wb") as errors:
        environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C"}
        streams = {"stdin": source, "stdout": output, "stderr": errors}
        process = started(command, [directory], **streams, cwd=directory, env=environment)
        try:
            process.wait()
        finally:  # even after an interrupt
            process.kill()
            process.wait()
    if process.returncode:
        lines = [line for line in error_file.read_text(errors="replace").splitlines() if line.strip()]
        reason = next(filter(ERROR_LINE.search, lines), lines[0] if lines else f"exit code {process.returncode}")
        if exits.is_outside(process.returncode):
            what = f"{Path(command[0]).name} failed ({exits.describe(process.returncode)}): {reason}"
            raise UserError(what, where=where, outside=True)
        raise UserError(f"{Path(command[0]).name} cannot read the capture: {reason}", where=where)
    return output_file, error_file


def counters(text: str, patterns: dict[str, str]) -> dict[str, int]:
    """Return the numbers that ``patterns`` find in a tool's output, by name; the last match of each."""
    matches = {name: re.findall(pattern, text) for name, pattern in patterns.items()}
    return {name: int(numbers[-1]) for name, numbers in matches.items() if numbers}


def softflowd(capture: Path, directory: Path, source: int = subprocess.DEVNULL) -> tuple[Path, dict]:
    """Run softflowd; its log contains a line for each flow that has ended, and its statistics count ignored packets."""
    timeouts = [argument for name in SOFTFLOWD_TIMEOUTS for argument in ("-t", f"{name}={NO_TIMEOUT_S}")]
    command = [which("softflowd"), "-D", "-r", str(capture), "-m", str(MAX_FLOWS), *timeouts]
    statistics, log = run_tool(
        [*command, "-p", str(directory / "softflowd.pid"), "-c", "none"], directory, "softflowd", capture, source
    )
    patterns = {
        "processed": r"Packets processed: (\d+)",
        "ignored": r"Ignored packets: (\d+)",
        "not_ip": r"Ignored packets: .*?(\d+) non-IP",
        "too_short": r"Ignored packets: .*?(\d+) too short",
        "forced_out": r"Flows expired: \d+ \((\d+) forced\)",
    }
    return log, counters(statistics.read_text(errors="replace"), patterns)


def nfdump(capture: Path, directory: Path, source: int = subprocess.DEVNULL) -> tuple[Path, dict]:
    """Run nfpcapd, which writes flow files, and nfdump, which prints them."""
    flow_files = directory / "nfpcapd"
    flow_files.mkdir()
    expire = f"{NFPCAPD_EXPIRE_S},{NFPCAPD_EXPIRE_S}"
    command = [which("nfpcapd"), "-r", str(capture), "-w", str(flow_files), "-e", expire, "-t", str(ROTATION_S)]
    _, log = run_tool(command, directory, "nfpcapd", capture, source)
    printed, _ = run_tool(
        [which("nfdump"), "-R", str(flow_files), "-q", "-N", "-6", "-o", NFDUMP_COLUMNS], directory, "nf", capture
    )
    patterns = {
        "processed": r"Total: Processed: (\d+)",
        "skipped": r"Total: .*skipped: (\d+)",
        "too_short": r"Total: .*short caplen: (\d+)",
        "unknown": r"Total: .*unknown: (\d+)",
    }
    return printed, counters(log.read_text(errors="replace"), patterns)


def zeek(capture: Path, directory: Path, source: int = subprocess.DEVNULL) -> tuple[Path, dict]:
    """Run Zeek with only its connection log, as in the paper; ignore checksums because of offload."""
    command = [which("zeek"), "-b", "-C", "-r", str(capture), "base/protocols/conn", "LogAscii::use_json=T"]
    run_tool(command, directory, "zeek", capture, source)
    log = directory / "conn.log"
    log.touch()  # not written if there is no connection
    return log, {}


METERS = {
    "softflowd": Meter("softflowd", "apt-get install softflowd", ("-h",), softflowd),
    "nfdump": Meter("nfpcapd", "apt-get install nfdump", ("-V",), nfdump, streams=False),
    "zeek": Meter("zeek", "no Debian 12 package", ("--version",), zeek),
}
