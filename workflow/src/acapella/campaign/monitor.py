"""Create the tables of traffic that the testbed generated and monitored: the packets and flows of each trial.

    acapella campaign monitored results/demo --samples t1 t2
    acapella campaign monitored results/reproduced --release demo-public

Reads generated/SAMPLE/monitor_*.parquet of each sample given with --samples, whose manifest must have the key
generated, or of each sample in generated/trials.json of a release, and writes tables/monitor_* as CSV and Parquet. Each
trial is a port of the monitor: column `name` of monitor_ports is the name of its sample.
"""

import argparse
import json
from pathlib import Path

from acapella.common import tables
from acapella_core import names
from acapella_core.errors import UserError

from . import layout as campaigns
from . import provenance

STAGE = "monitor"
TABLES = ("monitor_ports", "monitor_flows", "monitor_histograms", "monitor_intervals", "monitor_clocks")
DIRECTORY = "generated"
TRIALS = "trials.json"  # file in DIRECTORY of a release: lists its samples in the order of ports
FIX, COPY_FIX = "collect the campaign again", "copy the release again"


def register_parser(subparsers):
    """Add `acapella campaign monitored`."""
    parser = subparsers.add_parser(
        "monitored", help="create the tables of generated and monitored traffic", description=__doc__
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    sources = parser.add_mutually_exclusive_group(required=True)
    sources.add_argument("--samples", nargs="*", metavar="SAMPLE", help="samples, in the order of ports")
    sources.add_argument("--release", metavar="DIR", help="directory of a release with generated/")
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it may read files of a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(Path(args.campaign, "tables"))


def run(args) -> None:
    """Write the tables. Raises UserError if a file of a trial is missing or does not match its manifest."""
    campaign = campaigns.open_campaign(args.campaign)
    release = Path(args.release) if args.release else None
    samples = args.samples if release is None else released_trials(release)
    for sample in samples if release is None else ():
        check_files(campaign, sample)
    written = []
    for table in TABLES:
        rows = [
            row | {"port": port}
            for port, sample in enumerate(samples)
            for row in rows_of(campaign, sample, table, release)
        ]
        written += tables.write_rows(rows, table, lambda suffix, table=table: campaign.table(table, suffix))
        names.report(f"monitor: tables/{table}: {names.pluralize(len(rows), 'row')}")
    provenance.write_outputs(campaign, STAGE, written, pseudonyms=False)


def check_files(campaign: campaigns.Campaign, sample: str) -> None:
    """Raise UserError unless the files of a trial match its manifest."""
    path = campaigns.require(campaign.manifest(sample), FIX)
    try:
        checksums = {file["file"]: file["sha256"] for file in json.loads(path.read_text("utf-8"))["generated"]["files"]}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError("not the manifest of generated traffic", where=path, fix=FIX) from error
    for table in TABLES:
        file = campaigns.require(campaign.generated(sample, table), FIX)
        if provenance.sha256_of(file) != checksums.get(file.name):
            raise UserError(f"its SHA-256 differs from that in {path}", where=file, fix=FIX)


def rows_of(campaign: campaigns.Campaign, sample: str, table: str, release: Path | None = None) -> list[dict]:
    """Return the rows of a trial in the campaign or a release, which lacks columns with addresses. Raises UserError."""
    if release is None:
        return tables.read(table, campaign.generated(sample, table), FIX).to_pylist()
    return tables.read(table, release / DIRECTORY / sample / f"{table}.parquet", COPY_FIX, partial=True).to_pylist()


def released_trials(release: Path) -> list[str]:
    """Return the samples of generated traffic in a release, by port; [] if it has none. Raises UserError."""
    path = release / DIRECTORY / TRIALS
    if not path.is_file():
        return []
    try:
        return [names.sample(sample, path) for sample in json.loads(path.read_text(encoding="utf-8"))["samples"]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise UserError("not a list of samples", where=path, fix=COPY_FIX) from error
