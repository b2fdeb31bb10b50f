"""Anonymizes the corpus: the headers kept are the same, and tshark finds pseudonyms in the places of addresses.

Limited to every other capture of at most 30 kB for the header stacks, and to captures with tunnels and control
protocols (IDENTIFIED) for the addresses.
"""

import functools
import ipaddress
import random
from pathlib import Path

import pyarrow as pa
import pytest
from acapella_testing.frames.pcap_files import records
from acapella_testing.frames.tunnel_frames import TYPES
from acapella_testing.leak_search import search
from acapella_testing.oracles.naive_anonymize import CryptoPan, MacMap, TunnelMap
from acapella_testing.processes import run
from acapella_testing.tshark_lines import tshark_lines

from acapella.common import tshark, vendors
from acapella_core import _native
from acapella_core.anonymize import anonymize

KEY = random.Random(5).randbytes(32)
MAX_BYTES = 30_000
LAST_NS = 2**32 * 10**9 - 1  # latest time that pcap can represent
NDPI_FILES = (
    "4in4tunnel.pcap",
    "4in6tunnel.pcap",
    "6in4tunnel.pcap",
    "6in6tunnel.pcap",
    "ipv6_in_gtp.pcap",
    "sctp.cap",
)
TCPDUMP_NAMES = ("IGMP_V1", "IGMP_V2", "igmpv3-queries", "geneve", "OSPFv3_with_AH", "gso-ipv4-vxlan-ipv6")
TCPDUMP_NAMES += ("gso-ipv6-geneve-ipv4", "ipv6-srh-insert-cksum", "ipv6-routing-header", "icmp6-rfc8335")
TCPDUMP_NAMES += ("erspan-type-ii-1", "erspan-type-iii-ft-0")
IDENTIFIED = [f"ndpi/{name}" for name in (*NDPI_FILES, "gtp_c.pcap")] + [
    f"tcpdump/{name}.pcap" for name in TCPDUMP_NAMES
]
TUNNELS = {"vxlan.vni": "vxlan_vni", "geneve.vni": "geneve_vni", "gtp.teid": "gtp_teid", "gtpv2.teid": "gtp_teid"}
TUNNELS |= {"erspan.spanid": "erspan_session"}
FIELDS = ["eth.src", "eth.dst", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "igmp.maddr", "icmpv6.opt.linkaddr"]
FIELDS += ["arp.src.proto_ipv4", "arp.dst.proto_ipv4", "arp.src.hw_mac", "arp.dst.hw_mac"]
FIELDS += ["icmpv6.nd.ns.target_address", "icmpv6.nd.na.target_address"]


def rows(capture: Path, known) -> list[tuple]:
    """Return header stack, wire length, time and issue of every frame, from the core."""
    core = _native.NativeDigest(str(capture), None, None, 1 << 16, known)
    columns = ["stack", "wire_len", "ts_ns", "issue"]
    batches = [pa.record_batch(batch).select(columns) for batch in iter(core.next_frames, None)]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.fixture(scope="module")
def small(corpus) -> list[Path]:
    """Return every other small capture of the corpus."""
    kinds = (".pcap", ".pcapng", ".cap")
    files = sorted(file for part in ("ndpi", "tcpdump") for file in (corpus / part).rglob("*") if file.suffix in kinds)
    return [file for file in files if file.stat().st_size <= MAX_BYTES][::2]


@pytest.mark.soak
def test_kept_parts_have_the_same_headers(small, tmp_path):
    known, out = getattr(vendors.find(), "core", None), tmp_path / "out.pcap"
    frames = differ = 0
    for file in small:
        try:
            with out.open("wb") as stream:  # no sync to disk is needed here
                done = _native.anonymize_file(str(file), stream.fileno(), KEY, "replace", known)
        except _native.AnonymizeError as refused:
            assert "link types" in str(refused)
            continue
        assert not search(file, out, done["replaced"], known), file
        before, after = rows(file, known), rows(out, known)
        assert len(before) == len(after), file
        for (stack, wire_len, ts_ns, issue), kept in zip(before, after, strict=True):
            assert kept[1:3] == (wire_len, None if ts_ns is None else min(ts_ns, LAST_NS)), file
            headers, left = stack.split("/"), kept[0].split("/")
            # Exception: if the ethertype is IPv6 and the IP version is not 6, the byte with the version is not kept.
            differ += headers[: len(left)] != left and issue != "bad_ip_version"
        frames += len(before)
    assert frames > 2_000
    assert differ == 0


def printed_fields(program: tshark.Tshark, capture: Path, fields=FIELDS) -> list[list[list[str]]]:
    """Return for each frame and each of ``fields`` the values that tshark prints, in order."""
    lines = tshark_lines(program, capture, *fields)
    return [[[value for value in cell.split(",") if value] for cell in line.split("\t")] for line in lines]


@functools.cache
def pseudonym(plain: bytes) -> bytes:
    """Return the pseudonym of a MAC address or an IP address in plain Python."""
    return MacMap(KEY).address(plain) if len(plain) == 6 else CryptoPan(KEY).address(plain)


def address_bytes(address: str) -> bytes:
    """Return an address as bytes."""
    is_mac = address.count(":") == 5 and "::" not in address and len(address) == 17
    return bytes.fromhex(address.replace(":", "")) if is_mac else ipaddress.ip_address(address).packed


@pytest.fixture(scope="module")
def merged_pair(corpus, tmp_path_factory) -> tuple[Path, Path]:
    """Return the captures of IDENTIFIED as one file, before and after anonymization."""
    merged, public = (tmp_path_factory.mktemp("merged") / name for name in ("in.pcap", "out.pcap"))
    run("mergecap", "-a", "-F", "nsecpcap", "-w", merged, *(corpus / name for name in IDENTIFIED), check=True)
    anonymize(str(merged), public, KEY)
    return merged, public


def test_tshark_finds_pseudonyms_in_place_of_addresses(merged_pair, program):
    before, after = (printed_fields(program, capture) for capture in merged_pair)
    assert len(before) == len(after) > 100
    checked = 0
    for number, (addresses, left) in enumerate(zip(before, after, strict=True), 1):
        for field, originals, kept in zip(FIELDS, addresses, left, strict=True):
            expected = [pseudonym(address_bytes(address)) for address in originals[: len(kept)]]
            assert [address_bytes(address) for address in kept] == expected, f"frame {number} {field}"
            checked += len(kept)
    assert checked > 1000
    frames = [frame for *_, frame in records(merged_pair[1].read_bytes())]
    for frame, addresses in zip(frames, before, strict=True):
        for original in {address_bytes(address) for cell in addresses for address in cell}:
            # Addresses with few distinct bytes, such as ::1, can match by chance. A fixed MAC address is its own
            # pseudonym.
            if len(set(original)) > 4 and pseudonym(original) != original:
                assert original not in frame


def test_tshark_finds_pseudonyms_in_place_of_tunnel_identifiers(merged_pair, program):
    naive, found = TunnelMap(KEY, TYPES), dict.fromkeys(TUNNELS.values(), 0)
    pair = (printed_fields(program, capture, TUNNELS) for capture in merged_pair)
    for number, (before, after) in enumerate(zip(*pair, strict=True), 1):
        for kind, originals, kept in zip(TUNNELS.values(), before, after, strict=True):
            expected = [naive.identifier(kind, int(each, 0)) for each in originals[: len(kept)]]
            assert [int(each, 0) for each in kept] == expected, f"frame {number} {kind}"
            found[kind] += len(kept)
    assert min(found.values()) > 0, found
