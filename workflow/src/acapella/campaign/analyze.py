"""Make the partial tables of one sample, from its acap and its flows.

A partial holds counts, sums, minima and maxima, never means: partials of any samples add up exactly to the tables of a
campaign (`acapella campaign process`). Each is one SELECT of workflow/sql/analyze/, written as Parquet under its name.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from acapella.common import queries
from acapella_core import beneath, schemas
from acapella_core.errors import UserError
from acapella_core.files import atomic_path

from .layout import Campaign, open_campaign, require

BIN_NS = 1_000_000_000  # default length of a throughput bin
EVIDENCE = (
    "mirror",
    "arrivals",
    "stretches",
    "windows",
    "runs",
    "busy",
    "tcp_gaps",
    "id_gaps",
    "balance",
)  # queries in workflow/sql/congestion/; each one may read the tables of those before it


def register_parser(subparsers):
    """Add `acapella campaign analyze`."""
    parser = subparsers.add_parser("analyze", help="make the partial tables of one sample", description=__doc__)
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    parser.add_argument("--sample", required=True, help="name of the sample")
    parser.add_argument("-o", "--output", metavar="DIR", help="default: CAMPAIGN/partial/SAMPLE")
    parser.add_argument("--bin-ns", type=int, default=BIN_NS, help=f"length of a throughput bin (default: {BIN_NS})")
    parser.add_argument(
        "--congestion",
        nargs="+",
        metavar="KEY=VALUE",
        default=[],
        help="thresholds of congestion verdicts, as analysis.congestion in the config (default: those of its schema)",
    )
    parser.add_argument("--threads", type=int, default=1, help="number of DuckDB threads (default: 1)")
    return parser


def confine(args) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - the start of `--help` stays quick

    confine_self(output_of(args))


def preload(args) -> None:
    """Import what an analysis uses, before `acapella campaign batch` forks a process for each sample."""
    import duckdb  # noqa: F401, PLC0415 - the start of `--help` stays quick

    import acapella.digest.acap_files  # noqa: F401, PLC0415 (pyarrow)


def output_of(args) -> Path:
    """Return the directory of the partial tables."""
    return Path(args.output or Path(args.campaign, "partial", args.sample))


def run(args) -> None:
    """Write the partial tables of a sample."""
    campaign = open_campaign(args.campaign)
    output = output_of(args)
    beneath.protect(output)
    parameters = {"bin_ns": args.bin_ns, **congestion_limits(args.congestion)}
    make_partials(campaign, args.sample, output, threads=args.threads, **parameters)


def congestion_limits(arguments: Sequence[str] = ()) -> dict[str, float]:
    """Return the thresholds of congestion verdicts: defaults of the schema, overridden by a list of ``KEY=VALUE``.

    Raises UserError if a key is unknown or a value is not a number.
    """
    keys = schemas.json_schema("config")["properties"]["analysis"]["properties"]["congestion"]["properties"]
    limits = {key: rule["default"] for key, rule in keys.items()}
    for argument in arguments:
        key, _, value = argument.partition("=")
        if key not in limits:
            raise UserError(f"--congestion {argument}: no such key", fix=f"one of {', '.join(limits)}")
        try:
            limits[key] = type(limits[key])(float(value))
        except ValueError as error:
            raise UserError(f"--congestion {argument}: not a number") from error
    return limits


def make_partials(
    campaign: Campaign, sample: str, output: Path, *, bin_ns: int = BIN_NS, threads: int = 1, **limits: float
) -> list[Path]:
    """Write OUTPUT/<name>.parquet for each query in workflow/sql/analyze/; return the paths.

    ``limits``: thresholds of congestion verdicts that override the defaults of the schema. Raises UserError if the
    acap, the flow table or the manifest is missing, damaged or has another format version, or if ``bin_ns`` is not
    positive.
    """
    parameters = {"bin_ns": bin_ns, **congestion_limits(), **limits}
    if bin_ns < 1:
        raise UserError(f"--bin-ns {bin_ns}: not a positive number", fix="give a positive number of nanoseconds")
    acap = require(campaign.acap(sample), "run acapella digest first")
    flows = require(campaign.flows(sample), "run acapella digest first")
    from acapella.digest.acap_files import check_digest  # noqa: PLC0415 (pyarrow)

    for path in (acap, flows):
        check_digest(path, sample)
    manifest = require(campaign.manifest(sample), "run acapella collect first")
    with queries.one_line(f"sample {sample}"):
        con = queries.connect(threads=threads)
        con.read_parquet(str(acap)).create_view("frames")
        con.read_parquet(str(flows)).create_view("flows")
        for name in queries.names("shared"):
            con.execute(f"create table {name} as {queries.text('shared', name)}")
        create_labels(con)
        gather_evidence(con, manifest, parameters)
        return [write_partial(con, name, output, parameters) for name in queries.names("analyze")]


def create_labels(con) -> None:
    """Create the tables payload_kinds, carriers and heuristics.

    payload_kinds contains labels in `stack` that denote payload. carriers contains labels of protocols below the
    application (schemas/protocols.tsv). heuristics contains labels of protocols that tshark detects by their payload,
    with transport protocol and registered ports (schemas/heuristics.tsv).
    """
    protocols, detected = (list(rows_of(f"{name}.tsv")) for name in ("protocols", "heuristics"))
    kinds = {"payload_kinds": [], "carriers": []}
    for row in protocols:
        if row["layer"] not in ("app", "glue"):
            kinds["payload_kinds" if row["layer"] == "payload" else "carriers"].append(row["label"])
    for name, labels in kinds.items():
        con.execute(f"create table {name} as select distinct unnest($labels::varchar[]) as label", {"labels": labels})
    label_of = {row["token"]: row["label"] for row in protocols}
    con.execute("create table heuristics (label varchar, transport varchar, ports integer[])")
    heuristics = [
        (label_of.get(row["token"], row["token"].upper()), row["transport"].upper(), ports_of(row["ports"]))
        for row in detected
    ]
    queries.insert(con, "heuristics", heuristics)


def ports_of(text: str) -> list[int]:
    """Return the ports in a field of heuristics.tsv, which contains numbers, or ``-`` for none."""
    return [int(number) for number in text.split() if number != "-"]


def rows_of(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a TSV file in schemas/."""
    with (schemas.root() / name).open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream, delimiter="\t")


def gather_evidence(con, manifest: Path, parameters: dict) -> None:
    """Create the tables that the query of congestion verdicts reads. Requires the views `frames` and `flows`."""
    for name in EVIDENCE:
        query, bound = queries.bound("congestion", name, {**parameters, "manifest": str(manifest)})
        con.execute(f"create or replace temp table {name} as {query}", bound)


def write_partial(con, name: str, output: Path, parameters: dict) -> Path:
    """Run a query in workflow/sql/analyze/, write its rows as Parquet, and return the path."""
    target = output / f"{name}.parquet"
    with atomic_path(target) as temporary:
        queries.select(con, "analyze", name, parameters).write_parquet(str(temporary), compression="zstd")
    return target
