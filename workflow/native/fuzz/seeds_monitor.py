"""Seeds of fuzz_monitor: stamped packets in several encapsulations. Usage: seeds_monitor.py DIRECTORY."""

import struct
import sys
from pathlib import Path

MACS = bytes.fromhex("020000000002020000000001")
START_S = 1_790_000_000
CHOICES = (0, 1, 2, 5, 8, 16, 98)  # values of the first byte, which selects the settings


def checksum(header: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(protocol: int, payload: bytes) -> bytes:
    """Return an IPv4 packet."""
    head = struct.pack(">BBHHHBB", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol)
    ends = bytes((10, 0, 0, 1, 10, 0, 0, 2))
    return head + struct.pack(">H", checksum(head + b"\0\0" + ends)) + ends + payload


def ipv6(protocol: int, payload: bytes) -> bytes:
    """Return an IPv6 packet with a hop-by-hop header."""
    head = struct.pack(">IHBB", 6 << 28, 8 + len(payload), 0, 64)
    ends = bytes.fromhex("fd" + "00" * 14 + "01") + bytes.fromhex("fd" + "00" * 14 + "02")
    return head + ends + struct.pack(">BBHI", protocol, 0, 0x0104, 0) + payload


def udp(payload: bytes, port: int) -> bytes:
    """Return a datagram."""
    return struct.pack(">HHHH", 5000, port, 8 + len(payload), 0) + payload


def payload(flow: int, sequence: int) -> bytes:
    """Return a stamp and a pattern."""
    return struct.pack(">HIIII", 0xACA9, flow, sequence, START_S, sequence << 12) + bytes(range(16))


def frames(flow: int, sequence: int) -> list[bytes]:
    """Return a packet in several encapsulations."""
    inner = udp(payload(flow, sequence), 6000)
    packet, plain = ipv4(17, inner), MACS + b"\x08\x00" + ipv4(17, inner)
    labels = struct.pack(">II", 17 << 12, 18 << 12 | 1 << 8)
    return [
        plain,
        MACS + b"\x86\xdd" + ipv6(17, inner),
        MACS + struct.pack(">HHHHH", 0x88A8, 200, 0x8100, 100, 0x0800) + packet,
        MACS + b"\x88\x47" + labels + packet,
        MACS + b"\x88\x47" + labels + bytes(4) + plain,
        MACS + b"\x08\x00" + ipv4(4, packet),
        MACS + b"\x08\x00" + ipv4(17, udp(struct.pack(">II", 8 << 24, 42 << 8) + plain, 4789)),
        MACS + b"\x08\x00" + ipv4(6, struct.pack(">HHIIHHHH", 1, 2, 3, 4, 5 << 12, 0, 0, 0) + payload(flow, sequence)),
        MACS + b"\x08\x06" + bytes(28),
    ]


def recorded(packet: bytes, missing: int = 0, later: int = 5) -> bytes:
    """Return a packet with the bytes that the fuzz target reads before it."""
    return bytes((len(packet), missing, later, 10)) + packet


def main() -> None:
    """Write the seeds into the directory given by the first argument."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    orders = {"order": (0, 1, 2, 3), "late": (3, 1, 0, 0), "gaps": (0, 100, 50, 7), "old": (200, 2, 199, 2)}
    for name, sequences in orders.items():
        for choice in CHOICES:
            packets = (recorded(frame) for sequence in sequences for frame in frames(sequence % 4, sequence))
            (directory / f"{name}{choice}").write_bytes(bytes((choice,)) + b"".join(packets))
    for number, frame in enumerate(frames(1, 0)):
        (directory / f"cut{number}").write_bytes(bytes((1,)) + recorded(frame[: len(frame) - 20], 20))


if __name__ == "__main__":
    main()
