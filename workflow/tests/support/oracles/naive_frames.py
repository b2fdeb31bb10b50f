"""Naive reference of the frames and flows of a capture: scapy reads the records, plain Python parses the headers.

Independent of the native core: it follows the definitions of schemas/tables/{frames,flows}.yaml for the headers that
traces.py generates, with dictionaries and sets, without layouts, hashes or Arrow. Layers above 4 have no name, as with
`acapella digest --engine native`.
"""

import ipaddress
import itertools
from collections import defaultdict
from pathlib import Path

from scapy.utils import RawPcapReader

VLANS = (0x8100, 0x88A8, 0x9100)
TCP_FLAGS = {"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32, "ece": 64, "cwr": 128}


def read_frames(path: Path) -> list[dict]:
    """Return all frames of a nanosecond pcap with link type Ethernet."""
    frames = []
    with RawPcapReader(str(path)) as reader:
        assert reader.nano and reader.linktype == 1
        for number, (data, record) in enumerate(reader, 1):
            frame = {"frame": number, "ts_ns": record.sec * 10**9 + record.usec, "wire_len": record.wirelen}
            frames.append({**frame, "cap_len": record.caplen, **dissect(data, record.wirelen)})
    return frames


def number(data: bytes, at: int, length: int) -> int:
    """Return a big-endian number."""
    return int.from_bytes(data[at : at + length], "big")


def dissect(data: bytes, wire_len: int) -> dict:
    """Return header labels and values of the innermost headers."""
    found = {"labels": [], "vlan": [], "mpls": []}
    found |= dict.fromkeys(("key", "tcp", "payload_len", "ip_len", "ip_id"))
    ethernet(data, 0, found)
    # The innermost link header is Ethernet in all our traces: 14 bytes.
    found["inner_wire_len"] = 14 + wire_len - found.pop("inner_at")
    found["stack"] = "/".join(found.pop("labels"))
    return found


def ethernet(data: bytes, at: int, found: dict) -> None:
    """Parse Ethernet II, VLAN tags, MPLS stack, and pseudowires with control word."""
    found["labels"].append("Ethernet")
    kind, at = number(data, at + 12, 2), at + 14
    while kind in VLANS:
        found["labels"].append("VLAN")
        found["vlan"].append(number(data, at, 2) & 0xFFF)
        kind, at = number(data, at + 2, 2), at + 4
    found["inner_at"] = at
    if kind == 0x8847:
        bottom = False
        while not bottom:
            entry = number(data, at, 4)
            found["labels"].append("MPLS")
            found["mpls"].append(entry >> 12)
            bottom, at = bool(entry & 0x100), at + 4
        kind = {4: 0x0800, 6: 0x86DD, 0: "pseudowire"}[data[at] >> 4]
        if kind == "pseudowire":
            found["labels"].append("PseudoWire")
            return ethernet(data, at + 4, found)
    if kind == 0x0800:
        ipv4(data, at, found)
    elif kind == 0x86DD:
        ipv6(data, at, found)
    elif kind == 0x0806:
        found["labels"].append("ARP")


def ipv4(data: bytes, at: int, found: dict) -> None:
    """Parse IPv4. For later fragments, parse nothing after it."""
    found["labels"].append("IPv4")
    header, length, place = (data[at] & 15) * 4, number(data, at + 2, 2), number(data, at + 6, 2) & 0x1FFF
    ends = [str(ipaddress.ip_address(data[at + n : at + n + 4])) for n in (12, 16)]
    network(4, ends, data[at + 9], length, found)
    found["ip_id"] = number(data, at + 4, 2)
    found["inner_at"] = at
    if place == 0:
        transport(data, at + header, data[at + 9], length - header, found)


def ipv6(data: bytes, at: int, found: dict) -> None:
    """Parse IPv6 without extension headers."""
    found["labels"].append("IPv6")
    ends = [str(ipaddress.ip_address(data[at + n : at + n + 16])) for n in (8, 24)]
    network(6, ends, data[at + 6], 40 + number(data, at + 4, 2), found)
    found["inner_at"] = at
    transport(data, at + 40, data[at + 6], number(data, at + 4, 2), found)


def network(version: int, ends: list[str], proto: int, length: int, found: dict) -> None:
    """Store the values of a network header; they replace those of an outer one."""
    found["key"] = {
        "ip_version": version,
        "src": ends[0],
        "dst": ends[1],
        "ip_proto": proto,
        "src_port": None,
        "dst_port": None,
    }
    found.update(ip_len=length, ip_id=None, tcp=None, payload_len=None)


def transport(data: bytes, at: int, proto: int, length: int, found: dict) -> None:
    """Parse TCP, UDP, ICMP or a GRE tunnel. ``length``: from the transport header to the end of the packet."""
    if proto == 47:
        found["labels"].append("GRE")
        assert number(data, at, 4) == 0x0800
        return ipv4(data, at + 4, found)
    if proto in (6, 17):
        found["key"].update(src_port=number(data, at, 2), dst_port=number(data, at + 2, 2))
    header = {6: data[at + 12] // 16 * 4 if proto == 6 else 0, 17: 8, 1: 8}[proto]
    found["labels"].append({6: "TCP", 17: "UDP", 1: "ICMP"}[proto])
    found["payload_len"] = length - header
    if proto == 6:
        found["tcp"] = {
            "flags": number(data, at + 12, 2) & 0xFFF,
            "seq": number(data, at + 4, 4),
            "ack": number(data, at + 8, 4),
            "window": number(data, at + 14, 2),
        }


def key_of(frame: dict, site: str | None) -> tuple:
    """Return the key of a directed flow."""
    return (site, tuple(frame["vlan"]), tuple(frame["mpls"]), *frame["key"].values())


def make_flows(frames: list[dict], site: str | None) -> list[dict]:
    """Return the directed flows in order of their first frames; set the row of every frame (None without IP)."""
    groups = defaultdict(list)
    for frame in frames:
        frame["flow"] = None
        if frame["key"] is not None:
            groups[key_of(frame, site)].append(frame)
    flows = []
    for row, (key, members) in enumerate(groups.items()):
        for frame in members:
            frame["flow"] = row
        flows.append({"flow": row, "key": key, **sums(members)})
    for flow in flows:
        flow["peer_flow"] = peer(flow, flows)
    for flow in flows:
        two_way(flow, flows, frames)
    return flows


def sums(members: list[dict]) -> dict:
    """Return the sums over a flow's frames."""
    first = members[0]
    flow = {
        "vlan": first["vlan"],
        "mpls": first["mpls"],
        **first["key"],
        "first_ns": min(f["ts_ns"] for f in members),
        "last_ns": max(f["ts_ns"] for f in members),
        "frames": len(members),
        "wire_bytes": sum(f["wire_len"] for f in members),
        "ip_bytes": sum(f["ip_len"] for f in members),
        "payload_bytes": sum(f["payload_len"] or 0 for f in members),
        "app": None,
        "app_by": None,
    }
    tcp = flow["ip_proto"] == 6 and flow["src_port"] is not None
    flags = [f["tcp"]["flags"] for f in members if f["tcp"]]
    for name, bit in TCP_FLAGS.items():
        flow[name] = sum(bool(value & bit) for value in flags) if tcp else None
    flow["syn_ack"] = sum(value & 18 == 18 for value in flags) if tcp else None
    flow["retransmitted_bytes"] = retransmitted(members) if tcp else None
    flow["cut_start"] = not flags[0] & 2 if tcp else None
    return flow


def retransmitted(members: list[dict]) -> int:
    """Return the payload bytes whose sequence numbers were seen before, counted one by one."""
    seen, again = set(), 0
    for frame in members:
        numbers = {
            (frame["tcp"]["seq"] + n + bool(frame["tcp"]["flags"] & 2)) % 2**32 for n in range(frame["payload_len"])
        }
        again += len(numbers & seen)
        seen |= numbers
    return again


def peer(flow: dict, flows: list[dict]) -> int | None:
    """Return the only flow with reversed ends and protocol; of several, the only one with the same VLAN stack."""
    ends = (flow["ip_version"], flow["dst"], flow["src"], flow["ip_proto"], flow["dst_port"], flow["src_port"])
    names = ("ip_version", "src", "dst", "ip_proto", "src_port", "dst_port")
    found = [other for other in flows if tuple(other[name] for name in names) == ends and other is not flow]
    if flow["src_port"] is None and flow["ip_proto"] in (6, 17):
        found = []
    if len(found) > 1:
        found = [other for other in found if other["vlan"] == flow["vlan"]]
    return found[0]["flow"] if len(found) == 1 else None


def two_way(flow: dict, flows: list[dict], frames: list[dict]) -> None:
    """Set the columns that need the peer: handshake RTT, duplicate ACKs, cut end."""
    flow["handshake_rtt_ns"] = flow["duplicate_acks"] = flow["cut_end"] = None
    if flow["syn"] is None:
        return
    pair = [flow] + ([flows[flow["peer_flow"]]] if flow["peer_flow"] is not None else [])
    flow["cut_end"] = not any(f["fin"] or f["rst"] for f in pair)
    if len(pair) == 2:
        rows = [f["flow"] for f in pair]
        both = [f for f in frames if f["flow"] in rows]
        flow["handshake_rtt_ns"] = handshake(both, *rows)
        flow["duplicate_acks"] = duplicate_acks(both, *rows)


def handshake(both: list[dict], own: int, other: int) -> int | None:
    """Return the time from the own SYN to the own ACK of the peer's SYN/ACK; None if a part is missing or repeated."""
    syn = [f for f in both if f["flow"] == own and f["tcp"]["flags"] & 18 == 2]
    syn_ack = [f for f in both if f["flow"] == other and f["tcp"]["flags"] & 18 == 18]
    if len(syn) != 1 or len(syn_ack) != 1:
        return None
    required = (syn_ack[0]["tcp"]["seq"] + 1) % 2**32
    acks = [f for f in both if f["flow"] == own and f["tcp"]["flags"] & 18 == 16 and f["tcp"]["ack"] == required]
    acks = [f for f in acks if f["frame"] > syn_ack[0]["frame"]]
    return acks[0]["ts_ns"] - syn[0]["ts_ns"] if acks else None


def duplicate_acks(both: list[dict], own: int, other: int) -> int:
    """Count duplicate ACKs (RFC 5681, section 2).

    (a) data outstanding, (b) no data, (c) no SYN or FIN, (d) the greatest ACK, (e) same window.
    """
    sent = greatest = window = None
    count = 0
    for frame in both:
        tcp = frame["tcp"]
        if frame["flow"] == other:
            end = tcp["seq"] + frame["payload_len"] + bool(tcp["flags"] & 2) + bool(tcp["flags"] & 1)
            sent = end if sent is None or after(end, sent) else sent
            continue
        if not tcp["flags"] & 16:
            continue
        outstanding = sent is not None and greatest is not None and after(sent, greatest)
        plain = frame["payload_len"] == 0 and not tcp["flags"] & 3
        if outstanding and plain and tcp["ack"] == greatest and tcp["window"] == window:
            count += 1
        window = tcp["window"]
        greatest = tcp["ack"] if greatest is None or after(tcp["ack"], greatest) else greatest
    return count


def after(a: int, b: int) -> bool:
    """Return whether sequence number ``a`` is later than ``b``, modulo 2^32."""
    return 0 < (a - b) % 2**32 < 2**31


def equal_neighbors(values: list[int]) -> int:
    """Return how many values equal the previous one."""
    return sum(a == b for a, b in itertools.pairwise(values))
