"""Make a campaign's report: one HTML page with its figures, key tables, quality and provenance.

Writes report.html into the campaign's directory. The page needs nothing beside it and fetches nothing: pictures, data
and the program that makes the charts interactive are inside. Without JavaScript, and in print, it shows the same
pictures.
"""

import argparse
import sys
from pathlib import Path

from acapella.campaign import layout as campaigns


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign report` to the command line."""
    parser = subparsers.add_parser(
        "report",
        help="make a campaign's page of figures, tables and provenance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="the campaign's directory, as results/demo")
    parser.add_argument("--trials", action="store_true", help="with a section on the consistency of trials")
    parser.add_argument("--flowreports", action="store_true", help="with a section on flow reports")
    parser.add_argument("--flowstudy", action="store_true", help="with the study of flow reports in that section")
    parser.add_argument("--storage", action="store_true", help="with a section on the storage study")
    parser.add_argument("--outcomes", action="store_true", help="with a section on the outcomes of all collections")
    parser.add_argument(
        "--papers", action="store_true", help="with the numbers that the papers on trials and flow reports printed"
    )
    parser.add_argument(
        "--excluded",
        metavar="SAMPLE",
        nargs="+",
        default=[],
        help="samples left out on purpose, to name them",
    )
    return parser


def confine(args: argparse.Namespace) -> None:
    """Take rights from this process, which reads files that others may have made."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - the start of `--help` stays quick

    # The renderer wakes its threads by a pair of Unix sockets.
    confine_self(Path(args.campaign, "report.html"), serves=True)


def run(args: argparse.Namespace) -> None:
    """Write CAMPAIGN/report.html. Raises UserError where a table or provenance.json is missing."""
    campaign = campaigns.opened(args.campaign)
    from . import flows  # noqa: PLC0415
    from .page import write  # noqa: PLC0415 (Altair and vl-convert are slow to import)

    path, figures = write(
        campaign,
        with_trials=args.trials,
        flows=flows.FlowSections(args.flowreports, args.flowstudy),
        with_storage=args.storage,
        with_outcomes=args.outcomes,
        papers=args.papers,
        excluded=args.excluded,
    )
    print(f"report: {path} ({figures} figures, {path.stat().st_size / 1e6:.1f} MB)", file=sys.stderr)
