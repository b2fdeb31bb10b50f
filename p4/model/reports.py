"""Reports as RoCEv2 frames: RDMA WRITE of an unreliable connection, without the ICRC that the loader appends.

schemas/report_formats.tsv defines the layouts of the payloads.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

_LAYOUTS = Path(__file__).resolve().parents[2] / "schemas" / "report_formats.tsv"
ICRC_BYTES = 4
HEADER_BYTES = 14 + 20 + 8 + 12 + 16
UC_WRITE_ONLY = 0x2A  # InfiniBand architecture volume 1, section 9.2: opcode of unreliable connections
ROCE_PORT = 4791
FIRST_SOURCE_PORT = 0xC000  # RFC 6335: a dynamic port per queue pair, so that its packets take one path


@cache
def layout(number: int) -> tuple[tuple[str, int, int], ...]:
    """Return name, offset and length of each field of a format."""
    with _LAYOUTS.open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines, delimiter="\t") if int(row["format"]) == number]
    return tuple((row["name"], int(row["offset"]), int(row["bytes"])) for row in rows)


def pack(number: int, values: dict[str, int]) -> bytes:
    """Return a payload; missing values are 0. Raises KeyError for unknown fields."""
    fields = layout(number)
    unknown = set(values) - {name for name, _, _ in fields}
    if unknown:
        raise KeyError(f"not in format {number}: {sorted(unknown)}")
    raw = bytearray(max(offset + length for _, offset, length in fields))
    for name, offset, length in fields:
        raw[offset : offset + length] = values.get(name, 0).to_bytes(length, "big")
    return bytes(raw)


def unpack(number: int, raw: bytes) -> dict[str, int]:
    """Return the fields of a payload."""
    return {name: int.from_bytes(raw[offset : offset + length], "big") for name, offset, length in layout(number)}


def unpack_frame(raw: bytes) -> dict[str, int]:
    """Return the fields of a complete frame with ICRC, and the header fields that differ between reports."""
    payload = raw[HEADER_BYTES:-ICRC_BYTES]
    number = next(number for number in (1, 2) if layout(number)[-1][1] + layout(number)[-1][2] == len(payload))
    bth, reth = raw[42:54], raw[54:70]
    fields = {"queue_pair": bth[4:8], "psn": bth[8:12], "address": reth[:8], "key": reth[8:12], "length": reth[12:]}
    return {name: int.from_bytes(value, "big") for name, value in fields.items()} | unpack(number, payload)


def checksum(raw: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    total = sum(int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def frame(settings: dict[str, int], queue_pair: dict[str, int], pair: int, payload: bytes) -> bytes:
    """Return a frame from Ethernet to the end of the payload; lengths include the ICRC."""
    inner = 12 + 16 + len(payload) + ICRC_BYTES
    udp = b"".join(value.to_bytes(2, "big") for value in (FIRST_SOURCE_PORT + pair, ROCE_PORT, 8 + inner, 0))
    ip = bytearray(bytes.fromhex("4500 0000 0000 4000 4011 0000"))
    ip[2:4] = (20 + 8 + inner).to_bytes(2, "big")
    ip += settings["report_src_ip"].to_bytes(4, "big") + settings["report_dst_ip"].to_bytes(4, "big")
    ip[10:12] = checksum(bytes(ip)).to_bytes(2, "big")
    ethernet = settings["report_dst_mac"].to_bytes(6, "big") + settings["report_src_mac"].to_bytes(6, "big")
    bth = bytes((UC_WRITE_ONLY, 0x40, 0xFF, 0xFF))  # migration state migrated, no padding; default partition
    bth += queue_pair["qp_number"].to_bytes(4, "big") + queue_pair["qp_psn"].to_bytes(4, "big")
    reth = queue_pair["qp_address"].to_bytes(8, "big") + queue_pair["qp_key"].to_bytes(4, "big")
    reth += len(payload).to_bytes(4, "big")
    return ethernet + b"\x08\x00" + bytes(ip) + udp + bth + reth + payload
