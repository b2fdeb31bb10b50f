"""Random frames in every encapsulation that the parser supports, and some others: complete, truncated, damaged.

Checksums are correct unless a frame was damaged afterwards. Addresses come from small pools, so that tables match and
flows repeat. The same seed gives the same frames.
"""

from __future__ import annotations

import random
import struct

from acapella_p4_model.running import Frame

MACS = [
    bytes.fromhex(text) for text in ("001b21000001", "0200000000aa", "4a0000000001", "6e0000000002", "00000c123456")
]
MACS += [b"\xff" * 6, bytes(6), bytes.fromhex("080045000000"), bytes.fromhex("010000000000")]
IPV4 = [bytes([10, 0, 0, last]) for last in range(1, 7)] + [bytes([192, 168, 7, 9]), b"\xff" * 4, bytes(4)]
IPV6 = [bytes.fromhex("20010db8000000000000000000000000")[:15] + bytes([last]) for last in range(1, 5)]
IPV6 += [bytes.fromhex("fe80000000000000021b21fffe000001"), b"\xff" * 16, bytes(16)]
PORTS = (0, 53, 443, 5201, 40000, 65535)


def generated_frames(seed: int, count: int, ports: int = 1) -> list[Frame]:
    """Return `count` frames on `ports` ports."""
    rnd = random.Random(seed)
    return [_frame(rnd, rnd.randrange(ports)) for _ in range(count)]


def ones_complement(raw: bytes) -> int:
    """Return the 16-bit ones' complement sum (RFC 1071), not inverted; an odd byte is padded with zero."""
    padded = raw + b"\0" * (len(raw) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def _frame(rnd: random.Random, port: int) -> Frame:
    raw = _ethernet(rnd, depth=0)
    if rnd.random() < 0.2:
        raw += rnd.randbytes(rnd.randrange(24))  # padding, or a trailer
    wire = len(raw)
    kind = rnd.random()
    if kind < 0.12:
        damaged = bytearray(raw)
        for _ in range(rnd.randrange(1, 4)):
            damaged[rnd.randrange(len(damaged))] = rnd.choice((0, 255, rnd.randrange(256)))
        raw = bytes(damaged)
    elif kind < 0.15:
        raw = rnd.randbytes(rnd.randrange(1, 120))
        wire = len(raw)
    if rnd.random() < 0.25:
        raw = raw[: rnd.randrange(1, len(raw) + 1)]
    if rnd.random() < 0.03:
        wire = max(len(raw), rnd.choice((wire + 1000, 0x7FFFFFFF, 0x80000010, 0xFFFFFFFF)))
    return Frame(raw, port, max(wire, len(raw)))


def _ethernet(rnd: random.Random, depth: int) -> bytes:
    head = rnd.choice(MACS) + rnd.choice(MACS)
    tags = rnd.choice((0, 0, 0, 1, 1, 2, 3, 4, 5))
    for _ in range(tags):
        head += rnd.choice((b"\x81\x00", b"\x88\xa8", b"\x91\x00")) + struct.pack("!H", rnd.randrange(65536))
    return head + _typed_payload(rnd, depth)


def _typed_payload(rnd: random.Random, depth: int) -> bytes:
    """Return an EtherType and its payload."""
    choice = rnd.random()
    if choice < 0.35:
        return b"\x08\x00" + _ip(rnd, 4, 0)
    if choice < 0.6:
        return b"\x86\xdd" + _ip(rnd, 6, 0)
    if choice < 0.9 and (depth == 0 or choice < 0.65):
        return rnd.choice((b"\x88\x47", b"\x88\x48")) + _mpls(rnd, depth)
    if choice < 0.95:
        return b"\x08\x06" + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + rnd.randbytes(20)
    if choice < 0.97:
        return rnd.choice((b"\x08\x00", b"\x86\xdd")) + _ip(rnd, rnd.choice((4, 6)), 0)
    return struct.pack("!H", rnd.choice((0, 46, 0x88CC, 0x8864, 0x6558))) + rnd.randbytes(40)


def _mpls(rnd: random.Random, depth: int) -> bytes:
    labels = rnd.choice((1, 1, 2, 2, 3, 4, 5))
    stack = b""
    for number in range(labels):
        label = rnd.choice((0, 13, 14, 16, 1000, 0xFFFFF)) if rnd.random() < 0.3 else rnd.randrange(16, 1 << 20)
        stack += struct.pack("!I", label << 12 | (0x100 if number == labels - 1 else 0) | rnd.randrange(256))
    choice = rnd.random()
    if choice < 0.2:
        return stack + _ip(rnd, 4, 0)
    if choice < 0.4:
        return stack + _ip(rnd, 6, 0)
    if choice < 0.45:
        return stack + rnd.choice((b"\x10\x00", b"\x50\x01", b"\xf0\x00")) + rnd.randbytes(20)
    word = rnd.choice((b"", bytes(4), bytes(4), struct.pack("!I", rnd.randrange(65536))))
    return stack + word + _ethernet(rnd, depth + 1)


def _ip(rnd: random.Random, version: int, depth: int) -> bytes:
    src, dst = rnd.choice(IPV4 if version == 4 else IPV6), rnd.choice(IPV4 if version == 4 else IPV6)
    fragment = rnd.choice((0,) * 8 + (0x2000, 0x00B9, 0x20B9, 0x4000))
    upper = _upper(rnd, version, (src, dst), depth)
    return (_ipv4 if version == 4 else _ipv6)(rnd, src + dst, upper, fragment)


def _ipv4(rnd: random.Random, addresses: bytes, upper: tuple[int, bytes], fragment: int) -> bytes:
    protocol, payload = upper
    options = rnd.randbytes(4 * rnd.choice((0,) * 8 + (1, 2, 10)))
    words = 5 + len(options) // 4 if rnd.random() > 0.02 else rnd.randrange(16)
    length = 20 + len(options) + len(payload)
    if rnd.random() < 0.05:
        length = rnd.choice((0, 8, 19, 24, length - 1, length + 5, 65535))
    identification = rnd.randrange(65536)
    head = struct.pack("!BBHHH", 0x40 | words, rnd.randrange(256), length, identification, fragment)
    head += struct.pack("!BBH", rnd.randrange(1, 256), protocol, 0) + addresses + options
    checksum = ones_complement(head) ^ 0xFFFF
    return head[:10] + struct.pack("!H", checksum) + head[12:] + payload


def _ipv6(rnd: random.Random, addresses: bytes, upper: tuple[int, bytes], fragment: int) -> bytes:
    following, payload = upper
    for _ in range(rnd.choice((0,) * 6 + (1, 2, 3, 4, 4, 5))):
        kind = rnd.choice((0, 60, 43, 44, 51))
        size, body = _extension(rnd, kind)
        payload = bytes([following, size]) + body + payload
        following = kind
    if fragment & 0x3FFF:
        payload = struct.pack("!BBHI", following, 0, (fragment & 0x1FFF) << 3 | fragment >> 13 & 1, 7) + payload
        following = 44
    length = len(payload)
    if rnd.random() < 0.05:
        length = rnd.choice((0, 8, 20, length - 1, length + 5, 65535)) & 0xFFFF
    flow = 6 << 28 | rnd.randrange(1 << 28)
    return struct.pack("!IHBB", flow, length, following, rnd.randrange(256)) + addresses + payload


def _extension(rnd: random.Random, kind: int) -> tuple[int, bytes]:
    """Return an extension header from its second byte on (RFC 8200 section 4, RFC 4302 section 2)."""
    if kind == 44:
        return rnd.randrange(256), struct.pack("!HI", rnd.choice((0, 0, 1, 1, 6, 0x100)), rnd.randrange(1 << 32))
    if kind == 51:
        size = rnd.choice((0, 1, 2, 4))
        return size, rnd.randbytes(4 * (size + 2) - 2)
    size = rnd.randrange(4)
    body = rnd.randbytes(6 + 8 * size)
    return size, body[:1] + bytes([rnd.choice((0, 0, 0, 2))]) + body[2:] if kind == 43 else body


def _upper(rnd: random.Random, version: int, ends: tuple[bytes, bytes], depth: int) -> tuple[int, bytes]:
    """Return protocol number and packet; checksums of TCP, UDP and ICMPv6 include a pseudo-header.

    RFC 9293 section 3.1, RFC 8200 section 8.1.
    """
    kind = rnd.choice(("tcp", "tcp", "udp", "udp", "icmp", "4", "6", "other") if depth < 2 else ("tcp", "udp", "icmp"))
    data = rnd.randbytes(rnd.choice((0, 1, 7, 40, 200)))
    makers = {"tcp": _tcp, "udp": _udp, "icmp": _icmp if version == 4 else _icmpv6}
    if kind in makers:
        return makers[kind](rnd, data, ends)
    if kind == "other":
        return rnd.choice((2, 47, 50, 59, 89, 132, 255)), data
    inner = int(kind) if rnd.random() > 0.05 else 10 - int(kind)
    return {"4": 4, "6": 41}[kind], _ip(rnd, inner, depth + 1)


def _tcp(rnd: random.Random, data: bytes, ends: tuple[bytes, bytes]) -> tuple[int, bytes]:
    options = rnd.randbytes(4 * rnd.choice((0, 0, 0, 3, 10)))
    offset = (5 + len(options) // 4) << 4 if rnd.random() > 0.04 else rnd.randrange(256)
    head = struct.pack("!HHIIBB", rnd.choice(PORTS), rnd.choice(PORTS), *_numbers(rnd), offset, rnd.randrange(256))
    packet = head + struct.pack("!HHH", rnd.randrange(65536), 0, 0) + options + data
    return 6, _with_checksum(packet, 16, 6, ends)


def _udp(rnd: random.Random, data: bytes, ends: tuple[bytes, bytes]) -> tuple[int, bytes]:
    length = 8 + len(data) if rnd.random() > 0.05 else rnd.choice((0, 7, 8, 65535))
    packet = struct.pack("!HHHH", rnd.choice(PORTS), rnd.choice(PORTS), length, 0) + data
    return 17, packet if rnd.random() < 0.1 else _with_checksum(packet, 6, 17, ends)


def _icmp(rnd: random.Random, data: bytes, ends: tuple[bytes, bytes]) -> tuple[int, bytes]:
    packet = struct.pack("!BBHHH", rnd.choice((0, 3, 8, 11)), rnd.randrange(2), 0, *_ids(rnd)) + data
    return 1, packet[:2] + struct.pack("!H", ones_complement(packet) ^ 0xFFFF) + packet[4:]


def _icmpv6(rnd: random.Random, data: bytes, ends: tuple[bytes, bytes]) -> tuple[int, bytes]:
    packet = struct.pack("!BBHHH", rnd.choice((1, 128, 129, 135)), rnd.randrange(2), 0, *_ids(rnd)) + data
    return 58, _with_checksum(packet, 2, 58, ends)


def _numbers(rnd: random.Random) -> tuple[int, int]:
    return rnd.randrange(1 << 32), rnd.randrange(1 << 32)


def _ids(rnd: random.Random) -> tuple[int, int]:
    return rnd.randrange(1 << 16), rnd.randrange(1 << 16)


def _with_checksum(packet: bytes, at: int, protocol: int, ends: tuple[bytes, bytes]) -> bytes:
    pseudo = b"".join(ends) + struct.pack("!II", len(packet), protocol)
    checksum = ones_complement(pseudo + packet) ^ 0xFFFF
    if protocol == 17 and checksum == 0:
        checksum = 0xFFFF
    return packet[:at] + struct.pack("!H", checksum) + packet[at + 2 :]
