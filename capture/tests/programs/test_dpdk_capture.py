"""The DPDK writer with input files (net_pcap): every frame is written or counted."""

import itertools
import struct
import zlib

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import run as tool
from acapella_testing.requirements import require_programs

FRAMES = dpdk.some_frames(3000)


@pytest.mark.parametrize("writer", ["direct", "buffered"])
def test_pcap_equals_the_input_frame_by_frame(tmp_path, writer):
    run = dpdk.capture_of(tmp_path, FRAMES, "--writer", writer)
    assert (run.status, run.accounts["writer"]) == (0, writer), run.stderr
    assert dpdk.read_pcap(tmp_path / "c.pcap") == (FRAMES, 0)
    assert run.counts["received"] == run.counts["written"] == len(FRAMES)
    assert run.counts["received_bytes"] == sum(frame.wire for frame in FRAMES)
    assert run.accounts["clock"]["source"] == "device" and run.accounts["clock"]["resolution_ns"] == 1000
    assert (tmp_path / "c.pcap").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "c.json").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.json", "c.pcap", "input0.pcap"]


@pytest.mark.parametrize("writer", ["direct", "buffered"])
def test_snap_length_keeps_original_length_and_hash(tmp_path, writer):
    run = dpdk.capture_of(tmp_path, FRAMES, "--snaplen", 96, "--writer", writer, name="c.pcapng")
    assert run.status == 0, run.stderr
    written = dpdk.read_pcapng(tmp_path / "c.pcapng")
    assert written.frames == [
        dpdk.Frame(frame.ts_ns, frame.wire, frame.data[:96], 0, dpdk.crc32(frame.data)) for frame in FRAMES
    ]
    assert (written.left, written.snaplen, written.interface[9]) == (0, 96, b"\x09")
    assert run.counts["truncated"] == sum(frame.wire > 96 for frame in FRAMES)


def test_pcapng_has_no_hash_unless_requested(tmp_path):
    run = dpdk.capture_of(tmp_path, FRAMES[:10], "--no-hash", name="c.pcapng")
    assert run.status == 0, run.stderr
    written = dpdk.read_pcapng(tmp_path / "c.pcapng")
    assert [frame.data for frame in written.frames] == [frame.data for frame in FRAMES[:10]]
    assert {frame.hash for frame in written.frames} == {None}


@pytest.mark.parametrize("text", ["greater 1000", "net 10.0.1.0/24 and tcp and not port 53"])
def test_filter_accepts_the_same_frames_as_tcpdump(tmp_path, text):
    require_programs("tcpdump")
    run = dpdk.capture_of(tmp_path, FRAMES, "--filter", text, "--snaplen", 64)
    assert run.status == 0, run.stderr
    words = ["-r", tmp_path / "input0.pcap", "--time-stamp-precision=nano", "-w", tmp_path / "expected.pcap", text]
    tool("tcpdump", *words, check=True)
    kept = dpdk.read_pcap(tmp_path / "expected.pcap")[0]
    assert 0 < len(kept) < len(FRAMES)
    expected = [dpdk.Frame(frame.ts_ns, frame.wire, frame.data[:64]) for frame in kept]
    assert dpdk.read_pcap(tmp_path / "c.pcap") == (expected, 0)
    assert run.counts["filtered"] == len(FRAMES) - len(kept)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hash",), "--hash: pcap cannot contain hashes of frames; write .pcapng\n"),
        (("--filter", "no such thing"), "--filter no such thing: "),
    ],
)
def test_impossible_option_is_an_error_in_one_line(tmp_path, words, message):
    run = dpdk.capture_of(tmp_path, FRAMES[:10], *words)
    assert run.status == 2 and run.stderr.count("\n") == 1
    assert run.stderr.startswith(f"acapella-dpdk-capture: error: {message}")
    assert [path.name for path in tmp_path.iterdir()] == ["input0.pcap"]


def test_sampling_counts_frames_that_pass_the_filter(tmp_path):
    run = dpdk.capture_of(tmp_path, FRAMES, "--filter", "greater 500", "--sample", 7)
    assert run.status == 0, run.stderr
    passed = [frame for frame in FRAMES if frame.wire >= 500]
    assert dpdk.read_pcap(tmp_path / "c.pcap")[0] == passed[::7]
    assert run.counts["sampled_out"] == len(passed) - len(passed[::7])


def test_sampling_by_hash_does_not_depend_on_earlier_frames(tmp_path):
    """A frame is kept if its CRC32 is a multiple of n."""
    kept = [frame for frame in FRAMES if zlib.crc32(frame.data) % 5 == 0]
    later = [frame for frame in FRAMES[3:] if frame in kept]
    assert 0 < len(kept) < len(FRAMES)
    for name, frames, expected in (("all", FRAMES, kept), ("later", FRAMES[3:], later)):
        run = dpdk.capture_of(new_directory(tmp_path / name), frames, "--sample", 5, "--sample-by", "hash")
        assert dpdk.read_pcap(tmp_path / name / "c.pcap")[0] == expected
        assert run.counts["sampled_out"] == len(frames) - len(expected)


@pytest.mark.parametrize(("name", "writer"), [("c.pcap", "direct"), ("c.pcapng", "buffered")])
def test_rotation_by_size_keeps_all_frames_within_the_limit(tmp_path, name, writer):
    run = dpdk.capture_of(tmp_path, FRAMES, "--rotate-bytes", "1M", "--writer", writer, name=name)
    assert run.status == 0, run.stderr
    assert len(run.files()) > 3
    assert all(path.stat().st_size <= 1 << 20 for path in run.files())
    parts = [dpdk.read_capture(path)[0] for path in run.files()]
    assert all(parts)
    assert [(frame.ts_ns, frame.data) for part in parts for frame in part] == [
        (frame.ts_ns, frame.data) for frame in FRAMES
    ]


def test_rotation_by_time_follows_the_timestamps(tmp_path):
    run = dpdk.capture_of(tmp_path, FRAMES, "--rotate-seconds", "0.5")
    assert run.status == 0, run.stderr
    parts = [dpdk.read_pcap(path)[0] for path in run.files()]
    assert [frame for part in parts for frame in part] == FRAMES
    assert all(
        part[-1].ts_ns < part[0].ts_ns + dpdk.SECOND // 2 <= following[0].ts_ns
        for part, following in itertools.pairwise(parts)
    )


def test_interface_statistics_match_the_counts(tmp_path):
    run = dpdk.capture_of(tmp_path, FRAMES, "--filter", "udp", "--sample", 3, name="c.pcapng")
    assert run.status == 0, run.stderr
    written = dpdk.read_pcapng(tmp_path / "c.pcapng")
    (statistics,) = written.statistics
    values = {code: struct.unpack("<Q", statistics[code])[0] for code in (4, 6, 7, 8)}
    received, filtered, kept = (run.counts[name] for name in ("received", "filtered", "written"))
    assert values == {4: received, 6: received - filtered, 7: 0, 8: kept}
    times = [high << 32 | low for high, low in (struct.unpack("<II", statistics[code]) for code in (2, 3))]
    assert times == [FRAMES[0].ts_ns, FRAMES[-1].ts_ns]
    assert written.interface[11] == b"\0udp"
    assert written.interface[2] == b"net_pcap0"


def test_tshark_reads_every_frame_of_pcapng(tmp_path):
    require_programs("tshark")
    run = dpdk.capture_of(tmp_path, FRAMES[:200], "--snaplen", 64, name="c.pcapng")
    assert run.status == 0, run.stderr
    fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len"]
    assert tool("tshark", "-r", tmp_path / "c.pcapng", *fields, check=True).stdout.splitlines() == [
        f"{frame.ts_ns // dpdk.SECOND}.{frame.ts_ns % dpdk.SECOND:09d}\t{frame.wire}\t{min(64, frame.wire)}"
        for frame in FRAMES[:200]
    ]


def test_each_queue_writes_its_own_file(tmp_path):
    parts = [FRAMES[i::3] for i in range(3)]
    files = [write_file(tmp_path / f"in{number}.pcap", dpdk.pcap_bytes(part)) for number, part in enumerate(parts)]
    device = ",".join(["net_pcap0", *(f"rx_pcap={path}" for path in files)])
    arguments = ["--vdev", device, "--stop-when-idle", "0.3", "--when-full", "wait"]
    refused = dpdk.capture(tmp_path, *arguments, "--queues", 2)
    assert refused.status == 1
    assert "frames of 1 of its 3 Rx queues would be lost; use --queues 3" in refused.stderr
    run = dpdk.capture(tmp_path, *arguments, "--queues", 3)
    assert run.status == 0, run.stderr
    assert [dpdk.read_pcap(tmp_path / f"c-q{number}.pcap")[0] for number in range(3)] == parts
    assert [queue["written"] for queue in run.accounts["queues"]] == [len(part) for part in parts]


def test_frames_larger_than_a_buffer_are_complete(tmp_path):
    large = dpdk.some_frames(50, seed=5, sizes=(9000, 16000))
    run = dpdk.capture_of(tmp_path, large, "--max-frame", 2048, "--filter", "ip", name="c.pcapng")
    assert run.status == 0, run.stderr
    assert [(frame.data, frame.hash) for frame in dpdk.read_pcapng(tmp_path / "c.pcapng").frames] == [
        (frame.data, dpdk.crc32(frame.data)) for frame in large
    ]


def test_capture_stops_after_the_requested_number_of_frames(tmp_path):
    run = dpdk.capture_of(tmp_path, FRAMES, "--frames", 1000)
    assert (run.status, run.accounts["stopped_by"]) == (0, "frames"), run.stderr
    assert dpdk.read_pcap(tmp_path / "c.pcap")[0] == FRAMES[:1000]


def test_capture_without_frames_is_a_valid_file(tmp_path):
    run = dpdk.capture_of(tmp_path, [], "--filter", "udp", name="c.pcapng")
    assert run.status == 0, run.stderr
    written = dpdk.read_pcapng(tmp_path / "c.pcapng")
    assert (written.frames, len(written.statistics), written.left) == ([], 1, 0)


def test_existing_capture_is_not_overwritten(tmp_path):
    (tmp_path / "c.pcap").write_text("other content")
    run = dpdk.capture_of(tmp_path, FRAMES[:10])
    assert run.status == 1 and "c.pcap: exists; remove it or write under another name" in run.stderr
    assert (tmp_path / "c.pcap").read_text() == "other content"
    assert not (tmp_path / "c.json").exists()
