"""Naive reference of the exact flows of a capture: dictionaries and loops over the frames of naive_frames.

Computes the same as the SQL in workflow/sql/flowreports: flows as reports distinguish them, both halves of their
handshakes, their last inter-arrival time, their losses and acknowledgments, and their bytes in windows of time.
"""

import math
from collections import defaultdict

SYN_ACK, SYN, ACK, RST = 18, 2, 16, 4


def key_of(frame: dict) -> tuple:
    """Return (vlan, mpls, src, dst, protocol, ports). Ports are 0 unless the protocol is TCP or UDP."""
    key = frame["key"]
    ports = (key["src_port"] or 0, key["dst_port"] or 0) if key["ip_proto"] in (6, 17) else (0, 0)
    return (tuple(frame["vlan"]), tuple(frame["mpls"]), key["src"], key["dst"], key["ip_proto"], *ports)


def way_of(key: tuple) -> tuple:
    """Return a key without its MPLS labels."""
    return (key[0], *key[2:])


def back_of(way: tuple) -> tuple:
    """Return the key without MPLS labels of the opposite direction."""
    vlan, src, dst, proto, src_port, dst_port = way
    return (vlan, dst, src, proto, dst_port, src_port)


def nearest_rank(values: list[float], share: float) -> float:
    """Return the smallest value that this share of the values does not exceed, as quantile_disc does."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def flows(frames: list[dict]) -> dict[tuple, dict]:
    """Return packets, bytes, iat_ns, rtt_syn_ns, rtt_ack_ns and the losses of TCP flows, by key."""
    groups = defaultdict(list)
    for frame in frames:
        if frame["key"] is not None:
            groups[key_of(frame)].append(frame)
    ways = defaultdict(list)
    for key, members in groups.items():
        ways[way_of(key)] += members
    found = {}
    for key, members in groups.items():
        stamps = [frame["ts_ns"] for frame in members]
        way = way_of(key)
        own, other = ordered(ways[way]), ordered(ways.get(back_of(way), []))
        found[key] = {
            "packets": len(members),
            "bytes": sum(frame["ip_len"] for frame in members),
            "iat_ns": stamps[-1] - stamps[-2] if len(stamps) > 1 else None,
            "rtt_syn_ns": last_half(own, other, SYN, SYN_ACK),
            "rtt_ack_ns": last_half(other, own, SYN_ACK, ACK),
            **(losses(members) if any(frame["tcp"] for frame in members) else {}),
        }
    return found


def ordered(frames: list[dict]) -> list[dict]:
    """Return TCP segments in file order."""
    return sorted((frame for frame in frames if frame["tcp"]), key=lambda frame: frame["frame"])


def is_a(frame: dict, kind: int) -> bool:
    """Return whether a segment is a SYN, a SYN-ACK, or an ACK. An RST is none of them."""
    return frame["tcp"]["flags"] & (SYN_ACK | RST) == kind


def last_half(asking: list[dict], answering: list[dict], kind: int, answer: int) -> int | None:
    """Return the time from a segment of a kind to its answer, for the last handshake answered before a retransmission.

    A segment with the sequence number of the previous one is a retransmission; any other one starts a new handshake.
    """
    half = None
    requested = [frame for frame in asking if is_a(frame, kind)]
    while requested:
        again = 1
        while again < len(requested) and requested[again]["tcp"]["seq"] == requested[0]["tcp"]["seq"]:
            again += 1
        until = requested[again]["frame"] if again < len(requested) else math.inf
        required = (requested[0]["tcp"]["seq"] + 1) % 2**32
        for frame in answering:
            between = requested[0]["frame"] < frame["frame"] < until
            if between and is_a(frame, answer) and frame["tcp"]["ack"] == required:
                if again == 1 or frame["frame"] < requested[1]["frame"]:
                    half = frame["ts_ns"] - requested[0]["ts_ns"]
                break
        requested = requested[again:]
    return half


def connections(frames: list[dict]) -> list[dict]:
    """Return the TCP connections of a flow's segments, with the positions of the sequence numbers of each segment.

    Each has "first": its first sequence number, "opened": whether by a SYN, and "segments": [(frame, begin, syn, size,
    fin)], where begin is the position of the segment's first sequence number. A SYN with a number that differs from the
    previous SYN's opens a connection. An RST is ignored, and so is a segment with an unknown payload length.
    """
    found, last_syn = [], None
    for frame in ordered(frames):
        tcp, size = frame["tcp"], frame["payload_len"]
        if tcp["flags"] & RST or size is None:
            continue
        syn, fin = tcp["flags"] & SYN == SYN, tcp["flags"] & 1
        if not found or (syn and tcp["seq"] != last_syn):
            found.append({"first": tcp["seq"], "opened": syn, "segments": [], "at": 0, "seq": tcp["seq"]})
        last_syn = tcp["seq"] if syn else last_syn
        now = found[-1]
        now["at"] += signed(tcp["seq"] - now["seq"])
        now["seq"] = tcp["seq"]
        now["segments"].append((frame["frame"], now["at"], int(syn), size, fin))
    return found


def signed(step: int) -> int:
    """Return a difference of sequence numbers; less than half of 2^32 is forward."""
    return (step + 2**31) % 2**32 - 2**31


def losses(frames: list[dict]) -> dict[str, int]:
    """Return missing_bytes, distinct_bytes and retransmitted_bytes of a flow's segments, by sets of numbers."""
    sums = {"missing_bytes": 0, "distinct_bytes": 0, "retransmitted_bytes": 0}
    for connection in connections(frames):
        occupied, payload, fins = set(), set(), set()
        for _, at, syn, size, fin in connection["segments"]:
            data = set(range(at + syn, at + syn + size))
            sums["retransmitted_bytes"] += len(data & (payload | fins))
            sums["distinct_bytes"] += len(data - payload - fins)
            payload |= data
            fins |= set(range(at + syn + size, at + syn + size + fin))
            occupied |= data | set(range(at, at + syn)) | set(range(at + syn + size, at + syn + size + fin))
        if occupied:
            sums["missing_bytes"] += max(occupied) + 1 - min(occupied) - len(occupied)
    return sums


def acknowledgments(own: list[dict], other: list[dict]) -> dict[int, tuple[int | None, int | None]]:
    """Return (flight_bytes, acknowledged_bytes) of a flow by frame, starting with its first segment.

    Frames are its segments and acknowledgments of ``other``, the segments of the reverse flow. None means unknown.
    """
    found, total = {}, None
    top = base = highest = reached = last_syn = None
    began = occupied = False
    own_frames = {frame["frame"] for frame in own}
    for frame in ordered(own + other):
        tcp, is_own = frame["tcp"], frame["frame"] in own_frames
        if (is_own and (tcp["flags"] & RST or frame["payload_len"] is None)) or (not is_own and not tcp["flags"] & ACK):
            continue
        began = began or is_own
        if not began:
            continue
        if is_own:
            syn = tcp["flags"] & SYN == SYN
            if syn and tcp["seq"] != last_syn:
                total = total if reached is None else (total or 0) + reached
                top, base, highest, reached, last_syn = None, (tcp["seq"] + 1) % 2**32, None, None, tcp["seq"]
                occupied = False
            size = syn + frame["payload_len"] + (tcp["flags"] & 1)
            end = (tcp["seq"] + size) % 2**32
            top = end if top is None or (size and (not occupied or signed(end - top) > 0)) else top
            occupied = occupied or size > 0
        elif highest is None:
            highest, reached = tcp["ack"], 0 if base is None else max(0, signed(tcp["ack"] - base))
        elif (step := signed(tcp["ack"] - highest)) > 0:
            ahead = step if base is None else max(0, signed(tcp["ack"] - base) - reached)
            highest, reached = tcp["ack"], reached + ahead
        flight = None if top is None or highest is None else signed(top - (highest if base is None else base + reached))
        acknowledged = total if reached is None else (total or 0) + reached
        found[frame["frame"]] = (flight if flight is None or flight >= 0 else None, acknowledged)
    return found


def covered_frames(own: list[tuple], reverse: list[tuple], at: int, last: int | None, gap: int | None) -> set[int]:
    """Return the frames that may be the last one of a flow that a report covers, by trying all that precede it.

    ``own`` and ``reverse``: (time, frame) of the flow and its reverse flow; ``at``: time of the report; ``last`` and
    ``gap``: its time of the last packet and the inter-arrival time before it, None if it has no slot.
    """
    possible = set()
    for place, (ts_ns, frame) in enumerate(own):
        following = own[place + 1][0] if place + 1 < len(own) else at + 1
        if ts_ns > at or following < at:
            continue
        before = own[place - 1][0] if place else None
        if last is not None:
            fits = last == ts_ns and gap == (None if before is None else ts_ns - before)
        else:  # a packet at the time of the report caused it: one of the flow, or of its reverse flow
            fits = ts_ns == at or following > at or any(other == at for other, _ in reverse)
        possible |= {frame} if fits else set()
    return possible


def windows(frames: list[dict], window_ns: int) -> dict[tuple, tuple[int, int]]:
    """Return (packets, bytes) by key and start of the window."""
    sizes = defaultdict(list)
    for frame in frames:
        if frame["key"] is not None:
            sizes[key_of(frame), frame["ts_ns"] // window_ns * window_ns].append(frame["ip_len"])
    return {place: (len(each), sum(each)) for place, each in sizes.items()}
