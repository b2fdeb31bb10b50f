"""Connections whose packets exercise many paths of flowstats.p4.

They contain retransmitted SYNs, sequence numbers that wrap, gaps, retransmissions, old, duplicate and unexpected ACKs,
decreasing timestamps, VLAN tags, MPLS labels that differ per direction, and other protocols. The same seed gives the
same frames.
"""

from __future__ import annotations

import random
import struct

from acapella_p4_model.running import Frame

FIN, SYN, RST, ACK = 1, 2, 4, 16
TCP, UDP, ICMP, ICMPV6, GRE = 6, 17, 1, 58, 47
START_NS = 1_700_000_000_000_000_000


def generated_connections(seed: int, count: int, alive: int = 40) -> list[Frame]:
    """Return `count` frames of `alive` simultaneous connections. At random times, one is replaced by a new one."""
    rnd = random.Random(seed)
    connections = [_Connection(rnd) for _ in range(alive)]
    now, frames = START_NS, []
    for _ in range(count):
        now += rnd.choice((0, 1, 1000, 50_000_000, rnd.randrange(2_000_000_000), rnd.randrange(20_000_000)))
        if rnd.random() < 0.01:
            now -= rnd.randrange(3_000_000_000)
        if rnd.random() < 0.005:
            connections[rnd.randrange(alive)] = _Connection(rnd)
        raw = rnd.choice(connections).frame() if rnd.random() > 0.02 else bytes(12) + b"\x08\x06" + bytes(28)
        frames.append(Frame(raw, timestamp_ns=now))
    return frames


def ipv4(protocol: int, src: int, dst: int, payload: bytes) -> bytes:
    """Return a packet with checksum 0."""
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0)
    return head + src.to_bytes(4, "big") + dst.to_bytes(4, "big") + payload


def ipv6(protocol: int, src: int, dst: int, payload: bytes) -> bytes:
    head = struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64)
    return head + src.to_bytes(16, "big") + dst.to_bytes(16, "big") + payload


def tcp(ports: tuple[int, int], numbers: tuple[int, int], flags: int, window: int = 1000, data: int = 0) -> bytes:
    """Return a segment with sequence and acknowledgment number and a number of data bytes."""
    seq, ack = (number & 0xFFFFFFFF for number in numbers)
    return struct.pack("!HHIIBBHHH", *ports, seq, ack, 0x50, flags, window, 0, 0) + bytes(data)


def udp(ports: tuple[int, int], data: int = 0) -> bytes:
    return struct.pack("!HHHH", *ports, 8 + data, 0) + bytes(data)


def ethernet(packet: bytes, vlans: tuple[int, ...] = (), labels: tuple[int, ...] = ()) -> bytes:
    """Return a frame with VLAN tags, labels and an IP packet."""
    head = bytes(12) + b"".join(struct.pack("!HH", 0x8100, vlan) for vlan in vlans)
    if labels:
        entries = [label << 12 | (at == len(labels) - 1) << 8 | 64 for at, label in enumerate(labels)]
        return head + b"\x88\x47" + struct.pack(f"!{len(labels)}I", *entries) + packet
    return head + (b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet


class _Connection:
    """A connection between the ends 0 and 1, with their sequence numbers."""

    def __init__(self, rnd: random.Random):
        self.rnd = rnd
        self.version = rnd.choice((4, 4, 6))
        self.ends = [rnd.getrandbits(32 if self.version == 4 else 128) for _ in range(2)]
        self.ports = [rnd.randrange(65536), rnd.choice((80, 443, rnd.randrange(65536)))]
        if rnd.random() < 0.05:  # to itself: the flow is its own reverse flow
            self.ends[1], self.ports[1] = self.ends[0], self.ports[0]
        self.vlans = tuple(rnd.randrange(4096) for _ in range(rnd.choice((0, 0, 0, 1, 2, 3, 4))))
        self.labels = [tuple(rnd.randrange(1 << 20) for _ in range(rnd.choice((0, 0, 1, 2, 4)))) for _ in range(2)]
        if rnd.random() < 0.5:
            self.labels = [(), ()]
        self.protocol = rnd.choice((TCP, TCP, TCP, TCP, UDP, ICMP if self.version == 4 else ICMPV6, GRE))
        self.isn = [rnd.choice((rnd.getrandbits(32), 0xFFFFFFF0)), rnd.getrandbits(32)]
        self.next = list(self.isn)
        self.window = [1000, 1000]

    def frame(self) -> bytes:
        side = int(self.rnd.random() < 0.45)
        ports = (self.ports[side], self.ports[1 - side])
        upper = self._segment(side, ports) if self.protocol == TCP else self._other(ports)
        header = ipv4 if self.version == 4 else ipv6
        packet = header(self.protocol, self.ends[side], self.ends[1 - side], upper)
        return ethernet(packet, self.vlans, self.labels[side])

    def _other(self, ports: tuple[int, int]) -> bytes:
        rnd = self.rnd
        if self.protocol == UDP:
            return udp(ports, rnd.randrange(60))
        if self.protocol in (ICMP, ICMPV6):
            kind = rnd.choice((0, 8, 128, 129, 3))
            return struct.pack("!BBHHH", kind, rnd.randrange(2), 0, rnd.randrange(3), 1) + bytes(rnd.randrange(20))
        return bytes(rnd.randrange(40))

    def _segment(self, side: int, ports: tuple[int, int]) -> bytes:
        rnd, kind = self.rnd, self.rnd.random()
        seq, ack, flags, data = self.next[side], self.next[1 - side], ACK, 0
        if kind < 0.07:
            seq, ack, flags, data = self._syn(side, again=kind < 0.06)
        elif kind < 0.10:
            flags, data = FIN | ACK, rnd.choice((0, 5))
        elif kind < 0.11:
            seq, flags = rnd.getrandbits(32), rnd.choice((RST, RST | ACK))
        elif kind < 0.68:
            data = rnd.randrange(1, 60)
            if kind >= 0.5:
                seq += rnd.randrange(0, 50) if kind >= 0.6 else -rnd.randrange(0, 80)
            self.next[side] = max(self.next[side], seq + data)
        elif kind < 0.70:
            seq, data = rnd.getrandbits(32), rnd.choice((0, 7))
        elif kind < 0.82:
            ack = ack - rnd.randrange(0, 100) if kind < 0.8 else rnd.getrandbits(32)
        elif kind < 0.83:
            flags = rnd.getrandbits(8)
        if rnd.random() < 0.1:
            self.window[side] = rnd.randrange(65536)
        if rnd.random() < 0.1:
            ack = self.next[1 - side] - 1
        return tcp(ports, (seq, ack), flags, self.window[side], data)

    def _syn(self, side: int, *, again: bool) -> tuple[int, int, int, int]:
        rnd = self.rnd
        if not again:
            self.isn[side] = self.next[side] = rnd.getrandbits(32)
        self.next[side] = max(self.next[side], self.isn[side] + 1)
        ack = rnd.choice((self.isn[1 - side] + 1, self.next[1 - side]))
        return self.isn[side], ack, SYN | ACK if side else SYN, rnd.choice((0, 0, 0, 10))
