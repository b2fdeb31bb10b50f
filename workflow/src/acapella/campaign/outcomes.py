"""Create the tables of the outcome of every site in every collection (Patchwork, figure 10).

    acapella campaign outcomes results/outcomes.csv -o results/demo/tables
    acapella campaign outcomes results/outcomes.csv -o results/demo/tables --pseudonyms

Reads the outcomes.csv that `acapella collect` keeps next to the campaigns' directories, and writes the tables outcomes
and outcome_reasons (schemas/tables/) as CSV and Parquet into a directory. `acapella campaign figures CAMPAIGN --only
outcomes outcome_reasons` draws them.
"""

import csv
import re
from collections import defaultdict
from pathlib import Path

from acapella_core import beneath
from acapella_core.errors import UserError

OUTCOMES = ("success", "degraded", "incomplete", "failed")  # in the order of the figure
TABLES = ("outcomes", "outcome_reasons")
SUCCESS = OUTCOMES[0]
REQUIRED_COLUMNS = ("campaign", "started", "site", "outcome", "reason", "samples")
NUMBER = re.compile(r"[0-9]{1,15}")  # short enough for sums to fit into 64 bits
MAX_QUOTED = 40  # maximum length of a quoted value in an error


def register_parser(subparsers):
    """Add `acapella campaign outcomes`."""
    parser = subparsers.add_parser(
        "outcomes", help="create the tables of the outcome of every site in every collection", description=__doc__
    )
    parser.add_argument("collections", metavar="CSV", help="results/outcomes.csv")
    parser.add_argument("-o", "--output", required=True, metavar="DIRECTORY", help="directory for the tables")
    parser.add_argument("--pseudonyms", action="store_true", help="omit reasons, which may name a site")
    return parser


def run(args) -> None:
    """Write the tables."""
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    sites = read(Path(args.collections))
    if args.pseudonyms:
        sites = [{**site, "reason": ""} for site in sites]
    rows = count_outcomes(sites)
    directory = Path(args.output)
    beneath.protect(directory)
    for name, content in zip(TABLES, (rows, reasons(sites)), strict=True):
        tables.write_rows(content, name, lambda suffix, name=name: directory / f"{name}.{suffix}")
    print(f"{directory / 'outcomes.csv'}: {len(rows) // len(OUTCOMES)} collections")


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of outcomes.csv. Raises UserError if the file is missing or is not such a table."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=path, fix="acapella collect writes it") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"not a table of outcomes: {error}", where=path) from error
    for number, row in enumerate(rows, 1):
        if fault := fault_of(row):
            raise UserError(f"not a table of outcomes: row {number}: {fault}", where=path)
    return rows


def fault_of(row: dict[str, str]) -> str | None:
    """Return a description of the fault in a row; None if the row is valid."""
    if missing := [key for key in REQUIRED_COLUMNS if row.get(key) is None]:
        return f"column {', '.join(missing)} is missing"
    if row["outcome"] not in OUTCOMES:
        return f"outcome is {row['outcome'][:MAX_QUOTED]!r}, expected {', '.join(OUTCOMES)}"
    if not NUMBER.fullmatch(row["samples"]):
        return f"samples is {row['samples'][:MAX_QUOTED]!r}, expected a number of at most 15 digits"
    return None


def count_outcomes(rows: list[dict[str, str]]) -> list[dict]:
    """Return the rows of table outcomes: the number of sites per collection and outcome."""
    collections = defaultdict(list)
    for row in rows:
        collections[row["started"], row["campaign"]].append(row)
    return [
        row_of(started, campaign, outcome, sites)
        for (started, campaign), sites in collections.items()
        for outcome in OUTCOMES
    ]


def row_of(started: str, campaign: str, outcome: str, all_sites: list[dict[str, str]]) -> dict:
    """Return a row of table outcomes."""
    matching = [site for site in all_sites if site["outcome"] == outcome]
    return {
        "started": started,
        "campaign": campaign,
        "outcome": outcome,
        "sites": len(matching),
        "sites_of_all": len(all_sites),
        "site_share": len(matching) / len(all_sites),
        "samples": sum(int(site["samples"]) for site in matching),
        "reasons": "; ".join(sorted({site["reason"] for site in matching if site["reason"]})),
    }


def reasons(sites: list[dict[str, str]]) -> list[dict]:
    """Return the rows of table outcome_reasons: the number of unsuccessful sites by outcome and reason."""
    collections = {(site["started"], site["campaign"]) for site in sites}
    groups = defaultdict(list)
    for site in sites:
        if site["outcome"] != SUCCESS:
            groups[site["outcome"], reason_of(site)].append(site)
    unsuccessful = sum(map(len, groups.values()))
    return [
        {
            **{"outcome": outcome, "reason": reason, "sites": len(matching), "unsuccessful_sites": unsuccessful},
            **{"reason_share": len(matching) / unsuccessful, "sites_of_all": len(sites)},
            **{"site_share": len(matching) / len(sites), "collections": len(collections)},
        }
        for (outcome, reason), matching in groups.items()
    ]


def reason_of(site: dict[str, str]) -> str:
    """Return the first reason of a site, with placeholders for its name and for numbers, which differ between sites."""
    name_pattern = re.compile(rf"(?<!\w){re.escape(site['site'])}(?!\w)") if site["site"] else None
    first = site["reason"].split("; ")[0]
    return re.sub(
        r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])", "N", name_pattern.sub("SITE", first) if name_pattern else first
    ).strip()
