"""Flow reports in RoCEv2 frames, built from schemas/report_formats.tsv with zlib, without code of the core."""

import struct
import zlib

from acapella_testing.csv_rows import read_rows
from acapella_testing.frames import pcap_files
from acapella_testing.frames.tunnel_frames import checksum

from acapella_core import schemas

WIDTHS = {1: ">B", 2: ">H", 4: ">I", 8: ">Q"}
FLAGS = ("start", "rtt_syn", "rtt_ack", "iat", "seq", "ack", "slot", "tags", "last", "uncertain")
VALID = {name: 1 << bit for bit, name in enumerate(FLAGS)}
TRIGGER = {"syn": 1, "ack": 2, "fin": 4, "rst": 8, "nth": 16, "time": 32, "first": 64, "probe": 128, "data_ack": 256}


def layout(number: int) -> list[dict]:
    """Return the rows of a format."""
    rows = [row for row in read_rows(schemas.root() / "report_formats.tsv") if row["format"] == str(number)]
    return [{**row, "offset": int(row["offset"]), "bytes": int(row["bytes"])} for row in rows]


LAYOUTS = {number: layout(number) for number in (1, 2)}
BYTES = {number: rows[-1]["offset"] + rows[-1]["bytes"] for number, rows in LAYOUTS.items()}


def report(number: int, **fields) -> bytes:
    """Return a report; addresses are bytes. Unnamed fields are 0; in format 2, the default is TCP over IPv4."""
    created = bytearray(BYTES[number])
    if number == 2:
        fields = {"version": 2, "ip_version": 4, "ip_proto": 6, **fields}
    for row in LAYOUTS[number]:
        value = fields.pop(row["name"], 0)
        if isinstance(value, bytes):
            created[row["offset"] + row["bytes"] - len(value) : row["offset"] + row["bytes"]] = value
        elif row["bytes"] in WIDTHS:
            struct.pack_into(WIDTHS[row["bytes"]], created, row["offset"], value)
    if fields:
        raise KeyError(f"format {number} has no {', '.join(fields)}")
    return bytes(created)


def icrc(packet: bytes) -> bytes:
    """Return the ICRC of a packet from its IPv4 header to the end of the payload (IBTA annex A17)."""
    masked = bytearray(b"\xff" * 8 + packet)
    for at in (1, 8, 10, 11, 26, 27, 32):
        masked[8 + at] = 0xFF
    return struct.pack("<I", zlib.crc32(masked))


def frame(  # noqa: PLR0913  (each is a field that a test damages)
    payload: bytes,
    *,
    psn: int,
    address: int,
    queue_pair: int = 0x11,
    key: int = 0x1234,
    opcode: int = 0x2A,
    vlans: tuple[int, ...] = (),
    length: int | None = None,
    port: int = 4791,
    damage_icrc: bool = False,
) -> bytes:
    """Return a RoCEv2 RDMA WRITE ONLY frame; `length`: RETH's DMA length if it differs from the payload's length."""
    bth = struct.pack("!BBHII", opcode, 0x40, 0xFFFF, queue_pair, psn)
    reth = struct.pack("!QII", address, key, len(payload) if length is None else length)
    udp = struct.pack("!HHHH", 0xF803, port, 8 + len(bth + reth + payload) + 4, 0)
    total = 20 + len(udp + bth + reth + payload) + 4
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, total, 0, 0x4000, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    packet = header + udp + bth + reth + payload
    tags = b"".join(struct.pack("!HH", 0x8100, vlan) for vlan in vlans)
    crc = icrc(packet)
    if damage_icrc:
        crc = bytes((crc[0] ^ 1, *crc[1:]))
    return b"\x02\0\0\0\0\x02\x02\0\0\0\0\x01" + tags + b"\x08\0" + packet + crc


def pcap(frames: list[bytes], cut: int = 65535) -> bytes:
    """Return a nanosecond Ethernet pcap with frames truncated to ``cut`` bytes."""
    return pcap_files.pcap(((1_700_000_000 * 10**9 + n * 1000, data) for n, data in enumerate(frames)), cut)
