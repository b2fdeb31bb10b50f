"""Captures compressed with gzip, zstd or lz4 are passed to the loader through a pipe."""

import os
import resource
import threading

import pytest
from acapella_testing.frames.compressed import CODECS, damaged, packed
from acapella_testing.new_files import write_file

from acapella.common.decompression import END, streamed
from acapella_core.errors import UserError

CONTENT = bytes(range(256)) * 20_000


def read(streams) -> bytes:
    """Return all data from the only pipe."""
    descriptor, _ = streams.descriptors
    with os.fdopen(os.dup(descriptor), "rb") as pipe:
        return pipe.read()


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_capture_is_streamed_under_its_name(tmp_path, codec):
    path = packed(tmp_path / "a.pcap.z", codec, CONTENT, CONTENT)  # concatenated compressed frames form one stream
    with streamed([path]) as streams:
        assert streams.arguments == ["--in", str(path), "--descriptor", "{}:{}".format(*streams.descriptors)]
        assert read(streams) == CONTENT * 2
        assert os.read(streams.descriptors[1], 2) == END  # the end marker
    assert streams.faults == {}


def test_uncompressed_captures_are_opened_by_the_loader(tmp_path):
    paths = [write_file(tmp_path / "a.pcap", b"\xd4\xc3\xb2\xa1 and so on"), tmp_path / "none", tmp_path]
    with streamed(paths) as streams:
        assert streams.arguments == [word for path in paths for word in ("--in", str(path))]
        assert streams.descriptors == ()


def test_streaming_writes_no_file(tmp_path, request):
    """Sets a limit on the size of files, which does not apply to pipes."""
    path, limits = packed(tmp_path / "a.zst", "zstd", CONTENT), resource.getrlimit(resource.RLIMIT_FSIZE)
    request.addfinalizer(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    with streamed([path]) as streams:
        assert read(streams) == CONTENT


@pytest.mark.parametrize("write", [write_file, lambda path, content: packed(path, "zstd", content)])
def test_bytes_beyond_the_given_maximum_are_not_streamed(tmp_path, write):
    with streamed([write(tmp_path / "a", CONTENT)], [1_000_001]) as streams:
        assert read(streams) == CONTENT[:1_000_001]


def test_stream_without_a_reader_ends(tmp_path):
    path = packed(tmp_path / "a.zst", "zstd", CONTENT)
    before = threading.active_count()
    with streamed([path, path]):
        pass
    assert threading.active_count() == before


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("write", "cut", "kind"), [(damaged, 0, "bad_compression"), (packed, 20, "cut_compressed")])
def test_damaged_and_truncated_data_are_distinct_errors(tmp_path, codec, write, cut, kind):
    path = write(tmp_path / "a", codec, CONTENT, CONTENT)
    os.truncate(path, path.stat().st_size - cut)
    with streamed([path]) as streams:
        got = read(streams)
    assert got.startswith(CONTENT)
    assert (CONTENT * 2).startswith(got)
    assert streams.faults[0].kind == kind
    assert streams.faults[0].text.startswith(f"at byte {len(got)} of the decompressed data: ")


def test_file_that_cannot_be_decompressed_is_rejected(tmp_path):
    path = write_file(tmp_path / "a.zst", bytes.fromhex("28b52ffd") + b"nothing of the kind")
    with pytest.raises(UserError, match=r"a\.zst: zstd: "), streamed([path]):
        pass
