"""Measures the collector of flow reports on one core, with default options, compared with plain Python.

Options are the defaults of `acapella p4 collect` unless a row names others: one thread, a series of windows of 1 s,
rings of 64 MiB. Rows of the series are computed and discarded; "whole command" also writes them, and the flows, to
Parquet.
"""

import json
import os
import sys
from dataclasses import dataclass

from .programs import Bench, Failed, acapella, native_program

FLOWS = 100_000
DEFAULT_RATE = 8_000_000  # reports per second and core
RING_RATE = 10_000_000
PUBLISHED, TAGGED = 1, 2
WINDOW_NS = 1_000_000_000  # --window
SHORT_WINDOW_NS = 10_000_000  # shorter than the time between two reports of a flow, so that each report adds rows


@dataclass(frozen=True)
class Case:
    """Arguments of acapella-reports."""

    name: str
    mode: str
    report_format: int
    flows: int = FLOWS
    threads: int = 1
    series_ns: int | None = None
    goal: int = 0  # reports per second
    plain: str = ""  # PATH argument of plain.collector


CASES = (
    Case(
        "default path: frames, ICRC, 192-byte reports, series",
        "frames",
        TAGGED,
        series_ns=WINDOW_NS,
        goal=DEFAULT_RATE,
        plain="default",
    ),
    Case("64-byte reports, series", "memory", PUBLISHED, series_ns=WINDOW_NS, plain="published-series"),
    Case("ring poller, table", "ring", TAGGED, plain="ring"),
    Case("ring poller, table, series", "ring", TAGGED, series_ns=WINDOW_NS, goal=RING_RATE, plain="ring-series"),
    Case("default path, windows of 10 ms", "frames", TAGGED, series_ns=SHORT_WINDOW_NS),
    Case("ring poller, table, series of 10 ms", "ring", TAGGED, series_ns=SHORT_WINDOW_NS),
    Case("64-byte reports, table", "memory", PUBLISHED),
    Case("frames with ICRC, 64-byte reports, table", "frames", PUBLISHED),
)


def run(bench: Bench) -> list[dict]:
    """Return the rates in reports per second of CPU time, from bytes to flows. Generating reports is not measured."""
    reports = bench.scale["collector"]
    rows = []
    for case in CASES:
        facts = measured(bench, case, reports)
        rows.append(row_of(case, facts))
        if case.plain:
            rows.append(plain_row(bench, case, facts))
    rows.append(command_row(bench))
    flows = bench.scale["collector_flows"]
    many = Case(f"64-byte reports, {flows:,} flows", "memory", PUBLISHED, flows=flows)
    facts = measured(bench, many, 4 * many.flows)
    rows += [row_of(many, facts), memory_row(facts)]
    rows += threads_rows(bench, reports)
    return rows


def measured(bench: Bench, case: Case, reports: int, *, any_core: bool = False) -> dict:
    """Run acapella-reports and return its results. Raises Failed if it lost a report."""
    words = [native_program("acapella-reports"), case.mode, case.report_format, case.flows, reports, case.threads]
    words += [] if case.series_ns is None else [case.series_ns]
    facts = json.loads(bench.measure(words, keep=True, any_core=any_core).stdout)
    if facts["taken"] != reports:
        raise Failed(f"collector: {facts['taken']} of {reports} reports were taken")
    return facts


def row_of(case: Case, facts: dict) -> dict:
    """Return the row of the rate in reports per second of CPU time."""
    cycles = f", {facts['cycles'] / facts['reports']:.0f} cycles per report" if facts["cycles"] else ""
    listed = f", {facts['series_rows']:,} rows of the series" if facts["series_rows"] else ""
    return {
        "measured": case.name,
        "value": facts["reports"] / facts["cpu_s"],
        "unit": "reports/s",
        "goal": f">= {case.goal:,}" if case.goal else "",
        "note": f"of CPU time, {facts['wall_s']:.2f} s of wall clock; {facts['reports']:,} reports, "
        f"{facts['flows']:,} flows{listed}{cycles}",
    }


def memory_row(facts: dict) -> dict:
    """Return the row of memory per flow."""
    return {
        "measured": "memory per flow",
        "value": facts["bytes_per_flow"],
        "unit": "bytes",
        "note": f"including the index; peak of the process: {facts['peak_mib']:,} MiB with {facts['flows']:,} flows",
    }


def threads_rows(bench: Bench, reports: int) -> list[dict]:
    """Return the row of 64-byte reports with two workers, in wall clock time; [] on a machine with one core."""
    if len(os.sched_getaffinity(0)) < 2:
        return []
    case = Case("64-byte reports, two workers", "memory", PUBLISHED, threads=2)
    facts = measured(bench, case, reports, any_core=True)
    note = f"of wall clock, {facts['cpu_s']:.2f} s of CPU time"
    return [{"measured": case.name, "value": reports / facts["wall_s"], "unit": "reports/s", "note": note}]


def write_reports(bench: Bench, case: Case, reports: int):
    """Write a file of a case's reports and return its path: a pcap if the case reads frames."""
    kind = "pcap" if case.mode == "frames" else "write"
    path = bench.directory / f"reports.{kind}"
    bench.run([native_program("acapella-reports"), kind, case.report_format, case.flows, reports, path])
    return path


def plain_row(bench: Bench, case: Case, native: dict) -> dict:
    """Return the row of a case in plain Python. Raises Failed if its flows differ from those of the native core."""
    reports = bench.scale["collector_plain"]
    path = write_reports(bench, case, reports)
    module = [sys.executable, "-m"]
    plain = bench.measure([*module, "acapella_bench.plain.collector", case.plain, path], keep=True)
    core = bench.measure([*module, "acapella_bench.native_collector", case.plain, path], keep=True)
    path.unlink()
    found = json.loads(plain.stdout)
    if found["flows"] != json.loads(core.stdout)["flows"]:
        raise Failed(f"collector: the flows of the native core and of plain Python differ ({case.name})")
    rate = reports / found["cpu_s"]
    return {
        "measured": f"{case.name}: against plain Python",
        "value": native["reports"] / native["cpu_s"] / rate,
        "unit": "times",
        "note": f"plain Python: {rate:,.0f} reports/s; the same {found['flows'][0]:,} flows with the same sums",
    }


def command_row(bench: Bench) -> dict:
    """Return the row of `acapella p4 collect` with default options, from a pcap to Parquet, including its start."""
    case = CASES[0]
    reports = bench.scale["collector_plain"] * 4
    path = write_reports(bench, case, reports)
    control = bench.directory / "queue-pair.control"
    base, size = 0x7F0000000000, (64 << 20) // 192 * 192
    registers = {"number": 0x11, "psn": 0, "key": 0x1234, "address": base, "base": base, "end": base + size}
    control.write_text("".join(f"register qp_{name} 0 {value:#x}\n" for name, value in registers.items()))
    directory = bench.directory / "collected"
    command = bench.measure(acapella("p4", "collect", path, "--control", control, "-o", directory), keep=True)
    counters = json.loads((directory / "counters.json").read_text())
    path.unlink()
    if counters["reports"]["taken"] != reports:
        raise Failed(f"collector: {counters['reports']['taken']} of {reports} reports were taken")
    return {
        "measured": "whole command: acapella p4 collect CAPTURE",
        "value": reports / command.cpu_s,
        "unit": "reports/s",
        "note": f"of CPU time, start-up and both Parquet files included; {reports:,} reports of a pcap",
    }
