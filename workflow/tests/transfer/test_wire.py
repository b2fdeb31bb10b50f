"""Tests values of the wire of single streams against hand-computed ones."""

import pyarrow as pa
import pyarrow.parquet as pq

from acapella.transfer.wire import COOKIE_BYTES, Wanted, measured

SYN, ACK, PSH_ACK, FIN_ACK = 2, 16, 24, 17
CLIENT, SERVER = 40_000, 5201
MS = 10**6
HEADERS = 52  # IP and TCP with timestamps
FRAMES = pa.schema(
    [
        ("frame", pa.uint64()),
        ("ts_ns", pa.int64()),
        ("wire_len", pa.uint32()),
        ("ip_len", pa.uint32()),
        ("flow", pa.uint32()),
        ("tcp_flags", pa.uint16()),
        ("tcp_seq", pa.uint32()),
        ("tcp_ack", pa.uint32()),
        ("payload_len", pa.uint32()),
    ]
)


class Capture:
    """Frames of a stream from the client to the server. ``first``: sequence number of the SYN."""

    def __init__(self, first: int = 1000):
        self.first, self.rows = first, []

    def frame(  # noqa: PLR0913
        self, ms: float, flow: int, flags: int, payload: int, *, seq: int = 0, ack: int | None = None
    ) -> None:
        """Add a frame. Positions are relative to the first payload byte."""
        start = self.first + 1
        self.rows.append(
            {
                "frame": len(self.rows) + 1,
                "ts_ns": round(ms * MS),
                **{"ip_len": HEADERS + payload, "wire_len": HEADERS + payload + 14, "flow": flow, "tcp_flags": flags},
                "tcp_seq": (start + seq) % 2**32 if flow == 0 else 77,
                "tcp_ack": None if ack is None else (start + ack) % 2**32,
                "payload_len": payload,
            }
        )

    def open(self) -> None:
        """Add the handshake at 0 to 20 ms, and iperf3's cookie with its acknowledgment."""
        self.frame(0, 0, SYN, 0, seq=-1)
        self.frame(20, 1, SYN | ACK, 0, ack=0)
        self.frame(20, 0, ACK, 0)
        self.frame(21, 0, PSH_ACK, COOKIE_BYTES)
        self.frame(41, 1, ACK, 0, ack=COOKIE_BYTES)

    def send(self, ms: float, place: int, size: int = 1000) -> None:
        """Add the segment number ``place`` after the cookie."""
        self.frame(ms, 0, ACK, size, seq=COOKIE_BYTES + 1000 * place)

    def acknowledge(self, ms: float, places: int) -> None:
        """Add the acknowledgment of the first ``places`` segments after the cookie."""
        self.frame(ms, 1, ACK, 0, ack=COOKIE_BYTES + 1000 * places)

    def write(self, tmp_path, *, cut: bool = False):
        """Write acap and flows; return their paths."""
        acap, flows = tmp_path / "wire.parquet", tmp_path / "wire.flows.parquet"
        pq.write_table(pa.Table.from_pylist(self.rows, schema=FRAMES), acap)
        ports = {"flow": [0, 1, 2], "peer_flow": [1, 0, None], "ip_proto": [6, 6, 17]}
        ports |= {"src_port": [CLIENT, SERVER, CLIENT], "dst_port": [SERVER, CLIENT, SERVER]}
        ports |= {"payload_bytes": [1, 0, 10**9], "cut_end": [cut, cut, True]}
        pq.write_table(pa.table(ports), flows)
        return acap, flows


def row_of(tmp_path, capture: Capture, *, sender_ms: int = 10_000, cut: bool = False) -> dict:
    """Return the row of the stream."""
    stream = Wanted(0, 0, CLIENT, SERVER, COOKIE_BYTES, sender_ms * MS)
    (row,) = measured(*capture.write(tmp_path, cut=cut), [stream])
    return row


def complete(first: int = 1000) -> Capture:
    """Return a capture of four segments at 100 to 103 ms, acknowledged 20, 30, 40 and 50 ms later."""
    capture = Capture(first)
    capture.open()
    for place in range(4):
        capture.send(100 + place, place)
    for place in range(4):
        capture.acknowledge(100 + place + 20 + 10 * place, place + 1)
    return capture


def test_stream_without_loss(tmp_path):
    row = row_of(tmp_path, complete())
    assert (row["bytes"], row["retransmitted_bytes"], row["missing_bytes"], row["retransmits"]) == (4000, 0, 0, 0)
    assert (row["syn_ns"], row["start_ns"], row["end_ns"]) == (0, 100 * MS, 153 * MS)
    assert row["ip_bytes"] == 4000 + COOKIE_BYTES + 5 * HEADERS
    assert row["frame_bytes"] == 4000 + COOKIE_BYTES + 5 * (HEADERS + 14)
    # The cookie was acknowledged after 20 ms, the segments after 20, 30, 40, 50 ms.
    assert (row["rtts"], row["rtt_min_ns"], row["rtt_mean_ns"]) == (5, 20 * MS, 32 * MS)
    assert (row["rtt_p99_ns"], row["cut"]) == (50 * MS, False)


def test_sequence_numbers_wrap(tmp_path):
    for first in (2**32 - 1, 2**32 - 40, 2**32 - 2000):
        assert row_of(tmp_path, complete(first)) == row_of(tmp_path, complete())


def test_retransmission_counts_once_and_gives_no_round_trip(tmp_path):
    capture = Capture()
    capture.open()
    for place in range(4):
        capture.send(100 + place, place)
    capture.acknowledge(120, 1)  # 20 ms after segment 0
    capture.acknowledge(123, 1)  # duplicate
    capture.send(130, 1)  # retransmission of segment 1
    capture.acknowledge(150, 4)  # ends the recovery: segment 3 was sent 47 ms ago
    row = row_of(tmp_path, capture)
    assert (row["bytes"], row["retransmitted_bytes"], row["retransmits"]) == (4000, 1000, 1)
    assert (row["rtts"], row["rtt_min_ns"], row["rtt_p99_ns"]) == (2, 20 * MS, 20 * MS)
    assert row["end_ns"] == 150 * MS


def test_retransmission_after_the_end_of_the_test_is_late(tmp_path):
    capture = complete()
    capture.send(300, 3)
    assert row_of(tmp_path, capture, sender_ms=150)["retransmits_late"] == 1
    assert row_of(tmp_path, capture, sender_ms=250)["retransmits_late"] == 0


def test_frames_that_the_capture_lost_are_missing_bytes(tmp_path):
    capture = Capture()
    capture.open()
    for place in (0, 3):
        capture.send(100 + place, place)
    capture.acknowledge(150, 4)
    row = row_of(tmp_path, capture, cut=True)
    assert (row["bytes"], row["missing_bytes"], row["retransmits"], row["cut"]) == (2000, 2000, 0, True)


def test_retransmission_whose_first_transmission_the_capture_lost_counts(tmp_path):
    capture = Capture()
    capture.open()
    for place in (0, 2, 1):
        capture.send(100 + place, place)
    row = row_of(tmp_path, capture)
    assert (row["bytes"], row["missing_bytes"], row["retransmits"], row["retransmitted_bytes"]) == (3000, 0, 1, 0)


def test_more_than_two_to_the_31_bytes_are_counted(tmp_path):
    capture = Capture(2**32 - 5)
    step = 2**30
    for place in range(6):  # segments of 1 GiB: no real frame, but the same arithmetic
        capture.frame(100 + place, 0, ACK, step, seq=place * step)
        capture.frame(100 + place + 20, 1, ACK, 0, ack=(place + 1) * step)
    row = row_of(tmp_path, capture)
    assert row["bytes"] == 6 * step - COOKIE_BYTES
    assert (row["missing_bytes"], row["retransmits"], row["rtts"], row["rtt_mean_ns"]) == (0, 0, 6, 20 * MS)


def test_stream_that_is_not_in_the_capture_has_no_row(tmp_path):
    paths = complete().write(tmp_path)
    other = Wanted(0, 1, CLIENT + 1, SERVER, COOKIE_BYTES, 10**9)
    assert measured(*paths, [other]) == []


def test_capture_of_the_handshake_alone_has_no_row(tmp_path):
    capture = Capture()
    capture.open()
    assert measured(*capture.write(tmp_path), [Wanted(0, 0, CLIENT, SERVER, COOKIE_BYTES, 10**9)]) == []
