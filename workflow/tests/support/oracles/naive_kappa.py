"""Naive reference of the consistency of two trials, with lists and dictionaries.

Independent of the native core and of acapella.kappa: it follows the definitions of docs/kappa.md literally, finds the
kept packets with a quadratic search, and shares no code with either. For trials of a few hundred packets of Ethernet,
802.3 with LLC or SNAP, Cisco ISL, VLAN, MPLS, pseudowires, GRE, IPv4 and IPv6 without extension headers.
"""

import hashlib
import itertools
import math
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from acapella_testing.frames.pcap_files import records

TAGS = (0x8100, 0x88A8, 0x9100)
LONGEST = 1500  # largest 802.3 length; EtherTypes are larger
SNAP = bytes.fromhex("aaaa03000000")  # LLC and organization code before an EtherType, RFC 1042
ISL = bytes.fromhex("000c0000")  # start of the destination address in Cisco ISL's header of 26 bytes
CHECKSUM_AT = {6: 16, 17: 6}  # byte offsets in the headers of TCP and UDP


@dataclass(frozen=True)
class Packet:
    """A packet of a trial: its time and its identity, including the occurrence number."""

    ts_ns: int
    key: tuple


@dataclass(frozen=True)
class Part:
    """The identity bytes of a frame (None for bytes that a hop may change), and whether all of them were captured."""

    content: list
    complete: bool


def number(data: bytes, at: int, length: int = 2) -> int:
    """Return a big-endian number."""
    return int.from_bytes(data[at : at + length], "big")


def innermost(data: bytes, at: int = 0) -> tuple[str, int]:
    """Return where the identity starts.

    ("ip", offset) is the innermost IP header; ("ethertype", offset) is the EtherType or the 802.3 length.
    """
    kind_at = at + 12
    kind, at = number(data, kind_at), kind_at + 2
    while kind in TAGS:
        kind_at = at + 2
        kind, at = number(data, kind_at), at + 4
    if 0 < kind <= LONGEST and len(data) >= at + 8 <= at + kind and data[at : at + 6] == SNAP:
        kind_at = at + 6
        kind, at = number(data, kind_at), at + 8
    if kind == 0x8847:
        while not data[at + 2] & 1:
            at += 4
        at += 4
        if data[at] >> 4 == 0:
            return innermost(data, at + 4)
        return below_ip(data, at)
    return below_ip(data, at) if kind in (0x0800, 0x86DD) and at < len(data) else ("ethertype", kind_at)


def end_without_ip(data: bytes, at: int, wire_len: int) -> int:
    """Return the end of the frame whose EtherType or length is at ``at``. An 802.3 length excludes the padding."""
    if data[at - 6 : at] == SNAP:
        at -= 8
    length = number(data, at)
    return min(wire_len, at + 2 + length) if 0 < length <= LONGEST else wire_len


def ip_header(data: bytes, at: int) -> int:
    """Return the length of an IP header without extension headers."""
    return 40 if data[at] >> 4 == 6 else (data[at] & 15) * 4


def below_ip(data: bytes, at: int) -> tuple[str, int]:
    """Return the offset of the innermost IP header at or after ``at``, through IP in IP and GRE without options."""
    version, inside = data[at] >> 4, at + ip_header(data, at)
    if len(data) <= inside:
        return "ip", at
    protocol = data[at + 6] if version == 6 else data[at + 9]
    if protocol in (4, 41):
        return below_ip(data, inside)
    if protocol == 47 and number(data, inside, 4) in (0x0800, 0x86DD):
        return below_ip(data, inside + 4)
    return "ip", at


def identity(data: bytes, wire_len: int, l4_checksum: bool) -> Part | None:
    """Return the bytes that no hop changes, with None for those that a hop may change; None if too few were captured.

    The minimum is what ICMP quotes of a packet (RFC 792): the IP header and 8 bytes, or 28 bytes without IP.
    """
    if data[:1] in (b"\1", b"\x0c") and data[1:5] == ISL and number(data, 12) < 1536:
        end = min(wire_len, 14 + number(data, 12) - 4)  # the length includes the frame check sequence
        return identity(data[26:end], end - 26, l4_checksum)
    start, at = innermost(data)
    if start != "ip":
        end = end_without_ip(data, at, wire_len)
        part = Part(list(data[at:end]), len(data) >= end)
        return part if part.complete or len(part.content) >= 28 else None
    version, header = data[at] >> 4, ip_header(data, at)
    if len(data) < at + header:
        length, protocol = wire_len - at, None
    elif version == 4:
        length, protocol = number(data, at + 2), data[at + 9]
    else:
        length, protocol = header + number(data, at + 4), data[at + 6]
    content = list(data[at : at + length])
    hidden = {1, 8, 10, 11} if version == 4 else {7}
    if version == 6:  # traffic class: the low half of the first byte, the high half of the second
        content[:2] = [content[0] & 0xF0, *(byte & 0x0F for byte in content[1:2])]
    if not l4_checksum and protocol in CHECKSUM_AT:
        place = header + CHECKSUM_AT[protocol]
        hidden |= {place, place + 1}
    if len(content) < min(length, max(header, 20) + 8):
        return None
    return Part([None if n in hidden else byte for n, byte in enumerate(content)], len(content) == length)


def read_trial(paths: list[Path], l4_checksum: bool) -> list[tuple[int, Part]]:
    """Return (ns, identity) of a trial's frames in order of (time, rank of the file's SHA-256, record)."""
    ordered = sorted((path.read_bytes() for path in paths), key=lambda content: hashlib.sha256(content).digest())
    frames = []
    for rank, content in enumerate(ordered):
        for record, (ts_ns, wire_len, data) in enumerate(records(content)):
            if (part := identity(data, wire_len, l4_checksum)) is not None:
                frames.append((ts_ns, rank, record, part))
    return [(ts_ns, part) for ts_ns, _, _, part in sorted(frames, key=lambda frame: frame[:3])]


def numbered(frames: list[tuple[int, Part]], cut: int | None) -> list[Packet]:
    """Return packets with occurrence numbers added to their identities."""
    seen = Counter()
    packets = []
    for ts_ns, part in frames:
        key = tuple(part.content[:cut])
        packets.append(Packet(ts_ns, (key, seen[key])))
        seen[key] += 1
    return packets


def read_trials(trials: list[list[Path]], l4_checksum: bool = True) -> list[list[Packet]]:
    """Return all trials, with identities truncated to the shortest truncated one."""
    read = [read_trial([Path(path) for path in paths], l4_checksum) for paths in trials]
    cut = min((len(part.content) for frames in read for _, part in frames if not part.complete), default=None)
    return [numbered(frames, cut) for frames in read]


def duration(trial: list[Packet]) -> int:
    """Return the time from the first to the last packet, in ns."""
    return trial[-1].ts_ns - trial[0].ts_ns if trial else 0


def latencies(trial: list[Packet]) -> dict:
    """Return the time since the first packet, in ns, by packet."""
    return {packet.key: packet.ts_ns - trial[0].ts_ns for packet in trial}


def gaps(trial: list[Packet]) -> dict:
    """Return the time since the previous packet, in ns, by packet; 0 for the first."""
    return {later.key: later.ts_ns - earlier.ts_ns for earlier, later in itertools.pairwise([*trial[:1], *trial])}


def permutation(a: list[Packet], b: list[Packet]) -> list[int]:
    """Return the rank in A of each common packet in B's order, counting only common packets."""
    in_a, in_b = {packet.key for packet in a}, {packet.key for packet in b}
    rank = {packet.key: n for n, packet in enumerate(p for p in a if p.key in in_b)}
    return [rank[packet.key] for packet in b if packet.key in in_a]


def kept(ranks: list[int]) -> set[int]:
    """Return the positions in B of the kept packets: the longest increasing subsequence, found by comparing all pairs.

    If there are several, the largest sum of their |a - b| decides, then the lexicographically smallest ranks.
    """
    chains = {}
    for b in range(len(ranks) - 1, -1, -1):
        later = [chains[c] for c in range(b + 1, len(ranks)) if ranks[c] > ranks[b]]
        length, distance, chain = min(later, default=(0, 0, ()))
        chains[b] = (length - 1, distance - abs(ranks[b] - b), (ranks[b], *chain))
    best = min(chains.values(), default=(0, 0, ()))
    return {ranks.index(rank) for rank in best[2]}


def moved(ranks: list[int]) -> list[tuple[int, int]]:
    """Return (rank in A, rank in B) of the moved packets, in B's order."""
    still = kept(ranks)
    return [(a, b) for b, a in enumerate(ranks) if b not in still]


def inversions(ranks: list[int]) -> int:
    """Return the number of pairs in opposite order."""
    return sum(x > y for x, y in itertools.combinations(ranks, 2))


def burst_list(moves: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return runs of moved packets that are adjacent in both trials."""
    runs = []
    for move in moves:
        if runs and (runs[-1][-1][0] + 1, runs[-1][-1][1] + 1) == move:
            runs[-1].append(move)
        else:
            runs.append([move])
    return runs


def table_1(moves: list[int]) -> dict:
    """Return mean and sigma of the moves and of their sizes, minimum and maximum."""
    names = ("mean", "sigma", "abs_mean", "abs_sigma", "min", "max")
    if not moves:
        return dict.fromkeys(names)
    values = []
    for sample in (moves, [abs(move) for move in moves]):
        mean = Fraction(sum(sample), len(sample))
        values += [float(mean), math.sqrt(sum((move - mean) ** 2 for move in sample) / len(sample))]
    return dict(zip(names, [*values, min(moves), max(moves)], strict=True))


def nearest_rank(values: list[int], percent: int) -> int:
    """Return a percentile by nearest rank."""
    ordered = sorted(values)
    return next(v for n, v in enumerate(ordered, 1) if 100 * n >= percent * len(ordered))


def deltas(values: list[int]) -> dict:
    """Return mean, median, 99th percentile and maximum of absolute values."""
    if not values:
        return dict.fromkeys(("mean", "median", "p99", "largest"))
    quantiles = {"median": nearest_rank(values, 50), "p99": nearest_rank(values, 99)}
    return {"mean": sum(values) / len(values), **quantiles, "largest": max(values)}


def quotient(numerator: int, denominator: int):
    """Return a fraction; 0 if the numerator is 0."""
    return Fraction(numerator, denominator) if numerator else Fraction(0)


def kappa_of(*parts) -> float:
    """Return kappa for these components (equation 5)."""
    return 1 - math.sqrt(sum(part**2 for part in parts)) / 2


def components(ranks: list[int], latency: list[int], gap: list[int], sizes: tuple, spans: tuple) -> dict:
    """Return U, O, L, I and related measures of a pair or window; ``spans`` are the denominators of L and I in ns."""
    n_a, n_b = sizes
    common = len(ranks)
    u = quotient(n_a + n_b - 2 * common, n_a + n_b)
    if not common:
        unknown = dict.fromkeys(("O", "O_published", "O_kendall", "L", "I"))
        return {"U": u, **unknown, **dict.fromkeys(("kappa", "kappa_published"), 0.0 if n_a + n_b else None)}
    moves = moved(ranks)
    distance = sum(abs(a - b) for a, b in moves)
    o = quotient(2 * distance, common * (common + 1))
    published = quotient(2 * distance, len(moves) * (common + 1))
    ell, i = quotient(sum(latency), common * spans[0]), quotient(sum(gap), spans[1])
    kendall = quotient(2 * inversions(ranks), common * (common - 1))
    kappas = {"kappa": kappa_of(u, o, ell, i), "kappa_published": kappa_of(u, published, ell, i)}
    return {"U": u, "O": o, "O_published": published, "O_kendall": kendall, "L": ell, "I": i, **kappas}


def compare(a: list[Packet], b: list[Packet], within_ns: tuple[int, ...] = (10,)) -> dict:
    """Return a pair as in `acapella kappa --json`, without windows and histograms, with exact components."""
    l_a, l_b, g_a, g_b = latencies(a), latencies(b), gaps(a), gaps(b)
    common = [packet.key for packet in b if packet.key in l_a]
    offsets = [l_b[key] - l_a[key] for key in common]
    gap = [abs(g_a[key] - g_b[key]) for key in common]
    ranks = permutation(a, b)
    moves = moved(ranks)
    bursts = burst_list(moves)
    burst_moves = [run[0][0] - run[0][1] for run in bursts]
    spans = (max(duration(a), duration(b)), duration(a) + duration(b))
    found = components(ranks, [abs(offset) for offset in offsets], gap, (len(a), len(b)), spans)
    median = nearest_rank(offsets, 50) if common else None
    centered = sum(abs(offset - median) for offset in offsets)
    signed = [x - y for x, y in moves]
    return found | {
        **{"n_a": len(a), "n_b": len(b), "n_common": len(common)},
        "L_offset_removed": quotient(centered, len(common) * spans[0]) if common else None,
        "offset_ns": median,
        "within_ns": {str(w): sum(g <= w for g in gap) / len(common) if common else None for w in within_ns},
        "iat_delta_ns": deltas(gap),
        "latency_delta_ns": deltas([abs(offset) for offset in offsets]),
        **{"duration_a_ns": duration(a), "duration_b_ns": duration(b)},
        **{"ambiguous_a": ambiguous(a), "ambiguous_b": ambiguous(b)},
        "moves": {"count": len(moves), "share": len(moves) / len(common) if common else 0.0, **table_1(signed)},
        "bursts": {"count": len(bursts), "longest": max(map(len, bursts), default=0), **table_1(burst_moves)},
    }


DISTANCES = (1, 4, 16, 64, 256, 1024, 4096)  # differences of the positions of a pair's packets in A


def spacings(a: list[Packet], b: list[Packet]) -> list[tuple[int, bool]]:
    """Return spacing in A (ns), and whether the order in B is reversed, of all pairs at a distance in DISTANCES."""
    at = {packet.key: n for n, packet in enumerate(b)}
    return [
        (later.ts_ns - earlier.ts_ns, at[later.key] < at[earlier.key])
        for (n, earlier), (m, later) in itertools.combinations(enumerate(a), 2)
        if m - n in DISTANCES and earlier.key in at and later.key in at
    ]


def spacing_bins(a: list[Packet], b: list[Packet]) -> dict[int, tuple[int, int]]:
    """Return pairs and reversed pairs by bin: 0 for equal times, n for spacings from 10^((n-1)/5) to 10^(n/5) ns.

    The last bin, 56, also contains longer spacings.
    """
    counted = {}
    for spacing, is_reversed in spacings(a, b):
        place = next(n for n in range(57) if spacing == 0 or (n > 0 and (n == 56 or spacing**5 < 10**n)))
        pairs, reversed_ = counted.get(place, (0, 0))
        counted[place] = pairs + 1, reversed_ + is_reversed
    return counted


def ambiguous(trial: list[Packet]) -> int:
    """Return the number of packets that share their identity, without occurrence number, with another packet."""
    return sum(size for size in Counter(packet.key[0] for packet in trial).values() if size > 1)


def window(a: list[Packet], b: list[Packet], begin: int, end: int) -> dict:
    """Return one window from ``begin`` to before ``end``, in ns since the start of each trial.

    The time in A determines the window of a packet if A contains the packet.
    """
    l_a, l_b, g_a, g_b = latencies(a), latencies(b), gaps(a), gaps(b)
    inside = {key for key, ns in (l_b | l_a).items() if begin <= ns < end}
    in_a, in_b = [p for p in a if p.key in inside], [p for p in b if p.key in inside]
    common = [packet.key for packet in in_b if packet.key in l_a]
    all_gaps = sum(g_a[p.key] for p in in_a) + sum(g_b[p.key] for p in in_b)
    found = components(
        permutation(in_a, in_b),
        [abs(l_a[key] - l_b[key]) for key in common],
        [abs(g_a[key] - g_b[key]) for key in common],
        (len(in_a), len(in_b)),
        (max(duration(a), duration(b)), all_gaps),
    )
    counts = {"n_a": len(in_a), "n_b": len(in_b), "n_common": len(common)}
    return counts | {name: found[name] for name in ("U", "O", "L", "I", "O_kendall", "kappa")}


def readings_of_equation_2(ranks: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """Return each longest increasing subsequence (ranks in A) and the sum of |a - b| over the moved packets."""
    longest = len(kept(list(ranks)))
    total = sum(abs(a - b) for b, a in enumerate(ranks))
    return {
        tuple(ranks[b] for b in still): total - sum(abs(ranks[b] - b) for b in still)
        for still in itertools.combinations(range(len(ranks)), longest)
        if all(ranks[x] < ranks[y] for x, y in itertools.pairwise(still))
    }


def smallest_ambiguous() -> tuple[int, ...]:
    """Return the first permutation, by size and ranks, for which equation 2 has two values."""
    every = itertools.chain.from_iterable(itertools.permutations(range(size)) for size in itertools.count(1))
    return next(ranks for ranks in every if len(set(readings_of_equation_2(ranks).values())) > 1)


def most_moved(size: int) -> tuple[int, tuple[int, ...]]:
    """Return the largest sum of d over all permutations of a size, with our tie-breaking, and the first one with it."""
    sums = ((sum(abs(a - b) for a, b in moved(list(ranks))), ranks) for ranks in itertools.permutations(range(size)))
    return max(sums, key=lambda found: found[0])


def main() -> None:
    """Print the smallest trial for which equation 2 has two values, and the largest sums with their stated maxima."""
    ranks = smallest_ambiguous()
    print("smallest trial with two values of equation 2: B has A's packets in the order", *ranks)
    for chain, distance in readings_of_equation_2(ranks).items():
        value = quotient(2 * distance, len(ranks) * (len(ranks) + 1))
        print(f"  keep {' '.join(map(str, chain))}: sum d = {distance}, O = {value}")
    print("N  largest sum d  first order that has it  stated maximum")
    for size in range(1, 8):
        distance, ranks = most_moved(size)
        print(f"{size}  {distance:13}  {' '.join(map(str, ranks)):23}  {size * (size + 1) // 2:14}")


if __name__ == "__main__":
    main()
