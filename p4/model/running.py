"""Run a committed .spec over frames in the loader, and read its outputs."""

from __future__ import annotations

import csv
import fcntl
import json
import os
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from acapella.p4 import compiled

P4 = Path(__file__).resolve().parents[1]
LOADER = P4.parent / ".venv" / "bin" / "acapella-p4-run"
_PCAP_NS = 0xA1B23C4D
_ETHERNET = 1
_PIPELINES: dict[str, compiled.Pipeline] = {}  # by text of the .spec


@dataclass(frozen=True)
class Frame:
    """An input frame: its captured bytes, and its length on the wire if different."""

    raw: bytes
    port: int = 0
    wire_length: int | None = None
    timestamp_ns: int | None = None  # default: a microsecond after the previous frame

    @property
    def wire(self) -> int:
        return len(self.raw) if self.wire_length is None else self.wire_length


@dataclass(frozen=True)
class Outcome:
    """A line of `--frames`, and the bytes of the frame or report that was sent, if any."""

    timestamp_ns: int
    port: int
    sequence: int
    outcome: str
    reason: str
    kind: str
    wire_length: int
    length: int
    hash: int
    raw: bytes | None


@dataclass(frozen=True)
class Result:
    """The outputs of a program."""

    outcomes: list[Outcome]
    registers: dict[str, list[int]]
    statistics: dict


class LoaderError(Exception):
    """The loader failed or is missing; the argument is the message."""


def compiled_pipeline(spec: Path) -> compiled.Pipeline:
    """Return the compiled pipeline of a program, cached in build/p4-compiled, or the reason why there is none."""
    text, cache = spec.read_text(), P4.parent / "build" / "p4-compiled"
    if text not in _PIPELINES:
        os.environ["XDG_CACHE_HOME"] = str(cache)
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{spec.stem}.lock").open("w") as lock:  # so that only one of several processes compiles it
            fcntl.flock(lock, fcntl.LOCK_EX)
            _PIPELINES[text] = compiled.choose("auto", str(LOADER), spec, None)
    return _PIPELINES[text]


def check_compiled(command: list[str], library: Path, files: Iterable[Path]) -> None:
    """Run the command again with the compiled pipeline; raise AssertionError unless every file is the same."""
    interpreted = {path: path.read_bytes() for path in files}
    subprocess.run([*command, "--library", str(library)], check=True, capture_output=True)
    for path, content in interpreted.items():
        pair = content, path.read_bytes()
        before, after = (without_times(json.loads(text)) for text in pair) if path.name == "stats.json" else pair
        assert before == after, f"{path.name}: compiled and interpreted pipelines differ"


def without_times(statistics: dict) -> dict:
    """Return the statistics without timings and without the kind of pipeline."""
    omitted = {"pipeline", "pipeline_ns", "control_ns", "frames_per_second"}
    return {name: value for name, value in statistics.items() if name not in omitted}


def write_pcap(path: Path, frames: Iterable[tuple[int, Frame]]) -> None:
    """Write a nanosecond pcap; `frames` are pairs of time and frame."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, 262144, _ETHERNET))
        for timestamp_ns, frame in frames:
            out.write(struct.pack("<IIII", *divmod(timestamp_ns, 10**9), len(frame.raw), frame.wire) + frame.raw)


def read_pcap(path: Path) -> list[bytes]:
    """Return the bytes of each record of a pcap written by `write_pcap` or the loader."""
    data = path.read_bytes()
    frames = []
    at = 24
    while at < len(data):
        kept = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16 : at + 16 + kept])
        at += 16 + kept
    return frames


def run(program: str, frames: list[Frame], control: str, directory: Path, spec: Path | None = None) -> Result:
    """Run the frames, in order of their times, through spec/PROGRAM.spec or `spec`.

    Raises LoaderError if the loader fails.
    """
    if not LOADER.exists():
        raise LoaderError(f"no {LOADER.name}: make setup builds it if libdpdk-dev and libpcap-dev are installed")
    ports: list[list[tuple[int, Frame]]] = [[] for _ in range(1 + max((frame.port for frame in frames), default=0))]
    now = 10**18
    for frame in frames:
        now = now + 1000 if frame.timestamp_ns is None else frame.timestamp_ns
        ports[frame.port].append((now, frame))
    command = [str(LOADER), "--spec", str(spec or P4 / "spec" / f"{program}.spec")]
    for number, port_frames in enumerate(ports):
        path = directory / f"in{number}.pcap"
        write_pcap(path, port_frames)
        command += ["--in", str(path)]
    names = json.loads((P4 / "spec" / f"{program}.json").read_text())["reasons"]
    reasons = "".join(f"reason {number} {name}\n" for number, name in names.items())
    (directory / "control.txt").write_text(reasons + control)
    files = {name: directory / name for name in ("out.pcap", "frames.tsv", "stats.json", "registers.json")}
    for option, path in zip(("--out", "--frames", "--stats", "--dump-registers"), files.values(), strict=True):
        command += [option, str(path)]
    command += ["--control", str(directory / "control.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LoaderError(done.stderr.strip())
    library = compiled_pipeline(Path(command[2])).library
    if library:
        check_compiled(command, library, files.values())
    sent = iter(read_pcap(files["out.pcap"]))
    with files["frames.tsv"].open() as lines:
        outcomes = [_outcome(row, sent) for row in csv.reader(lines, delimiter="\t") if row[0] != "time_ns"]
    registers = json.loads(files["registers.json"].read_text())
    return Result(outcomes, registers, json.loads(files["stats.json"].read_text()))


def _outcome(row: list[str], sent: Iterable[bytes]) -> Outcome:
    when, port, sequence, outcome, reason, kind, wire, length, digest = row
    raw = next(iter(sent)) if outcome == "sent" else None
    return Outcome(int(when), int(port), int(sequence), outcome, reason, kind, int(wire), int(length), int(digest), raw)


def write_smaller_spec(path: Path, sizes: dict[int, int]) -> Path:
    """Write the committed flowstats.spec with smaller register arrays. ``sizes``: new sizes by committed ones."""
    text = (P4 / "spec" / "flowstats.spec").read_text()
    for size, smaller in sizes.items():
        if f" size {size:#x} " not in text:
            raise ValueError(f"flowstats.spec has no array of {size:#x}")
        text = text.replace(f" size {size:#x} ", f" size {smaller:#x} ")
    path.write_text(text)
    return path
