"""Options, chunks and parameters of a length that no RFC gives: nothing of their values is in an anonymized capture.

What may be kept is computed again in plain Python, from the RFCs, for random headers.
"""

import random
import struct
from pathlib import Path

import pytest
from test_anonymise import released

SECRET = bytes(range(0xA1, 0xFB))  # no two octets in a row are a type or length here
RUN = 8  # octets of payload in a row that must not survive
HEADS = {"ipv4": 34, "tcp": 54, "ipv6": 56, "sctp": 46, "neighbour": 62}  # where options begin in a frame
TCP = {2: {4}, 3: {3}, 4: {2}, 5: {10, 18, 26, 34}, 8: {10}}
IPV6 = {0x04: {3}, 0x05: {4}, 0xC2: {6}}
NEIGHBOUR = {5: {8}, 24: {8, 16, 24}, 25: {*range(24, 2041, 16)}}


def ethernet(ethertype: int, packet: bytes) -> bytes:
    """A frame."""
    return b"\x02\0\0\0\0\1\x02\0\0\0\0\2" + ethertype.to_bytes(2) + packet


def ipv4(protocol: int, payload: bytes, options: bytes = b"") -> bytes:
    """A frame of IPv4 with options."""
    words = 5 + len(options) // 4
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, 0, 4 * words + len(payload), 1, 0, 64, protocol, 0,
                       bytes((192, 0, 2, 1)), bytes((192, 0, 2, 2)))  # fmt: skip
    return ethernet(0x0800, head + options + payload)


def ipv6(following: int, payload: bytes) -> bytes:
    """A frame of IPv6."""
    ends = bytes.fromhex("20010db8") + bytes(11) + b"\1" + bytes.fromhex("20010db8") + bytes(11) + b"\2"
    return ethernet(0x86DD, struct.pack("!IHBB", 6 << 28, len(payload), following, 64) + ends + payload)


def with_options(kind: str, options: bytes) -> bytes:
    """A frame whose header of a kind has these options, and then payload."""
    if kind == "ipv4":
        return ipv4(17, bytes(8) + SECRET, options)
    if kind == "tcp":
        words = 5 + len(options) // 4
        return ipv4(6, struct.pack("!HHIIBBHHH", 1, 2, 3, 4, words << 4, 16, 5, 0, 0) + options + SECRET)
    if kind == "ipv6":
        return ipv6(0, bytes((59, (len(options) + 2) // 8 - 1)) + options)
    if kind == "sctp":
        return ipv4(132, bytes(12) + options)
    return ipv6(58, b"\x85\0\0\0\0\0\0\0" + options)  # router solicitation


MALFORMED = {
    "sack of 1,396 octets": ("sctp", struct.pack("!BBH", 3, 0, 1400) + bytes(12) + SECRET * 16),
    "sack with fewer blocks than it counts": ("sctp", struct.pack("!BBHIIHH", 3, 0, 36, 1, 2, 9, 0) + SECRET[:20]),
    "sack with no gap blocks and a longer chunk": ("sctp", struct.pack("!BBHIIHH", 3, 0, 60, 1, 2, 0, 0) + SECRET[:44]),
    "init shorter than its fields": ("sctp", struct.pack("!BBH", 1, 0, 16) + SECRET[:12]),
    "shutdown with more than a tsn": ("sctp", struct.pack("!BBH", 7, 0, 84) + SECRET[:80]),
    "forward tsn of an odd length": ("sctp", struct.pack("!BBH", 192, 0, 85) + SECRET[:81] + bytes(3)),
    "supported address types": ("sctp", struct.pack("!BBH", 1, 0, 104) + bytes(16) + b"\0\x0c\0\x54" + SECRET[:80]),
    "added address of another length": ("sctp", struct.pack("!BBH", 0xC1, 0, 88) + bytes(4) + b"\xc0\1\0\x50"
                                        + SECRET[:4] + b"\0\5\0\x48" + SECRET[4:72]),
    "ipv6 router alert": ("ipv6", b"\x05\x50" + SECRET[:80] + b"\1\2\0\0"),
    "ipv6 encapsulation limit": ("ipv6", b"\x04\x50" + SECRET[:80] + b"\1\2\0\0"),
    "jumbogram": ("ipv6", b"\xc2\x50" + SECRET[:80] + b"\1\2\0\0"),
    "home address": ("ipv6", b"\xc9\x50" + SECRET[:80] + b"\1\2\0\0"),
    "ipv4 router alert": ("ipv4", b"\x94\x28" + SECRET[:38]),
    "record route": ("ipv4", b"\x07\x28" + SECRET[:38]),
    "source route": ("ipv4", b"\x83\x26" + SECRET[:36] + bytes(2)),
    "timestamps with an unknown flag": ("ipv4", b"\x44\x28\x05\x02" + SECRET[:36]),
    "timestamps behind addresses": ("ipv4", b"\x44\x28\x05\x01" + SECRET[:36]),
    "tcp timestamps": ("tcp", b"\x08\x28" + SECRET[:38]),
    "maximum segment size": ("tcp", b"\x02\x28" + SECRET[:38]),
    "window scale": ("tcp", b"\x03\x28" + SECRET[:38]),
    "sack permitted": ("tcp", b"\x04\x28" + SECRET[:38]),
    "sack blocks": ("tcp", b"\x05\x28" + SECRET[:38]),
    "mptcp": ("tcp", b"\x1e\x26\x30\x01" + SECRET[:34] + bytes(2)),
    "neighbour mtu": ("neighbour", b"\x05\x0b" + SECRET[:86]),
    "name servers": ("neighbour", b"\x19\x0a" + SECRET[:78]),
    "prefix": ("neighbour", b"\x03\x0b" + SECRET[:86]),
    "route": ("neighbour", b"\x18\x0b" + SECRET[:86]),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_values_of_a_wrong_length_are_zeros(name, tmp_path):
    kind, options = MALFORMED[name]
    frame = with_options(kind, options)
    (left,) = released(tmp_path, [frame])
    begin = HEADS[kind]
    assert len(left) > begin + 2, "the header is kept"
    assert not [i for i in range(len(SECRET) - 1) if SECRET[i : i + 2] in left[begin:]]
    assert left[begin] == frame[begin], "the first option's type is kept"


def allowed_options(body: bytes, lengths: dict[int, set[int]], unit: int, extra: int) -> set[int]:
    """Offsets that RFCs let be kept in options of type and length, which counts ``unit`` octets and not ``extra``."""
    kept, at = set(), 0
    single = {0, 1} if lengths is TCP else {0} if lengths is IPV6 else set()
    while at < len(body):
        if body[at] in single:
            if body[at] == 0 and lengths is TCP:
                break
            kept.add(at)
            at += 1
            continue
        length = (body[at + 1] if at + 1 < len(body) else 0) * unit + extra
        if length < 2 or at + length > len(body):
            break
        kept |= {at, at + 1}
        if length in lengths.get(body[at], ()):
            kept |= set(range(at, at + length))
        at += length
    return kept


def allowed_ipv4(body: bytes) -> set[int]:
    """RFC 791, RFC 2113: what is kept of IPv4's options; addresses become others."""
    kept, at = set(), 0
    while at < len(body) and body[at] != 0:
        if body[at] == 1:
            kept.add(at)
            at += 1
            continue
        length = body[at + 1] if at + 1 < len(body) else 0
        if length < 2 or at + length > len(body):
            break
        kept |= {at, at + 1}
        if body[at] == 148 and length == 4:
            kept |= set(range(at, at + 4))
        if body[at] in (7, 131, 137) and length % 4 == 3:
            kept.add(at + 2)
        if body[at] == 68 and length >= 4:
            flag = body[at + 3] % 16
            if flag == 0 and length % 4 == 0:
                kept |= set(range(at, at + length))
            if flag in (1, 3) and length % 8 == 4:
                kept |= set(range(at, at + 4)) | {o for e in range(at + 8, at + length, 8) for o in range(e, e + 4)}
        at += length
    return kept


def allowed_sctp(body: bytes) -> set[int]:
    """RFC 9260, RFC 5061, RFC 3758: what is kept of chunks; addresses become others."""
    kept, at = set(), 0
    while at + 4 <= len(body):
        kind, _, length = struct.unpack_from("!BBH", body, at)
        kept |= set(range(at, at + 4))
        if kind in (0, 64):
            head = 16 if kind == 0 else 20
            kept |= set(range(at, at + head)) if length >= head else set()
            break
        if length < 4 or at + length > len(body):
            break
        if kind in (1, 2) and length >= 20:
            kept |= set(range(at, at + 20)) | allowed_parameters(body, at + 20, at + length)
        if kind == 3 and length >= 16 and length == 16 + 4 * sum(struct.unpack_from("!HH", body, at + 12)):
            kept |= set(range(at, at + length))
        if (kind in (7, 12, 13) and length == 8) or (kind == 192 and length >= 8 and length % 4 == 0):
            kept |= set(range(at, at + 8))
        if kind == 0x80 and length >= 8:
            kept |= set(range(at, at + 8))
        if kind == 0xC1 and length >= 16:
            kept |= set(range(at, at + 8)) | allowed_parameters(body, at + 8, at + length)
        at += (length + 3) // 4 * 4
    return kept


def allowed_parameters(body: bytes, at: int, end: int) -> set[int]:
    """Parameters of SCTP."""
    kept = set()
    while at + 4 <= end:
        kind, length = struct.unpack_from("!HH", body, at)
        if length < 4 or at + length > end:
            break
        kept |= set(range(at, at + 4))
        if kind == 12 and length in (6, 8, 10):
            kept |= set(range(at, at + length))
        wanted = {16: (5, 8), 28: (6, 20)}.get(length) if kind in (0xC001, 0xC002, 0xC004) else None
        if wanted and struct.unpack_from("!HH", body, at + 8) == wanted:
            kept |= set(range(at, at + 12))
        at += (length + 3) // 4 * 4
    return kept


ALLOWED = {
    "ipv4": allowed_ipv4,
    "tcp": lambda body: allowed_options(body, TCP, 1, 0) | mptcp(body),
    "ipv6": lambda body: allowed_options(body, IPV6, 1, 2),
    "sctp": allowed_sctp,
    "neighbour": lambda body: allowed_options(body, NEIGHBOUR, 8, 0) | prefixes(body),
}


def mptcp(body: bytes) -> set[int]:
    """RFC 8684: the octet with the subtype, and the address identifier behind it."""
    return {at + i for at in range(len(body)) if body[at] == 30 for i in (2, 3)}


def prefixes(body: bytes) -> set[int]:
    """RFC 4861 4.6.2: lengths, flags and lifetimes of a prefix, which becomes another."""
    return {at + i for at in range(0, len(body), 8) if body[at : at + 2] == b"\3\4" for i in range(16)}


def random_options(draw: random.Random, kind: str) -> bytes:
    """Options of a kind, some of them malformed: known types with any length, and values without zeros."""
    filler = lambda count: bytes(draw.randrange(1, 256) for _ in range(count))  # noqa: E731
    if kind == "sctp":
        types = (1, 2, 3, 7, 12, 13, 64, 192, 0x80, 0xC1, 10, 5, draw.randrange(256))
        made = b""
        for _ in range(draw.randrange(1, 5)):
            value = filler(draw.randrange(80))
            if draw.random() < 0.4:
                parameter = draw.choice((5, 6, 7, 12, 0xC001, 0xC002, 0xC004))
                value = filler(draw.choice((4, 16))) + struct.pack("!HH", parameter, 4 + len(value) // 4 * 4) + value
            length = draw.choice((4 + len(value),) * 3 + (draw.randrange(100),))
            made += struct.pack("!BBH", draw.choice(types), 0, length) + value + bytes(-len(value) % 4)
        return made
    types = {"ipv4": (7, 68, 131, 137, 148, 25), "tcp": (2, 3, 4, 5, 8, 30, 19), "ipv6": (4, 5, 0xC2, 0xC9, 1, 30),
             "neighbour": (1, 2, 3, 5, 24, 25, 14)}[kind]  # fmt: skip
    room = {"ipv4": 40, "tcp": 40, "ipv6": 94, "neighbour": 96}[kind]
    made = b""
    while len(made) < room:
        length = draw.choice((3, 4, 10, 12)) if draw.random() < 0.3 else draw.randrange(40)
        if kind == "neighbour":
            count = draw.choice((0, 1, 2, 3, 4, 5, 12))
            made += bytes((draw.choice(types), count)) + filler(8 * max(count, 1) - 2)
        else:
            made += bytes((draw.choice(types), length)) + filler(max(length - (0 if kind == "ipv6" else 2), 0))
    return made[:room]


@pytest.mark.parametrize("kind", HEADS)
def test_no_run_of_payload_survives_random_malformed_headers(kind, tmp_path: Path):
    draw = random.Random(f"malformed {kind}")
    bodies = [random_options(draw, kind) for _ in range(500)]
    frames = [with_options(kind, body) for body in bodies]
    kept_runs = 0
    for body, frame, left in zip(bodies, frames, released(tmp_path, frames), strict=True):
        begin = HEADS[kind]
        allowed = ALLOWED[kind](body)
        run = longest = 0
        for at in range(min(len(body), len(left) - begin)):
            same = left[begin + at] == frame[begin + at] != 0
            run = run + 1 if same and at not in allowed else 0
            longest = max(longest, run)
            kept_runs += same and at in allowed
        assert longest < RUN, (kind, body.hex(), left[begin:].hex())
    assert kept_runs > 500, "well-formed parts are among them, and kept"
