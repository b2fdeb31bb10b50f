"""Build acapella-dpdk-capture with ASan and UBSan, run it, and read its files with an independent parser."""

import json
import os
import random
import struct
import subprocess
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from acapella_testing import c_programs
from acapella_testing.frames import pcap_files
from acapella_testing.new_files import write_file
from acapella_testing.oracles import naive_captures
from acapella_testing.processes import run
from acapella_testing.source_tree import ROOT

SOURCE = ROOT / "capture" / "dpdk"
SECOND = 1_000_000_000
FORWARD = ROOT / "p4" / "loader" / "tests" / "forward.spec"
DROP_ARP = "table exact add match 0x0806 action drop_for 3\nreason 3 no-arp\n"  # rules for FORWARD
LIMIT_S = 300  # reached only if the program hangs


def built_or_skip() -> Path:
    """Return the program, built with the sanitizers; skip the test if its libraries are not installed."""
    return c_programs.built_or_skip("acapella-dpdk-capture")


def plain_build() -> Path:
    """Return the directory of the program without sanitizers, as make setup builds it."""
    return c_programs.built_or_skip("acapella-dpdk-capture", c_programs.PLAIN).parent


@dataclass(frozen=True)
class Frame:
    """A record of a capture file."""

    ts_ns: int
    wire: int
    data: bytes
    queue: int | None = None
    hash: bytes | None = None
    number: int | None = None  # epb_packetid


@dataclass
class Pcapng:
    """A pcapng file: its frames, and the options of its interface and statistics blocks, by code."""

    frames: list[Frame] = field(default_factory=list)
    interface: dict[int, bytes] = field(default_factory=dict)
    statistics: list[dict[int, bytes]] = field(default_factory=list)
    snaplen: int = 0
    left: int = 0  # bytes of a truncated block


def pcap_bytes(frames: list[Frame], nanoseconds: bool = False) -> bytes:
    """Return a little-endian Ethernet pcap file."""
    unit_ns = 1 if nanoseconds else 1000
    records = (pcap_files.record(frame.ts_ns, frame.data, frame.wire, unit_ns=unit_ns) for frame in frames)
    return pcap_files.header(unit_ns=unit_ns) + b"".join(records)


def read_pcap(path: Path) -> tuple[list[Frame], int]:
    """Return the whole records of a nanosecond pcap file, and the number of bytes after them."""
    raw = path.read_bytes()
    magic, major, minor, _, _, _, link = struct.unpack_from("<IHHIIII", raw)
    assert (magic, major, minor, link) == (0xA1B23C4D, 2, 4, 1)
    frames, at = [], 24
    while at + 16 <= len(raw):
        seconds, ns, kept, wire = struct.unpack_from("<IIII", raw, at)
        if at + 16 + kept > len(raw):
            break
        assert ns < SECOND and 0 < kept <= wire
        frames.append(Frame(seconds * SECOND + ns, wire, raw[at + 16 : at + 16 + kept]))
        at += 16 + kept
    return frames, len(raw) - at


def options(raw: bytes) -> dict[int, bytes]:
    """Return pcapng options by code; each occurs once."""
    return {code: value for code, (value,) in naive_captures.options("<", raw).items()}


def read_pcapng(path: Path) -> Pcapng:
    """Return the whole blocks of a little-endian pcapng file of one interface with ns timestamps."""
    raw, at, found = path.read_bytes(), 0, Pcapng()
    while at + 12 <= len(raw):
        kind, size = struct.unpack_from("<II", raw, at)
        if at + size > len(raw):
            break
        assert struct.unpack_from("<I", raw, at + size - 4)[0] == size
        body = raw[at + 8 : at + size - 4]
        if kind == 1:
            assert struct.unpack_from("<H", body)[0] == 1
            found.snaplen = struct.unpack_from("<I", body, 4)[0]
            found.interface = options(body[8:])
        elif kind == 5:
            found.statistics.append(options(body[12:]))
        elif kind == 6:
            _, high, low, kept, wire = struct.unpack_from("<IIIII", body)
            extra = options(body[20 + (kept + 3) // 4 * 4 :])
            queue = struct.unpack("<I", extra[6])[0]
            number = struct.unpack("<Q", extra[5])[0] if 5 in extra else None
            found.frames.append(Frame(high << 32 | low, wire, body[20 : 20 + kept], queue, extra.get(3), number))
        else:
            assert kind == 0x0A0D0D0A and at == 0
        at += size
    found.left = len(raw) - at
    return found


def read_capture(path: Path) -> tuple[list[Frame], int]:
    """Return the whole records of a file of either format, and the number of bytes after them."""
    if ".pcapng" in path.name:
        found = read_pcapng(path)
        return found.frames, found.left
    return read_pcap(path)


def fragments() -> list[Frame]:
    """Return two IPv4 fragments of a UDP datagram, which together exceed the MTU."""
    start, end = "02000000000102000000000208 00 4500 03fc 0007", "4011 0000 0a000001 0a000002"
    offsets = ("2000", "007d")  # 1000 bytes from 0, and more follow; the last 1000 bytes
    data = [bytes.fromhex(start + offset + end) + bytes([n]) * 1000 for n, offset in enumerate(offsets)]
    return [Frame(number, len(each), each) for number, each in enumerate(data)]


def some_frames(count: int, seed: int = 1, sizes: tuple[int, ...] = (60, 64, 128, 512, 1514, 9000)) -> list[Frame]:
    """Return UDP and TCP frames over IPv4 with random payload and ascending timestamps in whole microseconds."""
    draw, ts_ns, frames = random.Random(seed), 1_700_000_000 * SECOND, []
    for _ in range(count):
        ts_ns += draw.randrange(0, 2000) * 1000
        size = draw.choice(sizes)
        protocol = draw.choice((6, 17))
        ports = struct.pack("!HH", draw.randrange(1024, 65536), draw.choice((53, 80, 443)))
        address = bytes((10, 0, draw.randrange(4), draw.randrange(1, 255)))
        ip = struct.pack("!BBHHHBBH", 0x45, 0, size - 14, 0, 0, 64, protocol, 0) + address + b"\x0a\x00\x00\x02"
        ethernet = bytes.fromhex("020000000002020000000001") + b"\x08\x00"
        frames.append(Frame(ts_ns, size, ethernet + ip + ports + draw.randbytes(size - 14 - 20 - 4)))
    return frames


def crc32(data: bytes) -> bytes:
    """Return the value of an epb_hash option: CRC32, most significant byte first."""
    return b"\x02" + zlib.crc32(data).to_bytes(4, "big")


@dataclass
class Run:
    """A completed capture."""

    status: int
    stderr: str
    directory: Path
    accounts: dict

    @property
    def counts(self) -> dict:
        return self.accounts["frames"]

    @property
    def generator(self) -> dict:
        return self.accounts["generator"]

    def files(self) -> list[Path]:
        return [self.directory / each["file"] for each in self.accounts["files"] if each["state"] != "removed"]


def command(*arguments: object) -> list[str]:
    """Build the program, and return its command line with these arguments."""
    return [str(built_or_skip()), *map(str, arguments)]


def finished(directory: Path, status: int, stderr: str) -> Run:
    """Return the result of a capture to `directory`/c.pcap(ng), after checking that its counts add up."""
    assert "runtime error" not in stderr and "Sanitizer" not in stderr, stderr
    path = directory / "c.json"
    accounts = json.loads(path.read_text()) if path.exists() else {}
    if accounts:
        for counts in (accounts["frames"], *accounts["queues"]):
            excluded = counts["preprocessed"] + counts["filtered"] + counts["sampled_out"]
            accounted = counts["written"] + excluded + sum(counts["dropped"].values())
            assert counts["received"] + counts["added"] == accounted and counts["pending"] == 0, counts
        files = accounts["files"]
        assert not files or sum(each["frames"] for each in files) == accounts["frames"]["written"]
    return Run(status, stderr, directory, accounts)


def capture(directory: Path, *arguments: object, name: str = "c.pcap", prefix: tuple[str, ...] = ()) -> Run:
    """Run a capture to its end."""
    done = run(*prefix, *command("--write", directory / name, *arguments), timeout=LIMIT_S, env=environment())
    return finished(directory, done.returncode, done.stderr)


def start(directory: Path, *arguments: object, name: str = "c.pcap", prefix: tuple[str, ...] = ()) -> subprocess.Popen:
    """Start a capture and wait until it listens."""
    argv = [*prefix, *command("--write", directory / name, *arguments)]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=environment())
    stderr = ""
    while "listening on" not in stderr:
        line = process.stderr.readline()
        if not line:
            process.wait(LIMIT_S)
            pytest.fail(f"acapella-dpdk-capture did not start: {stderr}")
        stderr += line
    return process


def stop(process: subprocess.Popen, directory: Path, number: int) -> Run:
    """Stop a capture with a signal and return its result."""
    process.send_signal(number)
    stderr = process.communicate(timeout=LIMIT_S)[1]
    return finished(directory, process.returncode, stderr)


def environment(source: Path = SOURCE) -> dict[str, str]:
    """Return the environment for the sanitized build of the program whose sources are in ``source``."""
    leaks = f"suppressions={source / 'tests' / 'leaks.txt'}:print_suppressions=0"
    return {**os.environ, "TZ": "UTC", "LC_ALL": "C", "LSAN_OPTIONS": leaks}


def from_file(directory: Path, frames: list[Frame], number: int = 0) -> list[object]:
    """Return arguments that capture all of `frames` through net_pcap without loss."""
    path = write_file(directory / f"input{number}.pcap", pcap_bytes(frames))
    return ["--vdev", f"net_pcap{number},rx_pcap={path}", "--stop-when-idle", "0.1", "--when-full", "wait"]


def capture_of(directory: Path, frames: list[Frame], *arguments: object, name: str = "c.pcap") -> Run:
    """Capture all of `frames` with these arguments; return the result."""
    return capture(directory, *from_file(directory, frames), *arguments, name=name)
