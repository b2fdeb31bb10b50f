"""Seeds of fuzz_reader: small captures of every format, plain and compressed. Usage: seeds_reader.py DIRECTORY."""

import gzip
import struct
import sys
from pathlib import Path

import lz4.frame
import zstandard

FRAME = bytes(range(60))


def pcap(order: str, magic: int, network: int = 1, version: tuple[int, int] = (2, 4), extra: bytes = b"") -> bytes:
    """Return a pcap of three frames; `extra` follows each record header, as in files of patched programs."""
    out = struct.pack(order + "IHHiIII", magic, *version, 0, 0, 262144, network)
    if magic in (0x1C0001AC, 0x1C0001AB):
        out += bytes(4)
    for second, size in ((1, 60), (2, 0), (3, 33)):
        out += struct.pack(order + "IIII", second, 5, size, max(size, 40)) + extra + FRAME[:size]
    return out


def block(order: str, kind: int, body: bytes) -> bytes:
    """Return a pcapng block."""
    body += bytes(-len(body) % 4)
    size = len(body) + 12
    return struct.pack(order + "II", kind, size) + body + struct.pack(order + "I", size)


def option(order: str, code: int, value: bytes) -> bytes:
    """Return a pcapng option."""
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def pcapng(order: str) -> bytes:
    """Return a section with every kind of block that the reader parses."""
    resolution = option(order, 9, b"\x09") + option(order, 14, struct.pack(order + "q", -3)) + option(order, 0, b"")
    flags = option(order, 1, b"comment") + option(order, 2, bytes(4)) + option(order, 0, b"")
    packet = struct.pack(order + "IIIII", 1, 0x12345678, 0x9ABCDEF0, 60, 1514) + FRAME + flags
    return b"".join(
        [
            block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)),
            block(order, 1, struct.pack(order + "HHI", 1, 0, 0)),
            block(order, 1, struct.pack(order + "HHI", 123, 0, 96) + resolution),
            block(order, 1, struct.pack(order + "HHI", 101, 0, 96) + option(order, 9, b"\x9e")),
            block(order, 6, packet),
            block(order, 6, struct.pack(order + "IIIII", 2, 0, 7, 4, 4) + FRAME[:4]),
            block(order, 2, struct.pack(order + "HHIIII", 0, 1, 0, 7, 5, 5) + FRAME[:5]),
            block(order, 3, struct.pack(order + "I", 60) + FRAME),
            block(order, 5, bytes(12)),
            block(order, 10, struct.pack(order + "II", 0x544C534B, 4) + b"keys"),
            block(order, 0xBAD, struct.pack(order + "I", 1) + b"data"),
        ]
    )


def captures() -> dict[str, bytes]:
    """Return uncompressed captures by name."""
    patched = struct.pack("<IHBB", 2, 0x800, 0, 0)
    seeds = {
        "us_little": pcap("<", 0xA1B2C3D4),
        "us_big": pcap(">", 0xA1B2C3D4),
        "ns_little": pcap("<", 0xA1B23C4D),
        "ns_big": pcap(">", 0xA1B23C4D, 113),
        "sunatm": pcap("<", 0xA1B2C3D4, 123),
        "v23": pcap("<", 0xA1B2C3D4, version=(2, 3)),
        "aix": pcap("<", 0xA1B2C3D4, 15, version=(2, 2)),
        "ixia": pcap("<", 0x1C0001AC),
        "modified": pcap("<", 0xA1B2CD34, extra=patched),
        "modified_smp": pcap("<", 0xA1B2CD34, extra=patched + bytes(4)),
        "patched": pcap("<", 0xA1B2C3D4, extra=patched),
        "pcapng_little": pcapng("<"),
        "pcapng_sections": pcapng(">") + pcapng("<"),
    }
    return seeds


def main() -> None:
    """Write all captures into the directory given by the first argument."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    zstd = zstandard.ZstdCompressor()
    for name, plain in captures().items():
        (directory / name).write_bytes(plain)
        (directory / f"{name}.gz").write_bytes(gzip.compress(plain, mtime=0))
        (directory / f"{name}.zst").write_bytes(zstd.compress(plain))
        (directory / f"{name}.lz4").write_bytes(lz4.frame.compress(plain))


if __name__ == "__main__":
    main()
