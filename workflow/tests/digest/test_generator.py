"""Checks the documented properties of the captures of the benchmarks' frame generator, using dpkt."""

import io
import itertools
import subprocess
from collections import defaultdict

import dpkt
import pytest
from acapella_testing.native_programs import native_program
from acapella_testing.processes import run

UNDERLAY_BYTES = 14 + 4 + 4 + 4 + 4  # Ethernet, VLAN, MPLS, MPLS, control word


def generate(*options: object) -> bytes:
    words = [native_program("acapella-generate"), *map(str, options)]
    return subprocess.run(words, check=True, capture_output=True).stdout


def inner_frames(capture: bytes, outer: int = 0):
    """Yield the outer bytes, dpkt's inner IPv4 packet, and the payload length on the wire of each frame."""
    for _, frame in dpkt.pcap.Reader(io.BytesIO(capture)):
        ip = dpkt.ethernet.Ethernet(frame[outer:]).data
        yield frame[:outer], ip, ip.len - 4 * ip.hl - 4 * ip.data.off


@pytest.fixture(scope="module")
def fabric() -> bytes:
    return generate("--frames", 20000, "--flows", 200, "--profile", "fabric")


def test_output_depends_only_on_arguments_and_seed(fabric):
    assert generate("--frames", 20000, "--flows", 200) == fabric
    assert generate("--frames", 20000, "--flows", 200, "--seed", 2) != fabric


def test_shorter_capture_is_a_prefix_of_a_longer_one(fabric):
    assert fabric.startswith(generate("--frames", 500, "--flows", 200))


def test_timestamps_increase_and_lengths_are_truncated(fabric):
    frames = list(dpkt.pcap.Reader(io.BytesIO(fabric)))
    assert len(frames) == 20000
    assert all(a < b for (a, _), (b, _) in itertools.pairwise(frames))
    assert max(len(frame) for _, frame in frames) == 200


def test_two_thirds_of_the_frames_carry_data(fabric):
    payloads = [payload for _, _, payload in inner_frames(fabric, UNDERLAY_BYTES)]
    assert 0.63 < sum(p > 0 for p in payloads) / len(payloads) < 0.69


def test_each_direction_has_separate_labels(fabric):
    labels = defaultdict(set)
    for outer, ip, _ in inner_frames(fabric, UNDERLAY_BYTES):
        labels[ip.src, ip.dst].add(outer[18:26])
    assert len(labels) == 200
    assert all(len(seen) == 1 for seen in labels.values())
    assert all(labels[src, dst] != labels[dst, src] for src, dst in labels)


def test_sequence_and_acknowledgment_numbers_follow_tcp(fabric):
    expected = {}
    for _, ip, payload in inner_frames(fabric, UNDERLAY_BYTES):
        tcp = ip.data
        if (ip.src, ip.dst) in expected:
            assert tcp.seq == expected[ip.src, ip.dst]
        if tcp.flags & dpkt.tcp.TH_ACK:
            assert tcp.ack == expected[ip.dst, ip.src]
        expected[ip.src, ip.dst] = (tcp.seq + payload + bool(tcp.flags & dpkt.tcp.TH_SYN)) % 2**32


def test_tls_records_are_consecutive():
    """Without truncation, every byte of a direction belongs to a TLS record, starting with the handshake."""
    streams = defaultdict(bytes)
    for _, ip, _ in inner_frames(generate("--frames", 2000, "--flows", 4, "--profile", "plain", "--snaplen", 2000)):
        if 443 in (ip.data.sport, ip.data.dport):
            streams[ip.src, ip.dst] += ip.data.data
    assert streams
    for stream in streams.values():
        at, kinds = 0, []
        while at + 5 <= len(stream):
            assert stream[at + 1] == 3
            kinds.append(stream[at])
            at += 5 + int.from_bytes(stream[at + 3 : at + 5])
        assert kinds[0] == 22  # handshake
        assert set(kinds) <= {20, 22, 23}


def test_iperf_profile_is_bulk_tcp_over_plain_ethernet():
    assert {ip.len + 14 for _, ip, _ in inner_frames(generate("--frames", 900, "--profile", "iperf"))} == {1514, 66}


def test_first_connection_determines_the_addresses():
    words = ("--frames", 300, "--flows", 100, "--profile", "plain")
    here, there = ({ip.src for _, ip, _ in inner_frames(generate(*words, "--first", n))} for n in (0, 50))
    assert here
    assert here.isdisjoint(there)


def test_closed_pipe_is_an_error(tmp_path):
    command = [native_program("acapella-generate"), "--frames", "10000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.read(100)
        running.stdout.close()
        message = running.stderr.read()
    assert running.returncode == 2
    assert b"Broken pipe" in message


@pytest.mark.parametrize("words", [["--frames", "-1"], ["--profile", "x"], ["--snaplen"], ["--unknown", "1"]])
def test_invalid_arguments_are_rejected(words):
    answer = run(native_program("acapella-generate"), *words)
    assert answer.returncode == 2
    assert answer.stderr.startswith("acapella-generate: error: ") and answer.stderr.count("\n") == 1
