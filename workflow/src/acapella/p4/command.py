"""Run P4 programs over captures on this machine, as a switch or NIC would.

    acapella p4 run     run a program: preprocess filters, samples and truncates frames, flowstats reports flows

docs/p4.md describes the programs; p4/loader/README.md describes control files.
"""

import argparse

from . import run_program


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4`."""
    parser = subparsers.add_parser(
        "p4",
        help="run P4 programs over captures",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    run_program.register_parser(actions)
    return parser


def run(args: argparse.Namespace) -> int | None:
    """Run the selected action."""
    return args.act(args)
