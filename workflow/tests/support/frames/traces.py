"""Small captures for tests: frames as on a mirrored port of a testbed, built with scapy.

A trace is a list of (ts_ns, frame bytes). `write_pcap` truncates frames to the snap length and keeps their wire length.
"""

import functools
from pathlib import Path

from acapella_testing.frames import pcap_files
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, GRE, Dot1Q, Ether
from scapy.packet import Raw

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000
YEAR_586524_US = 18_446_744_073_709_551_615  # the latest time of a pcapng file with microseconds
ETHER = {"src": "00:56:2b:00:00:01", "dst": "00:56:2b:00:00:02"}  # of a known vendor: tshark checks it in pseudowires
CONTROL_WORD = b"\x00\x00\x00\x00"


def write_pcap(path: Path, trace: list[tuple[int, bytes]], snaplen: int = 200) -> Path:
    """Write a nanosecond pcap, with the snap length of a testbed."""
    return pcap_files.write_pcap(path, trace, snaplen)


def underlay(kind: str, network, vlan: int = 100, labels: tuple = (17, 18)) -> bytes:
    """Return ``network`` (a scapy packet without link header) inside the headers that the testbed adds."""
    ethertype = 0x86DD if isinstance(network, IPv6) else 0x0800
    inner = bytes(Ether(**ETHER, type=ethertype) / network)
    outer = Ether(**ETHER)
    if kind == "plain":
        return inner
    if kind == "vlan":
        return bytes(outer / Dot1Q(vlan=vlan, type=ethertype) / network)
    if kind == "qinq":
        return bytes(Ether(**ETHER, type=0x88A8) / Dot1Q(vlan=vlan) / Dot1Q(vlan=vlan + 1, type=ethertype) / network)
    if kind == "mpls":
        return bytes(outer / Dot1Q(vlan=vlan, type=0x8847) / MPLS(label=labels[0], s=1, ttl=9)) + bytes(network)
    tags = outer / Dot1Q(vlan=vlan, type=0x8847)
    stack = labels[:1] if kind == "pw" else labels
    for label in stack:
        tags /= MPLS(label=label, s=int(label == stack[-1]), ttl=9)
    return bytes(tags) + CONTROL_WORD + inner


def ip(src: str, dst: str, **more):
    """Return an IPv4 or IPv6 header."""
    if ":" in src:
        return IPv6(src=src, dst=dst, hlim=64)
    return IP(src=src, dst=dst, ttl=64, **more)


class Connection:
    """A TCP connection with different labels in each direction; it collects its frames."""

    def __init__(  # noqa: PLR0913 (a test names the two or three that matter to it)
        self, kind, start_ns, *, client="10.0.0.1", server="10.0.0.2", ports=(40000, 443), vlan=100, labels=(17, 27)
    ):
        self.kind, self.now, self.vlan, self.labels = kind, start_ns, vlan, labels
        self.ends, self.ports = (client, server), ports
        self.seq = [1000, 0xFFFFFF00]  # the server's sequence numbers wrap early
        self.trace = []

    def send(self, way: int, flags: str, payload: bytes = b"", *, back: int = 0, after_ns: int = MS):
        """Add one segment. ``way`` 0 is from the client. ``back``: the number of bytes to retransmit."""
        seq = (self.seq[way] - back) % 2**32
        ack = self.seq[1 - way] if "A" in flags else 0
        tcp = TCP(sport=self.ports[way], dport=self.ports[1 - way], flags=flags, seq=seq, ack=ack, window=8192)
        packet = ip(self.ends[way], self.ends[1 - way]) / tcp / Raw(payload)
        labels = (self.labels[way], self.labels[way] + 1)
        self.trace.append((self.now, underlay(self.kind, packet, self.vlan, labels)))
        self.now += after_ns
        length = len(payload) + ("S" in flags) + ("F" in flags)
        self.seq[way] = (max(0, length - back) + self.seq[way]) % 2**32
        return self

    def handshake(self, half_rtt_ns: int = 5 * MS):
        """Add SYN, SYN/ACK and ACK, ``half_rtt_ns`` apart."""
        return self.send(0, "S", after_ns=half_rtt_ns).send(1, "SA", after_ns=half_rtt_ns).send(0, "A")

    def close(self):
        """Add FIN in both directions."""
        return self.send(0, "FA").send(1, "FA").send(0, "A")


def whole_connection(kind, start_ns, **more):
    """Return a connection with handshake, data in both directions, a retransmission, duplicate ACKs, and close."""
    c = Connection(kind, start_ns, **more).handshake()
    c.send(0, "PA", b"q" * 300).send(1, "A", b"r" * 1400).send(0, "A").send(1, "A", b"r" * 1400)
    c.seq[1] -= 1400  # the client misses the last segment and acknowledges the previous one twice more
    c.send(0, "A").send(0, "A")
    c.seq[1] += 1400
    c.send(1, "A", b"r" * 700, back=700)
    return c.send(0, "A").close().trace


def refused(kind, start_ns, **more):
    """Return a SYN answered by RST."""
    return Connection(kind, start_ns, **more).send(0, "S").send(1, "RA").trace


def cut_in_the_middle(kind, start_ns, segments=5, **more):
    """Return data of a connection that starts before the trace and continues after it."""
    c = Connection(kind, start_ns, **more)
    for _ in range(segments):
        c.send(0, "A", b"d" * 1448)
    return c.send(1, "A").trace


def datagrams(kind, start_ns, *, src="10.0.0.1", dst="10.0.0.2", size=8000, count=3):  # noqa: PLR0913
    """Return UDP datagrams in one direction."""
    packet = ip(src, dst) / UDP(sport=5000, dport=5201) / Raw(b"u" * size)
    return [(start_ns + n * MS, underlay(kind, packet)) for n in range(count)]


def fragments(start_ns):
    """Return one datagram in three fragments."""
    parts = fragment(ip("10.0.0.5", "10.0.0.6", id=7) / UDP(sport=7000, dport=7001) / Raw(b"f" * 3000), fragsize=1400)
    return [(start_ns + n * MS, underlay("vlan", part)) for n, part in enumerate(parts)]


def others(start_ns):
    """Return ARP, ping and GRE."""
    arp = bytes(Ether(**{**ETHER, "dst": "ff:ff:ff:ff:ff:ff"}) / ARP(psrc="10.0.0.1", pdst="10.0.0.2")) + bytes(18)
    ping = ip("10.0.0.1", "10.0.0.2") / ICMP(id=5, seq=1) / Raw(b"p" * 56)
    inner = ip("10.0.0.1", "10.0.0.2") / UDP(sport=1, dport=2) / Raw(b"g" * 99)
    gre = ip("192.0.2.1", "192.0.2.2") / GRE(proto=0x0800) / inner
    frames = [arp, underlay("vlan", ping), underlay("mpls", ping), underlay("plain", gre)]
    return [(start_ns + n * MS, frame) for n, frame in enumerate(frames)]


def merged(*traces):
    """Return several traces as one, in time order."""
    return sorted((frame for trace in traces for frame in trace), key=lambda frame: frame[0])


def busy_port(start_ns: int = START_NS, shift: int = 0) -> list[tuple[int, bytes]]:
    """Return a mix of all kinds of traffic. ``shift`` changes the client ports of most TCP connections."""
    return list(_busy_port(start_ns, shift))


def busy_frames() -> list[bytes]:
    """Return the frames of `busy_port` without their times."""
    return [frame for _, frame in busy_port()]


@functools.cache
def _busy_port(start_ns: int, shift: int) -> list[tuple[int, bytes]]:
    """Return the mix, which is cached because scapy builds it slowly."""
    ports = (40000 + shift, 443)
    return merged(
        whole_connection("pw2", start_ns, ports=ports),
        whole_connection("plain", start_ns + 7 * MS, ports=ports, client="2001:db8::1", server="2001:db8::2"),
        whole_connection("mpls", start_ns + 11, ports=ports, vlan=300, labels=(50, 60)),
        refused("pw", start_ns + 3 * MS, ports=(41000 + shift, 9)),
        cut_in_the_middle("qinq", start_ns + 40 * MS, ports=(42000, 5201)),
        datagrams("pw2", start_ns + 1500 * MS),
        datagrams("vlan", start_ns + 2100 * MS, src="2001:db8::3", dst="2001:db8::4", size=1000, count=4),
        fragments(start_ns + 50 * MS),
        others(start_ns + 60 * MS),
    )
