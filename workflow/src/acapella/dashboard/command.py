"""Create static pages about many campaigns: a table of all campaigns, and trends over time for each site and port.

    acapella campaign dashboard results
    acapella campaign dashboard results --campaigns week-1 week-2 -o weeks

Writes index.html, a page for each site, campaigns.csv and ports.csv to the output directory. The pages need no server:
they load no other files, and links to the reports of the campaigns are relative. A campaign that cannot be read is
listed with the reason. summaries.json.gz keeps the numbers of each campaign, so only campaigns that have changed or
could not be read are read again. The same tables produce identical files.
"""

import argparse
import contextlib
import sys
from pathlib import Path

from acapella_core import beneath, names
from acapella_core.errors import UserError

from .campaigns import DIRECTORY


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign dashboard` to the command line."""
    parser = subparsers.add_parser(
        "dashboard", help="create pages with trends over many campaigns", description=__doc__
    )
    parser.add_argument(
        "results", metavar="DIRECTORY", help="directory that contains a directory for each campaign, such as results"
    )
    parser.add_argument(
        "-o", "--output", metavar="DIR", help=f"directory for the pages (default: DIRECTORY/{DIRECTORY})"
    )
    parser.add_argument(
        "--campaigns", nargs="+", metavar="NAME", help="include only these campaigns (default: all in DIRECTORY)"
    )
    return parser


def output_directory(args: argparse.Namespace) -> Path:
    """Return the directory for the pages."""
    return Path(args.output) if args.output else Path(args.results, DIRECTORY)


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    output = output_directory(args)
    if Path(args.results).is_dir():
        with contextlib.suppress(OSError, UserError):  # reported when the first file is written
            beneath.make_directory(output, 0o700)  # otherwise, writes to all campaigns would be permitted
    confine_self(output / "index.html")


def run(args: argparse.Namespace) -> None:
    """Write the pages. Raises UserError if the directory or a campaign does not exist."""
    from .page import write  # noqa: PLC0415 (pyarrow is slow to import)

    page, campaigns, read = write(Path(args.results), output_directory(args), args.campaigns)
    print(f"dashboard: {page} ({names.pluralize(campaigns, 'campaign')}, {read} of them read)", file=sys.stderr)
