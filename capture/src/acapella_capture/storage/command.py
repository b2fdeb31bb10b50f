"""Measure the latency of a capture's writes while the page cache fills (Patchwork, appendix B and figure 14).

    acapella measure storage -o storage.json
    acapella measure storage -o storage.json --thresholds 5:10 10:20 --disk-mbps 200 own

The DPDK writer writes generated frames, once through the page cache (writev) and once bypassing it (io_uring,
O_DIRECT), for each pair of thresholds vm.dirty_background_ratio:vm.dirty_ratio. bpftrace records a latency histogram
every 50 ms. Then the writer runs without bpftrace, with several frame sizes and rates, to measure its loss (Patchwork,
Tables 1 and 2). Needs root, bpftrace, and acapella-dpdk-capture. The thresholds apply to the whole machine: they are
restored afterwards, but other programs may be delayed meanwhile. If something is missing, FILE contains the reason and
the exit code is 0.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from acapella_core.arguments import output_file
from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from .study import Settings, study


def register_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the parser of `acapella measure storage`."""
    parser = subparsers.add_parser(
        "storage", help="measure the latency of writes while the page cache fills", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "-o",
        "--output",
        type=output_file("JSON", Path),
        required=True,
        metavar="FILE",
        help="result in JSON; its directory is on the measured disk",
    )
    parser.add_argument("--thresholds", nargs="+", type=pair, default=[(10, 20), (20, 50)], metavar="BACKGROUND:LIMIT",
                        help="thresholds in percent (default: 10:20 20:50)")  # fmt: skip
    parser.add_argument(
        "--memory-mb",
        type=int,
        metavar="MB",
        help="memory that the percentages refer to (default: the machine's free and cached memory)",
    )
    parser.add_argument("--disk-mbps", nargs="+", type=speed, default=[None], metavar="MB/S",
                        help="disk speeds; own: not throttled (default: own)")  # fmt: skip
    parser.add_argument(
        "--frame-bytes", type=int, default=1514, metavar="BYTES", help="frame size (default: %(default)s)"
    )
    parser.add_argument("--snaplen", type=int, default=200, metavar="BYTES", help="snap length (default: %(default)s)")
    parser.add_argument("--rate", type=float, metavar="N", help="frames per second (default: unlimited)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=10,
        metavar="S",
        help="maximum duration of a run in seconds (default: %(default)s)",
    )
    parser.add_argument("--table-seconds", type=float, default=1, metavar="S",
                        help="seconds per run of the rate tables; 0: no tables (default: %(default)s)")  # fmt: skip
    return parser


def pair(text: str) -> tuple[int, int]:
    """Parse `10:20` as two percentages, the lower one first."""
    background, _, limit = text.partition(":")
    if not (background.isdecimal() and limit.isdecimal() and 0 < int(background) < int(limit) <= 100):
        raise argparse.ArgumentTypeError(f"{text}: not two percentages in ascending order, for example 10:20")
    return int(background), int(limit)


def speed(text: str) -> int | None:
    """Parse a disk speed in MB/s; None for `own`."""
    if text != "own" and not (text.isdecimal() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"{text}: neither own nor a number of MB/s")
    return None if text == "own" else int(text)


def run(args: argparse.Namespace) -> None:
    """Measure and write the file."""
    if args.table_seconds < 0:
        raise UserError(f"--table-seconds {args.table_seconds:g}: negative", fix="use 0 or more seconds")
    if args.seconds <= 0 or (args.memory_mb is not None and args.memory_mb < 64):
        raise UserError("--seconds must be larger than 0, --memory-mb at least 64")
    settings = Settings(
        thresholds=tuple(args.thresholds),
        memory_mb=args.memory_mb,
        disks_mbps=tuple(args.disk_mbps),
        frame_bytes=args.frame_bytes,
        snaplen=args.snaplen,
        rate=args.rate,
        seconds=args.seconds,
        table_seconds=args.table_seconds,
    )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    result = study(settings, args.output.parent, lambda line: print(line, flush=True))
    atomic_text(args.output, json.dumps(result, indent=1) + "\n")
