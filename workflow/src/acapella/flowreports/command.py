"""Flow statistics of the P4 program beside the exact ones: a capture through it, its reports to a collector.

    acapella flowreports trace.pcap -o reports/

Runs p4/spec/flowstats.spec over the capture on DPDK's software pipeline, gives its reports (reports.pcap, RoCEv2) to a
collector (flows, series, windows.parquet), and compares its flows with those of the digest: the ten derived metrics of
the P4/RDMA paper (table II), handshake round-trip times, inter-arrival times, throughput in windows. Prints for each
measure R² of values and of their logarithms, relative errors, the shares of values that are missing, equal, or within
1 %, the bound on its values, and whether it agrees (docs/flowreports.md). With --sketch the program runs again with
sketches of other sizes.

Every frame and report is accounted for; if a sum does not come out, the command fails. If the bytes of a capture are
damaged, the program gets the whole frames before the damage, and a line on standard error names it. The exit code is 1
then, or 0 with --acap, since that digest was kept.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from acapella.common import agreement
from acapella_core import beneath, decompression, names
from acapella_core.errors import UserError
from acapella_core.files import scratch_directory

from . import program
from .settings import PUBLISHED, Settings, Sketch

BOUND_WIDTH = max(len(agreement.bound(measure)) for measure in agreement.MEASURES)
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella flowreports`."""
    parser = subparsers.add_parser(
        "flowreports",
        help="flow statistics of the P4 program beside the exact ones",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "captures", type=Path, nargs="+", metavar="CAPTURE", help="pcap or pcapng; several are one sample"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIRECTORY", help="where all results go")
    parser.add_argument("--sample", metavar="NAME", help="what tables call it (default: the file's name)")
    parser.add_argument("--acap", type=Path, metavar="FILE", help="its digest, with --flows (default: digested here)")
    parser.add_argument("--flows", type=Path, metavar="FILE", help="the flow table of the same digest")
    parser.add_argument("--size", default="4x65536", metavar="ROWSxCELLS", help="of the sketch (default: %(default)s)")
    parser.add_argument("--sketch", nargs="+", default=[], metavar="ROWSxCELLS", help="others to try beside it")
    parser.add_argument("--epoch", default="1s", metavar="TIME", help="between its resets (default: %(default)s)")
    parser.add_argument("--window", default="1s", metavar="TIME", help="of throughput (default: %(default)s)")
    parser.add_argument(
        "--triggers", choices=("all", "published", "both"), default="all",
        help="packets that make a report: published are those of the paper (SYN, FIN, RST, ACK without data); both: "
        "all, and a second run with those of the paper for the table of accuracy (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--interval", default="100ms", metavar="TIME", help="from a flow's report to its next one at the latest"
    )
    decompression.add_options(parser)
    return parser


def confine(args: argparse.Namespace) -> None:
    """Take rights from this process, which reads captures, and from the programs that it runs on them."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - the start of `--help` stays quick

    confine_self(args.output / "reports.pcap", starts=True)


def run(args: argparse.Namespace) -> int:
    """Measure, write and print; 1 where bytes are damaged whose digest nobody kept, else 0. Raises UserError."""
    from . import sample  # noqa: PLC0415 (DuckDB, pyarrow)

    why = program.missing()
    if why is not None:
        raise UserError(f"flow reports cannot be made here: {why}")
    if (args.acap is None) != (args.flows is None):
        raise UserError("--acap and --flows belong together", fix="give both or none")
    for capture in args.captures:
        if not capture.is_file():
            raise UserError("is a directory, not a capture" if capture.is_dir() else "no such capture", where=capture)
    if args.output.exists() and not args.output.is_dir():
        raise UserError("is a file", where=args.output, fix="name a directory with -o")
    limits = decompression.limits_of(args)
    beneath.protect(args.output)
    settings = Settings(Sketch.of(args.size), duration_ns(args.epoch), interval_ns=duration_ns(args.interval))
    if args.triggers == "published":
        settings = replace(settings, triggers=PUBLISHED)
    sketches = [Sketch.of(text) for text in args.sketch]
    name = args.sample or args.captures[0].name.partition(".")[0]
    with scratch_directory() as scratch:
        acap, flows = (args.acap, args.flows) if args.acap else digested(args.captures, scratch, limits)
        damage = damage_of(acap)
        whole = whole_bytes(args.captures, acap, limits) if damage else ()
        source = sample.Source(name, tuple(args.captures), acap, flows, duration_ns(args.window), whole, limits)
        accuracy = sample.measure(source, args.output, settings, sketches, published=args.triggers == "both")
    print("\n".join(as_text(accuracy)))
    names.report(f"flowreports: {args.output}")
    fails = bool(damage) and args.acap is None
    if damage:
        code = "; exit code 1" if fails else ""
        names.report(f"acapella: {'error' if fails else 'warning'}: {name}: {damage}{code}")
    return int(fails)


def duration_ns(text: str) -> int:
    """``10s``, ``500ms``. Raises UserError."""
    unit = text.lstrip("0123456789")
    number = text.removesuffix(unit)
    if not number or unit not in UNITS or int(number) == 0:
        raise UserError(f"not a time: {text}", fix=f"a number above 0 and one of {', '.join(UNITS)}, as 10s")
    return int(number) * UNITS[unit]


def digested(captures: list[Path], directory: Path, limits) -> tuple[Path, Path]:
    """Acap and flow table of captures, by engine native."""
    from acapella.digest.command import Options, digest  # noqa: PLC0415 (pyarrow)

    acap, flows = directory / "acap.parquet", directory / "flows.parquet"
    digest([str(capture) for capture in captures], str(acap), str(flows), Options("native", limits=limits))
    return acap, flows


def damage_of(acap: Path) -> str:
    """Where the bytes of a digest's captures are damaged, in words; empty where they are not."""
    from acapella.common.faults import DAMAGING, describe_fault  # noqa: PLC0415
    from acapella.digest.acap_files import metadata_of  # noqa: PLC0415 (pyarrow)

    told = metadata_of(acap)
    if told["file_issue"] not in DAMAGING:
        return ""
    return f"{describe_fault(told)}; the reports are of the {told['frames']} whole frames before it"


def whole_bytes(captures: list[Path], acap: Path, limits) -> tuple[int | None, ...]:
    """Return the decompressed bytes of each capture before its damage, None if it has none; ``acap`` is their digest.

    The loader takes no capture that is damaged. Raises UserError if one cannot be read any more.
    """
    from acapella.digest.acap_files import metadata_of  # noqa: PLC0415 (pyarrow)
    from acapella.digest.merged import Merged  # noqa: PLC0415

    if len(captures) == 1:
        return (metadata_of(acap)["file_issue_offset"],)
    return tuple(Merged.damage_at(str(capture), limits) for capture in captures)


def as_text(accuracy: list[dict]) -> list[str]:
    """Return the lines of the table: a line per triggers and measure, with its verdict (agreement)."""
    heads = ("n", "missing", "missing_share", "outside", "extra", "equal_share", "near_share", "r2", "r2_log")
    heads += ("error_median", "error_p99", "error_largest", "covered_share", "width_median", "width_p99")
    names = f"{'triggers':9} {'measure':18}"
    lines = [" ".join([names, *(f"{head:>13}" for head in heads), f"{'bound':{BOUND_WIDTH}}", "verdict"])]
    for row in sorted(accuracy, key=lambda row: (row["triggers"], agreement.MEASURES.index(row["measure"]))):
        verdict = agreement.verdict(row)
        names = f"{row['triggers']:9} {row['measure']:18}"
        bound = f"{agreement.bound(row['measure']):{BOUND_WIDTH}}"
        lines.append(" ".join([names, *(f"{cell(row[head]):>13}" for head in heads), bound, verdict]))
    return lines


def cell(value: float | None) -> str:
    """A number of the table."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.7g}"
