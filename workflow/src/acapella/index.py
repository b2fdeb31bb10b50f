"""Make the catalog of a campaign: which file holds which site, port, time, header and flow.

The column `excluded` of samples gives the reason why a sample is excluded from traffic statistics: `trial`, `filter`,
`p4` or `sampling`, or several of them; it is null for a sample that counts. By default only samples without these
restrictions count. If the campaign has none, the filtered ones count; trials count only if all samples are trials.

CAMPAIGN/catalog.duckdb holds the tables samples (manifest, digest, quality), acaps (file, time range, rows), flows (of
all samples) and stacks (per sample), and the views frames (every frame with its flow's key), connections (a row per
pair of flows), and one for each published table (tables/*.parquet). DuckDB 1.0.0 and later open it (1.0 itself cannot
read a list column, as vlan, that is empty in all rows):

    duckdb -readonly results/demo/catalog.duckdb "select site, sum(frames) from frame_sizes group by site"

Views contain the absolute path of the campaign's folder: they work from any working directory. If you move the folder,
run `acapella index` again; `acapella sql` works there without. The content depends on the inputs alone; the file's own
bytes do not have to be equal from run to run, so nothing takes its checksum.
"""

import contextlib
import glob
from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from acapella_core import schemas
from acapella_core.arrow_tables import arrow_schema
from acapella_core.errors import UserError
from acapella_core.files import atomic_path, sha256_of

from . import queries
from .campaign import Campaign, opened

TABLES = ("manifests", "digests", "restrictions", "samples", "acaps", "flows", "stacks")
PRIVATE_TABLES = ("manifests", "digests", "restrictions", "files", "listed", "named_trials")
STORAGE = "v1.0.0"  # the oldest DuckDB that opens the catalog
VIEWS = ("frames", "connections")
TRAFFIC = ("unfiltered", "all")


def register_parser(subparsers):
    """Add `acapella index`."""
    parser = subparsers.add_parser(
        "index", help="make a campaign's catalog", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="folder results/<campaign>")
    parser.add_argument(
        "--exclude",
        nargs="+",
        default=[],
        metavar="SAMPLE",
        help="samples that count in no table",
    )
    parser.add_argument(
        "--trials", nargs="+", default=[], metavar="SAMPLE", help="samples of trials, beside those with such a manifest"
    )
    parser.add_argument(
        "--tables", nargs="+", default=[], metavar="TABLE", help="published tables of other stages than process"
    )
    parser.add_argument(
        "--traffic",
        choices=TRAFFIC,
        default=TRAFFIC[0],
        help="samples that count in traffic statistics: unfiltered (the default), all",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of DuckDB (default: 1)")
    return parser


def run(args) -> None:
    """Write the catalog; print its contents, the excluded samples and the missing ones."""
    campaign = opened(args.campaign)
    counts, missing = build(
        campaign,
        exclude=args.exclude,
        trials=args.trials,
        traffic=args.traffic,
        tables=args.tables,
        threads=args.threads,
    )
    print(f"{campaign.catalog}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    for samples, frames, reason in excluded(campaign):
        plural = "" if samples == 1 else "s"
        print(f"acapella: {samples} sample{plural} ({frames} frames) excluded from traffic statistics: {reason}")
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        print(f"acapella: {len(missing)} samples have no acap or are excluded, and count in no table: {shown}")


def build(  # noqa: PLR0913
    campaign: Campaign,
    *,
    exclude: Sequence[str] = (),
    trials: Sequence[str] = (),
    traffic: str = TRAFFIC[0],
    tables: Sequence[str] = (),
    threads: int = 1,
) -> tuple[dict[str, int], list[str]]:
    """Write the catalog; return the rows of its tables and the samples that have a manifest but count in no table.

    ``trials``: samples that the config names as trials; ``traffic``: which samples count in traffic statistics;
    ``tables``: published tables that get a view in addition to those of `acapella process` and those that are there.
    """
    listed = listed_samples(campaign)
    files = input_files(campaign, set(listed) - set(exclude))
    with atomic_path(campaign.catalog) as temporary:
        temporary.unlink()  # DuckDB makes its own file, and takes an empty one for a broken one
        try:
            inputs = {"listed": listed, "named_trials": sorted(set(trials))}
            counted = fill(campaign, temporary.resolve(), inputs, files, traffic=traffic, threads=threads)
            add_views(campaign, temporary.resolve(), published(campaign, tables))
            return counted
        finally:
            temporary.with_name(temporary.name + ".wal").unlink(missing_ok=True)


def listed_samples(campaign: Campaign) -> list[str]:
    """The samples of raw/samples.tsv, so that what an earlier sheet left behind does not count; without such a sheet,
    all that have a manifest or an acap.
    """
    sheet = campaign.folder / "raw" / "samples.tsv"
    if not sheet.is_file():
        acaps = (campaign.folder / "acap").glob("*.parquet")
        return sorted({path.stem for path in (*sheet.parent.glob("*.json"), *acaps)})
    lines = sheet.read_text(encoding="utf-8").splitlines()
    return sorted(line.partition("\t")[0] for line in lines[1:])


def input_files(campaign: Campaign, samples: set[str]) -> list[tuple]:
    """Return sizes and checksums of those samples that have an acap.

    Raises UserError if one is not complete or of another format.
    """
    from .acap_files import check_format  # noqa: PLC0415 (pyarrow)

    acaps = sorted(path for path in (campaign.folder / "acap").glob("*.parquet") if path.stem in samples)
    if not acaps:
        raise UserError("no acaps", where=campaign.folder / "acap", fix="run acapella digest first")
    rows = []
    for acap in acaps:
        flows, manifest = campaign.flows(acap.stem), campaign.manifest(acap.stem)
        for other in (flows, manifest):
            if not other.is_file():
                raise UserError(f"the acap {acap.name} has no such file", where=other)
        check_format(acap)
        check_format(flows)
        rows.append(
            (
                acap.stem,
                acap.stat().st_size,
                sha256_of(acap),
                flows.stat().st_size,
                sha256_of(flows),
                sha256_of(manifest),
            )
        )
    return rows


def excluded(campaign: Campaign) -> list[tuple[int, int, str]]:
    """Return samples, frames and reason of each group of samples that the catalog excludes from traffic statistics."""
    with (
        queries.one_line(campaign.folder),
        contextlib.closing(queries.connect(campaign.catalog, read_only=True)) as con,
    ):
        return con.execute(
            "select count(*), sum(frames)::ubigint, excluded from samples "
            "where acap is not null and excluded is not null group by excluded order by excluded"
        ).fetchall()


def fill(  # noqa: PLR0913
    campaign: Campaign,
    database: Path,
    samples: dict[str, list[str]],
    files: list[tuple],
    *,
    traffic: str,
    threads: int,
) -> tuple[dict[str, int], list[str]]:
    """Create the catalog's tables and views in a new database file; ``samples`` are tables of sample names."""
    with contextlib.chdir(campaign.folder), queries.one_line(campaign.folder):
        con = new_database(database, threads)
        for name, listed in samples.items():
            con.execute(f"create table {name} as select unnest($samples::varchar[]) as sample", {"samples": listed})
        con.execute(
            "create table files (sample varchar, acap_bytes ubigint, acap_sha256 varchar, flows_bytes ubigint, "
            "flows_sha256 varchar, manifest_sha256 varchar)"
        )
        con.executemany("insert into files values (?, ?, ?, ?, ?, ?)", files)
        for name in TABLES:
            query, bound = queries.bound("index", name, {"traffic": traffic})
            con.execute(f"create table {name} as {query}", bound)
            if name == "samples":
                check(con)
        for name in PRIVATE_TABLES:
            con.execute(f"drop table {name}")
        counts = {
            name: con.execute(f"select count(*) from {name}").fetchone()[0]
            for name in TABLES
            if name not in PRIVATE_TABLES
        }
        missing = [
            row[0] for row in con.execute("select sample from samples where acap is null order by sample").fetchall()
        ]
        con.close()
    return counts, missing


def new_database(path: Path, threads: int = 1):
    """Return a connection to a new database file that DuckDB 1.0.0 and later can open."""
    return queries.connect(path, threads=threads, storage_compatibility_version=STORAGE)


def add_views(campaign: Campaign, database: Path, tables: Sequence[str], folder: Path | None = None) -> None:
    """Create the views of a catalog; they read the files of ``folder``, by default the campaign's as absolute path."""
    root = campaign.folder.resolve() if folder is None else folder
    with contextlib.chdir(campaign.folder), queries.one_line(campaign.folder), contextlib.ExitStack() as stubs:
        con = stubs.enter_context(contextlib.closing(new_database(database)))
        create_views(con, root)
        for table in tables:
            file = root / "tables" / f"{table}.parquet"
            stubs.enter_context(stub(file, table))
            source = literal(file, pattern=True)
            con.execute(f"create view {table} as select * from read_parquet({source})")


def create_views(con, root: Path, *, temporary: bool = False) -> None:
    """Create the views `frames` and `connections` over the files in ``root``.

    DuckDB binds no parameters in the definition of a view, so the paths of its SELECT are replaced.
    """
    for name in VIEWS:
        query = queries.text("index", name)
        query = query.replace("'acap/*.parquet'", literal(root / "acap/*.parquet", pattern=True))
        query = query.replace("'acap/'", literal(f"{root / 'acap'}/"))
        con.execute(f"create {'temp ' if temporary else ''}view {name} as {query}")


def literal(path: str | Path, *, pattern: bool = False) -> str:
    """Return a path as an SQL literal; of a ``pattern``, only the file's name is one."""
    path = Path(path) if pattern else path
    text = f"{glob.escape(str(path.parent))}/{path.name}" if pattern else str(path)
    return "'" + text.replace("'", "''") + "'"


def published(campaign: Campaign, tables: Sequence[str]) -> list[str]:
    """Return the published tables that get a view: those of `acapella process`, ``tables``, and those that are there.

    A table of another version, whose columns are not those of its schema, gets none: `acapella process` comes first.
    """
    known = {path.stem for path in (schemas.root() / "tables").glob("*.yaml")}
    there = {path.stem for path in (campaign.folder / "tables").glob("*.parquet")}
    names = {*queries.names("process"), *tables, *(there & known)}
    return sorted(name for name in names if name not in there or fits(campaign.table(name, "parquet"), name))


def fits(file: Path, table: str) -> bool:
    """Return whether a Parquet file has the columns of a table's schema."""
    import pyarrow as pa  # noqa: PLC0415 (slow to import)
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        return pq.read_schema(file).equals(arrow_schema(table))
    except (OSError, pa.ArrowException):
        return False


@contextlib.contextmanager
def stub(file: Path, table: str):
    """Have an empty table at ``file`` if there is none: DuckDB creates a view only if what it reads exists."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    if file.is_file():
        yield
        return
    made = not file.parent.is_dir()
    file.parent.mkdir(exist_ok=True)
    try:
        pq.write_table(arrow_schema(table).empty_table(), file)
        yield
    finally:
        file.unlink(missing_ok=True)
        if made:
            with contextlib.suppress(OSError):  # another stub is in it
                file.parent.rmdir()


def check(con) -> None:
    """Raise UserError where manifests and acaps contradict each other."""
    row = con.execute(queries.text("index", "contradictions")).fetchone()
    if row:
        sample, mistake = row
        raise UserError(mistake, where=f"sample {sample}")
