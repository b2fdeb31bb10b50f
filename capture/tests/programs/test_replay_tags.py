"""Tags of acapella-dpdk-replay: CHOIR's trailer, and lengths and checksums that are corrected for it."""

import itertools
import struct

from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer
from acapella_testing.frames.trial_captures import pair
from acapella_testing.frames.tunnel_frames import checksum
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import LLC, Dot1AD, Dot1Q, Dot3, Ether
from scapy.packet import Raw

START_NS = 1_700_000_000_123_456_789
ETHERNET = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
V4, V6 = IP(src="10.0.0.1", dst="10.0.0.2"), IPv6(src="fd00::1", dst="fd00::2")
DATAGRAM, SEGMENT = UDP(sport=5000, dport=5001), TCP(sport=5000, dport=443, flags="PA")
HEADERS = {
    "udp": ETHERNET / V4 / DATAGRAM,
    "udp, no checksum": ETHERNET / V4 / UDP(sport=5000, dport=5001, chksum=0),
    "tcp": ETHERNET / V4 / SEGMENT,
    "icmp": ETHERNET / V4 / ICMP(id=1, seq=1),
    "sctp": ETHERNET / IP(src="10.0.0.1", dst="10.0.0.2", proto="sctp"),
    "vlan": ETHERNET / Dot1Q(vlan=7) / V4 / DATAGRAM,
    "qinq": ETHERNET / Dot1AD(vlan=5) / Dot1Q(vlan=7) / V6 / SEGMENT,
    "udp 6": ETHERNET / V6 / DATAGRAM,
    "icmp 6": ETHERNET / V6 / ICMPv6EchoRequest(id=1, seq=1),
    "802.3": Dot3(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / LLC(dsap=0xF0, ssap=0xF0, ctrl=3),
    "other": Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02", type=0x88B5),
}


def packet(name: str, payload: bytes) -> bytes:
    """Return a packet with its lengths and checksums: a tagged packet is the one with a longer payload."""
    return bytes(HEADERS[name] / Raw(payload))


def trailer(ns: int, node: int, port: int) -> bytes:
    stamp = ns.to_bytes(8, "big")
    return stamp + struct.pack("!HH", node, port) + stamp[1::-1] + b"\x65\x87"


def spaced(frames: list[bytes], gap_ns: int) -> list[dpdk.Frame]:
    """Return frames with gaps of ``gap_ns``."""
    return [dpdk.Frame(START_NS + i * gap_ns, len(data), data) for i, data in enumerate(frames)]


def replayed(tmp_path, frames: list[bytes], *words: object, gap_ns: int = 1000) -> list[bytes]:
    """Return the packets sent from `frames`, which are `gap_ns` apart."""
    path = replayer.write_capture(tmp_path / "in.pcap", spaced(frames, gap_ns))
    out = tmp_path / "out.pcap"
    with replayer.loaded(path, "--vdev", f"net_pcap0,tx_pcap={out}", "--tx", "net_pcap0", *words) as program:
        assert program.run()["sent"] == len(frames)
        program.ask(f"save {tmp_path / 'saved.pcapng'}", "saved")
        assert program.end() == 0, program.messages
    saved = dpdk.read_pcapng(tmp_path / "saved.pcapng").frames
    assert [frame.data for frame in saved] == frames  # the recording itself is not tagged
    return replayer.sent_to_file(out)


PAYLOADS = [bytes(range(64)), bytes(range(63)), b"x" * 300, b"z"]
FRAMES = [packet(*each) for each in itertools.product(HEADERS, PAYLOADS)]


def test_frame_is_followed_by_its_trailer_and_otherwise_unchanged(tmp_path):
    assert replayed(tmp_path, FRAMES, "--tag", "choir", "--node", 7) == [
        data + trailer(START_NS + i * 1000, 7, 0) for i, data in enumerate(FRAMES)
    ]


def test_lengths_and_checksums_include_the_trailer_as_payload(tmp_path):
    assert replayed(tmp_path, FRAMES, "--tag", "fixed", "--node", 300) == [
        packet(name, payload + trailer(START_NS + i * 1000, 300, 0))
        for i, (name, payload) in enumerate(itertools.product(HEADERS, PAYLOADS))
    ]


def test_fragments_keep_their_layer_4_header(tmp_path):
    headers = [
        IP(src="10.0.0.1", dst="10.0.0.2", flags=flags, frag=offset) for flags, offset in (("MF", 0), ("MF", 8), (0, 8))
    ]
    frames = [bytes(ETHERNET / header / DATAGRAM / Raw(b"x" * 64)) for header in headers]
    for i, (before, after) in enumerate(zip(frames, replayed(tmp_path, frames, "--tag", "fixed"), strict=True)):
        assert after[34:] == before[34:] + trailer(START_NS + i * 1000, 0, 0)
        assert struct.unpack_from("!H", after, 16)[0] == len(after) - 14
        assert checksum(after[14:34]) == 0


def test_truncated_headers_are_tagged_without_being_read_beyond_their_end(tmp_path):
    frames = [packet(name, b"")[:cut] for cut in range(15, 60, 3) for name in ("udp", "qinq", "tcp")]
    sent = replayed(tmp_path, frames, "--tag", "fixed")
    assert [data[-16:] for data in sent] == [trailer(START_NS + i * 1000, 0, 0) for i in range(len(frames))]
    assert [len(data) - 16 for data in sent] == [len(data) for data in frames]


def test_packets_of_a_burst_have_distinct_trailers(tmp_path):
    assert [data[-16:] for data in replayed(tmp_path, [packet("udp", b"same")] * 50, "--tag", "choir", gap_ns=0)] == [
        trailer(START_NS + i, 0, 0) for i in range(50)
    ]


def test_kappa_matches_tagged_packets(tmp_path, capsys):
    sent = replayed(tmp_path, [packet("udp", b"same")] * 50, "--tag", "fixed")
    trials = [replayer.write_capture(tmp_path / f"{step}.pcap", spaced(sent, step)) for step in (1000, 2000)]
    assert pair(capsys, "--identity", "tag", *trials)["n_common"] == 50
