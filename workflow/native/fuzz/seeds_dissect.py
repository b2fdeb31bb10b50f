"""Seeds of fuzz_dissect: a small frame for each header that the core dissects. Usage: seeds_dissect.py DIRECTORY."""

import struct
import sys
from pathlib import Path

LINK = {"ethernet": 0, "sll": 1, "sll2": 2, "null": 3, "loop": 4, "raw": 5}
MACS = bytes.fromhex("001b21aabbcc001b21ddeeff")
DATA = bytes(range(32))


def ipv4(protocol: int, payload: bytes, fragment: int = 0) -> bytes:
    addresses = bytes((10, 0, 0, 1, 10, 0, 0, 2))
    return struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 1, fragment, 64, protocol, 0) + addresses + payload


def ipv6(protocol: int, payload: bytes) -> bytes:
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 64) + bytes(32) + payload


def udp(port: int, payload: bytes) -> bytes:
    return struct.pack("!HHHH", 50_000, port, 8 + len(payload), 0) + payload


def tcp(options: bytes, payload: bytes) -> bytes:
    offset = (20 + len(options)) // 4
    return struct.pack("!HHIIHHHH", 50_000, 443, 1, 2, offset << 12 | 0x18, 100, 0, 0) + options + payload


def ethernet(ethertype: int, payload: bytes) -> bytes:
    return MACS + struct.pack("!H", ethertype) + payload


def frames() -> dict[str, tuple[str, bytes]]:
    """Return link type and bytes of each frame by name."""
    packet = ipv4(17, udp(40_001, DATA))
    inner = ethernet(0x0800, packet)
    label = struct.pack("!I", 1000 << 12 | 0x140)
    stack = struct.pack("!I", 1000 << 12 | 0x40) + label
    ip = {
        "tcp": ipv4(6, tcp(bytes.fromhex("1e0c0001020304050607080900000000"), DATA)),
        "udp": packet,
        "fragment": ipv4(17, DATA, 0x2010),
        "icmp_quote": ipv4(1, b"\3\3\0\0\0\0\0\0" + packet),
        "igmp": ipv4(2, b"\x16\0\0\0\xe0\0\0\1"),
        "sctp": ipv4(132, bytes(12) + b"\0\3\0\x20" + DATA),
        "gre_eth": ipv4(47, b"\x30\0\x65\x58" + bytes(8) + inner),
        "gre_erspan": ipv4(47, b"\x10\0\x88\xbe\0\0\0\1\x10\0\0\0\0\0\0\0" + inner),
        "ipip": ipv4(4, packet),
        "6in4": ipv4(41, ipv6(17, udp(53, DATA))),
        "pim": ipv4(103, b"\x21\0\0\0\0\0\0\0" + packet),
        "ah": ipv4(51, b"\x11\4\0\0" + bytes(20) + udp(53, DATA)),
        "mpls_in_ip": ipv4(137, label + packet),
        "vxlan": ipv4(17, udp(4789, b"\x08\0\0\0\0\0\1\0" + inner)),
        "vxlan_gpe": ipv4(17, udp(4790, b"\x0c\0\0\3\0\0\1\0" + inner)),
        "vxlan_gpe_ip": ipv4(17, udp(4790, b"\x0c\0\0\1\0\0\1\0" + packet)),
        "geneve": ipv4(17, udp(6081, b"\1\0\x65\x58\0\0\1\0" + bytes(4) + inner)),
        "gtp": ipv4(17, udp(2152, b"\x34\xff\0\x44" + bytes(7) + b"\x85\1\0\0\0" + packet)),
        "roce": ipv4(17, udp(4791, b"\x0a\x40\xff\xff" + bytes(8) + bytes(16) + DATA)),
        "teredo": ipv4(17, udp(3544, b"\0\1\0\0" + bytes(9) + ipv6(17, udp(53, DATA)))),
        "l2tp": ipv4(17, udp(1701, b"\xc8\2" + bytes(14))),
        "esp_in_udp": ipv4(17, udp(4500, DATA)),
        "ipv6_extensions": ipv6(
            0, b"\x2b\0\1\4\0\0\0\0" + b"\x2c\2\4\0\0\0\0\0" + bytes(16) + b"\x11\0\0\1\0\0\0\1" + udp(53, DATA)
        ),
        "icmpv6": ipv6(58, b"\x87\0" + bytes(22)),
    }
    link = {
        "arp": ethernet(0x0806, b"\0\1\x08\0\6\4\0\1" + bytes(20)),
        "vlan": ethernet(0x88A8, b"\0\5\x81\0\0\6\x08\0" + packet),
        "vlan_llc": ethernet(0x8100, b"\0\5\0\x23\x42\x42\3" + DATA),
        "snap": ethernet(60, b"\xaa\xaa\3\0\0\0\x08\0" + packet),
        "isis": ethernet(60, b"\xfe\xfe\3\x83\x1b\1\0\x12\1\0\0" + DATA),
        "pw": ethernet(0x8847, label + bytes(4) + inner),
        "pw_plain": ethernet(0x8847, label + inner),
        "pw_sequence": ethernet(0x8847, label + b"\0\0\1\2" + inner),
        "pw2": ethernet(0x8100, b"\0\5\x88\x47" + stack + bytes(4) + inner),
        "pppoe": ethernet(0x8864, b"\x11\0\0\1" + struct.pack("!H", 2 + len(packet)) + b"\0\x21" + packet),
        "pbb": ethernet(0x88A8, b"\0\5\x88\xe7" + b"\0\0\0\7" + inner),
        "lacp": ethernet(0x8809, b"\1\1" + DATA),
        "ptp": ethernet(0x88F7, b"\0\2\0\x2c" + DATA),
    }
    others = {
        "sll": ("sll", b"\0\0\0\1\0\6" + bytes(8) + b"\x08\0" + packet),
        "sll2": ("sll2", b"\x08\0\0\0\0\0\0\1\0\1\0\6" + bytes(8) + packet),
        "null": ("null", b"\2\0\0\0" + packet),
        "loop": ("loop", b"\0\0\0\2" + packet),
        "raw": ("raw", packet),
    }
    found = {name: ("ethernet", ethernet(0x86DD if body[0] >> 4 == 6 else 0x0800, body)) for name, body in ip.items()}
    return found | {name: ("ethernet", body) for name, body in link.items()} | others


def main(directory: str) -> None:
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for name, (link, body) in frames().items():
        (target / name).write_bytes(bytes((LINK[link], 0, 0, 0)) + body)
        if name.startswith("pw"):
            (target / f"{name}_vendors").write_bytes(bytes((LINK[link], 1, 0, 0)) + body)
        (target / f"{name}_cut").write_bytes(bytes((LINK[link], 0, 4, 0)) + body[:-20])


if __name__ == "__main__":
    main(sys.argv[1])
