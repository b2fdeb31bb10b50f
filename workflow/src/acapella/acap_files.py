"""The two Parquet files of a digest: their schemas, each column's encoding, their metadata.

Encodings are chosen for traffic with a few long TCP streams and for one core. Numbers that grow step by step are
DELTA_BINARY_PACKED; lengths, flags and sequence numbers are BYTE_STREAM_SPLIT, which puts their equal upper bytes side
by side for zstd, at a fifth of the time a Parquet dictionary of numbers takes; texts are dictionaries. Statistics only
where a query skips row groups by them.
"""

import contextlib
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq

from acapella_core.errors import UserError

from .tables import arrow_schema

KEY = "acapella"  # key-value metadata, JSON
# Of both files, the key `acap_format` of the metadata (none is 1). 2: identifiers of tunnels are part of flows' keys.
FORMAT = 2

BATCH_ROWS = 1 << 17  # a row group: small enough for the caches and for memory, large enough for DuckDB
FLOW_BATCH_ROWS = 1 << 14

DELTA = "DELTA_BINARY_PACKED"
SPLIT = "BYTE_STREAM_SPLIT"

FRAME_ENCODINGS = {
    "frame": DELTA,
    "ts_ns": DELTA,
    "wire_len": SPLIT,
    "cap_len": SPLIT,
    "inner_wire_len": SPLIT,
    "flow": SPLIT,
    "tcp_flags": SPLIT,
    "tcp_seq": SPLIT,
    "tcp_ack": SPLIT,
    "payload_len": SPLIT,
    "ip_len": SPLIT,
}
FRAME_TEXTS = ["protocols", "stack", "l4_by", "app_by", "issue"]
FRAME_STATISTICS = ["frame", "ts_ns", "flow"]

FLOW_ENCODINGS = {"flow": DELTA, "peer_flow": DELTA, "first_ns": DELTA, "last_ns": DELTA}
FLOW_PLAIN = ["flow_id", "peer_flow_id"]  # hashes: no two alike


def metadata_of(path) -> dict:
    """What digest wrote into an acap or a flow table about its sample."""
    return json.loads(pq.read_metadata(path).metadata[KEY.encode()])


def check_format(path, metadata: dict | None = None) -> None:
    """Raise UserError if an acap or flow table is of another format: its flows are not those of this version.

    ``metadata``: what metadata_of() gives, if it is known. A file that is no digest's is left to the caller.
    """
    if metadata is None:
        try:
            found = pq.read_metadata(path).metadata or {}
        except (pa.ArrowInvalid, OSError):
            return
        if KEY.encode() not in found:
            return
        metadata = json.loads(found[KEY.encode()])
    version = metadata.get("acap_format", 1)
    if version != FORMAT:
        raise UserError(
            f"has format version {version}, this is acapella with version {FORMAT}",
            where=path,
            fix="run acapella digest on the capture again (Snakemake does so by itself)",
        )


class TableWriter:
    """One Parquet file, a row group a batch; as a context manager, closed whole or abandoned.

    ``target`` is what errors call the file where it is not ``path``, its temporary name. Raises UserError where writing
    fails.
    """

    def __init__(self, path, target, table: str, **options):
        self.schema = arrow_schema(table)
        self._target = target or path
        with self._disk_errors():
            self._writer = pq.ParquetWriter(path, self.schema, version="2.6", compression="zstd", **options)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append ``batch`` as one row group."""
        with self._disk_errors():
            self._writer.write_table(pa.Table.from_batches([batch], self.schema), row_group_size=max(len(batch), 1))

    def close(self, metadata: dict) -> None:
        """Add ``metadata`` and finish the file."""
        with self._disk_errors():
            self._writer.add_key_value_metadata({KEY: json.dumps(metadata, sort_keys=True)})
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

    def __exit__(self, failed, *_) -> None:
        if failed:  # what was wrong is known already, and the file goes
            with contextlib.suppress(OSError):
                self._writer.close()


def frame_writer(path, target=None) -> TableWriter:
    """A writer of the frame table."""
    return TableWriter(
        path,
        target,
        "frames",
        compression_level=1,
        use_dictionary=FRAME_TEXTS,
        column_encoding=FRAME_ENCODINGS,
        write_statistics=FRAME_STATISTICS,
    )


def leaves_of(field: pa.Field) -> list[str]:
    """The names of a column's values in Parquet."""
    if not pa.types.is_list(field.type):
        return [field.name]
    element = f"{field.name}.list.element"
    if not pa.types.is_struct(field.type.value_type):
        return [element]
    return [f"{element}.{part.name}" for part in field.type.value_type]


def flow_writer(path, target=None) -> TableWriter:
    """A writer of the flow table."""
    leaves = [leaf for field in arrow_schema("flows") for leaf in leaves_of(field)]
    dictionary = [name for name in leaves if name not in FLOW_ENCODINGS and name not in FLOW_PLAIN]
    return TableWriter(
        path, target, "flows", compression_level=3, use_dictionary=dictionary, column_encoding=FLOW_ENCODINGS
    )
