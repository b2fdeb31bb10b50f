"""Decompresses captures for the P4 loader and tshark into pipes, in the core.

The core decompresses each capture in a thread, as for `acapella digest`. Nothing is written to disk. A second pipe
carries an end mark: if this process is killed, both pipes end without the mark, and the loader fails.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella_core import _native
from acapella_core.errors import UserError

from .faults import DAMAGING, describe_fault

MAGIC = (bytes.fromhex("1f8b"), bytes.fromhex("28b52ffd"), bytes.fromhex("04224d18"))  # RFC 1952, RFC 8878, LZ4 frame
ALL = 2**64 - 1
PIPE_BYTES = 1 << 20
END = b"."
READ_ERROR = "read_error"  # fault of the operating system; the capture itself may be intact
REPAIR = "repair the capture (editcap)"
RAISE = "raise the limit if you trust the capture"


@dataclass(frozen=True)
class Fault:
    """Reason why the data of a capture ended early.

    ``kind``: a value of `file_issue` in an acap's metadata; ``text``: a description for users.
    """

    kind: str
    text: str

    def line(self, capture: Path, frames: int) -> str:
        """Return an error or a warning about the capture, similar to that of `acapella digest`."""
        damaged = self.kind in DAMAGING
        frames_read = "there is no complete frame before it"
        if frames:
            noun = "frame before it was" if frames == 1 else "frames before it were"
            frames_read = f"the {frames:,} complete {noun} read"
        advice = f"; exit code 1: {RAISE if self.kind == 'decompression_limit' else REPAIR}" if damaged else ""
        return f"acapella: {'error' if damaged else 'warning'}: {capture}: {self.text}; {frames_read}{advice}"


class Stream:
    """A capture that a thread decompresses into a pipe until the reader closes it.

    Raises UserError if the capture cannot be opened.
    """

    def __init__(self, capture: Path, max_bytes: int, limits=None):
        self.capture = capture
        self._max_bytes = max_bytes
        try:
            self._core = _native.Decompression(str(capture), limits or _native.DecompressionLimits())
        except _native.InputError as error:
            raise UserError(str(error)) from error
        self.reading, self._writing = os.pipe()
        with contextlib.suppress(OSError):  # the user's limit may be lower; a small pipe is only slower
            fcntl.fcntl(self.reading, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.ending, self._marking = os.pipe()
        self._bytes = 0
        self._thread = threading.Thread(target=self._write, name="decompression", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        try:
            self._bytes = self._core.write(self._writing, self._max_bytes)
            os.write(self._marking, END)  # before the data pipe is closed; one byte never blocks
        finally:
            os.close(self._writing)
            os.close(self._marking)

    def close(self) -> None:
        """Close the pipes and end the thread."""
        os.close(self.reading)
        self._thread.join()
        os.close(self.ending)

    def fault(self) -> Fault | None:
        """Return why the data ended early; None if they are complete or were not read to the end."""
        kind, detail = self._core.fault()
        if not kind:
            return None
        facts = {"compression": self._core.compression(), "file_issue_offset": self._bytes}
        return Fault(kind, describe_fault(facts | {"file_issue_detail": detail, "file_unread_bytes": 0}))


class Streams:
    """Captures as arguments of the loader.

    ``faults`` maps the index of a capture to its fault; it is complete after `close`.
    """

    def __init__(self, limits=None) -> None:
        self._limits = limits
        self.arguments: list[str] = []
        self.faults: dict[int, Fault] = {}
        self._streams: dict[int, Stream] = {}

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Return the file descriptors that the loader must inherit."""
        return tuple(end for stream in self._streams.values() for end in (stream.reading, stream.ending))

    def add(self, index: int, capture: Path, max_bytes: int | None) -> None:
        """Add a capture, limited to the first ``max_bytes`` decompressed bytes.

        Raises UserError if it cannot be opened.
        """
        self.arguments += ["--in", str(capture)]
        if max_bytes is not None or is_compressed(capture):
            stream = self._streams[index] = Stream(capture, ALL if max_bytes is None else max_bytes, self._limits)
            self.arguments += ["--descriptor", f"{stream.reading}:{stream.ending}"]

    def close(self) -> None:
        """End all threads and collect the faults. Raises UserError if the operating system cannot read a capture."""
        for index, stream in self._streams.items():
            stream.close()
            if fault := stream.fault():
                self.faults[index] = fault
        for index, fault in self.faults.items():
            if fault.kind == READ_ERROR:
                raise UserError(fault.text, where=self._streams[index].capture, outside=True)


@contextlib.contextmanager
def streamed(captures: Sequence[Path], max_bytes: Sequence[int | None] = (), limits=None) -> Iterator[Streams]:
    """Yield the captures as arguments of a loader that runs inside the block.

    ``max_bytes``: maximum number of decompressed bytes of each capture; ``limits``: limits on decompression
    (acapella_core.decompression; default: those of the core). The loader itself opens captures that are not compressed
    and have no maximum. Raises UserError if a compressed capture cannot be opened or read.
    """
    streams = Streams(limits)
    try:
        for index, capture in enumerate(captures):
            streams.add(index, capture, max_bytes[index] if max_bytes else None)
        yield streams
    finally:
        streams.close()


def is_compressed(path: Path) -> bool:
    """Return whether a file begins with the magic number of gzip, zstd or lz4; False if it cannot be read."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return stream.read(4).startswith(MAGIC)
    except OSError:
        return False
