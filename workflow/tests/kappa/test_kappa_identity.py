"""Changes by the network keep the identity of a packet; other differences change it."""

import random
import struct

import numpy as np
import pytest
from acapella_testing.frames.pcap_files import pcap, write_pcap
from acapella_testing.frames.trial_frames import BASE_NS, ethernet, ipv4, ipv6, plain, sent, udp
from acapella_testing.new_files import write_file

from acapella_core.errors import UserError
from acapella_core.kappa import IdentityRule, Selection, compare

MACS = b"\2" * 6 + b"\4" * 6
VLAN = struct.pack(">HH", 0x8100, 42)
QINQ_TAGS = struct.pack(">HHHH", 0x88A8, 7, 0x8100, 42)
LABELS = struct.pack(">HII", 0x8847, 100 << 12 | 64, 200 << 12 | 0x100 | 64)


def same_identity(tmp_path, a: bytes, b: bytes, *, snaplens=(65535, 65535), **rule) -> bool:
    """Return whether both frames have the same identity."""
    trials = zip(("a.pcap", "b.pcap"), (a, b), snaplens, strict=True)
    files = [[write_pcap(tmp_path / name, [(BASE_NS, frame)], snaplen)] for name, frame, snaplen in trials]
    return compare(files, pairs=[(0, 1)], identity=IdentityRule(**rule))["pairs"][0]["n_common"] == 1


def pseudowire(frame: bytes) -> bytes:
    """Return a frame in an Ethernet pseudowire with a control word and two MPLS labels."""
    return b"\6" * 12 + LABELS + bytes(4) + frame


def isl(frame: bytes, first: int = 1, kind: int = 0) -> bytes:
    """Return a frame and its check sequence in Cisco ISL, without the check sequence of ISL, as in captures."""
    inside = bytes.fromhex("aaaa03 040404 000a 0000 0000") + frame + b"fcs!"
    return bytes([first, 0, 0x0C, 0, 0, kind << 4]) + b"\4" * 6 + struct.pack(">H", len(inside)) + inside


def snap(packet: bytes, ethertype: int = 0x0800) -> bytes:
    """Return a packet after a length, LLC and SNAP, without addresses and tags."""
    data = bytes.fromhex("aaaa03 000000") + struct.pack(">H", ethertype) + packet
    return struct.pack(">H", len(data)) + data


def gre(packet: bytes) -> bytes:
    """Return a packet in GRE."""
    return ethernet(ipv4(struct.pack(">HH", 0, 0x86DD if packet[0] >> 4 == 6 else 0x0800) + packet, proto=47))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(ethernet(ipv4(udp(1), ident=9, ttl=3)), id="ttl"),
        pytest.param(ethernet(ipv4(udp(1), ident=9, dscp=0xB9)), id="dscp-ecn"),
        pytest.param(ethernet(ipv4(udp(1), ident=9, checksum=77)), id="ipv4-checksum"),
        pytest.param(ethernet(ipv4(udp(1), ident=9), tags=VLAN), id="vlan"),
        pytest.param(ethernet(ipv4(udp(1), ident=9), tags=QINQ_TAGS), id="vlans"),
        pytest.param(b"\6" * 12 + LABELS + ipv4(udp(1), ident=9), id="mpls"),
        pytest.param(pseudowire(ethernet(ipv4(udp(1), ident=9), tags=VLAN)), id="pseudowire"),
        pytest.param(gre(ipv4(udp(1), ident=9)), id="gre"),
        pytest.param(isl(ethernet(ipv4(udp(1), ident=9))), id="isl"),
        pytest.param(isl(ethernet(ipv4(udp(1), ident=9), tags=VLAN), first=0x0C) + b"more", id="isl-vlan"),
        pytest.param(MACS + snap(ipv4(udp(1), ident=9)), id="snap"),
        pytest.param(MACS + QINQ_TAGS[:4] + snap(ipv4(udp(1), ident=9)) + bytes(6), id="service-vlan-snap"),
        pytest.param(isl(MACS + QINQ_TAGS[:4] + snap(ipv4(udp(1), ident=9))), id="isl-service-vlan-snap"),
        pytest.param(ethernet(ipv4(udp(1), ident=9)) + bytes(46), id="padding"),
        pytest.param(ethernet(ipv4(udp(1), ident=9)) + b"fcs!", id="trailer"),
    ],
)
def test_changes_by_a_hop_keep_the_identity(tmp_path, other):
    assert same_identity(tmp_path, ethernet(ipv4(udp(1), ident=9)), other)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(ethernet(ipv4(udp(2), ident=9)), id="payload"),
        pytest.param(ethernet(ipv4(udp(1), ident=10)), id="id"),
        pytest.param(ethernet(ipv4(udp(1, size=25), ident=9)), id="length"),
        pytest.param(ethernet(ipv4(udp(1, checksum=5), ident=9)), id="udp-checksum"),
        pytest.param(ethernet(ipv4(udp(1, ports=(1, 2)), ident=9)), id="ports"),
        pytest.param(ethernet(ipv4(udp(1), ident=9, fragment=5)), id="fragment"),
    ],
)
def test_different_packets_have_different_identities(tmp_path, other):
    assert not same_identity(tmp_path, ethernet(ipv4(udp(1), ident=9)), other)


def test_hop_limit_and_traffic_class_do_not_change_the_identity_of_ipv6(tmp_path):
    packet = ethernet(ipv6(udp(1), flow_label=5))
    assert same_identity(tmp_path, packet, ethernet(ipv6(udp(1), flow_label=5, hops=1, traffic_class=0xFF), tags=VLAN))
    assert same_identity(tmp_path, packet, packet + bytes(20))
    assert not same_identity(tmp_path, packet, ethernet(ipv6(udp(1), flow_label=6)))


@pytest.mark.parametrize("wrap", [ipv4, ipv6])
def test_layer_4_checksum_can_be_ignored(tmp_path, wrap):
    a, b = (ethernet(wrap(udp(1, checksum=checksum))) for checksum in (1, 2))
    assert not same_identity(tmp_path, a, b)
    assert same_identity(tmp_path, a, b, l4_checksum=False)
    assert not same_identity(tmp_path, a, ethernet(wrap(udp(2, checksum=2))), l4_checksum=False)


def test_later_fragment_has_no_checksum_to_ignore(tmp_path):
    a, b = (ethernet(ipv4(udp(1, checksum=checksum), fragment=5)) for checksum in (1, 2))
    assert not same_identity(tmp_path, a, b, l4_checksum=False)


def test_frames_without_ip_are_identified_from_the_ethertype_on(tmp_path):
    arp = ethernet(bytes(range(28)), 0x0806)
    assert same_identity(tmp_path, arp, b"\7" * 12 + arp[12:])
    assert same_identity(tmp_path, arp, ethernet(bytes(range(28)), 0x0806, tags=VLAN))
    assert not same_identity(tmp_path, arp, ethernet(bytes(range(28)), 0x88B6))
    assert not same_identity(tmp_path, arp, ethernet(bytes(range(1, 29)), 0x0806))


def test_frame_in_cisco_isl_has_the_identity_of_the_frame(tmp_path):
    """tshark does not recognize ISL with frames longer than 1484 bytes; their content is identified anyway."""
    full = ethernet(ipv4(udp(1, size=1472)))
    assert len(isl(full)) == 26 + 1514 + 4
    assert same_identity(tmp_path, full, isl(full))
    assert same_identity(tmp_path, full, isl(full), snaplens=(100, 65535))
    assert same_identity(tmp_path, full, isl(full), snaplens=(65535, 100))
    assert not same_identity(tmp_path, isl(full), isl(full), snaplens=(39, 65535)), (
        "too little of the inner frame is captured"
    )
    assert not same_identity(tmp_path, full, isl(ethernet(ipv4(udp(2, size=1472)))))
    assert not same_identity(tmp_path, isl(full), isl(full, kind=1)), "an inner Token Ring frame is not dissected"
    assert same_identity(tmp_path, isl(full, kind=1), isl(full, kind=1))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(bytes.fromhex("f0f003") + bytes(range(47)), id="netbeui"),
        pytest.param(bytes.fromhex("aaaa03 00000c 2000") + bytes(range(50)), id="cdp"),
        pytest.param(bytes.fromhex("aaaa03 000000 88b5") + bytes(range(50)), id="snap"),
    ],
)
@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda frame: b"\7" * 12 + frame[12:], id="addresses"),
        pytest.param(lambda frame: frame[:12] + VLAN + frame[12:], id="vlan"),
        pytest.param(lambda frame: frame[:12] + QINQ_TAGS + frame[12:], id="vlans"),
        pytest.param(lambda frame: frame[:12] + QINQ_TAGS[:4] + frame[12:] + bytes(6), id="service-vlan-and-padding"),
        pytest.param(lambda frame: frame + bytes(9), id="padding"),
        pytest.param(pseudowire, id="pseudowire"),
        pytest.param(isl, id="isl"),
    ],
)
def test_frame_with_a_length_field_is_identified_by_it_and_its_payload(tmp_path, data, wrap):
    frame = ethernet(data, len(data))
    assert same_identity(tmp_path, frame, wrap(frame))
    assert same_identity(tmp_path, frame, wrap(frame), snaplens=(50, 65535))
    assert not same_identity(tmp_path, frame, wrap(ethernet(data[:-1] + b"?", len(data))))
    assert not same_identity(tmp_path, frame, wrap(ethernet(data[:-1] + b"?", len(data) - 1)))


@pytest.mark.parametrize("snaplens", [(65535, 60), (60, 50), (50, 65535), (42, 65535)])
def test_shortest_truncation_applies_to_all_trials(tmp_path, snaplens):
    trial = [(BASE_NS + n, plain(n)) for n in range(20)]
    files = [[write_pcap(tmp_path / f"{k}.pcap", trial, snaplen)] for k, snaplen in enumerate(snaplens)]
    result = compare(files, pairs=[(0, 1)])
    assert result["pairs"][0]["n_common"] == 20
    assert {trial["identity_bytes"] for trial in result["trials"]} == {min(snaplens) - 14}
    assert [trial["truncated"] for trial in result["trials"]] == [20, 20]


def with_options(payload: bytes) -> bytes:
    """Return an IPv4 packet with 40 bytes of options, the maximum."""
    packet = ipv4(payload)
    return b"\x4f\0" + struct.pack(">H", len(packet) + 40) + packet[4:20] + b"\1" * 40 + packet[20:]


@pytest.mark.parametrize(("packet", "min_bytes"), [(ipv4, 28), (with_options, 68), (ipv6, 48)])
def test_packets_truncated_to_a_few_bytes_are_excluded(tmp_path, packet, min_bytes):
    """Otherwise one such packet would truncate the identities of all others, and a reversal would not be detected."""
    frames = [(BASE_NS + n, ethernet(packet(udp(n, size=60, checksum=n)))) for n in range(10)]
    backwards = [(ts_ns, frame) for (ts_ns, _), (_, frame) in zip(frames, reversed(frames), strict=True)]
    b, rest = write_pcap(tmp_path / "b.pcap", backwards), write_pcap(tmp_path / "rest.pcap", frames[1:])
    for snaplen, taken in ((20, 0), (14 + min_bytes - 1, 0), (14 + min_bytes, 1)):
        first = write_pcap(tmp_path / f"first{snaplen}.pcap", frames[:1], snaplen=snaplen)
        result = compare([[first, rest], [b]], pairs=[(0, 1)])
        trial, pair = result["trials"][0], result["pairs"][0]
        assert (trial["packets"], trial["without_identity"]) == (9 + taken, 1 - taken)
        assert trial["identity_bytes"] == (min_bytes if taken else None)
        assert (pair["n_common"], pair["order"]["moved"]) == (9 + taken, 8 + taken)


def test_truncation_found_late_applies_from_the_start(tmp_path):
    packets = [(BASE_NS + n, plain(n)) for n in range(3000)]
    merged = write_file(tmp_path / "merged.pcap", pcap(packets[:2000]) + pcap(packets[2000:], snaplen=45)[24:])
    result = compare([[merged], [write_pcap(tmp_path / "other.pcap", packets)]], pairs=[(0, 1)])
    assert result["pairs"][0]["n_common"] == 3000
    assert [trial["identity_bytes"] for trial in result["trials"]] == [31, 31]


def trailer(number: int, layout: str, node: int = 3, port: int = 1) -> bytes:
    """Return the tag that CHOIR appends to a packet."""
    time = struct.pack(">Q", BASE_NS + number)
    check = time[6:8] if layout == "v1" else time[1::-1]
    return time + struct.pack(">HH", node, port) + check + b"\x65\x87"


@pytest.mark.parametrize("layout", ["v1", "v2"])
def test_choirs_tag_identifies_a_packet(tmp_path, layout):
    a = ethernet(ipv4(udp(1))) + trailer(5, layout)
    for accepted in (layout, "auto"):
        assert same_identity(
            tmp_path, a, ethernet(ipv6(udp(2)), tags=VLAN) + trailer(5, layout), kind="tag", tag=accepted
        )
        assert not same_identity(tmp_path, a, ethernet(ipv4(udp(1))) + trailer(6, layout), kind="tag", tag=accepted)
    path = write_pcap(tmp_path / "t.pcap", [(BASE_NS, a), (BASE_NS, plain(1)), (BASE_NS, b"short")])
    assert packets_of(path, kind="tag", tag=layout) == (1, 2)
    assert packets_of(path, kind="tag", tag={"v1": "v2", "v2": "v1"}[layout]) == (0, 3)


def packets_of(path, **rule) -> tuple[int, int]:
    """Return the numbers of packets with and without an identity."""
    trial = compare([[path]], pairs=[], identity=IdentityRule(**rule))["trials"][0]
    return trial["packets"], trial["without_identity"]


@pytest.mark.parametrize("layouts", [("v1", "v1"), ("v2", "v2"), ("v1", "v2"), ("v2", "v1")])
def test_tag_consists_of_time_node_and_port_in_both_layouts(tmp_path, layouts):
    (first, second), a = layouts, ethernet(ipv4(udp(1)))
    tagged = a + trailer(5, first)
    assert same_identity(tmp_path, tagged, a + trailer(5, second), kind="tag")
    assert not same_identity(tmp_path, tagged, a + trailer(6, second), kind="tag")
    assert not same_identity(tmp_path, tagged, a + trailer(5, second, node=4), kind="tag")
    assert not same_identity(tmp_path, tagged, a + trailer(5, second, port=2), kind="tag")


def test_byte_regions_identify_a_packet(tmp_path):
    rule = {"kind": "regions", "regions": ((14, 2), (42, 8))}
    assert same_identity(tmp_path, plain(1), b"\7" * 14 + plain(1)[14:], **rule)
    assert not same_identity(tmp_path, plain(1), plain(2), **rule)
    path = write_pcap(tmp_path / "r.pcap", [(BASE_NS, plain(1)), (BASE_NS, plain(1)[:49])])
    assert packets_of(path, **rule) == (1, 1)
    write_pcap(path, [(BASE_NS, plain(1))], snaplen=45)
    assert packets_of(path, **rule) == (0, 1), "the second region is not captured whole"


def test_identity_frame_compares_the_complete_frame(tmp_path):
    assert same_identity(tmp_path, plain(1), plain(1), kind="frame")
    assert not same_identity(tmp_path, plain(1), b"\7" * 14 + plain(1)[14:], kind="frame")


@pytest.mark.parametrize(
    "rule", [{"kind": "color"}, {"kind": "regions"}, {"regions": ((0, 1),)}, {"tag": "v9"}], ids=str
)
def test_inconsistent_identity_rule_is_rejected(tmp_path, rule):
    with pytest.raises(UserError):
        packets_of(write_pcap(tmp_path / "a.pcap", []), **rule)


def chosen(path, **selection) -> list[int]:
    """Return (packets, first_ns - BASE_NS) of the selected packets."""
    trial = compare([[path]], pairs=[], selection=Selection(**selection))["trials"][0]
    return [trial["packets"], None if trial["first_ns"] is None else trial["first_ns"] - BASE_NS]


def test_frame_numbers_times_and_flows_select_packets(tmp_path):
    packets = [(BASE_NS + 100 * n, ethernet(ipv4(udp(n, ports=(1000 + n % 2, 53))))) for n in range(10)]
    path = write_pcap(tmp_path / "a.pcap", packets)
    assert chosen(path, frames={str(path): np.array([2, 5, 99], dtype=np.uint64)}) == [2, 100]
    assert chosen(path, from_ns=BASE_NS + 100, to_ns=BASE_NS + 300) == [2, 100]
    odd = (17, "10.0.0.1", 1001, "10.0.0.2", 53)
    assert chosen(path, flow=odd) == [5, 100]
    assert chosen(path, flow=[odd, (None, None, 1000, None, None)]) == [10, 0]
    assert chosen(path, flow=(6, None, None, None, None)) == [0, None]
    assert chosen(path, flow=odd, from_ns=100, to_ns=600, relative=True) == [2, 300]
    with pytest.raises(UserError, match="frame numbers"):
        chosen(path, frames={})


def test_random_packets_have_different_identities(tmp_path):
    trial = compare([[write_pcap(tmp_path / "a.pcap", sent(20_000, random.Random(3)))]], pairs=[])["trials"][0]
    assert (trial["packets"], trial["ambiguous"]) == (20_000, 0)
