"""Compare numbers printed in papers with those of a campaign.

    acapella campaign papers results/demo
    acapella campaign papers results/demo --papers patchwork choir

Reads workflow/conformance/PAPER_printed.csv and the tables that the campaign has. Writes tables/paper_numbers
as CSV and Parquet, with a row per printed number that contains the campaign's value and the reason for a difference.
The verdict is "agrees" if the value rounds to the printed number or is in the range that the paper describes in words,
"differs" if not, "not comparable" if a value from a different testbed cannot agree, and "not measured" if no table of
the campaign contains the value. The rows of the P4/RDMA paper are copied from tables/flowreport_published, which
`acapella p4 published` writes. For the printed values of kappa, use `acapella campaign conformance`.
"""

import argparse
import math
from collections import Counter

from acapella.campaign.layout import open_campaign
from acapella_core import names
from acapella_core.errors import UserError

from . import printed

TABLE, STAGE = "paper_numbers", "papers"
PAPERS = ("patchwork", "choir", "osnt", "sliced_wan", "p4_rdma")


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella campaign papers`."""
    parser = subparsers.add_parser(
        "papers",
        help="compare numbers printed in papers with those of a campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="campaign directory, such as results/demo")
    parser.add_argument(
        "--papers", nargs="+", metavar="PAPER", default=list(PAPERS), help=f"{', '.join(PAPERS)} (default: all)"
    )
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the table and print the number of each verdict. Raises UserError for an unknown paper."""
    for name in args.papers:
        if name not in PAPERS:
            raise UserError(f"--papers: unknown {name}", fix=f"known: {', '.join(PAPERS)}")
    from acapella.campaign import provenance  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)
    from acapella.common import tables  # noqa: PLC0415

    from .campaign_tables import CampaignTables  # noqa: PLC0415

    campaign = open_campaign(args.campaign)
    source = CampaignTables(campaign)
    rows = [row for paper in PAPERS if paper in args.papers for row in table_rows(paper, source)]
    rows = [{"row": number, **row} for number, row in enumerate(rows, 1)]
    written = tables.write_rows(rows, TABLE, lambda suffix: campaign.table(TABLE, suffix))
    provenance.write_outputs(campaign, STAGE, written, pseudonyms=True)  # the table contains no names
    verdicts = Counter(row["verdict"] for row in rows)
    names.report(f"papers: tables/{TABLE}: " + ", ".join(f"{verdicts[key]} {key}" for key in sorted(verdicts)))


def table_rows(paper: str, source) -> list[dict]:
    """Return the rows of a paper."""
    from . import others, patchwork  # noqa: PLC0415

    if paper == "p4_rdma":
        return p4_rows(source)
    compute = {
        "patchwork": patchwork.values,
        "choir": others.choir,
        "osnt": others.osnt,
        "sliced_wan": others.sliced_wan,
    }
    values = compute[paper](source)
    return [table_row(paper, row, values.get(row["name"])) for row in printed.rows(paper)]


def p4_rows(source) -> list[dict]:
    """Return the rows of the P4/RDMA paper, which `acapella p4 published` has compared."""
    compared = {row["row"]: row for row in source.rows("flowreport_published") or []}
    missing = {"ours": "this campaign has no table flowreport_published", "verdict": "not measured"}
    return [
        {"paper": "p4_rdma", **{name: row[name] for name in ("name", "where", "what", "printed", "reason")}}
        | {name: compared.get(number, missing)[name] for name in missing}
        for number, row in enumerate(printed.rows("flowreports"), 1)
    ]


def table_row(paper: str, row: dict, value) -> dict:
    """Return a row of the table. ``value``: the campaign's value; None if no table of a campaign can have it."""
    columns = {"paper": paper, **{name: row[name] for name in ("name", "where", "what", "printed", "reason")}}
    if value is None:
        return {**columns, "ours": None, "verdict": "not measured"}
    if value.number is None:
        return {**columns, "ours": value.text, "verdict": "not measured"}
    if row["low"] is None and row["high"] is None:
        return {**columns, "ours": value.text, "verdict": "not comparable"}
    low, high = (-math.inf if row["low"] is None else row["low"], math.inf if row["high"] is None else row["high"])
    return {**columns, "ours": value.text, "verdict": "agrees" if low <= value.number <= high else "differs"}
