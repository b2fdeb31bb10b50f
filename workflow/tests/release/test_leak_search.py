"""Tests the search for original data in an anonymized capture."""

import random

import pytest
from acapella_testing.frames.ip_options import MALFORMED, OPTION_OFFSETS, ipv4, ipv6, random_options, with_options
from acapella_testing.frames.release_frames import ENDS, KEY, frames
from acapella_testing.leak_search import find_leak, restore_original
from acapella_testing.release_records import released


@pytest.mark.parametrize(("end", "expected"), [(57, None), (58, (1, 42, "a run of payload"))])
def test_payload_that_remains_in_place_is_found(end, expected, tmp_path):
    frame = frames(random.Random(5))[0]
    assert find_leak(tmp_path, [frame], lambda n, original, kept: kept + original[42:end]) == expected


@pytest.mark.parametrize("name", MALFORMED)
def test_remaining_value_of_a_wrong_length_is_found(name, tmp_path):
    kind, options = MALFORMED[name]
    frame, begin = with_options(kind, options), OPTION_OFFSETS[kind]
    assert find_leak(tmp_path, [frame]) is None
    found = find_leak(tmp_path, [frame], restore_original(begin, begin + len(options)))
    assert found is not None
    assert found[2] in ("an option value that should have been removed", "an original address")


OTHER_ENDS = bytes((192, 0, 2, 9)), bytes.fromhex("20010db8000000000000000000000099")
NEIGHBOR = (
    b"\x87" + bytes(7) + OTHER_ENDS[1] + b"\1\1\2\0\0\0\0\7" + b"\3\4\x40" + bytes(13) + OTHER_ENDS[1][:8] + bytes(8)
)
REDIRECT = ipv4(1, b"\x05\1\0\0" + OTHER_ENDS[0] + ipv4(17, bytes(8))[14:])
SCTP_ADDRESS = b"\0\5\0\x08" + OTHER_ENDS[0]
ADDED = b"\xc1\0\0\x18" + bytes(4) + b"\xc0\1\0\x10" + bytes(4) + SCTP_ADDRESS


@pytest.mark.parametrize(
    ("frame", "begin", "length"),  # the position of an address in a frame
    [
        pytest.param(ipv4(17, bytes(8), b"\x07\x27\x28" + OTHER_ENDS[0] * 9 + b"\0"), 41, 4, id="record route"),
        pytest.param(ipv4(17, bytes(8), b"\x44\x0c\x0d\1" + OTHER_ENDS[0] + b"\1\2\3\4"), 38, 4, id="timestamps"),
        pytest.param(ipv4(2, b"\x16\0\0\0" + bytes((239, 1, 2, 3))), 38, 4, id="IGMP group"),
        pytest.param(ipv4(2, b"\x22\0\0\0\0\0\0\1\1\0\0\1\xef\1\2\3" + OTHER_ENDS[0]), 50, 4, id="IGMPv3 source"),
        pytest.param(REDIRECT, 38, 4, id="ICMP redirect"),
        pytest.param(REDIRECT, 54, 4, id="source that ICMP quotes"),
        pytest.param(ipv4(132, bytes(12) + b"\1\0\0\x1c" + bytes(16) + SCTP_ADDRESS), 70, 4, id="SCTP address"),
        pytest.param(ipv4(132, bytes(12) + ADDED), 66, 4, id="SCTP added address"),
        pytest.param(with_options("tcp", b"\x1e\x08\x30\1" + OTHER_ENDS[0]), 58, 4, id="MPTCP address"),
        pytest.param(ipv6(58, NEIGHBOR), 62, 16, id="neighbor"),
        pytest.param(ipv6(58, NEIGHBOR), 80, 6, id="link-layer address"),
        pytest.param(ipv6(58, NEIGHBOR), 102, 16, id="prefix"),
        pytest.param(ipv6(58, b"\x83" + bytes(7) + b"\xff\2" + bytes(13) + b"\x77"), 62, 16, id="listener"),
        pytest.param(ipv6(43, b"\x3b\2\0\1" + bytes(4) + OTHER_ENDS[1]), 62, 16, id="route"),
        pytest.param(ipv6(60, b"\x3b\2\1\2\0\0\xc9\x10" + OTHER_ENDS[1]), 62, 16, id="home address"),
    ],
)
def test_remaining_address_in_an_option_or_message_is_found(frame, begin, length, tmp_path):
    assert find_leak(tmp_path, [frame]) is None
    assert find_leak(tmp_path, [frame], restore_original(begin, begin + length)) == (1, begin, "an original address")


def test_payload_of_16_bytes_at_a_different_offset_is_found(tmp_path):
    originals = frames(random.Random(6))
    for length, expected in ((15, None), (16, (3, 42, "a run of payload at a different offset"))):
        found = find_leak(tmp_path, originals, lambda n, original, kept, length=length:
                         kept + (original[300 : 300 + length] if n == 2 else b""))  # fmt: skip
        assert found == expected
    found = find_leak(tmp_path, originals, lambda n, original, kept: kept + (originals[0][300:316] if n == 2 else b""))
    assert found == (1, 300, "a run of payload of a frame")


def test_bytes_that_equal_an_address_by_chance_are_not_a_leak(tmp_path):
    """Other fields contain the bytes of IPv4 addresses, of short addresses of mostly zeros, and of MAC addresses."""
    tcp = lambda seq: ENDS[:4] + seq + ENDS[4:] + b"\x50\x10" + bytes(6)  # noqa: E731 (ports are an address, too)
    originals = [ipv4(6, tcp(ENDS[:4])), ipv4(17, ENDS[4:] + b"\0\x08\0\0"), ipv4(6, tcp(b"\0\0\0\1")),
                 ipv6(0, b"\6\0\x05\2\0\0\1\0" + tcp(b"\2\0\0\0"))]  # fmt: skip
    assert find_leak(tmp_path, originals) is None
    assert find_leak(tmp_path, [b"P" * 12 + b"\x08\0\x45\0\0\x60PP\0\0P\6" + b"P" * 200]) is None


def test_pseudonym_that_is_the_original_of_another_address_is_not_a_leak(tmp_path):
    """The second frame's original addresses are the pseudonyms of the first frame's addresses and therefore in the
    release.
    """
    first = frames(random.Random(7))[0]
    (kept,) = released(tmp_path, [first], KEY)
    assert find_leak(tmp_path, [first, kept]) is None
    assert find_leak(tmp_path, [first], lambda n, original, kept: original[:26] + kept[26:]) is not None


def test_random_traffic_is_never_rejected(tmp_path):
    """Header fields have few distinct values, sequence numbers look like addresses, and the payload repeats headers."""
    draw, originals = random.Random(8), []
    for _ in range(2000):
        number, words = bytes((192, 0, 2, draw.randrange(4))), [draw.randbytes(size) for size in (4, 6, 8)]
        tcp = words[0] + number + number + b"\x80\x10" + words[1] + b"\1\1\x08\x0a" + words[2]
        originals.append(ipv4(6, tcp + draw.choice((b"", tcp * 3, ENDS * 9, bytes(200)))))
    assert find_leak(tmp_path, originals) is None


@pytest.mark.parametrize("kind", OPTION_OFFSETS)
def test_malformed_headers_are_never_rejected(kind, tmp_path):
    draw = random.Random(f"search {kind}")
    assert find_leak(tmp_path, [with_options(kind, random_options(draw, kind)) for _ in range(500)]) is None
