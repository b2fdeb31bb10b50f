"""Tests tunnel identifiers in releases: a permutation of each field replaces them everywhere and consistently."""

import itertools
import random
import re
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.frames import tunnel_frames as tf
from acapella_testing.frames.pcap_files import records, write_pcap
from acapella_testing.frames.tunnel_frames import TYPES
from acapella_testing.generated.files_campaign import processed
from acapella_testing.new_files import write_file
from acapella_testing.oracles.community_ids import reference as community_id_of
from acapella_testing.oracles.naive_anonymize import RANGES, MacMap, TunnelMap
from acapella_testing.release_records import pcap, published, released, text_of
from acapella_testing.tshark_lines import tshark_lines
from acapella_testing.tunnel_digests import digested, whole

from acapella.release import columns as release_columns
from acapella.release import flows as release_flows
from acapella_core import schemas
from acapella_core.anonymize import anonymize, tunnel_pseudonyms_of

KEY = random.Random(11).randbytes(32)
HASHES = ("flow_id", "peer_flow_id", "community_id")
DISTINCTIVE = 10_000  # identifiers of at least this value are searched for as text; smaller numbers may be counts


BUILDERS_24_BITS = (tf.vxlan, tf.vxlan_gpe, tf.geneve, tf.pbb, tf.quoted, tf.nvgre)


def identifiers() -> dict:
    """Return, for each function of tunnel_frames, identifiers that differ from all counts, times, ports and lengths."""
    draw = random.Random(3)
    sixteen = [draw.randrange(41_000, 65_000) for _ in range(40)]
    wide = [draw.randrange(1 << 22, 1 << 24) for _ in range(60)]
    widest = [draw.randrange(1 << 30, 1 << 32) for _ in range(60)]
    return {
        **{build: wide[3 * n : 3 * n + 3] for n, build in enumerate(BUILDERS_24_BITS)},
        tf.gretap: [11, 12, 13],
        tf.gre: widest[:3],
        tf.gre_with_checksum: [*widest[:2], widest[3]],  # the first two are also used for plain GRE
        tf.gre_with_routes: [*widest[:2], widest[4]],
        tf.gre_of_ethernet: [700_001, 700_002, 700_003],
        tf.gtp: widest[6:9],
        tf.gtp_signaling: [*widest[6:8], widest[9]],
        tf.l2tp_version_3: widest[12:15],
        tf.l2tp_over_ip: [*widest[12:14], sixteen[6]],
        **{build: [(sixteen[i], sixteen[i + 3]) for i in range(4, 7)] for build in (tf.l2tp, tf.l2tp_control)},
        tf.pptp: sixteen[12:15],
        tf.pppoe: sixteen[15:18],
        tf.erspan: [901, 902, 903],
        tf.erspan_3: [901, 902, 904],
    }


NESTED = ((tf.gtp, tf.vxlan, tf.gre), (tf.pppoe, tf.geneve, tf.nvgre), (tf.pbb, tf.erspan, tf.l2tp))


def packets() -> list[tf.Packet]:
    """Return frames in both directions for each identifier, and nested tunnels."""
    ways = ((tf.INNER, (1234, 80)), (tf.INNER[::-1], (80, 1234)))
    every = [(build, each) for build, ids in identifiers().items() for each in ids]
    created = [build(each, tf.syn(*way)) for build, each in every for way in ways]
    for outer, middle, inner in NESTED:
        created.append(tf.syn())
        for build in (inner, middle, outer):
            created[-1] = build(identifiers()[build][0], created[-1])
    return [tf.frame(packet) for packet in created]


@pytest.fixture(scope="module")
def sets(tmp_path_factory) -> tuple[Path, Path]:
    """Return the directories of a campaign with these frames and all tables, and of its release."""
    directory = tmp_path_factory.mktemp("tunnels")
    trace = [(10**18 + number * 1000, packet.raw) for number, packet in enumerate(packets())]
    campaign = processed(directory, [("x", "S", "p", write_pcap(directory / "t.pcap", trace))])
    return campaign, published(campaign, KEY)


@pytest.fixture(scope="module")
def released_frames(sets) -> list[tuple[tf.Packet, bytes]]:
    """Return each of these packets with its released frame."""
    frames = [frame for *_, frame in records((sets[1] / "captures" / "x.pcap").read_bytes())]
    return list(zip(packets(), frames, strict=True))


def flows(directory: Path) -> list[dict]:
    """Return the flow table of a directory."""
    return pq.read_table(directory / "flows" / "x.parquet").to_pylist()


def decoded(path: Path) -> str:
    """Return the content of a file as text; empty for a capture."""
    return text_of(path) if path.suffix in (".pcap", ".parquet", ".duckdb") else path.read_text(encoding="utf-8")


def binary(path: Path) -> bytes:
    """Return the bytes of a file and, because Parquet compresses them, of the values in its columns."""
    columns = pq.read_table(path).columns if path.suffix == ".parquet" else []
    buffers = [buffer for column in columns for chunk in column.chunks for buffer in chunk.buffers()]
    return b"".join([path.read_bytes(), *(bytes(buffer) for buffer in buffers if buffer is not None)])


def shown(path: Path, places: set[tuple[int, int]]) -> set[int]:
    """Return the identifiers among ``places`` (value, bits) that a file contains as text or as bytes, unless by chance.

    Text is decimal or hexadecimal; hexadecimal text of 16-bit identifiers counts only with a prefix. Bytes count if
    there are 4 of them in either order, or 3 in network order in a capture. A release has about 10^5 bytes, and few of
    them look random.
    """
    text, content = decoded(path), binary(path)
    words = {int(word) for word in re.findall(r"(?<![\w.])\d+(?![\w.])", text)}
    prefixed = {int(word, 16) for word in re.findall(r"(?<!\w)0[xX]([0-9a-fA-F]+)(?!\w)", text)}
    bare = {int(word, 16) for word in re.findall(r"(?<!\w)[0-9a-fA-F]{5,}(?!\w)", text)}

    def contained(value: int, bits: int) -> bool:
        texts = [words, prefixed, *([bare] if bits > 16 else [])] if value >= DISTINCTIVE else []
        orders = ["big", "little"] if bits == 32 else ["big"] if bits == 24 and path.suffix == ".pcap" else []
        raw = [value.to_bytes(bits // 8, order) for order in orders if value >= 1 << (bits - 3)]
        return any(value in each for each in texts) or any(each in content for each in raw)

    return {value for value, bits in places if contained(value, bits)}


def test_campaign_has_every_tunnel_type(sets):
    assert {tunnel["type"] for row in flows(sets[0]) for tunnel in row["tunnels"]} == set(TYPES)
    assert {place.kind for packet in packets() for place in packet.places} == set(TYPES)


def test_captures_have_a_pseudonym_in_place_of_every_identifier(released_frames):
    naive = TunnelMap(KEY, TYPES)
    found = [(packet, frame, place) for packet, frame in released_frames for place in packet.places]
    assert len(found) > 100
    for packet, frame, place in found:
        assert place.read(packet.raw) == place.id
        assert len(frame) >= place.offset + place.size, place
        assert place.read(frame) == naive.identifier(place.kind, place.id), place
        assert place.read(frame) != place.id


def test_bits_around_identifiers_are_kept_and_checksums_are_correct(released_frames):
    sums = 0
    for packet, frame, place in ((*pair, place) for pair in released_frames for place in pair[0].places):
        mask, end = (1 << 8 * place.size) - (1 << place.bits), place.offset + place.size
        before, after = (int.from_bytes(each[place.offset : end]) & mask for each in (packet.raw, frame))
        assert before == after
        if place.kind == "gre_key" and frame[place.offset - 8 : place.offset - 4] == bytes.fromhex("a0000800"):
            sums += tf.checksum(frame[place.offset - 8 :]) == 0
    assert sums == 6


def test_source_routes_of_gre_are_zeroed(released_frames):
    routed = [(packet.raw.index(tf.ROUTE), frame) for packet, frame in released_frames if tf.ROUTE in packet.raw]
    assert len(routed) == 6
    for at, frame in routed:
        assert frame[at - 4 : at + 8] == bytes.fromhex("08000004 00000000 00000000")
        assert len(frame) > at + 8 + 20  # the packet follows


def test_no_part_of_an_nvgre_key_is_published(sets, program):
    lines = tshark_lines(program, sets[1] / "captures" / "x.pcap", "gre.proto", "gre.key")
    identifiers = [{place.kind: place.id for place in packet.places} for packet in packets()]
    found = [(line, ids) for line, ids in zip(lines, identifiers, strict=True) if line.startswith("0x6558\t")]
    keys = [(int(line.split("\t")[1].split(",")[0], 16), ids) for line, ids in found if "nvgre_flow_id" in ids]
    assert len(keys) >= 12
    for key, ids in keys:
        assert key >> 8 != ids["nvgre_vsid"]
        assert key % 256 not in (0, ids["nvgre_flow_id"])


def test_flow_tables_have_the_same_pseudonyms(sets):
    naive = TunnelMap(KEY, TYPES)
    before, after = ([[(t["type"], t["id"], t["position"]) for t in row["tunnels"]] for row in flows(d)] for d in sets)
    expected = [[(kind, naive.identifier(kind, each), at) for kind, each, at in tunnels] for tunnels in before]
    assert sorted(after) == sorted(expected)


def test_no_original_identifier_is_in_a_released_file(sets):
    originals = {(place.kind, place.id) for packet in packets() for place in packet.places}
    released = {(t["type"], t["id"]) for row in flows(sets[1]) for t in row["tunnels"]}
    assert len({kind for kind, _ in originals & released}) == 0, "with this key no pseudonym is another's original"
    identifiers = {(each, TYPES[kind][1]) for kind, each in originals}
    assert len({each for each, _ in identifiers if each >= DISTINCTIVE}) > 40
    files = [path for path in sets[1].rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".pcap", ".parquet", ".csv", ".tsv", ".md"}
    assert [path for path in files if shown(path, identifiers)] == []
    assert shown(sets[0] / "flows" / "x.parquet", identifiers)


@pytest.mark.parametrize("form", ["{:d}", "{:#x}", "{:08x}", "{:08X}", "big", "little"])
def test_identifier_in_a_file_is_found_in_every_format(form, tmp_path):
    value, bits, text = identifiers()[tf.gre][0], 32, "{" in form
    content = form.format(value).encode() if text else value.to_bytes(4, form)
    document = write_file(tmp_path / ("t.md" if text else "t.pcap"), b"about " + content + b", and more")
    pq.write_table(pa.table({"about": [content.decode() if text else b"head" + content] * 9}), tmp_path / "t.parquet")
    for path in (document, tmp_path / "t.parquet"):
        assert shown(path, {(value, bits)}) == {value}
        assert not shown(path, {(value ^ 1, bits)})


def test_no_original_hash_is_in_a_released_file(sets):
    before, after = ({row[name] for row in flows(each) for name in HASHES} - {None} for each in sets)
    assert len(before) > 50
    assert len(after) > 50
    assert not before & after
    for path in (path for path in sets[1].rglob("*") if path.is_file()):
        text, content = decoded(path), path.read_bytes()
        assert not [each for each in before if each in text or each.encode() in content], path


def test_community_ids_match_the_pseudonymous_addresses(sets):
    rows = flows(sets[1])
    assert [row["community_id"] for row in rows] == [community_id_of(row) for row in rows]


@pytest.mark.parametrize("table", release_flows.TABLES)
def test_tables_of_flow_reports_have_no_identifiers_and_are_not_copied(table):
    """release_flows replaces only addresses and numbers of flows."""
    assert not release_columns.IDENTIFYING_COLUMNS & {column["name"] for column in schemas.table(table)["columns"]}
    assert release_columns.why_private(table)


@pytest.mark.parametrize("column", sorted(release_columns.IDENTIFYING_COLUMNS))
def test_tables_with_identifiers_or_hashes_are_not_copied(monkeypatch, column):
    columns = [{"name": "site", "unit": "text"}, {"name": column, "unit": "id"}]
    monkeypatch.setattr(schemas, "table", lambda _: {"columns": columns, "key": ["site"]})
    monkeypatch.setattr(release_columns, "published_columns", lambda _: ("site", column))
    assert release_columns.why_private("any")
    del columns[1]
    assert not release_columns.why_private("any")


def test_tenants_remain_separate_and_directions_remain_peers(sets):
    before, after = map(flows, sets)
    assert len(before) == len(after) == len({row["flow_id"] for row in after})
    assert [row["peer_flow"] for row in before] == [row["peer_flow"] for row in after]
    assert [row["peer_candidates"] for row in before] == [row["peer_candidates"] for row in after]


@pytest.mark.parametrize("kind", TYPES)
def test_pseudonyms_match_the_permutation_in_plain_python(kind):
    bits, naive = TYPES[kind][1], TunnelMap(KEY, TYPES)
    draw = random.Random(bits)
    ids = range(1 << bits) if bits <= 16 else [0, 1, 4095, 4096, 65_535, 65_536, 2**20 - 1, 2**20, 2**bits - 1]
    ids = [*ids, *(draw.randrange(1 << bits) for _ in range(200 if bits > 16 else 0))]
    found = tunnel_pseudonyms_of(kind, ids, KEY)
    assert len(set(found)) == len(set(ids))
    assert max(found) < 1 << bits
    assert not [pair for pair in zip(ids, found, strict=True) if pair[0] == pair[1] != 0]
    sampled = draw.sample(list(zip(ids, found, strict=True)), 100)
    assert [naive.identifier(kind, each) for each, _ in sampled] == [pseudonym for _, pseudonym in sampled]
    assert (tunnel_pseudonyms_of(kind, [0], KEY) == [0]) == (RANGES.get(kind, (1,))[0] == 0)


def test_identifiers_wider_than_their_field_are_rejected():
    with pytest.raises(ValueError, match="wider than its field"):
        tunnel_pseudonyms_of("vxlan_vni", [1 << 24], KEY)
    with pytest.raises(ValueError, match="not a type of tunnel"):
        tunnel_pseudonyms_of("vlan", [1], KEY)


def test_thousand_tenants_remain_a_thousand_flows(tmp_path):
    frames = released(tmp_path, [tf.frame(tf.vxlan(vni, tf.syn())).raw for vni in range(1000)], KEY)
    _, rows = digested(tmp_path, whole(frames))
    assert len(rows) == len({row["flow_id"] for row in rows}) == 1000
    assert len({row["community_id"] for row in rows}) == 1


@pytest.mark.parametrize("ppp", ["ff030021", "0021", "21"])
@pytest.mark.parametrize(("flags", "rest", "kept"), [
    (0x0002, "", ""), (0x0802, "0001ff03", "0001ff03"), (0x0202, "0000", "0000"), (0x0202, "0002ff03", "00020000"),
])  # fmt: skip
def test_l2tp_session_that_looks_like_ppp_address_and_control_is_replaced(flags, rest, kept, ppp, tmp_path):
    """Session and offset padding are ff03, which PPP has in front of its protocol, unless compressed (RFC 1661)."""
    session, naive = 0xFF03, TunnelMap(KEY, TYPES)
    header = struct.pack(">HHH", flags, session, session) + bytes.fromhex(rest)
    places = (("l2tp_tunnel", session, 2, 2), ("l2tp_session", session, 4, 2))
    packet = tf.frame(tf.over_udp(tf.syn().with_header(bytes.fromhex(ppp)).with_header(header, *places), 1701))
    (frame,) = released(tmp_path, [packet.raw], KEY)
    for place in packet.places:
        assert place.read(packet.raw) == session
        assert place.read(frame) == naive.identifier(place.kind, session) != session
    assert frame[packet.places[-1].offset + 2 :].startswith(bytes.fromhex(kept + ppp))


def test_ethernet_frame_after_gtp_does_not_become_an_ipv4_packet(tmp_path):
    """GTP-U does not identify its payload: a MAC address that begins with 45 to 4e would be read as an IPv4 header."""
    addresses = [bytes((first, 0x1B, 0x21, 0, 0, last)) for first in (0x40, 0x41, 0x44, 0x4F) for last in range(64)]
    carried = [tf.syn().with_header(each + bytes.fromhex("001b21ddeeff0800")) for each in addresses]
    originals, naive = [tf.frame(tf.gtp(7, each)).raw for each in carried], MacMap(KEY)
    for original, address, frame in zip(originals, addresses, released(tmp_path, originals, KEY), strict=True):
        at = original.index(address)
        assert frame[at : at + 6] == naive.address(address) != address
        assert frame[at] not in range(0x45, 0x4F)
        assert len(frame) == len(original)


@pytest.mark.parametrize("build", list(identifiers()), ids=lambda build: build.__name__)
def test_no_truncation_of_a_frame_reveals_an_identifier(build, tmp_path):
    """A frame may be truncated anywhere. The rest of an identifier is a part of its pseudonym, or missing."""
    packet, naive = tf.frame(build(identifiers()[build][0], tf.syn())), TunnelMap(KEY, TYPES)
    cuts = [(len(packet.raw), packet.raw[:length]) for length in range(14, len(packet.raw) + 1)]
    anonymize(str(write_file(tmp_path / "in.pcap", pcap(cuts))), tmp_path / "out.pcap", KEY)
    kept = [frame for *_, frame in records((tmp_path / "out.pcap").read_bytes())]
    assert len(kept) == len(cuts)
    for frame, place in itertools.product(kept, packet.places):
        if len(frame) >= place.offset + place.size:
            assert place.read(frame) == naive.identifier(place.kind, place.id)
        else:
            assert len(frame) <= place.offset
