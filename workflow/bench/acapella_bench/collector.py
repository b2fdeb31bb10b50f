"""The collector of flow reports on one core: from memory, from frames with ICRC, with many flows, and plain Python."""

import json
import os
import sys
from dataclasses import dataclass

from .programs import Bench, Failed, native_program

FLOWS = 100_000
GOAL_RATE = 10_000_000  # reports a second and core
PUBLISHED, TAGGED = 1, 2
WINDOW_NS = 10_000_000


@dataclass(frozen=True)
class Case:
    """What acapella-reports is asked for."""

    name: str
    mode: str
    report_format: int
    flows: int = FLOWS
    threads: int = 1
    series_ns: int | None = None
    goal: str = ""


CASES = (
    Case("64-byte reports, from memory", "memory", PUBLISHED, goal=f">= {GOAL_RATE:,}"),
    Case("the same, and the series", "memory", PUBLISHED, series_ns=WINDOW_NS),
    Case("192-byte reports, from memory", "memory", TAGGED),
    Case("the same, and the series", "memory", TAGGED, series_ns=WINDOW_NS),
    Case("frames with ICRC, 64-byte reports", "frames", PUBLISHED),
    Case("frames with ICRC, 192-byte reports", "frames", TAGGED),
)


def run(bench: Bench) -> list[dict]:
    """Reports a second of CPU time: made, read and sorted to flows; making them is not measured."""
    reports = bench.scale["collector"]
    found = [measured(bench, case, reports) for case in CASES]
    rows = [row_of(case, facts) for case, facts in zip(CASES, found, strict=True)]
    rows.append(plain_row(bench, found[0]))
    flows = bench.scale["collector_flows"]
    many = Case(f"64-byte reports, {flows:,} flows", "memory", PUBLISHED, flows=flows)
    facts = measured(bench, many, 4 * many.flows)
    rows += [row_of(many, facts), memory_row(facts)]
    rows += threads_rows(bench, reports)
    return rows


def measured(bench: Bench, case: Case, reports: int, *, any_core: bool = False) -> dict:
    """One run of acapella-reports. Raises Failed where it lost a report."""
    words = [native_program("acapella-reports"), case.mode, case.report_format, case.flows, reports, case.threads]
    words += [] if case.series_ns is None else [case.series_ns]
    facts = json.loads(bench.measure(words, keep=True, any_core=any_core).stdout)
    if facts["taken"] != reports:
        raise Failed(f"collector: {facts['taken']} of {reports} reports were taken")
    return facts


def row_of(case: Case, facts: dict) -> dict:
    """Reports a second and core."""
    cycles = f", {facts['cycles'] / facts['reports']:.0f} cycles a report" if facts["cycles"] else ""
    listed = f", {facts['series_rows']:,} rows of the series" if facts["series_rows"] else ""
    return {
        "measured": case.name,
        "value": facts["reports"] / facts["cpu_s"],
        "unit": "reports/s",
        "goal": case.goal,
        "note": f"of CPU time, {facts['wall_s']:.2f} s of wall clock; {facts['reports']:,} reports, "
        f"{facts['flows']:,} flows{listed}{cycles}",
    }


def memory_row(facts: dict) -> dict:
    """What a flow takes."""
    return {
        "measured": "memory a flow",
        "value": facts["bytes_a_flow"],
        "unit": "bytes",
        "note": f"index included; the process at its peak: {facts['peak_mib']:,} MiB with {facts['flows']:,} flows",
    }


def threads_rows(bench: Bench, reports: int) -> list[dict]:
    """The first case by two workers, by the wall clock."""
    if len(os.sched_getaffinity(0)) < 2:
        return []
    case = Case("64-byte reports, two workers", "memory", PUBLISHED, threads=2)
    facts = measured(bench, case, reports, any_core=True)
    note = f"of wall clock, {facts['cpu_s']:.2f} s of CPU time"
    return [{"measured": case.name, "value": reports / facts["wall_s"], "unit": "reports/s", "note": note}]


def plain_row(bench: Bench, ours: dict) -> dict:
    """The first case in plain Python, and what both say of the same reports."""
    reports = bench.scale["collector_plain"]
    path = bench.folder / "reports.bin"
    bench.run([native_program("acapella-reports"), "write", PUBLISHED, FLOWS, reports, path])
    plain = bench.measure([sys.executable, "-m", "acapella_bench.plain_collector", path], keep=True)
    core = bench.measure([sys.executable, "-m", "acapella_bench.native_collector", path], keep=True)
    path.unlink()
    told = json.loads(plain.stdout)
    if told["flows"] != json.loads(core.stdout)["flows"]:
        raise Failed("collector: the native core and plain Python say different things")
    rate = reports / told["cpu_s"]
    return {
        "measured": "ours, against plain Python",
        "value": ours["reports"] / ours["cpu_s"] / rate,
        "unit": "times",
        "note": f"it takes {rate:,.0f} reports/s of the first case; the same {len(told['flows'])} sums as ours",
    }
