"""Measure the share of reports that the collector takes when they are offered from memory at set rates.

Reports are in a ring, as an RDMA NIC would have written them, which takes no processor: at any time the ring holds as
many as the rate implies. The collector reads what is there. If it falls behind by more than the ring, overwritten
reports are lost and counted; so are reports that it has not read 1 % of the time after the last one was offered, which
else a ring of half a million would hide, and reports that it discards because they are not newer than the one before of
their flow. Each pass over the ring has later times and larger counts; writing these does not count as time.

After the rates that were set, the measurement halves the interval between the highest rate without loss and the lowest
with loss, and then offers reports as fast as this machine copies them in memory: no sender is faster here (figure 7b of
the P4/RDMA paper). Last, reports that the P4 program makes of two generated traces, of 166 and 2,989 Mbit/s, are
offered at multiples of the traces' own rate (replay.py).
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from . import program, replay

REPORT_BYTES, FORMAT = 64, 1
FLOWS = 1 << 17
RING = 1 << 19  # reports; a multiple of FLOWS, so that each pass continues the flows of the one before
HALVINGS = 4  # of the interval in which losses begin
STEP_NS, PACKET_BYTES, PAYLOAD_BYTES = 50, 1500, 1460  # between two reports, and what each adds to its flow
BATCH = 1 << 16  # reports that are read at once, at the most; also at most BATCH_SHARE of those offered
BATCH_SHARE = 0.001  # bounds by how much the last batch exceeds LATE
LATE = 1.01  # of the time of a run: what is read later is lost
SECONDS = 1.0


@dataclass
class Run:
    """Counts of a run: reports offered, read from the ring, and overwritten before they were read or read too late."""

    offered: int = 0
    read: int = 0
    lost: int = 0
    seconds: float = 0.0


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella measure-collector`."""
    parser = subparsers.add_parser(
        "measure-collector", help="share of reports that the collector takes at set rates", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="JSON")
    parser.add_argument("--rates", nargs="+", type=float, default=[1, 2, 5, 10, 20, 40], metavar="N",
                        help="million reports a second (default: 1 2 5 10 20 40)")  # fmt: skip
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="workers (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=SECONDS, metavar="S", help="a run (default: %(default)s)")
    return parser


def run(args: argparse.Namespace) -> None:
    """Measure and write the file. Raises UserError."""
    if args.seconds <= 0 or args.threads < 1 or min(args.rates) <= 0:
        raise UserError("--rates, --threads and --seconds are to be above 0")
    memory = ring()
    rows = []
    limit = sender_rps(memory)
    for rate in rates(args.rates, limit, rows):
        rows.append(measured(memory, rate, args.threads, args.seconds))
        print(as_text(rows[-1]), flush=True)
    if why := program.missing():
        print(f"no replay of traces: {why}", flush=True)
    else:
        replays = replay.rows()
        print("\n".join(f"{row['trace']} x {row['speed']:g}: {as_text(row)}" for row in replays), flush=True)
        rows += replays
    args.output.parent.mkdir(parents=True, exist_ok=True)
    atomic_text(args.output, json.dumps({"version": 1, "runs": rows}, indent=1) + "\n")


def as_text(row: dict) -> str:
    """Return a line about a run."""
    share = "" if row["success_share"] is None else f"{100 * row['success_share']:.4g} % taken, "
    return f"{row['offered_rps'] / 1e6:.3g} M/s offered: {share}{row['lost']:,} lost, {row['discarded']:,} discarded"


def rates(given: list[float], limit: float, rows: list[dict]) -> Iterator[float]:
    """Yield rates in reports/s: the given ones (in millions), those that narrow down where losses begin, the limit.

    ``rows`` has the runs so far. Rates above the limit are left out.
    """
    yield from (rate * 1e6 for rate in given if rate * 1e6 < limit)
    for _ in range(HALVINGS):
        whole = max((row["offered_rps"] for row in rows if row["accepted"] == row["offered"]), default=0)
        failing = min((row["offered_rps"] for row in rows if row["offered_rps"] > whole), default=limit)
        yield round((whole + failing) / 2, -3)
    yield limit


def ring():
    """Return a ring of reports in the published format: FLOWS flows in turn, each report later than the one before."""
    import numpy as np  # noqa: PLC0415 (only here)

    number = np.arange(RING, dtype=np.uint64)
    turn = number // FLOWS
    record = np.zeros(
        RING,
        dtype=[("src", ">u4"), ("dst", ">u4"), ("ports", ">u4"), ("rtt", ">u4"), ("bytes", ">u4", 4), ("iat", ">u4"),
               ("type", ">u4"), ("packets", ">u2", 4), ("ack", ">u4"), ("seq", ">u4"), ("stamp", ">u8")],
    )  # fmt: skip
    record["src"] = 0x0A000000 + number % FLOWS
    record["dst"] = 0xC0000201
    record["ports"] = 443
    record["bytes"] = (PACKET_BYTES * (turn + 1))[:, None]
    record["packets"] = (turn + 1)[:, None] % 65536
    record["type"] = 2
    record["ack"] = PAYLOAD_BYTES * (turn + 1)
    record["seq"] = PAYLOAD_BYTES * (turn + 2)
    record["stamp"] = (number + 1) * STEP_NS
    return record


def advance(reports, passes: int = 1) -> None:
    """Rewrite reports of the ring in place, as those of a later pass; counts wrap like the program's cells."""
    turns = passes * (RING // FLOWS)
    reports["stamp"] += passes * RING * STEP_NS
    reports["bytes"] += PACKET_BYTES * turns % 2**32
    reports["packets"] += turns % 2**16
    for name in ("ack", "seq"):
        reports[name] += PAYLOAD_BYTES * turns % 2**32


def sender_rps(memory) -> float:
    """Return the rate at which this machine copies reports in memory, reports/s: the best of three passes."""
    import numpy as np  # noqa: PLC0415 (only here)

    source, target = memory.view(np.uint8), np.ones(memory.nbytes, np.uint8)
    best = float("inf")
    for _ in range(3):
        start = time.monotonic()
        np.copyto(target, source)
        best = min(best, time.monotonic() - start)
    return len(memory) / best


def measured(memory, rate: float, threads: int, seconds: float) -> dict:
    """Return a row of the study: reports offered at ``rate`` a second for ``seconds``. Raises UserError."""
    import numpy as np  # noqa: PLC0415 (only here)

    from acapella_core.collector import Collector, Options  # noqa: PLC0415 (pyarrow)

    memory = memory.copy()
    with Collector(options=Options(format=FORMAT, threads=threads, series_ns=None)) as collector:
        collector.feed_reports(memory[:FLOWS].view(np.uint8))  # the flows are there before the clock runs
        memory["stamp"] += FLOWS * STEP_NS
        before = collector.counters()
        got = offer(collector, memory, rate, seconds)
        after = collector.finish()
    taken, older, repeated = (after[name] - before[name] for name in ("taken", "older", "repeated"))
    if taken + older + repeated != got.read:
        raise UserError(f"{got.read} reports were read, {taken + older + repeated} counted", fix="report this defect")
    return {
        **{"offered_rps": rate, "offered": got.offered, "accepted": taken},
        **{"discarded": older + repeated, "lost": got.lost, "seconds": got.seconds, "threads": threads},
        **{"success_share": taken / got.offered if got.offered else None},
        **{"flows": FLOWS, "report_bytes": REPORT_BYTES},
    }


def offer(collector, memory, rate: float, seconds: float) -> Run:
    """Read the ring while it fills at a rate; what is overwritten before it was read, or read too late, is lost."""
    import numpy as np  # noqa: PLC0415 (only here)

    batch = min(BATCH, max(1, int(BATCH_SHARE * rate * seconds)))
    got, at, start = Run(), 0, time.monotonic()
    while True:
        now = time.monotonic() - start
        written = int(rate * min(now, seconds))
        if written - at > RING:
            start += skip(memory, at, written - RING - at)
            got.lost += written - RING - at
            at = written - RING
        if now >= seconds and (at >= written or now > LATE * seconds):
            got.lost += written - at
            break
        first = at % RING
        count = min(written - at, batch, RING - first)
        if count:
            reports = memory[first : first + count]
            collector.feed_reports(reports.view(np.uint8))
            got.read += count
            start += skip(memory, at, count)
            at += count
    got.offered, got.seconds = int(rate * seconds), time.monotonic() - start
    return got


def skip(memory, at: int, count: int) -> float:
    """Advance reports from ``at`` on to their next pass; return how long it took, s."""
    begin = time.monotonic()
    if count >= RING:
        advance(memory, count // RING)
    first, rest = at % RING, count % RING
    advance(memory[first : first + rest])
    advance(memory[: max(0, first + rest - RING)])
    return time.monotonic() - begin
