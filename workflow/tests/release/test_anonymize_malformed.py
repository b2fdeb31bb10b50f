"""Tests options, chunks and parameters with a length that no RFC defines: anonymized captures contain none of their
values.

Plain Python computes from the RFCs which bytes may be kept, for random headers.
"""

import random
import struct
from pathlib import Path

import pytest
from acapella_testing.frames.ip_options import MALFORMED, OPTION_OFFSETS, SECRET, random_options, with_options
from acapella_testing.release_records import released

RUN = 8  # bytes of contiguous payload that must not be kept
TCP = {2: {4}, 3: {3}, 4: {2}, 5: {10, 18, 26, 34}, 8: {10}}
IPV6 = {0x04: {3}, 0x05: {4}, 0xC2: {6}}
NEIGHBOR = {5: {8}, 24: {8, 16, 24}, 25: {*range(24, 2041, 16)}}


@pytest.mark.parametrize("name", MALFORMED)
def test_values_of_a_wrong_length_are_zeroed(name, tmp_path):
    kind, options = MALFORMED[name]
    frame, begin = with_options(kind, options), OPTION_OFFSETS[kind]
    (left,) = released(tmp_path, [frame])
    assert len(left) > begin + 2, "the header is kept"
    assert not [i for i in range(len(SECRET) - 1) if SECRET[i : i + 2] in left[begin:]]
    assert left[begin] == frame[begin], "the first option's type is kept"


def allowed_options(body: bytes, lengths: dict[int, set[int]], unit: int, extra: int) -> set[int]:
    """Return the offsets of the bytes that may be kept in options with type and length fields. The length in bytes is
    the field times ``unit`` plus ``extra``.
    """
    kept, at = set(), 0
    single = {0, 1} if lengths is TCP else {0} if lengths is IPV6 else set()
    while at < len(body) and not (body[at] == 0 and lengths is TCP):
        has_no_length = body[at] in single
        length = 1 if has_no_length else (body[at + 1] if at + 1 < len(body) else 0) * unit + extra
        if (length < 2 and not has_no_length) or at + length > len(body):
            break
        kept |= {at} if has_no_length else {at, at + 1}
        kept |= set(range(at, at + length)) if length in lengths.get(body[at], ()) else set()
        at += length
    return kept


def allowed_ipv4(body: bytes) -> set[int]:
    """Return the offsets kept in IPv4 options (RFC 791, RFC 2113). Addresses are replaced."""
    kept, at = set(), 0
    while at < len(body) and body[at] != 0:
        length = 1 if body[at] == 1 else body[at + 1] if at + 1 < len(body) else 0
        if (length < 2 and body[at] != 1) or at + length > len(body):
            break
        kept |= set(range(at, at + min(length, 2)))
        if body[at] == 148 and length == 4:
            kept |= set(range(at, at + 4))
        if body[at] in (7, 131, 137) and length % 4 == 3:
            kept.add(at + 2)
        flag = body[at + 3] % 16 if body[at] == 68 and length >= 4 else None
        if flag == 0 and length % 4 == 0:
            kept |= set(range(at, at + length))
        if flag in (1, 3) and length % 8 == 4:
            kept |= set(range(at, at + 4)) | {o for e in range(at + 8, at + length, 8) for o in range(e, e + 4)}
        at += length
    return kept


def allowed_sctp(body: bytes) -> set[int]:
    """Return the offsets kept in SCTP chunks (RFC 9260, RFC 5061, RFC 3758). Addresses are replaced."""
    kept, at = set(), 0
    while at + 4 <= len(body):
        kind, _, length = struct.unpack_from("!BBH", body, at)
        kept |= set(range(at, at + 4))
        if kind in (0, 64):
            head = 16 if kind == 0 else 20
            return kept | (set(range(at, at + head)) if length >= head else set())
        if length < 4 or at + length > len(body):
            break
        if kind in (1, 2) and length >= 20:
            kept |= set(range(at, at + 20)) | allowed_parameters(body, at + 20, at + length)
        if kind == 3 and length >= 16 and length == 16 + 4 * sum(struct.unpack_from("!HH", body, at + 12)):
            kept |= set(range(at, at + length))
        first_eight = (kind in (7, 12, 13) and length == 8) or (kind == 192 and length >= 8 and length % 4 == 0)
        if first_eight or (kind == 0x80 and length >= 8) or (kind == 0xC1 and length >= 16):
            kept |= set(range(at, at + 8)) | (allowed_parameters(body, at + 8, at + length) if kind == 0xC1 else set())
        at += (length + 3) // 4 * 4
    return kept


def allowed_parameters(body: bytes, at: int, end: int) -> set[int]:
    """Return the offsets kept in SCTP parameters."""
    kept = set()
    while at + 4 <= end:
        kind, length = struct.unpack_from("!HH", body, at)
        if length < 4 or at + length > end:
            break
        kept |= set(range(at, at + 4))
        if kind == 12 and length in (6, 8, 10):
            kept |= set(range(at, at + length))
        required = {16: (5, 8), 28: (6, 20)}.get(length) if kind in (0xC001, 0xC002, 0xC004) else None
        if required and struct.unpack_from("!HH", body, at + 8) == required:
            kept |= set(range(at, at + 12))
        at += (length + 3) // 4 * 4
    return kept


ALLOWED = {
    "ipv4": allowed_ipv4,
    "tcp": lambda body: allowed_options(body, TCP, 1, 0) | mptcp(body),
    "ipv6": lambda body: allowed_options(body, IPV6, 1, 2),
    "sctp": allowed_sctp,
    "neighbor": lambda body: allowed_options(body, NEIGHBOR, 8, 0) | prefixes(body),
}


def mptcp(body: bytes) -> set[int]:
    """Return the offsets of the byte with the subtype and of the address identifier after it (RFC 8684)."""
    return {at + i for at in range(len(body)) if body[at] == 30 for i in (2, 3)}


def prefixes(body: bytes) -> set[int]:
    """Return the offsets of lengths, flags and lifetimes of prefixes (RFC 4861). Prefixes are replaced."""
    return {at + i for at in range(0, len(body), 8) if body[at : at + 2] == b"\3\4" for i in range(16)}


@pytest.mark.parametrize("kind", OPTION_OFFSETS)
def test_no_run_of_payload_survives_random_malformed_headers(kind, tmp_path: Path):
    draw, kept, begin = random.Random(f"malformed {kind}"), 0, OPTION_OFFSETS[kind]
    bodies = [random_options(draw, kind) for _ in range(500)]
    frames = [with_options(kind, body) for body in bodies]
    for body, frame, left in zip(bodies, frames, released(tmp_path, frames), strict=True):
        allowed = ALLOWED[kind](body)
        same = [a == b != 0 for a, b in zip(left[begin:], frame[begin : begin + len(body)], strict=False)]
        survivors = "".join("x" if equal and at not in allowed else " " for at, equal in enumerate(same))
        assert "x" * RUN not in survivors, (kind, body.hex(), left[begin:].hex())
        kept += sum(equal for at, equal in enumerate(same) if at in allowed)
    assert kept > 500, "well-formed parts are kept"
