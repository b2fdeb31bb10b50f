"""Seeds of fuzz_reports: frames of both formats of reports, in and out of order. Usage: seeds_reports.py DIRECTORY."""

import struct
import zlib

import seed_files

SIZES = {1: 64, 0: 192}  # by the lowest bit of the choices


def report(published: int, flow: int, number: int) -> bytes:
    """Return a report of a TCP flow."""
    ends = struct.pack("!BBBB", 10, 0, 0, flow) + struct.pack("!BBBB", 10, 0, 0, 2)
    if published:
        head = ends + struct.pack(
            "!HHI4III4HII", 443, 50000, 7, *[number * 900] * 4, 3, 2, *[number] * 4, number, number
        )
        return head + struct.pack("!Q", number * 700)
    head = struct.pack("!BBBBHHBBHHH", 2, 4, 6, 16, 2, 0xFF, 1, 1, 443, 50000, 0)
    head += bytes(12) + ends[:4] + bytes(12) + ends[4:] + struct.pack("!4H4I", 100, 0, 0, 0, 16, 0, 0, 0)
    head += struct.pack("!IIQQQQ", number // 4, number, number * 700, 1, number * 900, number)
    head += struct.pack("!QQQIIIIQQQ", 5, 6, 7, number, number * 800, number * 700, 1, 2, 3, number * 800)
    return head + bytes(16)


def frame(payload: bytes, psn: int, slot: int) -> bytes:
    """Return an RDMA WRITE ONLY in UDP, preceded by its length, as fuzz_reports expects."""
    address = 0x7000 + slot * len(payload)
    data = struct.pack("!BBHIIQII", 0x2A, 0x40, 0xFFFF, 0x11, psn, address, 0x1234, len(payload)) + payload
    udp = struct.pack("!HHHH", 1, 4791, 12 + len(data), 0)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 32 + len(data), 0, 0, 64, 17, 0) + bytes((10, 0, 0, 1, 10, 0, 0, 2))
    packet = header + udp + data
    masked = bytearray(b"\xff" * 8 + packet)
    for at in (1, 8, 10, 11, 26, 27, 32):
        masked[8 + at] = 0xFF
    created = bytes(12) + b"\x08\0" + packet + struct.pack("<I", zlib.crc32(masked))
    return struct.pack("<H", len(created)) + created


def seeds() -> dict[str, bytes]:
    """Return the seeds: a byte of choices, then frames."""
    created = {}
    for choice in (0, 1, 2, 3, 4, 5, 12, 13, 0xC4, 0xC5, 0xCC, 0x36):
        order = [0, 1, 2, 5, 5, 3, 6, 7]
        frames = [frame(report(choice & 1, psn % 3, psn), psn, psn % 4) for psn in order]
        assert len(report(choice & 1, 1, 1)) == SIZES[choice & 1]
        created[f"reports-{choice}"] = bytes((choice,)) + b"".join(frames)
    return created


if __name__ == "__main__":
    seed_files.write(seeds())
