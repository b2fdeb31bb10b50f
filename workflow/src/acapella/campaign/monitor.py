"""Write the tables of traffic that the testbed generated and monitored: the packets and flows of each trial.

Reads generated/SAMPLE/monitor_*.parquet of the samples of a campaign whose manifests have the key generated, and writes
tables/monitor_* as csv and parquet. Each trial is a port of the monitor: column name of monitor_ports is its sample.
"""

import json

from acapella.common import tables
from acapella_core import names
from acapella_core.errors import UserError

from . import layout as campaigns
from . import provenance

STAGE = "monitor"
TABLES = ("monitor_ports", "monitor_flows", "monitor_histograms", "monitor_intervals", "monitor_clocks")
DIRECTORY = "generated"
FIX = "collect the campaign again"


def register_parser(subparsers):
    """Add `acapella campaign monitored`."""
    parser = subparsers.add_parser("monitored", help="tables of generated and monitored traffic", description=__doc__)
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    parser.add_argument("--samples", nargs="*", metavar="SAMPLE", required=True, help="samples, in the order of ports")
    return parser


def run(args) -> None:
    """Write the tables. Raises UserError if a file of a trial is missing or not that of its manifest."""
    campaign = campaigns.open_campaign(args.campaign)
    for sample in args.samples:
        check_files(campaign, sample)
    written = []
    for table in TABLES:
        rows = [row for port, sample in enumerate(args.samples) for row in rows_of(campaign, sample, table, port)]
        written += tables.write_rows(rows, table, lambda suffix, table=table: campaign.table(table, suffix))
        names.report(f"monitor: tables/{table}: {len(rows)} rows")
    provenance.write_outputs(campaign, STAGE, written, pseudonyms=False)


def check_files(campaign: campaigns.Campaign, sample: str) -> None:
    """Raise UserError unless the files of a trial are those that its manifest lists."""
    path = campaigns.require(campaign.manifest(sample), FIX)
    try:
        listed = {one["file"]: one["sha256"] for one in json.loads(path.read_text("utf-8"))["generated"]["files"]}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError("not the manifest of generated traffic", where=path, fix=FIX) from error
    for table in TABLES:
        file = campaigns.require(campaign.generated(sample, table), FIX)
        if provenance.sha256_of(file) != listed.get(file.name):
            raise UserError(f"its SHA-256 differs from that in {path}", where=file, fix=FIX)


def rows_of(campaign: campaigns.Campaign, sample: str, table: str, port: int) -> list[dict]:
    """Return the rows of a trial with the number of its port. Raises UserError."""
    found = tables.read(table, campaign.generated(sample, table), FIX)
    return [row | {"port": port} for row in found.to_pylist()]
