"""Receive flow reports until they end, or until Ctrl-C or kill; then write flows, series and counters.

    acapella collector run reports.pcap --control flowstats.control -o reports
    acapella collector run --interface veth1 --listen 127.0.0.1:4700 -o reports

The software path does what an RDMA NIC does: it checks queue pair, key, bounds, sequence numbers and the invariant CRC
of every RoCEv2 WRITE, and counts what it refuses by reason in counters.json. Queue pairs are those of a program's
control file, or are given to control planes that connect (acapella p4 run --collector). docs/collector.md has the
channel's protocol, schemas/tables/flow_reports.yaml the columns.
"""

import argparse
import asyncio
import contextlib
import signal

from . import place
from .settings import add_arguments, settings_of


def register_parser(actions) -> None:
    """Add `acapella collector run`."""
    parser = actions.add_parser(
        "run",
        help="receive reports; write flows, series and counters",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    parser.set_defaults(act=run)


def run(args: argparse.Namespace) -> int:
    """Collect; 1 where bytes are damaged, flows had no room or all reports were refused, else 0. Raises UserError."""
    from .collecting import Run  # noqa: PLC0415 - the native core, Arrow: the start stays quick

    settings = settings_of(args)
    with place.taken(settings.directory, replace=settings.replace), handlers_kept():
        return asyncio.run(Run(settings).collect())


@contextlib.contextmanager
def handlers_kept():
    """Put back what heeds a signal: an event loop that ends leaves Python's own, which end a program without a word."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
