"""Measures the streams of a run on the wire, from the digest of the capture at the sender."""

from dataclasses import dataclass
from pathlib import Path

from acapella.common import queries
from acapella_core.errors import UserError

from .cells import Fault, Process, Run

STAGE = "transfer"
COOKIE_BYTES = 37  # cookie that iperf3's client sends on each data connection before the test
QUERIES = ("segments", "acknowledgments", "round_trips", "flights", "wire")  # in the order of their dependencies
TCP = 6


@dataclass(frozen=True)
class RequestedStream:
    """A stream to be found in the capture: ports in the direction of its data."""

    flow: int
    stream: int
    src_port: int
    dst_port: int
    cookie_bytes: int
    sender_ns: int
    size_bytes: int | None = None  # requested bytes; None if unknown for this stream


def measure(run: Run, faults: list[Fault]) -> list[dict]:
    """Return a row for each stream of a run that its capture contains; [] without a capture.

    A missing or damaged digest is a fault of the run, not an error.
    """
    name = run.cell.get("wire")
    streams = requested_streams(run)
    if name is None or run.directory is None or not streams:
        return []
    acap = run.directory / name
    flows = acap.with_name(f"{name.removesuffix('.parquet')}.flows.parquet")
    try:
        rows = measure_streams(acap, flows, streams)
    except UserError as error:
        relative = f"{run.directory.parent.name}/{run.directory.name}/{name}"
        faults.append(Fault(run.cell_id, run.run, relative, 0, f"not a digest: {error}".splitlines()[0][:300]))
        return []
    return [{"cell_id": run.cell_id, "run": run.run, **row} for row in rows]


def requested_streams(run: Run) -> list[RequestedStream]:
    """Return the streams whose ports are known: from iperf3, or from cell.json if a process has one stream."""
    found = []
    for process in run.processes:
        for number, stream in enumerate(process.test.streams):
            local, remote = stream.local_port, stream.remote_port
            if (local is None or remote is None) and len(process.test.streams) == 1:
                local, remote = process.entry.get("client_port"), process.entry.get("server_port")
            if not local or not remote:
                continue
            ends = (remote, local) if stream.reverse else (local, remote)
            cookie = 0 if stream.reverse else COOKIE_BYTES
            size = requested_bytes(process)
            found.append(RequestedStream(process.flow, number, *ends, cookie, stream.sender_ns or 2**62, size))
    return found


def requested_bytes(process: Process) -> int | None:
    """Return the bytes that the only stream of a process was asked to transfer; None if unknown.

    cell.json has precedence, because a client may be asked to send more, so that the last requested byte arrives.
    """
    if len(process.test.streams) != 1:
        return None
    return process.entry.get("size_bytes") or process.test.requested_bytes or None


def measure_streams(acap: Path, flows: Path, streams: list[RequestedStream]) -> list[dict]:
    """Return the rows of wire.sql for the streams that are in the capture. Raises UserError for unreadable files."""
    for path in (acap, flows):
        if not path.is_file():
            raise UserError("no such file", where=path)
    with queries.one_line(acap):
        con = queries.connect()
        con.read_parquet(str(acap)).create_view("frames")
        con.read_parquet(str(flows)).create_view("flows")
        con.execute(
            "create temp table streams (stream integer, src_port usmallint, dst_port usmallint, cookie_bytes bigint, "
            "sender_ns bigint, size_bytes bigint)"
        )
        con.executemany(
            "insert into streams values (?, ?, ?, ?, ?, ?)",
            [(n, s.src_port, s.dst_port, s.cookie_bytes, s.sender_ns, s.size_bytes) for n, s in enumerate(streams)],
        )
        for name in ("wanted", *QUERIES):
            queries.select(con, STAGE, name, {"tcp": TCP}).create(name)
        rows = con.table("wire").order("stream").to_arrow_table().to_pylist()
    return [{"flow": streams[row["stream"]].flow, **row, "stream": streams[row["stream"]].stream} for row in rows]
