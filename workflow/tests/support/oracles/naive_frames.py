"""Naive reference of the frames of a capture: scapy reads the records, plain Python parses the headers.

Independent of the native core: it follows the definitions of schemas/tables/{frames,flows}.yaml for the headers that
traces.py generates, with dictionaries and sets, without layouts, hashes or Arrow. Layers above 4 have no name, as with
`acapella digest --engine native`.
"""

import ipaddress
from pathlib import Path

from acapella_testing.oracles import plain_flows
from scapy.utils import RawPcapReader

VLANS = (0x8100, 0x88A8, 0x9100)


def read_frames(path: Path) -> list[dict]:
    """Return all frames of a nanosecond pcap with link type Ethernet."""
    frames = []
    with RawPcapReader(str(path)) as reader:
        assert reader.nano
        assert reader.linktype == 1
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
    found["key"] = {"ip_version": version, "src": ends[0], "dst": ends[1], "ip_proto": proto}
    found["key"] |= {"src_port": None, "dst_port": None}
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
        found["tcp"] = {"flags": number(data, at + 12, 2) & 0xFFF, "seq": number(data, at + 4, 4)}
        found["tcp"] |= {"ack": number(data, at + 8, 4), "window": number(data, at + 14, 2)}


def make_flows(frames: list[dict], site: str | None) -> list[dict]:
    """Return the flows as computed by plain_flows; set the row of every frame (None without IP)."""
    plain = [plain_frame(frame) for frame in frames]
    for frame in frames:
        frame["flow"] = None
    for row, positions in enumerate(plain_flows.grouped(plain).values()):
        for position in positions:
            frames[position]["flow"] = row
    return [{**flow, "app": None, "app_by": None} for flow in plain_flows.flow_table(plain, site)]


def plain_frame(frame: dict) -> plain_flows.Frame:
    """Return the values of a frame that plain_flows uses. There are no tunnels with identifiers."""
    key, tcp = frame["key"], frame["tcp"]
    flow = key and (tuple(frame["vlan"]), tuple(frame["mpls"]), (), *key.values())
    values = (frame["ip_len"] or 0, frame["payload_len"], tcp and tuple(tcp.values()), frame["ip_id"])
    return plain_flows.Frame(frame["ts_ns"], frame["wire_len"], flow, *values)
