"""Synthetic tables of flow reports, as input of figures and report."""

import functools
import itertools
import math
import random
from collections import defaultdict
from pathlib import Path

import pyarrow as pa

from acapella.campaign.layout import Campaign
from acapella.common import queries, tables

SECOND = 10**9
COMPARED = {  # columns of each compared table by measure
    "iats": {"iat_reports": ("iat_ns", "iat_measured_ns")},
    "rates": {"throughput_reports": ("bps", "bps_measured"), "packet_size": ("packet_size", "packet_size_measured")},
    "acknowledgments": {
        "bytes_in_flight": ("flight_bytes", "flight_measured_bytes"),
        "acknowledged_bytes": ("acknowledged_bytes", "acknowledged_measured_bytes"),
    },
}
# ranges, as multiples of the mean
INTERVALS = {"iat_ns": (0.7, 1.3), "iat_measured_ns": (0.01, 50), "gap_measured_ns": (0.8, 1.2)}


def write_tables(  # noqa: PLR0913 (a test names the one or two that matter to it)
    directory: Path, *, samples: int = 2, flows: int = 300, wrong: float = 0.02, memory: bool = True, missing: float = 0
) -> Path:
    """Write the tables of `acapella p4 tables`.

    ``wrong``: share of flows with wrong counts. ``missing``: share of flows without a reported RTT of the handshake.
    """
    draw, made = random.Random(samples * 1000 + flows), defaultdict(list)
    for number in range(samples):
        sample = f"site1-port{number + 1}-rx-0001"
        made["flows"] += [flow(draw, sample, n, wrong) for n in range(flows)]
        for n in range(0, flows, 3):
            made["windows"] += [window(draw, sample, n, at) for at in range(draw.randrange(1, 5))]
        made["seconds"] += [second(draw, sample, at, last=at == 24, scale=10 ** (number % 4 + 2)) for at in range(25)]
        made["counts"] += counts(sample, made["flows"])
        made["memory"] += sketches(sample, flows) if memory else []
        made["tools"] += tools(sample, flows)
        for reason, n, within in (("none", 90, 90), ("straddle", 10, 7)):
            row = {"sample": sample, "reason": reason, "windows": n, "share": n / 100, "bounded": n, "held": n}
            made["window_reasons"].append(row | {"within": within, "within_share": within / n})
        for reason, n in (("none", flows), ("earlier_report", 3)):
            row = {"sample": sample, "subject": "report", "reason": reason, "flows": n, "share": n / flows}
            made["flow_reasons"].append(row)
        made["by_report"] += [row for n in range(0, flows, 3) for row in by_report(random.Random(n), sample, n)]
    for place, row in enumerate(made["flows"]):
        if place % 100 < 100 * missing:
            row["rtt_syn_measured_ns"] = None
    return publish(directory, {**made, "accuracy": accuracy(made)})


def publish(directory: Path, made: dict[str, list[dict]]) -> Path:
    """Write tables/flowreport_NAME.parquet and .csv; return the campaign's directory."""
    (directory / "tables").mkdir(parents=True, exist_ok=True)
    for name, rows in made.items():
        table = f"flowreport_{name}"
        tables.write_rows(rows, table, functools.partial(Campaign(directory).table, table))
    return directory


def flow(draw: random.Random, sample: str, number: int, wrong: float) -> dict:
    """Return a flow. Every second flow has a handshake; some have too many bytes in the sketch."""
    packets = round(10 ** draw.uniform(0, 5))
    size = packets * draw.choice([40, 52, 576, 1500])
    excess = round(size * draw.choice([0.001, 0.1, 3])) if draw.random() < wrong else 0
    rtt = round(10 ** draw.uniform(4, 8)) if number % 2 else None
    iat = round(10 ** draw.uniform(3, 9)) if packets > 1 else None
    ends = {"src": f"10.0.{number // 250}.{number % 250}", "dst": "192.0.2.1"}
    ends |= {"src_port": 1024 + number, "dst_port": 443}
    return {
        **{"sample": sample, "flow": number, "vlan": "100", "mpls": "17/18", "ip_version": 4, "ip_proto": 6, **ends},
        **{"found": "both", "outside": False, "reports": packets // 2 + 1},
        **{"packets": packets, "packets_measured": packets, "bytes": size, "bytes_measured": size + excess},
        **{"rtt_syn_ns": rtt, "rtt_syn_measured_ns": rtt, "rtt_ack_ns": rtt and rtt // 3},
        **{"rtt_ack_measured_ns": rtt and rtt // 3, "iat_ns": iat, "iat_measured_ns": iat},
        "iat_at_report_ns": iat,
        **{"start_ns": number * SECOND // 9, "start_measured_ns": number * SECOND // 9},
        **{"end_ns": number * SECOND, "end_measured_ns": number * SECOND},
        **{"payload_bytes": size, "payload_measured_bytes": size, "retransmitted_bytes": size // 99},
        **{"retransmitted_measured_bytes": size // 99, "missing_bytes": size // 50},
        # a lower bound: the exact number is at most uncertain_bytes larger
        **{"missing_measured_bytes": size // 60, "uncertain_bytes": -(-size // 200)},
        **{"acknowledged_bytes": size, "acknowledged_measured_bytes": size},
    }


def window(draw: random.Random, sample: str, number: int, at: int) -> dict:
    """Return a window of a flow."""
    size = round(10 ** draw.uniform(2, 7))
    return {
        **{"sample": sample, "flow": number, "window_ns": at * SECOND, "bytes": size},
        "bytes_measured": round(size * draw.uniform(0.5, 1.5)) if number % 2 else size,
        **{"bytes_low": size // 2, "bytes_high": 2 * size, "reason": "straddle" if number % 2 else None},
    }


def by_report(draw: random.Random, sample: str, number: int) -> list[dict]:
    """Return the reported values of a flow; a few deviate by a twentieth of a decade."""
    rows, ranges = {}, {"iat_reports": (60, 180), "throughput_reports": (60, 200), "packet_size": (32, 64)}
    for measure, (low, high) in (ranges | {"bytes_in_flight": (20, 100), "acknowledged_bytes": (20, 120)}).items():
        for _ in range(3):
            place = draw.randrange(low, high)
            rows[measure, place, place + (number % 30 == 0)] = draw.randrange(1, 9)
    return [
        {"sample": sample, "measure": measure, "place": place, "place_measured": measured, "pairs": pairs}
        for (measure, place, measured), pairs in rows.items()
    ]


def second(draw: random.Random, sample: str, at: int, *, last: bool, scale: int) -> dict:
    """Return a second of a capture."""
    reports = round(scale * draw.uniform(0.5, 2))
    return {"sample": sample, "second": at, "whole": not last, "packets": 2 * reports, "reports": reports, "probes": 0}


def counts(sample: str, flows: list[dict]) -> list[dict]:
    """Return the counters that the notes below a figure and its windows need."""
    reports = sum(row["reports"] for row in flows if row["sample"] == sample)
    listed = [("settings", "window_ns", SECOND), ("balance", "frames_in", 3 * reports)]
    listed += [("balance", "reports_sent", reports), ("balance", "reports_accepted", reports)]
    return [
        {"sample": sample, "place": place, "stage": stage, "counter": counter, "value": value}
        for place, (stage, counter, value) in enumerate(listed, 1)
    ]


def sketches(sample: str, flows: int) -> list[dict]:
    """Return sketches whose errors decrease with memory; those with 65,536 cells have no errors."""
    rows = []
    for depth, power, measure in itertools.product((1, 2, 4), (6, 8, 10, 12, 16), ("bytes", "packets")):
        cells = 2**power
        unequal = round(flows * (1 - math.exp(-flows / cells)) ** depth) / flows if power < 16 else 0  # whole flows
        row = {"sample": sample, "rows": depth, "cells": cells, "measure": measure, "memory_bytes": depth * cells * 32}
        row |= {"equal": round(flows * (1 - unequal)), "r2": 1 - unequal / 2, "r2_log": 1 - unequal / 3, "missing": 0}
        row |= {"error_median": 0.0, "error_p99": 40 * unequal**2, "error_largest": 99 * unequal}
        rows.append(row | {"load": flows / cells, "n": flows})
    return rows


def tools(sample: str, flows: int) -> list[dict]:
    """Return rows of the digest, the collector, a tool that ran, and a tool that is not installed."""
    seen = {"flows": flows, "common_flows": flows, "equal_packets": flows, "equal_bytes": flows, "packets": 9999}
    seen |= {"bytes": 1_234_567, "missed_share": 0.0}
    rows = [{"tool": "digest", "version": "0.1.0", **seen}, {"tool": "collector", "version": "0.1.0", **seen}]
    rows.append({"tool": "softflowd", "version": "1.0.0", **seen, "packets": 9000, "missed_share": 0.0999})
    rows.append({"tool": "zeek", "version": None, "skipped": "zeek is not installed"})
    return [{"sample": sample, "place": place, **row} for place, row in enumerate(rows, 1)]


def accuracy(made: dict) -> list[dict]:
    """Return the rows of the accuracy table, computed from flows, windows and reports."""
    con = queries.connect()
    for name in ("flows", "windows"):
        con.register(f"given_{name}", pa.Table.from_pylist(made[name], tables.arrow_schema(f"flowreport_{name}")))
    con.execute("create table compared_flows as select *, 0 as key from given_flows")
    con.execute("create table judged_windows as select * from given_windows")
    con.register("by_report", pa.Table.from_pylist(made["by_report"], tables.arrow_schema("flowreport_by_report")))
    for name, measures in COMPARED.items():
        every = ", ".join(f"{column} double" for pair in measures.values() for column in pair)
        flags = "ambiguous boolean default false, early boolean default false"
        con.execute(f"create table compared_{name} (flow uinteger, place bigint, {flags}, {every})")
        for measure, pair in measures.items():
            values = "select 10 ** (place / 20), 10 ** (place_measured / 20) from by_report, range(pairs::bigint)"
            con.execute(f"insert into compared_{name} ({', '.join(pair)}) {values} where measure = '{measure}'")
    given = {"length_ns": SECOND, "of_triggers": "all"}
    con.execute(f"create table pairs as {queries.text('flowreports', 'pairs')}", given)
    rows = con.sql(queries.text("flowreports", "accuracy")).to_arrow_table().to_pylist()
    return [{"sample": "all", **row} for row in rows]


def write_study(directory: Path, *, windows: int = 120) -> Path:
    """Write the tables of `acapella p4 study`."""
    draw, response = random.Random(windows), []
    for n in range(windows):
        at = {"t_ns": n * SECOND // 10}
        for flow_, rates in (("flow 1", (50e6, 10e6, 80e6)), ("flow 2", (20e6, 60e6, 5e6))):
            rate = rates[n * 3 // windows]
            row = {"flow": flow_, "set_bps": rate, **at}
            row |= {name: rate * draw.uniform(0.9, 1.05) for name in ("bps", "bps_measured")}
            for name, spread in INTERVALS.items():
                row[name] = round(12000e9 / rate * draw.uniform(*spread))
            response.append(row)
        response.append({"flow": "background", "bps": 30e6, "bps_measured": 30e6 * draw.uniform(0.9, 1), **at})
    in_memory = {1e6: 0, 5e6: 0, 10e6: 0, 20e6: 10**5, 30e6: 4 * 10**6, 31e6: 5 * 10**6}  # lost reports by rate
    offered = [offered_row(rate, 10**7, lost, 64) for rate, lost in in_memory.items()]
    for trace, rate in (("166 Mbit/s", 166e6), ("2,989 Mbit/s", 2989e6)):
        for speed, slower in itertools.product((1, 10, 100, 1000), (1, 1.2, 2)):
            lost = round(10**5 * max(0, 1 - 3e10 / (rate * speed * slower)))
            row = offered_row(rate * speed / 6000, 10**5, lost, 192)
            offered.append(row | {"trace": trace, "trace_bps": rate, "speed": speed})
    counters = {("balance", name): 40_000 for name in ("reports_sent", "reports_accepted")}
    counters[("balance", "frames_in")] = 90_000
    background = {"tcp_streams": 4, "udp_streams": 1, "stream_bps": 4_000_000, "limit_bps": 40_000_000}
    counters |= {("settings", f"background_{name}"): value for name, value in background.items()}
    counted = [{"stage": stage, "counter": name, "value": value} for (stage, name), value in counters.items()]
    study = {"offered": offered, "response": response, "response_counts": counted}
    for table in ("offered", "response_counts"):
        study[table] = [{"place": place, **row} for place, row in enumerate(study[table], 1)]
    return publish(directory, study)


def offered_row(rate: float, offered: int, lost: int, report_bytes: int) -> dict:
    """Return the row of a run of the collector."""
    return {
        **{"offered_rps": rate, "offered": offered, "accepted": offered - lost, "discarded": 0, "lost": lost},
        **{"success_share": 1 - lost / offered, "seconds": 1.0, "threads": 2, "flows": 100_000},
        "report_bytes": report_bytes,
    }
