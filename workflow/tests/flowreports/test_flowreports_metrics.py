"""The derived metrics of the P4/RDMA paper's table II, compared with exact counts of generated TCP connections."""

import struct
from collections import Counter, defaultdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames import traces

from acapella.cli import main as cli

pytestmark = pytest.mark.usefixtures("data_plane")
FIN, SYN, RST, ACK = 1, 2, 4, 16
MS, MODULUS = traces.MS, 2**32
SUMMED = ("bytes", "packets", "payload_bytes", "retransmitted_bytes", "gap_bytes", "duplicate_acks")


class Conversation:
    """TCP segments between two hosts, and exact counts for each direction.

    Sequence numbers are relative to the initial ones, so they do not wrap around here.
    """

    def __init__(self, start_ns: int, port: int = 1000, host: int = 1):
        self.now, self.frames = start_ns, []
        self.ends = {"client": (bytes((10, 0, 0, host)), port), "server": (bytes((10, 1, 0, 2)), 80)}
        self.counts, self.stamps, self.flights = defaultdict(Counter), defaultdict(list), defaultdict(list)
        self.closed = dict.fromkeys(self.ends)

    def open(self, client: int, server: int, halves: tuple[int, int] = (10, 5)) -> None:
        """Add a handshake with these initial sequence numbers; ``halves``: delays of SYN-ACK and ACK in ms."""
        self.first = {"client": client, "server": server}
        self.seen = {side: set() for side in self.ends}
        self.acked = dict.fromkeys(self.ends, 1)
        self.send("client", SYN, 0, 0)
        self.send("server", SYN | ACK, 0, 1, after=halves[0])
        self.send("client", ACK, 1, 1, after=halves[1])

    def send(self, side: str, flags: int, seq: int, ack: int, size: int = 0, *, after: int = 1) -> None:  # noqa: PLR0913
        """Add a segment, a number of ms after the previous one."""
        self.now += after * MS
        other = "server" if side == "client" else "client"
        numbers = [(self.first[side] + seq) % MODULUS, (self.first[other] + ack) % MODULUS if flags & ACK else 0]
        (src, src_port), (dst, dst_port) = self.ends[side], self.ends[other]
        tcp = struct.pack("!HHIIBBHHH", src_port, dst_port, *numbers, 0x50, flags, 1000, 0, 0) + bytes(size)
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0) + src + dst
        self.frames.append((self.now, bytes(12) + b"\x08\x00" + ip + tcp))
        self.count(side, flags, seq, size)
        if flags & ACK:
            self.acknowledge(other, ack, pure=size == 0 and not flags & (SYN | FIN))

    def data(self, seq: int, size: int, *acks: int, after: int = 1) -> None:
        """Add data from the client, and acknowledgments from the server."""
        self.send("client", ACK, seq, 1, size, after=after)
        for ack in acks:
            self.send("server", ACK, 1, ack)

    def count(self, side: str, flags: int, seq: int, size: int) -> None:
        """Add a segment to the counts of its direction."""
        occupied = set(range(seq, seq + size))
        counts = {"bytes": 40 + size, "packets": 1, "payload_bytes": size}
        self.counts[side].update(counts, retransmitted_bytes=len(occupied & self.seen[side]))
        self.seen[side] |= occupied | ({seq + size} if flags & FIN else set()) | ({0} if flags & SYN else set())
        self.stamps[side].append(self.now)
        if flags & (FIN | RST):
            self.closed[side] = self.now
            self.flights[side].append(max(self.seen[side]) + 1 - self.acked[side])

    def acknowledge(self, side: str, ack: int, *, pure: bool) -> None:
        """Update the counts of a direction for an acknowledgment of its data."""
        flight = max(self.seen[side]) + 1 - ack
        if pure and ack == self.acked[side] and flight > 0:
            self.counts[side]["duplicate_acks"] += 1
        self.counts[side]["acknowledged_bytes"] += ack - self.acked[side]
        self.acked[side] = ack
        self.flights[side].append(flight)

    def close(self) -> None:
        """End this connection: bytes that were never captured are a gap."""
        for side, seen in self.seen.items():
            self.counts[side]["gap_bytes"] += max(seen) + 1 - len(seen)

    def expected(self, side: str) -> dict:
        """Return the expected columns of table flow_reports."""
        counts, stamps = self.counts[side], self.stamps[side]
        return {
            **{name: counts[name] for name in (*SUMMED, "acknowledged_bytes")},
            **{"start_ns": stamps[0], "end_ns": stamps[-1], "duration_ns": stamps[-1] - stamps[0]},
            "ended": self.closed[side] is not None,
            "packet_size_mean": counts["bytes"] / counts["packets"],
            "throughput_bps": round(8e9 * counts["bytes"] / (stamps[-1] - stamps[0])),
            **{"rtt_syn_ns": 10 * MS, "rtt_ack_ns": 5 * MS, "handshake_rtt_ns": 15 * MS},
            "iat_ns": stamps[-1] - stamps[-2],
            "bytes_in_flight": self.flights[side][-1],
        }


def collected(directory: Path, frames: list, *words: str) -> tuple[list[dict], list[dict]]:
    """Return the flows and series that `acapella p4 reports` computes from the frames."""
    capture = traces.write_pcap(directory / "made.pcap", frames, snaplen=262144)
    assert cli.main(["p4", "reports", str(capture), "-o", str(directory / "made"), *words]) == 0
    return tuple(pq.read_table(directory / "made" / f"{name}.parquet").to_pylist() for name in ("flows", "series"))


def assert_same(created: Conversation, flows: list[dict], series: list[dict]) -> None:
    for flow, side in zip(flows, ("client", "server"), strict=True):
        assert flow["last_ns"] >= created.stamps[side][-1]
        expected = created.expected(side)
        assert {name: flow[name] for name in expected} == expected, side
        known = [row for row in series if row["flow"] == flow["flow"]]
        for name in SUMMED:
            assert sum(row[name] for row in known) == flow[name], (side, name)
    client = [row["bytes_in_flight_max"] for row in series if row["flow"] == flows[0]["flow"]]
    assert max(flight for flight in client if flight is not None) == max(created.flights["client"])


def test_loss_counts_are_exact_across_sequence_number_wraparound(tmp_path):
    created = Conversation(traces.START_NS)
    created.open(MODULUS - 3000, 5000)
    created.data(1, 1000, after=100)
    created.data(1001, 1000, 2001, after=100)
    for seq in (3001, 4001, 5001):  # 2001 is lost before the tap: three duplicate ACKs
        created.data(seq, 1000, 2001, after=100)
    created.data(2001, 1000, 6001, after=50)  # the retransmission fills the gap
    created.data(5001, 1000, 6001)  # a spurious retransmission
    created.data(6501, 500, 7001)  # the tap missed 500
    created.data(7001, 1460)
    created.data(8461, 1460, 8461, 9921)
    created.send("client", FIN | ACK, 9921, 1)
    created.send("server", FIN | ACK, 1, 9922)
    created.send("client", ACK, 9922, 2)
    created.close()
    counts = created.counts["client"]
    assert (counts["retransmitted_bytes"], counts["gap_bytes"], counts["duplicate_acks"]) == (1000, 500, 3)
    assert_same(created, *collected(tmp_path, created.frames))


def test_reused_ports_begin_a_new_connection(tmp_path):
    created = Conversation(traces.START_NS)
    for client, server in ((1_000_000, 5_000), (900_000_000, 77_777_777), (0xF0000000, 100)):
        created.now += 1000 * MS
        created.open(client, server)
        for seq in range(1, 5001, 1000):
            created.data(seq, 1000, seq + 1000)
        created.send("client", FIN | ACK, 5001, 1)
        created.send("server", ACK, 1, 5002)
        created.send("server", FIN | ACK, 1, 5002)
        created.send("client", ACK, 5002, 2)
        created.close()
    flows, series = collected(tmp_path, created.frames)
    assert flows[0]["acknowledged_bytes"] == 3 * 5001
    assert_same(created, flows, series)


@pytest.mark.soak
def test_long_flows_of_different_sizes_are_exact_over_six_epochs(tmp_path):
    """R2 is above 0.99 for values and their logarithms, with reports of every flow in each epoch."""
    frames = []
    for n in range(6):
        created = Conversation(traces.START_NS + n * 7 * MS, 2000 + n, host=n + 1)
        created.open(n * 1_000_003, n, (1 + n * n, 2 + 3 * n))
        created.now += 4 * n * MS
        size = 40 + 110 * n
        for packet in range(40 + 5 * n):
            acks = [1 + (packet + 1) * size] if packet % 2 else []
            created.data(1 + packet * size, size, *acks, after=63_000 // (40 + 5 * n))
        frames += created.frames
    collected(tmp_path, sorted(frames), "--epoch", "10s")
    assert min(flow["epochs"] for flow in pq.read_table(tmp_path / "made" / "flows.parquet").to_pylist()) >= 6
    found = {row["measure"]: row for row in pq.read_table(tmp_path / "made" / "accuracy.parquet").to_pylist()}
    for measure, count in (("bytes", 12), ("packets", 12), ("rtt_syn", 6), ("rtt_ack", 6)):
        row = found[measure]
        assert row["n"] == row["equal"] == count, row
        assert row["missing"] == 0, row
        assert row["r2"] > 0.99, row
        assert row["r2_log"] > 0.99, row
