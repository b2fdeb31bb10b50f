"""pcapng files, block by block (draft-ietf-opsawg-pcapng). ``order``: byte order, `<` or `>`."""

import struct
from pathlib import Path

from acapella_testing.new_files import write_file

SECTION_TYPE, INTERFACE_TYPE, SIMPLE_TYPE, PACKET_TYPE = 0x0A0D0D0A, 1, 3, 6


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """Return one padded block."""
    body += bytes(-len(body) % 4)
    size = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + size + body + size


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """Return an option with its padding. Code 0 ends the options."""
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(options: bytes = b"", order: str = "<") -> bytes:
    """Return a Section Header Block."""
    return block(SECTION_TYPE, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1) + options, order)


SECTION = section()


def interface(link_type: int = 1, snaplen: int = 0, options: bytes = b"", order: str = "<") -> bytes:
    """Return an Interface Description Block."""
    return block(INTERFACE_TYPE, struct.pack(f"{order}HHI", link_type, 0, snaplen) + options, order)


def packet_block(  # noqa: PLR0913 (its fields)
    number: int, units: int, frame: bytes, wire_len: int | None = None, options: bytes = b"", *, order: str = "<"
) -> bytes:
    """Return an Enhanced Packet Block of an interface; ``units``: its time since 1970 in units of the interface."""
    head = struct.pack(f"{order}IIIII", number, units >> 32, units & 0xFFFFFFFF, len(frame), wire_len or len(frame))
    return block(PACKET_TYPE, head + frame + bytes(-len(frame) % 4) + options, order)


def simple_block(frame: bytes, wire_len: int | None = None, order: str = "<") -> bytes:
    """Return a Simple Packet Block, which has no timestamp."""
    return block(SIMPLE_TYPE, struct.pack(f"{order}I", wire_len or len(frame)) + frame, order)


def write_pcapng(path: Path, frames: list[tuple[int, bytes]], extra: bytes = b"") -> Path:
    """Write a pcapng file of (link type, frame) with an interface per link type. ``extra``: blocks before frames."""
    types = sorted({link_type for link_type, _ in frames})
    interfaces = (interface(link_type) for link_type in types)
    blocks = (packet_block(types.index(link_type), 1000, frame) for link_type, frame in frames)
    return write_file(path, b"".join([SECTION, *interfaces, extra, *blocks]))


def write_stamped(path: Path, trace: list[tuple[int, bytes]]) -> Path:
    """Write a pcapng file with ns timestamps. Frames before 1970 are on a second interface, with a time offset."""
    offset_s = 55 * 365 * 86_400
    offsets = (b"", option(14, struct.pack("<q", -offset_s)))
    interfaces = (interface(options=option(9, b"\x09") + offset + option(0, b"")) for offset in offsets)
    times = ((ts_ns < 0, ts_ns, frame) for ts_ns, frame in trace)
    blocks = (packet_block(before, ts_ns + before * offset_s * 10**9, frame) for before, ts_ns, frame in times)
    return write_file(path, b"".join([SECTION, *interfaces, *blocks]))


def write_untimed(path: Path, frames: list[bytes], snaplen: int = 0) -> Path:
    """Write a pcapng file of Simple Packet Blocks, which have no timestamps. Snap length 0: no limit."""
    blocks = [simple_block(frame[: snaplen or None], len(frame)) for frame in frames]
    return write_file(path, SECTION + interface(snaplen=snaplen) + b"".join(blocks))
