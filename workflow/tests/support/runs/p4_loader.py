"""Runs acapella-p4-run in tests: builds it with ASan and UBSan, and reads its files with a separate parser."""

import functools
import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path

from acapella_testing import c_programs, processes
from acapella_testing.frames import pcap_files
from acapella_testing.new_files import write_file
from acapella_testing.source_tree import ROOT

from acapella.p4 import compiled

SOURCE = ROOT / "p4" / "loader"
TESTS = SOURCE / "tests"
BINARY = c_programs.path_of("acapella-p4-run")
FORWARD = TESTS / "forward.spec"
REPORTS = TESTS / "reports.spec"
SECOND = 1_000_000_000
LIMIT_S = 300  # reached only if the program hangs
# leaks.txt names libraries, which needs no symbols: reading them would take half of the time of a run. Reports of the
# sanitizers therefore contain addresses, which addr2line resolves.
LEAKS = f"suppressions={TESTS / 'leaks.txt'}:print_suppressions=0:symbolize=0"
ENVIRONMENT = {**os.environ, "LSAN_OPTIONS": LEAKS}


def built_or_skip() -> Path:
    """Return the program, built with the sanitizers; skip the test if its libraries are not installed."""
    return c_programs.built_or_skip("acapella-p4-run")


@dataclass(frozen=True)
class Frame:
    """A record of a capture: time in ns, length on the wire, captured bytes."""

    ts_ns: int
    wire: int
    data: bytes


def frame(ts_ns: int, data: bytes, wire: int | None = None) -> Frame:
    """Return a frame, truncated if ``wire`` is longer than its bytes."""
    return Frame(ts_ns, wire or len(data), data)


def ethernet(source: int, destination: int = 1, kind: int = 0x0800, size: int = 60) -> bytes:
    """Return an Ethernet frame of ``size`` bytes; addresses are 02:00:00:00:00:00 plus a number."""
    base = 0x020000000000
    head = (base + destination).to_bytes(6, "big") + (base + source).to_bytes(6, "big") + kind.to_bytes(2, "big")
    return (head + bytes(range(256)) * (size // 256 + 1))[:size]


def write_pcap(path: Path, frames: list[Frame]) -> Path:
    """Write a nanosecond pcap, compressed if the name ends in .gz; return its path."""
    content = pcap_files.header() + b"".join(pcap_files.record(frame.ts_ns, frame.data, frame.wire) for frame in frames)
    return write_file(path, gzip.compress(content) if path.suffix == ".gz" else content)


def read_pcap(path: Path) -> list[Frame]:
    """Return the frames of a file written by write_pcap or the loader."""
    return [Frame(*record) for record in pcap_files.records(path.read_bytes())]


@dataclass(frozen=True)
class Run:
    """A finished run: exit code, standard error and output, and the outputs that it wrote."""

    code: int
    error: str
    output: str
    frames: list[Frame] | None
    stats: dict | None
    registers: dict | None


def command(directory: Path, spec: Path, *captures: Path | list[Frame], control: str = "") -> list[str]:
    """Return the command line of a run with all files in ``directory``. Writes frames to in.pcap."""
    argv = [str(built_or_skip()), "--spec", str(spec)]
    for capture in captures:
        argv += ["--in", str(write_pcap(directory / "in.pcap", capture) if isinstance(capture, list) else capture)]
    argv += ["--out", str(directory / "out.pcap"), "--stats", str(directory / "stats.json")]
    argv += ["--dump-registers", str(directory / "registers.json")]
    if control:
        argv += ["--control", str(write_file(directory / "control.txt", control))]
    return argv


def run(
    directory: Path,
    spec: Path,
    *captures: Path | list[Frame],
    control: str = "",
    words: str = "",
    more: tuple = (),
    **how,
) -> Run:
    """Run the program; ``words`` go to its standard input, ``more`` to its command line, ``how`` to subprocess."""
    argv = [*command(directory, spec, *captures, control=control), *more]
    done = processes.run(*argv, input=words, timeout=LIMIT_S, env=ENVIRONMENT, **how)
    return ended(directory, done.returncode, done.stderr, done.stdout)


def ended(directory: Path, code: int, error: str, output: str) -> Run:
    """Return the outputs of a run."""
    out, documents = directory / "out.pcap", (directory / "stats.json", directory / "registers.json")
    assert not list(directory.glob("*.part")), error
    stats, registers = (json.loads(path.read_text()) if path.exists() else None for path in documents)
    return Run(code, error, output, read_pcap(out) if out.exists() else None, stats, registers)


def good(directory: Path, spec: Path, *captures: Path | list[Frame], **how) -> Run:
    """Run to the end; the run must succeed and account for every frame."""
    done = run(directory, spec, *captures, **how)
    assert done.code == 0, done.error
    stats = done.stats
    away = sum(stats["sunk"].values()) + sum(stats["dropped"].values())
    assert stats["balanced"] and stats["in"] + stats["probes"] + stats["clones"] == stats["out"] + away
    assert stats["in"] == sum(port["in"] for port in stats["ports"])
    assert stats["out"] == len(done.frames)
    library = compiled_pipeline(spec, spec.read_bytes()).library
    if library:
        check_compiled(directory, spec, *captures, library=library, interpreted=done, **how)
    return done


@functools.cache
def compiled_pipeline(spec: Path, _content: bytes) -> compiled.Pipeline:
    """Return the compiled pipeline of a program, cached in build/p4-compiled, or the reason why there is none."""
    os.environ["XDG_CACHE_HOME"] = str(ROOT / "build" / "p4-compiled")
    os.environ.setdefault("LSAN_OPTIONS", LEAKS)  # the loader generates the C code
    return compiled.choose("auto", str(built_or_skip()), spec, None)


def check_compiled(directory: Path, spec: Path, *captures, library: Path, interpreted: Run, **how) -> None:
    """Run again with the compiled pipeline and compare everything but times."""
    how["more"] = (*how.get("more", ()), "--library", str(library))
    again = run(directory, spec, *captures, **how)
    assert (again.code, again.error, again.output) == (0, interpreted.error, interpreted.output)
    assert (again.frames, again.registers) == (interpreted.frames, interpreted.registers)
    timed = {"pipeline", "pipeline_ns", "control_ns", "frames_per_second"}
    assert again.stats["pipeline"] == "compiled"
    same = again.stats.keys() - timed
    assert {key: again.stats[key] for key in same} == {key: interpreted.stats[key] for key in same}
    assert same == interpreted.stats.keys() - timed
