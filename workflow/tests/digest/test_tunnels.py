"""Compares flows of tenants with equal addresses, and their tunnel identifiers, with the reference naive_tunnels."""

import itertools
import random
import shutil

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.oracles import naive_tunnels
from acapella_testing.oracles.naive_tunnels import CARRIES_IP_ALONE, FIRST, KEYS, LARGEST, NETWORK, WRAP, frame
from acapella_testing.processes import run
from acapella_testing.soak import SOAK
from acapella_testing.tunnel_digests import digested, whole

from acapella.cli.main import main
from acapella.common import tshark
from acapella_core import schemas

TYPES = [name for name in WRAP if name != "vlan"]
TENANTS = 1000 if SOAK else 100
LINK = ("vlan", "pppoe_session", "pbb_isid")  # headers that IP does not precede
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
ENGINES = ["native", *(pytest.param(name, marks=needs_tshark) for name in ("tshark", "hybrid"))]


def key_of(row):
    """Return the key of a row of the flow table in the form that naive_tunnels uses."""
    tunnels = tuple((tunnel["type"], tunnel["id"], tunnel["position"]) for tunnel in row["tunnels"])
    ports = None if row["src_port"] is None else (row["src_port"], row["dst_port"])
    return tuple(row["vlan"]), tunnels, row["src"], row["dst"], row["ip_proto"], ports


def check(tmp_path, frames, engine="native"):
    """Compare the flow of every frame and the peer of every flow; return the rows of both tables."""
    frame_rows, flow_rows = digested(tmp_path, frames, engine)
    expected = [naive_tunnels.read(captured) for captured, _ in frames]
    keys = list(dict.fromkeys(found.key for found in expected if found.key is not None))
    assert [key_of(row) for row in flow_rows] == keys
    assert len({row["flow_id"] for row in flow_rows}) == len(keys)
    assert [row["peer_flow"] for row in flow_rows] == naive_tunnels.peers(keys)
    for row, found in zip(frame_rows, expected, strict=True):
        assert row["flow"] == (None if found.key is None else keys.index(found.key)), (row, found)
        assert (row["issue"] is not None) == found.cut, (row, found)
    return frame_rows, flow_rows


def peers(tmp_path, frames):
    """Return the peer of each flow, after `check`."""
    return [row["peer_flow"] for row in check(tmp_path, whole(frames))[1]]


def tenants(before, name, count, after=()):
    """Return frames in both directions of ``count`` tenants, each with a separate tunnel inside `before` and around
    `after`.
    """
    ids = range(FIRST.get(name, 1), FIRST.get(name, 1) + count)
    return [frame([*before, (name, i), *after], back=back) for back in (False, True) for i in ids]


@pytest.mark.parametrize("name", TYPES)
def test_tenants_have_separate_flows(tmp_path, name):
    count = min(TENANTS, LARGEST.get(name, TENANTS))
    _, flows = check(tmp_path, whole(tenants([], name, count)))
    assert len(flows) == 2 * count
    peers = [*range(count, 2 * count), *range(count)] if name in NETWORK + KEYS else [None] * 2 * count
    assert [row["peer_flow"] for row in flows] == peers
    assert {row["peer_candidates"] for row in flows} == {1 if name in NETWORK else count}


@pytest.mark.parametrize("name", NETWORK)
@pytest.mark.parametrize("vlans", [(7, 7), (7, 8)], ids=str)
def test_flows_of_two_networks_are_not_peers(tmp_path, name, vlans):
    there, back = ([("vlan", vlan), (name, FIRST.get(name, 1) + n)] for n, vlan in enumerate(vlans))
    _, flows = check(tmp_path, whole([frame(there), frame(back, back=True)]))
    assert [(row["peer_flow"], row["peer_candidates"]) for row in flows] == [(None, 0)] * 2


@pytest.mark.parametrize("name", NETWORK)
def test_tenants_with_a_vlan_per_direction_have_the_peer_of_their_network(tmp_path, name):
    ids = range(FIRST.get(name, 1), FIRST.get(name, 1) + 3)
    there = [frame([("vlan", 10 + i % 3), (name, i)]) for i in ids]
    back = [frame([("vlan", 20 + i % 2), (name, i)], back=True) for i in ids]
    assert peers(tmp_path, [*there, *back]) == [3, 4, 5, 0, 1, 2]


@pytest.mark.parametrize("name", [name for name in TYPES if name not in NETWORK])
def test_identifiers_that_differ_per_direction_do_not_separate_peers(tmp_path, name):
    assert peers(tmp_path, [frame([(name, 1)]), frame([(name, 2)], back=True)]) == [1, 0]


@pytest.mark.parametrize("name", [name for name in TYPES if name not in NETWORK])
def test_tenant_with_an_identifier_per_direction_is_ambiguous_among_others(tmp_path, name):
    there, back = [frame([(name, i)]) for i in (1, 2, 3)], [frame([(name, i)], back=True) for i in (2, 3, 4)]
    _, flows = check(tmp_path, whole([*there, *back]))
    assert [row["peer_flow"] for row in flows] == ([None, 3, 4, 1, 2, None] if name in KEYS else [None] * 6)
    assert {row["peer_candidates"] for row in flows} == {3}


@pytest.mark.parametrize("seed", range(4))
def test_peers_do_not_depend_on_the_order_of_frames(tmp_path, seed):
    chance = random.Random(seed)
    networks = [(name, FIRST.get(name, 0) + 1) for name in ("vxlan_vni", "geneve_vni")]
    parts = ([("vlan", 5), ("vlan", 6)], networks, itertools.product(("gre_key", "gtp_teid"), (1, 2, 3)))
    stacks = itertools.product(*parts)
    frames = [frame(stack, back=back) for stack in stacks for back in (False, True) if chance.random() < 0.7]

    def pairs() -> set[tuple]:
        return {(row["flow_id"], row["peer_flow_id"]) for row in check(tmp_path, whole(frames))[1]}

    before = pairs()
    chance.shuffle(frames)
    assert pairs() == before
    assert any(peer for _, peer in before)


def test_positions_that_differ_per_direction_do_not_separate_peers(tmp_path):
    there = [frame([("vxlan_vni", vni)]) for vni in (5, 6)]
    back = [frame([("gre_key", 1), ("vxlan_vni", vni)], back=True) for vni in (5, 6)]
    assert peers(tmp_path, [*there, *back]) == [2, 3, 0, 1]


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ([("gre_key", 7)], "vxlan_vni", []),
        ([], "gre_key", [("vxlan_vni", 7)]),
        ([("vxlan_vni", 7)], "gtp_teid", []),
        ([], "vxlan_vni", [("gtp_teid", 7)]),
        ([("pbb_isid", 7)], "pppoe_session", []),
        ([("vxlan_gpe_vni", 7)], "vxlan_vni", [("geneve_vni", 9)]),
        ([("vlan", 7)], "vxlan_vni", []),
        ([], "vxlan_vni", [("vlan", 7)]),
    ],
    ids=str,
)
def test_tenants_in_nested_tunnels_have_separate_flows(tmp_path, before, name, after):
    _, flows = check(tmp_path, whole(tenants(before, name, TENANTS, after)))
    assert len(flows) == 2 * TENANTS


EXTENDED = [(), (0,), (43,), (44,), (60,), (0, 44), (0, 43, 44, 60), (60, 43, 60)]


def extended(name):
    """Return frames of one tunnel over IPv6 with every combination of extension headers."""
    _, outer = WRAP[name](FIRST.get(name, 0) + 5, 0x0800, naive_tunnels.inner())  # IPv4 header of 20 bytes
    packets = [naive_tunnels.ipv6(outer[9], outer[20:], extensions) for extensions in EXTENDED]
    return [naive_tunnels.ethernet(naive_tunnels.IPV6, packet) for packet in packets]


OVER_IP = [name for name in TYPES if name not in LINK]


@pytest.mark.parametrize("name", OVER_IP)
def test_extension_headers_before_a_tunnel_do_not_split_a_flow(tmp_path, name):
    frames, (flow,) = check(tmp_path, whole(extended(name)))
    assert len({row["stack"] for row in frames}) == len(EXTENDED)
    header = frames[0]["stack"].split("/")[flow["tunnels"][0]["position"] - 1]
    for row in frames:
        labels = [label for label in row["stack"].split("/") if label == "IPv6" or not label.startswith("IPv6")]
        assert labels[flow["tunnels"][0]["position"] - 1] == header


@needs_tshark
@pytest.mark.parametrize("engine", ["tshark", "hybrid"])
def test_engines_agree_on_tunnels_after_extension_headers(tmp_path, engine):
    agree(tmp_path, whole([data for name in OVER_IP for data in extended(name)]), engine)


PORTS = {"vxlan_vni": 4789, "vxlan_gpe_vni": 4790, "geneve_vni": 6081}


def with_first_byte(name, first, **ports):
    """Return a frame of a tenant whose tunnel header starts with ``first``. ``ports`` are those of the outer UDP
    header.
    """
    data = bytearray(frame([(name, 5)]))
    data[42] = first
    for at, port in zip((34, 36), (ports.get("src", 40000), ports.get("dst", PORTS[name])), strict=True):
        data[at : at + 2] = port.to_bytes(2, "big")
    return bytes(data)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("name", "valid"),  # by the first byte of the header: the I flag and the version count, reserved bits do not
    [
        ("vxlan_vni", {0x08: True, 0xFF: True, 0x88: True, 0x00: False, 0xF7: False, 0x04: False}),
        ("vxlan_gpe_vni", {0x0C: True, 0xCD: True, 0x08: True, 0x04: False, 0x1C: False, 0x2C: False}),
        ("geneve_vni", {0x00: True, 0x40: False, 0x80: False, 0xC0: False}),
    ],
)
def test_vni_is_used_only_with_a_valid_header_and_the_destination_port_of_the_tunnel(tmp_path, engine, name, valid):
    ends = ({}, {"src": PORTS[name], "dst": 40000}, {"src": PORTS[name]})
    frames = [with_first_byte(name, first, **ports) for first in valid for ports in ends]
    rows, flows = check(tmp_path, whole(frames), engine)
    expected = [used for is_valid in valid.values() for used in (is_valid, False, is_valid)]
    assert [bool(flows[row["flow"]]["tunnels"]) for row in rows] == expected
    assert {row["src"] for row in flows} == {"10.0.0.1"}


def clients(chance, server_port):
    """Return 300 datagrams with random payload per direction and port, between clients on tunnel ports and a server."""
    packets = []
    for port in [port for port in PORTS.values() for _ in range(300)]:
        there, back = (chance.randbytes(chance.randrange(20, 200)) for _ in range(2))
        packets.append(naive_tunnels.outer(17, naive_tunnels.udp(port, server_port, there)))
        packets.append(naive_tunnels.outer(17, naive_tunnels.udp(server_port, port, back), back=True))
    return [naive_tunnels.ethernet(0x0800, packet) for packet in packets]


@pytest.mark.parametrize("engine", ENGINES)
def test_client_on_a_tunnel_port_has_one_flow_per_direction(tmp_path, engine):
    frames = clients(random.Random(1), 443)  # with this seed, no payload looks like IP in VXLAN-GPE (1 in 1,000)
    rows, flows = digested(tmp_path, whole(frames), engine)
    assert [key_of(flows[row["flow"]]) for row in rows] == [naive_tunnels.read(data).key for data in frames]
    assert [(row["frames"], row["tunnels"], row["mpls"]) for row in flows] == [(300, [], [])] * 6


@pytest.mark.parametrize("engine", ENGINES)
def test_more_than_16_identifiers_are_an_issue(tmp_path, engine):
    """Tenants that only a 17th identifier distinguishes have one flow, and each of their frames has the issue."""
    frames = [frame([("gre_key", 7)] * 15 + [("gre_key", last) for last in ids])
              for ids in ([1], [2], [7, 1], [7, 2])]  # fmt: skip
    rows, flows = digested(tmp_path, whole(frames), engine)
    assert [row["issue"] for row in rows] == [None, None, "too_many_headers", "too_many_headers"]
    assert [len(row["tunnels"]) for row in flows] == [16] * 3
    assert [row["flow"] for row in rows] == [0, 1, 2, 2]


def test_vlan_in_vxlan_and_vxlan_in_vlan_are_separate_flows(tmp_path):
    nested = [[("vlan", 7), ("vxlan_vni", 5)], [("vxlan_vni", 5), ("vlan", 7)]]
    frames, flows = check(tmp_path, whole([frame(tunnels) for tunnels in nested]))
    assert [row["tunnels"][0]["position"] for row in flows] == [5, 4]
    for row in frames:
        assert row["stack"].split("/")[flows[row["flow"]]["tunnels"][0]["position"] - 1] == "VXLAN"


def gre_of_ethernet(key, *, back=False):
    """Return a GRE frame that carries Ethernet, with a key and no other option."""
    inner = naive_tunnels.ethernet(0x0800, naive_tunnels.inner(back=back))
    return naive_tunnels.ethernet(*naive_tunnels.over_gre(0x2000, 0x6558)(naive_tunnels.word(key) + inner))


ETHERNET_KEYS = (0x12345600, 0x12345601, 0x12345602, 0x0A000001, 0x0A000002, 0x00100000, 0x000FFFFF, 5, 6)


def test_all_bits_of_a_gre_key_over_ethernet_count(tmp_path):
    _, flows = check(tmp_path, whole([gre_of_ethernet(key) for key in ETHERNET_KEYS]))
    assert [[(t["type"], t["id"], t["position"]) for t in row["tunnels"]] for row in flows] == [
        [("nvgre_vsid", 0x123456, 3)],
        [("nvgre_vsid", 0x123456, 3), ("nvgre_flow_id", 1, 3)],
        [("nvgre_vsid", 0x123456, 3), ("nvgre_flow_id", 2, 3)],
        [("nvgre_vsid", 0x0A0000, 3), ("nvgre_flow_id", 1, 3)],
        [("nvgre_vsid", 0x0A0000, 3), ("nvgre_flow_id", 2, 3)],
        [("nvgre_vsid", 0x1000, 3)],
        [("gre_key", 0xFFFFF, 3)],
        [("gre_key", 5, 3)],
        [("gre_key", 6, 3)],
    ]


@needs_tshark
@pytest.mark.parametrize("engine", ["tshark", "hybrid"])
def test_engines_agree_on_keys_of_gre_over_ethernet(tmp_path, engine):
    agree(tmp_path, whole([gre_of_ethernet(key) for key in ETHERNET_KEYS]), engine)


def cuts(data):
    """Return a frame truncated at every length from the end of the first header."""
    return [(data[:length], len(data)) for length in range(14, len(data) + 1)]


@pytest.mark.parametrize("name", TYPES)
def test_truncated_identifier_is_an_issue_and_never_zero(tmp_path, name):
    frames, flows = check(tmp_path, cuts(frame([(name, LARGEST.get(name, 0x4321))])))
    assert all(tunnel["id"] != 0 for row in flows for tunnel in row["tunnels"])
    assert {row["issue"] for row in frames} - {None}


def random_nesting(chance):
    """Return up to five tunnels, each of which can carry the next."""
    names = []
    for _ in range(chance.randrange(1, 6)):
        ip_alone = bool(names) and names[-1] in (*CARRIES_IP_ALONE, "gre_key")
        names.append(chance.choice([name for name in WRAP if not ip_alone or name not in LINK]))
    return [(name, chance.choice((1, 2, 1000)) + FIRST.get(name, 0)) for name in names]


@pytest.mark.parametrize("seed", range(6))
def test_random_nesting_matches_the_reference(tmp_path, seed):
    chance = random.Random(seed)
    frames = []
    for _ in range(400):
        data = frame(random_nesting(chance), back=chance.random() < 0.5)
        frames.append((data[: chance.randrange(14, len(data) + 1)] if chance.random() < 0.3 else data, len(data)))
    check(tmp_path, frames)


ROUTES = [  # address family, offset, route
    (0x0800, 4, bytes([192, 0, 2, 9, 192, 0, 2, 10])),
    (2, 0, b"any"),
    (0x0800, 0, b""),  # empty, but not the last entry
    (0, 0, b"x"),
]


def routed(flags, kind, payload, routes=ROUTES):
    """Return a frame with source routes in a GRE header (RFC 1701) and key 7."""
    words = [0] * bool(flags & 0xC000) + [7] * bool(flags & 0x2000) + [1] * bool(flags & 0x1000)
    entries = [*routes, (0, 0, b"")]
    options = b"".join(family.to_bytes(2, "big") + bytes([at, len(route)]) + route for family, at, route in entries)
    header = b"".join(map(naive_tunnels.word, words)) + options
    return naive_tunnels.ethernet(*naive_tunnels.over_gre(flags, kind)(header + payload))


ROUTED = [routed(flags, 0x0800, naive_tunnels.inner()) for flags in (0x4000, 0x5000, 0x6000, 0xC000, 0xF000)]
ROUTED += [routed(0x6000, 0x6558, naive_tunnels.ethernet(0x0800, naive_tunnels.inner()))]


def gtp_of_ethernet(flags=0x30, extension=b"", first=b"\0"):
    """Return a GTP-U frame with an inner Ethernet frame. ``first`` is the first byte of its destination address."""
    carried = extension + first + naive_tunnels.ethernet(0x0800, naive_tunnels.inner())[1:]
    header = bytes([flags, 255]) + len(carried).to_bytes(2, "big") + naive_tunnels.word(5)
    return naive_tunnels.ethernet(*naive_tunnels.over_udp(2152)(header + carried))


# The second one has a PDU session container (3GPP TS 38.415 clause 5.5.2).
GTP_OF_ETHERNET = [gtp_of_ethernet(), gtp_of_ethernet(0x34, b"\0\0\0\x85\1\x10\5\0"), gtp_of_ethernet(first=b"\x02")]


def test_gre_payload_is_dissected_after_source_routes(tmp_path):
    frames, flows = digested(tmp_path, whole(ROUTED))
    assert {(row["src"], row["dst"], row["src_port"]) for row in flows} == {("10.0.0.1", "10.0.0.2", 1000)}
    with_key = [row for row in frames if flows[row["flow"]]["tunnels"]]
    assert [row["frame"] for row in with_key] == [3, 5, 6]
    assert {flows[row["flow"]]["tunnels"][0]["id"] for row in with_key} == {7}
    assert {(row["l4_by"], row["issue"]) for row in frames} == {("native", None)}


def test_source_route_longer_than_the_packet_is_an_issue(tmp_path):
    frames, flows = digested(tmp_path, whole([routed(0x4000, 0x0800, b"", [(0x0800, 0, bytes(200))])[:-200]]))
    assert [row["issue"] for row in frames] == ["truncated_gre"]
    assert [row["src"] for row in flows] == ["192.0.2.1"]


def test_engine_native_guesses_ethernet_in_gtp(tmp_path):
    frames, flows = digested(tmp_path, whole(GTP_OF_ETHERNET))
    assert {(row["src"], row["src_port"], row["tunnels"][0]["id"]) for row in flows} == {("10.0.0.1", 1000, 5)}
    assert {row["l4_by"] for row in frames} == {"unsure"}


@needs_tshark
@pytest.mark.parametrize("engine", ["tshark", "hybrid"])
def test_engines_agree_on_routed_gre_and_gtp_of_ethernet_at_every_snap_length(tmp_path, engine):
    agree(tmp_path, [prefix for data in (*ROUTED, *GTP_OF_ETHERNET) for prefix in cuts(data)], engine)


@needs_tshark
@pytest.mark.parametrize("engine", ["tshark", "hybrid"])
def test_engines_agree_on_tunnels_at_every_snap_length(tmp_path, engine):
    chance = random.Random(1)
    frames = whole([frame(random_nesting(chance)) for _ in range(300)])
    frames += whole([data for name in TYPES for data in tenants([], name, 5)])
    agree(tmp_path, CUT + frames, engine)


def agree(tmp_path, frames, engine):
    """Compare the key of every frame's flow in engine native with that in ``engine``."""
    native, other = (digested(tmp_path, frames, each) for each in ("native", engine))
    for number, (mine, theirs) in enumerate(zip(native[0], other[0], strict=True)):
        keys = [None if row["flow"] is None else key_of(flows[row["flow"]])
                for row, flows in ((mine, native[1]), (theirs, other[1]))]  # fmt: skip
        assert keys[0] == keys[1], (number, mine, theirs)


def backbone(tags, isid):
    """Return a frame of a tenant with VLAN tags (ethertype, ID) followed by an I-TAG."""
    kind, payload = WRAP["pbb_isid"](isid, 0x0800, naive_tunnels.inner())
    for tag, number in reversed(tags):
        kind, payload = tag, number.to_bytes(2, "big") + kind.to_bytes(2, "big") + payload
    return naive_tunnels.ethernet(kind, payload)


SERVICE, CUSTOMER = 0x88A8, 0x8100
TAGGED = ([], [(SERVICE, 5)], [(SERVICE, 5), (SERVICE, 6)], [(SERVICE, 5), (CUSTOMER, 6)], [(CUSTOMER, 5)])
TAGGED += ([(CUSTOMER, 5), (SERVICE, 6)], [(SERVICE, 5), (SERVICE, 6), (SERVICE, 7)])
NOT_LISTED = [backbone(tags, 77) for tags in TAGGED]
NOT_LISTED += [frame([*before, ("vxlan_gpe_vni", 77), *after])
               for before in ([], [("vlan", 9)], [("vxlan_vni", 8)], [("vxlan_gpe_vni", 8)])
               for after in ([], [("vlan", 9)], [("vxlan_vni", 8)], [("pbb_isid", 8)])]  # fmt: skip


@needs_tshark
@pytest.mark.parametrize("engine", ["tshark", "hybrid"])
def test_engines_agree_on_positions_of_headers_that_tshark_does_not_list(tmp_path, engine):
    agree(tmp_path, whole(NOT_LISTED), engine)
    frames, flows = digested(tmp_path, whole(NOT_LISTED), engine)
    for row in frames:
        for tunnel in flows[row["flow"]]["tunnels"]:
            before = {"vxlan_gpe_vni": ("UDP",), "pbb_isid": ("VLAN", "PBB"), "vxlan_vni": ("VXLAN",)}[tunnel["type"]]
            assert row["stack"].split("/")[tunnel["position"] - 1] in before, row
        assert 77 in [tunnel["id"] for tunnel in flows[row["flow"]]["tunnels"]], row


CUT = [prefix for name in TYPES for prefix in cuts(frame([(name, LARGEST.get(name, 0x4321))]))]


@needs_tshark
@pytest.mark.parametrize(
    ("frames", "min_share"),
    [(whole([*NOT_LISTED, *ROUTED, *GTP_OF_ETHERNET]), 1), (CUT, 0.5)],
    ids=["not listed", "cut"],
)
def test_verify_finds_no_difference_in_tunnels(tmp_path, capsys, frames, min_share):
    """Verifies headers that tshark does not list, and truncated frames, whose other columns may differ."""
    digested(tmp_path, frames)
    code = main(["verify", "--engine", "native", str(tmp_path / "t.pcap")])
    (line,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("tunnels ")]
    assert len(frames) * min_share <= int(line[1].replace(",", "")) <= len(frames)
    assert line[2:4] == ["0", "0"] and (code == 0 or frames is CUT)


@needs_tshark
def test_types_match_the_reference_and_fields_exist_in_tshark():
    rows = read_rows(schemas.root() / "tunnels.tsv")
    assert [row["type"] for row in rows] == TYPES
    assert {row["type"] for row in rows if row["directions"] == "same"} == {*NETWORK}
    assert {row["type"] for row in rows if row["directions"] == "mostly_same"} == {*KEYS}
    fields = {name for row in rows for name in row["fields"].split(", ")}
    listed = run(tshark.find().path, "-G", "fields", check=True, env=tshark.environment()).stdout
    assert fields <= {line.split("\t")[2] for line in listed.splitlines() if line.startswith("F\t")}
