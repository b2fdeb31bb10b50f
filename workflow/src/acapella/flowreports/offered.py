"""Measure what share of reports the collector takes that are offered to it from memory at set rates.

Reports lie in a ring as an RDMA NIC would have written them, which takes no processor: at any time as many are there as
the rate says. The collector reads what is there; where it falls behind by more than the ring, what was overwritten is
lost, and counted (figure 7b of the P4/RDMA paper).
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import atomic_text

REPORT_BYTES, FORMAT = 64, 1
FLOWS = 100_000
RING = 1 << 22  # reports
BATCH = 1 << 16  # reports that are read at once, at the most
SECONDS = 1.0


@dataclass
class Run:
    """What a run came to."""

    offered: int = 0
    taken: int = 0
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
    rows = [measured(memory, rate * 1e6, args.threads, args.seconds) for rate in args.rates]
    for row in rows:
        print(f"{row['reached_rps'] / 1e6:.3g} M/s offered: {100 * row['success_share']:.4g} % taken", flush=True)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    atomic_text(args.output, json.dumps({"version": 1, "runs": rows}, indent=1) + "\n")


def ring():
    """A ring of reports in the published format: of FLOWS flows in turn, each later and larger than the one before."""
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
    record["bytes"] = (1500 * (turn + 1))[:, None]
    record["packets"] = (turn + 1)[:, None] % 65536
    record["type"] = 2
    record["ack"] = 1460 * (turn + 1)
    record["seq"] = 1460 * (turn + 2)
    record["stamp"] = number * 50
    return record.view(np.uint8).reshape(-1)


def measured(memory, rate: float, threads: int, seconds: float) -> dict:
    """A row of the study: reports offered at ``rate`` a second for so long."""
    from acapella_core.collector import Collector, Options  # noqa: PLC0415 (pyarrow)

    with Collector(options=Options(format=FORMAT, threads=threads, series_ns=None)) as collector:
        collector.feed_reports(memory[: FLOWS * REPORT_BYTES])  # the flows are there before the clock runs
        before = collector.counters()
        got = offer(collector, memory, rate, seconds)
        after = collector.finish()
    taken = sum(after[name] - before[name] for name in ("taken", "older", "repeated"))
    if taken != got.taken:
        raise UserError(f"{got.taken} reports were read, {taken} came into flows", fix="this is a mistake of ours")
    return {
        **{"offered_rps": rate, "reached_rps": got.offered / seconds, "offered": got.offered},
        **{"accepted": got.taken, "lost": got.lost, "success_share": got.taken / got.offered if got.offered else None},
        **{"seconds": got.seconds, "threads": threads, "flows": FLOWS, "report_bytes": REPORT_BYTES},
    }


def offer(collector, memory, rate: float, seconds: float) -> Run:
    """Read the ring while it fills at a rate; what is overwritten before it was read is lost."""
    got, read, start = Run(), 0, time.monotonic()
    while True:
        now = time.monotonic() - start
        written = int(rate * min(now, seconds))
        if written - read > RING:
            got.lost += written - RING - read
            read = written - RING
        if now >= seconds and read >= written:
            break
        first = read % RING
        count = min(written - read, BATCH, RING - first)
        if count:
            collector.feed_reports(memory[first * REPORT_BYTES : (first + count) * REPORT_BYTES])
            got.taken += count
            read += count
    got.offered, got.seconds = int(rate * seconds), time.monotonic() - start
    got.lost = got.offered - got.taken
    return got
