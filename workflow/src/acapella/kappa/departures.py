"""Read the departures of a replay (schemas/tables/departures.yaml): one row per packet of the recording and loop."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from acapella_core.arrow_tables import arrow_schema
from acapella_core.errors import UserError

# Columns of schemas/tables/departures.yaml that kappa needs.
COLUMNS = ("loop", "port", "packet", "requested_ns", "departed_ns", "outcome", "resolved", "burst_first")
QUEUE, RETRIES = "queue", "retries"
OPTIONAL = (QUEUE, RETRIES)  # absent in files of older versions
RECORDING = "recording_sha256"
CLOCK_ERROR = "clock_error_ns"
CLOCK_OFFSET = "clock_offset_ns"
RECEIVER_ERROR = "receiver_clock_error_ns"  # absent in files of older versions
SPEED = "speed"
SENT = "sent"
UNKNOWN = "unknown"  # a value of the metadata
MAX_DEVIATION_NS = 366 * 86_400 * 10**9  # a larger deviation of a departure is an error in the file
MAX_LOOPS = 1_000_000


@dataclass(frozen=True)
class Departures:
    """The rows of a file in the order of (loop, packet), as arrays, and its metadata.

    ``departed_ns`` is 0 if ``measured`` is false. ``queue``, ``clock_error_ns``, ``clock_offset_ns`` and
    ``receiver_error_ns`` (largest error of the clock relative to the receiver's) are None if unknown.
    ``retried``: number of packets that the driver did not accept immediately.
    """

    path: str
    recording_sha256: str
    speed: str | None
    clock_error_ns: int | None
    clock_offset_ns: int | None
    receiver_error_ns: int | None
    loop: np.ndarray
    port: np.ndarray
    queue: np.ndarray | None
    packet: np.ndarray
    requested_ns: np.ndarray
    departed_ns: np.ndarray
    sent: np.ndarray
    measured: np.ndarray
    resolved: np.ndarray
    burst_first: np.ndarray
    outcomes: dict[str, int]
    retried: int = 0

    @property
    def loops(self) -> int:
        """The number of loops."""
        return int(self.loop.max(initial=-1)) + 1


def read(path: str) -> Departures:
    """Return the departures of a file. Raises UserError if it is not a file of departures."""
    if not Path(path).is_file():
        raise UserError("not a file" if Path(path).exists() else "no such file", where=path)
    try:
        with pq.ParquetFile(path) as file:
            metadata = {key.decode(): value.decode() for key, value in (file.schema_arrow.metadata or {}).items()}
            check_columns(path, file.schema_arrow)
            names = [*COLUMNS, *(name for name in OPTIONAL if name in file.schema_arrow.names)]
            table = file.read(columns=names, use_threads=False)
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror or str(error).splitlines()[0]}", where=path) from error
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise UserError(f"not a file of departures: {str(error).splitlines()[0]}", where=path) from error
    rows = Departures(
        path=path,
        recording_sha256=metadata.get(RECORDING, ""),
        speed=metadata.get(SPEED),
        clock_error_ns=number(path, metadata, CLOCK_ERROR),
        clock_offset_ns=number(path, metadata, CLOCK_OFFSET),
        receiver_error_ns=number(path, metadata, RECEIVER_ERROR),
        **arrays(path, table),
    )
    check_rows(rows)
    return rows


def check_columns(path: str, schema: pa.Schema) -> None:
    """Raise UserError if a column is missing or has the wrong type."""
    defined = arrow_schema("departures")
    for name in (*COLUMNS, *(name for name in OPTIONAL if name in schema.names)):
        if name not in schema.names:
            raise UserError(f"not a file of departures: no column {name}", where=path)
        actual, expected = (
            field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            for field in (schema.field(name), defined.field(name))
        )
        if actual != expected:
            raise UserError(f"not a file of departures: column {name} is {actual}, not {expected}", where=path)


def number(path: str, metadata: dict[str, str], name: str) -> int | None:
    """Return a whole number of the metadata, or None. Raises UserError."""
    text = metadata.get(name, "")
    if text in ("", UNKNOWN):
        return None
    try:
        return int(text)
    except ValueError as error:
        raise UserError(f"metadata {name}: {text[:40]!r} is not a whole number", where=path) from error


def arrays(path: str, table: pa.Table) -> dict:
    """Return the columns as arrays. Raises UserError for a null in a column other than departed_ns."""
    for name in table.column_names:
        if name != "departed_ns" and table[name].null_count:
            raise UserError(f"column {name} has a null", where=path)
    columns = {
        name: table[name].to_numpy() for name in ("loop", "port", "packet", "requested_ns", "resolved", "burst_first")
    }
    departed = table["departed_ns"]
    counts = table["outcome"].value_counts().to_pylist()
    outcomes = {entry["values"]: entry["counts"] for entry in sorted(counts, key=lambda entry: entry["values"])}
    retried = int((table[RETRIES].to_numpy() > 0).sum()) if RETRIES in table.column_names else 0
    return {
        **columns,
        "queue": table[QUEUE].to_numpy() if QUEUE in table.column_names else None,
        "departed_ns": departed.fill_null(0).to_numpy(),
        "measured": departed.is_valid().to_numpy(),
        "sent": pa.compute.equal(table["outcome"].cast(pa.string()), SENT).to_numpy(),
        "outcomes": outcomes,
        "retried": retried,
    }


def check_rows(rows: Departures) -> None:
    """Raise UserError for rows out of order, duplicate rows, or impossible values."""
    where = rows.path
    if not rows.recording_sha256:
        raise UserError(f"not a file of departures: metadata has no {RECORDING}", where=where)
    if rows.recording_sha256 == UNKNOWN:
        fix = "save the recording before it is replayed"
        raise UserError("the recording of these departures is unknown", where=where, fix=fix)
    if not len(rows.packet):
        return
    if rows.packet.min() < 0 or rows.loop.min() < 0 or rows.loop.max() >= MAX_LOOPS:
        raise UserError("a packet or loop number is out of range", where=where)
    same_loop = np.diff(rows.loop) == 0
    if (np.diff(rows.loop) < 0).any() or (np.diff(rows.packet)[same_loop] <= 0).any():
        raise UserError("rows are not in the order of loop and packet, or a packet occurs twice", where=where)
    if rows.requested_ns.min() < 0 or rows.departed_ns.min() < 0:
        raise UserError("a time is before 1970", where=where)
    if (np.abs(rows.departed_ns - rows.requested_ns)[rows.measured] > MAX_DEVIATION_NS).any():
        raise UserError("a packet departed more than a year from the requested time", where=where)
