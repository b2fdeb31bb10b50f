"""Simulated traffic through a mirror port, modeled as a queue with a rate. The loss of each sample is known exactly.

Each sample depends only on its seed. TCP does not react to losses of the mirror, as on a real mirror: the original
frames arrive. A share of the segments is lost before the mirrored port and retransmitted through it later.
"""

import bisect
import functools
import itertools
import random
from collections import Counter
from dataclasses import dataclass, replace

from acapella_testing.oracles.naive_congestion import covered

NS = 10**9
START_NS = 1_700_000_000 * NS
SAMPLE_S = 4
CAPACITY_BPS = 10_000_000
MSS = 1448
HEADERS = 66  # Ethernet, IPv4, TCP with timestamps
SHAPES = ("smooth", "bursty", "tcp")
# IPv4 identifications of UDP: per socket, as in Linux for connected sockets; 0, as in Linux for other atomic datagrams;
# random; a counter of the host, which also increases with datagrams that the port does not carry.
IDENTIFIERS = ("socket", "socket", "zero", "random", "host")


@dataclass(frozen=True)
class Conditions:
    """Properties of mirror, receiver and counters in a class of samples; lengths in bytes."""

    frame_bytes: int = 1514
    queue_bytes: int = 65_536
    queue_known: bool = True
    overhead: bool = False  # the port adds Ethernet's 24 bytes and counters add 4; the manifest has neither
    dropped_share: float = 0.0  # share that the receiver drops at random
    receiver_bps: int | None = None  # rate of a receiver with a ring of 32 KiB that drops frames when the ring is full
    drops_known: bool = True
    batch_ns: int = 0  # frames have the timestamp of the end of their batch
    overload: tuple[int, int] | None = None  # seconds when the port carries 300 % of the mirror's rate in addition
    exact_lines: bool = False  # the rate of the mirrored port equals the line rate of the traffic
    steady: bool = False  # equally spaced frames before, in and after the sample, 100 to 200 %, counters every 30 s
    untimed: bool = False  # every tenth frame has no timestamp
    switch_share: float = 0.0  # lost in the switch at random, after the counters and before the mirror
    fan_in: bool = False  # 2 to 4 senders to one port, which is mirrored before the port's own queue
    receive_only: bool = False  # UDP of 4 flows over one line


CLASSES = {
    "plain": Conditions(),
    **{
        f"unknown queue of {size}": Conditions(queue_bytes=queue_bytes, queue_known=False)
        for size, queue_bytes in {"9 kB": 9_000, "12 kB": 12_000, "64 KiB": 65_536, "160 kB": 160_000}.items()
    },
    "overhead": Conditions(overhead=True),
    "jumbo frames": Conditions(frame_bytes=9014),
    "jumbo frames, unknown queue": Conditions(frame_bytes=9014, queue_known=False),
    "receiver drops 20 %": Conditions(dropped_share=0.2),
    "receiver drops 40 %": Conditions(dropped_share=0.4),
    "slow receiver": Conditions(receiver_bps=6_000_000),
    "drops not counted": Conditions(dropped_share=0.2, drops_known=False),
    **{f"batches of {ms} ms": Conditions(batch_ns=ms * 10**6) for ms in (2, 10, 20)},
    "overload before": Conditions(overload=(-20, -2)),
    "overload after": Conditions(overload=(SAMPLE_S + 2, SAMPLE_S + 20)),
    "exact lines": Conditions(exact_lines=True),
    "steady overload": Conditions(steady=True),
    "untimed frames": Conditions(untimed=True),
    "fan-in": Conditions(fan_in=True, exact_lines=True),
    "fan-in, unknown queue": Conditions(fan_in=True, exact_lines=True, queue_known=False),
    "receive only": Conditions(receive_only=True, exact_lines=True),
}
LINE_BPS, FAN_IN_CAPACITY_BPS, FAN_IN_BUFFER_BYTES = 1_000_000_000, 100_000_000, 96 << 10  # for coinciding bursts
PORT_QUEUE_BYTES = 65_536  # queue of a port that is offered more than its line rate


@dataclass(frozen=True)
class Simulated:
    """One sample: captured frames and flows as written by `acapella digest`, the manifest, and the true losses.

    ``loss`` is that of the mirror port, ``missing`` that from the counters of the mirrored port to the receiver.
    """

    frames: list[dict]
    flows: list[dict]
    manifest: dict
    loss: float
    missing: float
    load: float
    shape: str
    identifiers: str
    lost_before: float  # share of the UDP frames lost before the port


def sample(seed: int, given: Conditions = CLASSES["plain"]) -> Simulated:
    """Simulate a sample with a load of 10 to 300 % of the mirror and counters every 1 or 30 s."""
    draw = random.Random(seed)
    shape = "smooth" if given.steady else SHAPES[seed % (2 if given.receive_only else len(SHAPES))]
    load = draw.uniform(0.1, 0.5) if draw.random() < 0.5 else draw.uniform(0.5, 3.0)
    load = 1 + load / 3 if given.steady else load
    every_s = 30 if given.steady else (1, 30)[seed // len(SHAPES) % 2]
    # half of the samples have traffic before and after them, too, until the next readings of the counters
    begin_s = -1 - every_s if draw.random() < 0.5 or given.steady else 0
    line = max(draw.choice((2, 4, 10)) * CAPACITY_BPS, round(load * 1.1 * CAPACITY_BPS))
    if given.fan_in:
        line = draw.choice((1, 2, 4, 10)) * CAPACITY_BPS
    offered = (fan_in if given.fan_in else traffic)(draw, shape, (load * CAPACITY_BPS, line), begin_s, given)
    if given.receive_only:
        offered = [frame | {"flow": 2 * (n % 4)} for n, frame in enumerate(offered)]
    stack = random.Random(-1 - seed)  # separate, so that it does not change the traffic
    identifiers = IDENTIFIERS[stack.randrange(len(IDENTIFIERS))] if not given.steady else "zero"
    offered, lost_share = with_identifications(stack, offered, identifiers)
    offered = through_switch(stack, offered, given.switch_share)
    inside = [frame for frame in offered if 0 <= frame["at"] < SAMPLE_S * NS]
    copied = [frame for frame in inside if not frame.get("lost")]
    delivered = through_queue(copied, CAPACITY_BPS, given.queue_bytes, 24 * given.overhead)
    captured = received(draw, delivered, given)
    counted, sent, arrived = (sum(frame["wire_len"] for frame in part) for part in (inside, copied, delivered))
    sent_on = through_port(offered, line) if given.fan_in else with_overload(offered, given)
    manifest = manifest_of(sent_on, len(captured), every_s=every_s, draw=draw, given=given)
    manifest["dropped_kernel"] = len(delivered) - len(captured) if given.drops_known else None
    if given.fan_in and shape != "tcp":
        manifest["direction"] = stack.choice(("tx", "both"))
    manifest["direction"] = "rx" if given.receive_only or given.steady else manifest["direction"]
    manifest["port_rate_bps"] = line if given.exact_lines else 15 * CAPACITY_BPS
    frames = [row(number, frame, given) for number, frame in enumerate(captured, 1)]
    loss, missing = (1 - arrived / total if total else 0.0 for total in (sent, counted))
    more = {"load": sent * 8 / SAMPLE_S / CAPACITY_BPS, "lost_before": lost_share if shape != "tcp" else 0.0}
    more |= {"shape": shape, "identifiers": identifiers}
    return Simulated(frames, flows_of(captured), manifest, loss, missing, **more)


def traffic(
    draw: random.Random, shape: str, rates_bps: tuple[float, float], begin_s: int, given: Conditions
) -> list[dict]:
    """Return the frames offered to the mirror, in order: ns since the sample's start, lengths, TCP numbers.

    ``rates_bps``: mean rate and line rate.
    """
    rate, line = (bps / 8 for bps in rates_bps)
    size, mss = given.frame_bytes, given.frame_bytes - HEADERS
    burst = 1 if shape == "smooth" else max(3, draw.randint(5, 120) * 1514 // size)
    frames, late, seq = [], [], draw.randrange(2**32)
    at, end = begin_s * NS, (SAMPLE_S - min(0, begin_s)) * NS
    while at < end:
        for n in range(burst):
            here = round(at + n * size / line * NS)
            if shape != "tcp":
                frames.append({"at": here, "wire_len": size, "flow": 0})
                continue
            data = {"wire_len": size, "flow": 0, "seq": seq % 2**32, "len": mss}
            if draw.random() < 0.003:  # lost before the port
                late.append(data | {"at": here + 30_000_000})
            else:
                frames.append(data | {"at": here})
            seq += mss
            if n % 2:
                frames.append({"at": here + 500_000, "wire_len": HEADERS, "flow": 1, "ack": seq % 2**32, "len": 0})
        at += round(burst * size / rate * NS * (1 if given.steady else draw.uniform(0.9, 1.1)))
    return sorted(frames + [again for again in late if again["at"] < end], key=lambda frame: frame["at"])


def fan_in(
    draw: random.Random, shape: str, rates_bps: tuple[float, float], begin_s: int, given: Conditions
) -> list[dict]:
    """Return the frames of several senders to one port, each over a separate line; in half of the samples, in step."""
    rate, line = rates_bps
    senders, timing, frames = draw.choice((2, 3, 4)), draw.randrange(2**32), []
    together = draw.random() < 0.5
    for n in range(senders):
        own = random.Random(timing if together else timing + n)
        of_sender = traffic(own, shape, (min(rate, 0.95 * line) / senders, line), begin_s, given)
        frames += [frame | {"flow": frame["flow"] + 2 * n} for frame in of_sender]
    return sorted(frames, key=lambda frame: frame["at"])


def through_port(offered: list[dict], line_bps: float) -> list[dict]:
    """Return what a port counts: frames that its own queue does not drop, and received acknowledgments."""
    sent = through_queue([frame for frame in offered if frame["flow"] % 2 == 0], line_bps, PORT_QUEUE_BYTES)
    return sorted([*sent, *(frame for frame in offered if frame["flow"] % 2)], key=lambda frame: frame["at"])


def with_identifications(draw: random.Random, offered: list[dict], identifiers: str) -> tuple[list[dict], float]:
    """Set identifications. Return the frames without UDP frames lost before the port, and the share of lost ones."""
    found, last = [], [draw.randrange(2**16) for _ in range(flows_in(offered))]
    lost_share = draw.choice((0, 0, 0.02))
    for frame in offered:
        flow = frame["flow"]
        last[flow] += 1 + (draw.randrange(3) if identifiers == "host" else 0)
        if "len" in frame or not lost_share or draw.random() >= lost_share:
            number = draw.randrange(2**16) if identifiers == "random" else last[flow] % 2**16
            frame["id"] = 0 if identifiers == "zero" else number
            found.append(frame)
    return found, lost_share


def through_switch(draw: random.Random, offered: list[dict], share: float) -> list[dict]:
    """Return the counted frames; ``lost`` marks frames then lost in the switch, which TCP retransmits."""
    if not share:
        return offered
    counted = [frame | {"lost": draw.random() < share} for frame in offered]
    again = [frame | {"at": frame["at"] + 30_000_000, "lost": False} for frame in counted
             if frame["lost"] and frame.get("len", 0) > 0 and "seq" in frame]  # fmt: skip
    return sorted(counted + again, key=lambda frame: frame["at"])


def through_queue(offered: list[dict], rate_bps: float, room: int, overhead: int = 0) -> list[dict]:
    """Return the frames that leave the port, with their times. A frame is dropped if the queue has no space for it."""
    free, delivered = 0.0, []
    for frame in offered:
        if max(0.0, free - frame["at"]) * rate_bps / 8 / NS + frame["wire_len"] <= room:
            free = max(free, frame["at"]) + (frame["wire_len"] + overhead) * 8 * NS / rate_bps
            delivered.append(frame | {"at": round(free)})
    return delivered


def received(draw: random.Random, delivered: list[dict], given: Conditions) -> list[dict]:
    """Return the frames that the receiver keeps, with its timestamps."""
    kept = delivered
    if given.receiver_bps:
        kept = [frame | {"number": n} for n, frame in enumerate(delivered)]
        kept = [delivered[frame["number"]] for frame in through_queue(kept, given.receiver_bps, 32_768)]
    if given.dropped_share:
        kept = [frame for frame in kept if draw.random() >= given.dropped_share]
    batch = given.batch_ns or 1
    return [frame | {"at": -(-frame["at"] // batch) * batch} for frame in kept]


def with_overload(offered: list[dict], given: Conditions) -> list[dict]:
    """Return the counted frames, including the overload outside the sample."""
    if given.overload is None:
        return offered
    first, last = given.overload
    step = 10 * 1514 * 8 * NS // (3 * CAPACITY_BPS)
    more = [{"at": at, "wire_len": 10 * 1514} for at in range(first * NS, last * NS, step)]
    return sorted(offered + more, key=lambda frame: frame["at"])


def row(number: int, frame: dict, given: Conditions = CLASSES["plain"]) -> dict:
    """Return a row of the frame table with the columns that verdicts use."""
    ts_ns = None if given.untimed and number % 10 == 0 else START_NS + frame["at"]
    found = {"frame": number, "ts_ns": ts_ns, "ip_id": frame["id"], **{k: frame[k] for k in ("wire_len", "flow")}}
    numbers = {"tcp_seq": frame.get("seq", 1), "tcp_ack": frame.get("ack", 1), "tcp_flags": 16}
    numbers = numbers if "len" in frame else dict.fromkeys(numbers)
    return found | numbers | {"payload_len": frame.get("len", frame["wire_len"] - 42)}


def flows_of(delivered: list[dict]) -> list[dict]:
    """Return both directions of each sender, with an independent count of retransmitted bytes."""
    found = []
    for flow in range(0, flows_in(delivered), 2):
        ranges = [(frame["seq"], frame["len"]) for frame in delivered if "seq" in frame and frame["flow"] == flow]
        again = sum(length for _, length in ranges) - covered(ranges)
        found += [
            {"flow": flow, "peer_flow": flow + 1, "retransmitted_bytes": again, "fin": 0},
            {"flow": flow + 1, "peer_flow": flow, "retransmitted_bytes": 0, "fin": 0},
        ]
    return found


def flows_in(frames: list[dict]) -> int:
    """Return the number of flows: two for each sender."""
    return max((frame["flow"] // 2 * 2 + 2 for frame in frames), default=2)


def manifest_of(
    offered: list[dict], captured: int, *, every_s: int, draw: random.Random, given: Conditions = CLASSES["plain"]
) -> dict:
    """Return the manifest, with the readings of the counters around the sample."""
    first = -round(draw.random() * every_s * NS)
    times = [first + n * every_s * NS for n in range(SAMPLE_S // every_s + 3)]
    times = times[: next(n for n, at in enumerate(times) if at >= SAMPLE_S * NS) + 1]
    sizes = [frame["wire_len"] + 4 * given.overhead for frame in offered]
    sums, arrivals = [0, *itertools.accumulate(sizes)], [frame["at"] for frame in offered]
    totals = [sums[bisect.bisect_right(arrivals, at)] for at in times]
    overheads = dict.fromkeys(("capacity_overhead_bytes", "counter_overhead_bytes"), None if given.overhead else 0)
    readings = [[START_NS + at, count - totals[0]] for at, count in zip(times, totals, strict=True)]
    buffer_bytes = given.queue_bytes if given.queue_known else None
    return {
        **{"direction": "both", "filter": None, "port_rate_bps": 15 * CAPACITY_BPS},
        **{"frames_captured": captured, "dropped_kernel": 0, "dropped_interface": 0},
        "actual": {"start_ns": START_NS, "end_ns": START_NS + SAMPLE_S * NS},
        "congestion": {"capacity_bps": CAPACITY_BPS, "buffer_bytes": buffer_bytes, "readings": readings, **overheads},
    }


@functools.cache
def template() -> Simulated:
    """Return the sample on which others are based; nothing may change it."""
    return sample(0)


def coinciding_bursts(  # noqa: PLR0913
    senders: int, burst: int, every_s: float, *, ids: bool, line_bps: float = LINE_BPS, around_s: int = 31
) -> list[dict]:
    """Return UDP frames of senders whose bursts coincide, each over a separate line.

    They are offered in a sample, and for ``around_s`` before and after it.
    """
    period_ns, frame_ns = round(every_s * NS), round(1514 * 8 * NS / line_bps)
    offered = [
        {"at": round(0.21 * NS) + k * period_ns + n * frame_ns + sender * 1000, "wire_len": 1514, "flow": 2 * sender}
        for k in range(-around_s * NS // period_ns, (SAMPLE_S + around_s) * NS // period_ns)
        for n in range(burst)
        for sender in range(senders)
    ]
    last = Counter()
    offered.sort(key=lambda frame: frame["at"])
    for frame in offered:
        last[frame["flow"]] += 1
        frame["id"] = last[frame["flow"]] % 2**16 if ids else 0
    return offered


def coinciding(
    offered: list[dict],
    counters_s: int,
    direction: str,
    *,
    counted: list[dict] | None = None,
    line_bps: float = LINE_BPS,
) -> Simulated:
    """Return the sample of these frames. The counters include all of them, or ``counted``."""
    inside = [frame for frame in offered if 0 <= frame["at"] < SAMPLE_S * NS]
    delivered = through_queue(inside, FAN_IN_CAPACITY_BPS, FAN_IN_BUFFER_BYTES)
    loss = 1 - sum(frame["wire_len"] for frame in delivered) / sum(frame["wire_len"] for frame in inside)
    times_s = [counters_s * (n - 0.5) for n in range(SAMPLE_S // counters_s + 3)]
    counts = [sum(f["wire_len"] for f in counted or offered if f["at"] < at * NS) for at in times_s]
    before = template()
    congestion = {"capacity_bps": FAN_IN_CAPACITY_BPS, "buffer_bytes": FAN_IN_BUFFER_BYTES}
    congestion |= {"capacity_overhead_bytes": 0, "counter_overhead_bytes": 0}
    congestion["readings"] = [[START_NS + round(at * NS), n] for at, n in zip(times_s, counts, strict=True)]
    manifest = before.manifest | {"frames_captured": len(delivered), "dropped_kernel": 0, "congestion": congestion}
    manifest |= {"port_rate_bps": round(line_bps), "direction": direction}
    frames = [row(number, frame) for number, frame in enumerate(delivered, 1)]
    return replace(before, frames=frames, flows=flows_of(delivered), manifest=manifest, loss=loss, missing=loss)
