"""The native collector compared with the plain one: every counter, flow and row of the series, in both formats."""

import random

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.report_frames import BYTES, VALID, frame, pcap, report
from acapella_testing.new_files import write_file
from acapella_testing.oracles.plain_collector import Pair, Plain
from acapella_testing.soak import SOAK

from acapella_core.collector import Collector, Options, QueuePair

BASE = 0x7F00_0000_0000
SLOTS = 64
SECOND = 10**9
ALL_TIMES = VALID["start"] | VALID["iat"] | VALID["slot"] | VALID["last"]


def fields_of_format_1(random_: random.Random, n: int) -> dict:
    """Return fields of a report in the paper's format."""
    return {
        **{"src": bytes((10, 0, 0, random_.randrange(4))), "dst": bytes((10, 0, 1, random_.randrange(3)))},
        **{"src_port": random_.choice((80, 443)), "dst_port": 50_000},
        **{"rtt": random_.choice((0, 7, 90_000)), "iat": random_.choice((0, 1_000))},
        "packet_type": random_.randrange(5),
        **{"ack": random_.choice((n * 700, 2**32 - 1 - n)), "seq": random_.choice((n * 700 + 1400, n))},
        "timestamp": max(0, (n + random_.choice((0, 0, 0, -3))) * SECOND // 7),
        **{f"bytes_{i}": random_.choice((n * 900, n * 900 + i, random_.randrange(2**32))) for i in range(4)},
        **{f"packets_{i}": random_.choice((n, random_.randrange(2**16))) for i in range(4)},
    }


def fields_of_format_2(random_: random.Random, n: int) -> dict:
    """Return fields of a report in format 2."""
    version, width = random_.choice(((6, 16), (4, 4), (4, 4)))
    return {
        **{"ip_version": version, "ip_proto": random_.choice((6, 6, 6, 17, 1, 58)), "tcp_flags": 16},
        "trigger": random_.choice((1, 2, 4, 8, 16, 64, 128, 256)),
        "valid": random_.randrange(1024) | random_.choice((0, VALID["slot"], VALID["slot"])),
        **{"vlan_count": random_.randrange(3), "mpls_count": random_.choice((0, 2, 6))},
        **{"src_port": random_.choice((0, 443)), "dst_port": random_.choice((0, 50_000))},
        "src": bytes(width - 1) + bytes((random_.randrange(1, 3),)),
        "dst": bytes(width - 2) + bytes((9, random_.randrange(2))),
        **{"vlan_0": 100, "vlan_1": 7, "mpls_0": 16, "mpls_1": 17},
        "epoch": max(0, n // 40 + random_.choice((0, 0, 0, -1, -2, -5))),
        "report_sequence": random_.choice((n, n, n, 2**32 - 2)),
        "timestamp": (n + random_.choice((0, 0, -2))) * SECOND // 5 + SECOND,
        **{"start": random_.choice((SECOND, 2 * SECOND)), "bytes": random_.randrange(2**40)},
        "packets": random_.choice((n, n // 9 + 1, random_.randrange(2**20))),
        "last": random_.choice((n * SECOND // 5 + SECOND - random_.randrange(3 * SECOND), 0, 2**64 - 1)) % 2**64,
        **{"rtt_syn": 5_000_000, "rtt_ack": 300},
        "iat": random_.choice([random_.randrange(max_ns) for max_ns in (1000, 4 * SECOND, 60 * SECOND)]),
        "seq_end": random_.randrange(2**32),
        "first_ack": random_.choice((n * 100 - 50 & 2**32 - 1, random_.randrange(2**32))),
        "ack": random_.choice((n * 100, random_.randrange(2**32))),
        **{"duplicate_acks": random_.choice((n, 2**32 - 1)), "retransmitted_bytes": n // 3},
        **{"gap_bytes": random_.choice((n, n, n, 0)), "uncertain_bytes": n // 5, "payload_bytes": n * 900},
    }


def traffic(number: int, seed: int, count: int = 400) -> list[bytes]:
    """Return frames of two queue pairs, most of them in order."""
    random_, frames, psn = random.Random(seed), [], {0x11: 2**24 - 50, 0x12: 5}
    for n in range(count):
        pair = random_.choice((0x11, 0x11, 0x12))
        psn[pair] = (psn[pair] + random_.choice((1, 1, 1, 1, 3))) % 2**24
        payload = report(number, **(fields_of_format_1 if number == 1 else fields_of_format_2)(random_, n))
        given = {"psn": psn[pair], "address": BASE + BYTES[number] * random_.randrange(SLOTS), "queue_pair": pair}
        frames.append(damaged(random_, payload, given))
    return frames


def damaged(random_: random.Random, payload: bytes, given: dict) -> bytes:
    """Return a frame; one in four is damaged."""
    fault = random_.randrange(44)
    faults = [{"key": 1}, {"queue_pair": 0x13}, {"opcode": 0x0A}, {"length": 0}, {"port": 4790}, {"damage_icrc": True}]
    faults += [{"address": given["address"] + 1}, {"address": BASE + len(payload) * SLOTS}]
    faults += [{"psn": (given["psn"] - back) % 2**24} for back in (1, 2)]
    if fault == len(faults):
        payload = b"" if random_.random() < 0.5 else b"\7" * len(payload)
    return frame(payload, **given | (faults[fault] if fault < len(faults) else {}))


def plain(number: int, frames: list[bytes], series_ns: int | None, wires: dict | None = None) -> Plain:
    """Return the plain collector after processing the frames."""
    model = Plain([Pair(n, 0x1234, BASE, SLOTS) for n in (0x11, 0x12)], number, series_ns)
    for n, data in enumerate(frames):
        model.frame(data, (wires or {}).get(n))
    model.finish()
    return model


def pairs(**given) -> list[QueuePair]:
    """Return the queue pairs of traffic()."""
    return [QueuePair(**{"number": n, "key": 0x1234, "base": BASE, "slots": SLOTS, **given}) for n in (0x11, 0x12)]


def counted(counters: dict) -> dict:
    """Return the counters that the plain collector has as well."""
    others = ("frames", "flows", "psn_gap_lost")
    return {name: value for name, value in counters.items() if value and name not in others}


def collected(tmp_path, frames, options) -> tuple[dict, list[dict], list[dict]]:
    """Return counters, flows and series of the core."""
    series, flows = tmp_path / "series.parquet", tmp_path / "flows.parquet"
    with Collector(pairs(), options, series=series) as collector:
        collector.feed_frames(frames)
        counters = collector.finish()
        collector.write_flows(flows)
    return counters, pq.read_table(flows).to_pylist(), pq.read_table(series).to_pylist()


@pytest.mark.parametrize("series_ns", [SECOND, 0])
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_core_matches_the_plain_collector(tmp_path, seed, number, series_ns):
    frames = traffic(number, seed)
    model = plain(number, frames, series_ns)
    counters, flows, series = collected(tmp_path, frames, Options(format=number, series_ns=series_ns))
    assert counted(counters) == model.counters
    assert counters["psn_gap_lost"] == sum(pair.lost for pair in model.pairs.values())
    assert [key_of(flow) for flow in flows] == [public(key) for key in model.flows]
    rows = [flow.row() for flow in model.flows.values()]
    assert [{name: flow[name] for name in rows[0]} for flow in flows] == rows
    assert series == model.series
    if series_ns:
        assert all(summed(series, name) == {flow["flow"]: flow[name] for flow in flows} for name in SUMMED)
    runs = [row for row in series if row["windows"] > 1]
    assert bool(runs) == (number == 2 and series_ns > 0)
    assert all(row["reports"] == 0 for row in runs)


@pytest.mark.parametrize("threads", [1, 3])
def test_newest_epoch_is_of_accepted_reports_of_any_flow(threads):
    def report_of(epoch: int, host: int, **given) -> bytes:
        payload = report(2, src=bytes((10, 0, 0, host)), dst=b"\x0a\0\0\2", trigger=2, epoch=epoch)
        return frame(payload, address=BASE, **given)

    with Collector(pairs(), Options(threads=threads)) as collector:
        assert collector.newest_epoch() == 0
        collector.feed_frames([report_of(5, host, psn=host) for host in range(9)])
        collector.feed_frames([report_of(9, 3, psn=9), report_of(7, 3, psn=10), report_of(2**32 - 1, 3, psn=11, key=1)])
        collector.finish()
        assert collector.newest_epoch() == 9


SUMMED = ("bytes", "packets")


def summed(series: list[dict], name: str) -> dict[int, int]:
    """Return a column's sums by flow."""
    return {flow: sum(row[name] for row in series if row["flow"] == flow) for flow in {row["flow"] for row in series}}


YEAR = 365 * 86_400 * SECOND


@pytest.mark.parametrize("threads", [1, 3])
def test_report_adds_at_most_four_rows_after_any_idle_time(tmp_path, threads):
    """With windows of a nanosecond and years between reports, the equal shares are one row, and no byte is lost."""
    reported = [
        {"timestamp": YEAR, "start": 7, "last": YEAR - 9, "iat": 1000, "bytes": 1003, "packets": 10},
        {"timestamp": 3 * YEAR, "start": 7, "last": 3 * YEAR - 5, "iat": YEAR, "bytes": 2009, "packets": 20},
        {"timestamp": 2**64 - 1, "start": 7, "last": 2**64 - 5, "iat": 6, "bytes": 2**63, "packets": 2**40},
    ]
    frames = [
        timed(3 * n + at, src=bytes((10, 0, 0, n)), report_sequence=at, trigger=128, **fields)
        for n in range(3)
        for at, fields in enumerate(reported)
    ]
    _, flows, series = collected(tmp_path, frames, Options(series_ns=1, threads=threads))
    of_first = [row for row in series if row["flow"] == 0]
    assert [(row["window_ns"], row["windows"], row["bytes"], row["packets"]) for row in of_first[:8]] == [
        (8, YEAR - 1017, 803, 8),
        (YEAR - 1009, 1, 100, 1),
        (YEAR - 9, 1, 100, 1),
        (YEAR, 1, 0, 0),
        (YEAR + 1, YEAR - 6, 806, 8),
        (2 * YEAR - 5, 1, 100, 1),
        (3 * YEAR - 5, 1, 100, 1),
        (3 * YEAR, 1, 0, 0),
    ]
    assert len(series) <= 3 * 4 * len(reported)
    assert all(summed(series, name) == {flow["flow"]: flow[name] for flow in flows} for name in SUMMED)


def timed(psn: int, **fields) -> bytes:
    """Return a frame with a report in format 2 whose times are all valid."""
    return frame(report(2, dst=b"\x0a\0\0\2", valid=ALL_TIMES, **fields), psn=psn, address=BASE)


def hostile(random_: random.Random, n: int, max_ns: int) -> dict:
    """Return fields with times a few ns apart or impossible, in any order, and with impossible sizes."""
    return {
        **{"src": bytes((10, 0, 0, random_.randrange(2))), "dst": b"\x0a\0\0\2"},
        **{"ip_proto": random_.choice((6, 6, 17)), "valid": random_.choice((ALL_TIMES, random_.randrange(1024)))},
        "trigger": random_.choice((0, 1, 4, 16, 32, 64, 128, 256)),
        "epoch": random_.choice((0, 0, 1, n, 2**32 - 1)),
        "report_sequence": random_.choice((n, n, 0, 2**32 - 1)),
        **{"timestamp": random_.randrange(max_ns), "start": random_.randrange(max_ns)},
        "last": random_.choice((random_.randrange(max_ns), random_.randrange(max_ns), 0, 2**64 - 1)),
        "iat": random_.choice((random_.randrange(max_ns), 0, 2**63 - 1)),
        "bytes": random_.choice((n * 100, n, 0, random_.randrange(1000), 2**40 + n)),
        "packets": random_.choice((n, n * 2, 0, 1, random_.randrange(100), 2**40)),
        **{"payload_bytes": n * 50 + random_.randrange(50), "duplicate_acks": n},
        **{"gap_bytes": random_.choice((n, 0, 9)), "uncertain_bytes": random_.choice((n, 0))},
    }


@pytest.mark.parametrize("seed", range(150 if SOAK else 50))
def test_impossible_times_and_sizes_match_the_plain_collector(tmp_path, seed):
    """Uses windows of a few ns: bytes at known times, spread bytes, and both at the windows' edges."""
    random_ = random.Random(seed)
    max_ns, series_ns = random_.choice((20, 200)), random_.choice((1, 1, 2, 3, 7, 50, 0))
    reports = [report(2, **hostile(random_, n, max_ns)) for n in range(random_.randrange(1, 14))]
    frames = [frame(data, psn=psn, address=BASE) for psn, data in enumerate(reports)]
    model = plain(2, frames, series_ns)
    _, flows, series = collected(tmp_path, frames, Options(series_ns=series_ns, threads=1 + seed % 2))
    rows = [flow.row() for flow in model.flows.values()]
    assert [{name: flow[name] for name in rows[0]} for flow in flows] == rows
    assert series == model.series


def test_bytes_of_a_report_are_assigned_to_windows(tmp_path):
    """The last of ten packets is at the report's time, the one before at the inter-arrival time, others are spread."""
    reported = [
        {"timestamp": 2 * SECOND, "last": 2 * SECOND, "bytes": 40, "packets": 1, "trigger": 64},
        {"timestamp": 9 * SECOND, "last": 15 * SECOND // 2, "iat": 2 * SECOND, "bytes": 1041, "packets": 11},
    ]
    frames = [timed(at, report_sequence=at, **fields) for at, fields in enumerate(reported)]
    _, _, series = collected(tmp_path, frames, Options(series_ns=SECOND))
    columns = ("windows", "bytes", "packets", "reports")
    # 801 bytes from 2.0 s to 5.5 s, 100 each at 5.5 s and at 7.5 s
    assert [(row["window_ns"] // SECOND, *map(row.get, columns)) for row in series] == [
        (2, 1, 40 + 228, 1 + 2, 1),
        (3, 2, 458, 4, 0),
        (5, 1, 115 + 100, 2 + 1, 0),
        (7, 1, 100, 1, 0),
        (9, 1, 0, 0, 1),
    ]


@pytest.mark.parametrize(
    ("iat", "found"),
    [(10, [(10, 20, 2), (20, 10, 1)]), (11, [(20, 30, 3)]), (9, [(10, 10, 1), (11, 10, 1), (20, 10, 1)])],
)
def test_inter_arrival_time_is_limited_to_the_previous_report(tmp_path, iat, found):
    """One of three packets was at the end, one at the start of counting, and the third one between them."""
    reported = {"timestamp": 20, "last": 20, "start": 10, "iat": iat, "bytes": 30, "packets": 3}
    _, _, series = collected(tmp_path, [timed(0, **reported)], Options(series_ns=1))
    assert [(row["window_ns"], row["bytes"], row["packets"]) for row in series] == found


def key_of(flow: dict) -> tuple:
    """Return a row's key in the format of public()."""
    ports = ("src_port", "dst_port", "icmp_type", "icmp_code", "icmp_id")
    return tuple(flow[name] for name in ("ip_version", "ip_proto", "vlan", "mpls", "src", "dst", *ports))


def public(key: tuple) -> tuple:
    """Return the plain collector's key in the format of the table."""
    version, proto, vlans, labels, src, dst, src_port, dst_port = key
    icmp = proto in (1, 58)
    ports = (src_port, dst_port) if not icmp and (src_port or dst_port) else (None, None)
    shown = (src_port >> 8, src_port & 255, dst_port) if icmp else (None, None, None)
    return (version, proto, list(vlans), list(labels), src, dst, *ports, *shown)


def test_any_number_of_threads_writes_the_same_bytes(tmp_path):
    frames, written = traffic(2, 9, 2000), set()
    for threads in (1, 2, 3, 5):
        collected(tmp_path, frames, Options(threads=threads))
        written.add(tuple(path.read_bytes() for path in sorted(tmp_path.iterdir())))
    assert len(written) == 1


def test_capture_and_frames_in_memory_give_the_same_result(tmp_path):
    frames = traffic(2, 4)
    capture = write_file(tmp_path / "reports.pcap", pcap(frames))
    with Collector(pairs(), Options(), series=tmp_path / "s.parquet") as collector:
        assert collector.feed(capture) == {"records": len(frames), "end": "clean", "detail": ""}
        assert counted(collector.finish()) == plain(2, frames, None).counters
