"""Packets with the stamp of acapella generate, and a path that delays, loses, duplicates and reorders them.

Times are simulated: a capture contains the arrivals that a seeded schedule determines.
"""

import json
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.tunnel_frames import checksum

START_NS = 1_790_000_000_123_456_789
MACS = bytes.fromhex("020000000002020000000001")
ETHERNET, IPV4, UDP, STAMP = 14, 20, 8, 18
PATTERNS = ("zeros", "ones", "aa55", "counter", "prbs31")
ENCAPSULATIONS = ("", "vlan", "qinq", "mpls", "ipip", "vxlan", "pseudowire")
MASK = 2**64 - 1

Trace = list[tuple[int, bytes]]


@dataclass(frozen=True)
class Flow:
    """A generated flow: UDP with constant gaps, within an encapsulation. ``payload_bytes``: after the stamp."""

    packets: int
    gap_ns: int = 10_000
    payload_bytes: int = 40
    pattern: str = "zeros"
    encapsulation: str = ""
    start_ns: int = START_NS


def ipv4(protocol: int, payload: bytes, number: int) -> bytes:
    """Return an IPv4 packet from host ``number`` of 10.0.0.0/16 to the same host of 10.1.0.0/16."""
    head = struct.pack(">BBHHHBB", 0x45, 0, IPV4 + len(payload), 1, 0, 64, protocol)
    packed = b"".join((ip_address(first) + number).packed for first in ("10.0.0.0", "10.1.0.0"))
    return head + struct.pack(">H", checksum(head + b"\0\0" + packed)) + packed + payload


def udp(payload: bytes, port: int) -> bytes:
    """Return a datagram without a checksum."""
    return struct.pack(">HHHH", 5000, port, UDP + len(payload), 0) + payload


def framed(encapsulation: str, packet: bytes) -> bytes:
    """Return an Ethernet frame that contains an IPv4 packet within an encapsulation."""
    plain = MACS + b"\x08\x00" + packet
    labels = struct.pack(">II", 17 << 12 | 64, 18 << 12 | 1 << 8 | 64)
    return {
        "": lambda: plain,
        "vlan": lambda: MACS + struct.pack(">HHH", 0x8100, 100, 0x0800) + packet,
        "qinq": lambda: MACS + struct.pack(">HHHHH", 0x88A8, 200, 0x8100, 100, 0x0800) + packet,
        "mpls": lambda: MACS + b"\x88\x47" + labels + packet,
        "ipip": lambda: MACS + b"\x08\x00" + ipv4(4, packet, 77),
        "vxlan": lambda: MACS + b"\x08\x00" + ipv4(17, udp(struct.pack(">II", 8 << 24, 42 << 8) + plain, 4789), 77),
        "pseudowire": lambda: MACS + b"\x88\x47" + labels + bytes(4) + plain,
    }[encapsulation]()


def stamp(flow: int, sequence: int, ns: int) -> bytes:
    """Return the stamp (schemas/stamp.json)."""
    seconds, rest = divmod(ns, 10**9)
    return struct.pack(">HIIII", 0xACA9, flow, sequence % 2**32, seconds, (rest << 32) // 10**9)


def pattern(name: str, size: int, flow: int, sequence: int) -> bytes:
    """Return a payload pattern of ``size`` bytes (schemas/stamp.json), bit by bit."""
    if name != "prbs31":
        cycle = {"zeros": b"\0", "ones": b"\xff", "aa55": b"\xaa\x55", "counter": bytes(range(256))}[name]
        return (cycle * (size // len(cycle) + 1))[:size]
    register, bits = mix64(flow << 32 | sequence) & 0x7FFFFFFF or 1, []
    for _ in range(8 * size):
        bit = (register >> 30 ^ register >> 27) & 1
        register = (register << 1 | bit) & 0x7FFFFFFF
        bits.append(1 - bit)
    return bytes(int("".join(map(str, bits[at : at + 8])), 2) for at in range(0, len(bits), 8))


def mix64(value: int) -> int:
    """Return the first output of SplitMix64 with a seed."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def packet(flow: Flow, index: int, sequence: int) -> bytes:
    """Return packet ``sequence`` of the flow with an index."""
    departure = flow.start_ns + sequence * flow.gap_ns
    payload = stamp(index, sequence, departure) + pattern(flow.pattern, flow.payload_bytes, index, sequence)
    return framed(flow.encapsulation, ipv4(17, udp(payload, 6000 + index % 1000), index))


def sent(flows: Sequence[Flow]) -> Trace:
    """Return the packets of all flows in the order of their departures."""
    numbered = [(index, flow, sequence) for index, flow in enumerate(flows) for sequence in range(flow.packets)]
    trace = [(flow.start_ns + number * flow.gap_ns, packet(flow, index, number)) for index, flow, number in numbered]
    return sorted(trace, key=lambda each: each[0])


def expected(flows: Sequence[Flow]) -> dict:
    """Return the list of generated flows (schemas/generated.json)."""
    rows = [expected_flow(index, flow) for index, flow in enumerate(flows)]
    total = {name: sum(row[name] for row in rows) for name in ("packets", "bytes")}
    head = {"format": "acapella-generated", "version": 1, "model_sha256": "0" * 64, "seed": 1, "output": "file"}
    return head | total | {"start_ns": START_NS, "dropped": 0, "timing": None, "flows": rows}


def expected_flow(index: int, flow: Flow) -> dict:
    """Return a flow of the list."""
    frame = packet(flow, index, 0)
    at = frame.index(stamp(index, 0, flow.start_ns))
    return {
        "flow": index, "name": f"flow{index}", "protocols": ["eth", "ipv4", "udp"], "vlan": [], "mpls": [],
        "ip_version": 4, "src": str(ip_address("10.0.0.0") + index), "dst": str(ip_address("10.1.0.0") + index),
        "ip_proto": 17, "src_port": 5000, "dst_port": 6000 + index % 1000, "varying": [], "stamp_offset": at,
        "pattern": flow.pattern, "pattern_offset": at + STAMP, "shortest_bytes": len(frame),
        "longest_bytes": len(frame), "start_ns": flow.start_ns, "packets": flow.packets,
        "bytes": flow.packets * len(frame), "dropped": 0, "malformed": 0,
        "first_ns": flow.start_ns if flow.packets else None,
        "last_ns": flow.start_ns + (flow.packets - 1) * flow.gap_ns if flow.packets else None,
    }  # fmt: skip


@dataclass(frozen=True)
class Schedule:
    """The effects of a path on packets: probabilities, and times in ns. The same seed gives the same decisions."""

    seed: int = 1
    delay_ns: int = 1_000_000
    jitter_ns: int = 0  # a uniform delay is added, which reorders packets if it exceeds their gaps
    loss: float = 0.0
    duplication: float = 0.0
    damage: float = 0.0  # a random bit of the payload after the stamp is inverted
    drift: float = 0.0  # drift of the receiver's clock


@dataclass
class Outcome:
    """The effect of a schedule on a trace: the arrivals, and the number of packets by fate."""

    arrived: Trace = field(default_factory=list)
    lost: int = 0
    duplicated: int = 0
    damaged: int = 0


def through(schedule: Schedule, trace: Trace) -> Outcome:
    """Return the outcome of sending a trace over a path with this schedule."""
    draw, outcome = random.Random(schedule.seed), Outcome()
    for ns, frame in trace:
        if draw.random() < schedule.loss:
            outcome.lost += 1
            continue
        copies = 1 + (draw.random() < schedule.duplication)
        outcome.duplicated += copies - 1
        for _ in range(copies):
            content = frame
            if draw.random() < schedule.damage:
                outcome.damaged += 1
                content = with_wrong_bit(frame, draw)
            outcome.arrived.append((arrival(schedule, ns, draw), content))
    outcome.arrived.sort(key=lambda each: each[0])
    return outcome


def arrival(schedule: Schedule, ns: int, draw: random.Random) -> int:
    """Return when a packet arrives, by the receiver's clock (ns)."""
    at = ns + schedule.delay_ns + draw.randint(0, schedule.jitter_ns)
    return at + round((at - START_NS) * schedule.drift)


def with_wrong_bit(frame: bytes, draw: random.Random) -> bytes:
    """Return a frame with an inverted bit after its stamp; the same frame if nothing follows the stamp."""
    first = frame.rindex(b"\xac\xa9") + STAMP
    if first >= len(frame):
        return frame
    at, bit = draw.randrange(first, len(frame)), draw.randrange(8)
    return frame[:at] + bytes([frame[at] ^ 1 << bit]) + frame[at + 1 :]


def write(directory: Path, flows: Sequence[Flow], schedule: Schedule, others: Trace = ()) -> tuple[Path, Outcome]:
    """Write sent.pcap, sent.generated.json and arrived.pcap; return the path of arrived.pcap, and the outcome.

    ``others``: packets without a stamp that also arrive.
    """
    trace = sent(flows)
    outcome = through(schedule, trace)
    write_pcap(directory / "sent.pcap", trace)
    (directory / "sent.generated.json").write_text(json.dumps(expected(flows)))
    arrived = sorted([*outcome.arrived, *others], key=lambda each: each[0])
    return write_pcap(directory / "arrived.pcap", arrived), outcome
