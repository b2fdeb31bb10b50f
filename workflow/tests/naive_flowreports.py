"""Exact flows of a capture, the slow way: dictionaries and loops over the frames of naive_frames.

What workflow/sql/flowreports says in SQL, by definition and without it: the flows that reports can tell apart, their
handshakes in two halves, their last inter-arrival time, and their bytes in windows of time.
"""

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
        opens = any(frame["tcp"] and frame["tcp"]["flags"] & SYN_ACK == SYN for frame in members)
        way = way_of(key)
        halves = handshake(ordered(ways[way]), ordered(ways.get(back_of(way), []))) if opens else (None, None)
        found[key] = {
            "packets": len(members),
            "bytes": sum(frame["ip_len"] for frame in members),
            "iat_ns": stamps[-1] - stamps[-2] if len(stamps) > 1 else None,
            "rtt_syn_ns": halves[0],
            "rtt_ack_ns": halves[1],
        }
    return found


def ordered(frames: list[dict]) -> list[dict]:
    """TCP segments in file order."""
    return sorted((frame for frame in frames if frame["tcp"]), key=lambda frame: frame["frame"])


def handshake(client: list[dict], server: list[dict]) -> tuple:
    """Both halves of the last handshake that has them, each for itself."""
    syn_half = ack_half = None
    answered = set()
    for reply in server:
        if reply["tcp"]["flags"] & SYN_ACK != SYN_ACK or reply["tcp"]["ack"] in answered:
            continue
        before = [f for f in client if f["frame"] < reply["frame"] and f["tcp"]["flags"] & SYN_ACK == SYN]
        asked = [f for f in before if (f["tcp"]["seq"] + 1) % 2**32 == reply["tcp"]["ack"]]
        if not asked:
            continue
        answered.add(reply["tcp"]["ack"])
        if len(asked) == 1:
            syn_half = reply["ts_ns"] - asked[0]["ts_ns"]
        half = acknowledged(reply, client, server)
        ack_half = ack_half if half is None else half
    return syn_half, ack_half


def acknowledged(reply: dict, client: list[dict], server: list[dict]) -> int | None:
    """From a SYN-ACK to the first ACK of it; None without one, or where the SYN-ACK was sent again before."""
    wanted = (reply["tcp"]["seq"] + 1) % 2**32
    for frame in client:
        tcp = frame["tcp"]
        if frame["frame"] > reply["frame"] and tcp["flags"] & (SYN_ACK | RST) == ACK and tcp["ack"] == wanted:
            sent = [
                f
                for f in server
                if reply["frame"] <= f["frame"] < frame["frame"]
                and f["tcp"]["flags"] & SYN_ACK == SYN_ACK
                and f["tcp"]["seq"] == reply["tcp"]["seq"]
            ]
            return frame["ts_ns"] - reply["ts_ns"] if len(sent) == 1 else None
    return None


def windows(frames: list[dict], window_ns: int) -> dict[tuple, tuple[int, int]]:
    """(packets, bytes) by key and the window's begin."""
    sums = defaultdict(lambda: (0, 0))
    for frame in frames:
        if frame["key"] is not None:
            place = (key_of(frame), frame["ts_ns"] // window_ns * window_ns)
            packets, size = sums[place]
            sums[place] = (packets + 1, size + frame["ip_len"])
    return dict(sums)
