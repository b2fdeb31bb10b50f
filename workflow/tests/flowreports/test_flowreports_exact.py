"""Exact flows in SQL against a naive computation."""

import random

import pytest
from acapella_testing.exact_flows import KEY, WINDOW_NS, exact_results, keyed, rows
from acapella_testing.frames import traces
from acapella_testing.oracles import naive_flowreports as naive

from acapella.common import queries

LOSSES = ("missing_bytes", "distinct_bytes", "retransmitted_bytes")
VALUES = ("packets", "bytes", "iat_ns", "rtt_syn_ns", "rtt_ack_ns")


def check(tmp_path, trace):
    """Compare every value of every flow and window; returns the flows by key."""
    con, frames = exact_results(tmp_path, trace)
    found = {keyed(row): row for row in rows(con, "select * from exact_flows")}
    required = naive.flows(frames)
    assert found.keys() == required.keys()
    for key, values in required.items():
        assert {name: found[key][name] for name in VALUES} == {name: values[name] for name in VALUES}, key
        occupied = values.get("missing_bytes") if found[key]["missing_bytes"] is None else None
        assert not occupied, (key, "missing_bytes is null, but bytes are missing")
        if found[key]["missing_bytes"] is not None:
            assert {name: found[key][name] for name in LOSSES} == {name: values[name] for name in LOSSES}, key
    check_acknowledgments(con, frames)
    windows = rows(con, f"select w.*, {', '.join(KEY)} from exact_windows as w inner join exact_flows as k using (key)")
    seen = {(keyed(row), row["window_ns"]): (row["packets"], row["bytes"]) for row in windows}
    assert seen == naive.windows(frames, WINDOW_NS)
    return found


def check_acknowledgments(con, frames):
    """Compare bytes in flight and acknowledged bytes after every packet of every TCP flow."""
    groups = {}
    for frame in frames:
        if frame["key"] is not None and frame["tcp"]:
            groups.setdefault(naive.key_of(frame), []).append(frame)
    ways = {}
    for key, members in groups.items():
        ways.setdefault(naive.way_of(key), []).extend(members)
    query = f"select a.*, {', '.join(KEY)} from acknowledgments as a inner join exact_flows as k using (key)"
    found = {}
    for row in rows(con, query):
        found.setdefault(keyed(row), {})[row["frame"]] = (row["flight_bytes"], row["acknowledged_bytes"])
    for key, members in groups.items():
        other = ways.get(naive.back_of(naive.way_of(key)), [])
        required = naive.acknowledgments(members, [frame for frame in other if naive.key_of(frame) != key])
        assert found.get(key, {}) == required, key


def test_lost_and_repeated_bytes_are_counted_across_the_wrap_of_sequence_numbers(tmp_path):
    c = traces.Connection("vlan", traces.START_NS)
    c.seq = [2**32 - 1500, 7]
    c.handshake()
    for size in (1000, 1000, 1000, 500, 1000):
        c.send(0, "A", b"x" * size)
    c.send(1, "A")
    kept = [packet for place, packet in enumerate(c.trace) if place not in (4, 6)]
    c.trace, c.seq[0] = kept, c.seq[0] - 1000
    c.send(0, "A", b"x" * 1000).send(0, "FA").send(1, "A")
    (row,) = (row for row in check(tmp_path, c.trace).values() if row["opens"])
    assert (row["missing_bytes"], row["retransmitted_bytes"], row["distinct_bytes"]) == (1500, 1000, 3000)


def test_flows_in_all_encapsulations_are_exact(tmp_path):
    found = check(tmp_path, traces.busy_port())
    assert {row["rtt_syn_ns"] for row in found.values()} == {None, 5 * traces.MS}
    assert [row["outside"] for key, row in found.items() if key[2:] == ("10.0.0.1", "10.0.0.2", 17, 1, 2)] == [True]


def test_retransmitted_syn_gives_no_rtt_syn(tmp_path):
    c = traces.Connection("vlan", traces.START_NS).send(0, "S")
    c.seq[0] -= 1
    c.handshake()
    (row,) = (row for row in check(tmp_path, c.trace).values() if row["opens"])
    assert (row["rtt_syn_ns"], row["rtt_ack_ns"]) == (None, 5 * traces.MS)


def test_retransmitted_syn_ack_gives_no_rtt_ack(tmp_path):
    c = traces.Connection("mpls", traces.START_NS).send(0, "S").send(1, "SA")
    c.seq[1] -= 1
    c.send(1, "SA").send(0, "A")
    (row,) = (row for row in check(tmp_path, c.trace).values() if row["opens"])
    assert (row["rtt_syn_ns"], row["rtt_ack_ns"]) == (traces.MS, None)


@pytest.mark.parametrize("seed", range(4))
def test_random_conversations(tmp_path, seed):
    """Few flows and few sequence numbers, so handshakes overlap, repeat and are incomplete."""
    draw = random.Random(seed)
    connections = [traces.Connection("vlan", traces.START_NS, vlan=draw.choice([1, 2])) for _ in range(2)]
    trace = []
    for place in range(300):
        c = draw.choice(connections)
        c.now = traces.START_NS + place * 7_777_777
        c.seq = [draw.choice([0, 1, 2**32 - 1]), draw.choice([0, 1, 2**32 - 1])]
        c.trace = []
        c.send(
            draw.choice([0, 1]), draw.choice(["S", "S", "SA", "SA", "A", "PA", "R", "FA"]), b"x" * draw.choice([0, 9])
        )
        trace += c.trace
    check(tmp_path, trace)


def test_years_without_frames_have_no_rows_in_seconds():
    con = queries.connect()
    year = 365 * 86_400 * 1_000_000_000
    con.execute("create table packets as select unnest([5, 2000000005, $year]) as ts_ns", {"year": year})
    con.execute(
        "create table report_stamps as select unnest([5, $year]) as ts_ns, unnest([false, true]) as probe",
        {"year": year},
    )
    query = queries.text("flowreports", "seconds")
    found = con.execute(
        f"select second, whole, packets, reports, probes from ({query}) order by all", {"of_sample": "a"}
    )
    last = year // 10**9 - 1
    assert found.fetchall() == [(0, True, 1, 1, 0), (2, True, 1, 0, 0), (last, False, 1, 0, 1)]
