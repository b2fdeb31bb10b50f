"""Nanosecond pcap files, little-endian."""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

SNAPLEN = 262144


def header(snaplen: int = SNAPLEN, link_type: int = 1) -> bytes:
    return struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, link_type)


def record(ts_ns: int, frame: bytes, wire_len: int | None = None) -> bytes:
    """Return a frame with its header. ``wire_len``: that of the bytes if None."""
    wire_len = len(frame) if wire_len is None else wire_len
    return struct.pack("<IIII", *divmod(ts_ns, 10**9), len(frame), wire_len) + frame


def parts(trace: Iterable[tuple[int, bytes]], snaplen: int, link_type: int) -> Iterator[bytes]:
    yield header(snaplen, link_type)
    for ts_ns, frame in trace:
        yield record(ts_ns, frame[:snaplen], len(frame))


def pcap(trace: Iterable[tuple[int, bytes]], snaplen: int = SNAPLEN, link_type: int = 1) -> bytes:
    """Return a file of (ns, frame), with frames truncated to the snap length."""
    return b"".join(parts(trace, snaplen, link_type))


def write_pcap(path: Path, trace: Iterable[tuple[int, bytes]], snaplen: int = SNAPLEN, link_type: int = 1) -> Path:
    """Write such a file; return its path."""
    with path.open("wb") as out:
        out.writelines(parts(trace, snaplen, link_type))
    return path


def records(content: bytes) -> list[tuple[int, int, bytes]]:
    """Return time (ns), wire length and bytes of each frame of a whole file."""
    assert content[:4] == header()[:4]
    found, at = [], 24
    while at < len(content):
        seconds, ns, kept, wire_len = struct.unpack_from("<IIII", content, at)
        found.append((seconds * 10**9 + ns, wire_len, content[at + 16 : at + 16 + kept]))
        at += 16 + kept
    assert at == len(content)
    return found
