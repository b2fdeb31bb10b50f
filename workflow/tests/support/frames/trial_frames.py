"""Trials for tests: frames, and the effects of a network on them."""

import random
import struct

BASE_NS = 1_700_000_000_000_000_000


def ipv4(payload: bytes, *, proto: int = 17, ident: int = 0, fragment: int = 0, **hop: int) -> bytes:
    """Return an IPv4 packet between two fixed hosts. A hop may change `ttl`, `dscp` (and ECN) and `checksum`."""
    changed = {"ttl": 64, "dscp": 0, "checksum": 0} | hop
    fields = (20 + len(payload), ident, fragment, changed["ttl"], proto, changed["checksum"])
    return struct.pack(">BBHHHBBH", 0x45, changed["dscp"], *fields) + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + payload


def ipv6(payload: bytes, *, proto: int = 17, hops: int = 64, traffic_class: int = 0, flow_label: int = 0) -> bytes:
    """Return an IPv6 packet between two fixed hosts."""
    head = struct.pack(">IHBB", 6 << 28 | traffic_class << 20 | flow_label, len(payload), proto, hops)
    return head + bytes(15) + b"\1" + bytes(15) + b"\2" + payload


def udp(number: int, *, size: int = 24, checksum: int = 0, ports: tuple[int, int] = (40000, 50000)) -> bytes:
    """Return a UDP datagram with a number as payload."""
    payload = struct.pack(">Q", number).ljust(size, b"\x55")
    return struct.pack(">HHHH", *ports, 8 + len(payload), checksum) + payload


def ethernet(packet: bytes, ethertype: int | None = None, tags: bytes = b"") -> bytes:
    """Return a frame with a packet; `tags` precede the EtherType."""
    if ethertype is None:
        ethertype = 0x86DD if packet[0] >> 4 == 6 else 0x0800
    return b"\2" * 6 + b"\4" * 6 + tags + struct.pack(">H", ethertype) + packet


def plain(number: int) -> bytes:
    """Return a different frame for every number."""
    return ethernet(ipv4(udp(number), ident=number & 0xFFFF))


def sent(count: int, rng: random.Random, kinds: int | None = None) -> list[tuple[int, bytes]]:
    """Return packets at irregular times; `kinds` limits the number of different ones."""
    ts_ns, packets = BASE_NS, []
    for number in range(count):
        packets.append((ts_ns, plain(number if kinds is None else rng.randrange(kinds))))
        ts_ns += rng.choice((0, 1, 40, 1000, 12345))
    return packets


def disturbed(packets: list[tuple[int, bytes]], rng: random.Random) -> list[tuple[int, bytes]]:
    """Return the packets after a network that loses, duplicates, delays and reorders packets, and adds others."""
    arrived = []
    for ts_ns, frame in packets:
        if rng.random() < 0.1:
            continue
        delay = rng.choice((500, 500, 500, 520, 5000, 60000))
        arrived.append((ts_ns + delay, frame))
        if rng.random() < 0.05:
            arrived.append((ts_ns + delay + 10, frame))
        if rng.random() < 0.05:
            arrived.append((ts_ns + 7, plain(10**6 + rng.randrange(50))))
    return sorted(arrived, key=lambda packet: packet[0])
