"""The flows that the parser finds in real captures, compared with the native digest; every difference is explained."""

import ipaddress
import struct
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_p4_model.parsing import DEEP, Parsed, parse
from acapella_p4_model.preprocess import Preprocess
from acapella_p4_model.running import Frame, run, write_pcap
from acapella_testing import processes

from acapella.digest.command import Options, digest

FRAMES_PER_FILE = 12
ENCAPSULATED_FRAMES = 6000
ACK = 0x10
# Protocols that contain layers 2 to 4, which the core reads and the parser does not.
TUNNELS = ("teredo", "gtp", "vxlan", "geneve", "gre", "erspan", "pppoes", "pim", "l2tp", "udpencap", "llc", "etherip")
COLUMNS = ["flow", "protocols", "ip_len", "payload_len", "tcp_flags", "tcp_seq", "tcp_ack"]


ORDERS = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}


CARRIED = [(carrier, carried) for carrier in ("udp", "ip", "ipv6", "ipv6.routing") for carried in ("mpls", "eth")]


def frames_of(path: Path, max_frames: int) -> list[Frame]:
    """Return the first frames of an Ethernet pcap; none for other files."""
    data, frames, at = path.read_bytes(), [], 24
    order = ORDERS.get(data[:4])
    if order is None or struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF != 1:
        return []
    while at + 16 <= len(data) and len(frames) < max_frames:
        kept, wire = struct.unpack_from(order + "II", data, at + 8)
        if kept > 16384 or at + 16 + kept > len(data):
            break
        frames.append(Frame(data[at + 16 : at + 16 + kept], wire_length=max(wire, kept)))
        at += 16 + kept
    return frames


@pytest.fixture(scope="module")
def frames(corpus, tmp_path_factory) -> list[Frame]:
    """Return frames of every capture, and of captures wrapped in the encapsulation of a testbed's underlay."""
    paths = sorted(path for path in corpus.rglob("*") if path.is_file())
    found = [frame for path in paths for frame in frames_of(path, FRAMES_PER_FILE)]
    wrap, wrapped = corpus.parent / "tools" / "underlay.py", tmp_path_factory.mktemp("wrapped") / "wrapped.pcap"
    if wrap.is_file():
        options = ["--frames", ENCAPSULATED_FRAMES, "--snaplen", 200, "-o", wrapped]
        processes.run(sys.executable, wrap, *options, corpus / "ndpi", check=True)
        found += frames_of(wrapped, ENCAPSULATED_FRAMES)
    return found


def parser_values(parsed: Parsed, protocol_has_ports: bool) -> dict | None:
    """Return the flow and the lengths that the parser finds in a frame, in the digest's terms."""
    flow, tcp = parsed.flow, parsed.tcp if parsed.transport == 6 else None
    if flow.ip_version == 0:
        return None
    kind = ipaddress.IPv4Address if flow.ip_version == 4 else ipaddress.IPv6Address
    vlans = [flow.vlans >> 16 * number & 0xFFFF for number in reversed(range(min(flow.vlan_count, 4)))]
    labels = [flow.label_1, flow.label_2, flow.label_3, flow.label_4][: flow.mpls_count]
    return {
        **{"ip_version": flow.ip_version, "ip_proto": flow.ip_proto, "ip_len": parsed.ip_length},
        **{"src": str(kind(flow.src_high << 64 | flow.src_low)), "dst": str(kind(flow.dst_high << 64 | flow.dst_low))},
        **{"ports": (flow.src_port, flow.dst_port) if protocol_has_ports else None, "vlan": vlans, "mpls": labels},
        "payload_len": parsed.payload_length if parsed.transport else None,
        "tcp": (tcp.flags, tcp.seq, tcp.ack if tcp.flags & ACK else None) if tcp else None,
    }


def digest_values(row: dict, flow: dict | None, parsed: Parsed, protocol_has_ports: bool) -> dict | None:
    """Return the same values from the digest, without those that the parser does not find, such as SCTP's ports."""
    return flow and {
        **{name: flow[name] for name in ("ip_version", "src", "dst", "ip_proto", "vlan", "mpls")},
        "ports": (flow["src_port"] or 0, flow["dst_port"] or 0) if protocol_has_ports else None,
        "ip_len": row["ip_len"],
        "payload_len": row["payload_len"] if parsed.transport else None,
        "tcp": ((row["tcp_flags"] or 0) & 0xFF, row["tcp_seq"], row["tcp_ack"]) if parsed.transport == 6 else None,
    }


def explanation(protocols: list[str], parsed: Parsed) -> str | None:
    """Return why the parser and the core may differ on a frame, or None if they may not."""
    stack = ":".join(protocols)
    reasons = [f"carried by {tunnel}" for tunnel in TUNNELS if tunnel in protocols]
    reasons += [f"{carried} carried by {carrier}" for carrier, carried in CARRIED if f"{carrier}:{carried}" in stack]
    reasons += ["more headers than the parser has room for"] * (parsed.parse_end == DEEP)
    return next(iter(reasons), None)


def test_flows_match_the_digest(frames, tmp_path, record_property):
    write_pcap(tmp_path / "frames.pcap", ((10**18 + number, frame) for number, frame in enumerate(frames)))
    acap, flows = str(tmp_path / "acap.parquet"), str(tmp_path / "flows.parquet")
    digest([str(tmp_path / "frames.pcap")], acap, flows, Options("native"))
    rows = pq.read_table(acap, columns=COLUMNS).to_pylist()
    by_number = {flow["flow"]: flow for flow in pq.read_table(flows).to_pylist()}
    assert len(rows) == len(frames)
    explained, with_flow = Counter(), 0
    for number, (frame, row) in enumerate(zip(frames, rows, strict=True)):
        parsed = parse(frame.raw, frame.wire)
        has_ports = parsed.flow.ip_proto in (6, 17)
        mine, core = parser_values(parsed, has_ports), digest_values(row, by_number.get(row["flow"]), parsed, has_ports)
        with_flow += core is not None
        reason = explanation((row["protocols"] or "").split(":"), parsed)
        assert mine == core or reason, (number, frame.raw[:100].hex())
        explained[reason] += mine != core
    record_property("frames_with_flow", with_flow)
    record_property("explained", dict(explained))
    assert with_flow > 5000
    assert 0 < explained.total() < 0.05 * with_flow, explained


def test_program_parses_captures_like_the_model(frames, tmp_path):
    """The packet hash covers the flow key and the transport fields, so equal hashes mean that these are equal."""
    model, outcomes = Preprocess(), run("preprocess", frames, "", tmp_path).outcomes
    for number, (frame, outcome) in enumerate(zip(frames, outcomes, strict=True)):
        verdict = model.frame(frame.raw, frame.wire)
        assert (outcome.hash, outcome.raw) == (verdict.hash, verdict.raw), f"frame {number}: {frame.raw[:100].hex()}"
