"""Naive reference of the frames of a capture, as dictionaries: naive_tunnels parses the headers.

Independent of the native core: it follows the definitions of schemas/tables/{frames,flows}.yaml. Layers above 4 have no
name, as with `acapella digest --engine native`.
"""

from pathlib import Path

from acapella_testing.frames.pcap_files import records
from acapella_testing.oracles import naive_tunnels, plain_flows

KEY = ("ip_version", "src", "dst", "ip_proto", "src_port", "dst_port")
TCP = ("flags", "seq", "ack", "window")


def read_frames(path: Path) -> list[dict]:
    """Return all frames of a nanosecond pcap with link type Ethernet."""
    return [frame_of(number, *record) for number, record in enumerate(records(path.read_bytes()), 1)]


def frame_of(number: int, ts_ns: int, wire_len: int, data: bytes) -> dict:
    """Return the header labels of a frame and the values of its innermost headers."""
    found, plain = naive_tunnels.read(data), plain_flows.read_frame(ts_ns, data, wire_len)
    known = plain.flow is not None
    return {
        **{"frame": number, "ts_ns": ts_ns, "wire_len": wire_len, "cap_len": len(data), "plain": plain},
        **{"stack": "/".join(found.labels), "vlan": found.vlans, "mpls": found.mpls},
        "key": dict(zip(KEY, plain.flow[3:], strict=True)) if known else None,
        "tcp": dict(zip(TCP, plain.tcp, strict=True)) if plain.tcp else None,
        **{"payload_len": plain.payload_len, "ip_len": plain.ip_len if known else None, "ip_id": plain.ip_id},
        # The innermost link header is Ethernet in all our traces: 14 bytes.
        "inner_wire_len": 14 + wire_len - found.inner_at,
    }


def make_flows(frames: list[dict], site: str | None) -> list[dict]:
    """Return the flows as computed by plain_flows; set the row of every frame (None without IP)."""
    plain = [frame["plain"] for frame in frames]
    for frame in frames:
        frame["flow"] = None
    for row, positions in enumerate(plain_flows.grouped(plain).values()):
        for position in positions:
            frames[position]["flow"] = row
    return [{**flow, "app": None, "app_by": None} for flow in plain_flows.flow_table(plain, site)]
