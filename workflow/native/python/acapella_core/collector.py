"""Convert flow reports to flows: the collector of the P4/RDMA paper (section III-C), in the native core.

A `Collector` receives RoCEv2 frames (from capture files, memory, or an interface) or reports in a ring, checks them as
an RDMA NIC does, and keeps a table of flows. Rejected and missing reports are counted by reason, and are not added to
the table. Other threads may call `counters()` and `snapshot()` while it runs.

schemas/report_formats.tsv has the layouts of the reports, schemas/tables/flow_reports.yaml and flow_report_series.yaml
describe the two output tables.
"""

import contextlib
import errno
import ipaddress
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from . import _native
from .arrow_tables import arrow_schema
from .errors import UserError
from .files import NotSynced, atomic_path, atomic_text

REPORT_BYTES = {1: 64, 2: 192}  # by format
FLOW_ROWS = 1 << 14  # rows of a row group of the flow table
WAIT_MS = 50
ORDERS = ("bytes", "packets", "reports", "last_ns", "rtt", "throughput")


@dataclass(frozen=True)
class QueuePair:
    """One of the sender's queue pairs, and the ring that it writes to.

    number: 24 bits, not 0. key: key of the memory region. base: address of the ring, used by the sender. slots: number
    of reports that fit in the ring. psn: first packet sequence number; None: the number of the first report.
    """

    number: int
    key: int
    base: int
    slots: int
    psn: int | None = None


@dataclass(frozen=True)
class Rdma:
    """A port of an RDMA device and its sender.

    device: name of the device; None: the first device. gid_index: index of this machine's RoCEv2 address (show_gids).
    peer: IPv4 address of the sender. peer_queue_pair: any number, because a data plane has no queue pair. slots: number
    of reports that fit in the ring. psn: first packet sequence number.
    """

    peer: str
    slots: int
    device: str | None = None
    port: int = 1
    gid_index: int = 0
    peer_queue_pair: int = 1
    psn: int = 0


@dataclass(frozen=True)
class Options:
    """Options of a collector.

    format: 1 (the 64 bytes of the paper) or 2. threads: number of worker threads, which does not affect the result.
    series_ns: width of the windows of the series; 0: one row per report; None: no series. memory_bytes: memory limit of
    the flow table; reports of further flows are only counted (table_full). check_icrc: False accepts frames of programs
    that omit the ICRC. site: part of flow_id, as in the digest.
    """

    format: int = 2
    threads: int = 1
    series_ns: int | None = 1_000_000_000
    memory_bytes: int = 4 << 30
    check_icrc: bool = True
    site: str = ""


@dataclass(frozen=True)
class Loss:
    """Number of rows of a table that were not written, number of all rows, and the first error."""

    rows: int
    all_rows: int
    error: Exception


class Collector:
    """A running collector. series: output file for rows of the series; None: no series.

    As a context manager it writes the series completely, or not at all. Raises UserError for contradictory queue pairs
    or options, and for files that cannot be read or written. With keep, a table that cannot be written completely does
    not end the run: the rows that fit are kept, and `losses` describes the others, by table.
    """

    def __init__(
        self,
        queue_pairs: Sequence[QueuePair] = (),
        options: Options | None = None,
        *,
        series: str | os.PathLike | None = None,
        keep: bool = False,
    ):
        self.options = options or Options()
        check_options(self.options)
        core_options = asdict(self.options)
        site = core_options.pop("site")
        if series is None:
            core_options["series_ns"] = None
        core_options["queue_pairs"] = [pair_options(pair) for pair in queue_pairs]
        with core_errors():
            self._core = _native.Collector(core_options, site)
        self.on_series: Callable[[pa.RecordBatch], None] | None = None  # called with each written part of the series
        self.losses: dict[str, Loss] = {}  # by "flows", "series"
        self._keep = keep
        self._exit = contextlib.ExitStack()
        self._series = None
        if series is not None:
            self._series = self._exit.enter_context(table_file(series, "flow_report_series", keep=keep))
            self._series.spare_bytes = lambda: SPARE_BYTES + FLOW_BYTES * self._core.flows

    def __enter__(self):
        return self

    def __exit__(self, *failure) -> None:
        self._exit.__exit__(*failure)

    def feed(self, path: str | os.PathLike, attend: Callable[[], bool] | None = None, limits=None) -> dict:
        """Read the frames of a capture file; return {"records", "end", "detail"} (end: clean or a fault).

        attend is called at least every 2^20 frames: it may add and remove queue pairs, and stops reading by returning
        True. limits: on decompression (acapella_core.decompression).
        """
        with core_errors(path):
            self._core.open_file(os.fspath(path), limits or _native.DecompressionLimits())
        while self._core.advance():
            self.write_series()
            if attend is not None and attend():
                break
        self.write_series()
        return self._core.file_end()

    def run_interface(self, name: str, attend: Callable[[], bool]) -> None:
        """Receive frames of an interface until attend, which is called at least every WAIT_MS, returns True.

        Frames dropped by the kernel are counted (kernel_dropped). Raises UserError if there is no such interface,
        permission (CAP_NET_RAW) is missing, or the interface is removed.
        """
        with core_errors():
            self._core.open_interface(name)
            while not attend():
                if self._core.advance_interface(WAIT_MS):  # otherwise rows are buffered, so that row groups are large
                    self.write_series()
            self._core.advance_interface(0)  # frames received so far

    def open_rdma(self, rdma: "Rdma", *, single_ring: bool = True) -> QueuePair:
        """Register a ring with an RDMA device, which writes to it directly; return the parameters for the sender.

        single_ring: all reports of the program are written to this ring. Then sequence numbers of report format 2 show
        which reports were lost or overwritten before they were read (psn_gap_lost, overrun); otherwise this is unknown.
        Raises UserError, for example if there is no such device.
        """
        with core_errors():
            return QueuePair(**self._core.open_rdma(rdma_options(rdma), single_ring))

    def run_rdma(self, attend: Callable[[], bool]) -> None:
        """Process the reports in the rings of `open_rdma` until attend() returns True."""
        while not attend():
            if self._core.poll_rdma(WAIT_MS):  # otherwise rows are buffered, so that row groups are large
                self.write_series()

    def feed_frames(self, frames, offsets=None) -> None:
        """Process frames in memory.

        frames: a sequence of bytes, or one buffer (uint8) with the offsets of the frames in it (uint64, one more than
        frames).
        """
        if offsets is None:
            frames, offsets = join_frames(frames)
        self._feed(lambda first: self._core.feed_frames(frames, offsets, first), len(offsets) - 1)

    def feed_reports(self, reports) -> None:
        """Process contiguous reports (uint8), as in a ring.

        Only their version and IP version are checked; in format 1, only the zeros before the time.
        """
        size = REPORT_BYTES[self.options.format]
        self._feed(lambda first: self._core.feed_reports(reports, first), len(reports) // size)

    def finish(self) -> dict:
        """Close all windows of the series; return `counters()`. No further input is possible."""
        self._core.finish()
        self.write_series()
        if self._series is not None and self._keep:
            with self._losses_of("series", self._series):
                self._exit.close()
        return self.counters()

    def counters(self) -> dict[str, int]:
        """Return counts of frames and reports as of the last round (at most 16,384 reports ago). Thread-safe."""
        return self._core.counters()

    def newest_epoch(self) -> int:
        """Return the largest epoch in any report, 0 before the first report and in format 1; as of counters()."""
        return self._core.newest_epoch()

    def snapshot(self, limit: int | None = None, by: str = "bytes") -> pa.RecordBatch:
        """Return the current flows, the largest first, in the columns of flow_reports. Thread-safe."""
        if by not in ORDERS:
            raise UserError(f"order: {by}", fix=f"one of {', '.join(ORDERS)}")
        return typed(self._core.snapshot(limit, by), "flow_reports")

    def add_queue_pair(self, pair: QueuePair) -> None:
        """Add a queue pair; replace one with the same number."""
        with core_errors():
            self._core.add_queue_pair(pair_options(pair))

    def remove_queue_pair(self, number: int) -> None:
        """Remove a queue pair. Later requests are rejected and counted (bad_qp); RDMA devices do not count them."""
        self._core.remove_queue_pair(number)
        self._core.close_rdma(number)

    def flow_batches(self, rows: int = FLOW_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the flow table in the order of the flows' first reports. Must not be called while input is fed."""
        for first in range(0, max(self._core.flows, 1), rows):
            yield typed(self._core.flow_rows(first, rows), "flow_reports")

    def write_flows(self, path: str | os.PathLike) -> None:
        """Write the flow table as Parquet. Raises UserError if that fails, unless keep is set."""
        with self._losses_of("flows", None), table_file(path, "flow_reports", keep=self._keep) as file:
            for batch in self.flow_batches():
                file.write(batch)
            if file.fault:
                self.losses["flows"] = file.loss()

    @contextlib.contextmanager
    def _losses_of(self, name: str, file: "TableFile | None") -> Iterator[None]:
        """With keep, record the rows of a table that were not written; all rows if the block fails.

        A complete table whose directory could not be synced has no lost row.
        """
        rows = self._core.flows if file is None else file.rows + file.rows_lost
        try:
            yield
        except UserError as error:
            if not self._keep:
                raise
            self.losses[name] = Loss(0 if isinstance(error, NotSynced) else rows, rows, error)
        else:
            if file is not None and file.fault:
                self.losses[name] = file.loss()

    def write_counters(self, path: str | os.PathLike) -> None:
        """Write counters() as JSON."""
        atomic_text(path, json.dumps(self.counters(), indent=1) + "\n")

    @property
    def bytes_per_flow(self) -> int:
        """Return the memory per flow, including its part of the index."""
        return self._core.bytes_per_flow

    def _feed(self, feed_part, end: int) -> None:
        first = 0
        while first < end:
            first = feed_part(first)
            self.write_series()

    def write_series(self) -> None:
        """Write the available rows of the series as a row group. Must be called in the thread that feeds."""
        batch = self._core.take_series()
        if batch is not None:
            rows = typed(batch, "flow_report_series")
            self._series.write(rows)
            if self._series.fault:
                self.losses["series"] = self._series.loss()
            if self.on_series is not None:
                self.on_series(rows)


PARQUET = {"version": "2.6", "compression": "zstd", "compression_level": 1}
COLUMN_BYTES = 512  # footer per column and row group: offsets, encodings, statistics
SMALLEST_PART = 1024  # rows: smaller row groups are not divided on a full disk
SPARE_BYTES = 1 << 16  # page headers and counters.json
FLOW_BYTES = 256  # per flow, for the file of the flow table; a run of 20,000 flows needed 62


class TableFile:
    """A Parquet file that grows by row groups.

    With keep, disk space for a row group and the footer is allocated before the row group is written. Therefore, on a
    full disk the file ends with the last row group that fits, and rows_lost counts the other rows. spare_bytes() more
    bytes are allocated until the file is complete, for files that are written after it.
    """

    def __init__(self, part: os.PathLike, table: str, *, keep: bool):
        self.fault: OSError | None = None
        self.rows = self.rows_lost = self._allocated = 0
        self.spare_bytes = lambda: SPARE_BYTES
        self._keep = keep
        self._footer_bytes = COLUMN_BYTES * len(arrow_schema(table))
        self._file = pa.OSFile(str(part), "wb")
        self._descriptor = os.open(part, os.O_WRONLY | os.O_CLOEXEC)
        self._writer = pq.ParquetWriter(self._file, arrow_schema(table), **PARQUET)

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a row group, or the parts of it that fit. Raises OSError if it does not fit, unless keep is set."""
        if self.fault is not None:
            self.rows_lost += len(batch)
            return
        try:
            if self._keep:
                self._allocate(batch)
        except OSError as error:
            if len(batch) > SMALLEST_PART:
                self.write(batch.slice(0, len(batch) // 2))
                self.write(batch.slice(len(batch) // 2))
            else:
                self.fault = error
                self.rows_lost += len(batch)
            return
        try:
            self._writer.write_batch(batch)
            self.rows += len(batch)
        except OSError as error:
            if not self._keep:
                raise
            self.fault = error  # inside a row group: the file is unreadable
            self.rows, self.rows_lost = 0, self.rows + self.rows_lost + len(batch)

    def loss(self) -> Loss:
        """Return the loss of rows, if any."""
        return Loss(self.rows_lost, self.rows + self.rows_lost, self.fault)

    def close(self) -> None:
        """Write the footer. Raises OSError if that fails, or if all rows were lost."""
        if self.fault and not self.rows:
            raise self.fault
        self._writer.close()
        os.ftruncate(self._descriptor, self._file.tell())

    def release(self) -> None:
        """Close the descriptors, even if the file was not completed."""
        self._writer.is_open = False  # otherwise the writer completes the file when it is freed
        self._file.close()
        os.close(self._descriptor)

    def _allocate(self, batch: pa.RecordBatch) -> None:
        """Allocate disk space for a row group and the resulting footer. Raises OSError."""
        footer = self._footer_bytes + COLUMN_BYTES * len(batch.schema)
        end = self._file.tell() + footer + self.spare_bytes()
        try:
            os.posix_fallocate(self._descriptor, 0, end + 2 * batch.nbytes)  # more than needed
            self._allocated = end + 2 * batch.nbytes
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):  # file system without fallocate
                return
            # Remove a partial allocation, but not the magic number, which precedes the first row group.
            os.ftruncate(self._descriptor, max(self._allocated, self._file.tell()))
            end += encoded_bytes(batch)
            os.posix_fallocate(self._descriptor, 0, end)
            self._allocated = end
        self._footer_bytes = footer


def encoded_bytes(batch: pa.RecordBatch) -> int:
    """Return the size of a Parquet file with this row group."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, batch.schema, **PARQUET) as writer:
        writer.write_batch(batch)
    return sink.getvalue().size


@contextlib.contextmanager
def table_file(path: str | os.PathLike, table: str, *, keep: bool) -> Iterator[TableFile]:
    """Yield a table file; it is renamed at the end, or removed if the block fails. Raises UserError."""
    with atomic_path(path) as part:
        file = TableFile(part, table, keep=keep)
        try:
            yield file
            file.close()
        finally:
            file.release()


def typed(batch, table: str) -> pa.RecordBatch:
    """Return rows of the core with the schema of their table."""
    rows = pa.record_batch(batch)
    schema = arrow_schema(table)
    if rows.schema.names != schema.names:
        raise TypeError(f"{table}: the core's columns are {rows.schema.names}")
    return pa.RecordBatch.from_arrays(rows.columns, schema=schema)


def pair_options(pair: QueuePair) -> dict:
    """Return a queue pair as options of the core. Raises UserError."""
    for name, bits in (("number", 24), ("key", 32), ("base", 64), ("slots", 32), ("psn", 24)):
        value = getattr(pair, name)
        if value is not None and not 0 <= value < 1 << bits:
            raise UserError(f"queue pair {pair.number}: {name} {value}", fix=f"a number of {bits} bits")
    return asdict(pair)


def rdma_options(rdma: Rdma) -> dict:
    """Return RDMA settings as options of the core. Raises UserError."""
    try:
        peer = ipaddress.IPv4Address(rdma.peer).packed
    except ValueError as error:
        raise UserError(f"RDMA peer: {error}") from error
    for name, bits in (("port", 8), ("gid_index", 8), ("peer_queue_pair", 24), ("slots", 32), ("psn", 24)):
        if not 0 <= getattr(rdma, name) < 1 << bits:
            raise UserError(f"RDMA: {name} {getattr(rdma, name)}", fix=f"a number of {bits} bits")
    if rdma.slots == 0:
        raise UserError("RDMA: the ring must have at least 1 slot", fix="65536, for example")
    return {**asdict(rdma), "peer": peer, "device": rdma.device or ""}


def rdma_devices() -> list[str]:
    """Return the names of this machine's RDMA devices."""
    return _native.rdma_devices()


def check_options(options: Options) -> None:
    """Raise UserError for invalid options that the core would report less clearly."""
    if options.format not in REPORT_BYTES:
        raise UserError(f"report format {options.format}", fix="1 or 2")
    if not 1 <= options.threads <= 256:
        raise UserError(f"{options.threads} threads", fix="1 to 256")
    for name in ("memory_bytes", "series_ns"):
        value = getattr(options, name)
        if value is not None and not 0 <= value < 1 << 63:
            raise UserError(f"{name}: {value}", fix="a number of 63 bits")


def join_frames(frames: Sequence[bytes]):
    """Return frames as one buffer, and their offsets."""
    import numpy as np  # noqa: PLC0415 - large, and only needed here

    lengths = np.fromiter((len(frame) for frame in frames), np.uint64, len(frames))
    bounds = np.zeros(len(frames) + 1, np.uint64)
    np.cumsum(lengths, out=bounds[1:])
    return np.frombuffer(b"".join(frames), np.uint8), bounds


@contextlib.contextmanager
def core_errors(where: object = None) -> Iterator[None]:
    """Convert errors of the core about files and queue pairs to UserError."""
    try:
        yield
    except _native.InputError as error:
        raise UserError(str(error)) from error
    except _native.CollectorConfigError as error:
        raise UserError(str(error), where=where) from error
    except _native.RdmaError as error:
        raise UserError(str(error), fix="use an interface or a capture instead") from error
    except MemoryError as error:
        raise UserError("not enough memory for the rings", fix="fewer slots") from error
