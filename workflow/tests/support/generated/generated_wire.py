"""Digests of synthetic captures of an iperf3 TCP stream, taken at the sender."""

import pyarrow as pa
import pyarrow.parquet as pq

from acapella.transfer.wire import COOKIE_BYTES
from acapella_core.arrow_tables import arrow_schema

SYN, ACK, PSH_ACK, FIN_ACK = 2, 16, 24, 17
CLIENT, SERVER = 40_000, 5201
MS = 10**6
HEADERS = 52  # IP and TCP with timestamps
COLUMNS = ("frame", "ts_ns", "wire_len", "ip_len", "flow", "tcp_flags", "tcp_seq", "tcp_ack", "payload_len")
FRAMES = pa.schema([arrow_schema("frames").field(name) for name in COLUMNS])


class Capture:
    """Frames of a stream from the client to the server. ``first``: sequence number of the SYN."""

    def __init__(self, first: int = 1000, *, opened: bool = True):
        self.first, self.rows = first, []
        if opened:
            self.open()

    def frame(  # noqa: PLR0913
        self, ms: float, flow: int, flags: int, payload: int, *, seq: int = 0, ack: int | None = None
    ) -> None:
        """Add a frame. Positions are relative to the first payload byte."""
        start = self.first + 1
        row = {"ts_ns": round(ms * MS), "payload_len": payload}
        row |= {"ip_len": HEADERS + payload, "wire_len": HEADERS + payload + 14, "flow": flow, "tcp_flags": flags}
        row["tcp_seq"] = (start + seq) % 2**32 if flow == 0 else 77
        row["tcp_ack"] = None if ack is None else (start + ack) % 2**32
        self.rows.append(row)

    def open(self) -> None:
        """Add the handshake at 0 to 20 ms, and iperf3's cookie with its acknowledgment."""
        self.frame(0, 0, SYN, 0, seq=-1)
        self.frame(20, 1, SYN | ACK, 0, ack=0)
        self.frame(20, 0, ACK, 0)
        self.frame(21, 0, PSH_ACK, COOKIE_BYTES)
        self.frame(41, 1, ACK, 0, ack=COOKIE_BYTES)

    def send(self, ms: float, number: int, size: int = 1000) -> None:
        """Add segment ``number`` after the cookie."""
        self.frame(ms, 0, ACK, size, seq=COOKIE_BYTES + 1000 * number)

    def acknowledge(self, ms: float, segments: int) -> None:
        """Add the acknowledgment of the first ``segments`` segments after the cookie."""
        self.frame(ms, 1, ACK, 0, ack=COOKIE_BYTES + 1000 * segments)

    def in_order(self) -> "Capture":
        """Sort the frames by time; return this capture."""
        self.rows.sort(key=lambda row: row["ts_ns"])
        return self

    def write(self, tmp_path, *others: "Capture", cut: bool = False):
        """Write acap and flows; return their paths. Other streams follow this one and have different ports."""
        acap, flows = tmp_path / "wire.parquet", tmp_path / "wire.flows.parquet"
        rows = [row | {"flow": row["flow"] + 3 * n} for n, stream in enumerate((self, *others)) for row in stream.rows]
        pq.write_table(pa.Table.from_pylist([row | {"frame": n} for n, row in enumerate(rows, 1)], FRAMES), acap)
        ends = [(2, None, 17, CLIENT, SERVER, 10**9, True)]
        for n in range(1 + len(others)):
            ends.append((3 * n, 3 * n + 1, 6, CLIENT, SERVER + n, 1, cut))
            ends.append((3 * n + 1, 3 * n, 6, SERVER + n, CLIENT, 0, cut))
        names = ("flow", "peer_flow", "ip_proto", "src_port", "dst_port", "payload_bytes", "cut_end")
        pq.write_table(pa.table(dict(zip(names, zip(*ends, strict=True), strict=True))), flows)
        return acap, flows
