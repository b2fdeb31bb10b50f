"""Merge the partial tables of all samples into the tables of a campaign.

    acapella campaign process results/demo
    acapella campaign process results/demo --pseudonyms --top 20

Writes CAMPAIGN/tables/<name>.csv and .parquet. schemas/tables/<name>.yaml describes each table: its grain, its key,
units, and when a value is null. Sampled shares have 95 % confidence intervals from a bootstrap over samples. Flows are
stitched across the samples of a port. Samples that the catalog excludes from traffic statistics count only in
capture_quality, congestion and restrictions. Rows are sorted by their key; the same inputs and parameters produce
identical files. CAMPAIGN/provenance/process.json lists the inputs of the tables. The previous tables are kept until all
new ones are complete. If a sample causes the merge to fail, the error names it.

With --pseudonyms, sites, ports and samples have names such as S0, P0 and S0-P0-0000 in all tables, in the figures and
in the report. The mapping is written to CAMPAIGN/pseudonyms.tsv, which must not be published. The catalog keeps the
original names.
"""

import collections
import contextlib
import csv
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from acapella.common import queries
from acapella.common.pseudonyms import FILE as PSEUDONYMS
from acapella.common.pseudonyms import pseudonyms, true_names, write_mapping
from acapella_core import names as allowed
from acapella_core import schemas
from acapella_core.errors import UserError

from . import analyze
from .batches import read_plan
from .layout import Campaign, open_campaign, require

TABLES = tuple(queries.names("process"))
TOP = 100
ANALYZE = "acapella campaign analyze"
MAX_SILENT_BINS = 100_000  # 28 h in bins of 1 s; limits the rows of a sample if a timestamp is off by years
MIN_SILENCE_NS = 60 * 10**9  # longer than the usual intervals of LLDP (30 s), so that an idle port is rarely silent
ALL_SAMPLE_TABLES = (
    "congestion",
    "quality",
    "throughput",
)  # partial tables that include samples excluded from traffic statistics
STITCHING = ("flows", "timeline", "covered", "port_flows", "site_flows", "campaign_flows", "distributions")


def register_parser(subparsers):
    """Add `acapella campaign process`."""
    parser = subparsers.add_parser("process", help="merge partial tables into CSV and Parquet", description=__doc__)
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    parser.add_argument("--pseudonyms", action="store_true", help="hide the names of sites, ports and samples")
    parser.add_argument("--top", type=int, default=TOP, help=f"flows per site in top_flows (default: {TOP})")
    parser.add_argument("--threads", type=int, default=1, help="number of DuckDB threads (default: 1)")
    queries.add_memory_argument(parser)
    return parser


def confine(args) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(Path(args.campaign, "tables"))


def run(args) -> None:
    """Write the tables; print their directory, the number of files, and the path of the provenance."""
    campaign = open_campaign(args.campaign)
    resources = {"threads": args.threads} | queries.memory_limit(args.memory)
    written = make_tables(campaign, hide=args.pseudonyms, top=args.top, **resources)
    print(f"{campaign.directory / 'tables'}: {len(written)} files; {campaign.provenance('process')}")


def make_tables(campaign: Campaign, *, hide: bool = False, top: int = TOP, **resources) -> list[Path]:
    """Write tables/ and provenance/process.json; return the tables' paths.

    ``resources``: threads, and further settings of DuckDB. Raises UserError if the catalog or a partial table is
    missing, or if partial tables have different time bins.
    """
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    from . import provenance  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    require(campaign.catalog, f"run acapella campaign index {campaign.directory}")
    with queries.one_line(campaign.directory, catalog_of=campaign.directory):
        con = queries.open_catalog(campaign.directory, **resources)  # read-only: tables created below are temporary
        names = name_samples(campaign, con, hide=hide)
        written = []
        with name_failing_sample(campaign, con, names, hide=hide, top=top), contextlib.ExitStack() as complete:
            merge(campaign, con, names, hide=hide)
            parameters = parameters_of(con, top)
            for name in TABLES:
                relation = queries.select(con, "process", name, parameters)
                target = functools.partial(campaign.table, name)
                written += tables.write(relation, name, target, complete)
        used = {**parameters, "pseudonyms": hide, "bootstrap": bootstrap_parameters()}
        provenance.write(campaign, con, names=names, outputs=written, parameters=used)
    return written


def parameters_of(con, top: int) -> dict:
    """Return the parameters of the queries in workflow/sql/process/."""
    limits = {"max_silent_bins": MAX_SILENT_BINS, "min_silence_ns": MIN_SILENCE_NS}
    return {"bin_ns": bin_length(con), "top": top, **limits}


@contextlib.contextmanager
def name_failing_sample(campaign: Campaign, con, names: list, *, hide: bool, top: int):
    """If the samples cannot be merged, raise UserError with the name of the sample that causes it.

    The original error is raised if the cause is not a sample: a missing column, or lack of memory or disk space.
    """
    import duckdb  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    try:
        yield
    except duckdb.BinderException:
        raise
    except (duckdb.Error, ValueError, pa.ArrowException) as error:
        if queries.is_unrelated_to_samples(error):
            raise
        by_directory = {name.directory: name for name in names}

        def failing(directories):
            return failure(campaign, con, [by_directory[directory] for directory in directories], hide=hide, top=top)

        name, why = queries.failing_sample(list(by_directory), failing)
        raise UserError(
            f"sample {name} cannot be merged{why}",
            where=campaign.directory,
            fix=f"digest it again (delete {campaign.acap(name)}), or exclude it (exclude: [{name}])",
        ) from error


def failure(campaign: Campaign, connection, names: list, *, hide: bool, top: int) -> Exception | None:
    """Merge some samples without writing tables; return the error, or None if it succeeds."""
    import duckdb  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    from acapella.common import tables  # noqa: PLC0415

    con = queries.cursor(connection)  # it has separate temporary tables
    try:
        create_names(con, names)
        merge(campaign, con, names, hide=hide)
        parameters = parameters_of(con, top)
        for name in TABLES:
            tables.check(queries.select(con, "process", name, parameters), name)
    except (duckdb.Error, ValueError, pa.ArrowException) as error:
        if queries.is_unrelated_to_samples(error):
            raise
        return error
    finally:
        con.close()
    return None


def name_samples(campaign: Campaign, con, *, hide: bool) -> list:
    """Create the temporary table `names`, the names of the samples in the tables; return it as a list.

    ``hide``: use pseudonyms and write the mapping.
    """
    query = con.sql(
        "select sample, site, port, sha256, start_ns from catalog.samples where acap is not null order by sample"
    )
    columns = query.columns
    samples = [dict(zip(columns, row, strict=True)) for row in query.fetchall()]
    for sample in samples:
        allowed.sample(sample["sample"], campaign.catalog)
        for place in ("site", "port"):
            allowed.label(sample[place], campaign.catalog)
    names = pseudonyms(samples) if hide else true_names(samples)
    if hide:
        write_mapping(campaign.directory / PSEUDONYMS, samples, names)
    create_names(con, names)
    return names


def create_names(con, names: list) -> None:
    """Create the temporary table `names`."""
    con.execute("create temp table names (directory varchar, sample varchar, site varchar, port varchar)")
    queries.insert(con, "names", [(n.directory, n.sample, n.site, n.port) for n in names])


def merge(campaign: Campaign, con, names: list, *, hide: bool) -> None:
    """Create the temporary tables that the queries of the published tables read."""
    create(con, "shared", "thresholds")
    create(con, "merge", "samples", {"pseudonyms": hide})
    create(con, "merge", "traffic")
    in_traffic = {row[0] for row in con.execute("select directory from traffic").fetchall()}
    batch_of = {member.sample: member.batch for member in read_plan(campaign.directory)}
    for name in queries.names("analyze"):
        chosen = [n.directory for n in names if name in ALL_SAMPLE_TABLES or n.directory in in_traffic]
        read_partials(campaign, con, name, chosen, batch_of)
    check_complete(campaign, con, names)
    for name in ("scopes", "totals", "shares"):
        create(con, "merge", name)
    create(con, "merge", "silences", {"bin_ns": bin_length(con), "min_silence_ns": MIN_SILENCE_NS})
    bootstrap_intervals(con)
    create(con, "merge", "site_shares")
    analyze.create_protocols(con)
    create(con, "shared", "flow_applications")
    for name in STITCHING:
        create(con, "merge", name, {"pseudonyms": hide, "networks": network_types()})


def read_partials(campaign: Campaign, con, name: str, chosen: Sequence[str], batch_of: Mapping[str, str]) -> None:
    """Create a temporary table with the rows of a partial table of some samples.

    ``batch_of``: batch of each sample in the plan of batches. Raises UserError if files are missing, or of an older
    version, in which partial tables had no names of samples.
    """
    import duckdb  # noqa: PLC0415

    files = [str(path) for path in partial_files(campaign, chosen, name, batch_of)]
    try:
        create(con, "merge", "partials", {"files": files, "chosen": [*chosen]}, table=name)
    except duckdb.BinderException as error:
        where = Path(files[0]).parent.parent
        fix = f"run snakemake, or {ANALYZE} for each sample"
        raise UserError(f"partial tables {name} are of a different version", where=where, fix=fix) from error


def partial_files(campaign: Campaign, samples: Sequence[str], name: str, batch_of: Mapping[str, str]) -> list[Path]:
    """Return the files of a partial table: one per sample with its own tables, and those of the other samples' batches.

    ``batch_of``: batch of each sample in the plan. A batch that is not in the plan may still have tables, with rows of
    samples that are now in other batches. If the plan lacks a sample, all batches count. Raises UserError if a file is
    missing.
    """
    existing = {path.name for path in (campaign.directory / "partial").glob("*")}
    alone = [sample for sample in samples if sample in existing]
    others = [sample for sample in samples if sample not in existing]
    files = [require(campaign.partial(sample, name), f"run {ANALYZE} --sample {sample}") for sample in alone]
    if all(sample in batch_of for sample in others):
        batches = sorted({batch_of[sample] for sample in others})
        return [*files, *(require(campaign.batch_partial(batch, name), "run snakemake") for batch in batches)]
    batches = sorted((campaign.directory / "batches" / "partial").glob(f"*/{name}.parquet"))
    if not batches:
        require(campaign.partial(others[0], name), f"run {ANALYZE} --sample {others[0]}")
    return files + batches


def check_complete(campaign: Campaign, con, names: list) -> None:
    """Raise UserError if partial tables do not contain each sample once. The table `quality` has a row for each."""
    rows = con.execute("select s.directory from quality as q inner join samples as s using (sample)").fetchall()
    counts = collections.Counter(directory for (directory,) in rows)
    for sample in (n.directory for n in names if counts[n.directory] != 1):
        what = "are in several files" if counts[sample] else "are missing"
        where = campaign.directory / "partial"
        raise UserError(
            f"the partial tables of {sample} {what}", where=where, fix=f"run snakemake, or {ANALYZE} --sample {sample}"
        )


def network_types() -> list[str]:
    """Return the types of tunnel identifiers that are the same in both directions of a flow (schemas/tunnels.tsv)."""
    with (schemas.root() / "tunnels.tsv").open(encoding="utf-8", newline="") as stream:
        return [row["type"] for row in csv.DictReader(stream, delimiter="\t") if row["directions"] == "same"]


def create(con, stage: str, name: str, parameters: dict | None = None, *, table: str | None = None) -> None:
    """Create a temporary table from a query. ``table``: its name (default: the name of the query)."""
    query, bound = queries.bound(stage, name, parameters or {})
    con.execute(f"create temp table {table or name} as {query}", bound)


def bin_length(con) -> int:
    """Return the length of the throughput bins in ns. Raises UserError if it differs between samples."""
    lengths = con.execute(
        "select t.bin_ns, count(distinct s.directory) as samples, min(s.directory) as first from throughput as t "
        "inner join samples as s using (sample) group by t.bin_ns order by samples desc, t.bin_ns"
    ).fetchall()
    if len(lengths) > 1:
        counts = (f"{bin_ns} in {number} ({first}{', ...' if number > 1 else ''})" for bin_ns, number, first in lengths)
        raise UserError(
            f"samples were analyzed with different --bin-ns: {', '.join(counts)}",
            fix="run acapella campaign analyze for them again with the same --bin-ns",
        )
    return lengths[0][0] if lengths else analyze.BIN_NS


def bootstrap_parameters() -> dict:
    """Return the parameters of the bootstrap."""
    from acapella.common import bootstrap  # noqa: PLC0415 (numpy)

    return {
        "resamples": bootstrap.RESAMPLES,
        "level_percent": bootstrap.LEVEL_PERCENT,
        "fewest_samples": bootstrap.FEWEST,
        "seed": bootstrap.SEED,
    }


def bootstrap_intervals(con) -> None:
    """Create the temporary table `intervals` with columns kind, site, category, share_lo and share_hi."""
    import pyarrow as pa  # noqa: PLC0415

    from acapella.common.bootstrap import share_intervals  # noqa: PLC0415

    sites, categories, counts, totals = count_matrix(con)
    rows = []
    for site in [*sorted(set(sites)), "all"]:
        chosen = [n for n, sample_site in enumerate(sites) if site in (sample_site, "all")]
        bounds = share_intervals(counts[chosen], totals[chosen])
        if bounds is not None:
            rows += [(kind, site, category, *pair) for (kind, category), *pair in zip(categories, *bounds, strict=True)]
    types = {"kind": pa.string(), "site": pa.string(), "category": pa.string()}
    types |= {"share_lo": pa.float64(), "share_hi": pa.float64()}
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types.values(), strict=True)]
    con.register("rows", pa.table(arrays, names=list(types)))
    con.execute("create temp table intervals as select * from rows")


def count_matrix(con) -> tuple:
    """Return (sites, categories, counts, totals); samples are ordered by their original names.

    counts: frames [samples, categories]; totals: frames [samples]; sites: the site of each sample.
    """
    import numpy as np  # noqa: PLC0415

    samples = con.execute(
        "select s.sample, s.site, q.frames from traffic as s inner join quality as q on s.sample = q.sample "
        "order by s.directory"
    ).fetchall()
    categories = con.execute("select distinct kind, category from shares order by kind, category").fetchall()
    row_of = {sample: n for n, (sample, _, _) in enumerate(samples)}
    column_of = {category: n for n, category in enumerate(categories)}
    counts = np.zeros((len(samples), len(categories)))
    for kind, sample, category, frames in con.execute("select kind, sample, category, frames from shares").fetchall():
        counts[row_of[sample], column_of[kind, category]] = frames
    totals = np.array([frames for _, _, frames in samples], dtype=float)
    return [site for _, site, _ in samples], categories, counts, totals
