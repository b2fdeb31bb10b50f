"""Seeds of fuzz_trial: two small captures with loss, reordering and equal packets. Usage: seeds_trial.py DIRECTORY."""

import struct

import seed_files

MACS = bytes.fromhex("001b21aabbcc001b21ddeeff")
TIME = struct.pack(">Q", 1_700_000_000_000_000_000)
TAG = TIME + struct.pack(">HH", 3, 1) + TIME[1::-1] + b"\x65\x87"  # CHOIR's trailer


def packet(number: int) -> bytes:
    """Return a UDP packet in IPv4."""
    data = struct.pack("!HHHHQ", 50_000, 40_001, 16, 0, number)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), number, 0, 64, 17, 0)
    return MACS + b"\x08\0" + header + bytes((10, 0, 0, 1, 10, 0, 0, 2)) + data


def packet_6(number: int) -> bytes:
    """Return an ICMPv6 packet."""
    return MACS + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, 8, 58, 64) + bytes(32) + struct.pack("!Q", number)


def length(number: int) -> bytes:
    """Return an 802.3 frame with LLC and padding."""
    return MACS + b"\0\x0b\xf0\xf0\x03" + struct.pack("!Q", number) + bytes(5)


def tagged(number: int) -> bytes:
    """Return a packet with the trailer of CHOIR."""
    return packet(number) + TAG[:7] + bytes((number,)) + TAG[8:]


def isl(number: int) -> bytes:
    """Return a Cisco ISL frame with IPv4 in SNAP after a service tag."""
    data = bytes.fromhex("aaaa030000000800") + packet(number)[14:]
    frame = MACS + b"\x88\xa8\0\7" + struct.pack(">H", len(data)) + data
    inside = b"\xaa\xaa\x03" + bytes(9) + frame + b"fcs!"
    return bytes.fromhex("01000c000000001b21ddeeff") + struct.pack(">H", len(inside)) + inside


def pcap(frames: list[bytes], cut: int = 65535) -> bytes:
    """Return a nanosecond pcap; every third timestamp equals the previous one."""
    records = [
        struct.pack("<IIII", 1, 1000 * (n - n // 3), min(cut, len(frame)), len(frame)) + frame[:cut]
        for n, frame in enumerate(frames)
    ]
    return struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1) + b"".join(records)


def seeds() -> dict[str, bytes]:
    """Return the seeds: choices, length of the first capture, both captures."""
    created = {}
    for choice in (0, 1, 2, 3, 4, 0x40, 0x80, 0x9A):
        for make in (packet, packet_6, length, isl, tagged):
            first = pcap([make(n) for n in (0, 1, 2, 3, 3, 4, 5)])
            second = pcap([make(n) for n in (1, 0, 3, 2, 3, 6)], cut=40 if choice == 4 else 65535)
            created[f"{make.__name__}-{choice}"] = struct.pack("<BH", choice, len(first)) + first + second
    return created


if __name__ == "__main__":
    seed_files.write(seeds())
