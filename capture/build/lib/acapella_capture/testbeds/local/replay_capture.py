"""The capture that trials replay where the user gives none: the same bytes each time, and no one's traffic.

UDP over IPv4 at a fixed rate, in eight flows; the last flow asks for expedited forwarding (RFC 3246), so that a switch
with a queue for it sends its packets past others that wait. Every packet is another: a sequence number and bytes that
look random follow the headers. The addresses are those for benchmarks of devices (RFC 2544, appendix C.2.2); no host
has them, so that none answers.
"""

import hashlib
import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

PACKETS = 3000
GAP_NS = 500_000
START_NS = 1_700_000_000_000_000_000  # of the first stamp; replaying needs the gaps alone
FRAME_BYTES = (60, 60, 60, 60, 590, 590, 1514, 1514)  # small, middle and large, picked at random
SOURCE, TARGET = bytes([198, 18, 0, 1]), bytes([198, 19, 0, 1])
FLOWS = (*((port, 0) for port in range(5001, 5008)), (5008, 46 << 2))  # UDP port, type of service: DSCP 46 is EF
SEED = b"acapella replay 1"
HEADERS_BYTES = 14 + 20 + 8
FILE_HEADER_BYTES, RECORD_HEADER_BYTES = 24, 16  # of a pcap


def write(path: Path, source_mac: str, target_mac: str, packets: int = PACKETS) -> None:
    """Write the capture: pcap, Ethernet, nanoseconds, whole frames between these MAC addresses (`02:00:...`)."""
    addresses = octets_of(target_mac, source_mac)
    with path.open("wb") as stream:
        stream.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        # A loop over packets, of which there are few and each once; elsewhere that is for the core.
        for number, (size, flow) in enumerate(choices(packets)):
            frame = addresses + packet(number, size, *FLOWS[flow])
            seconds, nanoseconds = divmod(START_NS + number * GAP_NS, 10**9)
            stream.write(struct.pack("<IIII", seconds, nanoseconds, len(frame), len(frame)) + frame)


def put_between(path: Path, source_mac: str, target_mac: str) -> None:
    """Give each frame of a pcap of Ethernet these MAC addresses, in place; one cut before its ethertype keeps its own.

    tcprewrite does that too, but to frames of IPv6 it gives multicast addresses, whatever it is asked for (4.4.3).
    """
    addresses = octets_of(target_mac, source_mac)
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as octets:
        length = struct.Struct("<I" if octets[3] == 0xA1 else ">I")  # the magic number's first octet stands last
        at = FILE_HEADER_BYTES
        while at + RECORD_HEADER_BYTES <= len(octets):  # as in `write`, each packet once
            (captured,) = length.unpack_from(octets, at + 8)
            at += RECORD_HEADER_BYTES
            if captured > len(addresses) and at + captured <= len(octets):
                octets[at : at + len(addresses)] = addresses
            at += captured


def octets_of(*macs: str) -> bytes:
    """MAC addresses as they stand in a frame."""
    return b"".join(bytes.fromhex(mac.replace(":", "")) for mac in macs)


def choices(packets: int) -> Iterator[tuple[int, int]]:
    """Size of the frame and number of the flow, packet by packet."""
    for octet in hashlib.shake_256(SEED).digest(packets):
        yield FRAME_BYTES[octet % len(FRAME_BYTES)], octet // len(FRAME_BYTES) % len(FLOWS)


def packet(number: int, frame_bytes: int, port: int, service: int) -> bytes:
    """Ethertype, IPv4 and UDP headers with their checksums, and the content."""
    size = frame_bytes - HEADERS_BYTES
    content = (number.to_bytes(8, "big") + hashlib.shake_256(SEED + number.to_bytes(8, "big")).digest(size))[:size]
    udp = struct.pack("!HHHH", port, port, 8 + size, 0)
    pseudo = SOURCE + TARGET + struct.pack("!BBH", 0, 17, 8 + size)
    udp = udp[:6] + (checksum(pseudo + udp + content) or 0xFFFF).to_bytes(2, "big")  # RFC 768: 0 means none
    ip = struct.pack("!BBHHHBBH", 0x45, service, 28 + size, number % 65536, 0x4000, 64, 17, 0) + SOURCE + TARGET
    ip = ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:]
    return b"\x08\x00" + ip + udp + content


def checksum(octets: bytes) -> int:
    """The Internet checksum, RFC 1071: modulo 2^16 - 1 as one's complement adds."""
    words = octets + bytes(len(octets) % 2)
    return 0xFFFF - (int.from_bytes(words, "big") % 0xFFFF or (0xFFFF if any(words) else 0))
