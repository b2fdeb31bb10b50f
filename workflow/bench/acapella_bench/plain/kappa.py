"""A simple comparison of two trials in Python: dictionaries, sorting, no compiled code.

    python -m acapella_bench.plain.kappa A.pcap B.pcap

For nanosecond pcaps of Ethernet and IPv4. Prints all integers that acapella_core.kappa returns for both trials and
for the pair, as JSON. Results are correct for every trial; it is fast only if few packets moved. The tests' reference
(acapella_testing.oracles.naive_kappa) takes quadratic time and computes other values, such as the components.
"""

import json
import sys
from bisect import bisect_right
from collections import Counter
from itertools import pairwise
from pathlib import Path
from struct import Struct

WITHIN_NS, WINDOWS = 10, 50
BINS = 56  # bins of a histogram, five per decade
RECORD = Struct("<IIII")


def read(path: str) -> tuple[list, dict]:
    """Return [(ns, (identity, occurrence))] in time order, and the counters of the trial."""
    data = Path(path).read_bytes()
    seen, packets, at, truncated, reversals, last = Counter(), [], 24, 0, 0, 0
    while at < len(data):
        seconds, ns, captured, wire = RECORD.unpack_from(data, at)
        at += RECORD.size
        key = identity(data[at + 14 : at + captured])
        ts_ns = seconds * 10**9 + ns
        packets.append((ts_ns, (key, seen[key])))
        seen[key] += 1
        truncated += captured < wire
        reversals += ts_ns < last
        last = ts_ns
        at += captured
    packets.sort(key=lambda packet: packet[0])
    return packets, {
        "packets": len(packets),
        "truncated": truncated,
        "reversals_in_file": reversals,
        "equal_stamps": sum(x[0] == y[0] for x, y in pairwise(packets)),
        "resolution_ns": max(10**k for k in range(10) if all(ts_ns % 10**k == 0 for ts_ns, _ in packets)),
        "ambiguous": sum(count for count in seen.values() if count > 1),
    }


def identity(packet: bytes) -> bytes:
    """Return an IPv4 packet without DSCP, ECN, TTL, header checksum, and bytes after its total length."""
    length = int.from_bytes(packet[2:4], "big")
    return packet[:1] + packet[2:8] + packet[9:10] + packet[12:length]


def positions(packets: list) -> dict:
    """Return rank, time since the first packet, and gap to the previous packet (ns) of each packet."""
    found, first = {}, packets[0][0] if packets else 0
    before = first
    for rank, (ts_ns, key) in enumerate(packets):
        found[key] = (rank, ts_ns - first, ts_ns - before)
        before = ts_ns
    return found


def order(ranks: list[int]) -> tuple[list[tuple[int, int]], int]:
    """Return the moved packets as (rank in A, rank in B), and the inversions. Packets only move between cut points."""
    moved, inversions, start, highest = [], 0, 0, -1
    for index, rank in enumerate(ranks):
        if rank > highest:  # noqa: PLR1730  (quicker than max)
            highest = rank
        if highest == index:  # up to this index, both trials contain the same packets
            if index > start:
                block = ranks[start : index + 1]
                unmoved_ranks = unmoved(block, start)
                moved += [(a, b) for b, a in enumerate(block, start) if a not in unmoved_ranks]
                inversions += sum(x > y for n, x in enumerate(block) for y in block[n + 1 :])
            start = index + 1
    return moved, inversions


def unmoved(block: list[int], start: int) -> set[int]:
    """Return the longest increasing subsequence; of several, the one with the largest sum of distances.

    Of those, return the one with the smallest ranks.
    """
    chains = []
    for b in range(len(block) - 1, -1, -1):
        rest = min((chain for chain in chains if chain[2] > block[b]), default=(0, 0, -1, None))
        chains.append((rest[0] - 1, rest[1] - abs(block[b] - b - start), block[b], rest))
    chain, ranks = min(chains), set()
    while chain[3]:
        ranks.add(chain[2])
        chain = chain[3]
    return ranks


def summary(values: list[int]) -> dict:
    """Return sums, lower median, 99th percentile by nearest rank, and maximum of absolute values."""
    ordered = sorted(map(abs, values))
    median, p99 = (ordered[(len(ordered) * percent + 99) // 100 - 1] for percent in (50, 99))
    return {"sum": sum(ordered), "signed_sum": sum(values), "median": median, "p99": p99, "largest": ordered[-1]}


def histogram(values: list[int]) -> dict:
    """Return the numbers of values by sign and size."""
    starts = []
    for k in range(BINS):
        start = int(10 ** (k / 5))
        while start**5 < 10**k:
            start += 1
        starts.append(start)
    zero, signs = 0, {"negative": [0] * BINS, "positive": [0] * BINS}
    for value in values:
        if value:
            signs["negative" if value < 0 else "positive"][bisect_right(starts, abs(value)) - 1] += 1
        else:
            zero += 1
    return {"zero": zero, **signs, "starts_ns": starts}


def move_sums(moves: list[int]) -> dict:
    """Return the sums of the paper's Table 1."""
    return {
        "count": len(moves),
        "sum": sum(moves),
        "sum_of_squares": sum(move * move for move in moves),
        "abs_sum": sum(map(abs, moves)),
        "smallest": min(moves, default=None),
        "largest": max(moves, default=None),
    }


def burst_sums(moved: list[tuple[int, int]]) -> dict:
    """Return the same sums for runs of moved packets that are adjacent in both trials."""
    moves, longest, run, last = [], 0, 0, None
    for a, b in moved:
        run = run + 1 if last == (a - 1, b - 1) else 1
        if run == 1:
            moves.append(a - b)
        longest = max(longest, run)
        last = (a, b)
    return move_sums(moves) | {"longest": longest}


def timeline(in_a: dict, in_b: dict) -> list[dict]:
    """Return sums by window, 50 over the longer trial. The time in A, if any, determines the window of a packet."""
    longer = max(max(late for _, late, _ in trial.values()) for trial in (in_a, in_b))
    width = longer // WINDOWS + 1
    names = ("n_a", "n_b", "n_common", "latency_sum", "gap_sum", "gaps_a_sum", "gaps_b_sum")
    windows = [dict.fromkeys(names, 0) for _ in range(longer // width + 1)]
    ranks = [[] for _ in windows]
    for _, late, gap in in_a.values():
        window = windows[late // width]
        window["n_a"] += 1
        window["gaps_a_sum"] += gap
    for key, (_, late, gap) in in_b.items():
        position_in_a = in_a.get(key)
        at = (position_in_a[1] if position_in_a else late) // width
        window = windows[at]
        window["n_b"] += 1
        window["gaps_b_sum"] += gap
        if position_in_a:
            window["n_common"] += 1
            window["latency_sum"] += abs(late - position_in_a[1])
            window["gap_sum"] += abs(gap - position_in_a[2])
            ranks[at].append(position_in_a[0])
    for at, (window, ranks_in_a) in enumerate(zip(windows, ranks, strict=True)):
        common_rank = {rank: n for n, rank in enumerate(sorted(ranks_in_a))}
        moved, inversions = order([common_rank[rank] for rank in ranks_in_a])
        window |= {
            "from_ns": width * at,
            "to_ns": width * (at + 1),
            "order_distance": sum(abs(a - b) for a, b in moved),
            "order_moved": len(moved),
            "inversions": inversions,
        }
        windows[at] = window
    return windows


def compare(a: list, b: list) -> dict:
    """Return the sums of one pair."""
    in_a, in_b = positions(a), positions(b)
    common = [(in_a[key], position) for key, position in in_b.items() if key in in_a]
    common_rank = {rank: n for n, rank in enumerate(sorted(x[0] for x, _ in common))}
    moved, inversions = order([common_rank[x[0]] for x, _ in common])
    latency = [y[1] - x[1] for x, y in common]
    gap = [y[2] - x[2] for x, y in common]
    offset = sorted(latency)[(len(latency) + 1) // 2 - 1]
    return {
        "n_a": len(a),
        "n_b": len(b),
        "n_common": len(common),
        "first_common": [a[0][1] in in_b, b[0][1] in in_a],
        "duration_a_ns": a[-1][0] - a[0][0],
        "duration_b_ns": b[-1][0] - b[0][0],
        "latency": summary(latency),
        "offset_ns": offset,
        "latency_offset_removed": summary([late - offset for late in latency]),
        "gap": summary(gap),
        "gap_within": [sum(abs(value) <= WITHIN_NS for value in gap)],
        "latency_within": [sum(abs(value) <= WITHIN_NS for value in latency)],
        "order": {
            "distance": sum(abs(x - y) for x, y in moved),
            "moved": len(moved),
            "inversions": inversions,
        },
        "moves": move_sums([x - y for x, y in moved]),
        "bursts": burst_sums(moved),
        "windows": timeline(in_a, in_b),
        "histograms": {"gap": histogram(gap), "latency": histogram(latency)},
    }


def main(paths: list[str]) -> None:
    """Compare two trials and print the result."""
    (a, counts_a), (b, counts_b) = map(read, paths)
    pair = {"ambiguous_a": counts_a["ambiguous"], "ambiguous_b": counts_b["ambiguous"], **compare(a, b)}
    print(json.dumps({"trials": [counts_a, counts_b], "pair": pair}, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1:3])
