"""Run a P4 program on captures, in DPDK's software pipeline.

    acapella p4 run preprocess --in s1.pcap --control filter.txt --out kept.pcap --stats kept.json
    acapella p4 run flowstats --in s1.pcap --in s2.pcap --control qp.txt --out reports.pcap
    acapella p4 run flowstats --in s1.pcap --pace --out-interface eth1 --collector 127.0.0.1:7471 \\
        --secret reports/collector.secret

PROGRAM is a program of the project (p4/spec) or a .spec file of p4c-dpdk. Captures are pcap or pcapng, optionally
compressed with gzip, zstd or lz4. Each capture is an ingress port; frames enter in order of their timestamps. With
--commands, statements of control files are read from standard input while the program runs. flowstats needs queue pairs
to report to, assigned by a collector or set in a control file (docs/collector.md has an example).

Exit codes:

    0   success
    1   an error while running or writing, or the compressed data of a capture is damaged (outputs contain the frames
        before the damage)
    2   an error in the arguments or the input
    75  the machine lacks disk space or memory, or a disk failed

The program runs as a compiled pipeline if the source of the installed DPDK is available (make dpdk-source), otherwise
in DPDK's interpreter. The output is the same; the statistics record which one was used.
"""

import argparse
import functools
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from acapella.common import decompression
from acapella.common.control_channel import Collector, Hello
from acapella.common.faults import DAMAGING
from acapella_core import confinement, files, names, p4_control
from acapella_core import decompression as limits
from acapella_core.errors import UserError

from . import compiled, data_plane, flowstats

LOADER = "acapella-p4-run"
SPECS = Path(__file__).resolve().parents[4] / "p4" / "spec"
REPORT_FORMATS = (1, 2)
ADDRESS = re.compile(r"\[?([^\[\]]+?)\]?:([0-9]{1,5})")


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4 run`."""
    parser = subparsers.add_parser(
        "run",
        help="run a P4 program on captures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", metavar="PROGRAM", help="preprocess, flowstats, or the path of a .spec file")
    parser.add_argument(
        "--in",
        dest="captures",
        metavar="CAPTURE",
        action="append",
        required=True,
        help="capture of port 0; repeat the option for ports 1, 2, ...",
    )
    parser.add_argument("--out", metavar="PATH", type=Path, help="write sent frames to .pcap or .pcapng")
    parser.add_argument("--out-interface", metavar="NAME", help="send frames to an interface")
    parser.add_argument(
        "--control",
        metavar="PATH",
        type=Path,
        action="append",
        default=[],
        help="control file: tables, registers, epochs",
    )
    parser.add_argument("--commands", action="store_true", help="read control statements from standard input")
    parser.add_argument("--stats", metavar="PATH", type=Path, help="write counters as JSON")
    parser.add_argument("--frames", metavar="PATH", type=Path, help="write the outcome of each frame as TSV")
    parser.add_argument("--dump-registers", metavar="PATH", type=Path, help="write all registers at the end as JSON")
    parser.add_argument(
        "--pace", action="store_true", help="replay with the timing of the captures (default: full speed)"
    )
    parser.add_argument("--burst", metavar="N", help="burst size, in frames (default: 32)")
    parser.add_argument(
        "--collector", metavar="HOST:PORT", help="use queue pairs assigned by this collector (flowstats)"
    )
    parser.add_argument(
        "--secret",
        metavar="FILE",
        type=Path,
        help="secret of the collector: collector.secret in its directory",
    )
    parser.add_argument(
        "--format", type=int, choices=REPORT_FORMATS, help="report format: 1 (the paper's) or 2 (default: 2)"
    )
    parser.add_argument(
        "--pipeline",
        choices=compiled.PIPELINES,
        default="auto",
        help="run the program compiled or interpreted; auto: compiled if possible (default: auto)",
    )
    parser.add_argument(
        "--dpdk-source",
        metavar="DIR",
        type=Path,
        help=f"source of the installed DPDK (default: ${compiled.SOURCE_VARIABLE}, then build/dpdk-source)",
    )
    limits.add_options(parser)
    return parser


def loader() -> str:
    """Return the loader's path. Raises UserError if it was not built."""
    path = shutil.which(LOADER) or shutil.which(LOADER, path=str(Path(sys.executable).parent))
    if path is None:
        raise UserError(f"{LOADER} not found", where="p4 run", fix="apt-get install libdpdk-dev, then make setup")
    return path


def spec_of(program: str) -> Path:
    """Return the .spec of one of the project's programs, or the given file. Raises UserError if it does not exist."""
    if program.endswith(".spec"):
        return Path(program)
    path = SPECS / f"{program}.spec"
    if not path.exists():
        programs = ", ".join(sorted(path.stem for path in SPECS.glob("*.spec"))) or "none"
        raise UserError("no such program", where=program, fix=f"available: {programs}; or name a .spec file")
    return path


def reasons_of(spec: Path) -> list[str]:
    """Return control statements with a program's drop reasons, from the .json file next to its .spec (p4/compile)."""
    sidecar = spec.with_suffix(".json")
    if not sidecar.exists():
        return []
    try:
        reasons = json.loads(sidecar.read_text(encoding="utf-8")).get("reasons", {})
        return [f"reason {int(number)} {name}" for number, name in reasons.items()]
    except (ValueError, AttributeError) as error:
        raise UserError(f"not written by p4/compile: {error}", where=sidecar, fix="run p4/compile again") from error


def collector_of(text: str | None, secret: Path | None) -> Collector | None:
    """Return the collector of --collector and --secret; None if there is none. Raises UserError."""
    if text is None:
        if secret:
            raise UserError("requires --collector", where=f"--secret {secret}", fix="use both options or neither")
        return None
    match = ADDRESS.fullmatch(text)
    if not match or not 0 < int(match[2]) < 65536:
        raise UserError("not HOST:PORT", where=f"--collector {text}")
    if secret is None:
        fix = "add --secret DIRECTORY/collector.secret"
        raise UserError("the collector requires a secret", where=f"--collector {text}", fix=fix)
    return Collector(match[1], int(match[2]), secret)


def initial_statements(args: argparse.Namespace, spec: Path) -> list[str]:
    """Return control statements that precede the user's.

    Raises UserError if control files or options do not match the program.
    """
    lines = reasons_of(spec)
    required = {"format": args.format, "qp_number": args.collector}
    for (register, value), option in zip(required.items(), ("--format", "--collector"), strict=True):
        if value and not has_register(spec, register):
            raise UserError(f"{spec.stem} sends no reports", where=option, fix="remove it, or run flowstats")
    lines += [f"register format 0 {args.format}"] if args.format else []
    if spec.resolve() == (SPECS / "flowstats.spec").resolve():
        only_files = not (args.collector or args.commands)
        lines += flowstats.check_control_files(
            args.control, queue_pairs=only_files and bool(args.out or args.out_interface)
        )
    elif spec.resolve() == (SPECS / "preprocess.spec").resolve():
        p4_control.check_preprocess(args.control)
    return lines


def has_register(spec: Path, name: str) -> bool:
    """Return whether a program has a register; true for an unreadable .spec, which the loader reports."""
    try:
        return f"regarray {name} " in spec.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return True


def log_outcome(
    statistics: Path, program: str, captures: Sequence[Path], faults: dict[int, decompression.Fault]
) -> int:
    """Print counters, and the captures that end early, on standard error.

    Return 1 if the bytes of a capture are damaged, else 0.
    """
    counters = json.loads(statistics.read_text(encoding="utf-8"))
    not_sent = sorted(counters["sunk"].items(), key=lambda entry: -entry[1])
    not_sent += [(f"dropped: {name}", count) for name, count in counters["dropped"].items() if count]
    sent = (
        f"{counters['reports']:,} reports"
        if counters["reports"] or program == "flowstats"
        else f"{counters['out']:,} sent"
    )
    reasons = ", ".join(f"{count:,} {name}" for name, count in not_sent)
    data_plane.log(f"{counters['in']:,} frames, {sent}" + (f"; not sent: {reasons}" if not_sent else ""))
    for port in counters["ports"]:
        if port["end"] != "clean" and port["port"] not in faults:
            data_plane.log(f"{port['file']}: ends within a record; its {port['in']:,} complete frames were read")
    for port_number, fault in faults.items():
        names.report(fault.line(captures[port_number], counters["ports"][port_number]["in"]))
    return int(any(fault.kind in DAMAGING for fault in faults.values()))


def command_of(
    args: argparse.Namespace, spec: Path, prepared: Path, library: Path | None, captures: list[str]
) -> list[str]:
    """Return the loader's command line.

    ``prepared`` is a control file that precedes the user's; ``captures`` are the arguments that name the captures.
    """
    command = [loader(), "--parent", str(os.getpid()), "--spec", str(spec), "--control", str(prepared)]
    command += ["--library", str(library)] if library else []
    command += captures
    command += [argument for path in args.control for argument in ("--control", str(path))]
    options = {
        "--out": args.out,
        "--out-interface": args.out_interface,
        "--stats": args.stats,
        "--frames": args.frames,
        "--dump-registers": args.dump_registers,
        "--burst": args.burst,
    }
    command += [argument for name, value in options.items() if value is not None for argument in (name, str(value))]
    return command + [name for name, enabled in (("--pace", args.pace), ("--commands", args.commands)) if enabled]


def output_directories(args: argparse.Namespace) -> list[Path] | None:
    """Return the output directories of the loader; None if it sends to an interface, which requires network access."""
    if args.out_interface:
        return None
    return [path.parent for path in (args.out, args.stats, args.frames, args.dump_registers) if path]


def start_loader(
    directories: list[Path] | None, command: Sequence[str], arguments: Sequence[str] = (), **options
) -> subprocess.Popen:
    """Start the loader, confined to ``directories`` (of its outputs); not confined if this is None."""
    command = [*command, *arguments]
    if directories is None:
        return confinement.in_lasting_thread(functools.partial(subprocess.Popen, command, **options))
    return confinement.start(command, directories, **options)


def wait_for(process: subprocess.Popen) -> int:
    """Return the loader's exit code. If this process is interrupted, stop the loader, which then writes its outputs."""
    try:
        code = process.wait()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait()
        finally:  # even after a second interrupt
            process.kill()
            process.wait()
        raise
    if code < 0:
        raise UserError(f"{LOADER} was killed by {signal.Signals(-code).name}", where="p4 run")
    return code


def run(args: argparse.Namespace) -> int:
    """Run the program; return the loader's exit code."""
    spec = spec_of(args.program)
    collector = collector_of(args.collector, args.secret)
    if collector and args.commands:
        raise UserError(
            "not allowed with --commands", where="--collector", fix="remove one of them: both write registers"
        )
    lines = initial_statements(args, spec)
    with files.scratch_directory() as directory:
        prepared = directory / "program.control"
        prepared.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        args.stats = args.stats or directory / "statistics.json"
        captures = [Path(name) for name in args.captures]
        pipeline = compiled.choose(args.pipeline, loader(), spec, args.dpdk_source)
        with decompression.streamed(captures, limits=limits.limits_of(args)) as streams:
            command = command_of(args, spec, prepared, pipeline.library, streams.arguments)
            start = functools.partial(start_loader, output_directories(args), command, pass_fds=streams.descriptors)
            if collector:
                hello = Hello(spec.stem, args.format or REPORT_FORMATS[-1], secrets.token_hex(8))
                code = data_plane.run(start, collector, hello, args.stats)
            else:
                code = wait_for(start())
        if code == 0:
            code = log_outcome(args.stats, spec.stem, captures, streams.faults)
            if pipeline.reason:
                data_plane.log(f"interpreted, not compiled: {pipeline.reason}")
        return code
