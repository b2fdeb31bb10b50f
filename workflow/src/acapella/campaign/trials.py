"""Create the consistency tables of the trials in a campaign's environments.

    acapella campaign trials results/demo --environments quiet noisy
    acapella campaign trials results/demo --environments quiet noisy --pseudonyms

Reads CAMPAIGN/kappa/ENVIRONMENT.json (written by `acapella kappa`). Writes these tables as CSV and Parquet, described
in schemas/tables/: consistency, consistency_environments (the layout of the CHOIR paper's Table 2),
consistency_comparisons, consistency_moves (the layout of its Table 1), consistency_deltas, consistency_spacing,
consistency_timeline, consistency_within, consistency_warnings, and consistency_replays (how a testbed sent the trials,
from their manifests). Also writes CAMPAIGN/consistency/ENVIRONMENT.json, the complete result in a form that can be
published. CAMPAIGN/provenance/consistency.json lists the inputs.

With --pseudonyms, samples and their files have the names in CAMPAIGN/pseudonyms.tsv, and environments are named E0, E1,
... in the order of --environments; the command prints the mapping. The text of a filter or a flow, which may contain
addresses, is then omitted. The results in CAMPAIGN/kappa keep the original names and must not be published.
"""

import contextlib
import csv
import functools
import json
from collections.abc import Sequence
from pathlib import Path

from acapella import __version__
from acapella.common import queries
from acapella.common.pseudonyms import FILE as PSEUDONYMS
from acapella.common.pseudonyms import environment_pseudonyms
from acapella_core.arrow_tables import arrow_schema
from acapella_core.errors import UserError
from acapella_core.files import atomic_path

from . import trial_tables
from .layout import Campaign, open_campaign, require
from .provenance import checksums, write_content
from .trial_tables import JOINED, Environment

STAGE = "consistency"  # name of the provenance file
RESULTS = "kappa"  # directory of the results of `acapella kappa`, with original names
PUBLISHED = "consistency"  # directory of the same results, with the names used in the tables

HIDDEN = {"filter": "(a filter)", "flow": "(a flow)"}  # replaces text that may contain addresses


def register_parser(subparsers):
    """Add `acapella campaign trials`."""
    parser = subparsers.add_parser(
        "trials", help="create the tables about the consistency of trials", description=__doc__
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    parser.add_argument(
        "--environments", nargs="+", required=True, metavar="NAME", help="environments, in the order of the tables"
    )
    parser.add_argument("--pseudonyms", action="store_true", help="hide the names of samples and environments")
    return parser


def run(args) -> None:
    """Write the tables; print their directory and the pseudonym of each environment."""
    campaign = open_campaign(args.campaign)
    written = make_tables(campaign, args.environments, hide=args.pseudonyms)
    print(f"{campaign.directory}: {len(written)} files in tables/ and {PUBLISHED}/; {campaign.provenance(STAGE)}")
    if args.pseudonyms:
        for shown, name in zip(environment_pseudonyms(args.environments), args.environments, strict=True):
            print(f"{shown}: environment {name}")


def make_tables(campaign: Campaign, names: list[str], *, hide: bool = False) -> list[Path]:
    """Write tables/consistency*.csv and .parquet, consistency/*.json and the provenance.

    Return all paths except the path of the provenance. Existing files are replaced after all new ones are complete.

    Raises UserError if a result is missing or invalid, or a sample has no pseudonym.
    """
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    pseudonym_of = pseudonyms_of(campaign) if hide else None
    shown = environment_pseudonyms(names) if hide else names
    environments = [read(campaign, *pair, pseudonym_of) for pair in zip(names, shown, strict=True)]
    written = []
    with name_failing_environment(campaign, environments), contextlib.ExitStack() as complete:
        for table, rows in trial_tables.rows_of(environments).items():
            target = functools.partial(campaign.table, table)
            written += tables.write_rows(rows, table, target, complete)
        for environment in environments:
            path = campaign.directory / PUBLISHED / f"{environment.name}.json"
            text = json.dumps(trial_tables.shown_result(environment), indent=1, allow_nan=False) + "\n"
            complete.enter_context(atomic_path(path)).write_text(text, encoding="utf-8")
            written.append(path)
    for path in (campaign.directory / PUBLISHED).glob("*.json"):  # from an earlier run, possibly with original names
        if path not in written:
            path.unlink()
    write_provenance(campaign, environments, written, hidden=hide)
    return written


@contextlib.contextmanager
def name_failing_environment(campaign: Campaign, environments: list[Environment]):
    """If a result cannot be converted to rows of tables, raise UserError with its environment and samples."""
    import pyarrow as pa  # noqa: PLC0415

    # The result lacks a key, or a value has the wrong type or exceeds 64 bits.
    wrong = (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError, pa.ArrowException)
    by_name = {environment.name: environment for environment in environments}

    def failure(names: Sequence[str]) -> Exception | None:
        try:
            for table, rows in trial_tables.rows_of([by_name[name] for name in names]).items():
                for field in arrow_schema(table):
                    pa.array([row.get(field.name) for row in rows], field.type)
        except wrong as error:
            return error
        return None

    try:
        yield
    except wrong as error:
        name, why = queries.failing_sample([*by_name], failure)
        samples = ", ".join(by_name[name].shown.values())
        raise UserError(
            f"environment {by_name[name].true_name} (samples {samples}) cannot be merged{why}",
            where=campaign.directory / RESULTS / f"{by_name[name].true_name}.json",
            fix="delete the file and run snakemake again",
        ) from error


def read(campaign: Campaign, name: str, shown: str, pseudonym_of: dict[str, str] | None) -> Environment:
    """Return the result of an environment. ``shown``: its name in the tables; ``pseudonym_of``: pseudonym by sample.

    If ``pseudonym_of`` is None, samples keep their original names. Raises UserError if the file is missing, invalid or
    of an older version, or a sample has no pseudonym.
    """
    path = require(campaign.directory / RESULTS / f"{name}.json", f"run: acapella kappa ... --sha256 -o {name}.json")
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
        trials = [trial["name"] for trial in result["trials"]]
        complete = all("spacing" in pair for pair in result["pairs"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError("not a result of acapella kappa -o", where=path, fix="run acapella kappa again") from error
    if not complete:
        raise UserError(
            "the key spacing is missing: an older version of acapella kappa wrote the file",
            where=path,
            fix="run acapella kappa again",
        )
    if pseudonym_of is not None:
        result = without_addresses(result)
    replays = {trial: replay for trial in trials if (replay := replay_of(campaign, trial))}
    names = {trial: shown_name(trial, pseudonym_of, path) for trial in trials}
    return Environment(shown, name, result, names, replays)


def replay_of(campaign: Campaign, trial: str) -> dict | None:
    """Return the key `replay` of the manifest of a trial with one sample; None if there is none.

    Raises UserError if the manifest is invalid.
    """
    path = campaign.manifest(trial)
    if JOINED in trial or not path.is_file():
        return None
    try:
        replay = json.loads(path.read_text(encoding="utf-8")).get("replay")
        complete = replay is None or {*trial_tables.REPLAY_COLUMNS, "path"} <= replay.keys()
    except (ValueError, AttributeError):
        complete = False
    if not complete:
        raise UserError("not a manifest in the format of this version", where=path, fix="run acapella collect again")
    return replay


def without_addresses(result: dict) -> dict:
    """Return the result with placeholders for the text of its filter and flow in parameters and warnings."""
    texts = {key: result["parameters"].get(key) for key in HIDDEN}
    texts = {key: text for key, text in texts.items() if text is not None}

    def shown(text: str) -> str:
        for key, hidden in texts.items():
            text = text.replace(f"--{key} {hidden}", f"--{key} {HIDDEN[key]}")
        return text

    pairs = [
        {**pair, "warnings": [{**warning, "text": shown(warning["text"])} for warning in pair["warnings"]]}
        for pair in result["pairs"]
    ]
    return {**result, "parameters": {**result["parameters"], **{key: HIDDEN[key] for key in texts}}, "pairs": pairs}


def shown_name(trial: str, pseudonym_of: dict[str, str] | None, path: Path) -> str:
    """Return the name of a trial in the tables. Raises UserError if one of its samples has no pseudonym."""
    if pseudonym_of is None:
        return trial
    try:
        return JOINED.join(pseudonym_of[sample] for sample in trial.split(JOINED))
    except KeyError as missing:
        raise UserError(
            f"sample {missing} has no pseudonym", where=path, fix="run acapella campaign process --pseudonyms"
        ) from missing


def pseudonyms_of(campaign: Campaign) -> dict[str, str]:
    """Return the pseudonyms of samples that `acapella campaign process` wrote. Raises UserError if there are none."""
    path = require(campaign.directory / PSEUDONYMS, f"run: acapella campaign process {campaign.directory} --pseudonyms")
    with path.open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        return {row["true_sample"]: row["sample"] for row in rows}


def write_provenance(campaign: Campaign, environments: list[Environment], outputs: list[Path], *, hidden: bool) -> None:
    """Write versions, parameters and the SHA-256 of every capture and every output."""
    content = {
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
    write_content(campaign, STAGE, content)
