"""Compute random numbers that depend only on a key and an index, as capture/generate/src/draw.h does.

Both use the same IEEE 754 operations in the same order, so the results are bit-identical.
"""

import hashlib

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MASK = 2**64 - 1
LARGEST = 9e15
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
LN2_HIGH = float.fromhex("0x1.62e42feep-1")
LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
SQRT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
LOG_TERMS = 11
EXP_TERMS = 16


def key_of(seed: int, flow: int, stream: str) -> int:
    """Return the key of a sequence. Different seeds, flows or streams have independent keys."""
    text = f"{seed} {flow} {stream}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def draw(key: int, index: np.ndarray) -> np.ndarray:
    """Return the numbers at positions ``index`` (uint64) of a sequence (uint64)."""
    value = index * np.uint64(GOLDEN) + np.uint64((key + GOLDEN) & MASK)
    value = (value ^ value >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ value >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return value ^ value >> np.uint64(31)


def below(value: np.ndarray, count: int) -> np.ndarray:
    """Return integers from 0 to count - 1; a ``count`` above 2^32 must be a power of two."""
    if 0 < count <= 1 << 32:
        return (value >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)
    return value & np.uint64((count - 1) & MASK)


def unit(value: np.ndarray) -> np.ndarray:
    """Return numbers between 0 and 1, both excluded."""
    return ((value >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def log(x: np.ndarray) -> np.ndarray:
    """Return the natural logarithm, computed as draw_log does."""
    m, exponent = np.frexp(x)
    small = m < SQRT_HALF
    m = np.where(small, m * 2, m)
    exponent = exponent - small
    s = (m - 1) / (m + 1)
    square = s * s
    total = np.zeros_like(x)
    for term in range(LOG_TERMS, -1, -1):
        total = total * square + 1.0 / (2 * term + 1)
    return exponent * LN2 + 2 * s * total


def exp(x: np.ndarray) -> np.ndarray:
    """Return the exponential function of numbers from 0 to 700, computed as draw_exp does."""
    k = (x / LN2 + 0.5).astype(np.int64)
    rest = (x - k * LN2_HIGH) - k * LN2_LOW
    total = np.ones_like(x)
    for term in range(EXP_TERMS, 0, -1):
        total = total * rest / term + 1
    return np.ldexp(total, k)
