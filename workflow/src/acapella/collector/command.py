"""Receive flow reports of a P4 program like an RDMA NIC, and aggregate them into flows.

    acapella collector run      receive reports; write flows, series and counters
    acapella collector top      show the largest flows of a running collector
    acapella collector sql      query the flows of a collector in SQL

docs/collector.md is a step-by-step introduction.
"""

import argparse
from pathlib import Path

from . import receive, sql, top


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella collector`."""
    parser = subparsers.add_parser(
        "collector",
        help="receive flow reports of a P4 program and aggregate them into flows",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for module in (receive, top, sql):
        module.register_parser(actions)
    return parser


def confine(args: argparse.Namespace) -> None:
    """Drop privileges of this process if it reads captures and does not listen for control planes."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    if args.act is receive.run and args.captures and not args.listen:
        confine_self(Path(args.directory, "flows.parquet"), serves=True)


def run(args: argparse.Namespace) -> int | None:
    """Run the selected action."""
    return args.act(args)
