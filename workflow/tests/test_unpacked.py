"""Captures with zstd and lz4, as nodes compress them, reach the loader unpacked."""

import pyarrow as pa
import pytest

from acapella import unpacked
from acapella_core.errors import UserError

CONTENT = bytes(range(256)) * 20_000


def packed(path, codec: str, content: bytes = CONTENT):
    """A compressed file."""
    with pa.CompressedOutputStream(str(path), codec) as stream:
        stream.write(content)
    return path


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_compressed_capture_is_unpacked_under_its_own_name(tmp_path, codec):
    path = packed(tmp_path / "a.pcap.z", codec)
    path.write_bytes(path.read_bytes() * 2)  # frames that follow each other are one stream
    (copy,) = unpacked.captures([path], tmp_path)
    assert copy.name == "a.pcap" and copy.read_bytes() == CONTENT * 2


def test_others_stay_where_they_are(tmp_path):
    (tmp_path / "a.pcap").write_bytes(b"\xd4\xc3\xb2\xa1 and so on")
    packed(tmp_path / "a.pcap.gz", "gzip")
    paths = [tmp_path / "a.pcap", tmp_path / "a.pcap.gz", tmp_path / "none", tmp_path]
    assert unpacked.captures(paths, tmp_path) == paths


def test_a_cut_one_is_read_as_far_as_it_goes(tmp_path):
    content = bytes(hash((place, 7)) & 0xFF for place in range(3_000_000))
    path = packed(tmp_path / "a.zst", "zstd", content)
    path.write_bytes(path.read_bytes()[:-1000])
    (copy,) = unpacked.captures([path], tmp_path)
    assert content.startswith(copy.read_bytes()) and copy.stat().st_size > 2_000_000


def test_what_is_none_is_refused(tmp_path):
    path = tmp_path / "a.zst"
    path.write_bytes(bytes.fromhex("28b52ffd") + b"nothing of the kind")
    with pytest.raises(UserError, match=r"a\.zst: cannot be unpacked \(zstd\)"):
        unpacked.captures([path], tmp_path)
