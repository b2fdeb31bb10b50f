"""Captures as acapella-p4-run reads them: those with zstd or lz4, as nodes compress them, are unpacked."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from acapella_core.errors import UserError

CODECS = {
    bytes.fromhex("28b52ffd"): "zstd",
    bytes.fromhex("04224d18"): "lz4",
}  # by the first bytes (RFC 8878, LZ4 frame)
CHUNK = 1 << 20


def captures(paths: Sequence[Path], folder: Path) -> list[Path]:
    """The same captures, or copies of their own names in ``folder``.

    One whose compressed data is cut is copied as far as it goes, as one that is cut without compression is read.
    Raises UserError where nothing can be unpacked. What cannot be opened is left to the loader, which says why.
    """
    return [plain(path, folder / str(place)) for place, path in enumerate(paths)]


def plain(path: Path, folder: Path) -> Path:
    """One of them."""
    codec = codec_of(path)
    if codec is None:
        return path
    import pyarrow as pa  # noqa: PLC0415 (keeps the start of `acapella --help` quick)

    folder.mkdir()
    copy = folder / (path.stem or path.name)
    with pa.OSFile(str(path)) as packed, copy.open("xb") as out:
        try:
            shutil.copyfileobj(pa.CompressedInputStream(packed, codec), out, CHUNK)
        except OSError as error:
            if out.tell() == 0:
                raise UserError(f"cannot be unpacked ({codec}): {error}", where=path) from error
    return copy


def codec_of(path: Path) -> str | None:
    """How a file is compressed; None: not, or not so, or nobody can tell."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            return CODECS.get(stream.read(4))
    except OSError:
        return None
