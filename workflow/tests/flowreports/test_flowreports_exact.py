"""Exact flows in SQL against a naive computation."""

import itertools
import random
from collections import defaultdict

import pytest
from acapella_testing.exact_flows import KEY, WINDOW_NS, exact_results, key_of, rows
from acapella_testing.frames import traces
from acapella_testing.oracles import naive_flowreports as naive

from acapella.common import queries

LOSSES = ("missing_bytes", "distinct_bytes", "retransmitted_bytes")
VALUES = ("packets", "bytes", "iat_ns", "rtt_syn_ns", "rtt_ack_ns")


def check(tmp_path, trace):
    """Compare every value of every flow and window; return the flows by key."""
    con, frames = exact_results(tmp_path, trace)
    found = {key_of(row): row for row in rows(con, "select * from exact_flows")}
    expected = naive.flows(frames)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert {name: found[key][name] for name in VALUES} == {name: values[name] for name in VALUES}, key
        occupied = values.get("missing_bytes") if found[key]["missing_bytes"] is None else None
        assert not occupied, (key, "missing_bytes is null, but bytes are missing")
        if found[key]["missing_bytes"] is not None:
            assert {name: found[key][name] for name in LOSSES} == {name: values[name] for name in LOSSES}, key
    check_acknowledgments(con, frames)
    seen = {(key_of(row), row["window_ns"]): (row["packets"], row["bytes"]) for row in with_keys(con, "exact_windows")}
    assert seen == naive.windows(frames, WINDOW_NS)
    return found


def opening(tmp_path, trace):
    """Return the flow that opens a connection, after `check`."""
    (row,) = (row for row in check(tmp_path, trace).values() if row["opens"])
    return row


def check_acknowledgments(con, frames):
    """Compare bytes in flight and acknowledged bytes after every packet of every TCP flow."""
    groups, found = defaultdict(list), defaultdict(dict)
    for frame in frames:
        if frame["key"] is not None and frame["tcp"]:
            groups[naive.key_of(frame)].append(frame)
    for row in with_keys(con, "acknowledgments"):
        found[key_of(row)][row["frame"]] = (row["flight_bytes"], row["acknowledged_bytes"])
    for key, members in groups.items():
        reverse = naive.back_of(naive.way_of(key))
        others = [groups[other] for other in groups if other != key and naive.way_of(other) == reverse]
        assert found[key] == naive.acknowledgments(members, list(itertools.chain(*others))), key


def with_keys(con, table):
    """Return the rows of a table of flows with the columns of the key."""
    return rows(con, f"select t.*, {', '.join(KEY)} from {table} as t inner join exact_flows as k using (key)")


def test_lost_and_repeated_bytes_are_counted_across_the_wrap_of_sequence_numbers(tmp_path):
    c = traces.Connection("vlan", traces.START_NS)
    c.seq = [2**32 - 1500, 7]
    c.handshake()
    for size in (1000, 1000, 1000, 500, 1000):
        c.send(0, "A", b"x" * size)
    c.send(1, "A")
    del c.trace[6], c.trace[4]
    c.seq[0] -= 1000
    row = opening(tmp_path, c.send(0, "A", b"x" * 1000).send(0, "FA").send(1, "A").trace)
    assert (row["missing_bytes"], row["retransmitted_bytes"], row["distinct_bytes"]) == (1500, 1000, 3000)


def test_flows_in_all_encapsulations_are_exact(tmp_path):
    found = check(tmp_path, traces.busy_port())
    assert {row["rtt_syn_ns"] for row in found.values()} == {None, 5 * traces.MS}
    assert [row["outside"] for key, row in found.items() if key[2:] == ("10.0.0.1", "10.0.0.2", 17, 1, 2)] == [True]


def test_retransmitted_syn_gives_no_rtt_syn(tmp_path):
    c = traces.Connection("vlan", traces.START_NS).send(0, "S")
    c.seq[0] -= 1
    row = opening(tmp_path, c.handshake().trace)
    assert (row["rtt_syn_ns"], row["rtt_ack_ns"]) == (None, 5 * traces.MS)


def test_retransmitted_syn_ack_gives_no_rtt_ack(tmp_path):
    c = traces.Connection("mpls", traces.START_NS).send(0, "S").send(1, "SA")
    c.seq[1] -= 1
    row = opening(tmp_path, c.send(1, "SA").send(0, "A").trace)
    assert (row["rtt_syn_ns"], row["rtt_ack_ns"]) == (traces.MS, None)


@pytest.mark.parametrize("seed", range(4))
def test_random_conversations_match_the_naive_computation(tmp_path, seed):
    """Few flows and few sequence numbers, so handshakes overlap, repeat and are incomplete."""
    draw = random.Random(seed)
    connections = [traces.Connection("vlan", traces.START_NS, vlan=draw.choice([1, 2])) for _ in range(2)]
    trace = []
    for place in range(300):
        c = draw.choice(connections)
        c.now = traces.START_NS + place * 7_777_777
        c.seq = [draw.choice([0, 1, 2**32 - 1]), draw.choice([0, 1, 2**32 - 1])]
        flags = ["S", "S", "SA", "SA", "A", "PA", "R", "FA"]
        c.send(draw.choice([0, 1]), draw.choice(flags), b"x" * draw.choice([0, 9]))
        trace.append(c.trace[-1])
    check(tmp_path, trace)


def test_years_without_frames_have_no_rows_in_seconds():
    con, year_s = queries.connect(), 365 * 86_400
    con.execute(f"create table packets as select unnest([5, 2000000005, {year_s}000000000]) as ts_ns")
    con.execute("create table report_stamps as select ts_ns, ts_ns > 5 as probe from packets where ts_ns != 2000000005")
    columns = "select second, whole, packets, reports, probes"
    found = con.execute(f"{columns} from ({queries.text('flowreports', 'seconds')}) order by all", {"of_sample": "a"})
    assert found.fetchall() == [(0, True, 1, 1, 0), (2, True, 1, 0, 0), (year_s - 1, False, 1, 0, 1)]
