"""Flow reports of a P4 program, received as an RDMA NIC would, and made into flows.

    acapella collector run      receive reports; write flows, series and counters
    acapella collector top      the largest flows of a running collector
    acapella collector sql      ask a collector in SQL, while it runs and afterwards

docs/collector.md goes from nothing to flows.
"""

import argparse
from pathlib import Path

from . import ask, receive, top


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella collector`."""
    parser = subparsers.add_parser(
        "collector",
        help="flow reports of a P4 program in, flows out",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for module in (receive, top, ask):
        module.register_parser(actions)
    return parser


def confine(args: argparse.Namespace) -> None:
    """Take rights from this process if it reads captures, which others made, and listens for no control plane."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - the start of `--help` stays quick

    if args.act is receive.run and args.captures and not args.listen:
        confine_self(Path(args.directory, "flows.parquet"), serves=True)


def run(args: argparse.Namespace) -> int | None:
    """Do the action."""
    return args.act(args)
