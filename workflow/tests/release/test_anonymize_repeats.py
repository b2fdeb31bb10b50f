"""Tests text in repeated headers (labels, tags, options, chunks, parameters, records): a release contains no run of it.

Each construct is a function that fills the free fields of a repeated header with text. The fields that a dissector
needs to continue have the values of the RFC. The tests measure the text and the unchanged bytes in the anonymized
frame.
"""

import itertools
import struct

import pytest
from acapella_testing.frames.ip_options import ethernet, hop_by_hop, ipv4, ipv6, neighbor, sctp, tcp
from acapella_testing.frames.pcap_files import records, write_pcap
from acapella_testing.generated.files_campaign import indexed
from acapella_testing.leak_search import find_leak, restore_original
from acapella_testing.release_records import published, released

RUN = 16  # bytes of contiguous text that must not be kept
SENTENCE = "MYPASSWORD=hunter2; s e c r e t  t e x t; abcdefghijklmnopqrstuvwxyz 0p@P`"
CODES = ("ascii", "utf-16-be", "utf-16-le")
ADDRESS = bytes((203, 0, 113, 9))  # an address that is replaced
PACKET = ipv4(17, b"\0\1\0\2\0\x08\0\0")[14:]


class Text:
    """An endless supply of bytes from a repeated text."""

    def __init__(self, code: str, start: int = 0):
        self.content = (SENTENCE[start:] + SENTENCE[:start]).encode(code)
        self.rest = itertools.cycle(self.content)

    def take(self, count: int) -> bytes:
        return bytes(itertools.islice(self.rest, count))

    def each(self, count: int, *parts: int | bytes) -> bytes:
        """Return the parts ``count`` times in sequence. A part is fixed bytes or a number of bytes to take from the
        text.
        """
        return b"".join(self.take(p) if isinstance(p, int) else p for _ in range(count) for p in parts)


def udp(port: int, data: bytes) -> bytes:
    """Return a UDP frame over IPv4."""
    return ipv4(17, struct.pack("!HHHH", port, port, 8 + len(data), 0) + data)


def labels(text: Text, count: int) -> bytes:
    """Return MPLS entries followed by IPv4. The last entry has the bottom-of-stack bit."""
    entries = bytearray(text.take(4 * count))
    for at in range(2, len(entries), 4):
        entries[at] = entries[at] & 0xFE | (at == len(entries) - 2)
    return bytes(entries) + PACKET


def chunk(kind: int, value: bytes) -> bytes:
    """Return an SCTP chunk."""
    return struct.pack("!BBH", kind, 0, 4 + len(value)) + value + bytes(-len(value) % 4)


def init(parameters: bytes) -> bytes:
    return sctp(chunk(1, bytes(16) + parameters))


def ip_options(options: bytes) -> bytes:
    return ipv4(17, PACKET[20:], options + bytes(-len(options) % 4))


def geneve(options: bytes) -> bytes:
    return udp(6081, bytes((len(options) // 4, 0)) + b"\x65\x58\0\0\1\0" + options + ethernet(0x0800, PACKET))


def gtp(extensions: bytes) -> bytes:
    """Return a GTP-U data packet with extension headers. The last byte of ``extensions`` must be 0."""
    packet = extensions + PACKET
    return udp(2152, b"\x34\xff" + (4 + len(packet)).to_bytes(2) + b"\0\0\0\7" + b"\0\0\0\x85" + packet)


def routes(entries: bytes) -> bytes:
    """Return a GRE frame with source routes (RFC 1701)."""
    return ipv4(47, b"\x40\0\x08\0\0\0\0\0" + entries + bytes(4) + PACKET)


def blocks(text: Text, gaps: int, duplicates: int) -> bytes:
    """Return an SCTP SACK chunk of the correct length."""
    return chunk(3, text.take(8) + struct.pack("!HH", gaps, duplicates) + text.take(4 * (gaps + duplicates)))


def ascending(text: Text, count: int) -> bytes:
    """Return an SCTP SACK chunk with ascending gap blocks of text."""
    values = sorted(text.take(2) for _ in range(2 * count))
    return chunk(3, text.take(8) + struct.pack("!HH", count, 0) + b"".join(values))


def tags(ethertype: bytes, text: Text, count: int) -> bytes:
    return ethernet(int.from_bytes(ethertype), text.each(count, 2, ethertype)[:-2] + b"\x08\0" + PACKET)


def tags_in_llc(text: Text) -> bytes:
    """Return a frame with VLAN tags between SNAP headers."""
    snap = b"\xaa\xaa\3\0\0\0\x81\0"
    body = snap + text.take(2) + b"\x08\0"
    for _ in range(11):
        body = snap + text.take(2) + len(body).to_bytes(2) + body
    return ethernet(len(body), body)


def mpls_in(protocol: int, head: bytes = b""):
    return lambda t: ipv4(protocol, head + t.take(1200))


CONSTRUCTS = {  # key: a file in workflow/native/src/anonymize/headers, and what is repeated
    "link: MPLS without a bottom": lambda t: ethernet(0x8847, t.take(1256)),
    "link: MPLS multicast": lambda t: ethernet(0x8848, t.take(600)),
    "link: MPLS with a bottom": lambda t: ethernet(0x8847, labels(t, 16)),
    "link: MPLS deeper than 16": lambda t: ethernet(0x8847, labels(t, 60)),
    "link: MPLS over UDP": lambda t: udp(6635, t.take(1284)),
    "link: MPLS in IP": mpls_in(137),
    "link: MPLS in GRE": mpls_in(47, b"\0\0\x88\x47"),
    "link: MPLS in PPP": mpls_in(47, b"\0\0\x88\x0b\xff\3\2\x81"),
    "link: MPLS in PPPoE": lambda t: ethernet(0x8864, b"\x11\0\0\7" + (602).to_bytes(2) + b"\2\x81" + t.take(600)),
    "link: PTP": lambda t: ethernet(0x88F7, t.take(1) + b"2" + t.take(80)),
    "link: customer tags": lambda t: tags(b"\x81\0", t, 26),
    "link: service tags": lambda t: tags(b"\x88\xa8", t, 26),
    "link: both tags": lambda t: ethernet(0x88A8, t.each(12, 2, b"\x81\0", 2, b"\x88\xa8") + t.take(2) + b"\x08\0"),
    "link: tags in LLC": tags_in_llc,
    "network: IPv4 options of two bytes": lambda t: ip_options(t.each(20, 1, b"\2")),
    "network: IPv4 router alerts": lambda t: ip_options(t.each(10, b"\x94\4", 2)),
    "network: IPv4 timestamps": lambda t: ip_options(b"\x44\x28\5\0" + t.take(36)),
    "network: IPv4 timestamps in turn": lambda t: ip_options(t.each(5, b"\x44\x08\5\0", 4)),
    "network: IPv4 record routes": lambda t: ip_options(t.each(13, b"\7\3", 1)),
    "network: AH in IPv6": lambda t: ipv6(51, t.each(60, b"\x33\1", 10)),
    "network: AH in IPv4": lambda t: ipv4(51, t.each(60, b"\x33\1", 10)),
    "network: fragments": lambda t: ipv6(44, t.each(60, b"\x2c", 1, b"\0\0", 4)),
    "network: hop-by-hop headers": lambda t: ipv6(0, t.each(60, b"\0\0\5\2", 2, b"\1\0")),
    "network: destination options": lambda t: ipv6(60, t.each(60, b"\x3c\0\4\1", 1, b"\1\1\0")),
    "network: routing headers": lambda t: ipv6(43, t.each(60, b"\x2b\0\0", 5)),
    "network: segment routing headers": lambda t: ipv6(43, t.each(30, b"\x2b\2\4\0\0", 3, bytes(16))),
    "network: all extension headers in turn": lambda t: ipv6(60, t.each(
        20, b"\x2b\0\4\1", 1, b"\1\1\0", b"\x2c\0\0", 5, b"\x33", 1, b"\0\0", 4, b"\x3c\1", 10)),
    "network: IPv6 option types": lambda t: hop_by_hop(t.each(124, 1, b"\0")),
    "network: IPv6 options without a value, as text": lambda t: hop_by_hop(t.take(246)),
    "network: IPv6 router alerts": lambda t: hop_by_hop(t.each(60, b"\5\2", 2)),
    "network: IPv6 encapsulation limits": lambda t: hop_by_hop(t.each(80, b"\4\1", 1)),
    "network: jumbograms": lambda t: hop_by_hop(t.each(40, b"\xc2\4", 4)),
    "icmp: neighbor options": lambda t: neighbor(t.each(60, 1, b"\1", 6)),
    "icmp: routes": lambda t: neighbor(t.each(60, b"\x18\1", 6)),
    "icmp: routes with a prefix": lambda t: neighbor(t.each(30, b"\x18\2", 6, 8)),
    "icmp: MTU": lambda t: neighbor(t.each(60, b"\5\1", 6)),
    "icmp: prefixes": lambda t: neighbor(t.each(15, b"\3\4", 14, bytes(16))),
    "icmp: name servers": lambda t: neighbor(t.each(20, b"\x19\3", 6, bytes(16))),
    "icmp: listener records": lambda t: ipv6(58, b"\x8f" + bytes(5) + b"\0\x19" + t.each(25, 1, bytes(19))),
    "icmp: IGMP records": lambda t: ipv4(2, b"\x22\0\0\0\0\0\0\x3c" + t.each(60, 1, b"\0\0\0", ADDRESS)),
    "transport: TCP option kinds": lambda t: tcp(t.each(20, 1, b"\2")),
    "transport: TCP options as text": lambda t: tcp(t.take(40)),
    "transport: TCP segment sizes": lambda t: tcp(t.each(10, b"\2\4", 2)),
    "transport: TCP window scales": lambda t: tcp(t.each(13, b"\3\3", 1)),
    "transport: TCP timestamps": lambda t: tcp(t.each(4, b"\x08\x0a", 8)),
    "transport: TCP SACK blocks": lambda t: tcp(b"\5\x22" + t.take(32)),
    "transport: TCP SACK options": lambda t: tcp(t.each(4, b"\5\x0a", 8)),
    "transport: MPTCP options": lambda t: tcp(t.each(13, b"\x1e\3", 1)),
    "transport: MPTCP addresses": lambda t: tcp(t.each(5, b"\x1e\x08\x30", 1, ADDRESS)),
    "transport: SCTP chunks of 4 bytes": lambda t: sctp(t.each(200, 2, b"\0\4")),
    "transport: SCTP chunks of 4 bytes, known types": lambda t: sctp(t.each(200, b"\x0b", 1, b"\0\4")),
    "transport: SCTP SACK": lambda t: sctp(blocks(t, 300, 0)),
    "transport: SCTP SACK in order": lambda t: sctp(ascending(t, 300)),
    "transport: SCTP SACK duplicates": lambda t: sctp(blocks(t, 0, 300)),
    "transport: SCTP SACK in turn": lambda t: sctp(*(blocks(t, 2, 1) for _ in range(40))),
    "transport: SCTP SHUTDOWN in turn": lambda t: sctp(*(chunk(7, t.take(4)) for _ in range(60))),
    "transport: SCTP FORWARD TSN in turn": lambda t: sctp(*(chunk(0xC0, t.take(8)) for _ in range(60))),
    "transport: SCTP INIT ACK in turn": lambda t: sctp(*(chunk(2, t.take(16)) for _ in range(40))),
    "transport: SCTP parameters": lambda t: init(t.each(105, 2, b"\0\4")),
    "transport: SCTP address types": lambda t: init(t.each(35, b"\0\x0c\0\x0a", 6, b"\0\0")),
    "transport: SCTP parameters with a number": lambda t: sctp(chunk(
        0xC1, bytes(4) + b"\0\5\0\x08" + ADDRESS + t.each(40, b"\xc0\1\0\x10", 4, b"\0\5\0\x08", ADDRESS))),
    "tunnel: Geneve options of length 0": lambda t: geneve(t.each(60, 3, b"\0")),
    "tunnel: Geneve options as text": lambda t: geneve(t.take(240)),
    "tunnel: Geneve options with data": lambda t: geneve(t.each(15, 3, b"\3", 12)),
    "tunnel: Geneve options of a known class": lambda t: geneve(t.each(60, b"\1\2", 1, b"\0")),
    "tunnel: GTP extensions": lambda t: gtp(t.each(60, b"\1", 3) + b"\1\0\0\0"),
    "tunnel: GTP extensions of a known type": lambda t: gtp(t.each(60, b"\1", 2, b"\x85") + b"\1\0\0\0"),
    "tunnel: GRE routes of length 0": lambda t: routes(t.each(60, 3, b"\0")),
    "tunnel: GRE routes of IPv4": lambda t: routes(t.each(60, b"\x08\0", 1, b"\4", ADDRESS)),
}  # fmt: skip


def header_offset(frame: bytes) -> int:
    """Return the earliest offset of the repeated header: after the link header, and after IP if present."""
    kind = int.from_bytes(frame[12:14])
    return 54 if kind == 0x86DD else 34 if kind == 0x0800 else 14


def run_of_text(text: bytes, left: bytes) -> int:
    """Return RUN if ``left`` contains RUN bytes of the repeated text, otherwise 0."""
    endless = text * (2 + RUN // len(text))
    windows = {endless[at : at + RUN] for at in range(len(text))}
    return max((RUN for at in range(len(left) - RUN + 1) if left[at : at + RUN] in windows), default=0)


def frames_of(name: str, code: str) -> list[tuple[Text, bytes]]:
    """Return frames of a construct with the text started at different positions."""
    return [(text, CONSTRUCTS[name](text)) for text in [Text(code, start) for start in range(0, len(SENTENCE), 5)]]


# Limit on unchanged bytes that may be text in valid header fields, and matches in pseudonyms.
TEXT_BYTES = 32


def unchanged_printable(frame: bytes, left: bytes) -> int:
    """Return the number of unchanged bytes in and after the repeated header that are printable ASCII characters."""
    return sum(a == b and 0x20 <= a < 0x7F for a, b in [*zip(frame, left, strict=False)][header_offset(frame) :])


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_no_run_of_text_in_a_repeated_header_is_kept(name, code, tmp_path):
    created = frames_of(name, code)
    for (text, frame), left in zip(created, released(tmp_path, [frame for _, frame in created]), strict=True):
        assert len(left) >= header_offset(frame), "the headers before it are kept"
        assert run_of_text(text.content, left[header_offset(frame) :]) < RUN, left.hex()
        assert unchanged_printable(frame, left) <= TEXT_BYTES


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("name", CONSTRUCTS)
def test_remaining_text_in_a_repeated_header_is_found(name, code, tmp_path):
    frame = CONSTRUCTS[name](Text(code))
    assert find_leak(tmp_path, [frame]) is None
    assert find_leak(tmp_path, [frame], restore_original(header_offset(frame), len(frame)))


def test_anonymized_text_in_repeated_headers_is_never_rejected(tmp_path):
    """The search has the same limits as the anonymization."""
    created = [frame for name in CONSTRUCTS for code in CODES for _, frame in frames_of(name, code)]
    assert find_leak(tmp_path, created) is None


def test_release_of_text_in_repeated_headers_contains_no_run_of_it(tmp_path):
    """Runs only commands, from the capture to the files of a release."""
    each = [(Text(code), CONSTRUCTS[name]) for name in CONSTRUCTS for code in CODES]
    frames = [(10**18 + 1000 * n, make(text)) for n, (text, make) in enumerate(each)]
    campaign = indexed(tmp_path, [("one", "s", "p", write_pcap(tmp_path / "true.pcap", frames))])
    (capture,) = (published(campaign) / "captures").iterdir()
    left = [frame for *_, frame in records(capture.read_bytes())]
    assert len(left) == len(frames)
    for (text, _), (_, frame), kept in zip(each, frames, left, strict=True):
        assert run_of_text(text.content, kept[header_offset(frame) :]) < RUN
        assert unchanged_printable(frame, kept) <= TEXT_BYTES


ALL_EXTENSIONS = b"\x3c\0\5\2\0\0\1\0\x2b\0\4\1\7\1\1\0\x2c\0\3" + bytes(5) + b"\x33\0\0\1\0\0\0\7"
ALL_EXTENSIONS += b"\x3c\1\0\0\0\0\0\x08\0\0\0\x09\x11\0\4\1\7\1\1\0"


@pytest.mark.parametrize(
    ("frame", "begin", "end"),  # the bytes of the frame that must be kept
    [
        pytest.param(ethernet(0x88A8, b"\0\7\x81\0\0\x08\x81\0\0\x09\x08\0" + PACKET), 12, 26, id="three tags"),
        pytest.param(ethernet(0x8847, b"\0\1\2\x40\0\1\x12\x3f\0\1\x25\x3e" + PACKET), 12, 26, id="three labels"),
        pytest.param(tcp(b"\2\4\5\xb4\4\2\x08\x0a\0\0\0\1\0\0\0\2\1\3\3\7"), 54, 74, id="TCP options"),
        pytest.param(tcp(b"\1\1\5\x0a\0\0\0\1\0\0\0\2"), 54, 66, id="a TCP SACK block"),
        pytest.param(ip_options(b"\x44\x10\x11\0\0\0\0\1\0\0\0\2\0\0\0\3"), 34, 50, id="IPv4 timestamps"),
        pytest.param(hop_by_hop(b"\5\2\0\0\1\0"), 54, 62, id="IPv6 options"),
        pytest.param(ipv6(0, ALL_EXTENSIONS + PACKET[20:]), 54, 106, id="all IPv6 extension headers"),
        pytest.param(sctp(chunk(3, bytes(8) + b"\0\2\0\1\0\2\0\3\0\5\0\6\0\0\0\1")), 46, 74, id="SCTP SACK"),
        pytest.param(init(b"\x80\0\0\4\xc0\0\0\4\0\x0c\0\6\0\5"), 46, 82, id="SCTP INIT"),
        pytest.param(neighbor(b"\5\1\0\0\0\0\5\xdc\x18\1\0\x08\0\0\7\x08"), 62, 78, id="neighbor options"),
        pytest.param(geneve(b"\1\2\x80\0\1\x08\1\0"), 50, 58, id="Geneve options"),
        pytest.param(gtp(b"\1\0\0\xc0\1\0\0\0"), 50, 62, id="GTP extensions"),
    ],
)
def test_repeats_of_real_traffic_are_kept(frame, begin, end, tmp_path):
    """The headers are repeated as often as in real traffic."""
    (left,) = released(tmp_path, [frame])
    assert (len(left), left[begin:end]) == (len(frame), frame[begin:end])


def test_sack_with_too_many_blocks_becomes_a_shorter_chunk_with_padding(tmp_path):
    """RFC 9260 section 3.3.4, RFC 4820 section 3. The TCP option keeps its first block (RFC 2018 section 4)."""
    blocks = b"".join(struct.pack("!HH", 2 * n + 2, 2 * n + 2) for n in range(5))
    many = sctp(chunk(3, bytes(8) + b"\0\5\0\2" + blocks + b"\0\0\0\7\0\0\0\x08"))
    edges = [struct.pack("!II", 8 * n, 8 * n + 4) for n in range(1, 4)]
    left = released(tmp_path, [many, tcp(b"\1\1\5\x1a" + b"".join(edges))])
    assert left[0][46:] == chunk(3, bytes(8) + b"\0\3\0\0" + blocks[:12]) + chunk(0x84, bytes(12))
    assert left[1][54:] == b"\1\1\5\x0a" + edges[0] + b"\1" * 16
