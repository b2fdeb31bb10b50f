"""TCP flows that lose their slot during a connection, with eight flows for each slot of the data plane."""

import itertools
import struct

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames import traces
from acapella_testing.frames.segments import segment

from acapella.flowreports import command as flowreports
from acapella.flowreports import sample
from acapella.flowreports.settings import Settings

pytestmark = [pytest.mark.usefixtures("data_plane"), pytest.mark.soak]
SYN, ACK = 2, 16
MS, SECOND = traces.MS, 10**9
SLOTS = 2048
LONG, SHORT = 1500, 16_000  # flows that pause for 20 s, and flows during the pause
SIZE = 100
SILENT, CONNECTIONS = 2000, 400  # flows of one SYN that fill the slots, and handshakes three epochs later


def handshake(flow: int, start: int) -> list[tuple[int, bytes]]:
    """Return SYN, SYN-ACK and ACK of a connection."""
    syn, ack = segment(flow, 0, SYN), segment(flow, 1, ACK)
    reply = segment(flow, 0, SYN | ACK)
    reply = reply[:26] + reply[30:34] + reply[26:30] + struct.pack("!HH", 443, 40000) + reply[38:]
    return [(start + n * MS, frame) for n, frame in enumerate((syn, reply, ack))]


def load() -> list[tuple[int, bytes]]:
    """Return frames: long flows skip a segment, pause, send it late and retransmit another; short flows evict them."""
    sent = [(0, SYN, 0), *((1 + SIZE * n, ACK, SIZE) for n in (0, 1, 3, 4))]
    late = [(1 + SIZE * n, ACK, SIZE) for n in (2, 1, 5, 6)]
    short = [(0, SYN, 0), (1, ACK, SIZE), (1 + SIZE, ACK, SIZE)]
    frames = []
    for flow in range(LONG):
        frames += spaced(flow, flow * MS, sent) + spaced(flow, 20 * SECOND + flow * MS, late)
    for number in range(SILENT):
        frames += spaced(LONG + SHORT + number, 3 * SECOND + number, [(0, SYN)])
    for number in range(CONNECTIONS):
        frames += handshake(LONG + SHORT + SILENT + number, traces.START_NS + 6 * SECOND + number * MS)
    for flow in range(SHORT):
        frames += spaced(LONG + flow, 12 * SECOND + flow * 6 * SECOND // SHORT, short)
    return sorted(frames)


def spaced(flow: int, at_ns: int, segments: list[tuple]) -> list[tuple[int, bytes]]:
    """Return segments of a flow, one per ms."""
    return [(traces.START_NS + at_ns + n * MS, segment(flow, *values)) for n, values in enumerate(segments)]


def rows(directory, name: str) -> list[dict]:
    """Return the rows of a result."""
    return pq.read_table(directory / f"{name}.parquet").to_pylist()


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """Return the directory of results."""
    directory = tmp_path_factory.mktemp("slots")
    capture = traces.write_pcap(directory / "load.pcap", load())
    source = sample.Source("load", (capture,), *flowreports.run_digest([capture], directory, None))
    sample.measure(source, directory / "made", Settings(slots=SLOTS), [])
    return directory / "made"


@pytest.mark.soak
def test_flows_with_evicted_slots_are_marked_and_counted(loaded):
    reasons = [row["loss_reason"] for row in rows(loaded, "compared_flows")]
    counted = {row["reason"]: row["flows"] for row in rows(loaded, "flow_reasons") if row["subject"] == "loss"}
    assert counted == {name or "none": reasons.count(name) for name in set(reasons)}
    assert counted["partly_followed"] > LONG / 3
    assert counted["no_slot"] > SHORT / 3


def test_unmarked_loss_intervals_contain_the_exact_loss(loaded):
    """Without marks, most intervals would be wrong: data after the pause had a different slot or none."""
    differing = 0
    for row, name in itertools.product(rows(loaded, "compared_flows"), ("missing", "retransmitted")):
        exact, low = row[f"{name}_bytes"], row[f"{name}_measured_bytes"]
        if row["loss_reason"] is None:
            assert low <= exact <= low + row["uncertain_bytes"], row
        else:
            assert row["uncertain_bytes"] is None, row
            differing += low is not None and low != exact
    assert differing > LONG / 3


def test_slots_of_flows_idle_for_an_epoch_are_reused(loaded):
    for row in [row for row in rows(loaded, "accuracy") if row["measure"] in ("rtt_syn", "rtt_ack")]:
        assert row["n"] + row["missing"] == CONNECTIONS, row
        assert row["missing"] <= CONNECTIONS / 20, row


def test_marked_losses_count_as_missing(loaded):
    found = {row["measure"]: row for row in rows(loaded, "accuracy")}
    flows = [row for row in rows(loaded, "compared_flows") if row["payload_bytes"]]
    assert len(flows) == LONG + SHORT
    marked = sum(row["loss_reason"] is not None for row in flows)
    assert found["loss"]["missing"] == marked
    assert found["loss"]["n"] == len(flows) - marked
    assert found["loss"]["covered_share"] == found["retransmitted"]["covered_share"] == 1
