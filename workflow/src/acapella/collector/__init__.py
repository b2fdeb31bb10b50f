"""Flow reports of a P4 program, received as an RDMA NIC would, and made into flows.

    acapella collector run      receive reports; write flows, series and counters
    acapella collector top      the largest flows of a running collector
    acapella collector sql      ask a collector in SQL, while it runs and afterwards

docs/collector.md goes from nothing to flows.
"""

import argparse

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


def run(args: argparse.Namespace) -> int | None:
    """Do the action."""
    return args.act(args)
