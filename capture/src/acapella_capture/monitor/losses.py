"""Packets with their identities, and loss events: packets of one place that are missing at another one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from acapella_core.arrow_tables import arrow_schema
from acapella_core.errors import UserError
from acapella_core.files import atomic_path

MAGIC = b"ACPKTv1\0"
RECORD = np.dtype(
    [
        ("arrival_ns", "<i8"),
        ("identity_high", "<u8"),
        ("identity_low", "<u8"),
        ("flow", "<u4"),
        ("sequence", "<u4"),
        ("wire_bytes", "<u4"),
        ("stamped", "<u4"),
    ]
)
IDENTITY = ["identity_high", "identity_low"]
TABLE = "monitor_packets"


def read_log(path: Path) -> np.ndarray:
    """Return the records of a log of acapella-monitor. Raises UserError if it is not complete."""
    content = path.read_bytes()
    if content[: len(MAGIC)] != MAGIC or (len(content) - len(MAGIC)) % RECORD.itemsize:
        raise UserError("is not a complete log of packets", where=path)
    return np.frombuffer(content, RECORD, offset=len(MAGIC))


def table_of(ports: Sequence[np.ndarray]) -> pa.Table:
    """Return the rows of monitor_packets from the records of each port."""
    schema = arrow_schema(TABLE)
    parts = []
    for number, records in enumerate(ports):
        plain = records["stamped"] == 0
        columns = {
            "port": np.full(len(records), number, np.uint32),
            "packet": np.arange(len(records), dtype=np.uint64),
            **{name: records[name] for name in ("arrival_ns", "wire_bytes", *IDENTITY)},
            **{name: pa.array(records[name], mask=plain) for name in ("flow", "sequence")},
        }
        parts.append(pa.table([pa.array(columns[field.name]) for field in schema], schema=schema))
    return pa.concat_tables(parts)


def write(path: Path, table: pa.Table) -> None:
    """Write packets as Parquet."""
    with atomic_path(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def read(path: Path) -> np.ndarray:
    """Return the packets of a Parquet file of one port as records. Raises UserError if it is another file."""
    try:
        schema = arrow_schema(TABLE)
        table = pq.read_table(path).select(schema.names).cast(schema)
    except FileNotFoundError as error:
        raise UserError("no such file", where=path, fix="name a capture, or a file of --packets") from error
    except (pa.ArrowException, OSError, KeyError) as error:
        raise UserError("is not a table of packets", where=path, fix="acapella monitor --packets writes one") from error
    if len(set(table["port"].to_pylist())) > 1:
        raise UserError("contains packets of several ports", where=path, fix="monitor one port")
    records = np.zeros(len(table), RECORD)
    for name in ("arrival_ns", "wire_bytes", *IDENTITY):
        records[name] = table[name].to_numpy()
    records["stamped"] = table["flow"].is_valid().to_numpy()
    for name in ("flow", "sequence"):
        records[name] = table[name].fill_null(0).to_numpy()
    return records


def lost(sent: np.ndarray, arrived: np.ndarray) -> np.ndarray:
    """Return for each packet of ``sent`` whether it is missing in ``arrived``.

    The k-th packet of an identity is lost if fewer than k packets of ``arrived`` have it.
    """
    both = np.concatenate((sent[IDENTITY], arrived[IDENTITY])).astype([(name, "<u8") for name in IDENTITY])
    _, numbers = np.unique(both, return_inverse=True)
    numbers = numbers.reshape(-1)
    own, others = numbers[: len(sent)], numbers[len(sent) :]
    arrivals = np.bincount(others, minlength=numbers.max(initial=0) + 1)
    order = np.argsort(own, kind="stable")
    grouped = own[order]
    begins = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if len(grouped) else np.array([], int)
    rank = np.empty(len(own), np.int64)  # of a packet among those of its identity
    rank[order] = np.arange(len(own)) - np.repeat(begins, np.diff(np.r_[begins, len(own)]))
    return rank >= arrivals[own]


def events(sent: np.ndarray, missing: np.ndarray) -> list[dict[str, int | None]]:
    """Return the loss events, the runs of consecutive missing packets, as rows of monitor_losses."""
    edges = np.diff(np.r_[0, missing.astype(np.int8), 0])
    rows = []
    for first, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        part = sent[first:end]
        single = bool(part["stamped"].all()) and len(set(part["flow"].tolist())) == 1
        rows.append(
            {
                "first_packet": int(first),
                "last_packet": int(end) - 1,
                "packets": int(end - first),
                "bytes": int(part["wire_bytes"].sum()),
                "first_ns": int(part["arrival_ns"][0]),
                "last_ns": int(part["arrival_ns"][-1]),
                "flow": int(part["flow"][0]) if single else None,
            }
        )
    return rows
