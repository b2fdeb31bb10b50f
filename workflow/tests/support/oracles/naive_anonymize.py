"""Pseudonyms of addresses as defined in docs/release.md, in plain Python: Crypto-PAn bit by bit.

This module shares no code with the core; AES is that of PyPI cryptography.
"""

import functools
import hashlib
import hmac
import itertools
from collections.abc import Callable, Iterable

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

FIXED = {0, 0xFFFFFFFFFFFF, *range(0x0180C2000000, 0x0180C2000030), 0x01000CCCCCCC, 0x01000CCCCCCD}


def aes_128(key: bytes) -> Callable[[bytes], bytes]:
    """Return the function that encrypts a block with AES and a key of 128 bits."""
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update


class CryptoPan:
    """Xu et al., "Prefix-preserving IP address anonymization", ICNP 2002, equation 1, for any length of address."""

    def __init__(self, key: bytes):
        self.aes = aes_128(key[:16])
        self.padding = int.from_bytes(self.aes(key[16:]))
        self.address = functools.cache(self.computed)

    def computed(self, address: bytes) -> bytes:
        """Return the pseudonym of an address of 4 or 16 bytes."""
        bits, number, flips = 8 * len(address), int.from_bytes(address), 0
        for i in range(bits):
            rest = 128 - i
            block = number >> (bits - i) << rest | self.padding & ((1 << rest) - 1)
            flips = flips << 1 | self.aes(block.to_bytes(16))[0] >> 7
        return (number ^ flips).to_bytes(len(address))


class Permutation:
    """A Feistel network with ten rounds, with a key derived for the label."""

    def __init__(self, key: bytes, label: bytes):
        self.aes = aes_128(hmac.new(key, label, hashlib.sha256).digest()[:16])

    def map(self, value: int, bits: int, kind: int = 0) -> int:
        """Return the permuted value. Each even number of bits and each kind has a separate permutation."""
        return self.mixed(value, range(10), bits, kind)

    def inverse(self, value: int, bits: int, kind: int = 0) -> int:
        """Return the value that `map` maps to ``value``."""
        return swap_halves(self.mixed(swap_halves(value, bits), reversed(range(10)), bits, kind), bits)

    def mixed(self, value: int, rounds: Iterable[int], bits: int, kind: int) -> int:
        """Return a value after these rounds of the network. Rounds in reverse order undo them if halves are swapped."""
        half = bits // 2
        left, right = value >> half, value & (1 << half) - 1
        for number in rounds:
            word = self.aes(bytes((bits, number, kind)) + bytes(9) + right.to_bytes(4))
            left, right = right, left ^ int.from_bytes(word[:4]) & (1 << half) - 1
        return left << half | right


def swap_halves(value: int, bits: int) -> int:
    """Return a value with its halves swapped."""
    return (value & (1 << bits // 2) - 1) << bits // 2 | value >> bits // 2


RANGES = {  # ends of the ranges of identifiers, in bits, for types that are not permuted as a whole
    "gre_key": (20, 32),
    "nvgre_vsid": (12, 24),
    "gtp_teid": (0, 32),
    "l2tp_tunnel": (0, 16, 32),
    "l2tp_session": (0, 16, 32),
    "pppoe_session": (0, 16),
    "nvgre_flow_id": (0, 8),
}


class TunnelMap:
    """Pseudonyms of tunnel identifiers. Each range of a type is permuted within itself."""

    def __init__(self, key: bytes, types: dict[str, tuple[int, int]]):
        """Store the key and types. ``types``: number and bits of each type, as in schemas/tunnels.tsv."""
        self.permutation = Permutation(key, b"acapella anonymise: tunnel identifiers")  # codespell:ignore
        self.types = types
        self.identifier = functools.cache(self.computed)

    def computed(self, kind: str, original: int) -> int:
        """Return the pseudonym of an identifier."""
        number, bits = self.types[kind]
        limits = [0, *(1 << each for each in RANGES.get(kind, (bits,)))]
        low, high = next((low, high) for low, high in itertools.pairwise(limits) if low <= original < high)
        if high == 1:
            return original
        place = self.walked(self.permutation.map, original, low, high, number)
        following = low if place + 1 == high else place + 1
        return self.walked(self.permutation.inverse, following, low, high, number)

    @staticmethod
    def walked(step, value: int, low: int, high: int, number: int) -> int:
        """Apply ``step`` until the result is in the range."""
        while True:
            value = step(value, high.bit_length() - 1, number)
            if value >= low:
                return value


class MacMap:
    """The permutation of MAC addresses without a list of vendors."""

    def __init__(self, key: bytes):
        self.permutation = Permutation(key, b"acapella anonymise: MAC addresses")  # codespell:ignore
        self.address = functools.cache(self.computed)

    def computed(self, address: bytes) -> bytes:
        """Return the pseudonym of an address of 6 bytes."""
        number = int.from_bytes(address)
        kind = kind_of(number)
        if kind == "fixed":
            return address
        while True:
            number = self.step(number, kind)
            if kind_of(number) == kind:
                return number.to_bytes(6)

    def step(self, number: int, kind: str) -> int:
        """Apply the permutation once."""
        if kind == "ipv4 group":
            return number >> 24 << 24 | self.permutation.map(number & 0xFFFFFF, 24)
        if kind == "ipv6 group":
            return number >> 32 << 32 | self.permutation.map(number & 0xFFFFFFFF, 32)
        free = (number >> 42 & 3) << 40 | number & (1 << 40) - 1
        mixed = self.permutation.map(free, 42)
        return number & 0xF3 << 40 | mixed >> 40 << 42 | mixed & (1 << 40) - 1


def kind_of(number: int) -> str:
    """Return the kind of an address, which determines the bits that are permuted."""
    if number in FIXED:
        return "fixed"
    if number >> 23 == 0x01005E000000 >> 23:
        return "ipv4 group"
    if 0x45 <= number >> 40 <= 0x4E:
        return "first byte of an IPv4 header"
    return "ipv6 group" if number >> 32 == 0x3333 else "other"
