"""`acapella collect` on the local testbed: captures, manifests, and cleanup.

Most tests collect as a user; test_testbed_contract.py and test_collect_replays.py collect as root.
"""

import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest
from acapella_testing.capture.callers import AS_USER
from acapella_testing.capture.interrupted_runs import ends_without_leftovers
from acapella_testing.capture.pcap_records import records
from acapella_testing.csv_rows import read_rows
from acapella_testing.processes import run

from acapella_capture import manifest as manifests
from acapella_core.files import sha256_of

CONFIG = (
    "campaign: test\ntestbed: local\nlocal: {{sites: {sites}}}\ncapture: {{sample_s: {s}, samples_per_port: {n}}}\n"
)
# Required programs and display filter for each kind of traffic in the default plan. All of it crosses the uplinks.
SEEN = {
    "TCP over IPv4": (["iperf3"], "ip.addr == 10.10.0.0/16 and tcp.port >= 5201 and tcp.port <= 5230 and not icmp"),
    "TCP over IPv6": (["iperf3"], "ipv6 and tcp.port >= 5201 and tcp.port <= 5230 and not icmpv6"),
    "UDP over IPv4": (["iperf3"], "ip and udp.port >= 5201 and udp.port <= 5230 and not vxlan and not icmp"),
    "UDP over IPv6": (["iperf3"], "ipv6 and udp.port >= 5201 and udp.port <= 5230 and not icmpv6"),
    "jumbo frames": (["iperf3"], "frame.len > 8000"),
    "HTTP over IPv4": (["curl"], "ip and http.request"),
    "HTTP over IPv6": (["curl"], "ipv6 and http.request"),
    "HTTPS over IPv4": (["curl", "openssl"], "ip and tls"),
    "HTTPS over IPv6": (["curl", "openssl"], "ipv6 and tls"),
    "DNS answers over IPv4": (["dig", "dnsmasq"], "ip and dns.flags.response == 1"),
    "DNS answers over IPv6": (["dig", "dnsmasq"], "ipv6 and dns.flags.response == 1"),
    "ICMP echo replies": (["ping"], "icmp.type == 0"),
    "ICMPv6 echo replies": (["ping"], "icmpv6.type == 129 and not vxlan"),
    "SSH over IPv4": (["ssh", "sshd"], "ip and ssh"),
    "SSH over IPv6": (["ssh", "sshd"], "ipv6 and ssh"),
    "refused over IPv4": (["curl"], "ip and tcp.flags.reset == 1 and tcp.srcport == 9"),
    "refused over IPv6": (["curl"], "ipv6 and tcp.flags.reset == 1 and tcp.srcport == 9"),
    "unreachable over IPv4": (["dig"], "icmp.type == 3 and icmp.code == 3"),
    "unreachable over IPv6": (["dig"], "icmpv6.type == 1 and icmpv6.code == 4"),
}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture(scope="module")
def campaign(caller, open_directory) -> Path:
    """Run a collection with the default plan, and check that it leaves no processes or temporary files behind.

    Samples take three seconds, so that those of different sites overlap although the sites are not synchronized.
    """
    assert ends_without_leftovers(caller, open_directory / "test", CONFIG.format(sites=2, s=3, n=1), None) == 0
    return open_directory / "test"


def manifests_of(campaign: Path) -> list[dict]:
    return [manifests.read(path) for path in sorted((campaign / "raw").glob("*.json"))]


def frames_by_filter(capture: Path, filters: list[str]) -> list[int]:
    """Return the number of frames that match each display filter, in one pass of tshark."""
    printed = run("tshark", "-r", capture, "-q", "-z", ",".join(["io,stat,0", *filters]), check=True).stdout
    return [int(cell) for cell in next(line for line in printed.splitlines() if "<>" in line).split("|")[2:-1:2]]


@AS_USER
def test_sheet_lists_a_sample_of_every_site_and_port(campaign):
    rows = read_rows(campaign / "raw" / "samples.tsv")
    assert {(row["site"], row["port"]) for row in rows} == {
        *(("site1", port) for port in ("port1", "port2", "uplink-site2")),
        *(("site2", port) for port in ("port1", "port2", "uplink-site1")),
    }
    for row in rows:
        manifest = manifests.read(campaign / "raw" / f"{row['sample']}.json")
        assert {key: manifest[key] for key in row} == row
        assert (campaign / "raw" / row["file"]).is_file()


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@AS_USER
def test_all_kinds_of_traffic_cross_the_uplink(campaign):
    installed = {what: all(shutil.which(program, path=PATH) for program in SEEN[what][0]) for what in SEEN}
    expected = {what: SEEN[what][1] for what in SEEN if installed[what]}
    counts = Counter()
    for manifest in manifests_of(campaign):
        if manifest["port"] == "uplink-site2":
            frames = frames_by_filter(campaign / "raw" / manifest["file"], list(expected.values()))
            counts.update(dict(zip(expected, frames, strict=True)))
    assert [what for what in expected if counts[what] == 0] == []


@AS_USER
def test_traffic_of_a_path_is_captured_or_noted_as_missing(campaign):
    manifest = next(manifest for manifest in manifests_of(campaign) if manifest["port"] == "uplink-site2")
    seen = frames_by_filter(campaign / "raw" / manifest["file"], ["vxlan", "vlan"])
    for path, frames in zip(("vxlan", "vlan"), seen, strict=True):
        assert any(f"no {path} device" in note for note in manifest["notes"]) == (frames == 0), manifest["notes"]


@AS_USER
def test_frames_are_at_most_as_long_as_the_mtu(campaign):
    found = [frame for each in manifests_of(campaign) for frame in records(campaign / "raw" / each["file"])]
    assert max(length for _, length, _ in found) <= 9014


@AS_USER
def test_counts_agree_from_switch_to_file(campaign):
    for manifest in manifests_of(campaign):
        mirror = manifest["mirror"]
        assert manifest["frames_captured"] > 0
        assert manifest["frames_captured"] == manifest["frames_received"] - manifest["dropped_kernel"]
        assert mirror["offered_frames"] == mirror["delivered_frames"] == manifest["frames_received"]
        assert mirror["offered_bytes"] == mirror["delivered_bytes"]
        path = campaign / "raw" / manifest["file"]
        printed = run("capinfos", "-M", "-T", "-r", "-c", "-d", path, check=True).stdout.split("\t")
        assert [int(printed[1]), int(printed[2])] == [manifest["frames_captured"], mirror["delivered_bytes"]]


@AS_USER
def test_manifests_match_their_files(campaign):
    for manifest in manifests_of(campaign):
        capture = campaign / "raw" / manifest["file"]
        assert manifest["sha256"] == sha256_of(capture)
        assert manifest["bytes"] == capture.stat().st_size
        assert capture.stat().st_mode & 0o777 == 0o600
        stamps = [stamp for stamp, _, _ in records(capture)]
        assert manifest["actual"]["start_ns"] <= min(stamps) <= max(stamps) <= manifest["actual"]["end_ns"]
        assert manifest["requested"]["end_ns"] - manifest["requested"]["start_ns"] == 3 * 10**9


@pytest.mark.soak
@AS_USER
def test_both_ends_of_a_link_capture_the_same_connection(campaign):
    """Samples of both ends overlap: a TCP connection within the overlap is in both."""
    found = {"uplink-site1": set(), "uplink-site2": set()}
    for manifest in manifests_of(campaign):
        if manifest["port"] in found:
            argv = ["tshark", "-r", campaign / "raw" / manifest["file"], "-Y", "http and ip", "-T", "fields"]
            printed = run(*argv, "-e", "ip.id", "-e", "tcp.seq_raw", check=True).stdout
            found[manifest["port"]] |= set(printed.splitlines())
    assert found["uplink-site1"] & found["uplink-site2"]


# More rounds than can finish before the signal, so that it arrives in the middle of the collection.
ROUNDS = CONFIG.format(sites=1, s=1, n=50)


def test_interrupted_collection_leaves_nothing(caller, open_directory):
    """With Ctrl-C as a user, SIGTERM as root; test_collect_replays.py has the other combinations."""
    number = signal.SIGINT if caller.prefix else signal.SIGTERM
    assert ends_without_leftovers(caller, open_directory / "asked", ROUNDS, number) == 130


@pytest.mark.soak
def test_killed_collection_leaves_nothing(caller, open_directory):
    assert ends_without_leftovers(caller, open_directory / "killed", ROUNDS, signal.SIGKILL) == -signal.SIGKILL
    assert [(row["outcome"], row["reason"]) for row in read_rows(open_directory / "killed" / "outcomes.csv")] == [
        ("incomplete", "interrupted before completion")
    ]
