"""The DPDK writer on devices that need no NIC: veth with AF_PACKET and AF_XDP, rings, null devices."""

import signal
import struct
import time
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import veth
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import run as tool
from acapella_testing.requirements import require

from acapella_capture.programs.dpdk import failure

FRAMES = dpdk.some_frames(2000, seed=3, sizes=(60, 128, 512, 1514))


def take(direct, directory: Path, frames: list[dpdk.Frame], device: str, *arguments: object, name="c.pcap") -> dpdk.Run:
    """Capture `frames` from in0 with `device`."""
    argv = ["--vdev", device, "--frames", len(frames), "--stop-when-idle", 5, *arguments]  # idle if frames were lost
    process = dpdk.start(directory, *argv, name=name, prefix=direct)
    try:
        veth.send_capture(direct, "out0", write_file(directory / "sent.pcap", dpdk.pcap_bytes(frames)))
        stderr = process.communicate(timeout=dpdk.LIMIT_S)[1]
    finally:
        process.kill()
    return dpdk.finished(directory, process.returncode, stderr)


AF_PACKET = "net_af_packet0,iface=in0,blocksz=65536,framesz=2048,framecnt=8192"


def test_af_packet_captures_every_frame_of_an_interface(tmp_path, direct):
    sent = FRAMES[2:] + dpdk.fragments()
    before = time.time_ns()
    run = take(direct, tmp_path, sent, AF_PACKET)
    assert run.status == 0, run.stderr
    frames = dpdk.read_pcap(tmp_path / "c.pcap")[0]
    assert [frame.data for frame in frames] == [frame.data for frame in sent]
    assert run.accounts["interface"]["name"] == "in0"
    assert run.accounts["interface"]["rx_packets"] == run.counts["received"] == len(FRAMES)
    stamps = [frame.ts_ns for frame in frames]
    assert before < stamps[0] <= stamps[-1] < time.time_ns()
    assert stamps == sorted(stamps)
    assert run.accounts["clock"]["source"] == "tsc"
    assert run.accounts["clock"]["steps"] == 0


def test_several_queues_share_an_interface_by_flow(tmp_path, direct):
    run = take(direct, tmp_path, FRAMES, AF_PACKET + ",qpairs=2", "--queues", 2, name="c.pcapng")
    assert run.status == 0, run.stderr
    parts = [dpdk.read_pcapng(tmp_path / f"c-q{queue}.pcapng").frames for queue in range(2)]
    assert [{frame.queue for frame in part} for part in parts] == [{0}, {1}]
    assert sorted(frame.data for part in parts for frame in part) == sorted(frame.data for frame in FRAMES)
    flows = [{frame.data[23:38] for frame in part} for part in parts]
    assert not flows[0] & flows[1]
    assert run.counts["written"] == len(FRAMES)


def test_vlan_tag_is_restored_in_place(tmp_path, direct):
    tag = struct.pack("!HH", 0x8100, 0x2007)
    data = [(frame.data[:12] + tag + frame.data[12:])[: frame.wire] for frame in FRAMES[:50]]
    run = take(direct, tmp_path, [dpdk.Frame(number, len(each), each) for number, each in enumerate(data)], AF_PACKET)
    assert run.status == 0, run.stderr
    assert [frame.data for frame in dpdk.read_pcap(tmp_path / "c.pcap")[0]] == data


def test_frame_size_that_would_truncate_frames_is_rejected(tmp_path, direct):
    tool(*direct, "ip", "link", "set", "in0", "mtu", 9000, check=True)
    jumbo = AF_PACKET.replace("framesz=2048", "framesz=16384").replace("framecnt=8192", "framecnt=512")
    small = dpdk.capture(tmp_path, "--vdev", AF_PACKET, "--duration", 1, prefix=direct)
    large = dpdk.capture(tmp_path, "--vdev", jumbo, "--max-frame", 16384, "--duration", 0.2, prefix=direct)
    assert small.status == 1, small.stderr
    assert "would be truncated to" in small.stderr
    assert "add framesz=16384,blocksz=65536" in small.stderr
    assert large.status == 0, large.stderr


def test_af_xdp_captures_every_frame_or_counts_its_losses(tmp_path, direct):
    argv = ["--vdev", "net_af_xdp0,iface=in0,start_queue=0,queue_count=1,force_copy=1", "--stop-when-idle", "0.1"]
    tried = dpdk.capture(tmp_path, *argv, name="c.pcap", prefix=direct)
    require(tried.status == 0, f"AF_XDP does not work on this machine: {tried.stderr.strip().splitlines()[-1:]}")
    run = take(direct, new_directory(tmp_path / "xdp"), FRAMES, argv[1])
    assert run.status == 0, run.stderr
    frames = dpdk.read_pcap(tmp_path / "xdp" / "c.pcap")[0]
    assert len(frames) + run.accounts["nic"]["imissed"] == len(FRAMES)
    assert len(frames) > len(FRAMES) // 2
    assert {frame.data for frame in frames} <= {frame.data for frame in FRAMES}


@pytest.mark.parametrize("device", ["net_ring0", "net_null0,no-rx=1"])
def test_device_without_traffic_gives_an_empty_capture(tmp_path, device):
    run = dpdk.stop(dpdk.start(tmp_path, "--vdev", device, "--queues", 1), tmp_path, signal.SIGTERM)
    assert (run.status, run.counts["received"]) == (0, 0), run.stderr
    assert dpdk.read_pcap(tmp_path / "c.pcap") == ([], 0)


def test_every_queue_is_captured_if_there_are_more_queues_than_cpus(tmp_path):
    run = dpdk.capture(tmp_path, "--vdev", "net_null0,size=100", "--queues", 4, "--duration", 0.3, "--sample", 1000)
    assert run.status == 0, run.stderr
    assert all(queue["written"] > 0 for queue in run.accounts["queues"])
    assert [len(dpdk.read_pcap(path)[0]) for path in run.files()] == [
        queue["written"] for queue in run.accounts["queues"]
    ]


def test_sink_counts_frames_and_writes_no_file(tmp_path):
    run = dpdk.capture(tmp_path, "--vdev", "net_null0,size=64", "--frames", 100000, "--writer", "sink")
    assert run.status == 0, run.stderr
    assert run.counts["written"] == 100000
    assert run.accounts["files"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


def test_capture_runs_with_huge_pages(tmp_path):
    free = sum(int(path.read_text()) for path in Path("/sys/kernel/mm/hugepages").glob("*/free_hugepages"))
    require(free >= 64, f"{free} free huge pages here, 64 are needed: sysctl vm.nr_hugepages=64")
    run = dpdk.capture_of(tmp_path, FRAMES, "--huge", "--depth", 256, "--max-frame", 2048)
    assert run.status == 0, run.stderr
    assert run.accounts["device"]["huge_pages"] and dpdk.read_pcap(tmp_path / "c.pcap")[0] == FRAMES


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("", "no message"),
        ("prog: error: disk full\n", "disk full"),
        ("prog: 3 packets\nprog: a: no such port\n", "a: no such port"),
        ("EAL: x\nprog: y\nEAL: a\nPMD: b\nprog: c: no such port\n", "c: no such port (DPDK: EAL: a; PMD: b)"),
    ],
)
def test_failure_includes_the_lines_of_dpdk_before_it(output, message):
    assert str(failure("prog", output)) == message
