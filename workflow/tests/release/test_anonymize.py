"""Tests anonymized captures: they are parsed by scapy, which shares no code with the core, and naive_anonymize computes
the expected pseudonyms.
"""

import functools
import ipaddress
import random
import struct
import sys

import pyarrow as pa
import pytest
from acapella_testing.frames import address_frames
from acapella_testing.frames.address_frames import CLASSES, LINK, SECRET, Addresses
from acapella_testing.frames.pcap_files import records
from acapella_testing.frames.pcapng_files import block, interface, option, packet_block, section, write_pcapng
from acapella_testing.frames.traces import CONTROL_WORD, ETHER
from acapella_testing.frames.tunnel_frames import checksum
from acapella_testing.new_files import write_file
from acapella_testing.oracles.naive_anonymize import CryptoPan, MacMap, aes_128
from acapella_testing.processes import run
from acapella_testing.release_records import KEY, pcap, released, write_key
from acapella_testing.requirements import require
from scapy.layers.inet import IP, TCP, UDP, Ether
from scapy.layers.inet6 import IPv6
from scapy.layers.sctp import crc32c
from scapy.packet import Packet

from acapella.common import vendors
from acapella_core import _native
from acapella_core.anonymize import anonymize, make_key, read_key
from acapella_core.errors import UserError

# The key that is distributed with the program of Crypto-PAn's authors.
SAMPLE_KEY = bytes.fromhex("1522178d33a4cf80130a5b1649907d10d8988f83797965276257 4c2d2a842202")
FRAME_WITH_SECRET = bytes(Ether(**ETHER) / IP(src="192.0.2.77", dst="198.51.100.78") / UDP() / SECRET)
ORIGINAL_ADDRESS = bytes((203, 0, 113, 9))  # an address that is replaced
BLANK = "RedirectedHdr"  # scapy's name of the option with a packet quoted by an ICMPv6 redirect: zeroed


def packed(address: str) -> bytes:
    """Return an IP address as bytes."""
    return ipaddress.ip_address(address).packed


@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> dict[str, tuple[Packet, Packet, bytes]]:
    """Return, for each of address_frames, scapy's packets before and after anonymization, and the bytes after it."""
    directory, made = tmp_path_factory.mktemp("frames"), {}
    for name, (link, packet) in address_frames.frames(Addresses(seed=1)).items():
        (left,) = released(directory, [bytes(packet)], link_type=LINK[link])
        made[name] = (CLASSES[link](bytes(packet)), CLASSES[link](left), left)
    return made


@pytest.mark.parametrize(
    ("key", "block", "expected"),  # appendices B and C
    [
        ("2b7e151628aed2a6abf7158809cf4f3c", "3243f6a8885a308d313198a2e0370734", "3925841d02dc09fbdc118597196a0b32"),
        ("000102030405060708090a0b0c0d0e0f", "00112233445566778899aabbccddeeff", "69c4e0d86a7b0430d8cdb78070b4c55a"),
    ],
)
def test_plain_aes_matches_fips_197(key, block, expected):
    assert aes_128(bytes.fromhex(key))(bytes.fromhex(block)).hex() == expected


def test_standard_input_is_anonymized_like_a_file(tmp_path):
    key = write_key(tmp_path / "key")
    capture = write_file(tmp_path / "in.pcap", pcap([(len(FRAME_WITH_SECRET), FRAME_WITH_SECRET)] * 3))
    command = [sys.executable, "-m", "acapella.cli.main", "anonymize"]
    with capture.open("rb") as stream:
        done = run(*command, "-", "-o", tmp_path / "piped.pcap", "--key-file", key, stdin=stream)
    assert (done.returncode, done.stderr) == (0, "")
    assert run(*command, capture, "-o", tmp_path / "read.pcap", "--key-file", key).returncode == 0
    assert (tmp_path / "piped.pcap").read_bytes() == (tmp_path / "read.pcap").read_bytes()


def test_core_without_aes_is_reported_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(_native, "features", lambda: {"aes": False})
    with pytest.raises(UserError, match="built without OpenSSL; install libssl-dev and run make setup"):
        released(tmp_path, [bytes(60)])
    assert not (tmp_path / "out.pcap").exists()


@pytest.mark.parametrize(
    ("address", "expected"),  # a part of the trace that is distributed with the key
    [
        ("128.11.68.132", "135.242.180.132"),
        ("129.118.74.4", "134.136.186.123"),
        ("130.132.252.244", "133.68.164.234"),
        ("141.223.7.43", "141.167.8.160"),
        ("141.233.145.108", "141.129.237.235"),
        ("152.163.225.39", "151.140.114.167"),
        ("156.29.3.236", "147.225.12.42"),
        ("165.247.96.84", "162.9.99.234"),
        ("192.102.249.13", "252.138.62.131"),
        ("207.33.151.131", "241.1.233.131"),
        ("24.5.0.80", "100.9.15.210"),
        ("38.15.67.68", "64.3.66.187"),
        ("4.3.88.225", "124.60.155.63"),
        ("63.14.55.111", "95.9.215.7"),
        ("64.14.118.196", "0.255.183.58"),
        ("64.34.154.117", "0.221.154.117"),
    ],
)
def test_ipv4_pseudonyms_match_the_published_ones(address, expected, tmp_path):
    (frame,) = released(tmp_path, [bytes(Ether(**ETHER) / IP(src=address, dst=address))], SAMPLE_KEY)
    assert (Ether(frame)[IP].src, Ether(frame)[IP].dst) == (expected, expected)
    assert CryptoPan(SAMPLE_KEY).address(packed(address)) == packed(expected)


def test_ipv6_pseudonyms_match_other_programs(tmp_path):
    # The same key. Source: the tests of github.com/Yawning/cryptopan.
    (left,) = released(tmp_path, [bytes(Ether(**ETHER) / IPv6(src="2001:db8::1", dst="::ffff"))], SAMPLE_KEY)
    assert Ether(left)[IPv6].src == "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e"
    assert Ether(left)[IPv6].dst == "78ff:f001:9fc0:20df:8380:b1f1:704:f838"


def test_addresses_found_by_scapy_are_the_plain_pseudonyms(pair):
    checked = 0
    for name, (before, after, _) in pair.items():
        originals = address_frames.found(before)
        assert len(originals) >= 2, name
        for where, address in address_frames.found(after).items():
            assert address == (bytes(len(address)) if BLANK in where else pseudonym(originals[where])), (name, where)
            checked += BLANK not in where
    assert checked > 200


@functools.cache
def pseudonym(address: bytes) -> bytes:
    """Return the pseudonym of a MAC address or an IP address in plain Python."""
    return MacMap(KEY).address(address) if len(address) == 6 else CryptoPan(KEY).address(address)


def test_addresses_of_all_headers_are_kept(pair):
    for name, (before, after, _) in pair.items():
        expected = {where for where in address_frames.found(before) if BLANK not in where}
        assert set(address_frames.found(after)) >= expected, name


@pytest.mark.parametrize(("link", "number"), LINK.items())
def test_no_original_address_remains(link, number, tmp_path):
    addresses = Addresses(seed=2)
    frames = [bytes(packet) for kind, packet in address_frames.frames(addresses).values() if kind == link]
    assert any(address in frame for address in addresses.made for frame in frames)
    left = released(tmp_path, frames, link_type=number)
    assert not [address for address in addresses.made for frame in left if address in frame]
    assert not [frame for frame in left if SECRET[:8] in frame]


def test_ipv4_header_checksums_are_correct(pair):
    every = [(layer, left) for _, after, left in pair.values() for layer in after.iterpayloads()]
    headers = [
        left[left.index(layer.original[:20]) :][: 4 * layer.ihl] for layer, left in every if isinstance(layer, IP)
    ]
    assert len(headers) > 30
    assert [header for header in headers if checksum(header) != 0] == []


def pseudo(ip: Packet, proto: int, data: bytes) -> bytes:
    """Return the pseudo-header of RFC 8200 section 8.1 (RFC 9293 section 3.1: same checksum) and the data."""
    return packed(ip.src) + packed(ip.dst) + struct.pack("!II", len(data), proto) + data


@pytest.mark.parametrize(
    ("name", "proto"), [("tcp_bare", 6), ("tcp_options", 6), ("udp6_bare", 17), ("solicitation", 58), ("mld2", 58)]
)
def test_checksums_with_a_pseudo_header_are_recomputed(name, proto, pair):
    _, after, left = pair[name]
    begin = 14 + (4 * after.payload.ihl if isinstance(after.payload, IP) else 40)
    assert checksum(pseudo(after.payload, proto, left[begin:])) == 0


def test_checksums_of_igmp_and_gre_are_recomputed(pair):
    _, after, left = pair["igmp3"]
    assert checksum(left[14 + 4 * after[IP].ihl :]) == 0
    _, _, left = pair["gre_checksum"]
    assert checksum(left[34:]) == 0
    assert checksum(pseudo(IP(left[42:]), 6, left[62:])) == 0


@pytest.mark.parametrize("name", ["sctp", "sctp_heartbeat"])
def test_sctp_checksum_is_recomputed(name, pair):
    _, after, left = pair[name]
    packet = left[14 + 4 * after[IP].ihl :]
    assert packet[8:12] == crc32c(packet[:8] + bytes(4) + packet[12:]).to_bytes(4)


@pytest.mark.parametrize(
    "name", ["tcp", "vlan_udp", "6in4", "4in6", "gre", "vxlan", "geneve", "icmp_quote", "fragment", "segments"]
)
def test_checksums_of_truncated_packets_are_zero(name, pair):
    sums = [layer.chksum for layer in pair[name][1].iterpayloads() if isinstance(layer, TCP | UDP)]
    assert sums
    assert not any(sums)


def test_times_and_lengths_are_kept_and_text_is_removed(tmp_path):
    frame, stamp = bytes(Ether(**ETHER) / IP() / UDP() / SECRET), 1_700_000_000_123_456_789
    name = option(2, b"eth-secret") + option(3, b"of secret") + option(9, b"\x09") + option(0, b"")
    data = section(option(2, b"secret host")) + interface(options=name)
    data += block(4, struct.pack("<HH", 1, 14) + b"\x01\x02\x03\x04secret.net\0\0" + bytes(4))
    data += packet_block(0, stamp, frame, 1400, option(1, b"a secret") + option(0, b""))
    source = write_file(tmp_path / "in.pcapng", data + block(10, struct.pack("<II", 0x544C534B, 8) + b"secretky"))
    counts = anonymize(str(source), tmp_path / "out.pcap", KEY)
    out = (tmp_path / "out.pcap").read_bytes()
    assert b"secret" in data
    assert b"secret" not in out
    assert [(ns, wire, len(left)) for ns, wire, left in records(out)] == [(stamp, 1400, 14 + 20 + 8)]
    assert (counts["frames"], counts["cut_frames"], counts["kept_bytes"]) == (1, 1, 42)


def common_bits(a: bytes, b: bytes) -> int:
    """Return the length of the common prefix of two addresses."""
    return 8 * len(a) - (int.from_bytes(a) ^ int.from_bytes(b)).bit_length()


@pytest.mark.parametrize(("layer", "size"), [(IP, 4), (IPv6, 16)])
def test_common_prefixes_keep_their_length(tmp_path, layer, size):
    chance, bits, pairs = random.Random(size), 8 * size, []
    for shared in range(bits):
        one = chance.getrandbits(bits)
        other = one ^ (1 << (bits - 1 - shared)) ^ chance.getrandbits(bits - 1 - shared)
        pairs.append((one.to_bytes(size), other.to_bytes(size)))
    texts = [[str(ipaddress.ip_address(end)) for end in ends] for ends in pairs]
    left = released(tmp_path, [bytes(Ether(**ETHER) / layer(src=src, dst=dst)) for src, dst in texts])
    for shared, ip in enumerate(Ether(frame)[layer] for frame in left):
        assert common_bits(*pairs[shared]) == shared
        assert common_bits(packed(ip.src), packed(ip.dst)) == shared


def mac_frames(addresses: list[bytes]) -> list[bytes]:
    """Return a frame to each address, from a zero address, with SECRET as payload."""
    return [address + bytes(6) + b"\x88\xb5" + SECRET for address in addresses]


def test_mac_pseudonyms_are_stable_and_unique_and_keep_their_flags(tmp_path):
    chance, plain = random.Random(7), MacMap(KEY)
    addresses = [chance.randbytes(6) for _ in range(500)]
    every = addresses + [b"\x01\x00\x5e" + (chance.getrandbits(23)).to_bytes(3) for _ in range(50)]
    every += [b"\x33\x33" + chance.randbytes(4) for _ in range(50)]
    mapped = [left[:6] for left in released(tmp_path, mac_frames(every))]
    assert len(set(mapped)) == 600
    assert not set(mapped) & set(every)
    assert mapped[::10] == [plain.address(address) for address in every[::10]]
    assert all(before[0] & 0xF3 == after[0] & 0xF3 for before, after in zip(addresses, mapped[:500], strict=True))
    assert all(after[:3] == b"\x01\x00\x5e" and after[3] < 0x80 for after in mapped[500:550])
    assert all(after[:2] == b"\x33\x33" for after in mapped[550:])
    assert [left[:6] for left in released(tmp_path, mac_frames(addresses))] == mapped[:500]


@pytest.mark.parametrize("address", ["ffffffffffff", "000000000000", "0180c200000e", "01000ccccccc"])
def test_addresses_without_an_owner_are_kept(tmp_path, address):
    (left,) = released(tmp_path, mac_frames([bytes.fromhex(address)]))
    assert left[:6].hex() == address


def test_blanked_macs_keep_only_flag_bits_and_multicast_prefixes(tmp_path):
    frames = mac_frames([bytes.fromhex(address) for address in ("0e11223344aa", "0911223344aa", "3333ff445566")])
    left = [frame[:6].hex() for frame in released(tmp_path, frames, macs="blank")]
    assert left == ["020000000000", "010000000000", "333300000000"]


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param("0180c2000000 80aabbccddee 0026 424203 0000000000 8000 80aabbccddee", id="stp"),
        pytest.param("0180c200000e 80aabbccddee 88cc 0207 04 80aabbccddee 0604 6e616d65", id="lldp"),
        pytest.param("0180c2000002 80aabbccddee 8809 0101 0114 ffff 80aabbccddee", id="lacp"),
        pytest.param("01000ccccccc 80aabbccddee 0030 aaaa03 00000c 2000 02b4 0000 80aabbccddee", id="cdp"),
        pytest.param("80aabbccdde1 80aabbccddee 88f7 0002 002c" + "00" * 16 + "80aabbfffeccddee0001", id="ptp"),
        pytest.param("80aabbccdde1 80aabbccddee 8863 1109 0000 000c 0101 0000 0103 0006 80aabbccddee", id="pppoed"),
        pytest.param("80aabbccdde1 80aabbccddee 1234 80aabbccddee", id="unknown_ethertype"),
    ],
)
def test_identifiers_in_unparsed_data_are_removed(tmp_path, frame):
    (left,) = released(tmp_path, [bytes.fromhex(frame)])
    assert 14 <= len(left) < len(bytes.fromhex(frame))
    assert not [part for part in ("80aabbccddee", "aabbcc", "ccddee", "6e616d65") if bytes.fromhex(part) in left]


def ends_in(frame: bytes, offset: int) -> list[bytes]:
    """Return source and destination address of the IPv4 header at an offset."""
    return [frame[offset + 12 : offset + 16], frame[offset + 16 : offset + 20]]


@pytest.mark.parametrize("word", [b"", CONTROL_WORD], ids=["plain", "control_word"])
def test_pseudowires_keep_their_format_and_their_packets_get_pseudonyms(tmp_path, word):
    known = vendors.find()
    require(known, "no tshark with a list of vendors in a file")
    frame = bytes(Ether(**ETHER, type=0x8847)) + bytes.fromhex("0001e1ff") + word + FRAME_WITH_SECRET
    (left,) = released(tmp_path, [frame], vendors=known.core)
    begin, stacks = 18 + len(word), []
    assert len(left) == begin + 14 + 20 + 8
    assert ends_in(left, begin + 14) == [pseudonym(end) for end in ends_in(frame, begin + 14)]
    assert left[begin : begin + 6] == left[:6] != frame[:6]
    for content in (frame, left):
        capture = write_file(tmp_path / "one.pcap", pcap([(len(frame), content)]))
        core = _native.NativeDigest(str(capture), None, None, 8, known.core)
        stacks.append(pa.record_batch(core.next_frames()).column("stack").to_pylist())
    assert stacks[0] == stacks[1] == ["Ethernet/MPLS/PseudoWire/Ethernet/IPv4/UDP"]


def test_timestamp_options_that_end_within_an_address_are_zeroed(tmp_path):
    """The timestamp option ends inside the second address, which RFC 791 does not allow."""
    option = bytes([68, 15, 9, 1]) + bytes([203, 0, 113, 77]) + bytes(4) + bytes([203, 0, 113]) + b"\0"
    head = bytes.fromhex("4900 0028 0001 0000 40fd 0000 c000024d c6336409")
    (left,) = released(tmp_path, [bytes(Ether(**ETHER, type=0x0800)) + head + option + bytes(4)])
    assert left[34:50] == option[:2] + bytes(14)


def in_udp(port: int, data: bytes) -> bytes:
    """Return a UDP frame over IPv4."""
    return bytes(Ether(**ETHER) / IP(src="192.0.2.77", dst="198.51.100.78") / UDP(sport=port, dport=port) / data)


def test_teredo_origin_and_authentication_are_hidden(tmp_path):
    origin = bytes(0xFF ^ byte for byte in ORIGINAL_ADDRESS)
    packet = bytes(IPv6(src="2001:0:53aa:64c::1", dst="2001:db8::5") / UDP() / SECRET)
    head = b"\0\1\x04\x04" + b"user" + b"pass" + b"nonce678" + b"\0"
    (left,) = released(tmp_path, [in_udp(3544, head + b"\0\0\x12\x34" + origin + packet)])
    assert left[42 : 46 + len(head)] == b"\0\1\x04\x04" + bytes(len(head) - 4) + b"\0\0\x12\x34"
    left = left[46 + len(head) :]
    assert bytes(0xFF ^ byte for byte in left[:4]) == pseudonym(ORIGINAL_ADDRESS)
    assert packed(IPv6(left[4:]).src) == pseudonym(packed("2001:0:53aa:64c::1"))


def test_options_of_tunnels_keep_only_their_lengths(tmp_path):
    inner = bytes(Ether(**ETHER) / IP(src="192.0.2.1", dst="192.0.2.2") / UDP())
    geneve = in_udp(6081, b"\x03\0\x65\x58\0\0\1\0" + b"\1\2\3\2" + SECRET[:8] + inner)
    head = b"\x34\xff" + (len(inner[14:]) + 8).to_bytes(2) + b"\0\0\0\7"
    gtp = in_udp(2152, head + b"\0\0\0\x85" + b"\1\xaa\xbb\0" + inner[14:])
    left = released(tmp_path, [geneve, gtp])
    assert left[0][50:62] == b"\0\0\0\2" + bytes(8), "class and type of an option that is not known are zeros"
    assert left[1][50:58] == b"\0\0\0\x85" + b"\1\0\0\0"
    assert [len(frame) for frame in left] == [len(geneve), len(gtp)]
    assert ends_in(left[1], 58) == [pseudonym(end) for end in ends_in(gtp, 58)]


def test_addresses_in_sctp_parameters_get_pseudonyms(tmp_path):
    parameter = b"\0\5\0\x08" + ORIGINAL_ADDRESS
    chunk = b"\xc1\0\0\x20" + b"\0\0\0\1" + parameter + b"\xc0\1\0\x10" + b"\0\0\0\2" + parameter
    frame = bytes(Ether(**ETHER) / IP(src="192.0.2.77", dst="198.51.100.78", proto=132) / (bytes(12) + chunk))
    (left,) = released(tmp_path, [frame])
    assert len(left) == len(frame)
    assert left[46:] == chunk.replace(ORIGINAL_ADDRESS, pseudonym(ORIGINAL_ADDRESS))


def test_unparsable_data_is_removed(tmp_path):
    # a header length of 16 bytes; version 5
    bad = [FRAME_WITH_SECRET[:14] + first + FRAME_WITH_SECRET[15:] for first in (b"\x44", b"\x55")]
    left = released(tmp_path, [FRAME_WITH_SECRET[:30], *bad, FRAME_WITH_SECRET[:10], b""])
    assert [len(frame) for frame in left] == [14, 14, 14, 0, 0]
    assert released(tmp_path, [FRAME_WITH_SECRET], link_type=147) == [b""]  # reserved for private use


def test_frames_of_two_link_types_are_rejected_for_pcap(tmp_path):
    frame = bytes(Ether(**ETHER) / IP())
    source = write_pcapng(tmp_path / "in.pcapng", [(1, frame), (101, frame[14:])])
    with pytest.raises(UserError, match="link types 1 and 101"):
        anonymize(str(source), tmp_path / "out.pcap", KEY)
    assert not (tmp_path / "out.pcap").exists()


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [("none.pcap", None, "No such file"), ("text.pcap", b"hello\n", "text, not a pcap"), ("in.pcap", b"", "is empty")],
)
def test_error_of_an_unreadable_capture_names_the_input(name, content, why, tmp_path):
    if content is not None:
        write_file(tmp_path / name, content)
    with pytest.raises(UserError) as raised:
        anonymize(str(tmp_path / name), tmp_path / "out.pcap", KEY)
    assert str(raised.value).startswith(f"{tmp_path / name}: ")
    assert why in str(raised.value)
    assert not (tmp_path / "out.pcap").exists()


@pytest.mark.parametrize(
    ("size", "mode", "message"),
    [
        (32, 0o640, "other users can"),
        (32, 0o604, "other users can"),
        (31, 0o600, "31"),
        (33, 0o600, "more"),
        (0, 0o600, "0"),
    ],
)
def test_key_that_other_users_can_read_or_of_a_wrong_size_is_rejected(tmp_path, size, mode, message):
    path = write_file(tmp_path / "key", b"K" * size)
    path.chmod(mode)
    with pytest.raises(UserError, match=message) as raised:
        read_key(path)
    assert "KKKK" not in str(raised.value)


def test_missing_key_error_names_the_command_that_creates_one(tmp_path):
    message = "cannot read the key: No such file or directory; create one with acapella anonymize --new-key FILE"
    with pytest.raises(UserError) as raised:
        read_key(tmp_path / "key")
    assert str(raised.value) == f"{tmp_path / 'key'}: {message}"


def test_new_key_is_private_and_replaces_no_file(tmp_path):
    make_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    key = read_key(tmp_path / "key")
    assert len(set(key)) > 8
    with pytest.raises(UserError, match="file exists"):
        make_key(tmp_path / "key")
    assert read_key(tmp_path / "key") == key
    assert [file.name for file in tmp_path.iterdir()] == ["key"]


def test_command_anonymizes_and_does_not_reveal_the_key(tmp_path):
    write_key(tmp_path / "key")
    write_file(tmp_path / "in.pcap", pcap([(len(FRAME_WITH_SECRET), FRAME_WITH_SECRET)]))
    words = ["anonymize", "in.pcap", "-o", "out.pcap", "--key-file", "key", "--json", "--debug"]
    done = run(sys.executable, "-m", "acapella.cli.main", *words, cwd=tmp_path, check=True)
    output = (done.stdout + done.stderr).encode() + (tmp_path / "out.pcap").read_bytes()
    assert '"frames": 1' in done.stdout
    parts = (KEY[:8], KEY[16:24], KEY[:8].hex().encode(), KEY[16:24].hex().encode())
    assert [part for part in parts if part in output] == []
    assert (tmp_path / "out.pcap").stat().st_mode & 0o777 == 0o600
