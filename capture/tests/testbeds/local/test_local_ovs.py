"""The local testbed on Open vSwitch: encapsulation of mirrored frames, two mirrors, loss, resources, counters.

Collected only inside its namespaces (test_testbed_contract.py).
"""

import json
import re
import struct
from pathlib import Path

import pytest
from acapella_testing.capture.local_testbed import (
    Sampled,
    allocated,
    capturing,
    local_testbed,
    open_vswitch_or_skip,
    transfer,
)
from acapella_testing.requirements import require
from acapella_testing.waiting import wait_until

from acapella_capture.testbeds.base import Instance, InsufficientResources, ResourceRequest
from acapella_capture.testbeds.local import snmp
from acapella_capture.testbeds.local.counters import SOURCE
from acapella_capture.testbeds.local.testbed import MIN_SNMP_S, LocalTestbed

PING = ["ping", "-c", "2", "-i", "0.05", "-W", "5"]
MPLS, VLAN, IPV4, IPV6, ARP = 0x8847, 0x8100, 0x0800, 0x86DD, 0x0806


@pytest.fixture(scope="module")
def testbed():
    """Provide two sites of four hosts with the default slices."""
    open_vswitch_or_skip()
    created = local_testbed(switch="ovs", hosts_per_site=4, traffic=[{"kind": "ping", "path": "jumbo"}])
    with allocated(created):
        yield created


def sampled(testbed: LocalTestbed, instance: Instance, receiver: str, port: str, direction: str = "both") -> Sampled:
    return Sampled(testbed, testbed.mirror(instance, receiver, port, direction), snaplen=65535)


def stack(frame: bytes) -> list[str | int]:
    """Return a frame's VLAN ids and MPLS labels from the outside, and the EtherType or frame below them."""
    found: list[str | int] = []
    kind, offset = struct.unpack_from("!H", frame, 12)[0], 14
    while kind == VLAN:
        tag, kind = struct.unpack_from("!HH", frame, offset)
        found.append(f"vlan {tag & 0xFFF}")
        offset += 4
    if kind != MPLS:
        return [*found, kind]
    last = False
    while not last:
        (word,) = struct.unpack_from("!I", frame, offset)
        found.append(f"label {word >> 12}")
        last = bool(word >> 8 & 1)
        offset += 4
    first = {4: IPV4, 6: IPV6}.get(frame[offset] >> 4)
    return [*found, first] if first else [*found, "frame", *stack(frame[offset:])]


EXPECTED = {  # by encapsulation of the slice: host, and tags of IPv4, IPv6, ARP
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
    """Mirrors four hosts of one site and the uplink of the other site at the same time."""
    nodes = testbed.allocate("site1", ResourceRequest(2))
    receivers = [(node, receiver) for node in nodes for receiver in node.receivers]
    (far,) = testbed.instances("site2")
    ports = [f"port{host}" for host, *_ in EXPECTED.values()]
    downlinks = [sampled(testbed, *ends, port) for ends, port in zip(receivers, ports, strict=True)]
    uplink = sampled(testbed, far, far.receivers[0], "uplink-site1")
    with capturing(*downlinks, uplink):
        for host in range(1, 5):
            testbed.run(f"site1-host{host}", ["ip", "neigh", "flush", "all"])
            for address in (f"10.10.2.{host}", f"fd00:10::2:{host}"):
                assert testbed.run(f"site1-host{host}", [*PING, address]).status == 0
    crossed = stacks_of(uplink, tmp_path)
    for sample, (_, *tags) in zip(downlinks, EXPECTED.values(), strict=True):
        ipv4, ipv6, arp = ([*tag, kind] for tag, kind in zip(tags, (IPV4, IPV6, ARP), strict=True))
        for stacks in (stacks_of(sample, tmp_path), [stack for stack in crossed if stack[0] == arp[0]]):
            assert [stack for stack in stacks if stack not in (ipv4, ipv6, arp)] == []
            assert stacks.count(ipv4) == 4 and stacks.count(ipv6) >= 4 and stacks.count(arp) >= 2


@pytest.mark.parametrize("host", range(1, 5))
def test_largest_frames_reach_the_host_of_the_same_slice(testbed, host):
    # the full MTU, plus tags
    assert testbed.run(f"site1-host{host}", [*PING, "-M", "do", "-s", "8972", f"10.20.2.{host}"]).status == 0


@pytest.mark.parametrize("address", ["10.10.1.2", "10.10.2.2", "10.10.2.3", "10.10.2.4"])
def test_hosts_of_other_slices_are_not_reached(testbed, address):
    assert testbed.run("site1-host1", ["ping", "-c", "1", "-W", "0.2", address]).status != 0


def test_two_mirrors_of_a_node_copy_one_direction_each(testbed, tmp_path):
    instance = testbed.instances("site1")[0]
    first, second = instance.receivers
    received, sent = sampled(testbed, instance, first, "port1", "rx"), sampled(testbed, instance, second, "port1", "tx")
    with capturing(received, sent):
        assert testbed.run("site1-host1", [*PING, "10.10.2.1"]).status == 0
    for sample, sender in ((received, "02:00:00:00:01:01"), (sent, "02:00:00:00:02:01")):
        echoes = [frame for frame in sample.frames(tmp_path) if stack(frame)[-1] == IPV4]
        assert len(echoes) == 2 and {frame[6:12].hex(":") for frame in echoes} == {sender}


def test_moved_mirror_stops_copying_the_old_port(testbed, tmp_path):
    """A ping continues during the test, so its flows stay active."""
    instance = testbed.instances("site1")[0]
    pinging = testbed.start("site1-host1", ["ping", "-i", "0.02", "10.10.2.1"])
    before, after = (sampled(testbed, instance, instance.receivers[0], port) for port in ("port1", "port2"))
    with capturing(before):
        assert wait_until(lambda: before.mirror.counters().offered_frames >= 10)
    with capturing(after):
        assert testbed.run("site1-host2", [*PING, "10.10.2.2"]).status == 0
    pinging.signal("INT")
    assert pinging.wait(300) is not None
    assert after.counts.received >= 4
    assert {stack(frame)[0] for frame in after.frames(tmp_path)} == {"vlan 102"}


def port_counts(testbed: LocalTestbed) -> dict[str, dict]:
    """Return the kernel's counts of the ports of site1."""
    shown = json.loads(testbed.run("site1", ["ip", "-s", "-j", "link", "show"]).stdout)
    return {link["ifname"]: link["stats64"] for link in shown}


def counted_bytes(testbed: LocalTestbed) -> dict[str, float]:
    """Return bytes in and out of port1 of site1 since the first reading, from its rates."""
    found = testbed._counters["site1"].telemetry(600, ["port1"])
    rates = found.ports["port1"]
    return {"rx": rates.rx_bps * found.seconds / 8, "tx": rates.tx_bps * found.seconds / 8}


def adds_up(testbed: LocalTestbed) -> bool:
    """Return whether rates match what port1 counted meanwhile, to the byte."""
    before, then = counted_bytes(testbed), port_counts(testbed)["port1"]
    assert testbed.run("site1-host1", [*PING, "-s", "1000", "10.10.2.1"]).status == 0
    now, after = port_counts(testbed)["port1"], counted_bytes(testbed)
    counted = {side: now[side]["bytes"] - then[side]["bytes"] for side in ("rx", "tx")}
    assert min(counted.values()) >= 2 * 1042
    return {side: after[side] - before[side] for side in counted} == pytest.approx(counted, abs=1)


def test_rates_add_up_to_the_port_counters(testbed):
    """Hosts occasionally send unsolicited frames between two readings."""
    assert any(adds_up(testbed) for _ in range(5))


def test_prometheus_has_the_same_counters(testbed):
    """This is the last test of rates, because the first readings take a few seconds."""
    require(snmp.installed(), f"not all of {', '.join(snmp.PROGRAMS)} are here")
    source = testbed._prometheus["site1"]

    def counted() -> int:
        """Return the bytes that port1 received according to Prometheus."""
        found = source.query("query", query='ifHCInOctets{rack="site1",ifName="port1"}')["result"]
        return int(float(found[0]["value"][1])) if found else -1

    assert wait_until(lambda: counted() == port_counts(testbed)["port1"]["rx"]["bytes"] > 0)
    assert testbed.run("site1-host1", [*PING, "-s", "3000", "10.10.2.1"]).status == 0
    assert wait_until(lambda: counted() == port_counts(testbed)["port1"]["rx"]["bytes"])
    found = source.telemetry(5, ["port1", "none"])
    assert set(found.ports) == {"port1"} and found.source == snmp.SOURCE
    assert wait_until(lambda: testbed.telemetry("site1", MIN_SNMP_S).source == snmp.SOURCE)
    assert testbed.telemetry("site1", 1).source == SOURCE


def passed(testbed: LocalTestbed) -> tuple[int, int]:
    """Return the frames received by port1 of site1 and sent by port2."""
    counted = port_counts(testbed)
    return counted["port1"]["rx"]["packets"], counted["port2"]["tx"]["packets"]


def test_drops_of_a_slow_mirror_port_are_counted_and_nodes_are_limited(testbed, tmp_path):
    """Offered frames are the frames sent to the mirror port, delivered frames those that its rate limit let pass.

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
        ends = (("capture0", "port1", "rx"), ("capture1", "port2", "tx"))
        samples = [sampled(slow, instance, *mirror) for mirror in ends]
        with capturing(*samples):
            before = passed(slow)
            transfer(slow, "-u", "-b", "30M", "-t", "1", "-l", "500")
            delivered = [after - then for after, then in zip(passed(slow), before, strict=True)]
        assert delivered[1] > 0.9 * delivered[0] > 1000  # full mirrors do not delay mirrored traffic
        for number, sample in enumerate(samples):
            counted = sample.counted
            shown = slow.run("site1", ["tc", "-s", "qdisc", "show", "dev", f"limit{number}"]).stdout
            assert 0 < sample.counts.received == counted.delivered_frames
            assert counted.offered_frames == counted.delivered_frames + int(re.search(r"dropped (\d+)", shown)[1])
            assert counted.offered_frames >= delivered[number]
            assert counted.offered_frames > 2 * counted.delivered_frames
            assert counted.offered_bytes > counted.delivered_bytes == sum(map(len, sample.frames(tmp_path)))
        slow.release("site1")
        assert [host.nics for host in slow.resources("site1")] == [1, 1]
