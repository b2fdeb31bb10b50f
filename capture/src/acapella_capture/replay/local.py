"""Replays capture files from this process: load, run, departures."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.files import scratch_directory, sha256_of

from ..scan import scan_in_subprocess
from .clocks import max_clock_error_ns, own_clock
from .departures import Origin, Summary, convert, leads_of
from .program import ReplayProgram

MAGIC = (bytes.fromhex("1f8b"), bytes.fromhex("28b52ffd"), bytes.fromhex("04224d18"))  # RFC 1952, RFC 8878, LZ4 frame
NO_LIMIT = 2**64 - 1


@dataclass(frozen=True)
class Recording:
    """A capture file to replay: ``path`` of the file that the program loads, ``sha256`` of the user's file."""

    path: Path
    frames: int
    sha256: str


@contextlib.contextmanager
def recording_of(capture: Path, limits: Any = None) -> Iterator[Recording]:
    """Yield the recording of a capture; a compressed capture is decompressed into a temporary file.

    ``limits`` are those of acapella_core.decompression. Raises UserError if the capture cannot be read to its end.
    """
    try:
        with capture.open("rb") as stream:
            compressed = stream.read(4).startswith(MAGIC)
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=capture) from error
    with contextlib.ExitStack() as files:
        path = capture.absolute()
        if compressed:
            path = files.enter_context(scratch_directory()) / "capture"
            decompress(capture, path, limits)
        facts = scan_in_subprocess(path)
        if facts.fault:
            fix = (
                None if facts.frames is None else "copy its complete frames with editcap FILE COPY, and replay the copy"
            )
            raise UserError(facts.fault, where=capture, fix=fix)
        if not facts.frames:
            raise UserError("contains no frames", where=capture)
        yield Recording(path, facts.frames, sha256_of(capture))


def decompress(capture: Path, target: Path, limits: Any) -> None:
    """Decompress a capture. Raises UserError if it is damaged or exceeds a limit."""
    from acapella_core import _native  # noqa: PLC0415 - only compressed captures need it

    try:
        core = _native.Decompression(str(capture), limits or _native.DecompressionLimits())
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            core.write(descriptor, NO_LIMIT)
        finally:
            os.close(descriptor)
    except _native.InputError as error:
        raise UserError(str(error)) from error
    kind, detail = core.fault()
    if kind:
        raise UserError(f"cannot be decompressed: {detail or kind}", where=capture)


def replay(program: ReplayProgram, *, at_ns: int, loops: int, speed_ppm: int) -> dict[str, Any]:
    """Send a loaded recording and return the program's event `done`, with ``speed_ppm``. Raises UserError."""
    received_before = program.received
    program.command("run", at_ns, loops, speed_ppm)
    return program.wait("done", after=received_before) | {"speed_ppm": speed_ppm}


def departures(
    program: ReplayProgram,
    recording: Recording,
    target: Path | None,
    done: dict[str, Any],
    pacing: str,
) -> Summary:
    """Write the departures of the last run as Parquet (to no file if ``target`` is None); return their summary.

    ``done`` is the result of replay(), ``pacing`` the value of `--pace`.
    """
    clock = own_clock()
    origin = Origin(
        clock_offset_ns=clock["offset_ns"],
        clock_error_ns=None if clock["error_ns"] is None else clock["error_ns"] + (max_clock_error_ns(done) or 0),
        clock_source=clock["source"],
        node_clock=clock,
        recording_sha256=recording.sha256,
        speed_ppm=done["speed_ppm"],
        pacing=pacing,
        leads=leads_of(done),
    )
    with scratch_directory() as scratch:
        binary = scratch / "departures"
        program.command("departures", binary)
        return convert(binary, target, origin)
