"""Measures acapella-monitor from a memory ring: one core receives packets of 10,000 flows and updates all counts."""

import json

from ..programs import ROOT, Bench

FLOOR = 8_000_000  # packets per second
FLOWS = 10_000
SMALL, LARGE = 60, 1514  # bytes without FCS
RUNS = 5
BUILD = ROOT / "build" / "programs"


def measured(bench: Bench, packets: int, frame_bytes: int, pattern: str) -> tuple[float, float]:
    """Run the benchmark several times; return the highest rates in packets per second, by wall time and by CPU time."""
    program = BUILD / "capture" / "monitor" / "bench_monitor"
    argv = [program, packets, FLOWS, frame_bytes, pattern]
    found = [json.loads(bench.measure(argv, keep=True).stdout) for _ in range(RUNS)]
    by_wall, by_cpu = (max(run["packets"] / run[key] for run in found) * 1e9 for key in ("duration_ns", "cpu_ns"))
    return by_wall, by_cpu


def run(bench: Bench) -> list[dict]:
    """Return the rates for small packets without a payload, and for large ones with and without their patterns."""
    bench.run(["make", "-s", "-C", ROOT, "programs", f"PROGRAMS={BUILD}"])
    bench.run(["meson", "compile", "-C", BUILD, "bench_monitor"])
    cases = [(SMALL, "none"), (LARGE, "none"), (LARGE, "counter"), (LARGE, "prbs31")]
    rows = []
    for frame_bytes, pattern in cases:
        rate, by_cpu = measured(bench, bench.scale["monitor"] // (1 if pattern == "none" else 10), frame_bytes, pattern)
        checked = "payload not checked" if pattern == "none" else f"payload {pattern} checked"
        gbps = rate * frame_bytes * 8 / 1e9
        note = f"best of {RUNS} runs; {by_cpu / 1e6:.1f} million packets per CPU second; {gbps:.1f} Gbit/s"
        row = {"measured": f"{frame_bytes} B, {checked}", "value": round(rate), "unit": "packets/s", "note": note}
        rows.append(row | ({"goal": f">= {FLOOR:,}"} if frame_bytes == SMALL else {}))
    return rows
