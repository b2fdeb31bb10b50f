"""Creates the captures in this directory: two ports of one site and one of another, with a few hundred frames.

Run it as `.venv/bin/python .test/make_captures.py [DIRECTORY]`. Each run creates identical files; test_workflow.py
checks that they are the committed ones.
"""

import gzip
import sys
from pathlib import Path

from scapy.contrib.mpls import MPLS
from scapy.layers.dns import DNS, DNSQR
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils import RawPcapWriter

START_NS = 1_767_225_600_000_000_000  # 2026-01-01T00:00:00Z
STEP_NS = 1_000_003
SNAPLEN = 200
CLIENT, SERVER = "00:16:3e:00:00:01", "00:16:3e:00:00:02"


def http(version: int, port: int, segments: int) -> list[Packet]:
    """Return a complete TCP connection: handshake, request, `segments` of the response, both FINs."""
    forward = IP(src="10.0.0.1", dst="10.0.0.2", id=1) if version == 4 else IPv6(src="fd00::1", dst="fd00::2")
    back = IP(src="10.0.0.2", dst="10.0.0.1", id=1) if version == 4 else IPv6(src="fd00::2", dst="fd00::1")

    def client(flags: str, seq: int, ack: int, data: bytes = b"") -> Packet:
        return forward / TCP(sport=port, dport=80, flags=flags, seq=seq, ack=ack) / Raw(data)

    def server(flags: str, seq: int, ack: int, data: bytes = b"") -> Packet:
        return back / TCP(sport=80, dport=port, flags=flags, seq=seq, ack=ack) / Raw(data)

    request, block = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n" + b"a" * 1381
    acked, sent = 101 + len(request), 501
    frames = [client("S", 100, 0), server("SA", 500, 101), client("A", 101, 501), client("PA", 101, 501, request)]
    for number in range(segments):
        frames.append(server("PA", sent, acked, block if number == 0 else b"a" * 1400))
        sent += 1400
        frames.append(client("A", acked, sent))
    return [
        *frames,
        server("FA", sent, acked),
        client("FA", acked, sent + 1),
        server("A", sent + 1, acked + 1),
    ]


def short_exchanges(count: int) -> list[Packet]:
    """Return DNS queries with responses, pings, and a refused connection."""
    frames: list[Packet] = []
    for number in range(count):
        query = DNS(id=number, qd=DNSQR(qname=f"host{number}.example.org"))
        frames += [
            IP(src="10.0.0.1", dst="10.0.0.53") / UDP(sport=30000 + number, dport=53) / query,
            IP(src="10.0.0.53", dst="10.0.0.1") / UDP(sport=53, dport=30000 + number) / DNS(bytes(query), qr=1),
            IP(src="10.0.0.1", dst="10.0.0.2") / ICMP(type=8, id=7, seq=number) / Raw(b"p" * 56),
            IP(src="10.0.0.2", dst="10.0.0.1") / ICMP(type=0, id=7, seq=number) / Raw(b"p" * 56),
        ]
    syn = IP(src="10.0.0.1", dst="10.0.0.2") / TCP(sport=40000, dport=81, flags="S", seq=1)
    reset = IP(src="10.0.0.2", dst="10.0.0.1") / TCP(sport=81, dport=40000, flags="RA", seq=0, ack=2)
    return [*frames, syn, reset]


def plain(packets: list[Packet]) -> list[Packet]:
    """Return the frames at the port of a host, ARP first."""
    arp = ARP(hwsrc=CLIENT, psrc="10.0.0.1", pdst="10.0.0.2")
    return [
        Ether(src=CLIENT, dst="ff:ff:ff:ff:ff:ff") / arp,
        *(Ether(src=CLIENT, dst=SERVER) / each for each in packets),
    ]


def encapsulated(packets: list[Packet]) -> list[Packet]:
    """Return the frames at a core port: VLAN, two MPLS labels, a pseudowire with control word, the frame."""
    outer = Ether(src="02:00:00:00:01:01", dst="02:00:00:00:01:02") / Dot1Q(vlan=100)
    labels = MPLS(label=17, s=0, ttl=64) / MPLS(label=99, s=1, ttl=64)
    return [outer / labels / Raw(bytes(4) + bytes(Ether(src=CLIENT, dst=SERVER) / each)) for each in packets]


def write(path: Path, frames: list[Packet]) -> None:
    """Write a nanosecond pcap with frames truncated to SNAPLEN bytes; with gzip, without a date, if it is named .gz."""
    plain_path = path.with_suffix("") if path.suffix == ".gz" else path
    writer = RawPcapWriter(str(plain_path), linktype=1, nano=True, snaplen=SNAPLEN, endianness="<")
    writer.write_header(None)
    for number, frame in enumerate(frames):
        data = bytes(frame)
        seconds, nanoseconds = divmod(START_NS + number * STEP_NS, 1_000_000_000)
        writer.write_packet(
            data[:SNAPLEN], sec=seconds, usec=nanoseconds, caplen=min(len(data), SNAPLEN), wirelen=len(data)
        )
    writer.close()
    if path.suffix == ".gz":
        with path.open("wb") as target, gzip.GzipFile("", "wb", fileobj=target, mtime=0) as stream:
            stream.write(plain_path.read_bytes())
        plain_path.unlink()


def main(directory: Path) -> None:
    """Write all three captures."""
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "alpha-p1.pcap.gz", plain(http(4, 50001, 20) + short_exchanges(8)))
    write(directory / "alpha-p2.pcap.gz", encapsulated(http(4, 50001, 20) + http(6, 50002, 12)))
    write(directory / "beta-p1.pcap.gz", plain(http(6, 50003, 30) + short_exchanges(4)))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "captures")
