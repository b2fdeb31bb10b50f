"""The packets of a pcapng in plain Python, to compare files that editcap and `acapella extract` wrote."""

import struct
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

SECTION, INTERFACE, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 3, 6
COMMENT, NAME, RESOLUTION, OFFSET = 1, 2, 9, 14


class Packet(NamedTuple):
    """A packet with the values of its interface."""

    time_s: Fraction | None
    link_type: int
    interface: str | None  # if_name
    wire_len: int
    comments: tuple[bytes, ...]
    frame: bytes


class Interface(NamedTuple):
    """The values of an interface description that a packet needs."""

    link_type: int
    snaplen: int
    name: str | None
    unit_s: Fraction
    offset_s: int


def packets(path: Path) -> list[Packet]:
    """Return the packets of all sections."""
    found: list[Packet] = []
    interfaces: list[Interface] = []
    for order, kind, body in blocks(path.read_bytes()):
        if kind == SECTION:
            interfaces = []
        elif kind == INTERFACE:
            interfaces.append(interface_of(order, body))
        elif kind == ENHANCED:
            number, high, low, captured, wire_len = struct.unpack_from(f"{order}IIIII", body)
            own, frame = interfaces[number], body[20 : 20 + captured]
            time_s = (high << 32 | low) * own.unit_s + own.offset_s
            comments = tuple(options(order, body[20 + captured + -captured % 4 :]).get(COMMENT, ()))
            found.append(Packet(time_s, own.link_type, own.name, wire_len, comments, frame))
        elif kind == SIMPLE:
            (wire_len,), own = struct.unpack_from(f"{order}I", body), interfaces[0]
            frame = body[4 : 4 + min(wire_len, own.snaplen or wire_len)]
            found.append(Packet(None, own.link_type, own.name, wire_len, (), frame))
    return found


def blocks(content: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Yield byte order, type and body of each block."""
    at, order = 0, "<"
    while at < len(content):
        if content[at : at + 4] == b"\x0a\x0d\x0d\x0a":
            order = "<" if content[at + 8 : at + 12] == b"\x4d\x3c\x2b\x1a" else ">"
        kind, size = struct.unpack_from(f"{order}II", content, at)
        assert content[at + size - 4 : at + size] == content[at + 4 : at + 8]
        yield order, kind, content[at + 8 : at + size - 4]
        at += size


def interface_of(order: str, body: bytes) -> Interface:
    """Return an interface from the body of its description."""
    link_type, _, snaplen = struct.unpack_from(f"{order}HHI", body)
    values = options(order, body[8:])
    resolution = values.get(RESOLUTION, [b"\6"])[0][0]
    unit_s = Fraction(1, (2 if resolution & 0x80 else 10) ** (resolution & 0x7F))
    (offset_s,) = struct.unpack(f"{order}q", values.get(OFFSET, [bytes(8)])[0])
    name = values.get(NAME, [None])[0]
    return Interface(link_type, snaplen, None if name is None else name.decode(), unit_s, offset_s)


def options(order: str, content: bytes) -> dict[int, list[bytes]]:
    """Return the values of options by code."""
    found: dict[int, list[bytes]] = {}
    while len(content) >= 4:
        code, size = struct.unpack_from(f"{order}HH", content)
        if code == 0:
            break
        found.setdefault(code, []).append(content[4 : 4 + size])
        content = content[4 + size + -size % 4 :]
    return found
