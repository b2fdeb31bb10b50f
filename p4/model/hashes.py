"""The two hash functions of DPDK's software pipeline, over bytes in network order.

`jhash` is Bob Jenkins' lookup3 (public domain, 2006) as called by rte_jhash, `crc32` is CRC-32C (Castagnoli) as called
by rte_hash_crc: initial value 0 and no final inversion, so that it is linear over GF(2).
"""

from __future__ import annotations

import struct

MASK = 0xFFFFFFFF
_GOLDEN_RATIO = 0xDEADBEEF  # rte_jhash's constant, not Knuth's
_CASTAGNOLI = 0x82F63B78  # reflected


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CASTAGNOLI if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32(raw: bytes) -> int:
    """Return the CRC-32C, with initial value 0 and without inversion."""
    value = 0
    for byte in raw:
        value = value >> 8 ^ _TABLE[(value ^ byte) & 0xFF]
    return value


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & MASK


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for bits in (4, 6, 8, 16, 19, 4):
        a = (a - c) & MASK ^ _rotated(c, bits)
        c = (c + b) & MASK
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for bits in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _rotated(b, bits)) & MASK
        a, b, c = b, c, a
    return b


def jhash(raw: bytes, seed: int = 0) -> int:
    """Return lookup3's `hashlittle`."""
    a = b = c = (_GOLDEN_RATIO + len(raw) + seed) & MASK
    if not raw:
        return c
    blocks = max((len(raw) - 1) // 12, 0)
    words = struct.unpack(f"<{3 * blocks + 3}I", raw.ljust(12 * blocks + 12, b"\0"))
    for at in range(0, 3 * blocks, 3):
        a, b, c = (a + words[at]) & MASK, (b + words[at + 1]) & MASK, (c + words[at + 2]) & MASK
        a, b, c = _mixed(a, b, c)
    a, b, c = ((x + y) & MASK for x, y in zip((a, b, c), words[-3:], strict=True))
    return _final(a, b, c)
