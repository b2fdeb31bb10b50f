"""The expected counts of a monitor, computed plainly from two captures: of sent and of arrived packets.

Independent of acapella-monitor: a packet is recognized by its whole stamp among those that were sent, its departure is
its time in the capture of sent packets, and lists of packets are searched for loss, duplicates, reordering (RFC 4737)
and jitter (RFC 3550).
"""

from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

from acapella_testing.frames.pcap_files import records

STAMP = 18
JITTER_UNITS = 16

Row = dict[str, int | float | None]


def packets_sent(path: Path, offsets: dict[int, int]) -> dict[bytes, tuple[int, int, int, bytes]]:
    """Return flow, sequence number, departure in ns, and payload of each packet by its stamp.

    ``offsets``: offset of the stamp of each flow.
    """
    found = {}
    for ns, _, frame in records(path.read_bytes()):
        for at in set(offsets.values()):
            stamp = frame[at : at + STAMP]
            flow, sequence = (int.from_bytes(stamp[low : low + 4], "big") for low in (2, 6))
            if stamp[:2] == b"\xac\xa9" and offsets.get(flow) == at:
                found[stamp] = (flow, sequence, ns, frame[at + STAMP :])
    return found


def arrivals(path: Path, sent: dict, offsets: dict[int, int]) -> tuple[dict[int, list], list[int]]:
    """Return for each flow (arrival, sequence, departure, sent payload, payload, wire bytes); and all arrival times."""
    by_flow, times = defaultdict(list), []
    for ns, wire, frame in records(path.read_bytes()):
        times.append(ns)
        for at in set(offsets.values()):
            if (known := sent.get(frame[at : at + STAMP])) and offsets[known[0]] == at:
                flow, sequence, departure, payload = known
                by_flow[flow].append((ns, sequence, departure, payload, frame[at + STAMP :], wire))
    return by_flow, times


def received(directory: Path, flows: list[dict]) -> tuple[dict[int, list], list[int]]:
    """Return the arrivals in arrived.pcap of the packets in sent.pcap, for rows of the list of generated flows."""
    offsets = {row["flow"]: row["stamp_offset"] for row in flows}
    return arrivals(directory / "arrived.pcap", packets_sent(directory / "sent.pcap", offsets), offsets)


def row_of(packets: list, number_sent: int) -> Row:
    """Return the expected counts of a flow (columns of schemas/tables/monitor_flows.yaml)."""
    first = first_copies(packets)
    latencies = [ns - departure for ns, _, departure, *_ in first]
    late = [(index, ns, sequence) for index, (ns, sequence, *_) in enumerate(first)
            if any(other[1] > sequence for other in first[:index])]  # fmt: skip
    extents = [extent(first, index) for index, _, _ in late]
    lateness = [ns - first[index - size][0] for (index, ns, _), size in zip(late, extents, strict=True)]
    errors = [sum(bin(a ^ b).count("1") for a, b in zip(payload, got, strict=True))
              for _, _, _, payload, got, _ in packets]  # fmt: skip
    gaps = [b[0] - a[0] for a, b in pairwise(packets)]
    jitter, jitter_max = jitter_of(latencies)
    return {
        "packets": len(packets),
        "bytes": sum(wire for *_, wire in packets),
        "unique": len(first),
        "duplicates": len(packets) - len(first),
        "lost": number_sent - len({sequence for _, sequence, *_ in packets}),
        "reordered": len(late),
        "unclassified": 0,
        "discontinuities": discontinuities([sequence for _, sequence, *_ in first]),
        "extent_known": len(late),
        "extent_mean": sum(extents) / len(extents) if late else None,
        "extent_max": max(extents, default=None),
        "late_max_ns": max(lateness, default=None),
        "first_sequence": min((sequence for _, sequence, *_ in first), default=None),
        "last_sequence": max((sequence for _, sequence, *_ in first), default=None),
        "latency_min_ns": min(latencies, default=None),
        "latency_mean_ns": sum(latencies) / len(latencies) if latencies else None,
        "latency_max_ns": max(latencies, default=None),
        "latency_p50_ns": upper_limit(latencies, 50),
        "latency_p99_ns": upper_limit(latencies, 99),
        "jitter_ns": jitter,
        "jitter_max_ns": jitter_max,
        "gap_min_ns": min(gaps, default=None),
        "gap_max_ns": max(gaps, default=None),
        "bits_checked": sum(8 * len(payload) for _, _, _, payload, _, _ in packets),
        "bit_errors": sum(errors),
        "errored_packets": sum(error > 0 for error in errors),
        "first_ns": packets[0][0] if packets else None,
        "last_ns": packets[-1][0] if packets else None,
    }


def first_copies(packets: list) -> list:
    """Return the first copy of each packet, in the order of arrival."""
    first = {}
    for packet in packets:
        first.setdefault(packet[1], packet)
    return [*first.values()]


def extent(first: list, index: int) -> int:
    """Return i - j for the smallest j with s[j] > s[i] (RFC 4737, section 4.2)."""
    return index - next(other for other in range(index) if first[other][1] > first[index][1])


def discontinuities(sequences: list[int]) -> int:
    """Return how often a packet that is not reordered skips sequence numbers (RFC 4737, section 3.4)."""
    expected, count = 0, 0
    for sequence in sequences:
        count += sequence > expected
        expected = max(expected, sequence + 1)
    return count


def jitter_of(latencies: list[int]) -> tuple[float | None, float | None]:
    """Return last and largest jitter by the algorithm of RFC 3550, appendix A.8; None for fewer than two packets."""
    scaled, largest = 0, 0
    for before, now in pairwise(latencies):
        scaled += abs(now - before) - ((scaled + JITTER_UNITS // 2) // JITTER_UNITS)
        largest = max(largest, scaled)
    return (scaled / JITTER_UNITS, largest / JITTER_UNITS) if len(latencies) > 1 else (None, None)


def limits() -> list[int]:
    """Return the first values of the buckets of a histogram: four per power of two, from 4."""
    return [0, 1, 2, 3, *(2**power * quarter // 4 for power in range(2, 42) for quarter in (4, 5, 6, 7))]


def bucket(value: int) -> int:
    """Return the number of the bucket of a value."""
    return 164 if value < 0 else sum(first <= value for first in limits()) - 1


def upper_limit(values: list[int], percent: int) -> int | None:
    """Return the first value above the bucket of a quantile (nearest rank)."""
    if not values:
        return None
    rank = -(-len(values) * percent // 100)
    quantile = sorted(values)[rank - 1]
    return 0 if quantile < 0 else limits()[bucket(quantile) + 1]


def histogram(values: list[int]) -> dict[int, int]:
    """Return the number of values by bucket."""
    return dict(Counter(map(bucket, values)))
