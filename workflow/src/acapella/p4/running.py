"""Run a P4 program over captures, on DPDK's software pipeline.

    acapella p4 run preprocess --in s1.pcap --control filter.txt --out kept.pcap --stats kept.json
    acapella p4 run flowstats --in s1.pcap --in s2.pcap --control qp.txt --out reports.pcap
    acapella p4 run flowstats --in s1.pcap --pace --out-interface eth1 --collector 127.0.0.1:7471 \\
        --secret reports/collector.secret

PROGRAM is one of the project's (p4/spec) or a .spec of p4c-dpdk. Captures are pcap or pcapng, also with gzip, zstd or
lz4; each is a port of its own, and their frames enter in the order of their times. With --commands the statements of a
control file are read from standard input while it runs. flowstats needs queue pairs to report to: those of a collector,
or of a control file (docs/collector.md has one). Exit status: 0, 1 after an error in running or writing, or if the
compressed data of a capture are damaged (outputs have the frames before the damage), 2 for a mistake in what was given.

The program runs as a compiled pipeline if the source of the installed DPDK is available (make dpdk-source), else in
DPDK's interpreter. The output is the same; the statistics contain which one ran.
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


def register_parser(actions) -> argparse.ArgumentParser:
    """Add `acapella p4 run`."""
    parser = actions.add_parser(
        "run",
        help="run a program over captures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("program", metavar="PROGRAM", help="preprocess, flowstats, or PATH.spec")
    parser.add_argument(
        "--in", dest="captures", metavar="CAPTURE", action="append", required=True, help="port 0, then port 1, ..."
    )
    parser.add_argument("--out", metavar="PATH", type=Path, help="what the program sends: .pcap or .pcapng")
    parser.add_argument("--out-interface", metavar="NAME", help="the same, onto an interface")
    parser.add_argument(
        "--control", metavar="PATH", type=Path, action="append", default=[], help="tables, registers, epochs"
    )
    parser.add_argument("--commands", action="store_true", help="the same statements on standard input, answered")
    parser.add_argument("--stats", metavar="PATH", type=Path, help="what became of every frame, JSON")
    parser.add_argument("--frames", metavar="PATH", type=Path, help="what became of each frame, a line each, TSV")
    parser.add_argument("--dump-registers", metavar="PATH", type=Path, help="all registers at the end, JSON")
    parser.add_argument("--pace", action="store_true", help="at the times of the captures instead of at once")
    parser.add_argument("--burst", metavar="N", help="frames read at once (default: 32)")
    parser.add_argument(
        "--collector", metavar="HOST:PORT", help="report to the queue pairs that this collector gives (flowstats)"
    )
    parser.add_argument(
        "--secret",
        metavar="FILE",
        type=Path,
        help="file with its secret: collector.secret in the collector's directory",
    )
    parser.add_argument(
        "--format", type=int, choices=REPORT_FORMATS, help="of the reports: 1 the paper's, 2 (the program's default)"
    )
    parser.add_argument(
        "--pipeline",
        choices=compiled.MODES,
        default="auto",
        help="run the program compiled or interpreted; auto: compiled if possible (default: auto)",
    )
    parser.add_argument(
        "--dpdk-source",
        metavar="DIR",
        type=Path,
        help=f"source of the installed DPDK, for compiling (default: ${compiled.VARIABLE}, then build/dpdk-source)",
    )
    limits.add_options(parser)
    parser.set_defaults(act=run)
    return parser


def loader() -> str:
    """The loader's path. Raises UserError where it was not built."""
    found = shutil.which(LOADER) or shutil.which(LOADER, path=str(Path(sys.executable).parent))
    if found is None:
        raise UserError(f"no {LOADER} here", where="p4 run", fix="apt-get install libdpdk-dev, then make setup")
    return found


def spec_of(program: str) -> Path:
    """The .spec of one of the project's programs, or the one that was named. Raises UserError where there is none."""
    if program.endswith(".spec"):
        return Path(program)
    found = SPECS / f"{program}.spec"
    if not found.exists():
        there = ", ".join(sorted(path.stem for path in SPECS.glob("*.spec"))) or "none"
        raise UserError("no such program", where=program, fix=f"there are {there}; or name a .spec")
    return found


def reasons_of(spec: Path) -> list[str]:
    """Control lines that name a program's drop reasons, from the .json that p4/compile put beside its .spec."""
    sidecar = spec.with_suffix(".json")
    if not sidecar.exists():
        return []
    try:
        reasons = json.loads(sidecar.read_text(encoding="utf-8")).get("reasons", {})
        return [f"reason {int(number)} {name}" for number, name in reasons.items()]
    except (ValueError, AttributeError) as error:
        raise UserError(f"not what p4/compile writes: {error}", where=sidecar, fix="compile again") from error


def collector_of(text: str | None, secret: Path | None) -> Collector | None:
    """Return the collector of --collector and --secret, None if none is named. Raises UserError."""
    if text is None:
        if secret:
            raise UserError("belongs to --collector", where=f"--secret {secret}", fix="name both or none")
        return None
    found = ADDRESS.fullmatch(text)
    if not found or not 0 < int(found[2]) < 65536:
        raise UserError("is not HOST:PORT", where=f"--collector {text}")
    if secret is None:
        fix = "name its file: --secret DIRECTORY/collector.secret"
        raise UserError("the collector requires a secret", where=f"--collector {text}", fix=fix)
    return Collector(found[1], int(found[2]), secret)


def lines_of(args: argparse.Namespace, spec: Path) -> list[str]:
    """What comes before the user's control files. Raises UserError where these, or options, do not fit the program."""
    lines = reasons_of(spec)
    wanted = {"format": args.format, "qp_number": args.collector}
    for (register, value), option in zip(wanted.items(), ("--format", "--collector"), strict=True):
        if value and not has_register(spec, register):
            raise UserError(f"{spec.stem} makes no reports", where=option, fix="leave it out, or run flowstats")
    lines += [f"register format 0 {args.format}"] if args.format else []
    if spec.resolve() == (SPECS / "flowstats.spec").resolve():
        alone = not (args.collector or args.commands)
        lines += flowstats.prepared(args.control, queue_pairs=alone and bool(args.out or args.out_interface))
    elif spec.resolve() == (SPECS / "preprocess.spec").resolve():
        p4_control.check_preprocess(args.control)
    return lines


def has_register(spec: Path, name: str) -> bool:
    """Whether a program has it; of a .spec that cannot be read the loader says why."""
    try:
        return f"regarray {name} " in spec.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return True


def note_outcome(
    statistics: Path, program: str, captures: Sequence[Path], faults: dict[int, decompression.Fault]
) -> int:
    """Print what became of the frames and which captures end early, on standard error.

    Return 1 if the bytes of a capture are damaged, else 0.
    """
    told = json.loads(statistics.read_text(encoding="utf-8"))
    held = sorted(told["sunk"].items(), key=lambda each: -each[1])
    held += [(f"dropped: {name}", count) for name, count in told["dropped"].items() if count]
    sent = f"{told['reports']:,} reports" if told["reports"] or program == "flowstats" else f"{told['out']:,} sent"
    without = ", ".join(f"{count:,} {name}" for name, count in held)
    data_plane.note(f"{told['in']:,} frames, {sent}" + (f"; not sent: {without}" if held else ""))
    for port in told["ports"]:
        if port["end"] != "clean" and port["port"] not in faults:
            data_plane.note(f"{port['file']}: ends within a record; its {port['in']:,} whole frames were read")
    for place, fault in faults.items():
        names.report(fault.line(captures[place], told["ports"][place]["in"]))
    return int(any(fault.kind in DAMAGING for fault in faults.values()))


def command_of(
    args: argparse.Namespace, spec: Path, prepared: Path, library: Path | None, captures: list[str]
) -> list[str]:
    """Return the loader's command line.

    ``prepared`` is a control file that comes before the user's; ``captures`` are the arguments that name the captures.
    """
    command = [loader(), "--parent", str(os.getpid()), "--spec", str(spec), "--control", str(prepared)]
    command += ["--library", str(library)] if library else []
    command += captures
    command += [word for path in args.control for word in ("--control", str(path))]
    options = {
        "--out": args.out,
        "--out-interface": args.out_interface,
        "--stats": args.stats,
        "--frames": args.frames,
        "--dump-registers": args.dump_registers,
        "--burst": args.burst,
    }
    command += [word for name, value in options.items() if value is not None for word in (name, str(value))]
    return command + [name for name, given in (("--pace", args.pace), ("--commands", args.commands)) if given]


def written_by(args: argparse.Namespace) -> list[Path] | None:
    """Return the directories of the loader's outputs; None if it sends to an interface: it needs the network."""
    if args.out_interface:
        return None
    return [path.parent for path in (args.out, args.stats, args.frames, args.dump_registers) if path]


def started(
    written: list[Path] | None, command: Sequence[str], more: Sequence[str] = (), **options
) -> subprocess.Popen:
    """Start the loader, confined if ``written`` names the directories of its outputs."""
    command = [*command, *more]
    if written is None:
        return confinement.in_lasting_thread(functools.partial(subprocess.Popen, command, **options))
    return confinement.start(command, written, **options)


def wait_for(process: subprocess.Popen) -> int:
    """Its exit code; where we are to end, it is told to, so that it writes what it has."""
    try:
        code = process.wait()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait()
        finally:  # also where we are told once more
            process.kill()
            process.wait()
        raise
    if code < 0:
        raise UserError(f"{LOADER} was killed by {signal.Signals(-code).name}", where="p4 run")
    return code


def run(args: argparse.Namespace) -> int:
    """Run the program; the loader's exit code."""
    spec = spec_of(args.program)
    collector = collector_of(args.collector, args.secret)
    if collector and args.commands:
        raise UserError("not with --commands", where="--collector", fix="it writes the registers itself; leave one out")
    lines = lines_of(args, spec)
    with files.scratch_directory() as directory:
        prepared = directory / "program.control"
        prepared.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        args.stats = args.stats or directory / "statistics.json"
        captures = [Path(name) for name in args.captures]
        pipeline = compiled.choose(args.pipeline, loader(), spec, args.dpdk_source)
        with decompression.streamed(captures, limits=limits.limits_of(args)) as streams:
            command = command_of(args, spec, prepared, pipeline.library, streams.arguments)
            start = functools.partial(started, written_by(args), command, pass_fds=streams.descriptors)
            if collector:
                hello = Hello(spec.stem, args.format or REPORT_FORMATS[-1], secrets.token_hex(8))
                code = data_plane.run(start, collector, hello, args.stats)
            else:
                code = wait_for(start())
        if code == 0:
            code = note_outcome(args.stats, spec.stem, captures, streams.faults)
            if pipeline.reason:
                data_plane.note(f"interpreted, not compiled: {pipeline.reason}")
        return code
