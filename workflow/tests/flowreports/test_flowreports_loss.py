"""Loss intervals of flow reports, end to end, against sets of sequence numbers (naive_flowreports)."""

import random
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames import traces
from acapella_testing.frames.segments import segment
from acapella_testing.oracles import naive_flowreports as naive
from acapella_testing.oracles.naive_frames import read_frames

from acapella.cli import main as cli
from acapella.common import queries

pytestmark = pytest.mark.usefixtures("data_plane")
FIN, SYN, RST, ACK = 1, 2, 4, 16
MODULUS = 2**32


def lossy_flow(draw: random.Random, client: int) -> list[bytes]:
    """Return a flow at a tap: losses, late or repeated segments, keep-alive probes, FIN and RST, often with a wrap."""
    make, isn = partial(segment, client), draw.choice([MODULUS - 5000, draw.randrange(MODULUS)])
    lost, late = draw.choice([0, 0.05, 0.3]), draw.choice([0, 0.1, 0.3])
    frames = draw.choice([[], [make(isn, SYN)], [make(isn, SYN)] * 2, [make(isn, ACK)], [make(isn + 9000, ACK)]])
    at, waiting = isn + 1, []
    for _ in range(draw.randrange(5, 80)):
        size, kind = draw.randrange(1, 300), draw.random()
        if kind < 0.1:
            frames.append(make(at - 1, ACK, draw.choice([0, 1])))  # keep-alive, RFC 9293 section 3.8.4
            continue
        if kind < 0.25:
            frames.append(make(at - draw.randrange(1, 2000), ACK, size))
            continue
        if kind < 0.28:
            frames.append(make(at, RST | ACK))
        kind = draw.random()
        if kind < late:
            waiting.append(make(at, ACK, size))
        elif kind >= late + lost:
            frames.append(make(at, ACK, size))
        at += size
        if waiting and draw.random() < late:
            frames.append(waiting.pop(draw.randrange(len(waiting))))
    ends = [make(at, FIN | ACK, draw.choice([0, 10]))] * draw.randrange(3)
    place = draw.choice([len(frames), max(1, len(frames) - 3)])  # the FIN may precede data with lower numbers
    return frames[:place] + ends + frames[place:] + draw.sample(waiting, draw.randrange(len(waiting) + 1))


def measured(directory: Path, flows: list[list[bytes]]) -> tuple[list[dict], dict]:
    """Return the rows of compared_flows, and the naive numbers of each key."""
    draw, frames, now = random.Random(len(flows)), [], traces.START_NS
    queues = [list(reversed(flow)) for flow in flows]
    while queues := [queue for queue in queues if queue]:
        now += draw.randrange(1, traces.MS)
        frames.append((now, draw.choice(queues).pop()))
    capture = traces.write_pcap(directory / "lossy.pcap", frames, snaplen=262144)
    assert cli.main(["p4", "reports", str(capture), "-o", str(directory / "made")]) == 0
    rows = pq.read_table(directory / "made" / "compared_flows.parquet").to_pylist()
    return rows, {key[2]: row for key, row in naive.flows(read_frames(capture)).items()}


def flow_of(*segments: tuple, client: int = 0) -> list[bytes]:
    """Return the frames of (sequence number, flags, payload) of a flow."""
    return [segment(client, *values) for values in segments]


def covered(row: dict, exact: int, low: int = 0, high: int = 0) -> bool:
    """Return whether the loss interval, shortened by ``low`` and ``high`` at its ends, contains the exact number."""
    begin = row["missing_measured_bytes"]
    return begin + low <= exact <= begin + row["uncertain_bytes"] - high


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2])
def test_loss_intervals_are_the_narrowest_that_cover_the_missing_bytes(seed, tmp_path):
    draw = random.Random(seed)
    rows, expected = measured(tmp_path, [lossy_flow(draw, client) for client in range(250)])
    assert len(rows) == len(expected) == 250
    exact = [(row, expected[row["src"]]["missing_bytes"]) for row in rows]
    assert [(row, missing) for row, missing in exact if not covered(row, missing)] == []
    unsure = [(row, missing) for row, missing in exact if row["uncertain_bytes"]]
    assert unsure and len(unsure) < len(rows) / 2
    assert any(row["missing_measured_bytes"] for row in rows if not row["uncertain_bytes"])
    assert not all(covered(*pair, low=1) for pair in unsure)
    assert not all(covered(*pair, high=1) for pair in unsure)


def test_segment_without_data_uses_no_sequence_number(tmp_path):
    """A capture that begins with a keep-alive or a stray ACK: numbers begin with the first data (RFC 9293)."""
    flows = [
        flow_of((999, ACK), (1000, ACK, 50)),
        flow_of((500_000, ACK), (1000, ACK, 50), (1050, ACK, 50), client=1),
        flow_of((999, ACK), (1000, ACK), (1000, FIN | ACK), client=2),
    ]
    rows, _ = measured(tmp_path, flows)
    assert [(row["missing_measured_bytes"], row["uncertain_bytes"]) for row in rows] == [(0, 0)] * 3


def test_fin_below_the_highest_number_fills_its_hole_once(tmp_path):
    """Data beyond the FIN opens a hole that begins at the FIN's number; a repeated FIN is not payload."""
    (row,), _ = measured(tmp_path, [flow_of((1000, ACK, 50), (1100, ACK, 50), *[(1050, FIN | ACK)] * 2)])
    assert (row["missing_measured_bytes"], row["retransmitted_measured_bytes"], row["uncertain_bytes"]) == (49, 0, 0)


@pytest.mark.soak
def test_payload_at_the_number_of_an_earlier_fin_is_a_retransmission(tmp_path):
    (row,), _ = measured(tmp_path, [flow_of((1000, ACK, 50), (1050, FIN | ACK), (1050, ACK, 2))])
    assert (row["retransmitted_bytes"], row["retransmitted_measured_bytes"]) == (1, 1)
    assert (row["uncertain_bytes"], row["missing_measured_bytes"]) == (0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_coverage_and_width_of_intervals_match_a_plain_loop(seed):
    draw, con = random.Random(seed), queries.connect()
    names = ("missing_bytes", "missing_measured_bytes", "uncertain_bytes", "payload_bytes", "retransmitted_bytes")
    con.execute(f"create table compared_flows ({', '.join(f'{name} ubigint' for name in names)}, outside boolean)")
    rows = []
    for _ in range(draw.randrange(1, 200)):
        payload = draw.randrange(4)
        counts = [draw.choice([None, *range(6)]) for _ in names[:3]]
        rows.append([*counts, payload, draw.randrange(payload + 1), draw.random() < 0.1])
    con.executemany("insert into compared_flows values (?, ?, ?, ?, ?, ?)", rows)
    bounded = [row for row in rows if not row[5] and None not in row[:2]]
    kept = [row for row in bounded if row[2] is not None]
    covered = sum(low <= missing <= low + more for missing, low, more, *_ in kept)
    sizes = [(more, payload - again + missing) for missing, _, more, payload, again, _ in kept]
    widths = [more / size for more, size in sizes if size > 0]
    (found,) = con.execute(queries.text("flowreports", "loss_intervals")).fetchall()
    quantiles = [naive.nearest_rank(widths, share) if widths else None for share in (0.5, 0.99)]
    assert found == (len(kept), len(bounded) - len(kept), covered, sum(more > 0 for more, _ in sizes), *quantiles)
