"""pcap files (draft-ietf-opsawg-pcap), little-endian with nanosecond timestamps unless stated otherwise."""

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

SNAPLEN = 262144


MAGIC = {1: 0xA1B23C4D, 1000: 0xA1B2C3D4}  # by timestamp unit in ns


def header(snaplen: int = SNAPLEN, link_type: int = 1, *, unit_ns: int = 1, order: str = "<") -> bytes:
    return struct.pack(f"{order}IHHiIII", MAGIC[unit_ns], 2, 4, 0, 0, snaplen, link_type)


def record(ts_ns: int, frame: bytes, wire_len: int | None = None, *, unit_ns: int = 1, order: str = "<") -> bytes:
    """Return a frame with its header. ``wire_len``: the length of the frame if None."""
    seconds, rest_ns = divmod(ts_ns, 10**9)
    lengths = (len(frame), len(frame) if wire_len is None else wire_len)
    return struct.pack(f"{order}IIII", seconds, rest_ns // unit_ns, *lengths) + frame


def parts(trace: Iterable[tuple[int, bytes]], snaplen: int, link_type: int) -> Iterator[bytes]:
    yield header(snaplen, link_type)
    for ts_ns, frame in trace:
        yield record(ts_ns, frame[:snaplen], len(frame))


def pcap(trace: Iterable[tuple[int, bytes]], snaplen: int = SNAPLEN, link_type: int = 1) -> bytes:
    """Return a file of (ns, frame), with frames truncated to the snap length."""
    return b"".join(parts(trace, snaplen, link_type))


def write_pcap(path: Path, trace: Iterable[tuple[int, bytes]], snaplen: int = SNAPLEN, link_type: int = 1) -> Path:
    """Write the file that `pcap` returns; return its path."""
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
