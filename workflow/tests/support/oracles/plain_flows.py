"""Plain reference implementation of flow tables: naive_tunnels reads the frames; several passes over lists count flows.

It shares no code with the core, so that the two can be compared column by column.
"""

import hashlib
import ipaddress
import itertools
import math
import struct
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction

from acapella_testing.oracles import community_ids, naive_tunnels

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
FLAGS = {"syn": SYN, "syn_ack": SYN | ACK, "fin": FIN, "rst": RST, "psh": PSH, "ack": ACK, "urg": URG, "ece": ECE}
FLAGS |= {"cwr": CWR}
KEY = ("vlan", "mpls", "tunnels", "ip_version", "src", "dst", "ip_proto", "src_port", "dst_port")
NUMBERS = {"vxlan_vni": 1, "gre_key": 4, "nvgre_vsid": 5, "nvgre_flow_id": 13}


@dataclass(frozen=True)
class Frame:
    """Values of one frame; ``flow`` is None without an IP header, ``tcp`` None without a complete TCP header."""

    ts_ns: int
    wire_len: int
    # vlans, labels, tunnels (type, id, position), version, src, dst, protocol, source port, destination port
    flow: tuple | None = None
    ip_len: int = 0
    payload_len: int | None = None
    tcp: tuple | None = None  # flags, seq, ack, window
    ip_id: int | None = None


def read_frame(ts_ns: int, data: bytes, wire_len: int) -> Frame:
    """Return the values of the captured bytes of an Ethernet frame."""
    found = naive_tunnels.read(data)
    if found.key is None:
        return Frame(ts_ns, wire_len)
    vlans, tunnels, src, dst, protocol, ports = found.key
    flow = (vlans, tuple(found.mpls), tunnels, found.ip_version, src, dst, protocol, *(ports or (None, None)))
    return Frame(ts_ns, wire_len, flow, found.ip_len, found.payload_len, found.tcp, found.ip_id)


def grouped(frames: list[Frame]) -> dict[tuple, list[int]]:
    """Return frame positions by flow, flows in order of their first frames."""
    flows = defaultdict(list)
    for position, frame in enumerate(frames):
        if frame.flow is not None:
            flows[frame.flow].append(position)
    return flows


def key_of(flow: tuple) -> tuple:
    """Return the part of a flow's key that determines its peer: without MPLS labels and IP version."""
    vlans, _, tunnels, _, src, dst, protocol, *ports = flow
    return (vlans, tunnels, src, dst, protocol, None if None in ports else tuple(ports))


def unwrapped(seq: int, highest: int) -> int:
    """Return the position of a sequence number that is nearest to the highest one."""
    return highest + (seq - highest + 2**31) % 2**32 - 2**31


def sent(frames: list[Frame]):
    """Yield begin and end of the payload, and the highest end so far, for TCP frames of a direction; else None."""
    highest = None
    for frame in frames:
        if frame.tcp is None:
            yield None
            continue
        flags, seq, _, _ = frame.tcp
        begin = (seq if highest is None else unwrapped(seq, highest)) + bool(flags & SYN)
        end = begin + (frame.payload_len or 0)
        highest = max(seq if highest is None else highest, end + bool(flags & FIN))
        yield begin, end, highest


def retransmitted(frames: list[Frame]) -> int:
    """Return the number of retransmitted payload bytes."""
    seen, again = set(), 0
    for step in sent(frames):
        if step is not None:
            positions = set(range(step[0], step[1]))
            again += len(positions & seen)
            seen |= positions
    return again


def duplicate_acks(frames: list[Frame], own: tuple, other: tuple) -> int:
    """Return the number of duplicate ACKs (RFC 5681, section 2) of ``own`` for data of ``other``."""
    steps = sent([frame for frame in frames if frame.flow == other])
    count, highest_sent, greatest, window = 0, None, None, None
    for frame in frames:
        if frame.flow == other and (step := next(steps)) is not None:
            highest_sent = step[2]
        if frame.flow != own or frame.tcp is None or not frame.tcp[0] & ACK:
            continue
        flags, _, ack, advertised = frame.tcp
        outstanding = highest_sent is not None and 0 < (highest_sent - ack) % 2**32 < 2**31
        no_data = frame.payload_len == 0 and not flags & (SYN | FIN)
        count += outstanding and no_data and ack == greatest and advertised == window
        if greatest is None or 0 < (ack - greatest) % 2**32 < 2**31:
            greatest = ack
        window = advertised
    return count


def handshake_rtt(frames: list[Frame], own: tuple, other: tuple) -> int | None:
    """Return the time from the only SYN to the first ACK of the only SYN/ACK that answers it."""
    syns = [i for i, f in enumerate(frames) if f.flow == own and f.tcp and f.tcp[0] & (SYN | ACK) == SYN]
    answers = [i for i, f in enumerate(frames) if f.flow == other and f.tcp and f.tcp[0] & (SYN | ACK) == SYN | ACK]
    if len(syns) != 1 or len(answers) != 1:
        return None
    syn, answer = frames[syns[0]], frames[answers[0]]
    if answer.tcp[2] != (syn.tcp[1] + 1) % 2**32:
        return None
    required = ((syn.tcp[1] + 1) % 2**32, (answer.tcp[1] + 1) % 2**32)
    for frame in frames[max(syns[0], answers[0]) + 1 :]:
        if frame.flow == own and frame.tcp and frame.tcp[0] & (SYN | ACK) == ACK and frame.tcp[1:3] == required:
            return frame.ts_ns - syn.ts_ns
    return None


def flow_id(flow: tuple, site: str | None) -> str:
    """Return the documented hash of a key."""
    vlans, labels, tunnels, version, src, dst, protocol, src_port, dst_port = flow
    name = (site or "").encode()
    key = struct.pack(">H", len(name)) + name
    key += struct.pack(f">B{len(vlans)}H", len(vlans), *vlans) + struct.pack(f">B{len(labels)}I", len(labels), *labels)
    key += bytes([len(tunnels)])
    for kind, identifier, position in tunnels:
        key += struct.pack(">BIH", NUMBERS[kind], identifier, position)
    key += bytes([version]) + ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed + bytes([protocol])
    key += b"\0" if src_port is None else struct.pack(">BHH", 1, src_port, dst_port)
    return hashlib.blake2b(key, digest_size=16).hexdigest()


def tcp_columns(frames: list[Frame], flow: tuple, own: list[Frame], other: tuple | None) -> dict:
    """Return the columns that only TCP flows have. ``other``: the peer."""
    headers = [frame.tcp[0] for frame in own if frame.tcp]
    names = [*FLAGS, "retransmitted_bytes", "duplicate_acks", "handshake_rtt_ns", "cut_start", "cut_end"]
    if not headers:
        return dict.fromkeys(names)
    connection = [frame.tcp[0] for frame in frames if frame.tcp and frame.flow in (flow, other)]
    return {name: sum(flags & bits == bits for flags in headers) for name, bits in FLAGS.items()} | {
        "retransmitted_bytes": retransmitted(own),
        "duplicate_acks": None if other is None else duplicate_acks(frames, flow, other),
        "handshake_rtt_ns": None if other is None else handshake_rtt(frames, flow, other),
        "cut_start": not (own[0].tcp and own[0].tcp[0] & SYN),
        "cut_end": not any(flags & (FIN | RST) for flags in connection),
    }


def time_columns(own: list[Frame]) -> dict:
    """Return the first and last time, and statistics of the inter-arrival times in file order."""
    times = [frame.ts_ns for frame in own]
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    columns = {"first_ns": min(times), "last_ns": max(times), "iat_min_ns": None, "iat_mean_ns": None}
    columns |= {"iat_max_ns": None, "iat_stddev_ns": None}
    if gaps:
        mean = Fraction(sum(gaps), len(gaps))
        variance = Fraction(sum(gap * gap for gap in gaps), len(gaps)) - mean * mean
        columns |= {"iat_min_ns": min(gaps), "iat_max_ns": max(gaps), "iat_mean_ns": float(mean)}
        columns["iat_stddev_ns"] = math.sqrt(variance)
    return columns


def flow_table(frames: list[Frame], site: str | None = None, port: str | None = None) -> list[dict]:
    """Return the flow table without `stacks`, `stacks_cut`, `app`, `app_by`, which follow from the frame table."""
    flows = list(grouped(frames))
    keys = [key_of(flow) for flow in flows]
    peers, candidates = naive_tunnels.peers(keys), naive_tunnels.candidates(keys)
    rows = []
    for row, (flow, positions) in enumerate(grouped(frames).items()):
        own = [frames[position] for position in positions]
        other = None if peers[row] is None else flows[peers[row]]
        lengths = [frame.wire_len for frame in own]
        tunnels = [dict(zip(("type", "id", "position"), tunnel, strict=True)) for tunnel in flow[2]]
        key = dict(zip(KEY, [list(flow[0]), list(flow[1]), tunnels, *flow[3:]], strict=True))
        rows.append(
            {"flow": row, "flow_id": flow_id(flow, site), "site": site, "port": port, "peer_flow": peers[row]}
            | key
            | {
                "peer_flow_id": None if other is None else flow_id(other, site),
                **{"peer_candidates": len(candidates[row]), "community_id": community_ids.reference(key)},
                **{"frames": len(own), "wire_bytes": sum(lengths), "wire_len_mean": sum(lengths) / len(lengths)},
                **{"wire_len_min": min(lengths), "wire_len_max": max(lengths)},
                "ip_bytes": sum(frame.ip_len for frame in own),
                "payload_bytes": sum(frame.payload_len or 0 for frame in own),
            }
            | time_columns(own)
            | tcp_columns(frames, flow, own, other)
        )
    return rows
