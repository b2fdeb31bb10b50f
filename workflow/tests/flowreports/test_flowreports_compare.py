"""Comparison of measured and exact flows in SQL against a naive computation, with deliberately wrong measurements."""

import itertools
import math
import random
import statistics
from collections import Counter
from operator import itemgetter

import pyarrow as pa
import pytest
from acapella_testing.exact_flows import exact_results, rows
from acapella_testing.frames import traces
from acapella_testing.oracles.naive_flowreports import covered_frames, nearest_rank

from acapella.common import agreement, queries
from acapella.flowreports import compare
from acapella.flowreports import exact as exact_tables

WINDOW_NS = 50_000_000
COUNTS = ("packets", "bytes", "payload_bytes", "retransmitted_bytes", "gap_bytes", "uncertain_bytes")
KINDS = (
    {name: pa.int64() for name in ("iat_ns", "rtt_syn_ns", "rtt_ack_ns", "start_ns", "end_ns", "last_ns")}
    | {name: pa.uint64() for name in (*COUNTS, "acknowledged_bytes")}
    | {"flow": pa.uint32(), "vlan": pa.list_(pa.uint16()), "mpls": pa.list_(pa.uint32()), "reports": pa.uint32()}
    | {"ip_version": pa.uint8(), "src": pa.string(), "dst": pa.string(), "ip_proto": pa.uint8()}
    | {"src_port": pa.uint16(), "dst_port": pa.uint16(), "partly_followed": pa.bool_()}
)
REPORTED = """
create temp view reported_series as
select k.number as flow, p.ts_ns as window_ns, p.ip_len::ubigint as bytes, 1::ubigint as packets, p.iat_ns,
    a.flight_bytes as bytes_in_flight, a.acknowledged_bytes - coalesce(lag(a.acknowledged_bytes ignore nulls)
        over (partition by p.key order by p.frame), 0) as acknowledged_bytes
from packets as p inner join (values {keys}) as k (number, key) on p.key = k.key
left join (
    select * from acknowledgments qualify row_number() over (partition by key, ts_ns order by frame desc) = 1
) as a on a.key = p.key and a.ts_ns = p.ts_ns
order by p.frame;
create temp view report_stamps as select row_number() over () as place, window_ns as ts_ns, window_ns as packet_ns,
    iat_ns, false as shared from reported_series;
create temp view reported_windows as select flow, window_ns // {length_ns} * {length_ns} as window_ns,
    1::ubigint as windows, sum(bytes)::ubigint as bytes from reported_series group by all;
"""
JUDGED = """
create temp table report_stamps as select * from stamps;
create temp table reported_series as select *, ts_ns as window_ns from stamps;
create temp table reported_flows as select * from starts;
create temp table measured_numbers as select flow as number, flow from starts;
create temp table compared_flows as select flow, 'both' as found, false as outside from starts;
create temp table reversed_spans (flow uinteger, from_ns bigint, until_ns bigint);
"""


def report(con, change) -> None:
    """Create a collector's flows: each exact flow, as changed by ``change``, with a report, unless it returns None."""
    changed = filter(None, map(change, rows(con, "select * from exact_flows order by key")))
    known = {"reports": 1, "partly_followed": False}
    flows = [{**row, "flow": number, **known, **derived(row)} for number, row in enumerate(changed)]
    con.register("reported_flows", pa.Table.from_pylist(flows, pa.schema(KINDS)))
    con.execute(REPORTED.format(keys=", ".join(f"({row['flow']}, {row['key']})" for row in flows), length_ns=WINDOW_NS))


def derived(row):
    """Return columns of the collector that have other names in exact_flows."""
    times = {"start_ns": row["first_ns"], "end_ns": row["last_ns"]}
    if row["missing_bytes"] is None:
        return times | dict.fromkeys(("payload_bytes", "gap_bytes", "uncertain_bytes"))
    payload = row["distinct_bytes"] + row["retransmitted_bytes"]
    return times | {"payload_bytes": payload, "gap_bytes": row["missing_bytes"], "uncertain_bytes": 0}


def r2(pairs):
    """Return R2 as in section IV-A of the paper."""
    mean = statistics.fmean(exact for exact, _ in pairs)
    return 1 - sum((exact - got) ** 2 for exact, got in pairs) / sum((exact - mean) ** 2 for exact, _ in pairs)


def made_accuracy(tmp_path, change):
    """Return the connection, and the rows of accuracy by measure."""
    con, _ = exact_results(tmp_path, traces.merged(traces.busy_port(), traces.busy_port(traces.START_NS + 9, shift=7)))
    report(con, change)
    compare.make(con, sample="s", window_ns=WINDOW_NS)
    return con, {row["measure"]: row for row in rows(con, "select * from accuracy")}


def register(con, name: str, columns: tuple[str, ...], rows: list[tuple]) -> None:
    """Register a table with these rows."""
    con.register(name, pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))))


def judged_windows(con, length_ns: int) -> list[dict]:
    """Return the rows of judged_windows, made from stamps, starts (flow, start_ns) and compared_windows."""
    con.execute(JUDGED)
    for name in ("all_series", "report_spans", "window_bounds", "judged_windows"):
        exact_tables.create(con, name, {"length_ns": length_ns, "probes": True})
    return rows(con, "select * from judged_windows order by flow, window_ns")


STAMPS = ("flow", "ts_ns", "bytes", "packets", "packet_ns", "iat_ns", "place", "shared")
WINDOWS = ("sample", "flow", "window_ns", "bytes", "bytes_measured")


def test_windows_in_one_row_get_equal_shares():
    con = queries.connect()
    reported = [(0, 0, 1, 5), (0, 100, 3, 10), (1, 50, 7, 3), (1, 200, 10**15, 2)]
    register(con, "reported_windows", ("flow", "window_ns", "windows", "bytes"), reported)
    con.execute("create table measured_numbers (number bigint, flow bigint); insert into measured_numbers "
                "values (0, 10), (1, 11)")  # fmt: skip
    text = queries.text("flowreports", "measured_windows")
    found = {row[:2]: row[2] for row in con.execute(text, {"length_ns": 10}).fetchall()}
    expected = {}
    for flow, begin, windows, total in reported[:3]:
        for place in range(windows):
            if share := total * (place + 1) // windows - total * place // windows:
                expected[flow + 10, begin + 10 * place] = share
    assert found == expected | {(11, 200 + 10 * (10**15 // 2 - 1)): 1, (11, 200 + 10 * (10**15 - 1)): 1}


@pytest.mark.parametrize("seed", range(4))
def test_frame_of_a_report_is_found_unless_several_packets_match_it(seed):
    """Flow 0 is the reverse of flow 1; up to four packets of both have the same time."""
    draw, con, now, packets, reports = random.Random(seed), queries.connect(), 1000, [], []
    for frame in range(400):
        now += draw.choice([0, 0, 5, 7])
        packets.append((draw.choice([0, 1]), now, frame))
        flow = draw.choice([0, 1])  # the report of a reverse flow is caused by an acknowledgment
        own = [(at, number) for key, at, number in packets if key == flow]
        if own and draw.random() < 0.5:
            gap = own[-1][0] - own[-2][0] if len(own) > 1 else None
            slot = draw.random() < 0.9
            reports.append((flow, now, frame, *((own[-1][0], gap) if slot else (None, None)), own[-1][1]))
    register(
        con, "packets", ("key", "way", "way_back", "ts_ns", "frame"), [(p[0], p[0], 1 - p[0], *p[1:]) for p in packets]
    )
    register(con, "compared_flows", ("flow", "key", "ip_proto"), [(0, 0, 6), (1, 1, 6)])
    register(con, "keys", ("key", "way"), [(0, 0), (1, 1)])
    register(con, "measured_numbers", ("number", "flow"), [(0, 0), (1, 1)])
    register(con, "all_series", ("number", "ts_ns", "place"), [report[:3] for report in reports])
    register(con, "report_stamps", ("ts_ns", "place", "packet_ns", "iat_ns"), [report[1:5] for report in reports])
    exact_tables.create(con, "report_frames")
    found = {row["place"]: row for row in rows(con, "select * from report_frames")}
    sides = {flow: [(at, number) for key, at, number in packets if key == flow] for flow in (0, 1)}
    for flow, at, place, last, gap, frame in reports:
        possible = covered_frames(sides[flow], sides[1 - flow], at, last, gap)
        assert frame in possible
        assert found[place]["frame"] == (frame if len(possible) == 1 else None), (flow, at, last, gap)
        assert found[place]["ambiguous"] == (len(possible) > 1)
    assert 0 < sum(row["ambiguous"] for row in found.values()) < len(reports) / 2
    assert any(row["by_iat"] and not row["ambiguous"] for row in found.values())


def test_r2_is_one_without_error(tmp_path):
    con, found = made_accuracy(tmp_path, lambda row: row)
    assert all(row["n"] for row in found.values())
    assert set(found) == set(agreement.MEASURES)
    assert len(agreement.DERIVED) == 10, "table II of the paper"
    for row in found.values():
        assert row["equal"] == row["n"]
        assert row["missing"] == row["extra"] == row["outside"] == 0
        assert row["r2"] in (None, 1)
        assert row["error_largest"] in (None, 0)
        few = row["n_log"] < agreement.MIN_ABOVE
        assert agreement.verdict(row) == (f"too few values: {row['n_log']} above 0" if few else "agrees")
    assert found["bytes"]["r2"] == found["bytes"]["r2_log"] == 1
    assert found["rtt_syn"]["r2"] is None, "all handshakes of the trace take equally long"
    assert rows(con, "select distinct found from compared_flows") == [{"found": "both"}]


def test_accuracy_of_wrong_and_missing_flows_matches_a_plain_computation(tmp_path):
    draw = random.Random(3)

    def change(row):
        if row["src_port"] == 42000:
            return None
        other = {"src": "192.0.2.77"} if row["dst_port"] == 7001 else {}
        return row | other | {"bytes": row["bytes"] + draw.choice([0, 0, 0, 40, 4000])}

    con, found = made_accuracy(tmp_path, change)
    got = found["bytes"]
    flows = rows(con, "select * from compared_flows order by flow")
    assert [row["flow"] for row in flows] == list(range(len(flows)))
    pairs = [(row["bytes"], row["bytes_measured"]) for row in flows if row["found"] == "both"]
    assert got["n"] == len(pairs)
    lost = [row for row in flows if row["found"] == "exact"]
    assert {(row["src_port"], row["dst_port"]) for row in lost} == {(42000, 5201), (7000, 7001)}
    assert got["missing"] == len(lost)
    assert got["extra"] == sum(row["found"] == "collector" for row in flows) == 1
    errors = [abs(measured - exact) / exact for exact, measured in pairs]
    assert got["equal"] == sum(a == b for a, b in pairs) < len(pairs)
    assert got["r2"] == pytest.approx(r2(pairs), rel=1e-9)
    assert got["r2_log"] == pytest.approx(r2([(math.log(a), math.log(b)) for a, b in pairs]), rel=1e-9)
    assert got["error_median"] == nearest_rank(errors, 0.5)
    assert got["error_p99"] == nearest_rank(errors, 0.99)
    assert got["error_largest"] == max(errors)
    assert got["near"] == sum(error <= 0.01 for error in errors)
    assert got["near_share"] == got["near"] / got["n"]
    assert got["missing_share"] == len(lost) / (len(lost) + len(pairs))
    assert "missing" in agreement.disagreement(got)


def test_flow_in_an_unsupported_tunnel_is_outside(tmp_path):
    _, found = made_accuracy(tmp_path, lambda row: None if row["outside"] else row)
    assert (found["bytes"]["missing"], found["bytes"]["outside"]) == (0, 1)


def random_flow(draw, length_ns):
    """Return packets (time, bytes) of a flow, and its reports: (time, bytes and packets added, last, gap before it)."""
    now, packets = draw.randrange(length_ns), []
    for _ in range(draw.randrange(1, 60)):
        packets.append((now, draw.randrange(40, 1500)))
        now += draw.choice([1, length_ns // 50, length_ns // 3, 2 * length_ns])
    reports, since = [], []
    for place, packet in enumerate(packets):
        since.append(packet)
        if draw.random() < 0.4 or place == len(packets) - 1:
            gap = packet[0] - packets[place - 1][0] if place else None
            late = draw.choice([0, 0, 1])  # 1: an acknowledgment triggers the report, 1 ns after the packet
            slot = draw.random() < 0.8
            added = sum(size for _, size in since), len(since)
            reports.append((packet[0] + late, *added, packet[0] if slot else None, gap if slot else None))
            since = []
    return packets, reports


def bounds_of(reports, start_ns, length_ns):
    """Return the certain and possible bytes of each window, by checking all windows of all reports."""
    low, high, before = Counter(), Counter(), start_ns
    for at, size, count, last, gap in reports:
        until = at if last is None else last
        known = {1: last, 2: None if gap is None else last - gap}.get(count)  # time of the first packet
        windows = range((min(before, until) if known is None else known) // length_ns, until // length_ns + 1)
        for window in windows:
            high[window] += size
            low[window] += size if len(windows) == 1 else 0
        before = at
    return low, high


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_windows_hold_and_windows_without_a_reason_are_within_a_tenth(seed):
    draw, length_ns, con = random.Random(seed), 1_000_000, queries.connect()
    flows = [random_flow(draw, length_ns) for _ in range(20)]
    reports = sorted(((number, *report) for number, (_, own) in enumerate(flows) for report in own), key=itemgetter(1))
    register(con, "stamps", STAMPS, [(*report, place, False) for place, report in enumerate(reports)])
    register(con, "starts", ("flow", "start_ns"), [(number, own[0][0]) for number, (own, _) in enumerate(flows)])
    exact = Counter()
    for number, at, size in [(number, *packet) for number, (packets, _) in enumerate(flows) for packet in packets]:
        exact[number, at // length_ns] += size
    keys = itertools.product(range(len(flows)), range(max(at for _, at in exact) + 1))
    windows = [(flow, at * length_ns, exact[flow, at]) for flow, at in keys]
    compared = [("s", *row, round(row[-1] * draw.choice([1, 1, 1.05, 2]))) for row in windows]
    register(con, "compared_windows", WINDOWS, compared)
    bounds = {number: bounds_of(own, packets[0][0], length_ns) for number, (packets, own) in enumerate(flows)}
    codes = set()
    for row in judged_windows(con, length_ns):
        low, high = (side[row["window_ns"] // length_ns] for side in bounds[row["flow"]])
        assert (row["bytes_low"], row["bytes_high"]) == ((low, high) if row["reason"] != "unreported" else (None, None))
        assert low <= row["bytes"] <= high
        codes.add(row["reason"])
        if row["reason"] is None:
            assert abs(row["bytes_measured"] - row["bytes"]) <= row["bytes"] / 10
    assert codes == {None, "straddle", "no_slot", "unreported"}


def test_windows_with_a_report_that_may_overcount_have_no_lower_bound():
    """Reports of 7 bytes every 10 ns; those at 35 and 45 ns may share their cells, and the second spans two windows."""
    con = queries.connect()
    stamps = [(0, 10 * place + 5, 7, 1, 10 * place + 5, 0, place, place in (3, 4)) for place in range(10)]
    stamps[4] = (0, 45, 7, 3, 45, 0, 4, True)  # since the report at 35
    register(con, "stamps", STAMPS, stamps)
    register(con, "starts", ("flow", "start_ns"), [(0, 5)])
    register(con, "compared_windows", WINDOWS, [("s", 0, 10 * place, 7, 7) for place in range(10)])
    found = judged_windows(con, 10)
    assert [row["window_ns"] for row in found if row["reason"] == "sketch_load"] == [30, 40]
    assert all((row["bytes_low"] is None) == (row["reason"] == "sketch_load") for row in found)
    assert [row["bytes_high"] for row in found] == [7, 7, 7, 14, 7, *[7] * 5], "report at 45 spans windows 30 and 40"
