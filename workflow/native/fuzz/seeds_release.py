"""Seeds of fuzz_release: those of fuzz_dissect, and headers with addresses in their options.

Usage: seeds_release.py DIRECTORY.
"""

import sys
from pathlib import Path

import seeds_dissect
from seeds_dissect import DATA, ethernet, ipv4, ipv6, tcp

V4, V6, MAC = bytes((10, 0, 0, 3)), bytes(range(16)), b"\x00\x1b\x21\1\2\3"


def ipv4_with_options(body: bytes, protocol: int, payload: bytes) -> bytes:
    """Return an IPv4 packet with options."""
    plain = ipv4(protocol, payload)
    return (
        bytes((0x45 + len(body) // 4,))
        + plain[1:2]
        + (len(plain) + len(body)).to_bytes(2)
        + plain[4:20]
        + body
        + payload
    )


def frames() -> dict[str, bytes]:
    """Return Ethernet frames by name."""
    ip = {
        "record_route": ipv4_with_options(b"\7\x0b\4" + 2 * V4 + b"\0", 17, DATA),
        "source_route": ipv4_with_options(b"\x83\7\4" + V4 + b"\1", 17, DATA),
        "time_stamps": ipv4_with_options(b"\x44\x0c\5\1" + V4 + bytes(4), 17, DATA),
        "mptcp": ipv4(6, tcp(b"\x1e\x08\x30\1" + V4, DATA)),
        "sctp_init": ipv4(132, bytes(12) + b"\1\0\0\x30" + bytes(16) + b"\0\5\0\x08" + V4 + b"\0\6\0\x14" + V6),
        "sctp_asconf": ipv4(
            132, bytes(12) + b"\xc1\0\0\x20" + bytes(4) + b"\0\5\0\x08" + V4 + b"\xc0\1\0\x10\0\0\0\1\0\5\0\x08" + V4
        ),
        "igmp3": ipv4(2, b"\x22\0\0\0\0\0\0\1" + b"\1\0\0\1" + 2 * V4),
        "igmp_query": ipv4(2, b"\x11\0\0\0" + V4 + b"\2\x7d\0\1" + V4),
        "redirect": ipv4(1, b"\5\1\0\0" + V4 + ipv4(17, DATA)),
        "solicitation": ipv6(58, b"\x87\0\0\0\0\0\0\0" + V6 + b"\1\1" + MAC),
        "router": ipv6(
            58,
            b"\x86\0"
            + bytes(14)
            + b"\3\4\x40\xc0"
            + bytes(12)
            + V6
            + b"\x19\3"
            + bytes(6)
            + V6
            + b"\x18\3\x40\0"
            + bytes(4)
            + V6,
        ),
        "redirect6": ipv6(58, b"\x89\0" + bytes(6) + 2 * V6 + b"\4\x0a" + bytes(6) + ipv6(17, DATA)),
        "listeners": ipv6(58, b"\x8f\0\0\0\0\0\0\1" + b"\4\0\0\1" + 2 * V6),
        "listener_query": ipv6(58, b"\x82\0" + bytes(6) + V6 + b"\0\0\0\1" + V6),
        "home_address": ipv6(60, b"\x11\2\xc9\x10" + V6 + b"\1\2\0\0" + DATA),
        "routing": ipv6(43, b"\x11\4\0\2" + bytes(4) + 2 * V6 + DATA),
        "segments": ipv6(43, b"\x11\4\4\1\1\0\0\0" + 2 * V6 + DATA),
        "teredo_origin": ipv4(
            17, b"\xc3\x50\x0d\xd8\0\0\0\0"[:4] + (8 + 8 + 40).to_bytes(2) + bytes(2) + b"\0\0\1\2" + V4 + ipv6(59, b"")
        ),
    }
    return {name: ethernet(0x86DD if body[0] >> 4 == 6 else 0x0800, body) for name, body in ip.items()} | repeats()


def repeats() -> dict[str, bytes]:
    """Return frames with more repeated headers than the anonymization keeps."""
    packet = ipv4(17, DATA)
    ip = {
        "repeat_ah": ipv4(51, 3 * (b"\x33\1" + 10 * b"A") + b"\x11\1" + bytes(10) + DATA),
        "repeat_extensions": ipv6(60, 3 * (b"\x3c\0\4\1\1\1\1\0" + b"\x2c\0\5\2\0\0\1\0") + b"\x3c\0\0\1" + bytes(4)),
        "repeat_options": ipv6(0, b"\x3b\3" + 6 * b"\5\2AA" + b"A\0" + b"A\2AA"),
        "repeat_kinds": ipv4(6, tcp(2 * b"\5\x0aAAAABBBB" + b"A\4AA\2\4AA\2\4AA", DATA)),
        "repeat_blocks": ipv4(6, tcp(b"\5\x12AAAABBBBCCCCDDDD\1\1", DATA)),
        "repeat_stamps": ipv4_with_options(b"\x44\x18\5\0" + 20 * b"A", 17, DATA),
        "repeat_chunks": ipv4(132, bytes(12) + 2 * (b"\3A\0\x24" + 8 * b"A" + b"\0\3\0\2" + 20 * b"A") + b"AA\0\4"),
        "repeat_neighbors": ipv6(58, b"\x85" + bytes(7) + 3 * (b"\x18\1" + 6 * b"A") + b"A\1" + 6 * b"A"),
        "repeat_routes": ipv4(47, b"\x40\0\x08\0" + bytes(4) + 2 * (b"\x08\0\0\4" + V4) + b"AAA\0" + bytes(4) + packet),
    }
    created = {name: ethernet(0x86DD if body[0] >> 4 == 6 else 0x0800, body) for name, body in ip.items()}
    created["repeat_tags"] = ethernet(0x8100, 5 * b"AA\x81\0" + b"AA\x08\0" + packet)
    created["repeat_labels"] = ethernet(0x8847, 8 * b"AABA" + b"AAAA" + packet)
    created["repeat_labels_alone"] = ethernet(0x8847, 12 * b"AABA")
    return created


PLANTED = {  # the first byte of the input, then types and lengths
    "tcp": (0xF0, b"\x08\x28"),
    "ipv4": (0xF1, b"\x94\x28"),
    "ipv6": (0xF2, b"\x05\xfc\xc2\x20"),
    "sctp": (0xF3, b"\3\xfc\x0d\x30"),
    "neighbor": (0xF4, b"\5\x0b\x19\x0a"),
}


def main(directory: str) -> None:
    """Write all seeds."""
    seeds_dissect.main(directory)
    for name, (kind, options) in PLANTED.items():
        (Path(directory) / f"planted_{name}").write_bytes(bytes((kind,)) + options + bytes(2))
    for name, frame in frames().items():
        for kind in range(3):
            (Path(directory) / f"{name}_{kind}").write_bytes(bytes((0, kind, 0, 0)) + frame)
        (Path(directory) / f"{name}_cut").write_bytes(bytes((0, 0, 0, 9)) + frame[:-9])


if __name__ == "__main__":
    main(sys.argv[1])
