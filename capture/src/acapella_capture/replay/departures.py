"""Departures of a run: the program's records as Parquet (schemas/tables/departures.yaml), and their summary.

The binary file begins with MAGIC; RECORD describes its records. Every packet of every loop has one record.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from acapella_core import names
from acapella_core.arrow_tables import arrow_schema
from acapella_core.errors import UserError
from acapella_core.files import atomic_path

from .program import UNKNOWN, number_in

MAGIC = b"ACDEPv1\0"
RECORD = np.dtype(
    [
        ("loop", "<u4"),
        ("port", "<u2"),
        ("outcome", "u1"),
        ("flags", "u1"),
        ("packet", "<u8"),
        ("requested_ns", "<i8"),
        ("departed_ns", "<i8"),
        ("retries", "<u4"),
        ("queue", "<u2"),
        ("reserved", "<u2"),
    ]
)
OUTCOMES = ("sent", "ring_full", "late", "too_long", "too_short", "driver_error", "stopped")  # by number
SENT = 0
RESOLVED, BURST_FIRST, HARDWARE = 1, 2, 4  # flags
NO_TIME = np.iinfo(np.int64).min
ROWS_AT_ONCE = 1 << 20
MEASURED = ("transmit", "loopback")
LEAD_SOURCES = ("option", *MEASURED)


class Lead(NamedTuple):
    """The lead time of a port and its source, one of LEAD_SOURCES; None if it is unknown.

    ``p5_ns`` and ``p95_ns`` are percentiles of a measured lead time; ``hardware`` is true if NIC timestamps measured
    it. All are None if it was not measured.
    """

    ns: int | None = None
    source: str | None = None
    p5_ns: int | None = None
    p95_ns: int | None = None
    hardware: bool | None = None

    def __str__(self) -> str:
        return UNKNOWN if self.ns is None else f"{duration(self.ns)} ({self.source})"


def leads_of(done: Mapping[str, Any]) -> tuple[Lead, ...]:
    """Return the lead times of the ports of a run from its event `done`; values of an unexpected type are unknown."""
    leads = done.get("leads")
    return tuple(lead_of(lead) for lead in leads) if isinstance(leads, list) else ()


def lead_of(lead: object) -> Lead:
    """Return a lead time of an event `done`."""
    if not isinstance(lead, dict):
        return Lead()
    ns, source, low, high = (lead.get(key) for key in ("ns", "source", "p5_ns", "p95_ns"))
    if not (is_time(ns) and ns >= 0 and source in LEAD_SOURCES):
        return Lead()
    if source not in MEASURED or not (is_time(low) and is_time(high) and low <= high):
        return Lead(ns, source)
    stamps = lead.get("timestamps")
    return Lead(ns, source, low, high, stamps == "device" if stamps in ("device", "kernel") else None)


def is_time(value: object) -> bool:
    """Return whether a value is a number of nanoseconds."""
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def lost_in_kernel(done: Mapping[str, Any]) -> list[str]:
    """Return a line for each interface whose kernel did not send all packets of a run, from its event `done`.

    The driver counts packets as sent even if the kernel drops them later. The interface also counts what a bridge
    forwarded and answered during the run. Other programs may send on the interface, so its count may be larger.
    """
    ports = done.get("ports")
    found = []
    for port in ports if isinstance(ports, list) else ():
        counted = port.get("interface") if isinstance(port, dict) else None
        if not isinstance(counted, dict):
            continue  # not an interface of the kernel
        queues = port.get("queues")
        sent = sum(number_in(queue) for queue in queues) if isinstance(queues, list) else 0
        sent += number_in(port.get("forwarded")) + number_in(port.get("answered"))
        dropped, missing = number_in(counted.get("tx_dropped")), sent - number_in(counted.get("tx_packets"))
        name = text if isinstance(text := port.get("name"), str) and text.isprintable() else UNKNOWN
        if dropped or missing > 0:
            counts = [f"{dropped} dropped"] if dropped else []
            counts += [f"{missing} of {sent} not sent at the end of the run"] if missing > 0 else []
            found.append(f"the kernel did not send all packets of {name}: {', '.join(counts)}")
    return found


@dataclass(frozen=True)
class Origin:
    """The origin of departures, stored as key-value metadata of the file; unknown values are None.

    ``clock_offset_ns`` is the replayer's clock minus the reference of ``clock_source``, with an error of at most
    ``clock_error_ns``. ``receiver_clock_error_ns`` is the largest error of the replayer's clock relative to the
    receiver's; known only if both have the same system clock. ``node_clock`` is the clock state reported by the
    replayer's machine (`clocks.own_clock`). ``leads`` are the lead times of the ports, in their order.
    """

    clock_offset_ns: int | None = None
    clock_error_ns: int | None = None
    clock_source: str | None = None
    recording_sha256: str | None = None
    speed_ppm: int = 1_000_000
    pacing: str | None = None
    node_clock: Mapping[str, Any] = field(default_factory=dict)
    leads: tuple[Lead, ...] = ()
    receiver_clock_error_ns: int | None = None

    def metadata(self) -> dict[str, str]:
        """Return the metadata as text."""
        integer, millionths = divmod(self.speed_ppm, 1_000_000)
        values = {
            "clock_offset_ns": self.clock_offset_ns,
            "clock_error_ns": self.clock_error_ns,
            "receiver_clock_error_ns": self.receiver_clock_error_ns,
            "clock_source": self.clock_source,
            "recording_sha256": self.recording_sha256,
            "speed": f"{integer}.{millionths:06}".rstrip("0").rstrip("."),
            "pacing": self.pacing,
            "lead_ns": by_port([lead.ns for lead in self.leads]),
            "lead_source": by_port([lead.source for lead in self.leads]),
            "lead_p5_ns": by_port([lead.p5_ns for lead in self.leads]),
            "lead_p95_ns": by_port([lead.p95_ns for lead in self.leads]),
            "lead_hardware": by_port([lead.hardware for lead in self.leads]),
            **{f"node_clock_{key}": self.node_clock.get(key) for key in ("source", "offset_ns", "synchronized")},
        }
        return {key: UNKNOWN if value is None else text_of(value) for key, value in values.items()}


def by_port(values: Sequence[int | str | bool | None]) -> str | None:
    """Return the values of ports, separated by commas; None if there are none."""
    return ",".join(UNKNOWN if value is None else text_of(value) for value in values) or None


def text_of(value: object) -> str:
    """Return a value as text, as in JSON."""
    return json.dumps(value) if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Summary:
    """Counts of a run by outcome, and quantiles of the departure error |departed - requested| of packets with a time.

    Quantiles are nearest-rank values; None if no packet has a time. ``errors_ns`` are the signed errors.
    """

    packets: int
    outcomes: Mapping[str, int]
    errors_ns: np.ndarray = field(repr=False, compare=False)

    @property
    def sent(self) -> int:
        """Return the number of packets that were sent."""
        return len(self.errors_ns)

    def error_ns(self, share: float) -> int | None:
        """Return the departure error that a share of the packets does not exceed."""
        if not len(self.errors_ns):
            return None
        rank = max(0, int(np.ceil(share * len(self.errors_ns))) - 1)
        return int(np.partition(np.abs(self.errors_ns), rank)[rank])

    def lines(self) -> list[str]:
        """Return the summary for a terminal."""
        others = ", ".join(f"{count} {name}" for name, count in self.outcomes.items() if name != "sent" and count)
        head = f"{names.pluralize(self.packets, 'packet')}, {self.sent:,} sent" + (f" ({others})" if others else "")
        if not self.sent:
            return [head]
        median, p99, largest = (duration(self.error_ns(share)) for share in (0.5, 0.99, 1))
        return [head, f"departure error: median {median}, 99th percentile {p99}, largest {largest}"]


def duration(ns: int) -> str:
    """Return a duration with at most four significant digits, in ns, us, ms or s."""
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if abs(ns) >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns} ns"


def convert(binary: Path, target: Path | None, origin: Origin) -> Summary:
    """Write a program's departures as Parquet (to no file if ``target`` is None); return their summary.

    Raises UserError if the file is incomplete or has invalid records, or the target cannot be written.
    """
    records = read(binary)
    order = order_of(records)
    if target is not None:
        schema = arrow_schema("departures").with_metadata(origin.metadata())
        with atomic_path(target) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for part in parts(records, order):
                writer.write_batch(batch_of(part, schema))
    return summary_of(records)


def read(binary: Path) -> np.ndarray:
    """Return the records of a file without reading them all into memory. Raises UserError if it is not valid."""
    size = binary.stat().st_size
    with binary.open("rb") as stream:
        magic = stream.read(len(MAGIC))
    if magic != MAGIC or (size - len(MAGIC)) % RECORD.itemsize:
        raise UserError("not a complete file of departures", where=binary)
    count = (size - len(MAGIC)) // RECORD.itemsize
    if not count:
        return np.empty(0, RECORD)
    records = np.memmap(binary, RECORD, "r", len(MAGIC), count)
    for part in parts(records, None):
        check(part, binary)
    return records


def check_size(binary: Path, packets: int) -> None:
    """Raise UserError unless a file has a record for each of a number of packets."""
    if binary.stat().st_size != len(MAGIC) + packets * RECORD.itemsize:
        raise UserError(f"does not contain the departures of {packets} packets", where=binary)


def check(records: np.ndarray, binary: Path) -> None:
    """Raise UserError for an unknown outcome, a value that its column cannot have, or a time that must not exist or is
    missing.
    """
    timed = records["departed_ns"] != NO_TIME
    faults = {
        "an unknown outcome": records["outcome"] >= len(OUTCOMES),
        "a number that is too large": (records["packet"] >= 1 << 63)
        | (records["loop"] >= 1 << 31)
        | (records["port"] >= 1 << 15)
        | (records["queue"] >= 1 << 15)
        | (records["retries"] >= 1 << 31),
        "an outcome that does not fit its time": timed != (records["outcome"] == SENT),
    }
    for fault, rows in faults.items():
        if rows.any():
            raise UserError(f"a record has {fault}", where=binary)


def order_of(records: np.ndarray) -> np.ndarray | None:
    """Return the order of records by loop and packet; None if they are already in this order."""
    loops, packets = records["loop"], records["packet"]
    ordered = (loops[1:] > loops[:-1]) | ((loops[1:] == loops[:-1]) & (packets[1:] > packets[:-1]))
    return None if ordered.all() else np.lexsort((packets, loops))


def parts(records: np.ndarray, order: np.ndarray | None) -> Iterator[np.ndarray]:
    """Yield the records in an order, ROWS_AT_ONCE at a time."""
    for start in range(0, len(records), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        yield np.asarray(records[rows] if order is None else records[order[rows]])


def batch_of(records: np.ndarray, schema: pa.Schema) -> pa.RecordBatch:
    """Return records as rows of the table."""
    flags, departed = records["flags"], records["departed_ns"]
    names = pa.array(OUTCOMES, pa.string())
    columns = {
        "loop": records["loop"].astype(np.int32),
        "port": records["port"].astype(np.int16),
        "packet": records["packet"].astype(np.int64),
        "requested_ns": records["requested_ns"].astype(np.int64),
        "departed_ns": pa.array(departed.astype(np.int64), mask=departed == NO_TIME),
        "outcome": pa.DictionaryArray.from_arrays(records["outcome"].astype(np.int8), names),
        "resolved": (flags & RESOLVED) != 0,
        "burst_first": (flags & BURST_FIRST) != 0,
        "hardware": (flags & HARDWARE) != 0,
        "retries": records["retries"].astype(np.int32),
        "queue": records["queue"].astype(np.int16),
    }
    arrays = [pa.array(columns[column.name]) if isinstance(columns[column.name], np.ndarray) else columns[column.name]
              for column in schema]  # fmt: skip
    return pa.record_batch(arrays, schema=schema)


def summary_of(records: np.ndarray) -> Summary:
    """Return the summary of records."""
    counts = np.bincount(records["outcome"], minlength=len(OUTCOMES)) if len(records) else [0] * len(OUTCOMES)
    timed = records["departed_ns"] != NO_TIME
    errors = records["departed_ns"][timed] - records["requested_ns"][timed]
    return Summary(len(records), dict(zip(OUTCOMES, map(int, counts), strict=True)), np.asarray(errors, np.int64))


def median_gap_ns(requested_ns: np.ndarray) -> int | None:
    """Return the lower median of the gaps between requested departures; those at the same time count as one."""
    gaps = np.diff(np.unique(requested_ns))
    return int(np.sort(gaps)[(len(gaps) - 1) // 2]) if len(gaps) else None
