"""Measures acapella-dpdk-replay into a memory ring: one core sends, a second one reads the first and last byte of each
packet.

CHOIR (SC'25 workshops, section 5) sends 8.9 million packets per second, 100 Gbit/s of packets of 1,400 bytes, which
are 112 ns apart.
"""

import json
import os
import subprocess
from dataclasses import dataclass

from ..programs import ROOT, Bench
from . import replay_pairs, replay_senders

FLOOR = 8_900_000  # packets per second
GAP_NS = 112
BURST = 64
PACKET_BYTES = 1400
PACKETS = 65_536  # in the recording, more than the caches of a core hold
RUNS = 5
BUILD = ROOT / "build" / "programs"


@dataclass(frozen=True)
class Run:
    """One run of bench_replay; times in ns."""

    requested: int
    sent: int
    ring_full: int
    retries: int
    duration_ns: int
    median_ns: int
    p99_ns: int
    largest_ns: int
    largest_gap_ns: int
    preemptions: int
    cpu_ns: int
    sum: int

    @property
    def rate(self) -> float:
        return self.sent / self.duration_ns * 1e9

    @property
    def rate_by_cpu(self) -> float:
        return self.sent / self.cpu_ns * 1e9


def realtime() -> list[str]:
    """Return a command prefix for a real-time priority, or none if this user may not have one."""
    prefix = ["chrt", "-f", "1"]
    done = subprocess.run([*prefix, "true"], check=False, capture_output=True)
    return prefix if done.returncode == 0 else []


def measured(bench: Bench, prefix: list[str], gap_ns: int, burst: int) -> Run:
    """Run the benchmark once. The sender has a core of its CPU list; the reader may use all cores."""
    program = BUILD / "capture" / "replay" / "bench_replay"
    words = [*prefix, program, PACKETS, PACKET_BYTES, bench.scale["replay_loops"], gap_ns, burst]
    return Run(**json.loads(bench.measure(words, keep=True, any_core=True).stdout))


def run(bench: Bench) -> list[dict]:
    """Return the highest rate in bursts, and the errors of single packets that are GAP_NS apart.

    Both threads run with normal priority and, if possible, also with a real-time priority. Of several runs, the fastest
    and the one with the smallest median error were disturbed least.
    """
    bench.run(["make", "-s", "-C", ROOT, "programs", f"PROGRAMS={BUILD}"])
    bench.run(["meson", "compile", "-C", BUILD, "bench_replay"])
    prefix = realtime()
    rows = rows_of(bench, prefix, "SCHED_FIFO") if prefix else []
    normal = rows_of(bench, [], "normal priority")
    if rows:
        normal[0].pop("goal")
    pairs = replay_pairs.run(bench, bench.scale["replay_s"])
    return rows + normal + replay_senders.run(bench) + pairs


def rows_of(bench: Bench, prefix: list[str], name: str) -> list[dict]:
    """Return the rows with one priority."""
    fastest = max((measured(bench, prefix, 0, BURST) for _ in range(RUNS)), key=lambda run: run.rate)
    paced = min((measured(bench, prefix, GAP_NS, 1) for _ in range(RUNS)), key=lambda run: (run.median_ns, run.p99_ns))
    return [
        {
            "measured": f"{name}: rate, bursts of {BURST}",
            "value": round(fastest.rate),
            "unit": "packets/s",
            "goal": f">= {FLOOR:,}",
            "note": f"best of {RUNS}; {fastest.rate_by_cpu / 1e6:.1f} million packets per CPU second; "
            f"{fastest.preemptions} preemptions, load {os.getloadavg()[0]:.1f}",
        },
        {
            "measured": f"{name}: rate, single packets {GAP_NS} ns apart",
            "value": round(paced.rate),
            "unit": "packets/s",
            "note": f"requested {1e9 / GAP_NS:,.0f}; {paced.sent:,} of {paced.requested:,} sent, "
            f"{paced.retries:,} retries",
        },
        {"measured": f"{name}: error of a departure, median", "value": paced.median_ns, "unit": "ns"},
        {"measured": f"{name}: error of a departure, p99", "value": paced.p99_ns, "unit": "ns"},
        {
            "measured": f"{name}: error of a departure, largest",
            "value": paced.largest_ns,
            "unit": "ns",
            "note": f"largest gap of the polling loop {paced.largest_gap_ns:,} ns, {paced.preemptions} preemptions",
        },
    ]
