"""Gaps and retransmitted bytes of flowstats.p4 against sets of sequence numbers, and holes against the model."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from acapella_p4_model import reports
from acapella_p4_model.comparing import BASE, assert_same, run
from acapella_p4_model.flow_state import HOLES
from acapella_p4_model.generated_connections import ACK, FIN, START_NS, SYN, TCP, ethernet, ipv4, tcp
from acapella_p4_model.running import Frame

SERVER, PORT = 0x0A000001, 443


@dataclass
class Stream:
    """One direction of a connection at a tap, and each byte that the tap has seen."""

    client: int
    isn: int
    sent: int = 1  # next sequence number, relative to the SYN's
    seen: set[int] = field(default_factory=set)
    flags: set[int] = field(default_factory=set)  # numbers of SYN and FIN
    payload: int = 0
    ranges: int = 0  # number of ranges of consecutive numbers in `seen`
    max_holes: int = 0

    def frame(self, begin: int, data: int, flags: int = ACK) -> bytes:
        """Return a segment that passes the tap."""
        self.payload += data
        self.flags |= ({begin + data} if flags & FIN else set()) | ({0} if flags & SYN else set())
        for number in (set(range(begin, begin + data)) | self.flags) - self.seen:
            self.ranges += 1 - (number - 1 in self.seen) - (number + 1 in self.seen)
            self.seen.add(number)
        self.sent = max(self.sent, begin + data)
        self.max_holes = max(self.max_holes, self.ranges - 1)
        numbers = (self.isn + begin - bool(flags & SYN), 1)
        return ethernet(ipv4(TCP, self.client, SERVER, tcp((40000, PORT), numbers, flags, data=data)))

    @property
    def gap(self) -> int:
        return max(self.seen) - min(self.seen) + 1 - len(self.seen)

    @property
    def retransmitted(self) -> int:
        return self.payload - (len(self.seen) - len(self.flags))


def lossy(seed: int, streams: int, frames: int, far: int) -> tuple[list[Frame], dict[int, Stream]]:
    """Return frames of streams with lost, late and repeated segments, and the streams.

    Repeated segments begin at most `far` bytes back.
    """
    rnd, now = random.Random(seed), START_NS
    created = {at: Stream(at, rnd.choice((2**32 - 3000, rnd.getrandbits(32), 2**30 - 3000))) for at in range(streams)}
    late: dict[int, list[tuple[int, int]]] = {at: [] for at in created}
    out = [Frame(stream.frame(1, 0, SYN), timestamp_ns=now) for stream in created.values()]
    for _ in range(frames):
        now += rnd.randrange(1_000_000)
        stream, data, kind = created[rnd.randrange(streams)], rnd.randrange(1, 60), rnd.random()
        begin, waiting = stream.sent, late[stream.client]
        if kind < 0.15:
            stream.sent += data
            waiting += [(begin, data)] if kind >= 0.05 else []  # the others are lost before the tap
            continue
        if kind < 0.30:
            begin = max(1, begin - rnd.randrange(far))
        elif kind < 0.40 and waiting:
            begin, data = waiting.pop(rnd.randrange(len(waiting)))
        out.append(Frame(stream.frame(begin, data), timestamp_ns=now))
    out += [Frame(stream.frame(stream.sent, 0, FIN | ACK), timestamp_ns=now + 1) for stream in created.values()]
    return out, created


@pytest.mark.parametrize(("seed", "frames", "far"), [(1, 300, 100), (2, 3000, 100), (3, 6000, 800)])
def test_loss_is_within_the_interval_and_exact_while_few_holes_are_open(seed, frames, far, small_spec, tmp_path):
    created, streams = lossy(seed, 20, frames, far)
    ran = run(created, "register qp_number 0 17\nregister slot_mask 0 1023\n", tmp_path, small_spec)
    sent = [reports.unpack_frame(outcome.raw) for outcome in ran.outcomes if outcome.raw]
    last, exact = {report["src"]: report for report in sent}, 0
    for client, stream in streams.items():
        report, uncertain = last[client], last[client]["uncertain_bytes"]
        assert 0 <= stream.gap - report["gap_bytes"] <= uncertain, client
        assert 0 <= stream.retransmitted - report["retransmitted_bytes"] <= uncertain, client
        assert report["payload_bytes"] == stream.payload
        assert uncertain == 0 or stream.max_holes > HOLES
        exact += uncertain == 0
    assert exact > 0
    assert any(stream.gap and stream.retransmitted for stream in streams.values())


JUMPS = (2**29, 2**30 - 1, 2**30, 2**31 - 1, 2**31, 2**31 + 1, 3 * 2**30)


def jumping_streams(seed: int, count: int) -> list[Frame]:
    """Return frames whose sequence numbers jump, also by about the size of a window or half of the number space."""
    rnd, out, now = random.Random(seed), [], START_NS
    highest = [rnd.choice((0, 2**30 - 200, rnd.getrandbits(32))) for _ in range(6)]
    for _ in range(count):
        now += rnd.randrange(10_000_000)
        at, data = rnd.randrange(6), rnd.choice((0, 1, rnd.randrange(60), 1400))
        steps = (0, rnd.randrange(1, 100), -rnd.randrange(1, 3000), rnd.choice((*JUMPS, rnd.getrandbits(32))))
        (step,) = rnd.choices(steps, (36, 25, 35, 4))
        seq, flags = highest[at] + step, ACK if step or rnd.random() < 0.92 else rnd.choice((SYN, FIN | ACK, SYN | FIN))
        if (seq + data - highest[at]) % 2**32 < 2**31:
            highest[at] = seq + data
        segment = ipv4(TCP, at, SERVER, tcp((40000, PORT), (seq, 1), flags, data=data))
        out.append(Frame(ethernet(segment), timestamp_ns=now))
    return out


@pytest.mark.soak
@pytest.mark.parametrize("seed", [5, 6])
def test_registers_match_the_model_after_sequence_number_jumps(seed, small_spec, tmp_path: Path):
    settings = BASE | {"slot_mask": 0x3FF, "triggers": 0x1FF, "every": 1, "cell_mask": 0x7FF}
    assert "trigger 4" in assert_same(jumping_streams(seed, 2000), settings, 0, tmp_path, small_spec)
    created, _ = lossy(seed, 5, 1500, 2000)
    assert "trigger 0" in assert_same(created, settings, 0, tmp_path, small_spec)
