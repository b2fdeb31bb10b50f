"""Plain reference of flow tables: scapy reads the frames, dictionaries and lists count, with any number of passes.

It shares no code with the core, so that the two can be compared column by column.
"""

import hashlib
import ipaddress
import itertools
import math
import struct
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction

from communityid import CommunityID, FlowTuple
from scapy.contrib.mpls import MPLS
from scapy.layers.inet import GRE, ICMP, IP, TCP, UDP
from scapy.layers.inet6 import (
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
from scapy.layers.sctp import SCTP
from scapy.layers.vxlan import VXLAN

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
FLAGS = {"syn": SYN, "syn_ack": SYN | ACK, "fin": FIN, "rst": RST, "psh": PSH, "ack": ACK, "urg": URG, "ece": ECE}
FLAGS |= {"cwr": CWR}
NUMBERS = {"vxlan_vni": 1, "gre_key": 4, "nvgre_vsid": 5, "nvgre_flow_id": 13}
SAME = {"vxlan_vni", "nvgre_vsid"}  # same for both directions of a flow
EXTENSIONS = (IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, IPv6ExtHdrFragment, IPv6ExtHdrDestOpt)


@dataclass(frozen=True)
class Frame:
    """Values of one frame; ``flow`` is None without an IP header, ``tcp`` None without a complete TCP header."""

    ts_ns: int
    wire_len: int
    flow: tuple | None = (
        None  # vlans, labels, tunnels (type, id, position), version, src, dst, protocol, source port, destination port
    )
    ip_len: int = 0
    payload_len: int | None = None
    tcp: tuple | None = None  # flags, seq, ack, window
    ip_id: int | None = None


def read_frame(ts_ns: int, data: bytes, wire_len: int) -> Frame:
    """Parse one Ethernet frame with scapy."""
    layers = layers_of(Ether(data))
    vlans = tuple(layer.vlan for layer in layers if isinstance(layer, Dot1Q | Dot1AD))
    labels = tuple(layer.label for layer in layers if isinstance(layer, MPLS))
    networks = [i for i, layer in enumerate(layers) if isinstance(layer, IP | IPv6)]
    if not networks:
        return Frame(ts_ns, wire_len)
    network = layers[networks[-1]]
    above = layers[networks[-1] + 1 :]
    v4 = isinstance(network, IP)
    ip_len = network.len if v4 else 40 + network.plen
    fragment = next((layer for layer in above if isinstance(layer, IPv6ExtHdrFragment)), None)
    later = bool(network.frag) if v4 else fragment is not None and fragment.offset > 0
    protocol = network.proto if v4 else fragment.nh if fragment is not None else network.nh
    transport = None if later else next((layer for layer in above if isinstance(layer, TCP | UDP | SCTP)), None)
    ports = (transport.sport, transport.dport) if transport is not None else (None, None)
    flow = (vlans, labels, tunnels_of(layers), 4 if v4 else 6, network.src, network.dst, protocol, *ports)
    before = 4 * network.ihl if v4 else 40 + (8 if fragment is not None else 0)
    payload = tcp = None
    if isinstance(transport, UDP) or (not later and above and isinstance(above[0], ICMP)):
        payload = ip_len - before - 8
    if isinstance(transport, TCP):
        payload = ip_len - before - 4 * transport.dataofs
        tcp = (int(transport.flags), transport.seq, transport.ack, transport.window)
    return Frame(ts_ns, wire_len, flow, ip_len, payload, tcp, network.id if v4 else None)


def layers_of(packet) -> list:
    """Return a packet's layers, outermost first."""
    layers = []
    while packet:
        layers.append(packet)
        packet = packet.payload
    return layers


def tunnels_of(layers: list) -> tuple:
    """Return the identifiers of tunnels: type, identifier, position of the header (IPv6 extensions do not count)."""
    found = []
    counted = [layer for layer in layers if not isinstance(layer, EXTENSIONS)]
    for position, layer in enumerate(counted, 1):
        if isinstance(layer, VXLAN) and counts(counted, position):
            found.append(("vxlan_vni", layer.vni, position))
        elif isinstance(layer, GRE) and layer.key_present:
            nvgre = layer.proto == 0x6558 and not layer.chksum_present and not layer.seqnum_present
            vsid = nvgre and layer.key >= 0x1000 << 8
            found.append(("nvgre_vsid", layer.key >> 8, position) if vsid else ("gre_key", layer.key, position))
            if vsid and layer.key % 256:
                found.append(("nvgre_flow_id", layer.key % 256, position))
    return tuple(found)


def counts(layers: list, position: int) -> bool:
    """Return whether a VXLAN header counts: I flag, port, and IP inside. scapy sets a reserved flag before Ethernet."""
    inside = any(isinstance(layer, IP | IPv6) for layer in layers[position:])
    return bool(layers[position - 1].flags.Instance) and layers[position - 2].dport == 4789 and inside


def network(flow: tuple) -> list:
    """Return the identifiers of tunnels, at any positions, that both directions of a flow share."""
    return [tunnel[:2] for tunnel in flow[2] if tunnel[0] in SAME]


def identical(flow: tuple, other: tuple) -> bool:
    """Return whether both have the same tunnel identifiers, at any positions. scapy's frames have no other types."""
    return [tunnel[:2] for tunnel in flow[2]] == [tunnel[:2] for tunnel in other[2]]


def grouped(frames: list[Frame]) -> dict[tuple, list[int]]:
    """Return frame positions by flow, flows in order of their first frames."""
    flows = defaultdict(list)
    for position, frame in enumerate(frames):
        if frame.flow is not None:
            flows[frame.flow].append(position)
    return flows


def reversed_ends(flow: tuple) -> tuple:
    """Return endpoints and protocol of the opposite direction."""
    _, _, _, version, src, dst, protocol, src_port, dst_port = flow
    return (version, dst, src, protocol, dst_port, src_port)


def candidates(flow: tuple, flows) -> list[tuple]:
    """Return flows of the same network with reversed endpoints and protocol; [] if both ends are the same."""
    required = reversed_ends(flow)
    if required == flow[3:]:
        return []
    return [other for other in flows if other[3:] == required and network(other) == network(flow)]


def choice(flow: tuple, flows) -> tuple | None:
    """Return the only candidate, else the only one with equal VLANs, else the only one of these with equal GRE keys."""
    found = candidates(flow, flows)
    if len(found) > 1:
        found = [other for other in found if other[0] == flow[0]]
    if len(found) > 1:
        found = [other for other in found if identical(other, flow)]
    return found[0] if len(found) == 1 else None


def peer(flow: tuple, flows) -> tuple | None:
    """Return the opposite direction, if each is the choice of the other."""
    other = choice(flow, flows)
    return other if other is not None and choice(other, flows) == flow else None


def unwrapped(seq: int, highest: int) -> int:
    """Return the position of a sequence number that is nearest to the highest one."""
    return highest + (seq - highest + 2**31) % 2**32 - 2**31


def sent(frames: list[Frame]):
    """Yield begin and end of the payload, and one above the highest position so far, for TCP frames of a direction."""
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


def community_id(flow: tuple) -> str | None:
    """Return the Community ID (version 1, seed 0) of TCP, UDP and SCTP with ports."""
    *_, src, dst, protocol, src_port, dst_port = flow
    if protocol not in {6, 17, 132} or src_port is None:
        return None
    return CommunityID(seed=0).calc(FlowTuple(protocol, src, dst, src_port, dst_port))


def tcp_columns(frames: list[Frame], flow: tuple, own: list[Frame], flows) -> dict:
    """Return the columns that only TCP flows have."""
    headers = [frame.tcp[0] for frame in own if frame.tcp]
    names = [*FLAGS, "retransmitted_bytes", "duplicate_acks", "handshake_rtt_ns", "cut_start", "cut_end"]
    if not headers:
        return dict.fromkeys(names)
    other = peer(flow, flows)
    both = [frame.tcp[0] for frame in frames if frame.tcp and frame.flow in (flow, other)]
    return {name: sum(flags & bits == bits for flags in headers) for name, bits in FLAGS.items()} | {
        "retransmitted_bytes": retransmitted(own),
        "duplicate_acks": None if other is None else duplicate_acks(frames, flow, other),
        "handshake_rtt_ns": None if other is None else handshake_rtt(frames, flow, other),
        "cut_start": not (own[0].tcp and own[0].tcp[0] & SYN),
        "cut_end": not any(flags & (FIN | RST) for flags in both),
    }


def time_columns(own: list[Frame]) -> dict:
    """Return first and last time, and inter-arrival times in file order."""
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
    rows = []
    for row, (flow, positions) in enumerate(grouped(frames).items()):
        own = [frames[position] for position in positions]
        other = peer(flow, flows)
        lengths = [frame.wire_len for frame in own]
        keys = ("vlan", "mpls", "tunnels", "ip_version", "src", "dst", "ip_proto", "src_port", "dst_port")
        tunnels = [dict(zip(("type", "id", "position"), tunnel, strict=True)) for tunnel in flow[2]]
        rows.append(
            {"flow": row, "flow_id": flow_id(flow, site), "site": site, "port": port}
            | dict(zip(keys, [list(flow[0]), list(flow[1]), tunnels, *flow[3:]], strict=True))
            | {
                "peer_flow": None if other is None else flows.index(other),
                "peer_flow_id": None if other is None else flow_id(other, site),
                "peer_candidates": len(candidates(flow, flows)),
                "community_id": community_id(flow),
                "frames": len(own),
                "wire_bytes": sum(lengths),
                "ip_bytes": sum(frame.ip_len for frame in own),
                "payload_bytes": sum(frame.payload_len or 0 for frame in own),
                "wire_len_min": min(lengths),
                "wire_len_mean": sum(lengths) / len(lengths),
                "wire_len_max": max(lengths),
            }
            | time_columns(own)
            | tcp_columns(frames, flow, own, flows)
        )
    return rows


def runs(stacks: list[str]) -> list[tuple[str, int]]:
    """Return the run-length encoding of a list."""
    found = []
    for stack in stacks:
        if found and found[-1][0] == stack:
            found[-1][1] += 1
        else:
            found.append([stack, 1])
    return [tuple(run) for run in found]


def label(tokens: Counter) -> str | None:
    """Return the most frequent token, the smallest of several.

    Returns `data` if no other token is on at least 1 frame for 16 with data.
    """
    named = {token: count for token, count in tokens.items() if token != "data"}
    if 16 * max(named.values(), default=0) < tokens["data"]:
        return "data"
    if not named:
        return None
    return min(named, key=lambda token: (-named[token], token))
