"""Trials for tests of `acapella kappa`: numbered packets at given times, and runs of the command."""

import functools
import json
import struct
from pathlib import Path

import jsonschema
from acapella_testing.frames.pcap_files import write_pcap

from acapella.cli.main import main
from acapella_core.schemas import json_schema

START_NS = 1_700_000_000_123_456_789  # not a multiple of a coarse clock's step
MACS = bytes.fromhex("00163e000002 00163e000001")


def packet(number: int, *, ttl: int = 64, tos: int = 0, checksum: int = 0, trailer: bytes = b"") -> bytes:
    """Return a frame with a numbered UDP datagram: 58 bytes plus the trailer."""
    payload = struct.pack(">Q", number) + b"acapella" + trailer
    udp = struct.pack(">HHHH", 5000, 5001, 8 + len(payload), checksum) + payload
    header = struct.pack(">BBHHHBBH", 0x45, tos, 20 + len(udp), 7, 0, ttl, 17, ttl)  # an arbitrary header checksum
    return MACS + b"\x08\x00" + header + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + udp


def packet_6(number: int, *, hop_limit: int = 64, traffic_class: int = 0) -> bytes:
    """Return the same over IPv6, with a flow label."""
    udp = struct.pack(">HHHHQ", 5000, 5001, 16, 1, number)
    first = 6 << 28 | traffic_class << 20 | 0xABCDE
    ends = bytes.fromhex("fd00" + 13 * "00" + "01" + "fd00" + 13 * "00" + "02")
    return MACS + b"\x86\xdd" + struct.pack(">IHBB", first, len(udp), 17, hop_limit) + ends + udp


def tagged(number: int, layout: str = "v2", ttl: int = 64) -> bytes:
    """Return a packet with CHOIR's trailer: time, node, port, check, mark."""
    time = (START_NS + number * 1_000_003).to_bytes(8, "big")
    check = {"v1": time[6:], "v2": time[1::-1]}[layout]
    return packet(0, ttl=ttl, trailer=time + bytes([0, 1, 0, 2]) + check + b"\x65\x87")


def arp(number: int, padding: int = 0) -> bytes:
    """Return a frame without IP."""
    return MACS + b"\x08\x06" + struct.pack(">HHBBH", 1, 0x0800, 6, 4, 1) + struct.pack(">Q", number) + bytes(padding)


def llc(number: int, padding: int = 0, head: bytes = bytes.fromhex("f0f003")) -> bytes:
    """Return an 802.3 frame: length, LLC (of NetBEUI by default), payload, Ethernet padding."""
    data = head + struct.pack(">Q", number)
    return MACS + struct.pack(">H", len(data)) + data + bytes(padding)


def snap(number: int, padding: int = 0) -> bytes:
    """Return the same with SNAP and an EtherType."""
    return llc(number, padding, bytes.fromhex("aaaa03 000000 88b5"))


def service_snap(number: int) -> bytes:
    """Return IPv4 in SNAP after a service tag."""
    data = bytes.fromhex("aaaa03 000000 0800") + packet(number)[14:]
    return MACS + b"\x88\xa8\0\7" + struct.pack(">H", len(data)) + data


def isl(frame: bytes) -> bytes:
    """Return a frame with its check sequence inside Cisco ISL."""
    inside = bytes.fromhex("aaaa03 001b21 000a 0000 0000") + frame + b"fcs!"
    return bytes.fromhex("01000c0000 00 001b21ddeeff") + struct.pack(">H", len(inside)) + inside


def write(path: Path, offsets: list[int], numbers=None, snaplen: int = 262144, make=packet) -> Path:
    """Write a capture of packets ``numbers`` (0, 1, ... by default), ``offsets`` ns after START_NS."""
    numbers = range(len(offsets)) if numbers is None else numbers
    return write_pcap(path, [(START_NS + ns, make(n)) for ns, n in zip(offsets, numbers, strict=True)], snaplen)


def steady(count: int, gap_ns: int = 1_237) -> list[int]:
    """Return offsets (ns) with equal gaps, which only a fine clock resolves."""
    return [n * gap_ns for n in range(count)]


def kappa(capsys, *words) -> dict:
    """Return the JSON of `acapella kappa`, checked against its schema and for NaN."""
    assert main(["kappa", *map(str, words), "--json"]) == 0
    result = json.loads(capsys.readouterr().out, parse_constant=lambda name: 1 / 0)
    validator().validate(result)
    return result


@functools.cache
def validator():
    """Return the validator of results; cached, so that its schema is checked only once."""
    schema = json_schema("kappa")
    return jsonschema.validators.validator_for(schema)(schema)


def pair(capsys, *words) -> dict:
    """Return the only pair of `acapella kappa`."""
    (only,) = kappa(capsys, *words)["pairs"]
    return only


def codes(entry: dict) -> list[str]:
    """Return the warning codes of a pair."""
    return [warning["code"] for warning in entry["warnings"]]


def texts(entry: dict, code: str) -> list[str]:
    """Return the text of each warning of a pair that has this code."""
    return [warning["text"] for warning in entry["warnings"] if warning["code"] == code]
