"""Measures kappa: trials of the CHOIR paper's size compared with plain Python, difficult orders, long trials."""

import json
import os
import sys
import time
from pathlib import Path

from .programs import Bench, Failed, Measured, acapella, native_program

ORDERS = ("bursts", "reversed", "shuffled")
AIM_S, GOAL_S = 0.25, 0.5
GOAL_TIMES = 100
MAX_TIMES_ORDERED = 5


def run(bench: Bench) -> list[dict]:
    """Return rows on files of 200-byte frames on one core: time, ratio to plain Python, orders, cost per packet."""
    packets = bench.scale["kappa"]
    core, command, plain = compare_with_plain(bench, packets)
    rows = [
        {
            "measured": "packets per trial",
            "value": packets,
            "unit": "packets",
            "note": "frames of 200 bytes, two pcaps",
        },
        {
            "measured": "native core, total",
            "value": core.wall_s,
            "unit": "s",
            "goal": f"< {GOAL_S}, aim {AIM_S}",
            "note": f"{cost_text(core)}; including the start of Python and the JSON",
        },
        {
            "measured": "acapella kappa --json",
            "value": command.wall_s,
            "unit": "s",
            "goal": f"< {GOAL_S}",
            "note": f"{cost_text(command)}; with ratios, warnings and windows",
        },
        {
            "measured": "plain Python",
            "value": plain.wall_s,
            "unit": "s",
            "note": f"{cost_text(plain)}; all integers equal those of the core",
        },
        {
            "measured": "speedup of the core",
            "value": plain.cpu_s / core.cpu_s,
            "unit": "times",
            "goal": f">= {GOAL_TIMES}",
            "note": "of CPU time",
        },
    ]
    return rows + hard_orders(bench, packets, core) + long_trials(bench) + long_files(bench)


def cost_text(run: Measured) -> str:
    """Return CPU time and memory of a run as text."""
    return f"{run.cpu_s:.2f} s of CPU (user and system), peak {run.peak_mib:.0f} MiB"


def trials(bench: Bench, packets: int, order: str) -> tuple[Path, Path]:
    """Write two captures; ``order``: order of the packets of B. The caller deletes them."""
    paths = bench.directory / f"{order}-a.pcap", bench.directory / f"{order}-b.pcap"
    bench.run([native_program("acapella-trials"), "write", packets, order, *paths])
    return paths


def compared(bench: Bench, module: str, paths: tuple[Path, Path]) -> Measured:
    """Run one comparison by a module of this package."""
    return bench.measure([sys.executable, "-m", f"acapella_bench.{module}", *paths], keep=True)


def compare_with_plain(bench: Bench, packets: int) -> tuple[Measured, Measured, Measured]:
    """Return the runs of the core (the faster of two), the command, and plain Python on the same files.

    Raises Failed if the results of the core and of plain Python differ.
    """
    paths = trials(bench, packets, "ordered")
    core = min((compared(bench, "native_kappa", paths) for _ in range(2)), key=lambda run: run.wall_s)
    command = bench.measure(acapella("kappa", *paths, "--json"))
    plain = compared(bench, "plain.kappa", paths)
    for path in paths:
        path.unlink()
    if json.loads(core.stdout) != json.loads(plain.stdout):
        raise Failed("kappa: the results of the native core and plain Python differ")
    return core, command, plain


def hard_orders(bench: Bench, packets: int, ordered: Measured) -> list[dict]:
    """Return rows for orders in which many packets moved."""
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
                "goal": f"<= {MAX_TIMES_ORDERED}",
                "note": f"{json.loads(done.stdout)['pair']['order']['moved']:,} packets moved, {done.wall_s:.2f} s",
            }
        )
    return rows


def long_trials(bench: Bench) -> list[dict]:
    """Return the cost per packet of trials that are generated in memory, without files."""
    rows, first = [], None
    for packets in bench.scale["kappa_cost"]:
        if bench.longest and packets > bench.longest:
            continue
        done = bench.measure([native_program("acapella-trials"), "compare", packets, "ordered"], keep=True)
        facts = json.loads(done.stdout)
        cost_ns, kernel_ns = (facts[name] / packets * 1e9 for name in ("compare_s", "kernel_s"))
        first = first or cost_ns
        rows.append(
            {
                "measured": f"{packets:,} a side",
                "value": cost_ns,
                "unit": "ns/packet",
                "goal": "at most twice the first" if rows else "",
                "note": f"{cost_ns / first:.2f} times the first; {kernel_ns:.0f} ns of it in the kernel, for memory; "
                f"{facts['peak_mib']:,} MiB for both sides",
            }
        )
    return rows


def long_files(bench: Bench) -> list[dict]:
    """Return the cost per packet of pcap files, read from disk and then from memory, and the speed of the disk."""
    packets = min(bench.scale["kappa_files"], bench.longest or bench.scale["kappa_files"])
    paths = trials(bench, packets, "ordered")
    size = sum(path.stat().st_size for path in paths)
    rows, cached = [], drop_from_cache(paths)
    started = time.monotonic()
    for path in paths:
        read_all(path)
    disk = size / (time.monotonic() - started) / 1e6
    rows.append({"measured": "the disk alone", "value": disk, "unit": "MB/s", "note": f"{size / 1e9:.1f} GB, {cached}"})
    for source, note in (("disk", drop_from_cache(paths)), ("memory", "read shortly before")):
        done = bench.measure([native_program("acapella-trials"), "files", *paths], keep=True)
        rows.append(
            {
                "measured": f"{packets:,} a side, pcaps on {source}",
                "value": done.cpu_s / packets * 1e9,
                "unit": "ns/packet",
                "note": f"of CPU; {done.wall_s:.1f} s, {size / done.wall_s / 1e6:,.0f} MB/s; {note}; "
                f"peak {done.peak_mib:,.0f} MiB",
            }
        )
    for path in paths:
        path.unlink()
    return rows


CHUNK = 1 << 20  # bytes


def read_all(path: Path) -> None:
    """Read a file once."""
    with path.open("rb", buffering=0) as file:
        buffer = bytearray(CHUNK)
        while file.readinto(buffer):
            pass


def drop_from_cache(paths: tuple[Path, Path]) -> str:
    """Drop the files from the page cache, which needs no privileges. Return the share that remained in it, as text."""
    kept = checked = 0
    for path in paths:
        with path.open("rb", buffering=0) as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for at in range(0, path.stat().st_size, 16 * CHUNK):
                checked += 1
                kept += in_memory(file.fileno(), at)
    return f"{100 * kept / checked:.0f} % of it in memory before the run"


def in_memory(descriptor: int, at: int) -> bool:
    """Return whether a byte of a file is in the page cache."""
    try:
        return os.preadv(descriptor, [bytearray(1)], at, os.RWF_NOWAIT) == 1
    except OSError:  # the read would block, or the file system does not support RWF_NOWAIT
        return False
