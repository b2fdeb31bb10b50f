"""Compares column community_id with the reference (PyPI communityid), on generated flows and on the corpus."""

import ipaddress
import random
from collections import Counter, deque
from pathlib import Path

import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.oracles.community_ids import reference
from acapella_testing.soak import SOAK
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6, IPv6ExtHdrFragment
from scapy.layers.ipsec import ESP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.layers.sctp import SCTP
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from acapella.digest.native import flow_batches_of
from acapella_core import _native

EVERY_NTH = 4  # without ACAPELLA_SOAK, every 4th capture of the corpus is tested
MIN_FLOWS = {6: 5_000, 17: 4_000, 132: 20}  # flows with an ID in the corpus; with fewer, captures were not read
COLUMNS = ["src", "dst", "ip_proto", "src_port", "dst_port", "peer_flow", "community_id"]
A, B, A6, B6 = "10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2"
OUTER = IP(src="192.0.2.1", dst="192.0.2.2")
MAC = {"src": "00:16:3e:f0:00:01", "dst": "00:16:3e:f0:00:02"}


def flows_of(capture: Path) -> list[dict]:
    """Return the flow table of a capture; empty if the file is not a capture."""
    try:
        core = _native.NativeDigest(str(capture), None, None, 1 << 16)
    except _native.InputError:
        return []
    deque(iter(core.next_frames, None), maxlen=0)
    return [row for batch in flow_batches_of(core) for row in batch.select(COLUMNS).to_pylist()]


def digested(directory: Path, packets: list) -> list[dict]:
    """Return the flows of Ethernet packets."""
    return flows_of(write_pcap(directory / "t.pcap", [(i, bytes(packet)) for i, packet in enumerate(packets)]))


def random_packets(draw: random.Random, count: int) -> list:
    """Return packets in both directions of ``count`` flows, many of them with equal addresses, equal ports, or both."""
    packets = []
    for _ in range(count):
        network, address, bits = draw.choice([(IPv6, ipaddress.IPv6Address, 128), (IP, ipaddress.IPv4Address, 32)])
        base, transport = draw.getrandbits(bits), draw.choice([TCP, UDP, SCTP])
        ends = [str(address(base ^ draw.choice([0, 1, draw.getrandbits(bits)]))) for _ in range(2)]
        ports = [draw.choice([0, 1, 255, 256, 65_535, draw.randrange(65_536)]) for _ in range(2)]
        for src, dst in ((0, 1), (1, 0)):
            headers = network(src=ends[src], dst=ends[dst]) / transport(sport=ports[src], dport=ports[dst])
            packets.append(Ether(**MAC) / headers)
    return packets


@pytest.mark.parametrize("seed", range(4))
def test_generated_flows_have_the_reference_id(tmp_path, seed):
    rows = digested(tmp_path, random_packets(random.Random(seed), 300))
    assert len(rows) > 500
    assert [row["community_id"] for row in rows] == [reference(row) for row in rows]
    assert None not in {row["community_id"] for row in rows}
    peers = [row for row in rows if row["peer_flow"] is not None]
    assert len(peers) > 400
    assert all(row["community_id"] == rows[row["peer_flow"]]["community_id"] for row in peers)


@pytest.mark.parametrize(
    ("ends", "transport", "published"),
    [
        (("128.232.110.120", "66.35.250.204"), TCP(sport=34_855, dport=80), "1:LQU9qZlK+B5F3KDmev6m5PMibrg="),
        (("192.168.1.52", "8.8.8.8"), UDP(sport=54_585, dport=53), "1:d/FP5EW3wiY1vCndhwleRRKHowQ="),
        (("192.168.170.8", "192.168.170.56"), SCTP(sport=7, dport=80), "1:jQgCxbku+pNGw8WPbEc/TS/uTpQ="),
    ],
    ids=["TCP", "UDP", "SCTP"],
)
def test_published_test_vectors_match(tmp_path, ends, transport, published):
    """The examples are from the README of the specification."""
    rows = digested(tmp_path, [Ether(**MAC) / IP(src=ends[0], dst=ends[1]) / transport])
    assert [row["community_id"] for row in rows] == [published]


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(Ether(**MAC) / Dot1Q(vlan=5), id="VLAN"),
        pytest.param(Ether(**MAC) / Dot1Q(vlan=6) / MPLS(label=17, s=1), id="MPLS"),
        pytest.param(Ether(**MAC) / OUTER / GRE(), id="GRE"),
        pytest.param(
            Ether(**MAC) / OUTER / UDP(sport=40_000, dport=4789) / VXLAN(vni=5) / Ether(**MAC) / Dot1Q(vlan=7),
            id="VXLAN",
        ),
    ],
)
def test_only_innermost_addresses_determine_the_id(tmp_path, before):
    inner = IP(src=A, dst=B) / TCP(sport=1000, dport=80)
    (plain,), (row,) = (digested(tmp_path, [packet]) for packet in (Ether(**MAC) / inner, before / inner))
    assert plain["community_id"] == reference(plain)
    assert row["community_id"] == plain["community_id"]


@pytest.mark.parametrize(
    "packet",
    [
        pytest.param(IP(src=A, dst=B) / ICMP(), id="ICMP"),
        pytest.param(IPv6(src=A6, dst=B6) / ICMPv6EchoRequest(), id="ICMPv6"),
        pytest.param(
            IPv6(src=A6, dst=B6) / IPv6ExtHdrFragment(offset=100, m=0, id=9, nh=17) / Raw(b"z" * 64), id="IPv6 fragment"
        ),
        pytest.param(IP(src=A, dst=B) / ESP(spi=1, seq=1), id="ESP"),
        pytest.param(IP(src=A, dst=B, proto=2) / Raw(b"\x16" + bytes(7)), id="IGMP"),
        pytest.param(IP(src=A, dst=B, proto=136) / Raw(b"\0\1\0\2\0\x08\0\0"), id="UDP-Lite"),
        pytest.param(
            fragment(IP(src=A, dst=B, id=1) / UDP(sport=53, dport=5353) / Raw(b"y" * 2000), fragsize=800)[1],
            id="IPv4 fragment",
        ),
    ],
)
def test_flow_without_known_ports_has_no_id(tmp_path, packet):
    rows = digested(tmp_path, [Ether(**MAC) / packet])
    assert len(rows) == 1
    assert rows[0]["community_id"] is None


def test_corpus_flows_have_the_reference_id(corpus):
    counts = Counter()
    for capture in sorted(file for file in corpus.rglob("*") if file.is_file())[:: 1 if SOAK else EVERY_NTH]:
        rows = flows_of(capture)
        assert [row for row in rows if row["community_id"] != reference(row)] == [], capture
        counts.update(row["ip_proto"] for row in rows if row["community_id"] is not None)
    divisor = 1 if SOAK else 2 * EVERY_NTH
    assert all(counts[proto] >= minimum / divisor for proto, minimum in MIN_FLOWS.items()), counts
