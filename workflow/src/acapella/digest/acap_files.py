"""The two Parquet files of a digest: their schemas, the encoding of each column, and their metadata.

DuckDB 1.0.0 must be able to read every column. It does not support BYTE_STREAM_SPLIT for integers, so no column uses
it. The encodings are chosen for traffic with a few long TCP streams and for one core. Columns with small increments and
the IP identification use DELTA_BINARY_PACKED. Capture lengths and flags have few distinct values and use dictionaries,
as text columns and most columns of the flow table do. The other integers of the frame table are PLAIN. All columns are
compressed with zstd. A column of the frame table has statistics only if queries use them to skip row groups.
"""

import base64
import binascii
import contextlib
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq

from acapella.common.tables import arrow_schema
from acapella_core.errors import UserError

from .acap_format import FORMAT
from .merged import FILE

KEY = "acapella"  # key-value metadata, JSON
# Key-value metadata of an acap: positions of the frames in the capture (input/positions/positions.hpp of the core), as
# base64, because some readers of Parquet accept only UTF-8. Acaps of several captures do not have it.
POSITIONS_KEY = "acapella_positions"
POSITIONS_VERSION = b"\2"  # the first byte, kVersion of positions.cpp; other versions are not used

BATCH_ROWS = 1 << 17  # rows per row group: fits into caches and memory, and is large enough for DuckDB
FLOW_BATCH_ROWS = 1 << 14

DELTA = "DELTA_BINARY_PACKED"
PLAIN = "PLAIN"

FRAME_ENCODINGS = {
    "frame": DELTA,
    "ts_ns": DELTA,
    "wire_len": PLAIN,
    "inner_wire_len": PLAIN,
    "flow": PLAIN,
    "tcp_seq": PLAIN,
    "tcp_ack": PLAIN,
    "payload_len": PLAIN,
    "ip_len": PLAIN,
    "ip_id": DELTA,
}
FRAME_DICTIONARIES = ["cap_len", "protocols", "stack", "tcp_flags", "l4_by", "app_by", "issue"]
FRAME_STATISTICS = ["frame", "ts_ns", "flow"]

FLOW_ENCODINGS = {"flow": DELTA, "peer_flow": DELTA, "first_ns": DELTA, "last_ns": DELTA}
FLOW_PLAIN = ["flow_id", "peer_flow_id"]  # hashes: all values are distinct


def metadata_of(path) -> dict:
    """Return the metadata that digest wrote into an acap or a flow table."""
    return json.loads(pq.read_metadata(path).metadata[KEY.encode()])


def positions_of(path) -> bytes | None:
    """Return the encoded positions of an acap's frames in their capture; None if the acap does not have them.

    Raises UserError if they are not base64.
    """
    text = (pq.read_metadata(path).metadata or {}).get(POSITIONS_KEY.encode(), b"")
    try:
        encoded = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise UserError("the positions of its frames are damaged", where=path) from error
    return encoded if encoded.startswith(POSITIONS_VERSION) else None


def text_of_positions(positions: bytes | None) -> dict[str, str]:
    """Return the key-value metadata of encoded positions; {} if there are none."""
    return {POSITIONS_KEY: base64.b64encode(positions).decode()} if positions else {}


def is_digest(path) -> bool:
    """Return whether a file has the metadata of an acap or a flow table, regardless of its format version."""
    try:
        return isinstance(metadata_of(path), dict)
    except (pa.ArrowInvalid, OSError, ValueError, KeyError, TypeError):
        return False


def check_digest(path, sample: str) -> dict:
    """Return the metadata of an acap or a flow table.

    Raises UserError with the sample's name if the file is damaged or is not an acap or flow table of this format.
    """
    try:
        metadata = metadata_of(path)
        check_format(path, metadata)
        return metadata
    except (pa.ArrowInvalid, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        message = isinstance(error, (pa.ArrowInvalid, OSError)) and str(error)
        reason = message.splitlines()[0] if message else "it has no metadata of acapella digest"
        raise UserError(
            f"sample {sample}: not an acap or flow table, or a damaged one: {reason}",
            where=path,
            fix="delete it and run snakemake again",
        ) from error


def check_format(path, metadata: dict | None = None) -> None:
    """Raise UserError if an acap or flow table has a different format version: its columns or flows differ.

    ``metadata``: the result of metadata_of(), if the caller has it. Without it, files that digest did not write are
    accepted; the caller has to check them.
    """
    if metadata is None:
        try:
            metadata_keys = pq.read_metadata(path).metadata or {}
        except (pa.ArrowInvalid, OSError):
            return
        if KEY.encode() not in metadata_keys:
            return
        metadata = json.loads(metadata_keys[KEY.encode()])
    version = metadata.get("acap_format", 1)
    if version != FORMAT:
        raise UserError(
            f"has format version {version}, but this version of acapella uses {FORMAT}",
            where=path,
            fix="rerun acapella digest on the capture (Snakemake does so automatically)",
        )


class TableWriter:
    """Writer of a Parquet file with one row group per batch. As a context manager, it closes the file after an error.

    ``path`` is usually a temporary name; errors name the file ``target`` if it is given. Raises UserError if writing
    fails.
    """

    def __init__(self, path, target, schema: pa.Schema, **options):
        self.schema = schema
        self._target = target or path
        with self._disk_errors():
            self._writer = pq.ParquetWriter(path, self.schema, version="2.6", compression="zstd", **options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch as one row group."""
        with self._disk_errors():
            self._writer.write_table(pa.Table.from_batches([batch], self.schema), row_group_size=max(len(batch), 1))

    def close(self, metadata: dict, positions: bytes = b"") -> None:
        """Add the metadata and finish the file. ``positions``: encoded positions of the frames; empty: none."""
        values = {KEY: json.dumps(metadata, sort_keys=True)} | text_of_positions(positions)
        with self._disk_errors():
            self._writer.add_key_value_metadata(values)
            self._writer.close()

    @contextlib.contextmanager
    def _disk_errors(self):
        try:
            yield
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise UserError(f"cannot write: {reason}", where=self._target) from error

    def __enter__(self):
        return self

    def __exit__(self, error_type, *_) -> None:
        if error_type:  # the first error is reported, and the caller deletes the file
            with contextlib.suppress(OSError):
                self._writer.close()


def frame_writer(path, target=None, *, merged: bool = False) -> TableWriter:
    """Return a writer of the frame table. ``merged``: add the column `file` of merged captures."""
    schema = arrow_schema("frames")
    return TableWriter(
        path,
        target,
        schema.append(FILE) if merged else schema,
        compression_level=1,
        use_dictionary=[*FRAME_DICTIONARIES, FILE.name] if merged else FRAME_DICTIONARIES,
        column_encoding=FRAME_ENCODINGS,
        write_statistics=FRAME_STATISTICS,
    )


def leaves_of(field: pa.Field) -> list[str]:
    """Return the names of a column's leaf columns in Parquet."""
    if not pa.types.is_list(field.type):
        return [field.name]
    element = f"{field.name}.list.element"
    if not pa.types.is_struct(field.type.value_type):
        return [element]
    return [f"{element}.{part.name}" for part in field.type.value_type]


def flow_writer(path, target=None) -> TableWriter:
    """Return a writer of the flow table."""
    leaves = [leaf for field in arrow_schema("flows") for leaf in leaves_of(field)]
    dictionary = [name for name in leaves if name not in FLOW_ENCODINGS and name not in FLOW_PLAIN]
    return TableWriter(
        path,
        target,
        arrow_schema("flows"),
        compression_level=3,
        use_dictionary=dictionary,
        column_encoding=FLOW_ENCODINGS,
    )
