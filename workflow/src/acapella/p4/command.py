"""P4 programs on this machine, over captures: what a switch or NIC would do, before there is one.

    acapella p4 run     run a program: filtered and cut frames out of preprocess, reports out of flowstats

docs/p4.md says what the programs do; p4/loader/README.md has the language of control files.
"""

import argparse

from . import running


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4`."""
    parser = subparsers.add_parser(
        "p4",
        help="a P4 program over captures, on this machine",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    running.register_parser(actions)
    return parser


def run(args: argparse.Namespace) -> int | None:
    """Do the action."""
    return args.act(args)
