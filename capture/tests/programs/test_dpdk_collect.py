"""`acapella collect` with capture.method dpdk: every frame that a mirror delivered is in the capture, or counted."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture.callers import AS_ROOT, AS_USER
from acapella_testing.capture.fake_testbed import FakeTestbed
from acapella_testing.new_files import write_file

from acapella_capture import manifest as manifests
from acapella_capture.programs.dpdk import Dpdk, counts_of, device, ring_kib
from acapella_capture.programs.tcpdump import Counts
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import CompletedProgram
from acapella_core.errors import UserError

CONFIG = """
capture: {sample_s: 1, method: dpdk, snaplen: 128, one_in: 2, one_in_by: hash}
local: {sites: 1, traffic: [{kind: ping, path: jumbo}, {kind: https}]}
"""


def collected(caller, campaign: Path, config: str) -> list[dict]:
    """Collect a campaign with the program without sanitizers; return its manifests."""
    path = {"PATH": f"{dpdk.plain_build()}:{os.environ['PATH']}"}
    config = f"campaign: test\ntestbed: local\n{config}"
    done = replace(caller, environment=caller.environment | path).collect(campaign, config)
    assert done.returncode == 0, done.stderr
    return [manifests.read(path) for path in sorted((campaign / "raw").glob("*.json"))]


@pytest.mark.soak
def test_collect_captures_all_mirrored_frames(caller, open_directory):
    samples, raw = collected(caller, open_directory / "test", CONFIG), open_directory / "test" / "raw"
    assert len(samples) == 2
    for sample in samples:
        assert (sample["method"], sample["snaplen"], sample["clock_resolution_ns"]) == ("dpdk", 128, 1)
        received, delivered = sample["frames_received"], sample["mirror"]["delivered_frames"]
        assert (sample["one_in"], sample["one_in_by"]) == (2, "hash")
        assert sample["frames_captured"] + sample["dropped_kernel"] == received > 0
        assert received + sample["sampled_out"] == delivered > received
        frames, left = dpdk.read_pcap(raw / sample["file"])
        assert (len(frames), left) == (sample["frames_captured"], 0)
        assert min(frame.ts_ns for frame in frames) >= sample["actual"]["start_ns"]
        assert max(frame.ts_ns for frame in frames) <= sample["actual"]["end_ns"] + dpdk.SECOND
        assert max(len(frame.data) for frame in frames) <= 128
    assert sorted(path.suffix for path in raw.iterdir()) == [".json", ".json", ".pcap", ".pcap", ".tsv"]


MIXED = """
capture: {sample_s: 0.5, method: {default: tcpdump, site2: dpdk}, snaplen: 128}
collect: {port_selection: uplinks}
local: {sites: 2, traffic: [{kind: ping, path: jumbo}]}
"""


@pytest.mark.soak
@AS_ROOT
def test_collection_uses_two_capture_methods(caller, open_directory):
    samples = collected(caller, open_directory / "mixed", MIXED)
    assert [(sample["site"], sample["method"]) for sample in samples] == [("site1", "tcpdump"), ("site2", "dpdk")]
    assert all(sample["frames_captured"] > 0 for sample in samples)


def test_command_line_contains_filter_sampling_and_snap_length(monkeypatch):
    monkeypatch.setattr("acapella_capture.programs.dpdk.executable", lambda: "writer")
    testbed = FakeTestbed("p")
    shown = {"sh": "0\n4294967295\n8192\n", "ip": "2: capture0: <UP> mtu 1500 qdisc"}
    monkeypatch.setattr(testbed, "run", lambda node, argv: CompletedProgram(0, shown[argv[0]], ""))
    keys = {"method": "dpdk", "filter": "udp", "snaplen": 96, "one_in": 5, "one_in_by": "hash"}
    settings = parse_settings({"testbed": "local", "capture": keys}).capture
    argv = Dpdk(testbed, "S-listener", "capture0", settings, "s.pcap")._argv()
    given = dict(zip(argv[1::2], argv[2::2], strict=True))
    required = {"--filter": "udp", "--snaplen": "96", "--sample": "5", "--sample-by": "hash"}
    assert required.items() <= given.items() and given["--write"] == "/nowhere/s.pcap"


def test_drops_not_reported_by_af_packet_are_counted():
    frames = {"written": 7, "received": 24, "sampled_out": 4, "dropped": {"writer_full": 2, "write_error": 1}}
    interface = {"rx_packets": 29, "rx_errors": 3, "rx_fifo": 1, "rx_dropped": 99}
    accounts = {"frames": frames, "p4": None, "device": {"driver": "net_af_packet"}, "interface": interface}
    assert counts_of(accounts) == Counts(captured=7, received=15, dropped_kernel=8, dropped_interface=4, sampled_out=4)


@pytest.mark.parametrize(("mtu", "frame"), [(1500, 2048), (1968, 2048), (1969, 4096), (9000, 16384), (32688, 32768)])
def test_ring_fits_whole_frames(mtu, frame):
    text, size = device("eth1", mtu, 32768)
    assert size == frame
    values = dict(pair.split("=") for pair in text.split(",")[1:])
    assert int(values["framesz"]) * int(values["framecnt"]) == 32768 * 1024


def test_frames_larger_than_an_mbuf_are_an_error():
    with pytest.raises(UserError, match=r"^eth1: MTU 32689 is too large for DPDK.s net_af_packet; ip link"):
        device("eth1", 32689, 32768)


@pytest.mark.parametrize(
    ("limits", "kib"),
    [
        ("0\n4294967295\n8192\n", 32768),
        ("1000\n4294967295\nunlimited\n", 32768),
        ("65534\n         1\n8192\n", 4096),
        ("0\n1\n100000\n", 32768),
    ],
)
def test_ring_is_limited_by_lockable_memory(limits, kib):
    assert ring_kib(32768, limits) == kib


P4_CONFIG = """
capture: {{sample_s: 0.5, method: fpga, format: pcapng, snaplen: 64, p4_program: {program}, p4_control: {control}}}
collect: {{port_selection: uplinks}}
local: {{sites: 2, traffic: [{{kind: ping, path: jumbo}}]}}
"""


@pytest.mark.soak
@AS_USER
def test_collect_takes_samples_after_a_p4_program(caller, open_directory):
    control = write_file(open_directory / "control", dpdk.DROP_ARP)
    samples = collected(caller, open_directory / "behind", P4_CONFIG.format(program=dpdk.FORWARD, control=control))
    assert [sample["method"] for sample in samples] == ["fpga", "fpga"]
    for sample in samples:
        read = dpdk.read_pcapng(open_directory / "behind" / "raw" / sample["file"])
        frames, not_sent = read.frames, sample["p4"]["not_sent"]
        assert sample["file"] == f"{sample['sample']}.pcapng"
        assert sample["bytes"] > 0
        assert max(len(frame.data) for frame in frames) == 64 < max(frame.wire for frame in frames)
        assert all(frame.hash is not None and len(frame.hash) == 5 for frame in frames)
        assert set(not_sent) <= {"no-arp"}
        assert len(frames) == sample["frames_captured"] > 0
        assert not any(frame.data[12:14] == b"\x08\x06" for frame in frames)
        assert sample["frames_received"] + sum(not_sent.values()) == sample["mirror"]["delivered_frames"]
        assert sample["p4"]["control_sha256"] == hashlib.sha256(control.read_bytes()).hexdigest()


@pytest.mark.parametrize("method", ["fpga", {"default": "tcpdump", "site2": "fpga"}])
def test_method_fpga_requires_its_program(method):
    with pytest.raises(UserError, match=r"capture\.p4_program: no file no/such\.spec; method fpga requires it"):
        parse_settings({"testbed": "local", "capture": {"method": method, "p4_program": "no/such.spec"}})


@pytest.mark.parametrize(
    ("method", "preprocess", "why"),
    [
        ({"default": "dpdk", "site2": "tcpdump"}, {}, "pcapng is not supported by method tcpdump"),
        ("dpdk", {"anonymize": True, "key_file": "/k"}, r"preprocess\.anonymize only supports pcap"),
    ],
)
def test_pcapng_requires_method_dpdk_without_anonymization(method, preprocess, why):
    values = {"testbed": "local", "capture": {"method": method, "format": "pcapng"}}
    with pytest.raises(UserError, match=rf"capture\.format: {why}"):
        parse_settings(values | {"preprocess": preprocess})
    values["capture"]["method"] = "dpdk"
    assert parse_settings(values).capture.format == "pcapng"
