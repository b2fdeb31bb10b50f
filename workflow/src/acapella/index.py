"""Make the catalog of a campaign: which file holds which site, port, time, header and flow.

The column `excluded` of samples gives the reason why a sample is excluded from traffic statistics: `trial`, `filter`,
`p4` or `sampling`, or several of them; it is null for a sample that counts. By default only samples without these
restrictions count. If the campaign has none, the filtered ones count; trials count only if all samples are trials.

CAMPAIGN/catalog.duckdb holds the tables samples (manifest, digest, quality), acaps (file, time range, rows), flows (of
all samples) and stacks (per sample), and the views frames (every frame with its flow's key) and connections (a row per
pair of flows). The views read acap/*.parquet by relative path: open the catalog from the campaign's folder,

    cd results/demo && duckdb -readonly catalog.duckdb

or from anywhere with `acapella sql`. The content depends on the inputs alone; the file's own bytes do not have to be
equal from run to run, so nothing takes its checksum.
"""

import contextlib
from argparse import RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import atomic_path, sha256_of

from . import queries
from .campaign import Campaign, opened

TABLES = ("manifests", "digests", "restrictions", "samples", "acaps", "flows", "stacks")
PRIVATE_TABLES = ("manifests", "digests", "restrictions", "files", "listed", "named_trials")
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
        campaign, exclude=args.exclude, trials=args.trials, traffic=args.traffic, threads=args.threads
    )
    print(f"{campaign.catalog}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    for samples, frames, reason in excluded(campaign):
        plural = "" if samples == 1 else "s"
        print(f"acapella: {samples} sample{plural} ({frames} frames) excluded from traffic statistics: {reason}")
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        print(f"acapella: {len(missing)} samples have no acap or are excluded, and count in no table: {shown}")


def build(
    campaign: Campaign,
    *,
    exclude: Sequence[str] = (),
    trials: Sequence[str] = (),
    traffic: str = TRAFFIC[0],
    threads: int = 1,
) -> tuple[dict[str, int], list[str]]:
    """Write the catalog; return the rows of its tables and the samples that have a manifest but count in no table.

    ``trials``: samples that the config names as trials; ``traffic``: which samples count in traffic statistics.
    """
    listed = listed_samples(campaign)
    files = input_files(campaign, set(listed) - set(exclude))
    with atomic_path(campaign.catalog) as temporary:
        temporary.unlink()  # DuckDB makes its own file, and takes an empty one for a broken one
        try:
            inputs = {"listed": listed, "named_trials": sorted(set(trials))}
            return fill(campaign, temporary.resolve(), inputs, files, traffic=traffic, threads=threads)
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
        con = queries.connect(database, threads=threads)
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
        for name in VIEWS:
            con.execute(f"create view {name} as {queries.text('index', name)}")
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


def check(con) -> None:
    """Raise UserError where manifests and acaps contradict each other."""
    row = con.execute(queries.text("index", "contradictions")).fetchone()
    if row:
        sample, mistake = row
        raise UserError(mistake, where=f"sample {sample}")
