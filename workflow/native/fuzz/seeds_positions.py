"""Seeds of fuzz_positions: captures, without and with positions. Usage: seeds_positions.py DIRECTORY."""

import re
import sys
from pathlib import Path

import lz4.frame
import zstandard
from seeds_reader import block, captures, pcap, pcapng

PIECE = 6  # pieces of 2^6 bytes
POSITIONS = Path(__file__).parents[1] / "src" / "input" / "positions" / "positions.cpp"
VERSION = int(re.search(r"kVersion = (\d+);", POSITIONS.read_text(encoding="utf-8"))[1])  # of the encoding


def positions(content: bytes, frames: int) -> bytes:
    """Return encoded positions in which no piece has a frame, and all checksums are 0."""
    pieces = (len(content) + 2**PIECE - 1) // 2**PIECE
    return bytes([VERSION, PIECE, 0, len(content) % 128, frames, 0, 0, 0, pieces]) + bytes(5 * pieces)


def main() -> None:
    """Write the seeds into the directory given by the first argument."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    more = pcap("<", 0xA1B2C3D4) + pcap("<", 0xA1B2C3D4)[24:] * 9
    sections = pcapng("<") + block("<", 5, bytes(300)) + pcapng(">") * 2
    for name, content in (captures() | {"more": more, "sections": sections}).items():
        for step in range(3):
            (directory / f"{name}.{step}").write_bytes(bytes([0, step]) + content)
    encoded = positions(more[:120], 3)
    (directory / "positions").write_bytes(bytes([len(encoded), 0]) + encoded + more[:120])
    (directory / "zstd").write_bytes(bytes([0, 1]) + zstandard.ZstdCompressor().compress(more))
    (directory / "lz4").write_bytes(bytes([0, 1]) + lz4.frame.compress(more[:200]) + lz4.frame.compress(more[200:]))


if __name__ == "__main__":
    main()
