"""Compares every column of the flow table with the naive implementation plain_flows, on generated traces."""

import itertools
import random

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.oracles import plain_flows
from acapella_testing.oracles.plain_flows import ACK, FIN, PSH, RST, SYN
from acapella_testing.runs.digest_run import START
from scapy.contrib.mpls import MPLS, EoMCW
from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Raw

from acapella.digest.command import Options, digest

MAC = {"src": "00:16:3e:f0:00:01", "dst": "00:16:3e:f0:00:02"}
A, B = "10.0.0.1", "10.0.0.2"


def tcp(src, dst, flags, seq, ack=0, length=0, window=100, ports=(1000, 80)):  # noqa: PLR0913, PLR0917
    """Return an IPv4 packet with a TCP segment from ``src`` to ``dst``. A is the client."""
    sport, dport = ports if src == A else reversed(ports)
    header = TCP(sport=sport, dport=dport, flags=flags, seq=seq % 2**32, ack=ack % 2**32, window=window)
    return IP(src=src, dst=dst) / header / Raw(b"x" * length)


def ether(inner, vlan=None, labels=(), pseudowire=False):
    """Return ``inner`` in Ethernet with a VLAN tag, MPLS labels, and a pseudowire with control word."""
    frame = Ether(**MAC) if vlan is None else Ether(**MAC) / Dot1Q(vlan=vlan)
    for i, value in enumerate(labels):
        frame /= MPLS(label=value, s=int(i == len(labels) - 1), ttl=64)
    return bytes(frame / EoMCW() / Ether(**MAC) / inner if pseudowire else frame / inner)


def spaced(frames, gap_ns=1_000):
    """Return (time, frame) with a fixed time between frames."""
    return [(START + i * gap_ns, frame) for i, frame in enumerate(frames)]


def check(tmp_path, frames, site="S", port="p1", snaplen=262144):
    """Digest ``frames`` and compare every column; return the rows of the flow table."""
    capture = write_pcap(tmp_path / "t.pcap", frames, snaplen)
    paths = (tmp_path / "t.parquet", tmp_path / "t.flows.parquet")
    digest([str(capture)], *map(str, paths), Options("native", site=site, port=port))
    frame_rows, rows = (pq.read_table(path).to_pylist() for path in paths)
    seen = [plain_flows.read_frame(ts_ns, data[:snaplen], len(data)) for ts_ns, data in frames]
    for row, expected in zip(rows, plain_flows.flow_table(seen, site, port), strict=True):
        for name, value in expected.items():
            same = row[name] == (pytest.approx(value, rel=1e-12, abs=1e-6) if isinstance(value, float) else value)
            assert same, f"flow {row['flow']}, {name}: {row[name]!r}, not {value!r}"
        check_stacks(row, [frame["stack"] for frame in frame_rows if frame["flow"] == row["flow"]])
    order = list(plain_flows.grouped(seen))
    for frame, expected in zip(frame_rows, seen, strict=True):
        assert frame["flow"] == (None if expected.flow is None else order.index(expected.flow))
        assert frame["payload_len"] == expected.payload_len
        assert frame["ip_len"] == (expected.ip_len if expected.flow is not None else None)
        assert frame["ip_id"] == expected.ip_id
        assert (frame["tcp_flags"], frame["tcp_seq"]) == (expected.tcp[:2] if expected.tcp else (None, None))
    return rows


def check_stacks(row, stacks):
    """Check the run-length list of a flow's header stacks, and that engine native names no application."""
    runs = [(stack, len(list(same))) for stack, same in itertools.groupby(stacks)]
    assert [(run["stack"], run["frames"]) for run in row["stacks"]] == runs[:16]
    assert row["stacks_cut"] == (len(runs) > 16)
    assert row["app"] is None and row["app_by"] is None


def handshake(client=100, server=500):
    return [tcp(A, B, "S", client), tcp(B, A, "SA", server, client + 1), tcp(A, B, "A", client + 1, server + 1)]


def test_complete_connection_has_peers_and_a_round_trip_time(tmp_path):
    packets = [*handshake(), tcp(A, B, "PA", 101, 501, 50), tcp(B, A, "A", 501, 151), tcp(B, A, "PA", 501, 151, 700)]
    packets += [tcp(A, B, "A", 151, 1201), tcp(A, B, "FA", 151, 1201), tcp(B, A, "FA", 1201, 152)]
    client, server = check(tmp_path, spaced(map(ether, [*packets, tcp(A, B, "A", 152, 1202)])))
    assert client["handshake_rtt_ns"] == 2_000
    assert client["peer_flow"] == 1 and server["peer_flow"] == 0
    assert not client["cut_start"] and not client["cut_end"]


def test_sequence_numbers_wrap_around(tmp_path):
    start = 2**32 - 1500
    data = [tcp(A, B, "A", start + 500 * i, 9, 500) for i in (0, 1, 2, 3, 4, 2, 5, 3)]
    client, server = check(tmp_path, spaced(map(ether, data + [tcp(B, A, "A", 9, start + 1500)] * 4)))
    assert client["retransmitted_bytes"] == 1000
    assert server["duplicate_acks"] == 3


def test_retransmissions_overlap_and_fill_gaps(tmp_path):
    ranges = [(0, 100), (300, 100), (50, 100), (150, 150), (0, 400), (900, 100), (600, 100), (350, 600), (0, 1000)]
    rows = check(tmp_path, spaced(ether(tcp(A, B, "A", 7000 + at, 1, length)) for at, length in ranges))
    assert rows[0]["retransmitted_bytes"] == 50 + 400 + 50 + 50 + 100 + 1000


def test_reordered_and_keepalive_frames_match_the_naive_implementation(tmp_path):
    data = [tcp(A, B, "A", 1000 + 100 * i, 1, 100) for i in (3, 0, 2, 1, 5, 4)]
    check(tmp_path, spaced(map(ether, data + [tcp(A, B, "A", 1599, 1, 1)] * 2)))


def test_duplicate_acks_need_all_five_conditions(tmp_path):
    data = [tcp(A, B, "A", 1000 + 100 * i, 1, 100) for i in range(6)]
    others = [
        tcp(B, A, "A", 1, 1200, window=99),  # (e) different window
        tcp(B, A, "A", 1, 1200, window=99, length=5),  # (b) data
        tcp(B, A, "FA", 6, 1200, window=99),  # (c) FIN
        tcp(B, A, "A", 7, 1100, window=99),  # (d) not the highest acknowledgment number
        *[tcp(B, A, "A", 7, 1600, window=99)] * 2,  # (a) nothing outstanding
    ]
    rows = check(tmp_path, spaced(map(ether, [*data, *[tcp(B, A, "A", 1, 1200)] * 3, *others])))
    assert rows[1]["duplicate_acks"] == 2
    assert rows[0]["duplicate_acks"] == 0


@pytest.mark.parametrize("repeated", [0, 1])
def test_handshake_with_a_retransmission_has_no_round_trip_time(tmp_path, repeated):
    packets = handshake()
    packets.insert(repeated, packets[repeated])
    assert check(tmp_path, spaced(map(ether, packets)))[0]["handshake_rtt_ns"] is None


def test_labels_differ_per_direction(tmp_path):
    labels = {A: (100, 200), B: (101, 201)}
    packets = [*handshake(), tcp(A, B, "PA", 101, 501, 10), tcp(B, A, "A", 501, 111)]
    client, server = check(
        tmp_path, spaced(ether(packet, 7, labels[packet.src], pseudowire=True) for packet in packets)
    )
    assert client["peer_flow"] == 1 and server["peer_flow"] == 0
    assert client["mpls"] == [100, 200] and server["mpls"] == [101, 201]
    assert client["handshake_rtt_ns"] == 2_000


def test_equal_addresses_in_two_slices_are_separate_flows(tmp_path):
    packets = [*handshake(), tcp(A, B, "PA", 101, 501, 10), tcp(B, A, "A", 501, 111), tcp(B, A, "A", 501, 111)]
    rows = check(
        tmp_path, spaced(ether(packet, vlan, labels=(vlan + 1000,)) for packet in packets for vlan in (10, 20))
    )
    assert [row["peer_flow"] for row in rows] == [2, 3, 0, 1]
    assert {row["peer_candidates"] for row in rows} == {2}


def test_slices_without_distinct_vlans_are_ambiguous(tmp_path):
    packets = [*handshake(), tcp(B, A, "A", 501, 101), tcp(B, A, "A", 501, 101)]
    rows = check(tmp_path, spaced(ether(packet, labels=(label,)) for packet in packets for label in (10, 20)))
    assert {row["peer_flow"] for row in rows} == {None}
    assert {row["duplicate_acks"] for row in rows} == {None}


def test_flow_whose_only_candidate_has_a_different_peer_has_no_peer(tmp_path):
    packets = [(A, B, 10), (B, A, 10), (A, B, 20), (B, A, 10)]
    frames = [ether(tcp(src, dst, "A", 5, 5), vlan) for src, dst, vlan in packets]
    assert [row["peer_flow"] for row in check(tmp_path, spaced(frames))] == [1, 0, None]


def test_better_peer_that_appears_later_restarts_the_count(tmp_path):
    data = [tcp(A, B, "A", 1000 + 100 * i, 1, 100) for i in range(3)]
    ack = ether(tcp(B, A, "A", 1, 1000), vlan=10)
    before, after = ([ether(packet, vlan) for packet in data] for vlan in (20, 10))
    # The first four ACKs are compared with the flow in VLAN 20, the last two with the flow in their own VLAN.
    rows = check(tmp_path, spaced([*before, *[ack] * 4, *after, *[ack] * 2]))
    assert [row["peer_flow"] for row in rows] == [None, 2, 1]
    assert rows[1]["duplicate_acks"] == 2


def test_flow_between_equal_endpoints_has_no_reverse_direction(tmp_path):
    packet = IP(src=A, dst=A) / UDP(sport=5, dport=5)
    rows = check(tmp_path, spaced([ether(packet), ether(packet, vlan=3)]))
    assert [(row["peer_flow"], row["peer_candidates"]) for row in rows] == [(None, 0), (None, 0)]


def test_later_fragments_have_a_flow_without_ports(tmp_path):
    packet = IP(src=A, dst=B, id=1) / UDP(sport=53, dport=5353) / Raw(b"y" * 2000)
    parts = [ether(part) for part in fragment(packet, fragsize=800)]
    six = IPv6(src="2001:db8::1", dst="2001:db8::2")
    parts.append(ether(six / IPv6ExtHdrFragment(offset=100, m=0, id=9, nh=17) / Raw(b"z" * 64)))
    assert [row["src_port"] for row in check(tmp_path, spaced(parts))] == [53, None, None]


OUTER = IP(src="192.0.2.1", dst="192.0.2.2")
IN_UDP = OUTER / UDP(sport=40000, dport=4789)


@pytest.mark.parametrize(
    ("tunnel", "outside", "vlan"),
    [
        pytest.param(OUTER, {}, [], id="IPIP"),
        pytest.param(IPv6(src="2001:db8::1", dst="2001:db8::2") / OUTER, {"vlan": 4}, [4], id="4in6"),
        pytest.param(OUTER / GRE(), {"vlan": 5, "labels": (16,)}, [5], id="GRE"),
        pytest.param(IN_UDP / VXLAN(vni=5) / Ether(**MAC) / Dot1Q(vlan=9), {}, [9], id="VXLAN"),
        pytest.param(
            IN_UDP / VXLAN(vni=5) / Ether(**MAC) / OUTER / GRE(),
            {"vlan": 6, "labels": (17, 18), "pseudowire": True},
            [6],
            id="GRE in VXLAN",
        ),
    ],
)
def test_flow_in_nested_tunnels_has_the_innermost_addresses(tmp_path, tunnel, outside, vlan):
    rows = check(tmp_path, spaced([ether(tunnel / tcp(A, B, "S", 1), **outside)]))
    assert {(row["src"], row["dst"], row["ip_proto"]) for row in rows} == {(A, B, 6)}
    assert [row["vlan"] for row in rows] == [vlan]


def test_vxlan_networks_with_the_same_inner_addresses_are_separate_flows(tmp_path):
    packets = [Ether(**MAC) / tcp(A, B, "S", 1), Ether(**MAC) / tcp(B, A, "SA", 1, 2)]
    rows = check(tmp_path, spaced([ether(IN_UDP / VXLAN(vni=vni) / packet) for packet in packets for vni in (5, 6)]))
    assert [row["tunnels"] for row in rows] == 2 * [[{"type": "vxlan_vni", "id": vni, "position": 4}] for vni in (5, 6)]
    assert [row["peer_flow"] for row in rows] == [2, 3, 0, 1]


def test_extension_headers_of_the_outer_packet_do_not_split_a_flow(tmp_path):
    six = IPv6(src="2001:db8::1", dst="2001:db8::2")
    extensions = [IPv6ExtHdrHopByHop(), IPv6ExtHdrFragment(), IPv6ExtHdrDestOpt(), IPv6ExtHdrHopByHop()]
    tunnel = UDP(sport=40000, dport=4789, chksum=0) / VXLAN(vni=5) / Ether(**MAC) / tcp(A, B, "A", 1, 1)
    outers = [six, *(six / extension for extension in extensions), six / extensions[0] / IPv6ExtHdrFragment()]
    (row,) = check(tmp_path, spaced(ether(outer / tunnel) for outer in outers))
    assert row["tunnels"] == [{"type": "vxlan_vni", "id": 5, "position": 4}]


def test_tenants_with_gre_keys_have_separate_connections(tmp_path):
    packets = [*handshake(), tcp(A, B, "PA", 101, 501, 10), tcp(B, A, "A", 501, 101), tcp(B, A, "A", 501, 101)]
    rows = check(tmp_path, spaced(ether(OUTER / GRE(key_present=1, key=n) / each) for each in packets for n in (5, 6)))
    assert [row["peer_flow"] for row in rows] == [2, 3, 0, 1]
    assert [row["handshake_rtt_ns"] for row in rows] == [4_000, 4_000, None, None]
    assert [row["duplicate_acks"] for row in rows] == [0, 0, 2, 2]


def test_frames_without_ip_have_no_flow(tmp_path):
    assert len(check(tmp_path, spaced([ether(ARP()), ether(IP(src=A, dst=B) / ICMP()), ether(ARP(), vlan=5)]))) == 1


def test_decreasing_timestamps_give_negative_inter_arrival_times(tmp_path):
    frame = ether(IP(src=A, dst=B) / UDP(sport=1, dport=2))
    (row,) = check(tmp_path, [(START + t, frame) for t in (50, 70, 10, 10, 90, 5)])
    assert (row["first_ns"], row["last_ns"], row["iat_min_ns"]) == (START + 5, START + 90, -85)


def test_flows_without_site_and_port_match_the_naive_implementation(tmp_path):
    check(tmp_path, spaced([ether(IP(src=A, dst=B) / UDP(sport=1, dport=2))]), site=None, port=None)


def test_more_than_16_runs_of_stacks_are_truncated(tmp_path):
    inner = IP(src=A, dst=B) / UDP(sport=1, dport=2)
    packets = [ether(inner), ether(IP(src=B, dst=A) / inner)]
    (row,) = check(tmp_path, spaced([packets[i // 2 % 2] for i in range(70)]))
    assert len(row["stacks"]) == 16 and row["stacks_cut"]


FLAG_CHOICES = ["A", "A", "A", "A", "PA", "S", "SA", "FA", "R", "RA", "AU", "AE", "AC"]


@pytest.mark.parametrize("seed", range(12))
def test_random_conversations_match_the_naive_implementation(tmp_path, seed):
    """Few flows, few windows, and sequence numbers near the wrap make coincidences likely."""
    draw = random.Random(seed)
    frames, now = [], START
    for _ in range(draw.randrange(50, 400)):
        ends, flags = draw.choice([(A, B), (B, A)]), draw.choice(FLAG_CHOICES)
        seq, ack = (2**32 - 400 + 100 * draw.randrange(9) for _ in range(2))
        length, window = draw.choice([0, 0, 0, 1, 100, 250]), draw.choice([10, 10, 10, 20])
        packet = tcp(*ends, flags, seq, ack, length, window, ports=draw.choice([(1, 2), (1, 3)]))
        now += draw.choice([0, 1, 1000, 10**6, -500])
        vlan = draw.choice([None, 1, 1, 2]) if seed % 2 else None
        frames.append((now, ether(packet, vlan, labels=draw.choice([(), (16,)]) if seed % 3 == 0 else ())))
    check(tmp_path, frames)


def test_flag_names_agree_with_scapy():
    assert int(TCP(flags="FSRPA").flags) == FIN | SYN | RST | PSH | ACK
