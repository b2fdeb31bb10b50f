"""Frames with options of IPv4, TCP, IPv6, SCTP and neighbor discovery, many with invalid lengths."""

import random
import struct

SECRET = bytes(range(0xA1, 0xFB))  # no two consecutive bytes are a type and a length in these protocols
OPTION_OFFSETS = {"ipv4": 34, "tcp": 54, "ipv6": 56, "sctp": 46, "neighbor": 62}  # offsets of options in a frame


def ethernet(ethertype: int, packet: bytes) -> bytes:
    """Return an Ethernet frame."""
    return b"\x02\0\0\0\0\1\x02\0\0\0\0\2" + ethertype.to_bytes(2) + packet


def ipv4(protocol: int, payload: bytes, options: bytes = b"") -> bytes:
    """Return a frame of IPv4 with options."""
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, 4 * words + len(payload), 1, 0, 64, protocol, 0,
                       bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2)))  # fmt: skip
    return ethernet(0x0800, head + options + payload)


def ipv6(following: int, payload: bytes) -> bytes:
    """Return a frame of IPv6."""
    ends = bytes.fromhex("20010db8") + bytes(11) + b"\1" + bytes.fromhex("20010db8") + bytes(11) + b"\2"
    return ethernet(0x86DD, struct.pack("!IHBB", 6 << 28, len(payload), following, 64) + ends + payload)


def tcp(options: bytes, payload: bytes = b"") -> bytes:
    """Return a frame of TCP over IPv4."""
    options += bytes(-len(options) % 4)
    words = 5 + len(options) // 4
    return ipv4(6, struct.pack("!HHIIBBHHH", 1, 2, 3, 4, words << 4, 16, 5, 0, 0) + options + payload)


def hop_by_hop(options: bytes) -> bytes:
    options += bytes(-(len(options) + 2) % 8)
    return ipv6(0, bytes((59, (len(options) + 2) // 8 - 1)) + options)


def sctp(*chunks: bytes) -> bytes:
    """Return a frame of SCTP over IPv4."""
    return ipv4(132, bytes(12) + b"".join(chunks))


def neighbor(options: bytes) -> bytes:
    """Return a router solicitation with options."""
    return ipv6(58, b"\x85" + bytes(7) + options)


def with_options(kind: str, options: bytes) -> bytes:
    """Return a frame with these options in a header of a kind. After options of IPv4 and TCP, payload follows."""
    if kind == "ipv4":
        return ipv4(17, bytes(8) + SECRET, options)
    if kind == "tcp":
        return tcp(options, SECRET)
    return {"ipv6": hop_by_hop, "sctp": sctp, "neighbor": neighbor}[kind](options)


MALFORMED = {
    "sack of 1,396 bytes": ("sctp", struct.pack("!BBH", 3, 0, 1400) + bytes(12) + SECRET * 16),
    "sack with fewer blocks than it counts": ("sctp", struct.pack("!BBHIIHH", 3, 0, 36, 1, 2, 9, 0) + SECRET[:20]),
    "sack with no gap blocks and a longer chunk": ("sctp", struct.pack("!BBHIIHH", 3, 0, 60, 1, 2, 0, 0) + SECRET[:44]),
    "init shorter than its fields": ("sctp", struct.pack("!BBH", 1, 0, 16) + SECRET[:12]),
    "shutdown with more than a tsn": ("sctp", struct.pack("!BBH", 7, 0, 84) + SECRET[:80]),
    "forward tsn of an odd length": ("sctp", struct.pack("!BBH", 192, 0, 85) + SECRET[:81] + bytes(3)),
    "supported address types": ("sctp", struct.pack("!BBH", 1, 0, 104) + bytes(16) + b"\0\x0c\0\x54" + SECRET[:80]),
    "added address of another length": ("sctp", struct.pack("!BBH", 0xC1, 0, 88) + bytes(4) + b"\xc0\1\0\x50"
                                        + SECRET[:4] + b"\0\5\0\x48" + SECRET[4:72]),
    "ipv6 router alert": ("ipv6", b"\x05\x50" + SECRET[:80] + b"\1\2\0\0"),
    "ipv6 encapsulation limit": ("ipv6", b"\x04\x50" + SECRET[:80] + b"\1\2\0\0"),
    "jumbogram": ("ipv6", b"\xc2\x50" + SECRET[:80] + b"\1\2\0\0"),
    "home address": ("ipv6", b"\xc9\x50" + SECRET[:80] + b"\1\2\0\0"),
    "ipv4 router alert": ("ipv4", b"\x94\x28" + SECRET[:38]),
    "record route": ("ipv4", b"\x07\x28" + SECRET[:38]),
    "source route": ("ipv4", b"\x83\x26" + SECRET[:36] + bytes(2)),
    "timestamps with an unknown flag": ("ipv4", b"\x44\x28\x05\x02" + SECRET[:36]),
    "timestamps after addresses": ("ipv4", b"\x44\x28\x05\x01" + SECRET[:36]),
    "tcp timestamps": ("tcp", b"\x08\x28" + SECRET[:38]),
    "maximum segment size": ("tcp", b"\x02\x28" + SECRET[:38]),
    "window scale": ("tcp", b"\x03\x28" + SECRET[:38]),
    "sack permitted": ("tcp", b"\x04\x28" + SECRET[:38]),
    "sack blocks": ("tcp", b"\x05\x28" + SECRET[:38]),
    "mptcp": ("tcp", b"\x1e\x26\x30\x01" + SECRET[:34] + bytes(2)),
    "neighbor mtu": ("neighbor", b"\x05\x0b" + SECRET[:86]),
    "name servers": ("neighbor", b"\x19\x0a" + SECRET[:78]),
    "prefix": ("neighbor", b"\x03\x0b" + SECRET[:86]),
    "route": ("neighbor", b"\x18\x0b" + SECRET[:86]),
}  # fmt: skip


def random_options(draw: random.Random, kind: str) -> bytes:
    """Return options of a kind, some of them malformed: known types with any length, and values without zeros."""
    filler = lambda count: bytes(draw.randrange(1, 256) for _ in range(count))  # noqa: E731
    if kind == "sctp":
        types = (1, 2, 3, 7, 12, 13, 64, 192, 0x80, 0xC1, 10, 5, draw.randrange(256))
        created = b""
        for _ in range(draw.randrange(1, 5)):
            value = filler(draw.randrange(80))
            if draw.random() < 0.4:
                parameter = draw.choice((5, 6, 7, 12, 0xC001, 0xC002, 0xC004))
                value = filler(draw.choice((4, 16))) + struct.pack("!HH", parameter, 4 + len(value) // 4 * 4) + value
            length = draw.choice((4 + len(value),) * 3 + (draw.randrange(100),))
            created += struct.pack("!BBH", draw.choice(types), 0, length) + value + bytes(-len(value) % 4)
        return created
    types = {"ipv4": (7, 68, 131, 137, 148, 25), "tcp": (2, 3, 4, 5, 8, 30, 19), "ipv6": (4, 5, 0xC2, 0xC9, 1, 30),
             "neighbor": (1, 2, 3, 5, 24, 25, 14)}[kind]  # fmt: skip
    room = {"ipv4": 40, "tcp": 40, "ipv6": 94, "neighbor": 96}[kind]
    created = b""
    while len(created) < room:
        length = draw.choice((3, 4, 10, 12)) if draw.random() < 0.3 else draw.randrange(40)
        if kind == "neighbor":
            count = draw.choice((0, 1, 2, 3, 4, 5, 12))
            created += bytes((draw.choice(types), count)) + filler(8 * max(count, 1) - 2)
        else:
            created += bytes((draw.choice(types), length)) + filler(max(length - (0 if kind == "ipv6" else 2), 0))
    return created[:room]
