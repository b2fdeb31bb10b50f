"""A mirror port as a queue with a rate, and traffic through it: samples whose loss is known exactly.

Each sample is a pure function of its seed. TCP does not react to what the mirror drops, as on a real mirror: the frames
themselves arrive. A share of the segments is lost before the mirrored port and sent again through it later.
"""

import random
from dataclasses import dataclass

from naive_congestion import covered

NS = 10**9
START_NS = 1_700_000_000 * NS
SAMPLE_S = 4
CAPACITY_BPS = 10_000_000
BUFFER_BYTES = 65_536
MSS = 1448
HEADERS = 66  # Ethernet, IPv4, TCP with timestamps
SHAPES = ("smooth", "bursty", "tcp")


@dataclass(frozen=True)
class Simulated:
    """One sample: delivered frames and their flows as `acapella digest` writes them, the manifest, the truth."""

    frames: list[dict]
    flows: list[dict]
    manifest: dict
    loss: float
    load: float
    shape: str


def sample(seed: int) -> Simulated:
    """Simulate a sample: a load of 10 to 300 % of the mirror, counters each 1 or 30 s."""
    draw = random.Random(seed)
    shape = SHAPES[seed % len(SHAPES)]
    load = draw.uniform(0.1, 0.5) if draw.random() < 0.5 else draw.uniform(0.5, 3.0)
    begin_s = -31 if draw.random() < 0.5 else 0  # the traffic goes on around the sample, or is in it alone
    offered = traffic(draw, shape, load, begin_s)
    inside = [frame for frame in offered if 0 <= frame["at"] < SAMPLE_S * NS]
    delivered = through_queue(inside)
    sent, arrived = (sum(frame["wire_len"] for frame in part) for part in (inside, delivered))
    return Simulated(
        frames=[row(number, frame) for number, frame in enumerate(delivered, 1)],
        flows=flows_of(delivered),
        manifest=manifest_of(offered, len(delivered), every_s=(1, 30)[seed // len(SHAPES) % 2], draw=draw),
        loss=1 - arrived / sent if sent else 0.0,
        load=sent * 8 / SAMPLE_S / CAPACITY_BPS,
        shape=shape,
    )


def traffic(draw: random.Random, shape: str, load: float, begin_s: int) -> list[dict]:
    """Return the frames that the mirror is offered, in order: ns since the sample's start, lengths, TCP numbers."""
    rate, line = load * CAPACITY_BPS / 8, CAPACITY_BPS / 8 * draw.choice((2, 4, 10))  # bytes a second
    burst = 1 if shape == "smooth" else draw.randint(5, 120)
    line = max(line, rate * 1.1)
    frames, late, seq = [], [], draw.randrange(2**32)
    at, end = begin_s * NS, (SAMPLE_S - min(0, begin_s)) * NS
    while at < end:
        for n in range(burst):
            here = round(at + n * 1514 / line * NS)
            if shape != "tcp":
                frames.append({"at": here, "wire_len": 1514, "flow": 0})
                continue
            data = {"wire_len": MSS + HEADERS, "flow": 0, "seq": seq % 2**32, "len": MSS}
            if draw.random() < 0.003:  # lost before the port
                late.append(data | {"at": here + 30_000_000})
            else:
                frames.append(data | {"at": here})
            seq += MSS
            if n % 2:
                frames.append({"at": here + 500_000, "wire_len": HEADERS, "flow": 1, "ack": seq % 2**32, "len": 0})
        at += round(burst * 1514 / rate * NS * draw.uniform(0.9, 1.1))
    return sorted(frames + [again for again in late if again["at"] < end], key=lambda frame: frame["at"])


def through_queue(offered: list[dict]) -> list[dict]:
    """Return the frames that leave the port and when; a frame that finds no room in the queue is dropped."""
    free, delivered = 0.0, []
    for frame in offered:
        backlog = max(0.0, free - frame["at"]) * CAPACITY_BPS / 8 / NS
        if backlog + frame["wire_len"] <= BUFFER_BYTES:
            free = max(free, frame["at"]) + frame["wire_len"] * 8 * NS / CAPACITY_BPS
            delivered.append(frame | {"at": round(free)})
    return delivered


def row(number: int, frame: dict) -> dict:
    """Return a row of the frame table, as far as verdicts need it."""
    tcp = "len" in frame
    return {
        "frame": number,
        "ts_ns": START_NS + frame["at"],
        "wire_len": frame["wire_len"],
        "flow": frame["flow"],
        "tcp_seq": frame.get("seq", 1) if tcp else None,
        "tcp_ack": frame.get("ack", 1) if tcp else None,
        "tcp_flags": 16 if tcp else None,
        "payload_len": frame["len"] if tcp else frame["wire_len"] - 42,
    }


def flows_of(delivered: list[dict]) -> list[dict]:
    """Return both directions; an own count of bytes sent again."""
    ranges = [(frame["seq"], frame["len"]) for frame in delivered if "seq" in frame]
    again = sum(length for _, length in ranges) - covered(ranges)
    return [
        {"flow": 0, "peer_flow": 1, "retransmitted_bytes": again, "fin": 0},
        {"flow": 1, "peer_flow": 0, "retransmitted_bytes": 0, "fin": 0},
    ]


def manifest_of(offered: list[dict], captured: int, *, every_s: int, draw: random.Random) -> dict:
    """Return the manifest, with the readings of the counters around the sample."""
    first = -round(draw.random() * every_s * NS)
    times = [first + n * every_s * NS for n in range(SAMPLE_S // every_s + 3)]
    times = times[: next(n for n, at in enumerate(times) if at >= SAMPLE_S * NS) + 1]
    totals, total, position = [], 0, 0
    for at in times:
        while position < len(offered) and offered[position]["at"] <= at:
            total += offered[position]["wire_len"]
            position += 1
        totals.append(total)
    return {
        "direction": "both",
        "filter": None,
        "actual": {"start_ns": START_NS, "end_ns": START_NS + SAMPLE_S * NS},
        "frames_captured": captured,
        "dropped_kernel": 0,
        "dropped_interface": 0,
        "port_rate_bps": 15 * CAPACITY_BPS,
        "congestion": {
            "capacity_bps": CAPACITY_BPS,
            "capacity_overhead_bytes": 0,
            "counter_overhead_bytes": 0,
            "buffer_bytes": BUFFER_BYTES,
            "readings": [[START_NS + at, count - totals[0]] for at, count in zip(times, totals, strict=True)],
        },
    }
