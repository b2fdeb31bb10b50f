"""Frames whose payload a release must not contain: random bytes, text, and names of the campaign's samples."""

import random

from acapella_testing.frames.ip_options import ipv4, ipv6

KEY = bytes(range(32))
SAMPLES = ("first-sample", "second-sample")
TEXT = "GET /private/path?secret=1"
VOCABULARY = "Ethernet/IPv4/UDP University-of-Nowhere S0-P0-0000 Headers of network traffic, anonymized"
ENDS = bytes((192, 0, 2, 1, 192, 0, 2, 2))


def frames(draw: random.Random) -> list[bytes]:
    """Return frames of several kinds, with payload."""
    created = []
    for _ in range(40):
        udp = draw.randbytes(2) + b"\0\x35" + (8 + 600).to_bytes(2) + bytes(2) + draw.randbytes(600)
        created += [ipv4(17, udp), ipv6(17, udp)]
    texts = (TEXT.encode(), VOCABULARY.encode(), "\0".join(SAMPLES).encode())
    return [*created, *(ipv4(17, b"\0\x35\0\x35" + (8 + len(text)).to_bytes(2) + bytes(2) + text) for text in texts)]
