"""Compare flow statistics of the P4 program with exact ones: run a capture through the program and a collector.

    acapella p4 reports trace.pcap -o reports/
    acapella p4 reports trace.pcap -o reports/ --sketch 4x1024 4x16384

Runs p4/spec/flowstats.spec over the capture on DPDK's software pipeline, feeds its reports (reports.pcap, RoCEv2) to a
collector (flows, series, windows.parquet), and compares the flows with those of the digest: the ten derived metrics of
the P4/RDMA paper (table II), handshake round-trip times, inter-arrival times, and throughput in windows. For each
measure, prints R² of the values and of their logarithms, relative errors, the shares of values that are missing, equal,
or within 1 %, the bound for agreement, and whether it agrees (docs/flowreports.md). With --sketch, the program is rerun
with different sketch sizes.

Every frame and report is accounted for; the command fails if the sums differ. If the bytes of a capture are damaged,
the program reads the complete frames before the damage, and a message on standard error names the capture. The exit
code is then 1, or 0 with --acap, because the acap already records the damage.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from acapella.campaign.layout import require
from acapella.common import agreement
from acapella.common.time_limit import time_limit
from acapella.digest import duration
from acapella_core import beneath, decompression, names
from acapella_core.errors import UserError
from acapella_core.files import scratch_directory

from . import program
from .settings import PUBLISHED, Settings, Sketch

BOUND_WIDTH = max(len(agreement.bound(measure)) for measure in agreement.MEASURES)
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4 reports`."""
    parser = subparsers.add_parser(
        "reports",
        help="compare flow statistics of the P4 program with exact ones",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "captures", type=Path, nargs="+", metavar="CAPTURE", help="pcap or pcapng; several captures form one sample"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIRECTORY", help="output directory")
    parser.add_argument(
        "--sample",
        metavar="NAME",
        help="sample name in tables (default: name of the first capture up to its first dot)",
    )
    parser.add_argument(
        "--acap", type=Path, metavar="FILE", help="acap of the capture; requires --flows (default: run the digest)"
    )
    parser.add_argument("--flows", type=Path, metavar="FILE", help="flow table of the same digest")
    parser.add_argument("--size", default="4x65536", metavar="ROWSxCELLS", help="sketch size (default: %(default)s)")
    parser.add_argument(
        "--sketch", nargs="+", default=[], metavar="ROWSxCELLS", help="additional sketch sizes to compare"
    )
    parser.add_argument(
        "--epoch", default="1s", metavar="TIME", help="time between resets of the sketch (default: %(default)s)"
    )
    parser.add_argument("--window", default="1s", metavar="TIME", help="window for throughput (default: %(default)s)")
    parser.add_argument(
        "--triggers", choices=("all", "published", "both"), default="all",
        help="packets that trigger a report; published: those of the paper (SYN, FIN, RST, ACK without data); both: "
        "all, plus a second run with those of the paper for the accuracy table (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--interval",
        default="100ms",
        metavar="TIME",
        help="maximum time between two reports of a flow (default: %(default)s)",
    )
    parser.add_argument(
        "--max-seconds",
        metavar="SECONDS",
        type=float,
        help=f"time limit: this number of seconds, plus {duration.REPORT_MINUTES_PER_GIB} minutes for each GiB of "
        f"input. A compressed capture counts as {duration.COMPRESSED} times its size (default: none)",
    )
    decompression.add_options(parser)
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process and the programs that it runs, because they read captures."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(args.output / "reports.pcap", starts=True)


def preload(args: argparse.Namespace) -> None:
    """Import what a comparison uses, before `acapella campaign batch` forks a process for each sample."""
    import duckdb  # noqa: F401, PLC0415 - keeps `--help` fast

    import acapella.digest.acap_files  # noqa: F401, PLC0415 (pyarrow)

    from . import sample  # noqa: F401, PLC0415


def run(args: argparse.Namespace) -> int:
    """Measure, write and print. Return 1 if bytes are damaged and no digest was given, else 0. Raises UserError."""
    from . import sample  # noqa: PLC0415 (DuckDB, pyarrow)

    reason = program.why_unavailable()
    if reason is not None:
        raise UserError(f"cannot run the P4 program: {reason}", outside=True)
    if (args.acap is None) != (args.flows is None):
        raise UserError("--acap and --flows require each other", fix="use both options or neither")
    for table in filter(None, (args.acap, args.flows)):
        require(table, "run acapella digest first")
    for capture in args.captures:
        if not capture.is_file():
            raise UserError("is a directory, not a capture" if capture.is_dir() else "no such file", where=capture)
    if args.output.exists() and not args.output.is_dir():
        raise UserError("not a directory", where=args.output, fix="specify a directory with -o")
    limits = decompression.limits_of(args)
    beneath.protect(args.output)
    settings = Settings(Sketch.of(args.size), duration_ns(args.epoch), interval_ns=duration_ns(args.interval))
    if args.triggers == "published":
        settings = replace(settings, triggers=PUBLISHED)
    sketches = [Sketch.of(text) for text in args.sketch]
    name = args.sample or args.captures[0].name.partition(".")[0]
    limited = time_limit(limit_s(args), where=name, fix="raise --max-seconds")
    with scratch_directory() as scratch, limited:
        acap, flows = (args.acap, args.flows) if args.acap else run_digest(args.captures, scratch, limits)
        damage = damage_of(acap)
        undamaged = undamaged_bytes(args.captures, acap, limits) if damage else ()
        source = sample.Source(name, tuple(args.captures), acap, flows, duration_ns(args.window), undamaged, limits)
        accuracy = sample.measure(source, args.output, settings, sketches, published=args.triggers == "both")
    print("\n".join(as_text(accuracy)))
    names.report(f"flowreports: {args.output}")
    failed = bool(damage) and args.acap is None
    if damage:
        code = "; exit code 1" if failed else ""
        names.report(f"acapella: {'error' if failed else 'warning'}: {name}: {damage}{code}")
    return int(failed)


def limit_s(args: argparse.Namespace) -> float | None:
    """Return the time limit in seconds. Raises UserError if --max-seconds is not a number above 0."""
    if args.max_seconds is None:
        return None
    if not 0 < args.max_seconds <= duration.MAX_TIMEOUT_S:
        raise UserError(f"--max-seconds must be above 0 and at most {duration.MAX_TIMEOUT_S}", where=args.max_seconds)
    sizes = {str(capture): capture.stat().st_size for capture in args.captures}
    return duration.with_size(args.max_seconds, duration.REPORT_MINUTES_PER_GIB, sizes)


def duration_ns(text: str) -> int:
    """Return a duration such as ``10s`` or ``500ms`` in ns. Raises UserError."""
    unit = text.lstrip("0123456789")
    number = text.removesuffix(unit)
    if not number or unit not in UNITS or int(number) == 0:
        raise UserError(
            f"not a duration: {text}", fix=f"use a number above 0 with one of {', '.join(UNITS)}, such as 10s"
        )
    return int(number) * UNITS[unit]


def run_digest(captures: list[Path], directory: Path, limits) -> tuple[Path, Path]:
    """Digest captures with the native engine; return the acap and the flow table."""
    from acapella.digest.command import Options, digest  # noqa: PLC0415 (pyarrow)

    acap, flows = directory / "acap.parquet", directory / "flows.parquet"
    digest([str(capture) for capture in captures], str(acap), str(flows), Options("native", limits=limits))
    return acap, flows


def damage_of(acap: Path) -> str:
    """Return a description of the damage in a digest's captures; an empty string if no bytes are damaged."""
    from acapella.common.faults import DAMAGING, describe_fault  # noqa: PLC0415
    from acapella.digest.acap_files import metadata_of  # noqa: PLC0415 (pyarrow)

    metadata = metadata_of(acap)
    if metadata["file_issue"] not in DAMAGING:
        return ""
    return f"{describe_fault(metadata)}; the reports cover only the {metadata['frames']} complete frames before it"


def undamaged_bytes(captures: list[Path], acap: Path, limits) -> tuple[int | None, ...]:
    """Return the decompressed bytes of each capture before its damage, None if it has none; ``acap`` is their digest.

    The loader rejects damaged captures. Raises UserError if one can no longer be read.
    """
    from acapella.digest.acap_files import metadata_of  # noqa: PLC0415 (pyarrow)
    from acapella.digest.merged import MergedStream  # noqa: PLC0415

    if len(captures) == 1:
        return (metadata_of(acap)["file_issue_offset"],)
    return tuple(MergedStream.first_fault_offset(str(capture), limits) for capture in captures)


def as_text(accuracy: list[dict]) -> list[str]:
    """Return the lines of the table: one per triggers and measure, with its verdict (agreement)."""
    columns = ("n", "missing", "missing_share", "outside", "extra", "ambiguous", "equal_share", "near_share")
    columns += ("r2", "r2_log", "error_median", "error_p99", "error_largest")
    columns += ("covered_share", "width_median", "width_p99")
    names = f"{'triggers':9} {'measure':18}"
    lines = [" ".join([names, *(f"{column:>13}" for column in columns), f"{'bound':{BOUND_WIDTH}}", "verdict"])]
    for row in sorted(accuracy, key=lambda row: (row["triggers"], agreement.MEASURES.index(row["measure"]))):
        verdict = agreement.verdict(row)
        names = f"{row['triggers']:9} {row['measure']:18}"
        bound = f"{agreement.bound(row['measure']):{BOUND_WIDTH}}"
        lines.append(" ".join([names, *(f"{cell(row[column]):>13}" for column in columns), bound, verdict]))
    return lines


def cell(value: float | None) -> str:
    """Return a number as text of a table cell."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.7g}"
