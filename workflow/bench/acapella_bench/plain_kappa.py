"""The comparison of two trials as one would write it in an afternoon: dictionaries, sorting, nothing compiled.

    python -m acapella_bench.plain_kappa A.pcap B.pcap

For nanosecond pcaps of Ethernet and IPv4. Prints the sums that acapella_core.consistency gives as well, as JSON; the
order component is right for every trial and quick where few packets moved.
"""

import json
import struct
import sys
from collections import Counter
from pathlib import Path


def read(path: str) -> list[tuple[int, tuple]]:
    """(ns, (identity, occurrence)) of every packet in order of time."""
    data = Path(path).read_bytes()
    record = struct.Struct("<IIII")
    seen, packets, at = Counter(), [], 24
    while at < len(data):
        seconds, ns, captured, _ = record.unpack_from(data, at)
        at += record.size
        key = identity(data[at + 14 : at + captured])
        packets.append((seconds * 10**9 + ns, (key, seen[key])))
        seen[key] += 1
        at += captured
    packets.sort(key=lambda packet: packet[0])
    return packets


def identity(packet: bytes) -> bytes:
    """An IPv4 packet without DSCP and ECN, TTL, header checksum, and what follows its length."""
    length = int.from_bytes(packet[2:4], "big")
    return packet[:1] + packet[2:8] + packet[9:10] + packet[12:length]


def places(packets: list) -> dict:
    """By packet: rank, time since the first packet, gap to the one before (ns)."""
    found, first, before = {}, packets[0][0] if packets else 0, None
    for rank, (ts_ns, key) in enumerate(packets):
        found[key] = (rank, ts_ns - first, 0 if before is None else ts_ns - before)
        before = ts_ns
    return found


def moved(ranks: list[int]) -> int:
    """How many packets are outside a longest increasing subsequence (patience sorting, block by block)."""
    tails, outside, highest = [], 0, -1
    for place, rank in enumerate(ranks):
        low, high = 0, len(tails)
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if tails[middle] < rank else (low, middle)
        tails[low : low + 1] = [rank]
        outside += 1
        highest = max(highest, rank)
        if highest == place:  # a cut point: all before stand before it in both trials
            outside -= len(tails)
            tails = []
    return outside


def inversions(ranks: list[int]) -> int:
    """Pairs in opposite order, by merging."""
    if len(ranks) < 2:
        return 0
    middle = len(ranks) // 2
    left, right = ranks[:middle], ranks[middle:]
    count = inversions(left) + inversions(right)
    left.sort()
    right.sort()
    at = 0
    for rank in right:
        while at < len(left) and left[at] < rank:
            at += 1
        count += len(left) - at
    return count


def summary(deltas: list[int]) -> dict:
    """Sum, lower median, 99th percentile by nearest rank, largest of absolute values."""
    ordered = sorted(map(abs, deltas))
    ranks = {name: (len(ordered) * percent + 99) // 100 - 1 for name, percent in (("median", 50), ("p99", 99))}
    return {"sum": sum(ordered), "largest": ordered[-1]} | {name: ordered[rank] for name, rank in ranks.items()}


def timeline(common: list, in_a: dict, in_b: dict, latency: list[int], gap: list[int]) -> list[list[int]]:
    """By window, of 50 over the longer trial: common packets, sums of latency and gap differences, moved packets."""
    longer = max(max(entry[1] for entry in trial.values()) for trial in (in_a, in_b))
    width = longer // 50 + 1
    windows = [[0, 0, 0] for _ in range(longer // width + 1)]
    ranks = [[] for _ in windows]
    for key, late, wide in zip(common, latency, gap, strict=True):
        window = windows[in_a[key][1] // width]
        window[0] += 1
        window[1] += abs(late)
        window[2] += abs(wide)
        ranks[in_a[key][1] // width].append(in_a[key][0])
    for window, inside in zip(windows, ranks, strict=True):
        place = {rank: n for n, rank in enumerate(sorted(inside))}
        window.append(moved([place[rank] for rank in inside]))
    return windows


def compare(a: list, b: list) -> dict:
    """The sums of one pair."""
    in_a, in_b = places(a), places(b)
    common = [key for _, key in b if key in in_a]
    order = {key: rank for rank, key in enumerate(sorted(common, key=lambda key: in_a[key][0]))}
    ranks = [order[key] for key in common]
    latency = [in_b[key][1] - in_a[key][1] for key in common]
    gap = [in_b[key][2] - in_a[key][2] for key in common]
    offset = sorted(latency)[(len(latency) + 1) // 2 - 1]
    return {
        "n_common": len(common),
        "latency": summary(latency),
        "latency_offset_removed": summary([late - offset for late in latency]),
        "gap": summary(gap),
        "moved": moved(ranks),
        "inversions": inversions(ranks),
        "timeline": timeline(common, in_a, in_b, latency, gap),
    }


if __name__ == "__main__":
    print(json.dumps(compare(*map(read, sys.argv[1:3]))))
