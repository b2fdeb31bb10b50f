"""Make the table of what became of the sites of all collections (Patchwork, figure 10).

Reads the outcomes.csv that `acapella collect` keeps beside the campaigns' folders and writes outcomes.csv and .parquet
(schemas/tables/outcomes.yaml) into a folder. `acapella figures CAMPAIGN --only outcomes` draws it.
"""

import csv
from collections import defaultdict
from pathlib import Path

from acapella_core.errors import UserError

OUTCOMES = ("success", "degraded", "incomplete", "failed")  # in the order of the figure
NEEDED = ("campaign", "started", "site", "outcome", "reason", "samples")


def register_parser(subparsers):
    """Add `acapella outcomes`."""
    parser = subparsers.add_parser("outcomes", help="what became of the sites of all collections", description=__doc__)
    parser.add_argument("collections", metavar="CSV", help="results/outcomes.csv")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where the table goes")
    parser.add_argument("--pseudonyms", action="store_true", help="leave out reasons, which may name a site")
    return parser


def run(args) -> None:
    """Write the table."""
    from . import tables  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    rows = counted(read(Path(args.collections)))
    if args.pseudonyms:
        rows = [{**row, "reasons": ""} for row in rows]
    folder = Path(args.output)
    tables.write_rows(rows, "outcomes", lambda suffix: folder / f"outcomes.{suffix}")
    print(f"{folder / 'outcomes.csv'}: {len(rows) // len(OUTCOMES)} collections")


def read(path: Path) -> list[dict[str, str]]:
    """The lines of a table of collections. Raises UserError where it is missing or another kind of table."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=path, fix="acapella collect writes it") from error
    for row in rows:
        if (
            any(row.get(key) is None for key in NEEDED)
            or row["outcome"] not in OUTCOMES
            or not row["samples"].isdigit()
        ):
            raise UserError(f"not a table of outcomes: {row}", where=path)
    return rows


def counted(rows: list[dict[str, str]]) -> list[dict]:
    """Rows of the table: of each collection the sites with each outcome."""
    collections = defaultdict(list)
    for row in rows:
        collections[row["started"], row["campaign"]].append(row)
    return [
        row_of(started, campaign, outcome, sites)
        for (started, campaign), sites in collections.items()
        for outcome in OUTCOMES
    ]


def row_of(started: str, campaign: str, outcome: str, sites: list[dict[str, str]]) -> dict:
    """One row of the table."""
    those = [site for site in sites if site["outcome"] == outcome]
    return {
        "started": started,
        "campaign": campaign,
        "outcome": outcome,
        "sites": len(those),
        "sites_of_all": len(sites),
        "site_share": len(those) / len(sites),
        "samples": sum(int(site["samples"]) for site in those),
        "reasons": "; ".join(sorted({site["reason"] for site in those if site["reason"]})),
    }
