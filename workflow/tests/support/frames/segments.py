"""TCP segments of numbered flows, built faster than with scapy. Their checksums are zero."""

import struct


def segment(flow: int, seq: int, flags: int, size: int = 0) -> bytes:
    """Return an Ethernet frame of a flow with ``size`` bytes of payload. Sequence numbers wrap."""
    tcp = struct.pack("!HHIIBBHHH", 40000, 443, seq % 2**32, 1, 0x50, flags, 1000, 0, 0) + bytes(size)
    addresses = struct.pack("!II", 0x0A000000 + flow, 0x0B000001)
    return bytes(12) + b"\x08\x00" + struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0) + addresses + tcp
