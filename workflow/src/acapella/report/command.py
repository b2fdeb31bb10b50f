"""Create the report of a campaign: one HTML page with figures, tables, capture quality and provenance.

    acapella campaign report results/demo
    acapella campaign report results/demo --trials --outcomes

Writes report.html to the directory of the campaign. The page needs neither other files nor a network: it contains
images, data and the scripts of the interactive charts. Without JavaScript, and in print, it shows the images instead of
the charts.
"""

import argparse
import sys
from pathlib import Path

from acapella.campaign import layout as campaigns
from acapella.figures import vega
from acapella_core.validation import load_jsonschema


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign report` to the command line."""
    parser = subparsers.add_parser(
        "report",
        help="create a campaign's page of figures, tables and provenance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="campaign directory, such as results/demo")
    parser.add_argument(
        "--no-samples", action="store_true", help="the campaign has no samples: omit the sections on traffic"
    )
    parser.add_argument("--trials", action="store_true", help="add a section on the consistency of trials")
    parser.add_argument(
        "--replays", action="store_true", help="add the figures of replays with departures to that section"
    )
    parser.add_argument("--flowreports", action="store_true", help="add a section on flow reports")
    parser.add_argument("--flowstudy", action="store_true", help="add the study of flow reports to that section")
    parser.add_argument("--transfers", action="store_true", help="add a section on transfer experiments")
    parser.add_argument("--infrastructure", action="store_true", help="add a section on the infrastructure study")
    parser.add_argument("--storage", action="store_true", help="add a section on the storage study")
    parser.add_argument("--outcomes", action="store_true", help="add a section on the outcomes of all collections")
    parser.add_argument("--monitor", action="store_true", help="add a section on traffic that a monitor counted")
    parser.add_argument("--searches", action="store_true", help="add searches for the highest rate to that section")
    parser.add_argument(
        "--papers", action="store_true", help="add the published numbers of papers, next to those of the campaign"
    )
    parser.add_argument("--figures", metavar="FIGURE", nargs="*", help="only these figures (default: all)")
    parser.add_argument(
        "--excluded",
        metavar="SAMPLE",
        nargs="+",
        default=[],
        help="samples that the config excludes; the report lists them",
    )
    parser.add_argument(
        "--failed",
        metavar="SAMPLE",
        nargs="+",
        default=[],
        help="samples that failed and are in no table; the report lists them with the reasons in quarantine/",
    )
    parser.add_argument(
        "--failed-reports",
        metavar="SAMPLE",
        nargs="+",
        default=[],
        help="samples whose flow reports failed and are in no table of flow reports; the report lists them likewise",
    )
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    vega.fill_cache()
    # The renderer wakes its threads through a pair of Unix sockets.
    confine_self(Path(args.campaign, "report.html"), serves=True)


def run(args: argparse.Namespace) -> None:
    """Write CAMPAIGN/report.html. Raises UserError if a table, or the file with its provenance, is missing."""
    campaign = campaigns.open_campaign(args.campaign)
    load_jsonschema()
    from . import flows  # noqa: PLC0415
    from .page import write  # noqa: PLC0415 (Altair and vl-convert are slow to import)

    path, figures = write(
        campaign,
        with_samples=not args.no_samples,
        with_trials=args.trials,
        with_replays=args.replays,
        flows=flows.FlowSections(args.flowreports, args.flowstudy),
        with_transfers=args.transfers,
        with_infrastructure=args.infrastructure,
        with_storage=args.storage,
        with_outcomes=args.outcomes,
        with_monitor=args.monitor,
        with_searches=args.searches,
        papers=args.papers,
        only=args.figures,
        excluded=args.excluded,
        failed=args.failed,
        without_reports=args.failed_reports,
    )
    print(f"report: {path} ({figures} figures, {path.stat().st_size / 1e6:.1f} MB)", file=sys.stderr)
