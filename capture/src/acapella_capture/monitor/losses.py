"""Finds loss events: runs of packets of one capture point, identified by a hash, that are missing at another one."""

import json
import re
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
RULES = b"acapella_rules"  # metadata of the file: options --rule
PACKET_BYTES = 128  # memory per packet of both capture points during the search for lost packets (docs/monitor.md)
MEMINFO = Path("/proc/meminfo")


def check_memory(packets: int, where: object) -> None:
    """Raise UserError if this number of packets, of both capture points, needs more memory than is available."""
    found = re.search(r"(?m)^MemAvailable:\s+([0-9]+) kB$", MEMINFO.read_text()) if MEMINFO.is_file() else None
    if found and packets * PACKET_BYTES > int(found[1]) * 1024:
        raise UserError(
            f"the search for lost packets among {packets:,} needs {packets * PACKET_BYTES >> 20:,} MiB of memory, "
            f"{int(found[1]) >> 10:,} MiB is available",
            where=where, fix="monitor for a shorter time, or select packets with --rule", outside=True,
        )  # fmt: skip


def read_log(path: Path) -> np.ndarray:
    """Return the records of a log of acapella-monitor. Raises UserError if it is not complete."""
    check_memory(path.stat().st_size // RECORD.itemsize, "--sent and --packets")
    content = path.read_bytes()
    if content[: len(MAGIC)] != MAGIC or (len(content) - len(MAGIC)) % RECORD.itemsize:
        raise UserError("not a complete log of packets", where=path)
    return np.frombuffer(content, RECORD, offset=len(MAGIC))


def table_of(ports: Sequence[np.ndarray]) -> pa.Table:
    """Return the rows of monitor_packets from the records of each port."""
    schema = arrow_schema(TABLE)
    parts = []
    for number, records in enumerate(ports):
        unstamped = records["stamped"] == 0
        columns = {
            "port": np.full(len(records), number, np.uint32),
            "packet": np.arange(len(records), dtype=np.uint64),
            **{name: records[name] for name in ("arrival_ns", "wire_bytes", *IDENTITY)},
            **{name: pa.array(records[name], mask=unstamped) for name in ("flow", "sequence")},
        }
        parts.append(pa.table([pa.array(columns[field.name]) for field in schema], schema=schema))
    return pa.concat_tables(parts)


def write(path: Path, table: pa.Table, rules: Sequence[str] = ()) -> None:
    """Write packets as Parquet. ``rules``: rules that all packets satisfy, stored as metadata of the file."""
    with atomic_path(path) as temporary:
        pq.write_table(table.replace_schema_metadata({RULES: json.dumps(sorted(rules))}), temporary, compression="zstd")


def read(path: Path, rules: Sequence[str] = ()) -> np.ndarray:
    """Return the packets of a Parquet file of one port as records.

    Raises UserError for any other file, or if its packets were selected with different rules.
    """
    try:
        schema = arrow_schema(TABLE)
        check_memory(pq.read_metadata(path).num_rows, path)
        content = pq.read_table(path)
        table = content.select(schema.names).cast(schema)
        file_rules = json.loads((content.schema.metadata or {}).get(RULES, b"[]"))
        if not all(isinstance(rule, str) for rule in file_rules) or any(table[name].null_count for name in IDENTITY):
            raise ValueError("not written by --packets")
    except FileNotFoundError as error:
        raise UserError("no such file", where=path, fix="specify a capture, or a file of --packets") from error
    except (pa.ArrowException, OSError, KeyError, ValueError, TypeError, RecursionError) as error:
        raise UserError("not a table of packets", where=path, fix="acapella monitor --packets writes one") from error
    if file_rules != sorted(rules):
        raise UserError(
            f"its packets were selected with different rules ({' '.join(file_rules) or 'none'})", where=path,
            fix="use the same --rule at both capture points",
        )  # fmt: skip
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
    """Return for each packet of ``sent`` whether it is missing from ``arrived``.

    The k-th packet of an identity is lost if fewer than k packets of ``arrived`` have it.
    """
    numbers = identity_numbers(sent, arrived)
    sent_numbers, arrived_numbers = numbers[: len(sent)], numbers[len(sent) :]
    arrivals = np.bincount(arrived_numbers, minlength=numbers.max(initial=0) + 1)
    order = np.argsort(sent_numbers, kind="stable")
    grouped = sent_numbers[order]
    begins = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if len(grouped) else np.array([], int)
    rank = np.empty(len(sent_numbers), np.int64)  # index of a packet among those with its identity
    rank[order] = np.arange(len(sent_numbers)) - np.repeat(begins, np.diff(np.r_[begins, len(sent_numbers)]))
    return rank >= arrivals[sent_numbers]


def identity_numbers(sent: np.ndarray, arrived: np.ndarray) -> np.ndarray:
    """Return a number for each packet of ``sent``, then of ``arrived``; equal identities have equal numbers."""
    high, low = (np.concatenate((sent[name], arrived[name])) for name in IDENTITY)
    order = np.lexsort((low, high))
    differs = np.zeros(len(order), bool)
    for part in (high, low):
        part[:] = part[order]
        differs[1:] |= part[1:] != part[:-1]
    del high, low, part
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(differs)
    return numbers


def events(sent: np.ndarray, missing: np.ndarray) -> list[dict[str, int | None]]:
    """Return the loss events, the runs of consecutive missing packets, as rows of monitor_losses."""
    edges = np.diff(np.r_[0, missing.astype(np.int8), 0])
    rows = []
    for first, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True):
        part = sent[first:end]
        is_single_flow = bool(part["stamped"].all()) and len(set(part["flow"].tolist())) == 1
        rows.append(
            {
                "first_packet": int(first),
                "last_packet": int(end) - 1,
                "packets": int(end - first),
                "bytes": int(part["wire_bytes"].sum()),
                "first_ns": int(part["arrival_ns"][0]),
                "last_ns": int(part["arrival_ns"][-1]),
                "flow": int(part["flow"][0]) if is_single_flow else None,
            }
        )
    return rows
