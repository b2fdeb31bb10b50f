"""The DPDK writer's generator: every offered frame is written, rejected or left over, as the files record."""

import itertools
import struct
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk

NUMBER_AT = 42


def generate(directory: Path, size: int, *arguments: object, name: str = "c.pcap") -> dpdk.Run:
    """Return a capture of generated frames, after checking that the counts on both sides of the ring add up."""
    run = dpdk.capture(directory, "--generate", size, *arguments, name=name)
    assert run.status == 0, run.stderr
    assert run.generator["frame_bytes"] == size and run.generator["offered"] > 0
    assert run.generator["offered"] == run.generator["refused"] + run.counts["received"] + run.generator["left"]
    return run


def numbers(frames: list[dpdk.Frame]) -> list[int]:
    return [struct.unpack_from("!Q", frame.data, NUMBER_AT)[0] for frame in frames]


@pytest.mark.parametrize(("size", "snaplen"), [(60, 64), (1514, 200)])
def test_all_accepted_frames_are_written(tmp_path, size, snaplen):
    run = generate(tmp_path, size, "--snaplen", snaplen, "--frames", 20000, "--when-full", "wait", "--depth", 64)
    frames, rest = dpdk.read_pcap(tmp_path / "c.pcap")
    created = run.generator
    assert rest == 0
    assert {(frame.wire, len(frame.data)) for frame in frames} == {(size, min(size, snaplen))}
    seen = numbers(frames)
    assert len(seen) == run.counts["written"] == created["offered"] - created["refused"] - created["left"] == 20000
    assert all(a < b for a, b in itertools.pairwise(seen)) and seen[-1] < created["offered"]


def test_full_ring_rejects_frames(tmp_path):
    arguments = ["--depth", 64, "--frames", 20000, "--writer", "buffered", "--when-full", "wait"]
    run = generate(tmp_path, 9000, *arguments)  # unlimited: a thread that only counts is faster than one that writes
    assert run.generator["refused"] > 0 and run.generator["behind"] == 0


def test_generator_does_not_exceed_its_rate(tmp_path):
    run = generate(tmp_path, 128, "--rate", 20000, "--frames", 2000, "--writer", "sink")
    created = run.generator
    assert created["offered"] + created["behind"] <= created["rate"] * created["seconds"] + 1
    assert created["rate"] == 20000 and run.accounts["device"]["driver"] == "net_ring"


def test_frames_offered_before_the_end_are_written(tmp_path):
    assert generate(tmp_path, 60, "--rate", 20000, "--duration", "0.3", "--writer", "sink").generator["left"] == 0


def test_several_queues_share_the_frames(tmp_path):
    run = generate(tmp_path, 300, "--queues", 2, "--rate", 50000, "--frames", 1000, "--snaplen", 100)
    seen = [numbers(dpdk.read_pcap(path)[0]) for path in run.files()]
    assert len(seen) == 2 and all(seen)
    assert len(set(seen[0] + seen[1])) == run.counts["written"]


def test_generated_frames_are_whole_packets(tmp_path):
    generate(tmp_path, 128, "--rate", 1000, "--frames", 20, "--filter", "udp and dst host 198.18.0.2")
    frames = dpdk.read_pcap(tmp_path / "c.pcap")[0]
    assert frames
    for frame in frames:
        words = struct.unpack_from("!10H", frame.data, 14)
        total = sum(words)
        assert (total & 0xFFFF) + (total >> 16) == 0xFFFF  # RFC 1071
        assert words[1] == 128 - 14 and struct.unpack_from("!H", frame.data, 38)[0] == 128 - 34


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "5"], "one of --vdev, --pci and --generate"),
        (["--vdev", "net_null0", "--rate", "5"], "applies to --generate only"),
        (["--vdev", "net_null0", "--generate", "64"], "one of --vdev, --pci and --generate"),
        (["--generate", "59"], "not a whole number from 60 to 9216"),
        (["--generate", "64", "--rate", "fast"], "not a number of frames per second above 0"),
    ],
)
def test_invalid_generator_options_are_errors(tmp_path, arguments, message):
    run = dpdk.capture(tmp_path, *arguments)
    assert run.status == 2 and message in run.stderr, run.stderr
