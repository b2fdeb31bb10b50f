"""Reads digests that acapella-digest computed on the node that recorded the capture (config key collect.digest_on:
node).

The file of such a digest contains the columns of both tables as the core created them
(workflow/native/src/columns/column_file.hpp), so the Parquet files are the same as for a digest on this machine. The
file is untrusted input: pyarrow checks every column before it is used.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from acapella import __version__
from acapella.common.tables import arrow_schema
from acapella_core import _native
from acapella_core.errors import UserError

from .acap_format import FORMAT

SUFFIX = ".columns"  # suffix of the file's name; a further one follows if the file is compressed
MAGIC = b"acapcol1"
ZSTD = b"\x28\xb5\x2f\xfd"
KINDS = (b"record  ", b"frames  ", b"flows   ", b"position", b"facts   ")
RECORD, FRAMES, FLOWS, POSITIONS, FACTS = KINDS
WORD = 8
NO_BUFFER = 2**64 - 1
FREE_OF_RATIO = 16 << 20  # first bytes, whose compression ratio is not checked, as for captures (input/decoder.hpp)
# A batch has at most 131,072 rows of about 80 bytes. In an attack, each may have its own header stack, whose text
# may have hundreds of bytes.
MAX_BLOCK_BYTES = 256 << 20
POSITION_BYTES = 4  # per frame; more than its position needs (input/positions/positions.hpp)
MAX_DEPTH = 8  # maximum depth of nested columns
FORMATS = {
    "b": pa.bool_(),
    "C": pa.uint8(),
    "S": pa.uint16(),
    "I": pa.uint32(),
    "L": pa.uint64(),
    "l": pa.int64(),
    "g": pa.float64(),
    "u": pa.utf8(),
}
# The facts about a capture (workflow/native/src/digest/facts.hpp), and the types of their values.
COUNTS = (
    *("fcs_len", "untimed", "longer_than_snaplen", "ts_out_of_range", "blocks_not_frames", "file_unread_bytes"),
    *("frames", "wire_bytes", "captured_bytes", "implausible_times", "equal_stamps", "time_reversals"),
    *("flows", "peers_ambiguous", "ranges_forgotten"),
)
COMPARED = (
    "frames",
    "wire_bytes",
    "captured_bytes",
    "flows",
    "longest_frame_bytes",
)  # facts that must match the rows of the tables
NULLABLE = ("snaplen", "file_issue_offset", "first_ns", "last_ns", "clock_resolution_ns", "longest_frame_bytes")
FACT_TYPES = {
    **dict.fromkeys(COUNTS, (int,)),
    **dict.fromkeys(NULLABLE, (int, type(None))),
    **dict.fromkeys(("format", "compression", "file_issue_detail"), (str,)),
    **dict.fromkeys(("issues", "l4_by", "app_by"), (dict,)),
    "file_issue": (str, type(None)),
    "link_types": (list,),
}


def is_node_digest(source: str) -> bool:
    """Return whether a path is a regular file with a digest of a node. Files without SUFFIX are not read."""
    if SUFFIX not in Path(source).suffixes or not Path(source).is_file():
        return False
    try:
        with open_stream(source) as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except (OSError, pa.ArrowInvalid):
        return False


def open_stream(source: str) -> pa.NativeFile:
    """Open a file, decompressed if it is compressed with zstd. Raises OSError."""
    with Path(source).open("rb") as file:
        compression = "zstd" if file.read(len(ZSTD)) == ZSTD else None
    return pa.input_stream(source, compression=compression)


def open_digest(source: str, options) -> "NodeDigest":
    """Open the file of a node's digest. Raises UserError if it does not match the options or has a different format.

    A different version is accepted, because captures that were digested on their nodes are not available.
    """
    if options.engine != "native":
        raise UserError("was digested on its node with engine native", where=source, fix="use --engine native")
    digest = NodeDigest(source, options.limits or _native.DecompressionLimits())
    record = digest.record
    if record.get("acap_format") != FORMAT or not isinstance(record.get("version"), str):
        raise UserError(
            f"was digested on its node by acapella {record.get('version')} (format {record.get('acap_format')}), "
            f"but this is version {__version__} (format {FORMAT})",
            where=source,
            fix="collect the sample again, or use that version",
        )
    for key in ("site", "port"):
        if record.get(key) != getattr(options, key):
            raise UserError(f"was digested on its node with {key} {record.get(key)!r}", where=source,
                            fix=f"use --{key}={record.get(key)}")  # fmt: skip
    return digest


class NodeDigest:
    """The digest in a file, with the interface of native.NativeDigest. Methods raise UserError for a damaged file."""

    def __init__(self, source: str, limits):
        self._source = source
        self._bytes_left, self._ratio_left = limits.bytes, FREE_OF_RATIO
        self._ratio_left += limits.ratio * Path(source).stat().st_size
        self._counted = dict.fromkeys(COMPARED, 0)
        self._stream = open_stream(source)
        self._next: tuple[bytes, pa.Buffer] | None = None
        if self._read(len(MAGIC)) != MAGIC:
            raise self._damaged("it has a different format")
        self.record = self._json(RECORD)

    def frame_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the frame table in file order."""
        for batch in self._batches(FRAMES, "frames"):
            self._count_frames(batch)
            yield batch

    def flow_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the flow table. Call it after the last frame batch."""
        for batch in self._batches(FLOWS, "flows"):
            self._counted["flows"] += batch.num_rows
            yield batch

    def positions(self) -> bytes:
        """Return the encoded positions of the frames. Call it after `summary`, which reads them."""
        return self._positions

    def summary(self) -> dict:
        """Return the metadata of the sample. Call it after the last flow batch."""
        self._positions = self._take(POSITIONS).to_pybytes()
        facts = self._json(FACTS)
        if not are_facts(facts):
            raise self._damaged("facts about the capture are missing or have wrong types")
        if wrong := [key for key in COMPARED if (facts[key] or 0) != self._counted[key]]:
            raise self._damaged(f"its tables and its facts differ in {', '.join(wrong)}")
        del facts["longest_frame_bytes"]
        return facts | {"tshark": None} | {key: self.record.get(key) for key in ("vendors", "version")}

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def _count_frames(self, batch: pa.RecordBatch) -> None:
        lengths, found = batch.column("wire_len"), self._counted
        found["frames"] += batch.num_rows
        found["wire_bytes"] += pc.sum(lengths).as_py() or 0
        found["captured_bytes"] += pc.sum(batch.column("cap_len")).as_py() or 0
        found["longest_frame_bytes"] = max(found["longest_frame_bytes"], pc.max(lengths).as_py() or 0)

    def _batches(self, kind: bytes, table: str) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(table)
        while (block := self._peek())[0] == kind:
            self._next = None
            try:
                batch = record_batch(block[1])
            except (pa.ArrowException, ValueError, KeyError, IndexError, OverflowError, TypeError) as error:
                raise self._damaged(str(error)) from error
            if not batch.schema.equals(schema):
                raise self._damaged(f"its columns differ from those of table {table}")
            yield batch

    def _json(self, kind: bytes) -> dict:
        try:
            content = json.loads(self._take(kind).to_pybytes())
        except ValueError as error:
            raise self._damaged(str(error)) from error
        if not isinstance(content, dict):
            raise self._damaged("a block is not a JSON object")
        return content

    def _take(self, kind: bytes) -> pa.Buffer:
        found, payload = self._peek()
        if found != kind:
            raise self._damaged(f"expected {kind.decode().strip()!r}")
        self._next = None
        return payload

    def _peek(self) -> tuple[bytes, pa.Buffer]:
        """Return the kind and the payload of the next block, without consuming it."""
        if self._next is None:
            kind, length = self._read(WORD), int.from_bytes(self._read(WORD), "little")
            longest = max(MAX_BLOCK_BYTES, POSITION_BYTES * self._counted["frames"])
            if kind not in KINDS or length > longest:
                raise self._damaged("a block has an unknown kind or length")
            payload = pa.py_buffer(self._read(length + -length % WORD))
            self._next = (kind, payload.slice(0, length))
        return self._next

    def _read(self, count: int) -> bytes:
        self._bytes_left -= count
        self._ratio_left -= count
        if self._bytes_left < 0:
            raise UserError("has more bytes than --max-decompressed permits", where=self._source)
        if self._ratio_left < 0:
            raise UserError("has a higher compression ratio than --max-ratio permits", where=self._source)
        try:
            data = self._stream.read(count)
        except (OSError, pa.ArrowException) as error:
            raise self._damaged(str(error)) from error
        if len(data) < count:
            raise self._damaged("it is truncated")
        return data

    def _damaged(self, reason: str) -> UserError:
        first = reason.splitlines()[0] if reason else "unknown"
        return UserError(f"not a complete digest of a node: {first}", where=self._source,
                         fix="collect the sample again")  # fmt: skip


def are_facts(facts: dict) -> bool:
    """Return whether these are the facts about a capture, with the right types."""
    if facts.keys() != FACT_TYPES.keys() or not all(isinstance(facts[key], FACT_TYPES[key]) for key in facts):
        return False
    numbers = [*facts["link_types"], *(count for key in ("issues", "l4_by", "app_by") for count in facts[key].values())]
    return all(isinstance(number, int) for number in numbers)


class Payload:
    """The payload of a batch, read from its beginning. Raises ValueError at its end."""

    def __init__(self, payload: pa.Buffer):
        self._payload = payload
        self._offset = 0

    def numbers(self, count: int) -> list[int]:
        """Return the next unsigned 64-bit numbers."""
        data = self._take(count * WORD).to_pybytes()
        return [int.from_bytes(data[at : at + WORD], "little") for at in range(0, len(data), WORD)]

    def buffer(self) -> pa.Buffer | None:
        """Return the next buffer without copying it; None if it is missing."""
        (length,) = self.numbers(1)
        if length == NO_BUFFER:
            return None
        buffer = self._take(length)
        self._take(-length % WORD)
        return buffer

    def text(self) -> str:
        """Return the next text."""
        buffer = self.buffer()
        if buffer is None:
            raise ValueError("a name is missing")
        return buffer.to_pybytes().decode("ascii")

    def _take(self, count: int) -> pa.Buffer:
        if count > self._payload.size - self._offset:
            raise ValueError("a batch is truncated")
        self._offset += count
        return self._payload.slice(self._offset - count, count)


def record_batch(payload: pa.Buffer) -> pa.RecordBatch:
    """Return a batch after a check of all its values. Raises ValueError or an exception of pyarrow."""
    _, rows = column(Payload(payload), MAX_DEPTH)
    batch = pa.RecordBatch.from_struct_array(rows)
    batch.validate(full=True)
    return batch


def column(payload: Payload, depth: int) -> tuple[pa.Field, pa.Array]:
    """Return the next column. Its values are not checked."""
    if depth == 0:
        raise ValueError("columns are nested too deeply")
    name, form = payload.text(), payload.text()
    nullable, length, nulls, buffers, children, dictionaries = payload.numbers(6)
    content = [payload.buffer() for _ in range(buffers)]
    parts = [column(payload, depth - 1) for _ in range(children)]
    if form == "+s":
        kind = pa.struct([field for field, _ in parts])
    elif form == "+l":
        kind = pa.list_(parts[0][0])
    else:
        kind = FORMATS[form]
    values = pa.Array.from_buffers(kind, length, content, nulls, children=[array for _, array in parts] or None)
    if dictionaries:
        values.validate(full=True)
        values = pa.DictionaryArray.from_arrays(values, column(payload, depth - 1)[1])
    return pa.field(name, values.type, nullable=bool(nullable)), values
