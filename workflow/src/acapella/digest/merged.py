"""Several captures of one sample as one stream, in order of time: files of several queues, or one after the other.

The core merges them into a pipe that any engine reads as it reads a file; nothing is written to the disk.
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

FILE = pa.field("file", arrow_type("dictionary<uint32, utf8>"), nullable=False)  # column of merged acaps alone
SUMS = ("longer_than_snaplen", "untimed", "blocks_not_frames", "file_unread_bytes", "ts_out_of_range")
LARGEST = ("snaplen", "fcs_len")


class Merged:
    """The stream of some captures: read `path` to its end, then call `facts`."""

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
        """Nobody reads on: that it cannot be written from here on is no fault."""
        self._ending = True

    def check(self) -> None:
        """Raises UserError where not all of it came through the stream. Once that has been read to its end."""
        self._thread.join()
        if self._fault:
            raise UserError(str(self._fault)) from self._fault

    def facts(self) -> dict:
        """What the metadata says of a file, of all together: the fault is the first that makes the result wrong."""
        files = self._core.info()
        facts = {"format": one_of([each["format"] for each in files])}
        facts["compression"] = one_of([each["compression"] for each in files])
        facts |= {key: sum(each[key] for each in files) for key in SUMS}
        facts |= {key: max((each[key] for each in files if each[key] is not None), default=None) for key in LARGEST}
        faulty = [(name, each) for name, each in zip(self.names, files, strict=True) if each["file_issue"]]
        worst = min(faulty, key=lambda pair: pair[1]["file_issue"] not in self._damaged, default=None)
        if worst:
            name, file = worst
            facts |= {key: file[key] for key in ("file_issue", "file_issue_offset")}
            facts["file_issue_detail"] = f"{name}: {file['file_issue_detail']}"
        return facts | {"files": self.names}

    def files_of(self, frames: int) -> pa.DictionaryArray:
        """Return the names of the files of the next ``frames`` frames that were read from the stream."""
        taken = pa.py_buffer(self._core.take_captures(frames))
        places = pa.Array.from_buffers(FILE.type.index_type, frames, [None, taken])
        return pa.DictionaryArray.from_arrays(places, pa.array(self.names, pa.utf8()))

    @staticmethod
    def damage_at(source: str, limits=None) -> int | None:
        """Return the decompressed bytes of a file before its fault, None if it has none. Raises UserError."""
        try:
            core = _native.Merge([source], limits or _native.DecompressionLimits())
            with Path(os.devnull).open("wb") as nowhere:
                core.write(nowhere.fileno())
        except (_native.MergeError, _native.InputError) as error:
            raise UserError(str(error)) from error
        return core.info()[0]["file_issue_offset"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """End the stream, also where it was not read to its end. What ended it early is what there is to tell."""
        self.end()
        os.close(self._reading)
        self._thread.join()
        if self._fault and isinstance(error, UserError):
            raise UserError(str(self._fault)) from self._fault


def file_names(sources: Sequence[str]) -> list[str]:
    """Return a name for each file: the last part of its path, and a number if several have the same.

    The directories are left out, so that a digest does not depend on where its captures are.
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


def one_of(names: list[str]) -> str:
    """The name that all have, else all of them."""
    return "+".join(dict.fromkeys(names))


class MergedDigest:
    """An engine that reads such a stream: what digest_native gives, and of the files what they said of themselves."""

    def __init__(self, engine, stream: Merged):
        self._engine = engine
        self._stream = stream
        self._batches = self._merged_batches()
        self.flow_batches = engine.flow_batches

    def frame_batches(self) -> Iterator[pa.RecordBatch]:
        """The frame table, in order of time. Raises UserError where not all could be merged."""
        return self._batches

    def _merged_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._engine.frame_batches():
            files = self._stream.files_of(batch.num_rows)
            yield pa.RecordBatch.from_arrays([*batch.columns, files], schema=batch.schema.append(FILE))
            del batch  # its memory is used again for the next one
        self._stream.check()

    def close(self) -> None:
        """Have the engine let go of the stream, whoever still holds its batches; else what writes it would wait."""
        self._stream.end()
        self._batches.close()
        self._engine.close()

    def summary(self) -> dict:
        """What the metadata says of the sample beside the parameters."""
        return self._engine.summary() | self._stream.facts()
