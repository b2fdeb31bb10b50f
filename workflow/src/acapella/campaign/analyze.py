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

from .layout import Campaign, opened, require

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
)  # of workflow/sql/congestion/, in the order of their inputs


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
    parser.add_argument("--threads", type=int, default=1, help="threads of DuckDB (default: 1)")
    return parser


def confine(args) -> None:
    """Take rights from this process, which reads files that others may have made."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - the start of `--help` stays quick

    confine_self(output_of(args))


def output_of(args) -> Path:
    """Return the directory of the partial tables."""
    return Path(args.output or Path(args.campaign, "partial", args.sample))


def run(args) -> None:
    """Write the partials."""
    campaign = opened(args.campaign)
    output = output_of(args)
    beneath.protect(output)
    parameters = {"bin_ns": args.bin_ns, **congestion_limits(args.congestion)}
    make_partials(campaign, args.sample, output, threads=args.threads, **parameters)


def congestion_limits(given: Sequence[str] = ()) -> dict[str, float]:
    """Return the thresholds of congestion verdicts: the schema's defaults, changed by a list of ``KEY=VALUE``.

    Raises UserError for an unknown key or a value that is no number.
    """
    keys = schemas.json_schema("config")["properties"]["analysis"]["properties"]["congestion"]["properties"]
    limits = {key: rule["default"] for key, rule in keys.items()}
    for word in given:
        key, _, value = word.partition("=")
        if key not in limits:
            raise UserError(f"--congestion {word}: no such key", fix=f"one of {', '.join(limits)}")
        try:
            limits[key] = type(limits[key])(float(value))
        except ValueError as error:
            raise UserError(f"--congestion {word}: not a number") from error
    return limits


def make_partials(
    campaign: Campaign, sample: str, output: Path, *, bin_ns: int = BIN_NS, threads: int = 1, **limits: float
) -> list[Path]:
    """Write OUTPUT/<name>.parquet for each query of the stage; return the paths.

    ``limits``: thresholds of congestion verdicts that differ from the schema's. Raises UserError if the acap, the flows
    or the manifest are missing, broken or of another format, or ``bin_ns`` is not positive.
    """
    parameters = {"bin_ns": bin_ns, **congestion_limits(), **limits}
    if bin_ns < 1:
        raise UserError(f"--bin-ns is {bin_ns}", fix="give a positive number of nanoseconds")
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
    """Make the tables payload_kinds, carriers and heuristics.

    payload_kinds: labels of `stack` that name payload; carriers: labels below the application (schemas/protocols.tsv);
    heuristics: labels that tshark finds by payload, with transport and registered ports (schemas/heuristics.tsv).
    """
    protocols, guessed = (list(rows_of(f"{name}.tsv")) for name in ("protocols", "heuristics"))
    kinds = {"payload_kinds": [], "carriers": []}
    for row in protocols:
        if row["layer"] not in ("app", "glue"):
            kinds["payload_kinds" if row["layer"] == "payload" else "carriers"].append(row["label"])
    for name, labels in kinds.items():
        con.execute(f"create table {name} as select distinct unnest($labels::varchar[]) as label", {"labels": labels})
    named = {row["token"]: row["label"] for row in protocols}
    con.execute("create table heuristics (label varchar, transport varchar, ports integer[])")
    found = [
        (named.get(row["token"], row["token"].upper()), row["transport"].upper(), ports_of(row["ports"]))
        for row in guessed
    ]
    con.executemany("insert into heuristics values (?, ?, ?)", found)


def ports_of(text: str) -> list[int]:
    """Return the ports of a row of heuristics.tsv: numbers, or ``-``."""
    return [int(number) for number in text.split() if number != "-"]


def rows_of(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table of schemas/."""
    with (schemas.root() / name).open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream, delimiter="\t")


def gather_evidence(con, manifest: Path, parameters: dict) -> None:
    """Make the tables that a congestion verdict is selected from; views `frames` and `flows` are there."""
    for name in EVIDENCE:
        query, bound = queries.bound("congestion", name, {**parameters, "manifest": str(manifest)})
        con.execute(f"create or replace temp table {name} as {query}", bound)


def write_partial(con, name: str, output: Path, parameters: dict) -> Path:
    """Run one SELECT and write its rows."""
    target = output / f"{name}.parquet"
    with atomic_path(target) as temporary:
        queries.select(con, "analyze", name, parameters).write_parquet(str(temporary), compression="zstd")
    return target
