"""Consistency: two trials of the CHOIR paper's size beside plain Python, orders that are hard, trials that are long."""

import json
import sys
from pathlib import Path

from .programs import Bench, Failed, Measured, native_program

ORDERS = ("bursts", "reversed", "shuffled")
AIM_S, GOAL_S = 0.25, 0.5
GOAL_TIMES = 100
MOST_TIMES_ORDERED = 5


def run(bench: Bench) -> list[dict]:
    """Time from pcap files of 200-byte frames on one core; ratio to plain Python; orders; cost per packet."""
    packets = bench.scale["kappa"]
    ours, plain = beside_plain(bench, packets)
    rows = [
        {"measured": "packets a trial", "value": packets, "unit": "packets", "note": "frames of 200 bytes, two pcaps"},
        {
            "measured": "ours, all of it",
            "value": ours.wall_s,
            "unit": "s",
            "goal": f"< {GOAL_S}, aim {AIM_S}",
            "note": f"{ours.cpu_s:.2f} s of CPU, Python's start within; peak {ours.peak_mib:.0f} MiB",
        },
        {"measured": "plain Python", "value": plain.wall_s, "unit": "s", "note": f"peak {plain.peak_mib:.0f} MiB"},
        {
            "measured": "ours is quicker by",
            "value": plain.cpu_s / ours.cpu_s,
            "unit": "times",
            "goal": f">= {GOAL_TIMES}",
            "note": "of CPU time",
        },
    ]
    return rows + hard_orders(bench, packets, ours) + long_trials(bench)


def trials(bench: Bench, packets: int, order: str) -> tuple[Path, Path]:
    """Two captures, B's packets in that order; the caller removes them."""
    paths = bench.folder / f"{order}-a.pcap", bench.folder / f"{order}-b.pcap"
    bench.run([native_program("acapella-trials"), "write", packets, order, *paths])
    return paths


def compared(bench: Bench, module: str, paths: tuple[Path, Path]) -> Measured:
    """One comparison by a module of this package."""
    return bench.measure([sys.executable, "-m", f"acapella_bench.{module}", *paths], keep=True)


def beside_plain(bench: Bench, packets: int) -> tuple[Measured, Measured]:
    """Both on the same files, ours the quicker of two runs; they have to say the same."""
    paths = trials(bench, packets, "ordered")
    ours = min((compared(bench, "native_kappa", paths) for _ in range(2)), key=lambda run: run.wall_s)
    plain = compared(bench, "plain_kappa", paths)
    for path in paths:
        path.unlink()
    if json.loads(ours.stdout) != json.loads(plain.stdout):
        raise Failed("kappa: the native core and plain Python say different things")
    return ours, plain


def hard_orders(bench: Bench, packets: int, ordered: Measured) -> list[dict]:
    """The same packets in orders in which many of them moved."""
    rows = []
    for order in ORDERS:
        paths = trials(bench, packets, order)
        done = compared(bench, "native_kappa", paths)
        for path in paths:
            path.unlink()
        rows.append(
            {
                "measured": f"{order}, to ordered",
                "value": done.cpu_s / ordered.cpu_s,
                "unit": "times",
                "goal": f"<= {MOST_TIMES_ORDERED}",
                "note": f"{json.loads(done.stdout)['moved']:,} packets moved, {done.wall_s:.2f} s",
            }
        )
    return rows


def long_trials(bench: Bench) -> list[dict]:
    """Cost per packet of trials whose identities and stamps a generator gives, without files."""
    rows, first = [], None
    for packets in bench.scale["kappa_cost"]:
        if bench.longest and packets > bench.longest:
            continue
        done = bench.measure([native_program("acapella-trials"), "compare", packets, "ordered"], keep=True)
        facts = json.loads(done.stdout)
        cost_ns = facts["compare_s"] / packets * 1e9
        first = first or cost_ns
        rows.append(
            {
                "measured": f"{packets:,} a side",
                "value": cost_ns,
                "unit": "ns/packet",
                "goal": "at most twice the first" if rows else "",
                "note": f"{cost_ns / first:.2f} times the first; {facts['peak_mib']:,} MiB for both sides",
            }
        )
    return rows
