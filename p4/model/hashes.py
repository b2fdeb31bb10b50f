"""The two hashes that a program has on DPDK's software pipeline, over octets in network order.

`jhash` is Bob Jenkins' lookup3 (public domain, 2006) as rte_jhash calls it, `crc32` is CRC-32C (Castagnoli) as
rte_hash_crc calls it: initial value 0 and no final inversion, so that it is linear over GF(2).
"""

from __future__ import annotations

import struct

MASK = 0xFFFFFFFF
_GOLDEN_RATIO = 0xDEADBEEF  # of rte_jhash, not of Knuth
_CASTAGNOLI = 0x82F63B78  # reflected


def _crc_table() -> list[int]:
    table = []
    for octet in range(256):
        value = octet
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32(octets: bytes) -> int:
    """CRC-32C of the octets, initial value 0, not inverted."""
    value = 0
    for octet in octets:
        value = value >> 8 ^ _TABLE[(value ^ octet) & 0xFF]
    return value


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & MASK


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for by in (4, 6, 8, 16, 19, 4):
        a = (a - c) & MASK ^ _rotated(c, by)
        c = (c + b) & MASK
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _rotated(b, by)) & MASK
        a, b, c = b, c, a
    return b


def jhash(octets: bytes, seed: int = 0) -> int:
    """lookup3's `hashlittle` of the octets."""
    a = b = c = (_GOLDEN_RATIO + len(octets) + seed) & MASK
    if not octets:
        return c
    blocks = max((len(octets) - 1) // 12, 0)
    words = struct.unpack(f"<{3 * blocks + 3}I", octets.ljust(12 * blocks + 12, b"\0"))
    for at in range(0, 3 * blocks, 3):
        a, b, c = (a + words[at]) & MASK, (b + words[at + 1]) & MASK, (c + words[at + 2]) & MASK
        a, b, c = _mixed(a, b, c)
    a, b, c = ((x + y) & MASK for x, y in zip((a, b, c), words[-3:], strict=True))
    return _final(a, b, c)
