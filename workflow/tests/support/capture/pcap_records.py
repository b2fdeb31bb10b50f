"""Read our captures without the core: pcap, nanoseconds, byte order of this machine."""

import struct
from pathlib import Path

MAC_BYTES = 12
MAGIC = struct.pack("=I", 0xA1B23C4D)  # draft-ietf-opsawg-pcap: nanoseconds


def records(path: Path) -> list[tuple[int, int, bytes]]:
    """Return timestamp (ns), wire length and captured bytes of each frame."""
    data = path.read_bytes()
    assert data[:4] == MAGIC
    found, at = [], 24
    while at < len(data):
        seconds, nanoseconds, kept, length = struct.unpack_from("=IIII", data, at)
        found.append((seconds * 10**9 + nanoseconds, length, data[at + 16 : at + 16 + kept]))
        at += 16 + kept
    return found


def frames(path: Path) -> list[tuple[int, bytes]]:
    """Return timestamp (ns) and bytes of each frame, none of them truncated."""
    found = records(path)
    assert all(length == len(frame) for _, length, frame in found)
    return [(stamp, frame) for stamp, _, frame in found]


def contents(path: Path) -> list[bytes]:
    """Return each frame without its MAC addresses."""
    return [frame[MAC_BYTES:] for _, frame in frames(path)]
