"""Captures of trials: the default one, whose bytes are reproducible, and changes to a given pcap.

The default is UDP over IPv4 at a fixed packet rate, in eight flows. It contains no user traffic. The last flow requests
expedited forwarding (RFC 3246), so a switch with an expedited queue sends its packets before other waiting packets.
Every packet is different: a sequence number and pseudorandom bytes follow the headers. The addresses are reserved for
benchmarks of devices (RFC 2544, appendix C.2.2); no host uses them, so none replies.
"""

import contextlib
import hashlib
import mmap
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from acapella_core.errors import UserError

KEY = "local.replay.capture"
PACKETS = 3000
MAX_PACKETS = 2_000_000  # per capture: 1 to 6 s for each of the few passes that a replay makes over its packets
GAP_NS = 500_000
START_NS = 1_700_000_000_000_000_000  # timestamp of the first frame; replays only use the gaps
FRAME_BYTES = (60, 60, 60, 60, 590, 590, 1514, 1514)  # small, medium and large, chosen pseudorandomly
SOURCE, TARGET = bytes([198, 18, 0, 1]), bytes([198, 19, 0, 1])
FLOWS = (*((port, 0) for port in range(5001, 5008)), (5008, 46 << 2))  # UDP port, type of service: DSCP 46 is EF
SEED = b"acapella replay 1"
HEADERS_BYTES = 14 + 20 + 8
FILE_HEADER_BYTES, RECORD_HEADER_BYTES = 24, 16  # sizes in a pcap file
NANOSECONDS = 0xA1B23C4D  # magic number of a pcap with nanoseconds
MACS_BYTES = 12
SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6  # blocks of a pcapng
NANOSECOND_OPTION = struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)  # if_tsresol: 10^-9 s; end of options


def write(path: Path, source_mac: str, target_mac: str, packets: int = PACKETS) -> None:
    """Write the capture: pcap, Ethernet, nanoseconds, whole frames between these MAC addresses (`02:00:...`)."""
    addresses = mac_bytes(target_mac, source_mac)
    with path.open("wb") as stream:
        stream.write(struct.pack("<IHHiIII", NANOSECONDS, 2, 4, 0, 0, 65535, 1))
        # A loop over packets: there are few, and each is written once. The core handles large captures.
        for number, (size, flow) in enumerate(choices(packets)):
            frame = addresses + packet(number, size, *FLOWS[flow])
            seconds, nanoseconds = divmod(START_NS + number * GAP_NS, 10**9)
            stream.write(struct.pack("<IIII", seconds, nanoseconds, len(frame), len(frame)) + frame)


def set_mac_addresses(path: Path, source_mac: str, target_mac: str, key: str = KEY) -> None:
    """Set the MAC addresses of each frame of an Ethernet pcap in place, except in frames truncated before the
    EtherType.

    tcprewrite 4.4.3 could do this, but it assigns multicast addresses to IPv6 frames regardless of its options.
    Raises UserError, which names the config key of the capture, if it is not a pcap or has more than MAX_PACKETS
    packets.
    """
    addresses = mac_bytes(target_mac, source_mac)
    with map_pcap(path, mmap.ACCESS_WRITE, key) as data:
        for offset, captured in record_offsets(data, byte_order(data), key):
            frame = offset + RECORD_HEADER_BYTES
            if captured > len(addresses) and frame + captured <= len(data):
                data[frame : frame + len(addresses)] = addresses


@contextlib.contextmanager
def map_pcap(path: Path, access: int = mmap.ACCESS_READ, key: str = KEY) -> Iterator[mmap.mmap]:
    """Map a pcap, so that a large one is not copied into memory. Raises UserError if it is too short."""
    mode = "rb" if access == mmap.ACCESS_READ else "r+b"
    if path.stat().st_size < FILE_HEADER_BYTES:
        raise UserError(f"{path.name} is not a pcap: it has no file header", where=key)
    with path.open(mode) as stream, mmap.mmap(stream.fileno(), 0, access=access) as data:
        yield data


def byte_order(data: mmap.mmap) -> str:
    """Return the byte order of a pcap: the most significant byte of the magic number is last, or first."""
    return "<" if data[3] == 0xA1 else ">"


def record_offsets(data: mmap.mmap, order: str, key: str) -> Iterator[tuple[int, int]]:
    """Yield the offset of each record of a pcap and the captured length; the last frame may be truncated.

    This is a loop over packets, because only the length of a record leads to the next one. Raises UserError if there
    are more than MAX_PACKETS.
    """
    length = struct.Struct(f"{order}I")
    offset, number = FILE_HEADER_BYTES, 0
    while offset + RECORD_HEADER_BYTES <= len(data):
        number += 1
        if number > MAX_PACKETS:
            fix = "replay a part of it, for example one that editcap -r writes"
            raise UserError(f"the capture has more than {MAX_PACKETS:,} packets", where=key, fix=fix)
        (captured,) = length.unpack_from(data, offset + 8)
        yield offset, captured
        offset += RECORD_HEADER_BYTES + captured


def records(path: Path, key: str = KEY) -> Iterator[tuple[int, bytes]]:
    """Yield the time of each frame of a pcap in ns, and its record with the record header. Raises UserError."""
    with map_pcap(path, key=key) as data:
        order = byte_order(data)
        time = struct.Struct(f"{order}II")
        unit_ns = 1 if struct.unpack_from(f"{order}I", data)[0] == NANOSECONDS else 1000
        for offset, captured in record_offsets(data, order, key):
            seconds, fraction = time.unpack_from(data, offset)
            yield seconds * 10**9 + fraction * unit_ns, data[offset : offset + RECORD_HEADER_BYTES + captured]


def mean_gap_ns(path: Path) -> float:
    """Return the mean gap between the frames of a pcap; 0 if there are fewer than two."""
    times = np.fromiter((ts_ns for ts_ns, _ in records(path)), np.int64)
    return float(np.ptp(times)) / (len(times) - 1) if len(times) > 1 else 0


def split(path: Path, targets: Sequence[Path], key: str = KEY) -> list[int]:
    """Write frame i of a pcap to target i modulo the number of targets; return the time of each first frame, in ns.

    Times are relative to the first frame of the pcap. Raises UserError, which names the config key of the capture, if
    there are fewer frames than targets.
    """
    offsets: list[int] = []
    with contextlib.ExitStack() as files:
        streams = [files.enter_context(target.open("wb")) for target in targets]
        with map_pcap(path, key=key) as data:
            header = data[:FILE_HEADER_BYTES]
        for stream in streams:
            stream.write(header)
        start_ns = None
        for number, (ts_ns, record) in enumerate(records(path, key)):
            start_ns = ts_ns if start_ns is None else start_ns
            if number < len(targets):
                offsets.append(ts_ns - start_ns)
            streams[number % len(streams)].write(record)
    check_count(len(offsets), len(targets), key)
    return offsets


def write_interfaces(path: Path, target: Path, source_macs: Sequence[str]) -> None:
    """Write a pcap as pcapng with an interface for each source MAC address: frame i belongs to interface i modulo
    the number of interfaces, and gets the source address of that interface. Raises UserError if there are fewer frames
    than interfaces.
    """
    with map_pcap(path) as data:
        order = byte_order(data)
    sources = [mac_bytes(mac) for mac in source_macs]
    count = 0
    with target.open("wb") as stream:
        stream.write(block(SECTION, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        for _ in sources:
            stream.write(block(INTERFACE, struct.pack("<HHI", 1, 0, 65535) + NANOSECOND_OPTION))
        for count, (ts_ns, record) in enumerate(records(path), 1):
            interface = (count - 1) % len(sources)
            captured, wire = struct.unpack_from(f"{order}II", record, 8)
            frame = bytearray(record[RECORD_HEADER_BYTES:])
            if captured > MACS_BYTES:
                frame[MACS_BYTES // 2 : MACS_BYTES] = sources[interface]
            header = struct.pack("<IIIII", interface, ts_ns >> 32, ts_ns & 0xFFFFFFFF, captured, wire)
            stream.write(block(PACKET, header + bytes(frame)))
    check_count(count, len(sources))


def block(kind: int, body: bytes) -> bytes:
    """Return a block of a pcapng."""
    padded = body + bytes(-len(body) % 4)
    length = struct.pack("<I", len(padded) + 12)
    return struct.pack("<I", kind) + length + padded + length


def check_count(frames: int, replayers: int, key: str = KEY) -> None:
    """Raise UserError if not every replayer has a frame."""
    if frames < replayers:
        raise UserError(f"{frames} frames cannot be distributed to {replayers} replayers", where=key)


def is_ethernet_pcap(path: Path) -> bool:
    """Return whether a file is a pcap with Ethernet frames, with microseconds or nanoseconds, of either byte order."""
    with path.open("rb") as stream:
        header = stream.read(FILE_HEADER_BYTES)
    orders = {struct.pack(order + "I", magic): order for order in "<>" for magic in (0xA1B2C3D4, NANOSECONDS)}
    order = orders.get(header[:4])
    return len(header) == FILE_HEADER_BYTES and order is not None and struct.unpack(order + "I", header[20:])[0] == 1


def mac_bytes(*macs: str) -> bytes:
    """Return MAC addresses as bytes."""
    return b"".join(bytes.fromhex(mac.replace(":", "")) for mac in macs)


def choices(packets: int) -> Iterator[tuple[int, int]]:
    """Yield frame size and flow number of each packet."""
    for value in hashlib.shake_256(SEED).digest(packets):
        yield FRAME_BYTES[value % len(FRAME_BYTES)], value // len(FRAME_BYTES) % len(FLOWS)


def packet(number: int, frame_bytes: int, port: int, service: int) -> bytes:
    """Return EtherType, IPv4 and UDP headers with their checksums, and the payload."""
    size = frame_bytes - HEADERS_BYTES
    content = (number.to_bytes(8, "big") + hashlib.shake_256(SEED + number.to_bytes(8, "big")).digest(size))[:size]
    udp = struct.pack("!HHHH", port, port, 8 + size, 0)
    pseudo = SOURCE + TARGET + struct.pack("!BBH", 0, 17, 8 + size)
    udp = udp[:6] + (checksum(pseudo + udp + content) or 0xFFFF).to_bytes(2, "big")  # RFC 768: 0 means no checksum
    ip = struct.pack("!BBHHHBBH", 0x45, service, 28 + size, number % 65536, 0x4000, 64, 17, 0) + SOURCE + TARGET
    ip = ip[:10] + checksum(ip).to_bytes(2, "big") + ip[12:]
    return b"\x08\x00" + ip + udp + content


def checksum(data: bytes) -> int:
    """Return the Internet checksum, RFC 1071: the one's complement sum is a remainder modulo 2^16 - 1."""
    padded = data + bytes(len(data) % 2)
    return 0xFFFF - (int.from_bytes(padded, "big") % 0xFFFF or (0xFFFF if any(padded) else 0))
