"""Make tables of how consistent the trials of a campaign's environments were.

Reads CAMPAIGN/kappa/ENVIRONMENT.json, which `acapella kappa` writes, and makes the tables consistency,
consistency_environments (the layout of the CHOIR paper's Table 2), consistency_moves (its Table 1),
consistency_deltas, consistency_timeline, consistency_within and consistency_warnings as CSV and Parquet, each described
in schemas/tables/; beside them CAMPAIGN/consistency/ENVIRONMENT.json, the whole result for publication.
CAMPAIGN/consistency_provenance.json says what they were made from.

With --pseudonyms samples, and their files, are called as CAMPAIGN/pseudonyms.tsv says; names of environments stay. The
results in CAMPAIGN/kappa keep the true names and are not for publication. Of a filter and a flow, which may hold
addresses, it is then told only that there was one.
"""

import csv
import json
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import atomic_text

from . import __version__, trial_tables
from .campaign import Campaign, opened, require
from .provenance import checksums
from .pseudonyms import FILE as PSEUDONYMS
from .trial_tables import JOINED, Environment

PROVENANCE = "consistency_provenance.json"
RESULTS = "kappa"  # folder of the results as `acapella kappa` writes them, under true names
PUBLISHED = "consistency"  # folder of the same under the names of the tables

HIDDEN = {"filter": "(a filter)", "flow": "(a flow)"}  # instead of what may hold addresses


def register_parser(subparsers):
    """Add `acapella trials`."""
    parser = subparsers.add_parser("trials", help="tables of the consistency of trials", description=__doc__)
    parser.add_argument("campaign", metavar="CAMPAIGN", help="folder results/<campaign>")
    parser.add_argument(
        "--environments", nargs="+", required=True, metavar="NAME", help="in the order in which they are told"
    )
    parser.add_argument("--pseudonyms", action="store_true", help="hide the names of samples")
    return parser


def run(args) -> None:
    """Write the tables and name them."""
    campaign = opened(args.campaign)
    written = make_tables(campaign, args.environments, hide=args.pseudonyms)
    print(f"{campaign.folder}: {len(written)} files in tables/ and {PUBLISHED}/; {campaign.folder / PROVENANCE}")


def make_tables(campaign: Campaign, names: list[str], *, hide: bool = False) -> list[Path]:
    """Write tables/consistency*.csv and .parquet, consistency/*.json, the provenance; return all paths but its.

    Raises UserError where a result is missing or none, or a sample has no pseudonym.
    """
    from . import tables  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    called = pseudonyms_of(campaign) if hide else None
    environments = [read(campaign, name, called) for name in names]
    written = []
    for table, rows in trial_tables.rows_of(environments).items():
        written += tables.write_rows(rows, table, lambda suffix, table=table: campaign.table(table, suffix))
    for environment in environments:
        path = campaign.folder / PUBLISHED / f"{environment.name}.json"
        path.parent.mkdir(exist_ok=True)
        atomic_text(path, json.dumps(trial_tables.shown_result(environment), indent=1, allow_nan=False) + "\n")
        written.append(path)
    write_provenance(campaign, environments, written, hidden=hide)
    return written


def read(campaign: Campaign, name: str, called: dict[str, str] | None) -> Environment:
    """An environment's result; its samples under the names of ``called``, or their own where that is None."""
    path = require(campaign.folder / RESULTS / f"{name}.json", f"run: acapella kappa ... --sha256 -o {name}.json")
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        trials = [trial["name"] for trial in result["trials"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UserError("not a result of acapella kappa -o", where=path, fix="make it again") from error
    if called is not None:
        result = without_addresses(result)
    return Environment(name, result, {trial: shown_name(trial, called, path) for trial in trials})


def without_addresses(result: dict) -> dict:
    """The result without the text of its filter and flow, in parameters and warnings."""
    given = {key: result["parameters"].get(key) for key in HIDDEN}
    given = {key: text for key, text in given.items() if text is not None}

    def shown(text: str) -> str:
        for key, hidden in given.items():
            text = text.replace(f"--{key} {hidden}", f"--{key} {HIDDEN[key]}")
        return text

    pairs = [
        {**pair, "warnings": [{**one, "text": shown(one["text"])} for one in pair["warnings"]]}
        for pair in result["pairs"]
    ]
    return {**result, "parameters": {**result["parameters"], **{key: HIDDEN[key] for key in given}}, "pairs": pairs}


def shown_name(trial: str, called: dict[str, str] | None, path: Path) -> str:
    """A trial's name with each of its samples renamed."""
    if called is None:
        return trial
    try:
        return JOINED.join(called[sample] for sample in trial.split(JOINED))
    except KeyError as missing:
        raise UserError(
            f"sample {missing} has no pseudonym", where=path, fix="run acapella process --pseudonyms"
        ) from missing


def pseudonyms_of(campaign: Campaign) -> dict[str, str]:
    """Pseudonym by sample, as acapella process wrote them."""
    path = require(campaign.folder / PSEUDONYMS, f"run: acapella process {campaign.folder} --pseudonyms")
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["true_sample"]: row["sample"] for row in rows}


def write_provenance(campaign: Campaign, environments: list[Environment], outputs: list[Path], *, hidden: bool) -> None:
    """Versions, parameters, the sha256 of every capture, and of every table."""
    told = {
        "acapella_provenance": 1,
        "versions": {"acapella": __version__, "kappa": sorted({e.result["version"] for e in environments})},
        "parameters": {
            "pseudonyms": hidden,
            "environments": [e.name for e in environments],
            **{e.name: e.result["parameters"] for e in environments},
        },
        "inputs": {
            e.name: {e.shown[t["name"]]: [file["sha256"] for file in t["files"]] for t in e.result["trials"]}
            for e in environments
        },
        "outputs": checksums(campaign, outputs),
    }
    text = json.dumps(told, indent=2, sort_keys=True, ensure_ascii=False)
    atomic_text(campaign.folder / PROVENANCE, text + "\n")
