"""The binary result of acapella-monitor (capture/monitor/src/files/result.h): counts of each port and flow."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acapella_core.errors import UserError

MAGIC = b"ACMONv3\0"
BUCKETS = 164  # buckets of histograms; an additional one counts negative values
MALFORMED = ("truncated", "version", "length", "checksum", "nested")

PORT = np.dtype(
    [
        ("name", "S256"),
        *((name, "<u8") for name in ("received", "bytes", "filtered", "foreign", "invalid", "stamped", "well_formed")),
        *((f"malformed_{name}", "<u8") for name in MALFORMED),
        *((name, "<u8") for name in ("unique", "duplicates", "reordered", "unclassified", "bit_errors")),
        ("first_ns", "<i8"),
        ("last_ns", "<i8"),
        ("dropped_kernel", "<u8"),
        ("missed", "<u8"),
        ("clock_steps", "<u8"),
        ("clock_step_ns", "<i8"),
        ("stepped_from_ns", "<i8"),
        ("gaps", "<u8", BUCKETS + 1),
        ("latencies", "<u8", BUCKETS + 1),
        ("begin_ns", "<i8"),
        ("length_ns", "<i8"),
        ("intervals", "<u8"),
        ("early", "<u8"),
    ]
)
INTERVAL = np.dtype(
    [
        ("packets", "<u8"),
        ("bytes", "<u8"),
        ("first_copies", "<u8"),
        ("latency_min_ns", "<i8"),
        ("latency_at_ns", "<i8"),
    ]
)
FLOW = np.dtype(
    [
        ("flow", "<u8"),
        *((name, "<u8") for name in ("packets", "bytes", "unique")),
        *((name, "<i8") for name in ("next", "last_ns", "last_latency_ns")),
        ("jitter_16", "<u8"),
        ("latency_sum_low", "<u8"),
        ("latency_sum_high", "<i8"),
        *((name, "<i8") for name in ("latency_min_ns", "latency_max_ns", "gap_min_ns", "gap_max_ns")),
        ("jitter_max_16", "<u8"),
        ("bits_checked", "<u8"),
        ("first_ns", "<i8"),
        ("lowest", "<i8"),
        *((name, "<u8") for name in ("duplicates", "reordered", "unclassified", "discontinuities")),
        *((name, "<u8") for name in ("extent_known", "extent_sum", "extent_max")),
        ("late_max_ns", "<i8"),
        *((name, "<u8") for name in ("bit_errors", "errored_packets", "breaks", "malformed")),
        ("reserved", "<u8", 3),
        ("gaps", "<u8", BUCKETS + 1),
        ("latencies", "<u8", BUCKETS + 1),
    ]
)


@dataclass(frozen=True)
class PortResult:
    """The counts of a port: a record of PORT, records of FLOW in the order of flows, and records of INTERVAL."""

    name: str
    counts: np.void
    intervals: np.ndarray
    flows: np.ndarray


def read(path: Path) -> list[PortResult]:
    """Return the ports of a result file. Raises UserError if it is not complete."""
    content = path.read_bytes()
    if content[: len(MAGIC)] != MAGIC:
        raise UserError("not a result in the format of this version of acapella-monitor", where=path)
    try:
        return list(ports(content))
    except ValueError as error:
        raise UserError("not a complete result of acapella-monitor", where=path) from error


def ports(content: bytes):
    """Yield the ports of a file's content. Raises ValueError if its length is wrong."""
    offset = len(MAGIC)
    (count,) = np.frombuffer(content, "<u8", 1, offset)
    offset += 8
    for _ in range(int(count)):
        (counts,) = np.frombuffer(content, PORT, 1, offset)
        offset += PORT.itemsize
        intervals = np.frombuffer(content, INTERVAL, int(counts["intervals"]), offset)
        offset += intervals.nbytes
        (flow_count,) = np.frombuffer(content, "<u8", 1, offset)
        offset += 8
        flows = np.frombuffer(content, FLOW, int(flow_count), offset)
        offset += flows.nbytes
        yield PortResult(counts["name"].decode(errors="replace"), counts, intervals, flows)
    if offset != len(content):
        raise ValueError("trailing bytes")


def bucket_limits(bucket: int) -> tuple[int | None, int | None]:
    """Return the first value of a histogram's bucket, and that of the next bucket, in ns; None: no limit."""
    if bucket == BUCKETS:
        return None, 0

    def first(index: int) -> int:
        return index if index < 4 else (4 + index % 4) << (index // 4 - 1)

    return first(bucket), None if bucket == BUCKETS - 1 else first(bucket + 1)
