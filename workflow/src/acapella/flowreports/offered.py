"""Measure the share of reports that the collector accepts when reports are offered from memory at given rates.

    acapella measure collector -o offered.json
    acapella measure collector -o offered.json --rates 10 20 --threads 2 --seconds 5

Reports are read from a ring, as if an RDMA NIC had written them; like a NIC, the sender needs no CPU. At any time, the
collector may read as many reports as the rate implies. If it falls behind by more than the size of the ring,
overwritten reports are lost and counted. Reports also count as lost if they are not read within 1 % of the run's time
after the last one was offered (otherwise the losses would not be visible, because the ring contains half a million
reports). Reports that are discarded because they are not newer than the previous report of their flow are counted
separately. Each pass over the ring has later times and larger counts; the time to update these is excluded.

After the given rates, the command repeatedly halves the interval between the highest rate at which all reports were
accepted and the next higher rate. It then offers reports as fast as this machine copies them in memory; no sender on
this machine is faster (figure 7b of the P4/RDMA paper). Finally, it offers reports that the P4 program generates from
two synthetic traces, of 166 and 2,989 Mbit/s, at multiples of the traces' rates.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acapella_core.arguments import output_file
from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from . import program, replay

REPORT_BYTES, FORMAT = 64, 1
FLOWS = 1 << 17
RING = 1 << 19  # reports; a multiple of FLOWS, so that each pass continues the flows of the one before
BISECTIONS = 4  # number of bisections of the interval in which losses begin
STEP_NS, PACKET_BYTES, PAYLOAD_BYTES = 50, 1500, 1460  # time between two reports, and the bytes that each adds
MAX_BATCH = 1 << 16  # reports read at once; also at most BATCH_SHARE of those offered
BATCH_SHARE = 0.001  # limits by how much the last batch exceeds DEADLINE
DEADLINE = 1.01  # multiple of a run's time; reports read later are lost
SECONDS = 1.0


@dataclass
class Run:
    """Counts of a run: reports offered, read from the ring, and lost (overwritten before they were read, or read too
    late).
    """

    offered: int = 0
    read: int = 0
    lost: int = 0
    seconds: float = 0.0


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella measure collector`."""
    parser = subparsers.add_parser(
        "collector", help="measure the share of reports that the collector accepts", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=output_file("JSON", Path), required=True, metavar="FILE", help="result in JSON"
    )
    parser.add_argument("--rates", nargs="+", type=float, default=[1, 2, 5, 10, 20, 40], metavar="N",
                        help="rates in million reports/s (default: 1 2 5 10 20 40)")  # fmt: skip
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="worker threads (default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="seconds per run (default: %(default)s)"
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Measure and write the file. Raises UserError."""
    if args.seconds <= 0 or args.threads < 1 or min(args.rates) <= 0:
        raise UserError("--rates, --threads and --seconds must be larger than 0")
    memory = ring()
    rows = []
    limit = sender_rps(memory)
    for rate in rates(args.rates, limit, rows):
        rows.append(measured(memory, rate, args.threads, args.seconds))
        print(as_text(rows[-1]), flush=True)
    if reason := program.why_unavailable():
        print(f"no replay of traces: {reason}", flush=True)
    else:
        replays = replay.rows()
        print("\n".join(f"{row['trace']} x {row['speed']:g}: {as_text(row)}" for row in replays), flush=True)
        rows += replays
    args.output.parent.mkdir(parents=True, exist_ok=True)
    atomic_text(args.output, json.dumps({"version": 1, "runs": rows}, indent=1) + "\n")


def as_text(row: dict) -> str:
    """Return a line about a run."""
    share = "" if row["success_share"] is None else f"{100 * row['success_share']:.4g} % accepted, "
    return f"{row['offered_rps'] / 1e6:.3g} M/s offered: {share}{row['lost']:,} lost, {row['discarded']:,} discarded"


def rates(millions: list[float], limit: float, rows: list[dict]) -> Iterator[float]:
    """Yield rates in reports/s: those in ``millions``, bisections to find the onset of losses, and the limit.

    ``rows`` contains the runs so far. Rates above the limit are omitted.
    """
    yield from (rate * 1e6 for rate in millions if rate * 1e6 < limit)
    for _ in range(BISECTIONS):
        lossless = max((row["offered_rps"] for row in rows if row["accepted"] == row["offered"]), default=0)
        lossy = min((row["offered_rps"] for row in rows if row["offered_rps"] > lossless), default=limit)
        yield round((lossless + lossy) / 2, -3)
    yield limit


def ring():
    """Return a ring of reports in the published format, of FLOWS flows in turn, each later than the previous one."""
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
    """Change reports of the ring in place to their values in a later pass; counts wrap like the program's cells."""
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
    """Return a row of the study: reports offered at ``rate`` per second for ``seconds``. Raises UserError."""
    import numpy as np  # noqa: PLC0415 (only here)

    from acapella_core.collector import Collector, Options  # noqa: PLC0415 (pyarrow)

    memory = memory.copy()
    with Collector(options=Options(format=FORMAT, threads=threads, series_ns=None)) as collector:
        collector.feed_reports(memory[:FLOWS].view(np.uint8))  # all flows exist before the measurement
        memory["stamp"] += FLOWS * STEP_NS
        counters_before = collector.counters()
        counts = offer(collector, memory, rate, seconds)
        counters_after = collector.finish()
    accepted, older, repeated = (
        counters_after[name] - counters_before[name] for name in ("taken", "older", "repeated")
    )
    if accepted + older + repeated != counts.read:
        raise UserError(
            f"{counts.read} reports were read, {accepted + older + repeated} counted", fix="report this defect"
        )
    return {
        **{"offered_rps": rate, "offered": counts.offered, "accepted": accepted},
        **{"discarded": older + repeated, "lost": counts.lost, "seconds": counts.seconds, "threads": threads},
        **{"success_share": accepted / counts.offered if counts.offered else None},
        **{"flows": FLOWS, "report_bytes": REPORT_BYTES},
    }


def offer(collector, memory, rate: float, seconds: float) -> Run:
    """Read the ring while it fills at a rate; reports overwritten before they are read, or read too late, are lost."""
    import numpy as np  # noqa: PLC0415 (only here)

    batch = min(MAX_BATCH, max(1, int(BATCH_SHARE * rate * seconds)))
    counts, position, start = Run(), 0, time.monotonic()
    while True:
        now = time.monotonic() - start
        written = int(rate * min(now, seconds))
        if written - position > RING:
            start += advance_range(memory, position, written - RING - position)
            counts.lost += written - RING - position
            position = written - RING
        if now >= seconds and (position >= written or now > DEADLINE * seconds):
            counts.lost += written - position
            break
        first = position % RING
        count = min(written - position, batch, RING - first)
        if count:
            reports = memory[first : first + count]
            collector.feed_reports(reports.view(np.uint8))
            counts.read += count
            start += advance_range(memory, position, count)
            position += count
    counts.offered, counts.seconds = int(rate * seconds), time.monotonic() - start
    return counts


def advance_range(memory, position: int, count: int) -> float:
    """Change the reports from ``position`` on to their values in the next pass; return the time taken, in s."""
    begin = time.monotonic()
    if count >= RING:
        advance(memory, count // RING)
    first, rest = position % RING, count % RING
    advance(memory[first : first + rest])
    advance(memory[: max(0, first + rest - RING)])
    return time.monotonic() - begin
