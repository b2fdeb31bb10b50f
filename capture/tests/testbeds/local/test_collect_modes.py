"""`acapella collect` on the local testbed: cycles, an overloaded mirror, a full disk."""

import json
import shutil
from pathlib import Path

import pytest
from acapella_testing.capture.pcap_records import records
from acapella_testing.new_files import write_file
from acapella_testing.processes import run

from acapella_capture import manifest as manifests
from acapella_capture.control import outcomes
from acapella_core.files import sha256_of

pytestmark = pytest.mark.soak

PERIOD_NS = 2 * 10**9
MIRROR_MBPS = 10
# One UDP stream of 40 Mbit/s passes only through the ports of its sender and its receiver; port2 carries no traffic.
STREAM = "{kind: iperf3_udp, rate_mbps: 40, client: site1-host1, server: site2-host1, span: run}"
BUSIEST_CONFIG = f"""
testbed: local
capture: {{sample_s: 1, snaplen: 100}}
local: {{mirror_rate_mbps: {MIRROR_MBPS}, traffic: [{STREAM}]}}
collect: {{mode: sites, sites: [site1], instances: 1, port_selection: busiest, busiest_every: 2, cycles: 2,
  samples_per_run: 2, sample_period_s: 2, telemetry_s: 3, compress: true, gather: end, watch_s: 1}}
"""


@pytest.fixture(scope="module")
def campaign(anyone, tmp_path_factory) -> Path:
    """Sample a port in each of two cycles, with two samples each, over a mirror port that is too slow."""
    directory = tmp_path_factory.mktemp("busiest") / "c"
    done = anyone.collect(directory, BUSIEST_CONFIG)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="module")
def samples(campaign) -> list[dict]:
    found = [manifests.read(path) for path in (campaign / "raw").glob("*.json")]
    return sorted(found, key=lambda manifest: manifest["requested"]["start_ns"])


def test_port_changes_only_between_cycles_and_each_sample_has_its_own_period(samples):
    assert [manifest["cycle"] for manifest in samples] == [1, 1, 2, 2]
    assert {manifest["site"] for manifest in samples} == {"site1"}
    by_cycle = [{manifest["port"] for manifest in samples if manifest["cycle"] == cycle} for cycle in (1, 2)]
    assert [len(ports) for ports in by_cycle] == [1, 1] and by_cycle[0] != by_cycle[1]
    periods = [manifest["requested"]["start_ns"] // PERIOD_NS for manifest in samples]
    assert periods == sorted(set(periods))


@pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed")
def test_manifest_has_the_checksum_of_the_compressed_file(campaign, samples):
    for manifest in samples:
        path = campaign / "raw" / manifest["file"]
        assert path.suffixes[-2:] == [".pcap", ".zst"]
        assert manifest["sha256"] == sha256_of(path)
        run("zstd", "-q", "-d", "-f", path, "-o", campaign / path.stem, check=True)
        assert len(records(campaign / path.stem)) == manifest["frames_captured"]


def test_manifest_contains_counters_clock_and_disk(campaign, samples):
    for manifest in samples:
        assert manifest["watchdog"]["disk_free_bytes"] > 0
        assert set(manifest["clock"]) == {"source", "offset_ns", "synchronized"}
        if manifest["frames_captured"] > 10_000:
            assert manifest["watchdog"]["growing"] is True
    log = campaign / "logs" / "collect" / "site1-listener.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    received = [line["interfaces"]["capture0"]["rx_packets"] for line in lines]
    assert received == sorted(received) and received[-1] >= sum(manifest["frames_captured"] for manifest in samples) > 0
    assert [row["outcome"] for row in outcomes.read(campaign / "outcomes.csv")] == ["success"]


def test_loss_interval_from_counters_contains_the_true_loss(samples):
    """Compares the switch's port counters with what the mirror offered and delivered."""
    for manifest in samples:
        mirror, found = manifest["mirror"], manifest["congestion"]
        true_loss = 1 - mirror["delivered_bytes"] / mirror["offered_bytes"] if mirror["offered_bytes"] else 0
        assert found["capacity_bps"] == MIRROR_MBPS * 10**6
        assert found["verdict"] in ("at risk", "congested")
        assert found["verdict"] == "congested" or true_loss < 0.5
        assert found["loss"]["low"] <= true_loss + 1e-9 <= found["loss"]["high"] + 1e-9
        assert found["readings"][0][0] <= manifest["actual"]["start_ns"]
        assert found["readings"][-1][0] >= manifest["actual"]["end_ns"]
        assert mirror["delivered_frames"] == manifest["frames_received"]
    assert "congested" in {manifest["congestion"]["verdict"] for manifest in samples}


SMALL_DISK = """
import sys
from acapella_capture import collect
from acapella_capture.programs import tcpdump
from acapella_capture.testbeds.local import network, processes, sandbox, testbed
if not sandbox.inside():
    sys.exit(sandbox.call([sys.executable, *sys.argv]))
build, tear_down = network.Network.build, testbed.tear_down
def build_with_small_disk(*arguments):
    build(*arguments)
    sandbox.mount("small", processes.SPOOL, "tmpfs", data="size=" + size)
def unmount_and_tear_down():
    if processes.SPOOL.exists():
        sandbox.unmount(processes.SPOOL)
    tear_down()
network.Network.build, testbed.tear_down = build_with_small_disk, unmount_and_tear_down
size, tcpdump.DRAIN_S = sys.argv.pop(1), int(sys.argv.pop(1))
sys.exit(collect.main())
"""
SMALL_DISK_CONFIG = """
testbed: local
capture: {{sample_s: 20, snaplen: 2000}}
local: {{sites: 2, traffic: [{stream}]}}
collect: {{mode: sites, sites: [site1], instances: 1, port_selection: fixed, ports: {{site1: [port1]}}, watch_s: 1,
  disk_reserve_mb: {reserve}}}
"""


@pytest.mark.parametrize(
    ("size", "reserve", "full"), [("32m", 24, False), ("2m", 1, True)], ids=["nearly full", "full"]
)
def test_full_disk_ends_a_sample_with_whole_frames_and_the_reason(anyone, tmp_path, size, reserve, full):
    """At 5 MB/s, the disk fills up five watchdog intervals after free space drops to the reserve (nearly full), or less
    than half an interval after it (full).

    tcpdump cannot write its buffer to a full disk, so the test hardly waits for it to drain.
    """
    config = write_file(tmp_path / "config.yaml", SMALL_DISK_CONFIG.format(stream=STREAM, reserve=reserve))
    program = write_file(tmp_path / "small.py", SMALL_DISK)
    argv = [anyone.python, program, size, 1 if full else 10, tmp_path / "c", "--config", config]
    done = run(*argv, env=anyone.env(), timeout=600)
    assert done.returncode == 0, done.stderr
    manifest = manifests.read(tmp_path / "c" / "raw" / "run1-site1-port1-both-1.json")
    assert manifest["ended_early"].startswith("disk full: ")
    span = manifest["actual"]
    assert 0 < span["end_ns"] - span["start_ns"] < 15 * 10**9
    assert len(records(tmp_path / "c" / "raw" / manifest["file"])) == manifest["frames_captured"] > 100
    assert any(manifest["ended_early"] in note for note in manifest["notes"])
    if manifest["frames_received"] is None:  # there was no space for tcpdump's last counts either
        assert full and any("counts unknown: tcpdump on " in note for note in manifest["notes"])
        return
    unwritten = manifest["frames_received"] - manifest["dropped_kernel"] - manifest["frames_captured"]
    assert any(f"{unwritten} more frames were received" in note for note in manifest["notes"]) == (unwritten > 0)
    assert full or unwritten == 0
