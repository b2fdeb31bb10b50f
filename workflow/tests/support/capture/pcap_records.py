"""What a capture of ours holds, read without the core: pcap, nanoseconds, this machine's byte order."""

import struct
from pathlib import Path

MAC_BYTES = 12
MAGIC = struct.pack("=I", 0xA1B23C4D)  # draft-ietf-opsawg-pcap: nanoseconds


def records(path: Path) -> list[tuple[int, int, bytes]]:
    """Stamp (ns), wire length and captured bytes of each frame."""
    octets = path.read_bytes()
    assert octets[:4] == MAGIC
    found, at = [], 24
    while at < len(octets):
        seconds, nanoseconds, kept, length = struct.unpack_from("=IIII", octets, at)
        found.append((seconds * 10**9 + nanoseconds, length, octets[at + 16 : at + 16 + kept]))
        at += 16 + kept
    return found


def frames(path: Path) -> list[tuple[int, bytes]]:
    """Stamp (ns) and bytes of each frame, which are all there."""
    found = records(path)
    assert all(length == len(frame) for _, length, frame in found)
    return [(stamp, frame) for stamp, _, frame in found]


def contents(path: Path) -> list[bytes]:
    """Each frame without its Ethernet addresses."""
    return [frame[MAC_BYTES:] for _, frame in frames(path)]
