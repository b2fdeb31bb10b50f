"""Compressed files, intact or with damaged blocks."""

import pyarrow as pa
from acapella_testing.new_files import write_file

CODECS = ("gzip", "zstd", "lz4")
BLOCK = {"gzip": 10, "zstd": 7, "lz4": 7}  # bytes before the first block (RFC 1952, RFC 8878, LZ4 frame format)


def packed(path, codec: str, *contents: bytes):
    """Write a file with one compressed frame per content."""
    return write_file(path, b"".join(pa.compress(content, codec, asbytes=True) for content in contents))


def damaged(path, codec: str, intact: bytes, lost: bytes):
    """Write a compressed file with ``intact``, followed by a second frame with ``lost`` whose blocks are damaged."""
    first, frame = (pa.compress(content, codec, asbytes=True) for content in (intact, lost))
    return write_file(path, first + frame[: BLOCK[codec]] + b"\xff" * (len(frame) - BLOCK[codec]))
