"""Generate traffic from a model: write it to a pcap file, or send it from an interface at exact times.

    acapella generate model.yaml -o traffic.pcap
    acapella generate model.yaml --interface eth1

MODEL is a YAML file with flows: headers, fields that vary, gaps, sizes, rate limits, payload, stamps and deliberate
errors (docs/generate.md). The same model and seed produce the same file, byte for byte. Each packet contains a stamp
with its flow, its sequence number and its departure time, unless the model disables the stamp.

The generated flows are written to OUT.pcap.generated.json (or to --expected), which `acapella monitor --expected`
reads. --flow-table writes the flow table that a digest of the packets would contain, computed only from the model.

--interface needs root or CAP_NET_RAW. The exit code is 0 if all packets were sent or written, 1 if packets were not
sent, and 2 or 75 after an error.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from acapella_core import names
from acapella_core.arguments import output_file
from acapella_core.errors import DAMAGED, UserError
from acapella_core.files import atomic_path, atomic_text

from ..replay import times
from ..replay.command import count
from ..replay.departures import duration
from . import expected, model, program, result
from .compiled import CompiledModel

MAX_SEED = 2**64 - 1
ETHERNET_BYTES = 14


def register_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the parser of `acapella generate`."""
    parser = subparsers.add_parser(
        "generate", help="generate traffic from a model", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("model", type=Path, metavar="MODEL.yaml", help="the model (docs/generate.md)")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--output", "-o", type=output_file("a capture", Path), metavar="OUT.pcap", help="write the packets to OUT.pcap"
    )
    target.add_argument(
        "--interface", "-i", metavar="PORT",
        help="send from PORT: a network interface, or a DPDK device (PCI address, or DRIVER,ARGUMENTS as for EAL's "
        "--vdev)",
    )  # fmt: skip
    parser.add_argument("--seed", type=count(MAX_SEED, 0), metavar="N", help="random seed (default: that of the model)")
    parser.add_argument("--expected", type=output_file("JSON", Path), metavar="FILE",
                        help="write the generated flows to FILE (JSON; default: OUT.pcap.generated.json; with "
                        "--interface: no file)")  # fmt: skip
    parser.add_argument("--flow-table", type=output_file("Parquet", Path), metavar="FILE",
                        help="write the expected flow table to FILE (Parquet)")  # fmt: skip
    port = parser.add_argument_group("interface")
    port.add_argument(
        "--at",
        type=times.time,
        metavar="TIME",
        help="start at TIME: RFC 3339, nanoseconds since 1970, or +SECONDS (default: immediately)",
    )
    port.add_argument("--burst", type=count(64), metavar="N",
                      help="send at most N packets at once if several are due (default: 32)")  # fmt: skip
    port.add_argument("--retry-ns", type=count(10**10, 0), metavar="NS",
                      help="retry for NS nanoseconds before a packet is dropped (default: 100000)")  # fmt: skip
    port.add_argument("--priority", type=count(99), metavar="N",
                      help="real-time priority of the polling thread (default: normal scheduling)")  # fmt: skip
    port.add_argument("--cpus", metavar="CPU", help="CPU of the polling thread (default: chosen by the program)")
    port.add_argument("--huge", action="store_true", help="use huge pages (default: normal pages)")
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_targets(args)
    compiled = model.read(args.model, program.read_trace, seed=args.seed)
    if args.interface:
        check_lengths(args.model, compiled)
    table = expected.flow_table(compiled) if args.flow_table else None
    report = program.run(compiled, output_arguments(args, compiled) if args.output else interface_arguments(args))
    document = result.document(compiled, report, "file" if args.output else "interface")
    print_summary(document, args.output or args.interface)  # even if a file cannot be written
    target = args.expected or (args.output and args.output.with_name(f"{args.output.name}.generated.json"))
    if target:
        atomic_text(target, json.dumps(document, indent=1) + "\n")
    if table is not None:
        with atomic_path(args.flow_table) as path:
            pq.write_table(table, path)
    return DAMAGED if result.unsent_reasons(document) else 0


def check_targets(args: argparse.Namespace) -> None:
    """Raise UserError for a file that cannot be written, or an option without effect, before anything is generated."""
    for name in ("output", "expected", "flow_table"):
        path = getattr(args, name)
        where = f"--{name.replace('_', '-')} {path}"
        if path is not None and not path.parent.is_dir():
            raise UserError("no such directory", where=where, fix="create it, or choose another file name")
        if path is not None and (path.is_dir() or not os.access(path.parent, os.W_OK)):
            raise UserError("cannot be written", where=where, fix="choose another file name")
    if args.output and args.output.suffix != ".pcap":
        raise UserError("the name of the output does not end in .pcap", where=f"--output {args.output}")
    for name in ("at", "burst", "retry_ns", "priority", "cpus", "huge"):
        if args.output and getattr(args, name):
            raise UserError(f"--{name.replace('_', '-')} has no effect with --output")


def check_lengths(path: Path, compiled: CompiledModel) -> None:
    """Raise UserError for packets that a network interface cannot send: Linux drops them without an error."""
    for flow in compiled.flows:
        shortest = min(flow.sizes.smallest, flow.truncate[0] or flow.sizes.smallest)
        if shortest < ETHERNET_BYTES:
            message = f"flow {flow.name!r}: packets of {shortest} bytes cannot be sent: shorter than an Ethernet header"
            raise UserError(message, where=path, fix="make them longer, or write a file")


def output_arguments(args: argparse.Namespace, compiled: CompiledModel) -> list[str]:
    """Return the arguments with which the program writes a file."""
    return ["--output", str(args.output), "--start-ns", str(compiled.start_ns)]


def interface_arguments(args: argparse.Namespace) -> list[str]:
    """Return the arguments with which the program sends from an interface."""
    arguments = program.port_arguments(args.interface)
    at_ns = args.at(time.time_ns()) if args.at else None
    values = {
        "--start-ns": at_ns, "--burst": args.burst, "--retry-ns": args.retry_ns, "--priority": args.priority,
        "--cpus": args.cpus,
    }  # fmt: skip
    arguments += [text for name, value in values.items() if value is not None for text in (name, str(value))]
    return arguments + (["--huge"] if args.huge else [])


def print_summary(document: dict[str, Any], target: object) -> None:
    """Print a summary of the generated traffic, and warnings."""
    counts = {"packet": document["packets"], "byte": document["bytes"], "flow": len(document["flows"])}
    print(f"{target}: {', '.join(names.pluralize(number, noun) for noun, number in counts.items())}", flush=True)
    timing = document["timing"]
    if timing and timing["error_median_ns"] is not None:
        errors = [timing[f"{name}_ns"] for name in ("error_median", "error_p99", "error_largest", "clock_error")]
        median, p99, largest, clock = ("unknown" if error is None else duration(error) for error in errors)
        print(f"departure error: median {median}, 99th percentile {p99}, largest {largest}; clock error {clock}")
    for reason in result.unsent_reasons(document):
        names.report(f"acapella: warning: {reason}")
