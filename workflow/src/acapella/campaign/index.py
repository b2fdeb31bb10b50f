"""Write the catalog of a campaign: the sites, ports, times, headers and flows in each file.

    acapella campaign index results/demo
    acapella campaign index results/demo --views

The column `excluded` of samples gives the reason why a sample is excluded from traffic statistics: `trial`, `filter`,
`p4` or `sampling`, or several of them; `config` if the config excludes the sample from all tables (--exclude); `failed`
if it is in no table because a stage failed (--failed); `no acap` if it was not digested. It is null for a sample that
counts. By default, only samples without any of these reasons count in traffic statistics. If none of them has frames,
samples with a filter, a P4 program or sampling count; if none of these has frames either, trials count. A sample that
could not be collected, for example because its capture is missing, has null in all columns but `sample`, `site`, `port`
and `excluded`; CAMPAIGN/quarantine/ contains the reason.

CAMPAIGN/catalog.duckdb contains the tables samples (manifest, digest, quality), acaps (file, time range, rows), flows
(of all samples) and stacks (per sample), and the views frames (every frame with its flow's key and application),
connections (a row per pair of flows), and one for each published table (tables/*.parquet). DuckDB 1.0.0 and later can
read all of it. Tables with list columns, such as flows.vlan, are also views: their rows are in the schema `stored`, in
a list format that DuckDB 1.0 can read. To query the catalog with DuckDB:

    duckdb -readonly results/demo/catalog.duckdb "select site, sum(frames) from frame_sizes group by site"

Views contain the absolute path of the campaign's directory, so they work from any working directory. (DuckDB resolves a
relative path from the client's working directory, and a view cannot refer to the path of its database.) If you move the
directory, run `acapella campaign index CAMPAIGN --views`: until then, other clients print "No files found that match
the pattern" with the previous path. `acapella sql` does not need this step. The workflow runs `acapella campaign index`
last, so the tables of all stages have views. The same inputs produce the same contents, but not an identical file.

If a catalog exists, only new and changed files are read: the rows of the others are kept. A file counts as unchanged if
its size, times and inode are those of the previous run. To read all files again, delete the catalog.

If raw/samples.tsv lists the samples, the files of other samples are removed first: those in acap/, flows/, partial/ and
flowreports/, and links in raw/. Captures in raw/ that are not links are moved to stale/raw/. logs/stale.log lists both.
Files that belong to no sample of the campaign are kept and reported.
"""

import contextlib
import json
from argparse import RawDescriptionHelpFormatter
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from pathlib import Path

from acapella.common import queries
from acapella_core import names as allowed
from acapella_core import sheets
from acapella_core.errors import UserError
from acapella_core.files import atomic_path, scratch_directory
from acapella_core.names import pluralize

from .analyze import Inputs, check_digests
from .batches import groups
from .failed_samples import KIND
from .layout import Campaign, open_campaign, require
from .reused import Digest, Files, Manifest, copy_earlier, digest_of, manifest_of, read_earlier, remove_changed, version
from .stale import remove_stale
from .views import TABLES, add_views, create_stored_view, new_database, published, renew_views, store, stored_query

KINDS = {"acap": ".parquet", "flows": ".parquet", "raw": ".json"}  # directory -> suffix of the files of a sample
FILES_AT_ONCE = 1000  # digests whose footers are in memory at the same time
FLOWS_AT_ONCE = 32 << 20  # bytes of flow tables that are sorted at the same time
LISTS = {  # temporary tables with lists of samples on which the catalog depends -> columns
    "listed": "sample varchar, site varchar, port varchar",
    **dict.fromkeys(("named_trials", "excluded", "failed"), "sample varchar"),
}
DATABASES = 2  # open at the same time: the catalog, and the one that reads digests
TRAFFIC = ("unfiltered", "all")


def register_parser(subparsers):
    """Add `acapella campaign index`."""
    parser = subparsers.add_parser(
        "index", help="write a campaign's catalog", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    parser.add_argument(
        "--exclude",
        nargs="+",
        default=[],
        metavar="SAMPLE",
        help="samples that are excluded from all tables",
    )
    parser.add_argument(
        "--failed",
        nargs="+",
        default=[],
        metavar="SAMPLE",
        help="samples that are in no table because they failed",
    )
    parser.add_argument(
        "--trials",
        nargs="+",
        default=[],
        metavar="SAMPLE",
        help="samples of trials, in addition to samples of traffic replays",
    )
    parser.add_argument(
        "--tables", nargs="+", default=[], metavar="TABLE", help="published tables of stages other than process"
    )
    parser.add_argument(
        "--views",
        action="store_true",
        help="only recreate the views of an existing catalog, for all published tables and the current path",
    )
    parser.add_argument(
        "--traffic",
        choices=TRAFFIC,
        default=TRAFFIC[0],
        help="samples that count in traffic statistics: unfiltered (the default), all",
    )
    parser.add_argument("--threads", type=int, default=1, help="number of DuckDB threads (default: 1)")
    queries.add_memory_argument(parser)
    return parser


def confine(args) -> None:
    """Confine this process, because it reads files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(Path(args.campaign, "catalog.duckdb"))


def run(args) -> None:
    """Write the catalog; print its contents and the excluded, misdated and missing samples."""
    campaign = open_campaign(args.campaign)
    if args.views:
        print(f"{campaign.catalog}: {len(renew_views(campaign, args.tables))} views of published tables")
        return
    if sheet_of(campaign).is_file():
        for line in remove_stale(campaign, set(listed_samples(campaign))):
            print(line)
    counts, missing = build(
        campaign,
        exclude=args.exclude,
        failed=args.failed,
        trials=args.trials,
        traffic=args.traffic,
        tables=args.tables,
        threads=args.threads,
        **queries.memory_limit(args.memory, databases=DATABASES),
    )
    print(f"{campaign.catalog}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    for samples, frames, reason in excluded(campaign):
        counted = f"{pluralize(samples, 'sample')} ({pluralize(frames, 'frame')})"
        print(f"acapella: {counted} excluded from traffic statistics: {reason}")
    if names := misdated(campaign):
        limit = "more than 10 years from the median start of the campaign"
        print(f"acapella: {pluralize(len(names), 'sample')} dated {limit}: {first_names(names)}")
    if missing:
        counted = pluralize(len(missing), "sample")
        print(f"acapella: {counted} in no table (excluded, or without an acap): {first_names(missing)}")


def first_names(names: list[str]) -> str:
    """Return the first five names, separated by commas."""
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def build(  # noqa: PLR0913
    campaign: Campaign,
    *,
    exclude: Sequence[str] = (),
    failed: Sequence[str] = (),
    trials: Sequence[str] = (),
    traffic: str = TRAFFIC[0],
    tables: Sequence[str] = (),
    **resources,
) -> tuple[dict[str, int], list[str]]:
    """Write the catalog; return the number of rows of each table and the samples without an acap.

    ``exclude``: samples to exclude from all tables; ``failed``: samples to omit because they failed; ``trials``:
    samples that the config lists as trials; ``traffic``: samples that count in traffic statistics; ``tables``:
    published tables that get a view, in addition to those of `campaign process` and to existing ones; ``resources``:
    threads, and further settings of DuckDB.
    """
    listed = listed_samples(campaign)
    with atomic_path(campaign.catalog) as temporary:
        start_ns = temporary.stat().st_mtime_ns
        temporary.unlink()  # DuckDB rejects an empty file as damaged
        files = input_files(campaign, listed, {*exclude, *failed}, start_ns)
        try:
            files = copy_earlier(campaign, files, temporary)
            samples_by_list = {"named_trials": trials, "excluded": exclude, "failed": failed}
            inputs = {"listed": [(name, *place) for name, place in listed.items()]}
            inputs |= {name: [(sample,) for sample in sorted({*samples})] for name, samples in samples_by_list.items()}
            with name_failing_sample(campaign, inputs, files, traffic=traffic):
                counts_and_missing = fill(campaign, temporary, inputs, files, traffic=traffic, **resources)
            add_views(campaign, temporary, published(campaign, tables))
            return counts_and_missing
        finally:
            temporary.with_name(temporary.name + ".wal").unlink(missing_ok=True)


def sheet_of(campaign: Campaign) -> Path:
    """Return the path of the sample sheet that `acapella collect` writes."""
    return campaign.directory / "raw" / "samples.tsv"


def listed_samples(campaign: Campaign) -> dict[str, tuple[str | None, str | None]]:
    """Return site and port of the samples in raw/samples.tsv, so that files of an earlier sheet are ignored.

    Without this sheet, return all samples that have a manifest or an acap, with None as site and port. Raises UserError
    if the sheet contains an invalid name.
    """
    sheet = sheet_of(campaign)
    if not sheet.is_file():
        names = {path.stem for kind in ("raw", "acap") for path in campaign.files(kind, KINDS[kind])}
        return dict.fromkeys(sorted(names), (None, None))
    return {row["sample"]: (row["site"], row["port"]) for row in sorted(sheets.read(sheet), key=itemgetter("sample"))}


def input_files(campaign: Campaign, listed: Collection[str], omitted: Collection[str], start_ns: int) -> Files:
    """Return the digests and manifests of the listed samples; ``omitted``: samples whose digests are ignored.

    ``start_ns``: start of indexing, by the clock of the file system. Raises UserError if no sample has an acap, a file
    is missing, or an entry of a cache is damaged.
    """
    samples, earlier = {*listed} - {*omitted}, read_earlier(campaign)
    acaps = sorted(
        (path for path in campaign.files("acap", ".parquet") if path.stem in samples), key=lambda path: path.name
    )
    if not acaps and listed and not samples:
        records = campaign.directory / campaign.pattern(KIND, "NAME.json")
        what = "all samples are omitted, because they failed or are excluded"
        fix = f"to try a sample again, delete {records}, or remove it from `exclude`"
        raise UserError(what, where=campaign.directory, fix=fix)
    if not acaps:
        raise UserError("no acaps", where=campaign.directory / "acap", fix="run acapella digest first")
    digests = []
    for acap in acaps:
        require(acap, f"run snakemake, which digests sample {acap.stem} again")
        flows = campaign.flows(acap.stem)
        for file in (flows, campaign.manifest(acap.stem)):
            if not file.is_file():
                raise UserError(f"no such file, but there is an acap {acap.name}", where=file)
        name = campaign.name("acap", acap.stem, ".parquet")
        digests.append(digest_of(acap, flows, name, earlier, start_ns))
        for file, checksum in ((acap, digests[-1].acap_sha256), (flows, digests[-1].flows_sha256)):
            check_cached(file, checksum)
    manifests = [(sample, campaign.manifest(sample)) for sample in sorted({*listed})]
    found = [manifest_of(sample, path, earlier, start_ns) for sample, path in manifests if path.is_file()]
    return Files(digests, found, earlier)


def check_cached(file: Path, checksum: str) -> None:
    """Raise UserError if a digest is a link to a cache entry and differs from the recorded checksum of the entry.

    The link is removed, so that the next run computes the digest again.
    """
    if file.lstat().st_nlink == 1 and not file.is_symlink():
        return
    from acapella.digest.cache import entry_of, recorded_checksum  # noqa: PLC0415 - only for links

    entry = entry_of(file)
    recorded = entry and recorded_checksum(entry)
    if recorded and recorded != checksum:
        file.unlink()
        raise UserError(
            f"sample {file.stem}: the cache entry is damaged: its bytes do not have the checksum in its .sha256 file",
            where=entry,
            fix="run snakemake again, which computes the digest again",
        )


@contextlib.contextmanager
def name_failing_sample(campaign: Campaign, samples: dict[str, list[tuple]], files: Files, *, traffic: str):
    """If DuckDB cannot create the tables of the catalog, raise UserError with the name of the sample that causes it.

    The parameters are those of `fill`.
    """
    import duckdb  # noqa: PLC0415

    try:
        yield
    except UserError as error:
        if not isinstance(error.__cause__, duckdb.Error) or queries.is_unrelated_to_samples(error):
            raise
        digested = [digest.sample for digest in files.digests]
        others = {path.stem for kind, suffix in KINDS.items() for path in campaign.files(kind, suffix)} - {*digested}
        name, why = queries.failing_sample(
            [*digested, *sorted(others)],
            lambda part: failure(campaign, part, samples, files, traffic=traffic),
        )
        raise UserError(
            f"sample {name} cannot be indexed{why}",
            where=campaign.directory,
            fix=f"delete the file of {name} and run snakemake again, or leave it out (exclude: [{name}])",
        ) from error


def failure(campaign: Campaign, part: Sequence[str], samples: dict, files: Files, *, traffic: str):
    """Create a temporary catalog of some samples and return the error; None if it succeeds.

    Queries read whole directories. The temporary directory therefore contains only links to files of these samples.
    """
    chosen = files.for_samples({*part})
    if not chosen.digests:
        return None  # DuckDB rejects a pattern that matches no file
    with scratch_directory() as directory:
        for kind, suffix in KINDS.items():
            for name in (campaign.name(kind, name, suffix) for name in part):
                link = Path(directory, name)
                link.parent.mkdir(parents=True, exist_ok=True)
                if (campaign.directory / name).exists():
                    link.symlink_to((campaign.directory / name).resolve())
        part_rows = {name: [row for row in rows if row[0] in part] for name, rows in samples.items()}
        try:
            fill(
                Campaign(Path(directory), campaign.sharded),
                Path(directory) / "catalog.duckdb",
                part_rows,
                chosen,
                traffic=traffic,
            )
        except UserError as error:
            if queries.is_unrelated_to_samples(error):
                raise
            return error.__cause__ or error
    return None


def excluded(campaign: Campaign) -> list[tuple[int, int, str]]:
    """Return (samples, frames, reason) for each reason to exclude samples from traffic statistics."""
    with (
        queries.one_line(campaign.directory),
        contextlib.closing(queries.open_catalog(campaign.directory)) as con,
    ):
        return con.execute(
            "select count(*), sum(frames)::ubigint, excluded from samples "
            "where acap is not null and excluded is not null group by excluded order by excluded"
        ).fetchall()


def misdated(campaign: Campaign) -> list[str]:
    """Return the samples dated years before or after the others; sql/index/samples.sql defines the limit."""
    with queries.one_line(campaign.directory), contextlib.closing(queries.open_catalog(campaign.directory)) as con:
        rows = con.execute("select sample from samples where acap is not null and misdated order by sample")
        return [name for (name,) in rows.fetchall()]


def fill(
    campaign: Campaign,
    database: Path,
    samples: dict[str, list[tuple]],
    files: Files,
    *,
    traffic: str,
    **resources,
) -> tuple[dict[str, int], list[str]]:
    """Create the tables of the catalog in a new database file, or in a copy of the earlier catalog.

    Return what `build` returns. ``samples``: rows of each table in LISTS; ``resources``: see `build`.
    """
    with contextlib.chdir(campaign.directory), queries.one_line(campaign.directory):
        con = new_database(database, **resources)
        if files.earlier.digests:
            remove_changed(con, files)
        for schema in ("indexed", "stored"):
            con.execute(f"create schema if not exists {schema}")
        add_manifests(con, campaign, files)
        for digests in parts(files):
            add_digests(con, campaign, digests, **resources)
        for name in ("files", "manifest_files", "manifests"):
            con.execute(f"create temp view {name} as from indexed.{name}")
        for name, columns in LISTS.items():
            con.execute(f"create temp table {name} ({columns})")
            queries.insert(con, name, samples[name])
        for name in ("digests", "restrictions"):
            con.execute(f"create temp table {name} as {queries.text('index', name)}")
        store(con, "samples", *queries.bound("index", "samples", {"traffic": traffic}))
        check(con)
        con.execute(f"create table acaps as {queries.text('index', 'acaps')}")
        update_locations(con, files)
        create_stored_view(con, "flows")
        con.execute("create table indexed.version as select $version as version", {"version": version()})
        counts = {name: con.execute(f"select count(*) from {name}").fetchone()[0] for name in TABLES}
        missing = con.execute("select sample from samples where acap is null order by sample").fetchall()
        con.execute("checkpoint")  # close() would ignore errors and leave rows in the WAL file
        con.close()
    return counts, [name for (name,) in missing]


def parts(files: Files) -> Iterator[list[Digest]]:
    """Yield the new and changed digests as lists; those in a list are read at the same time."""
    kept = files.kept_digests()
    changed = {digest.sample: digest for digest in files.digests if digest.sample not in kept}
    sizes = {sample: digest.flows_bytes for sample, digest in changed.items()}
    for group in groups([*changed], sizes, FLOWS_AT_ONCE):
        for start in range(0, len(group), FILES_AT_ONCE):
            yield [changed[sample] for sample in group[start : start + FILES_AT_ONCE]]


def add_manifests(con, campaign: Campaign, files: Files) -> None:
    """Add the rows of new and changed manifests."""
    kept = files.kept_manifests()
    changed = [manifest for manifest in files.manifests if manifest.sample not in kept]
    columns = ", ".join(f"{column} varchar" for column in Manifest._fields)
    con.execute(f"create table if not exists indexed.manifest_files ({columns})")
    queries.insert(con, "indexed.manifest_files", changed)
    if not changed:
        return
    query, paths = queries.text("index", "manifests"), [campaign.name("raw", row.sample, ".json") for row in changed]
    if not files.earlier.manifests:
        con.execute(f"create table indexed.manifests as {query} limit 0", {"files": paths})
    con.execute(f"insert into indexed.manifests {query}", {"files": paths})


def add_digests(con, campaign: Campaign, digests: Sequence[Digest], **resources) -> None:
    """Add the rows of digests: their metadata as JSON, flows and stacks. Column `excluded` is null for now.

    A separate connection reads each footer once and keeps it only during this call: the footer of a small acap needs
    28 KiB.
    """
    inputs = [
        Inputs(
            digest.sample,
            Path(digest.acap),
            Path("flows", *Path(digest.acap).parts[1:]),
            campaign.manifest(digest.sample),
        )
        for digest in digests
    ]
    query = "select sample, site, port from indexed.manifests where sample in (select unnest($samples::varchar[]))"
    places = {
        sample: place for sample, *place in con.execute(query, {"samples": [d.sample for d in digests]}).fetchall()
    }
    with contextlib.closing(queries.connect(**resources)) as reader:
        reader.execute("set parquet_metadata_cache = true")
        metadata = check_digests(reader, inputs)
        reader.execute(
            "create table samples (sample varchar, acap varchar, site varchar, port varchar, excluded varchar)"
        )
        rows = [(digest.sample, digest.acap, *places.get(digest.sample, (None, None)), None) for digest in digests]
        queries.insert(reader, "samples", rows)
        for table, name, column in (("stored.flows", "flows", "flows"), ("stacks", "stacks", "acap")):
            paths = [str(getattr(files, column)) for files in inputs]
            add_rows(con, table, reader, queries.text("index", name), {"files": paths})
    con.execute(
        "create table if not exists indexed.files (sample varchar, acap varchar, acap_bytes ubigint, "
        "acap_sha256 varchar, flows_bytes ubigint, flows_sha256 varchar, state varchar, digest json)"
    )
    queries.insert(con, "indexed.files", [(*d, json.dumps(metadata[d.acap], sort_keys=True)) for d in digests])


def add_rows(con, table: str, reader, query: str, bound: dict) -> None:
    """Add the rows of a query on a different connection to a table, which is created if it is missing."""
    rows = reader.sql(stored_query(reader, query, bound), params=bound).to_arrow_reader()
    con.register("read_columns", rows.schema.empty_table())
    con.execute(f"create table if not exists {table} as from read_columns")
    con.register("read_rows", rows)
    con.execute(f"insert into {table} from read_rows")


def update_locations(con, files: Files) -> None:
    """Replace site, port and `excluded` in rows of flows and stacks if those of their sample have changed.

    They depend on the manifests and on other samples. New rows have the site and port of their manifest.
    """
    kept = files.kept_digests()
    final = con.execute("select sample, site, port, excluded from samples where acap is not null").fetchall()
    changed = [
        sample
        for sample, site, port, excluded in final
        if (files.earlier.places.get(sample) if sample in kept else (site, port, None)) != (site, port, excluded)
    ]
    for table in ("stored.flows", "stacks") if changed else ():
        con.execute(
            f"update {table} as t set site = s.site, port = s.port, excluded = s.excluded from samples as s "
            "where t.sample = s.sample and s.sample in (select unnest($changed::varchar[]))",
            {"changed": changed},
        )


def check(con) -> None:
    """Raise UserError if a manifest contradicts its acap, is empty, or contains a name with control characters."""
    names = con.execute("select sample, site, port, environment, file from manifests order by sample")
    for sample, *labels, file in names.fetchall():
        for label in filter(None, labels):
            allowed.label(label, f"the manifest of {sample}")
        if file is not None:
            allowed.file(file, f"the manifest of {sample}")
    unknown = con.execute("select min(sample) from files where sample not in (select manifests.sample from manifests)")
    if sample := unknown.fetchone()[0]:
        raise UserError(
            "the manifest is empty", where=f"sample {sample}", fix=f"delete raw/{sample}.json; run snakemake"
        )
    row = con.execute(queries.text("index", "contradictions")).fetchone()
    if row:
        sample, mistake = row
        raise UserError(mistake, where=f"sample {sample}")
