"""Samples of a synthetic campaign as counts of frames and flows, from which generated_tables.py computes every table.

A sample has cells (frames of one header stack and length) and flows, which divide the frames with an IP header among
them. All random values are from the generator that is passed.
"""

import bisect
import functools
import itertools
import random
from collections import defaultdict
from typing import NamedTuple

START_NS = 1_700_000_000_000_000_000
SAMPLE_NS = 20_000_000_000
PERIOD_NS = 300_000_000_000
PORT_NS = 25 * 10**9  # from the sample of a port to the sample of the next port
BINS = ((0, 63), (64, 64), (65, 127), (128, 255), (256, 511), (512, 1023), (1024, 1518), (1519, 2047), (2048, 4095))
BINS += ((4096, 9215), (9216, None))
STARTS = [low for low, _ in BINS]
PSEUDOWIRE = "Ethernet/VLAN/MPLS/MPLS/PseudoWire/Ethernet"
ENCAPSULATIONS = {  # labels before the network header: bytes outside the innermost frame, added bytes in it, weight
    PSEUDOWIRE: (30, 0, 5.0),
    "Ethernet/VLAN/MPLS/PseudoWire/Ethernet": (26, 0, 2.0),
    "Ethernet/VLAN": (0, 4, 2.0),
    "Ethernet": (0, 0, 1.0),
    "Ethernet/VLAN/IPv4/UDP/Geneve/Ethernet": (54, 0, 0.2),
    f"{PSEUDOWIRE}/VLAN/IPv4/UDP/VXLAN/Ethernet/VLAN/IPv4/UDP/GTP/IPv4/UDP/VXLAN/Ethernet": (174, 0, 0.1),
    "Ethernet/IPv4/GRE": (0, 24, 0.1),
    "none": (0, -14, 0.02),
}
LINKS = ("Ethernet", "Ethernet/VLAN")  # encapsulations of frames outside tunnels
ENDS = {  # labels from the network header on: application (None: no flow), weight, lengths without encapsulation
    "IPv4/TCP/TLS": ("tls", 30.0, (1514, 583, 8986)),
    "IPv4/TCP": ("tls", 16.0, (66, 54)),
    "IPv4/TCP/Data": ("data", 12.0, (9000, 1514, 300)),
    "IPv4/UDP/Data": ("data", 6.0, (1400, 900)),
    "IPv4/TCP/SSH": ("ssh", 4.0, (150, 1200)),
    "IPv4/TCP/HTTP": ("http", 3.0, (1514, 400)),
    "IPv4/UDP/DNS": ("dns", 2.0, (90, 240)),
    "IPv4/UDP/QUIC": ("quic", 2.0, (1292, 80)),
    "IPv4/UDP/NTP": ("ntp", 0.3, (90,)),
    "IPv4/TCP/BGP": ("bgp", 0.2, (85,)),
    "IPv4/SCTP": ("", 0.3, (700,)),
    "IPv4/ICMP": ("", 1.0, (98,)),
    "IPv6/TCP/TLS": ("tls", 2.0, (1514,)),
    "IPv6/TCP": ("tls", 1.0, (86, 74)),
    "IPv6/UDP/DNS": ("dns", 0.5, (110,)),
    "IPv6/ICMPv6": ("", 0.6, (86,)),
    "ARP": (None, 1.5, (60, 42)),
    "LLDP": (None, 0.1, (130,)),
    "STP": (None, 0.2, (60,)),
    "LACP": (None, 0.1, (124,)),
}
EVERYWHERE = ("IPv4/TCP/TLS", "IPv4/TCP", "ARP")
LINK_ONLY = ("LLDP", "STP", "LACP")  # never in a tunnel
ACKNOWLEDGMENTS = ("IPv4/TCP", "IPv6/TCP")
PADDED = 60  # bytes of the shortest Ethernet frame without FCS
PERSISTENT = 10  # every tenth flow of an application is in all samples of its port


class Cell(NamedTuple):
    """Frames of one stack and length. ``deep``: in the longest encapsulation; ``empty``: segments without payload."""

    encapsulation: str
    stack: tuple[str, ...]
    app: str | None
    outer: int
    inner: int
    frames: int
    deep: bool
    empty: bool


class Flow(NamedTuple):
    """A directed flow of a sample, or of all samples of a port. ``observed_ns``: part of its duration in samples."""

    key: tuple
    site: str
    port: str
    app: str | None
    tcp: bool
    frames: int
    wire_bytes: int
    first_ns: int
    last_ns: int
    observed_ns: int
    samples: int

    @property
    def duration_ns(self) -> int:
        """Return the time from the first to the last frame."""
        return self.last_ns - self.first_ns

    @property
    def rate_bps(self) -> int | None:
        """Return the mean rate over the observed time; None for a flow with only one timestamp."""
        return round(8e9 * self.wire_bytes / self.observed_ns) if self.observed_ns else None


class Sample:
    """One sample: name and place, time, cells and flows."""

    def __init__(self, site: str, port: str, name: str, start_ns: int):
        self.site, self.port, self.name, self.start_ns = site, port, name, start_ns
        self.cells: list[Cell] = []
        self.flows: list[Flow] = []

    @property
    def end_ns(self) -> int:
        """Return the end of the sample."""
        return self.start_ns + SAMPLE_NS

    @functools.cached_property
    def frames(self) -> int:
        """Return the frames of all cells."""
        return sum(cell.frames for cell in self.cells)

    @functools.cached_property
    def wire_bytes(self) -> int:
        """Return the bytes of all cells on the wire."""
        return sum(cell.frames * cell.outer for cell in self.cells)


def bin_of(length: int) -> tuple[int, int | None]:
    """Return the bin of a length."""
    return BINS[bisect.bisect_right(STARTS, length) - 1]


def allocated(number: int, weights: list[float]) -> list[int]:
    """Return integer parts of a number in proportion to weights; they add up to the number."""
    total = sum(weights) or 1
    ends = [round(number * done / total) for done in itertools.accumulate(weights, initial=0.0)]
    return [end - begin for begin, end in itertools.pairwise(ends)]


def samples_of_site(site: str, ports: int, samples: int, frames: int, draw: random.Random) -> list[Sample]:
    """Return the samples of a site with about ``frames`` frames each. Ports differ by up to two orders of magnitude."""
    kinds = kinds_of_site(draw)
    found = []
    for port in range(ports):
        level = 10 ** draw.uniform(-1, 1) if frames else 0
        for n in range(samples):
            start = START_NS + n * PERIOD_NS + port * PORT_NS
            sample = Sample(site, f"HundredGigE0/0/0/{port}", f"{site}-p{port}-{n:04d}", start)
            number = max(40, int(level * frames * draw.lognormvariate(0, 0.5))) if frames else 0
            weights = [weight * draw.lognormvariate(0, 0.3) for *_, weight in kinds]
            counts = zip(kinds, allocated(number, weights), strict=True)
            sample.cells = [cell_of(*kind, count) for (*kind, _), count in counts if count]
            sample.flows = flows_of(sample, draw)
            found.append(sample)
    return found


def kinds_of_site(draw: random.Random) -> list[tuple[str, str, int, float]]:
    """Return encapsulation, end, length and weight of the frames of a site."""
    chosen = [name for name in ENCAPSULATIONS if name == PSEUDOWIRE or draw.random() < 0.6]
    ends = [end for end in ENDS if end in EVERYWHERE or draw.random() < 0.7]
    found = []
    for name, end in itertools.product(chosen, ends):
        if (end in LINK_ONLY and name not in LINKS) or (end == "ARP" and not name.endswith(("Ethernet", "VLAN"))):
            continue
        _, weight, lengths = ENDS[end]
        weight *= ENCAPSULATIONS[name][-1] / len(lengths)
        found += [(name, end, length, weight * draw.gammavariate(0.8, 1)) for length in lengths]
    return found


def cell_of(encapsulation: str, end: str, length: int, frames: int) -> Cell:
    """Return the cell of one kind. ``length``: of its frame without tags and tunnels."""
    around, more, _ = ENCAPSULATIONS[encapsulation]
    stack = tuple((end if encapsulation == "none" else f"{encapsulation}/{end}").split("/"))
    inner = max(PADDED, length + more) if encapsulation.endswith(("Ethernet", "VLAN")) else length + more
    lengths = inner + around, inner
    return Cell(encapsulation, stack, ENDS[end][0], *lengths, frames, "GTP" in stack, end in ACKNOWLEDGMENTS)


def flows_of(sample: Sample, draw: random.Random) -> list[Flow]:
    """Return flows that contain all frames and bytes of the sample's cells with an application."""
    sums, flows = defaultdict(lambda: [0, 0]), []
    for cell in (cell for cell in sample.cells if cell.app is not None):
        found = sums[cell.app, "TCP" in cell.stack]
        found[0] += cell.frames
        found[1] += cell.frames * cell.outer
    for (app, tcp), (frames, size) in sums.items():
        number = max(1, int(frames * 10 ** draw.uniform(-2.5, -1)))
        parts = [1 + part for part in allocated(frames - number, [1 / (place + 1) ** 1.1 for place in range(number)])]
        for place, (part, own) in enumerate(zip(parts, allocated(size, [float(part) for part in parts]), strict=True)):
            key = (sample.site, sample.port, app, tcp, place, *([sample.name] if place % PERSISTENT else []))
            first, last = times_of(sample, part, own, draw)
            flows.append(Flow(key, sample.site, sample.port, app or None, tcp, part, own, first, last, last - first, 1))
    return flows


def times_of(sample: Sample, frames: int, size: int, draw: random.Random) -> tuple[int, int]:
    """Return first and last time of a flow, for at most 10 Gbit/s. Some flows have only one timestamp."""
    if frames == 1 or draw.random() < 0.02:
        first = sample.start_ns + int(draw.random() * SAMPLE_NS)
        return first, first
    length = min(SAMPLE_NS - 1, max(int(8 * size / 10 ** draw.uniform(-2.5, 1)), int(10 ** draw.uniform(2.5, 10.3))))
    first = sample.start_ns + int(draw.random() * (SAMPLE_NS - length))
    return first, first + length


def stitched(samples: list[Sample]) -> list[Flow]:
    """Return flows across the samples of their port. The time between samples is not observed."""
    spans, own = defaultdict(list), defaultdict(list)
    for sample in samples:
        spans[sample.site, sample.port].append((sample.start_ns, sample.end_ns))
        for flow in sample.flows:
            own[flow.key].append(flow)
    found = []
    for key, flows in own.items():
        first, last = min(flow.first_ns for flow in flows), max(flow.last_ns for flow in flows)
        seen = sum(max(0, min(last, end) - max(first, start)) for start, end in spans[flows[0].site, flows[0].port])
        sums = (sum(flow.frames for flow in flows), sum(flow.wire_bytes for flow in flows))
        found.append(Flow(key, *flows[0][1:5], *sums, first, last, seen, len(flows)))
    return found
