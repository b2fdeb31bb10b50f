"""Compares the version of the innermost network header, and the encapsulations, with the header tokens of tshark."""

import itertools
from collections import Counter
from pathlib import Path

import pytest
from acapella_testing import processes
from acapella_testing.frames.pcap_files import records
from acapella_testing.frames.tunnel_frames import MAC, OUTER, Packet, ethernet, ipv4, ipv6, over_udp, syn
from acapella_testing.runs.stages import analyzed_frames, rows
from acapella_testing.tshark_lines import tshark_lines

ARP_TYPE, IPV6_TYPE = 0x0806, 0x86DD
ARP = Packet(bytes.fromhex("0001080006040001") + MAC + bytes([10, 0, 0, 1]) + bytes(6) + bytes([10, 0, 0, 2]))
SPANNING_TREE = Packet(bytes.fromhex("424203 0000 00 00 00") + bytes(34))
NOT_IP = {"arp", "eth", "llc"}


def in_ethernet(header: bytes, payload: Packet, ethertype: int, port: int) -> Packet:
    """Return a tunnel over UDP that carries an Ethernet frame."""
    return over_udp(ethernet(payload, ethertype).with_header(header), port)


def in_ipv4(header: str, payload: Packet, protocol: int) -> Packet:
    """Return a header and a packet in an IPv4 packet."""
    return ipv4(payload.with_header(bytes.fromhex(header)), protocol, OUTER)


VXLAN, GENEVE = bytes.fromhex("0800000000000700"), bytes.fromhex("0000655800000700")
INNER_IPV6 = ipv6(Packet(bytes.fromhex("9c409c4100080000")), 17, ("2001:db8::1", "2001:db8::2"))
PACKETS = {
    "IPv4": syn(),
    "ARP in VXLAN": in_ethernet(VXLAN, ARP, ARP_TYPE, 4789),
    "ARP in Geneve": in_ethernet(GENEVE, ARP, ARP_TYPE, 6081),
    "IPv4 in VXLAN": in_ethernet(VXLAN, syn(), 0x0800, 4789),
    "IPv6 in VXLAN": in_ethernet(VXLAN, INNER_IPV6, IPV6_TYPE, 4789),
    "spanning tree in VXLAN": in_ethernet(VXLAN, SPANNING_TREE, len(SPANNING_TREE.raw), 4789),
    "ARP in Ethernet in GRE": in_ipv4("00006558", ethernet(ARP, ARP_TYPE), 47),
    "ARP in GRE": in_ipv4("00000806", ARP, 47),
    "ARP in VXLAN in an ICMP error": in_ipv4("0301000000000000", in_ethernet(VXLAN, ARP, ARP_TYPE, 4789), 1),
}


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """Return a campaign of one sample: the n-th packet n times, and ARP without a tunnel."""
    frames = [ethernet(packet).raw for n, packet in enumerate(PACKETS.values(), 1) for _ in range(n)]
    frames += [ethernet(ARP, ARP_TYPE).raw] * 20
    return analyzed_frames(tmp_path_factory.mktemp("versions"), frames)


@pytest.fixture(scope="module")
def protocols(campaign, program) -> list[list[str]]:
    """Return tshark's header tokens of each frame, without those that ICMP errors quote."""
    lines = tshark_lines(program, campaign / "raw" / "s.pcap")
    return [list(itertools.takewhile(lambda token: token != "icmp", line.split(":"))) for line in lines]


def frames_by(campaign: Path, table: str, column: str) -> dict[str, int]:
    """Return the frames of all sites in a table, by the values of a column."""
    return {row[column]: row["frames"] for row in rows(campaign, table) if row["site"] == "all"}


def test_arp_in_a_tunnel_is_not_ipv4(campaign, protocols):
    versions = {"ip": "4", "ipv6": "6"}
    innermost = [[token for token in tokens if token in NOT_IP or token in versions][-1] for tokens in protocols]
    expected = Counter(versions.get(token, "none") for token in innermost)
    assert expected == {"4": 1 + 4 + 9, "6": 5, "none": 2 + 3 + 6 + 7 + 8 + 20}
    assert frames_by(campaign, "ip_versions", "ip_version") == expected


def test_ip_version_in_a_tunnel_that_only_tshark_decodes(corpus, program, tmp_path):
    """The flows of CAPWAP are those of its outer addresses."""
    capture = tmp_path / "ns.pcap"
    processes.run("editcap", "-F", "nsecpcap", corpus / "ndpi" / "capwap.pcap", capture, check=True)
    frames = [data for *_, data in records(capture.read_bytes())]
    made = analyzed_frames(tmp_path, frames, engine="hybrid", snaplen=65535)
    versions = {"ip": "4", "ipv6": "6", "arp": "none", "wlccp": "none"}
    last = [[token for token in line.split(":") if token in versions] for line in tshark_lines(program, capture)]
    expected = Counter(versions[tokens[-1]] if tokens else "none" for tokens in last)
    assert expected["6"] == 5
    assert frames_by(made, "ip_versions", "ip_version") == expected


def test_encapsulation_of_arp_in_a_tunnel_contains_the_tunnel(campaign):
    found = frames_by(campaign, "encapsulations", "encapsulation")
    assert found["Ethernet/IPv4/UDP/VXLAN/Ethernet"] == 2 + 4 + 5
    assert found["Ethernet/IPv4/UDP/Geneve/Ethernet"] == 3
    assert found["Ethernet/IPv4/UDP/VXLAN/Ethernet/LLC"] == 6
    assert found["Ethernet/IPv4/GRE/Ethernet"] == 7
    assert found["Ethernet/IPv4/GRE"] == 8


def test_headers_that_an_icmp_error_quotes_are_no_encapsulation(tmp_path):
    unreachable = ipv6(INNER_IPV6.with_header(bytes.fromhex("0104000000000000")), 58, ("2001:db8::2", "2001:db8::1"))
    frames = [ethernet(syn()), ethernet(in_ipv4("0303000000000000", syn(), 1)), ethernet(unreachable, IPV6_TYPE)]
    frames.append(ethernet(in_ethernet(VXLAN, unreachable, IPV6_TYPE, 4789)))
    made = analyzed_frames(tmp_path, [frame.raw for frame in frames])
    assert frames_by(made, "encapsulations", "encapsulation") == {"Ethernet": 3, "Ethernet/IPv4/UDP/VXLAN/Ethernet": 1}
