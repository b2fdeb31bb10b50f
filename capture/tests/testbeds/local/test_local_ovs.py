"""The local testbed on Open vSwitch: encapsulation of mirrored frames, two mirrors, loss, resources, counters.

Collected only inside its namespaces (test_testbed_contract.py).
"""

import concurrent.futures
import contextlib
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from acapella_testing.capture.local_testbed import allocate, local_testbed, open_vswitch_or_skip
from acapella_testing.capture.pcap_records import frames
from acapella_testing.requirements import require

from acapella_capture.programs.tcpdump import Counts, Tcpdump
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.base import Instance, InsufficientResources, MirrorCounters, ResourceRequest
from acapella_capture.testbeds.local import snmp
from acapella_capture.testbeds.local.counters import SOURCE, interfaces
from acapella_capture.testbeds.local.processes import wait_until
from acapella_capture.testbeds.local.testbed import MIN_SNMP_S, LocalTestbed

PING = ["ping", "-c", "2", "-i", "0.05", "-W", "5"]
HOW = parse_settings({"testbed": "local", "capture": {"snaplen": 65535}}).capture
MPLS, VLAN, IPV4, IPV6, ARP = 0x8847, 0x8100, 0x0800, 0x86DD, 0x0806


@pytest.fixture(scope="module")
def testbed():
    """Provide two sites of four hosts with the default slices."""
    open_vswitch_or_skip()
    with local_testbed(switch="ovs", hosts_per_site=4, traffic=[{"kind": "ping", "path": "jumbo"}]) as created:
        allocate(created)
        yield created


class Sampled:
    """A mirror and its capture, active within the block."""

    def __init__(self, testbed: LocalTestbed, instance: Instance, receiver: str, port: str, direction: str = "both"):
        self.testbed = testbed
        self.mirror = testbed.mirror(instance, receiver, port, direction)
        self.name = f"{receiver}.pcap"
        self.capture = Tcpdump(testbed, instance.name, receiver, HOW, self.name)
        self.counted: MirrorCounters | None = None
        self.counts: Counts | None = None

    def __enter__(self) -> "Sampled":
        self.capture.start()
        self.mirror.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def stop(self) -> None:
        self.mirror.stop()
        self.counted, self.counts = self.mirror.counters(), self.capture.stop()

    def frames(self, directory: Path) -> list[bytes]:
        self.testbed.fetch(self.mirror.instance, self.name, directory / self.name)
        return [frame for _, frame in frames(directory / self.name)]


@contextlib.contextmanager
def all_capturing(samples: list[Sampled]) -> Iterator[None]:
    """Run all captures within the block; they take about a second to stop, so they stop in parallel."""
    with concurrent.futures.ThreadPoolExecutor() as threads:
        for sample in samples:
            sample.__enter__()
        yield
        list(threads.map(Sampled.stop, samples))


def stack(frame: bytes) -> list[str | int]:
    """Return a frame's VLAN ids and MPLS labels from the outside, and the EtherType or frame below them."""
    found: list[str | int] = []
    kind, at = struct.unpack_from("!H", frame, 12)[0], 14
    while kind == VLAN:
        tag, kind = struct.unpack_from("!HH", frame, at)
        found.append(f"vlan {tag & 0xFFF}")
        at += 4
    if kind != MPLS:
        return [*found, kind]
    last = False
    while not last:
        (word,) = struct.unpack_from("!I", frame, at)
        found.append(f"label {word >> 12}")
        last = bool(word >> 8 & 1)
        at += 4
    version = frame[at] >> 4
    first = {4: IPV4, 6: IPV6}.get(version)
    return [*found, first] if first else [*found, "frame", *stack(frame[at:])]


EXPECTED = {  # by host: encapsulation of IPv4, IPv6, ARP
    "vlan": (1, ["vlan 101"], ["vlan 101"], ["vlan 101"]),
    "mpls": (2, ["vlan 102", "label 17014"], ["vlan 102", "label 17016"], ["vlan 102"]),
    "mpls2": (3, ["vlan 103", "label 16002", "label 17024"], ["vlan 103", "label 16002", "label 17026"], ["vlan 103"]),
    "pseudowire": (4, *[["vlan 104", "label 16003", "label 17030", "frame"]] * 3),
}


def stacks_of(sample: Sampled, directory: Path) -> list[list[str | int]]:
    """Return the stacks of a sample's frames, after checking its counts from the switch to the file."""
    found = sample.frames(directory)
    counted = sample.counted
    assert counted.offered_frames == counted.delivered_frames == sample.counts.received == len(found)
    assert counted.offered_bytes == counted.delivered_bytes == sum(map(len, found))
    return [stack(frame) for frame in found]


def test_mirrored_frames_have_the_encapsulation_of_their_slice(testbed, tmp_path):
    """Mirrors four hosts of one site and the uplink of the other one simultaneously."""
    nodes = testbed.allocate("site1", ResourceRequest(2))
    receivers = [(node, receiver) for node in nodes for receiver in node.receivers]
    (far,) = testbed.instances("site2")
    ports = [f"port{host}" for host, *_ in EXPECTED.values()]
    downlinks = [Sampled(testbed, *ends, port) for ends, port in zip(receivers, ports, strict=True)]
    uplink = Sampled(testbed, far, far.receivers[0], "uplink-site1")
    with all_capturing([*downlinks, uplink]):
        for host in range(1, 5):
            testbed.run(f"site1-host{host}", ["ip", "neigh", "flush", "all"])
            for address in (f"10.10.2.{host}", f"fd00:10::2:{host}"):
                assert testbed.run(f"site1-host{host}", [*PING, address]).status == 0
    crossed = stacks_of(uplink, tmp_path)
    for sample, (_, *tags) in zip(downlinks, EXPECTED.values(), strict=True):
        ipv4, ipv6, arp = ([*tag, kind] for tag, kind in zip(tags, (IPV4, IPV6, ARP), strict=True))
        mine = stacks_of(sample, tmp_path)
        for stacks in (mine, [one for one in crossed if one[0] == arp[0]]):
            assert [one for one in stacks if one not in (ipv4, ipv6, arp)] == []
            assert stacks.count(ipv4) == 4 and stacks.count(ipv6) >= 4 and stacks.count(arp) >= 2


def test_frames_reach_only_hosts_of_their_slice(testbed):
    for host in range(1, 5):
        largest = [*PING, "-M", "do", "-s", "8972", f"10.20.2.{host}"]  # the full MTU, plus tags
        assert testbed.run(f"site1-host{host}", largest).status == 0
    once = ["ping", "-c", "1", "-W", "0.2"]
    for address in ("10.10.1.2", "10.10.2.2", "10.10.2.3", "10.10.2.4"):
        assert testbed.run("site1-host1", [*once, address]).status != 0


def test_two_mirrors_of_a_node_copy_one_direction_each(testbed, tmp_path):
    instance = testbed.instances("site1")[0]
    first, second = instance.receivers
    received, sent = (
        Sampled(testbed, instance, *mirror) for mirror in ((first, "port1", "rx"), (second, "port1", "tx"))
    )
    with all_capturing([received, sent]):
        assert testbed.run("site1-host1", [*PING, "10.10.2.1"]).status == 0
    for sample, sender in ((received, "02:00:00:00:01:01"), (sent, "02:00:00:00:02:01")):
        echoes = [frame for frame in sample.frames(tmp_path) if stack(frame)[-1] == IPV4]
        assert len(echoes) == 2 and {frame[6:12].hex(":") for frame in echoes} == {sender}


def test_moved_mirror_stops_copying_the_old_port(testbed, tmp_path):
    """A ping continues during the test, so its flows stay active."""
    instance = testbed.instances("site1")[0]
    going_on = testbed.start("site1-host1", ["ping", "-i", "0.02", "10.10.2.1"])
    with Sampled(testbed, instance, instance.receivers[0], "port1") as before:
        assert wait_until(lambda: before.mirror.counters().offered_frames >= 10)
    with Sampled(testbed, instance, instance.receivers[0], "port2") as after:
        assert testbed.run("site1-host2", [*PING, "10.10.2.2"]).status == 0
    going_on.signal("INT")
    assert going_on.wait(300) is not None
    assert after.counts.received >= 4
    assert {stack(frame)[0] for frame in after.frames(tmp_path)} == {"vlan 102"}


def counted_bytes(testbed: LocalTestbed, name: str) -> tuple[float, float]:
    """Return bytes in and out of a port of site1 since the first reading, from its rates."""
    found = testbed._counters["site1"].telemetry(600, [name])
    rates = found.ports[name]
    return rates.rx_bps * found.seconds / 8, rates.tx_bps * found.seconds / 8


def adds_up(testbed: LocalTestbed) -> bool:
    """Return whether rates match what port1 counted meanwhile, to the byte."""
    before = counted_bytes(testbed, "port1")
    shown = ["ip", "-s", "-j", "link", "show", "dev", "port1"]
    then = json.loads(testbed.run("site1", shown).stdout)[0]["stats64"]
    assert testbed.run("site1-host1", [*PING, "-s", "1000", "10.10.2.1"]).status == 0
    now = json.loads(testbed.run("site1", shown).stdout)[0]["stats64"]
    after = counted_bytes(testbed, "port1")
    counted = [now[side]["bytes"] - then[side]["bytes"] for side in ("rx", "tx")]
    assert min(counted) >= 2 * 1042
    return [after[way] - before[way] for way in (0, 1)] == pytest.approx(counted, abs=1)


def test_rates_add_up_to_the_port_counters(testbed):
    """Hosts occasionally send unsolicited frames between two readings."""
    assert any(adds_up(testbed) for _ in range(5))


def test_prometheus_has_the_same_counters(testbed):
    """Last of the tests of rates: the first readings take a few seconds."""
    require(snmp.installed(), f"not all of {', '.join(snmp.PROGRAMS)} are here")
    source = testbed._prometheus["site1"]

    def counted() -> int:
        """Return the bytes that port1 received according to Prometheus."""
        found = source.query("query", query='ifHCInOctets{rack="site1",ifName="port1"}')["result"]
        return int(float(found[0]["value"][1])) if found else -1

    def switch() -> int:
        return interfaces(testbed.run("site1", ["cat", "/proc/thread-self/net/dev"]).stdout)["port1"][0]

    assert wait_until(lambda: counted() == switch() > 0, timeout_s=60, every_s=0.2)
    assert testbed.run("site1-host1", [*PING, "-s", "3000", "10.10.2.1"]).status == 0
    assert wait_until(lambda: counted() == switch(), timeout_s=60, every_s=0.2)
    found = source.telemetry(5, ["port1", "none"])
    assert set(found.ports) == {"port1"} and found.source == snmp.SOURCE
    assert wait_until(lambda: testbed.telemetry("site1", MIN_SNMP_S).source == snmp.SOURCE)
    assert testbed.telemetry("site1", 1).source == SOURCE


def passed(testbed: LocalTestbed) -> tuple[int, int]:
    """Return the frames received by port1 of site1 and sent by port2."""
    shown = json.loads(testbed.run("site1", ["ip", "-s", "-j", "link", "show"]).stdout)
    counted = {link["ifname"]: link["stats64"] for link in shown}
    return counted["port1"]["rx"]["packets"], counted["port2"]["tx"]["packets"]


def test_drops_of_a_slow_mirror_port_are_counted_and_nodes_are_limited(testbed, tmp_path):
    """Offered frames are those sent to the mirror port, delivered ones those that its rate limit passed.

    Runs last, because another testbed replaces that of the module.
    """
    testbed.release()
    room = {"machines": 2, "nics": 1, "cores": 4, "ram_gb": 8, "disk_gb": 100}
    with local_testbed(switch="ovs", mirror_rate_mbps=2, resources=room, telemetry="switch", sites=1) as slow:
        with pytest.raises(InsufficientResources, match="no host has"):
            slow.allocate("site1", ResourceRequest(3))
        assert slow.instances("site1") == ()
        with pytest.raises(InsufficientResources):
            slow.allocate("site1", ResourceRequest(1, cores=5))
        (instance,) = slow.allocate("site1", ResourceRequest(1, cores=4))
        assert [(host.cores, host.nics) for host in slow.resources("site1")] == [(0, 0), (4, 1)]
        assert slow.mirror_capacity_bps(instance, "capture0") == 2_000_000
        server = slow.start("site1-host2", ["iperf3", "-s", "-1", "--forceflush"])
        assert wait_until(lambda: "listening" in server.log(), timeout_s=60)
        samples = [
            Sampled(slow, instance, *mirror) for mirror in (("capture0", "port1", "rx"), ("capture1", "port2", "tx"))
        ]
        with all_capturing(samples):
            before = passed(slow)
            client = ["iperf3", "-c", "10.10.1.2", "-u", "-b", "30M", "-t", "1", "-l", "500"]
            assert slow.run("site1-host1", client).status == 0
            through = [after - then for after, then in zip(passed(slow), before, strict=True)]
        assert through[1] > 0.9 * through[0] > 1000  # full mirrors do not delay mirrored traffic
        for number, sample in enumerate(samples):
            counted = sample.counted
            shown = slow.run("site1", ["tc", "-s", "qdisc", "show", "dev", f"limit{number}"]).stdout
            assert 0 < sample.counts.received == counted.delivered_frames
            assert counted.offered_frames == counted.delivered_frames + int(re.search(r"dropped (\d+)", shown)[1])
            assert counted.offered_frames >= through[number]
            assert counted.offered_frames > 2 * counted.delivered_frames
            assert counted.offered_bytes > counted.delivered_bytes == sum(map(len, sample.frames(tmp_path)))
        slow.release("site1")
        assert [host.nics for host in slow.resources("site1")] == [1, 1]
