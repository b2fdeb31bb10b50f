"""Exact flows of a capture, the slow way: dictionaries and loops over the frames of naive_frames.

What workflow/sql/flowreports says in SQL, by definition and without it: the flows that reports can tell apart, their
handshakes in two halves, their last inter-arrival time, and their bytes in windows of time.
"""

import math
from collections import defaultdict

SYN_ACK, SYN, ACK, RST = 18, 2, 16, 4


def key_of(frame: dict) -> tuple:
    """(vlan, mpls, src, dst, protocol, ports); ports are those of TCP and UDP alone, 0 where there are none."""
    key = frame["key"]
    ports = (key["src_port"] or 0, key["dst_port"] or 0) if key["ip_proto"] in (6, 17) else (0, 0)
    return (tuple(frame["vlan"]), tuple(frame["mpls"]), key["src"], key["dst"], key["ip_proto"], *ports)


def way_of(key: tuple) -> tuple:
    """A key without its labels."""
    return (key[0], *key[2:])


def back_of(way: tuple) -> tuple:
    """The way of the other direction."""
    vlan, src, dst, proto, src_port, dst_port = way
    return (vlan, dst, src, proto, dst_port, src_port)


def flows(frames: list[dict]) -> dict[tuple, dict]:
    """Each key with its packets, bytes, iat_ns, rtt_syn_ns, rtt_ack_ns."""
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
        }
    return found


def ordered(frames: list[dict]) -> list[dict]:
    """TCP segments in file order."""
    return sorted((frame for frame in frames if frame["tcp"]), key=lambda frame: frame["frame"])


def is_a(frame: dict, kind: int) -> bool:
    """Whether a segment is a SYN, a SYN-ACK, or an ACK; a RST is none."""
    return frame["tcp"]["flags"] & (SYN_ACK | RST) == kind


def last_half(asking: list[dict], answering: list[dict], kind: int, answer: int) -> int | None:
    """Time from the last segment of a kind that is answered and was not sent twice before, to its first answer.

    One with the sequence number of the one before it is sent again; another one begins anew.
    """
    half = None
    asked = [frame for frame in asking if is_a(frame, kind)]
    while asked:
        again = 1
        while again < len(asked) and asked[again]["tcp"]["seq"] == asked[0]["tcp"]["seq"]:
            again += 1
        until = asked[again]["frame"] if again < len(asked) else math.inf
        wanted = (asked[0]["tcp"]["seq"] + 1) % 2**32
        for frame in answering:
            between = asked[0]["frame"] < frame["frame"] < until
            if between and is_a(frame, answer) and frame["tcp"]["ack"] == wanted:
                if again == 1 or frame["frame"] < asked[1]["frame"]:
                    half = frame["ts_ns"] - asked[0]["ts_ns"]
                break
        asked = asked[again:]
    return half


def windows(frames: list[dict], window_ns: int) -> dict[tuple, tuple[int, int]]:
    """(packets, bytes) by key and the window's begin."""
    sums = defaultdict(lambda: (0, 0))
    for frame in frames:
        if frame["key"] is not None:
            place = (key_of(frame), frame["ts_ns"] // window_ns * window_ns)
            packets, size = sums[place]
            sums[place] = (packets + 1, size + frame["ip_len"])
    return dict(sums)
