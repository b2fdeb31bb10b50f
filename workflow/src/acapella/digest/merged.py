"""Merges the captures of a sample by time: files of several queues, or consecutive files.

The core writes the merged capture to a pipe that every engine can read like a file. No temporary files are written.
"""

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa

from acapella_core import _native
from acapella_core.arrow_tables import arrow_type
from acapella_core.errors import UserError

FILE = pa.field("file", arrow_type("dictionary<uint32, utf8>"), nullable=False)  # column that only merged acaps have
SUMMED_KEYS = ("longer_than_snaplen", "untimed", "blocks_not_frames", "file_unread_bytes", "ts_out_of_range")
MAX_KEYS = ("snaplen", "fcs_len")


class MergedStream:
    """Merged stream of captures: read `path` to its end, then call `check` and `facts`."""

    def __init__(self, sources: Sequence[str], damaged: Sequence[str], limits=None):
        self.names = file_names(sources)
        self._damaged = damaged
        try:
            self._core = _native.Merge(list(sources), limits or _native.DecompressionLimits())
        except _native.InputError as error:
            raise UserError(str(error)) from error
        self._fault: Exception | None = None
        self._ending = False
        self._reading, self._writing = os.pipe()
        self.path = f"/dev/fd/{self._reading}"
        self._thread = threading.Thread(target=self._write, name="merge", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        try:
            self._core.write(self._writing)
        except (_native.MergeError, _native.InputError) as error:
            if not self._ending:
                self._fault = error
        finally:
            os.close(self._writing)

    def end(self) -> None:
        """Ignore write errors from now on, because the reader is about to close the stream."""
        self._ending = True

    def check(self) -> None:
        """Raise UserError if the merge was incomplete. Call it after reading the stream to its end."""
        self._thread.join()
        if self._fault:
            raise UserError(str(self._fault)) from self._fault

    def facts(self) -> dict:
        """Return the file metadata of all captures combined.

        The file issue is the first damage, or else the first issue.
        """
        files = self._core.info()
        facts = {"format": joined_names([file["format"] for file in files])}
        facts["compression"] = joined_names([file["compression"] for file in files])
        facts |= {key: sum(file[key] for file in files) for key in SUMMED_KEYS}
        facts |= {key: max((file[key] for file in files if file[key] is not None), default=None) for key in MAX_KEYS}
        with_issue = [(name, file) for name, file in zip(self.names, files, strict=True) if file["file_issue"]]
        first_issue = min(with_issue, key=lambda entry: entry[1]["file_issue"] not in self._damaged, default=None)
        if first_issue:
            name, file = first_issue
            facts |= {key: file[key] for key in ("file_issue", "file_issue_offset")}
            facts["file_issue_detail"] = f"{name}: {file['file_issue_detail']}"
        return facts | {"files": self.names}

    def files_of(self, frames: int) -> pa.DictionaryArray:
        """Return the file names of the next ``frames`` frames read from the stream."""
        capture_numbers = pa.py_buffer(self._core.take_captures(frames))
        indices = pa.Array.from_buffers(FILE.type.index_type, frames, [None, capture_numbers])
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.names, pa.utf8()))

    @staticmethod
    def first_fault_offset(source: str, limits=None) -> int | None:
        """Return the offset of the first fault in a file's decompressed bytes; None if it has no fault.

        Raises UserError if the file cannot be read.
        """
        try:
            core = _native.Merge([source], limits or _native.DecompressionLimits())
            with Path(os.devnull).open("wb") as null_device:
                core.write(null_device.fileno())
        except (_native.MergeError, _native.InputError) as error:
            raise UserError(str(error)) from error
        return core.info()[0]["file_issue_offset"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Close the stream, even if it was not read to its end.

        If merging failed and the reader raised a UserError, this raises the error of the merge, which is the cause.
        """
        self.end()
        os.close(self._reading)
        self._thread.join()
        if self._fault and isinstance(error, UserError):
            raise UserError(str(self._fault)) from self._fault


def file_names(sources: Sequence[str]) -> list[str]:
    """Return a name for each file: the last component of its path, with a number if several files have the same name.

    Directories are omitted, so that a digest does not depend on the location of its captures.
    """
    names: list[str] = []
    for source in sources:
        base = "standard input" if source == "-" else os.fsencode(Path(source).name).decode(errors="backslashreplace")
        name, number = base, 1
        while name in names:
            number += 1
            name = f"{base} ({number})"
        names.append(name)
    return names


def joined_names(names: list[str]) -> str:
    """Return the distinct names, joined by `+`."""
    return "+".join(dict.fromkeys(names))


class MergedDigest:
    """Engine that reads a merged stream: the interface of NativeDigest, plus the metadata of the files."""

    def __init__(self, engine, stream: MergedStream):
        self._engine = engine
        self._stream = stream
        self._batches = self._merged_batches()
        self.flow_batches = engine.flow_batches

    def frame_batches(self) -> Iterator[pa.RecordBatch]:
        """Return the batches of the frame table, ordered by time.

        Iteration raises UserError if the merge was incomplete.
        """
        return self._batches

    def _merged_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._engine.frame_batches():
            files = self._stream.files_of(batch.num_rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, files], schema=batch.schema.append(FILE))
            del batch  # releases its memory for the next batch
        self._stream.check()

    def close(self) -> None:
        """Close the engine's end of the stream: without this, the writer blocks while batches are still referenced."""
        self._stream.end()
        self._batches.close()
        self._engine.close()

    def positions(self) -> bytes:
        """Return no positions, because the engine's positions refer to the merged stream."""
        return b""

    def summary(self) -> dict:
        """Return the metadata from the engine and from the files."""
        return self._engine.summary() | self._stream.facts()
