"""Defines the programs that are compared: their command lines, and the flows in their output."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pyarrow.parquet

from acapella.common import tshark
from acapella.flowreports.comparators import meters
from acapella_core.errors import UserError

from ..programs import ROOT, Bench, digest_words, outputs

Flow = tuple[str, str, int, int, int]  # source, destination, protocol, source port, destination port
NFSTREAM = ROOT / "build" / "nfstream" / "bin" / "python"
TSHARK_FIELDS = ("ip.src", "ip.dst", "ip.proto", "tcp.srcport", "tcp.dstport")
TCP = 6


@dataclass(frozen=True)
class Tool:
    """A program. ``commands(capture, directory)``: the command lines from a capture to flows; ``read(output,
    directory)``: the flows in the standard output of the last one, or in a file; ``missing()``: why it cannot run.
    """

    name: str
    about: str
    missing: Callable[[], str | None]
    commands: Callable[[Path, Path], list[list]]
    read: Callable[[bytes, Path], Iterator[Flow]]
    version: Callable[[], str]

    def flows(self, bench: Bench, capture: Path) -> set[Flow]:
        """Return the flows that the program sees in a capture."""
        output = b""
        for words in self.commands(capture, bench.directory):
            output = bench.measure(words, keep=True).stdout
        return set(self.read(output, bench.directory))


def program(name: str, package: str) -> Callable[[], str | None]:
    """Return the function that returns why a program of a Debian package cannot run."""
    return lambda: None if shutil.which(name) or meters.which(name) else f"{name} is not installed: {package}"


def tshark_missing() -> str | None:
    """Return why tshark cannot run."""
    try:
        tshark.find()
    except UserError as error:
        return str(error)
    return None


def nfstream_missing() -> str | None:
    """Return why nfstream cannot run. It has a separate environment, because it needs different package versions."""
    return None if NFSTREAM.exists() else "nfstream is not installed: make build/nfstream"


def table_flows(engine: str) -> Callable[[bytes, Path], Iterator[Flow]]:
    """Return the function that reads the flow table of a digest."""

    def read(_: bytes, directory: Path) -> Iterator[Flow]:
        columns = ["src", "dst", "ip_proto", "src_port", "dst_port"]
        table = pyarrow.parquet.read_table(outputs(directory, engine)[1], columns=columns)
        return zip(*(table[column].to_pylist() for column in columns), strict=True)

    return read


def tshark_commands(capture: Path, _: Path) -> list[list]:
    """Return tshark's command line: a line per frame, with the innermost value of each field."""
    fields = [word for field in TSHARK_FIELDS for word in ("-e", field)]
    words = [tshark.find().path, "-n", "-r", capture, "-T", "fields", "-E", "occurrence=l", "-E", "separator=|"]
    return [[*words, *fields]]


def nfpcapd_commands(capture: Path, directory: Path) -> list[list]:
    """Return the command lines of nfpcapd and of nfdump, which prints the flows of its files."""
    files = directory / "nfpcapd"
    shutil.rmtree(files, ignore_errors=True)
    files.mkdir()
    collect = [meters.which("nfpcapd"), "-r", capture, "-w", files, "-t", meters.ROTATION_S]
    return [collect, [meters.which("nfdump"), "-R", files, "-q", "-N", "-6", "-o", "fmt:%sa|%da|%pr|%sp|%dp"]]


def argus_commands(capture: Path, directory: Path) -> list[list]:
    """Return the command lines of argus and of ra, which prints its flows."""
    written = directory / "argus.out"
    written.unlink(missing_ok=True)
    fields = ["saddr", "daddr", "proto", "sport", "dport", "spkts", "dpkts"]
    read = [meters.which("ra"), "-r", written, "-nn", "-c", "|", "-L", "-1", "-s", *fields]
    return [[meters.which("argus"), "-r", capture, "-w", written], read]


def nfstream_commands(capture: Path, _: Path) -> list[list]:
    """Return the command line of the script that prints the flows of nfstream."""
    return [[NFSTREAM, Path(__file__).with_name("nfstream_flows.py"), capture]]


def lines_of(output: bytes) -> Iterator[list[str]]:
    """Yield the cells of each distinct line of an output; | separates cells."""
    for line in set(output.decode(errors="replace").splitlines()):
        yield [cell.strip() for cell in line.split("|")]


def one_way(output: bytes, _: Path) -> Iterator[Flow]:
    """Yield the TCP flows of lines with a flow each."""
    for cells in lines_of(output):
        if len(cells) == len(TSHARK_FIELDS) and all(cells) and cells[2] == str(TCP):
            yield cells[0], cells[1], TCP, int(cells[3]), int(cells[4])


def two_way(output: bytes, _: Path) -> Iterator[Flow]:
    """Yield the TCP flows of lines with a connection each, and the packets of both directions."""
    for cells in lines_of(output):
        if len(cells) < len(TSHARK_FIELDS) + 2 or cells[2] not in (str(TCP), "tcp"):
            continue
        src, dst, _, src_port, dst_port, forward, reverse = cells[:7]
        if int(forward):
            yield src, dst, TCP, int(src_port), int(dst_port)
        if int(reverse):
            yield dst, src, TCP, int(dst_port), int(src_port)


def digest_commands(engine: str) -> Callable[[Path, Path], list[list]]:
    """Return the function that returns the command line of a digest."""
    return lambda capture, directory: [digest_words(capture, directory, engine)]


def version_of(*words: object) -> Callable[[], str]:
    """Return the function that returns the version number that a program prints."""

    def version() -> str:
        printed = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        number = re.search(r"\d+\.\d+(?:\.\d+)*", printed.stdout + printed.stderr)
        return number[0] if number else "unknown"

    return version


def digest(engine: str, missing: Callable[[], str | None]) -> Tool:
    """Return the tool for an engine of `acapella digest`."""
    about = "acapella digest, to an acap and a flow table"
    return Tool(
        engine, about, missing, digest_commands(engine), table_flows(engine), lambda: metadata.version("acapella")
    )


TOOLS = (
    digest("native", lambda: None),
    digest("hybrid", tshark_missing),
    Tool(
        "tshark",
        f"-T fields with {len(TSHARK_FIELDS)} fields, a line per frame",
        tshark_missing,
        tshark_commands,
        one_way,
        lambda: tshark.find().version,
    ),
    Tool(
        "nfstream",
        "one meter, without application identification",
        nfstream_missing,
        nfstream_commands,
        two_way,
        version_of(NFSTREAM, "-c", "import nfstream; print(nfstream.__version__)"),
    ),
    Tool(
        "nfpcapd",
        "and nfdump, which prints its flows",
        program("nfpcapd", "apt-get install nfdump"),
        nfpcapd_commands,
        one_way,
        meters.METERS["nfdump"].version,
    ),
    Tool(
        "argus",
        "and ra, which prints its flows",
        program("argus", "apt-get install argus-server argus-client"),
        argus_commands,
        two_way,
        version_of(meters.which("argus") or "argus", "-h"),
    ),
)
