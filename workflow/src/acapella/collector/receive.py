"""Receive flow reports until the source ends, or until Ctrl-C or SIGTERM; then write flows, series and counters.

    acapella p4 collect reports.pcap --control flowstats.control -o reports
    acapella p4 collect --interface veth1 --listen 127.0.0.1:4700 -o reports

Like an RDMA NIC, the collector checks the queue pair, key, bounds, sequence number and invariant CRC of every RoCEv2
WRITE, and counts rejected WRITEs by reason in counters.json. Queue pairs are read from a program's control file, or are
assigned to control planes that connect (acapella p4 run --collector). For the protocol of the control channel, see
docs/collector.md; for the columns, see schemas/tables/flow_reports.yaml.
"""

import argparse
import asyncio
import contextlib
import signal
from pathlib import Path

from . import output_directory
from .settings import add_arguments, settings_of


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4 collect`."""
    parser = subparsers.add_parser(
        "collect",
        help="receive reports; write flows, series and counters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process if it reads captures and does not listen for control planes."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    if args.captures and not args.listen:
        confine_self(Path(args.directory, "flows.parquet"), serves=True)


def run(args: argparse.Namespace) -> int:
    """Run a collector; return its exit code: above 0 if captures are damaged, or reports or rows are missing."""
    from .collector_run import CollectorRun  # noqa: PLC0415 - the native core and Arrow: keeps startup fast

    settings = settings_of(args)
    with output_directory.claimed(settings.directory, replace=settings.replace), signal_handlers_restored():
        return asyncio.run(CollectorRun(settings).collect())


@contextlib.contextmanager
def signal_handlers_restored():
    """Restore signal handlers afterwards: asyncio resets them to Python's, which end a program without a message."""
    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
