"""Create the partial tables of one or several samples from their acaps and flow tables.

    acapella campaign analyze results/demo --sample s1
    acapella campaign analyze results/demo --sample s1 s2 -o partial --only frame_sizes

A partial table contains counts, sums, minima and maxima, but no means, so that `acapella campaign process` can compute
the exact tables of a campaign from the partial tables of its samples. Each is the result of a query in
workflow/sql/analyze/, written to a Parquet file of the same name, with the name of the sample in the first column. The
rows of a sample do not depend on other samples. With --keep, the existing tables in DIR keep the rows of the given
samples, and the rows of --sample are added. Without --sample, only the rows of --keep remain. With --only, other tables
are not changed.
"""

import contextlib
import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from acapella.common import queries
from acapella_core import beneath, schemas
from acapella_core.errors import UserError
from acapella_core.files import atomic_path

from .batches import groups
from .layout import Campaign, open_campaign, require

BIN_NS = 1_000_000_000  # default length of a throughput bin
PLACE = ("site", "port")  # columns that partial tables lack
SMALL_BYTES = 1 << 18  # digests of several samples with a smaller mean size are read once, into tables
EVIDENCE_BYTES = 12 << 20  # acaps of samples whose evidence is computed together: all their frames are in memory
UNREAD = {  # columns that no query reads
    "frames": ("cap_len", "protocols", "ip_len"),
    "flows": ("flow_id", "peer_flow_id", "community_id", "site", "port", "vlan", "mpls", "tunnels"),
}
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
    parser = subparsers.add_parser("analyze", help="create the partial tables of samples", description=__doc__)
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    parser.add_argument(
        "--sample", nargs="+", default=[], metavar="SAMPLE", help="samples to analyze; required without --keep"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="DIR",
        help="output directory (default: CAMPAIGN/partial/SAMPLE; required unless there is one sample)",
    )
    parser.add_argument(
        "--keep", nargs="+", default=[], metavar="SAMPLE", help="other samples whose rows in DIR are kept"
    )
    parser.add_argument("--only", nargs="+", metavar="TABLE", help="create only these tables (default: all)")
    parser.add_argument(
        "--bin-ns", type=int, default=BIN_NS, help=f"length of a throughput bin, in nanoseconds (default: {BIN_NS})"
    )
    parser.add_argument(
        "--congestion",
        nargs="+",
        metavar="KEY=VALUE",
        default=[],
        help="thresholds of congestion verdicts, as in config key analysis.congestion (default: those of its schema)",
    )
    parser.add_argument("--threads", type=int, default=1, help="number of DuckDB threads (default: 1)")
    return parser


def confine(args) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(output_of(args))


def preload(args) -> None:
    """Import what an analysis uses, before `acapella campaign batch` forks."""
    import duckdb  # noqa: F401, PLC0415 - keeps `--help` fast

    import acapella.digest.acap_files  # noqa: F401, PLC0415 (pyarrow)


def output_of(args) -> Path:
    """Return the directory of the partial tables.

    Raises UserError if there are no samples, or if --output is missing and --sample does not name exactly one sample.
    """
    if not args.sample and not args.keep:
        raise UserError("no sample", fix="specify the names of samples with --sample")
    if not args.output and len(args.sample) != 1:
        given = "several samples" if args.sample else "no sample"
        raise UserError(f"{given}, but no directory", fix="specify the directory of their tables with --output")
    return Path(args.output or Path(args.campaign, "partial", args.sample[0]))


def run(args) -> None:
    """Write the partial tables of the samples. Without --sample, remove all rows except those of --keep."""
    campaign = open_campaign(args.campaign)
    output = output_of(args)
    beneath.protect(output)
    if not args.sample:
        for name in selected_tables(args.only):
            keep_rows(output / f"{name}.parquet", args.keep)
        return
    parameters = {"bin_ns": args.bin_ns, **congestion_limits(args.congestion)}
    make_partials(campaign, args.sample, output, keep=args.keep, only=args.only, threads=args.threads, **parameters)


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


def make_partials(  # noqa: PLR0913
    campaign: Campaign,
    samples: Sequence[str],
    output: Path,
    *,
    keep: Sequence[str] = (),
    only: Sequence[str] | None = None,
    bin_ns: int = BIN_NS,
    threads: int = 1,
    **limits: float,
) -> list[Path]:
    """Write OUTPUT/<name>.parquet for each query in workflow/sql/analyze/, or those in ``only``; return the paths.

    The tables contain the rows of all ``samples``, in the order of their names, and the existing rows of the samples in
    ``keep``. ``limits``: thresholds of congestion verdicts that override the defaults of the schema. Raises UserError
    if the acap, the flow table or the manifest of a sample is missing, damaged or has a different format version, if
    ``bin_ns`` is not positive, or if a table in ``only`` is unknown.
    """
    parameters = {"bin_ns": bin_ns, **congestion_limits(), **limits}
    names = selected_tables(only)
    if bin_ns < 1:
        raise UserError(f"--bin-ns {bin_ns}: not a positive number", fix="specify a positive number of nanoseconds")
    inputs = [inputs_of(campaign, sample) for sample in sorted(set(samples))]
    where = f"sample {inputs[0].sample}" + (f" and {len(inputs) - 1} more" if len(inputs) > 1 else "")
    with queries.one_line(where):
        con = queries.connect(threads=threads)
        con.execute("set parquet_metadata_cache = true")  # each footer is read once
        check_digests(con, inputs)
        open_tables(con, inputs)
        create_labels(con)
        for name in shared_queries(names):
            con.execute(f"create table {name} as {queries.text('shared', name)}")
        tables = {
            name: verdicts(con, inputs, parameters) if name == "congestion" else partial(con, name, parameters)
            for name in names
        }  # all before the first one is written, so that a failed query leaves the earlier tables of other samples
        kept = sorted(set(keep) - set(samples))
        return [write_partial(rows, output / f"{name}.parquet", kept) for name, rows in tables.items()]


def selected_tables(only: Sequence[str] | None) -> list[str]:
    """Return the names of the tables to create: ``only``, or all. Raises UserError if one is unknown."""
    names = queries.names("analyze")
    for name in only or ():
        if name not in names:
            raise UserError(f"--only {name}: no such table", fix=f"one of {', '.join(names)}")
    return [name for name in names if only is None or name in only]


def shared_queries(names: Sequence[str]) -> list[str]:
    """Return the queries in workflow/sql/shared/ whose tables are read by queries in workflow/sql/analyze/.

    Includes queries that are read by other queries in workflow/sql/shared/; their names sort before those of the
    readers.
    """
    texts, needed = [queries.text("analyze", name) for name in names], []
    for shared in reversed(queries.names("shared")):
        if any(re.search(rf"\b(?:from|join)\s+{shared}\b", text) for text in texts):
            texts.append(queries.text("shared", shared))
            needed.insert(0, shared)
    return needed


def queries_of(name: str) -> list[tuple[str, str]]:
    """Return stage and name of all queries that create a partial table."""
    evidence = [("congestion", query) for query in EVIDENCE] if name == "congestion" else []
    return [*(("shared", query) for query in shared_queries([name])), *evidence, ("analyze", name)]


@dataclass(frozen=True)
class Inputs:
    """The input files of a sample's partial tables."""

    sample: str
    acap: Path
    flows: Path
    manifest: Path


def inputs_of(campaign: Campaign, sample: str) -> Inputs:
    """Return the input files of a sample. Raises UserError if one is missing."""
    acap, flows = (
        require(path, "run acapella digest first") for path in (campaign.acap(sample), campaign.flows(sample))
    )
    return Inputs(sample, acap, flows, require(campaign.manifest(sample), "run acapella collect first"))


def check_digests(con, inputs: Sequence[Inputs]) -> dict[str, dict]:
    """Return the metadata of each acap and flow table, by path.

    Raises UserError with the name of the sample if one is damaged or has a different format version.
    """
    import duckdb  # noqa: PLC0415

    from acapella.digest.acap_files import KEY, check_digest, check_format  # noqa: PLC0415 (pyarrow)

    sample_of = {str(path): digest.sample for digest in inputs for path in (digest.acap, digest.flows)}
    query = "select file_name, decode(value) from parquet_kv_metadata($files) where decode(key) = $key"
    try:
        described = dict(con.execute(query, {"files": [*sample_of], "key": KEY}).fetchall())
        metadata = {path: json.loads(described[path]) for path in sample_of}
    except (duckdb.Error, ValueError, KeyError):
        for path, sample in sample_of.items():
            check_digest(path, sample)
        raise
    for path, file_metadata in metadata.items():
        check_format(path, file_metadata)
    return metadata


def open_tables(con, inputs: Sequence[Inputs]) -> None:
    """Create the tables samples, frames and flows; rows of frames and flows begin with the name of their sample.

    Sample names are values of an ENUM, which are as fast as numbers. Small digests of several samples are read once,
    because opening their files for each query takes longer than the query. Other digests are views: reading only the
    columns that a query needs is faster than a table of all columns, and a single sample may exceed the memory.
    """
    columns = ("sample", "manifest", "acap", "flows")
    con.execute(f"create temp table given ({', '.join(f'{column} varchar' for column in columns)})")
    queries.insert(con, "given", [[str(getattr(files, column)) for column in columns] for files in inputs])
    con.execute("create type sample_name as enum (select sample from given order by sample)")
    con.execute("create table samples as select sample::sample_name as sample, manifest from given order by sample")
    for table, column in (("frames", "acap"), ("flows", "flows")):
        files = [getattr(digest, column) for digest in inputs]
        small = len(files) > 1 and sum(path.stat().st_size for path in files) < len(files) * SMALL_BYTES
        con.read_parquet([str(path) for path in files], filename=True).create_view(f"{table}_of_files")
        con.execute(
            f"create {'table' if small else 'view'} {table} as select "
            f"parse_filename(filename)[:-{len(files[0].suffix) + 1}]::sample_name as sample, "
            f"* exclude (filename, {', '.join(UNREAD[table])}) from {table}_of_files"
        )


def create_labels(con) -> None:
    """Create the tables protocols, payload_kinds, carriers and heuristics.

    protocols contains the rows of schemas/protocols.tsv. payload_kinds contains labels in `stack` that denote payload.
    carriers contains labels of protocols below the application (schemas/protocols.tsv). heuristics contains labels of
    protocols that tshark detects by their payload, with transport protocol and registered ports
    (schemas/heuristics.tsv).
    """
    protocols, detected = (list(rows_of(f"{name}.tsv")) for name in ("protocols", "heuristics"))
    create_protocols(con)
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


def create_protocols(con) -> None:
    """Create the table protocols: the rows of schemas/protocols.tsv."""
    con.execute("create temp table protocols (token varchar, label varchar, layer varchar)")
    rows = [(row["token"], row["label"], row["layer"]) for row in rows_of("protocols.tsv")]
    queries.insert(con, "protocols", rows)


def ports_of(text: str) -> list[int]:
    """Return the ports in a field of heuristics.tsv, which contains numbers, or ``-`` for none."""
    return [int(number) for number in text.split() if number != "-"]


def rows_of(name: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a TSV file in schemas/."""
    with (schemas.root() / name).open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream, delimiter="\t")


def verdicts(con, inputs: Sequence[Inputs], parameters: dict):
    """Return the rows of query congestion as an Arrow table.

    Without a known capacity of the mirror, the verdict is `unknown` and the evidence is not computed, because no table
    contains it, and computing it takes most of the time. Each group of samples has a separate database, so that the
    memory of its evidence is released.
    """
    mirrored = {files.sample: files for files in inputs if has_capacity(files.manifest)}
    rows = [unknown_verdicts(con, mirrored)]
    sizes = {sample: files.acap.stat().st_size for sample, files in mirrored.items()}
    for group in groups([*mirrored], sizes, EVIDENCE_BYTES):
        members = [mirrored[sample] for sample in group]
        with temporary_database(con) as evidence:
            open_tables(evidence, members)
            gather_evidence(evidence, [files.manifest for files in members], parameters)
            rows.append(partial(evidence, "congestion", parameters))
    return in_order(rows)


@contextlib.contextmanager
def temporary_database(con):
    """Provide a connection to a new database in memory, which shares the footers that ``con`` has read."""
    con.execute("attach ':memory:' as temporary")
    try:
        with queries.cursor(con) as connection:
            connection.execute("use temporary")
            connection.execute("set parquet_metadata_cache = true")
            yield connection
    finally:
        con.execute("detach temporary")


def unknown_verdicts(con, mirrored: Iterable[str]):
    """Return the rows of query congestion for samples other than ``mirrored``."""
    import pyarrow as pa  # noqa: PLC0415 (slow to import)

    from acapella_core.arrow_tables import arrow_schema  # noqa: PLC0415 (pyarrow)

    query = "select sample::varchar as sample, 'unknown' as verdict from samples where sample not in (select unnest(?))"
    rows = con.sql(query, params=[[*mirrored]]).to_arrow_table()
    fields = [pa.field(field.name, field.type) for field in arrow_schema("congestion") if field.name not in PLACE]
    columns = [rows[f.name] if f.name in rows.column_names else pa.nulls(len(rows), f.type) for f in fields]
    return pa.table(columns, pa.schema(fields))


def has_capacity(manifest: Path) -> bool:
    """Return whether a manifest contains the capacity of the mirror port. Raises UserError if it is not a manifest."""
    try:
        congestion = json.loads(manifest.read_bytes()).get("congestion") or {}
        return bool(congestion.get("capacity_bps"))
    except (OSError, ValueError, AttributeError) as error:
        raise UserError("is not a manifest", where=manifest, fix="run acapella collect again") from error


def gather_evidence(con, manifests: Sequence[Path], parameters: dict) -> None:
    """Create the tables that the query of congestion verdicts reads. Requires the tables that `open_tables` creates."""
    # DuckDB underestimates the rows of ASOF joins, and would compare each row of a sample with all others.
    con.execute("set asof_loop_join_threshold = 0")
    for name in EVIDENCE:
        query, bound = queries.bound("congestion", name, {**parameters, "manifests": [str(path) for path in manifests]})
        con.execute(f"create or replace temp table {name} as {query}", bound)


def partial(con, name: str, parameters: dict):
    """Return the rows of a query in workflow/sql/analyze/ as an Arrow table."""
    rows = queries.select(con, "analyze", name, parameters)
    return rows.select("sample::varchar as sample, * exclude (sample)").to_arrow_table()


def in_order(parts: Sequence):
    """Return the rows of Arrow tables in the order of their samples; rows of the same sample keep their order."""
    import pyarrow as pa  # noqa: PLC0415 (slow to import)

    parts = [parts[0], *(part.cast(parts[0].schema) for part in parts[1:] if len(part))]
    if len(parts) == 1:
        return parts[0]
    table = pa.concat_tables(parts)
    return table.take(pa.compute.sort_indices(table, [("sample", "ascending")]))  # a stable sort


def write_partial(table, target: Path, kept: Sequence[str] = ()) -> Path:
    """Write the rows of a partial table as Parquet, and return the path.

    ``kept``: samples whose rows in the existing file are kept.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 (slow to import)

    if kept:
        table = in_order([table, rows_of_samples(target, kept)])
    with atomic_path(target) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    return target


def keep_rows(target: Path, kept: Sequence[str]) -> None:
    """Remove all rows of a partial table except those of some samples. Raises UserError if it cannot be read."""
    write_partial(rows_of_samples(target, kept), target)


def rows_of_samples(table: Path, samples: Sequence[str]):
    """Return the rows of samples in a file of a partial table as an Arrow table. Raises UserError if it is damaged."""
    import pyarrow as pa  # noqa: PLC0415 (slow to import)
    import pyarrow.parquet as pq  # noqa: PLC0415 (slow to import)

    try:
        return pq.read_table(table, filters=[("sample", "in", [*samples])])
    except pa.ArrowInvalid as error:
        raise UserError("is damaged", where=table, fix="delete it, and run snakemake again") from error
