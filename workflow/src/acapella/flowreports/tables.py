"""Create the tables of flow reports: measurements of the P4 program and the collector, compared with digests.

    acapella p4 tables results/demo
    acapella p4 tables results/demo --samples s1 s2 --pseudonyms

Without --samples, the samples are those of config key flowreports.samples in CAMPAIGN/config.json that the catalog does
not omit, except those whose flow reports failed and are omitted (`missing: report`). Without any, the tables are empty.
Reads CAMPAIGN/flowreports/SAMPLE/, written by `acapella p4 reports`, and creates the tables flowreport_flows,
flowreport_windows, flowreport_window_reasons, flowreport_flow_reasons, flowreport_accuracy, flowreport_by_report,
flowreport_memory, flowreport_seconds, flowreport_counts and flowreport_tools as CSV and Parquet, each described in
schemas/tables/. Rows of flowreport_accuracy for sample `all` summarize the pairs of all samples.

CAMPAIGN/provenance/flowtables.json contains their checksums. With --pseudonyms, samples have the names in
CAMPAIGN/pseudonyms.tsv.
"""

import argparse
import contextlib
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

from acapella.campaign.layout import Campaign, open_campaign, require
from acapella.campaign.reported import samples_without_reports, selected_samples
from acapella.common import queries
from acapella_core import sheets
from acapella_core.errors import UserError

STAGE = "flowreports"  # directory of the results, and of the SELECTs
MERGED = {  # table: file per sample
    "flowreport_flows": "compared_flows",
    "flowreport_windows": "judged_windows",
    "flowreport_window_reasons": "window_reasons",
    "flowreport_flow_reasons": "flow_reasons",
    "flowreport_memory": "memory",
    "flowreport_seconds": "seconds",
    "flowreport_counts": "counts",
    "flowreport_tools": "tools",
}
BY_PAIR = {"flowreport_accuracy": "accuracy", "flowreport_by_report": "by_report"}  # table: SELECT from pairs
TABLES = (*MERGED, *BY_PAIR)
ALL = "all"


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4 tables`."""
    parser = subparsers.add_parser(
        "tables",
        help="create the tables of flow reports",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="campaign directory, such as results/demo")
    parser.add_argument(
        "--samples",
        nargs="+",
        metavar="NAME",
        help="samples with flow reports (default: those of the configuration)",
    )
    parser.add_argument("--pseudonyms", action="store_true", help="replace sample names with pseudonyms")
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the tables and print their number."""
    campaign = open_campaign(args.campaign)
    written = make_tables(campaign, args.samples or configured_samples(campaign), hide=args.pseudonyms)
    print(f"{campaign.directory / 'tables'}: {len(written)} files")


def configured_samples(campaign: Campaign) -> list[str]:
    """Return the samples that the configuration selects, except those that are in no table, or whose reports failed."""
    names = selected_samples(campaign.directory)
    require(campaign.catalog, f"run acapella campaign index {campaign.directory}")
    with (
        queries.one_line(campaign.catalog, catalog_of=campaign.directory),
        contextlib.closing(queries.open_catalog(campaign.directory)) as con,
    ):
        omitted = {name for (name,) in con.execute("select sample from samples where acap is null").fetchall()}
    if names is None:
        sheet = require(campaign.directory / "raw" / "samples.tsv", "name the samples with --samples")
        names = [row["sample"] for row in sheets.read(sheet)]
    omitted.update(samples_without_reports(campaign.directory))
    return [name for name in names if name not in omitted]


def make_tables(campaign: Campaign, samples: list[str], *, hide: bool = False) -> list[Path]:
    """Write tables/flowreport_*; return their paths. Existing tables are replaced once all new ones are complete.

    Raises UserError if a sample's results are missing, or cannot be merged.
    """
    from acapella.campaign import provenance  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)

    names = shown_names(campaign, samples, hide=hide)
    paths = []
    with queries.one_line(campaign.directory), name_failing_sample(campaign, samples, names):
        con = merge_samples(campaign, samples, names)
        with contextlib.ExitStack() as complete:
            for name in TABLES:
                paths += tables.write(con.table(name), name, functools.partial(campaign.table, name), complete)
    provenance.write_outputs(campaign, "flowtables", paths, pseudonyms=hide)
    return paths


def merge_samples(campaign: Campaign, samples: Sequence[str], names: dict[str, str]):
    """Return a connection with the tables of samples, which have the names in ``names``."""
    con = queries.connect()
    if not samples:
        create_empty(con)
        return con
    con.execute("create temp table names (given varchar, shown varchar)")
    queries.insert(con, "names", [(sample, names[sample]) for sample in samples])
    for name, part in MERGED.items():
        files = [str(part_of(campaign, sample, part)) for sample in samples]
        con.execute(
            f"create temp table {name} as select * replace (n.shown as sample) from read_parquet($files) as p "
            "inner join names as n on p.sample = n.given",
            {"files": files},
        )
    for name, query in BY_PAIR.items():
        create_from_pairs(con, campaign, name, query, {sample: names[sample] for sample in samples})
    return con


def create_empty(con) -> None:
    """Create all tables without rows, for a campaign in which all flow reports failed."""
    from acapella.common.tables import arrow_schema  # noqa: PLC0415 (pyarrow: keeps `acapella --help` fast)

    for name in TABLES:
        con.register(name, arrow_schema(name).empty_table())


@contextlib.contextmanager
def name_failing_sample(campaign: Campaign, samples: Sequence[str], names: dict[str, str]):
    """Raise UserError with the name of the sample whose results cannot be merged or do not match their schemas."""
    import duckdb  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    from acapella.common import tables  # noqa: PLC0415

    faults = (duckdb.Error, ValueError, pa.ArrowException)

    def failure(part: Sequence[str]) -> Exception | None:
        try:
            with contextlib.closing(merge_samples(campaign, part, names)) as con:
                for table in TABLES:
                    tables.check(con.table(table), table)
        except faults as error:
            return error
        except UserError:  # a missing file, which the merge of all samples did not reach
            return None
        return None

    try:
        yield
    except faults as error:
        if queries.is_unrelated_to_samples(error):
            raise
        name, why = queries.failing_sample(samples, failure)
        raise UserError(
            f"sample {name} cannot be merged{why}",
            where=part_of(campaign, name, "pairs").parent,
            fix="delete the directory and run snakemake again",
        ) from error


def part_of(campaign: Campaign, sample: str, part: str) -> Path:
    """Return the path of a file that `acapella p4 reports` wrote for a sample."""
    path = campaign.flowreport(sample, f"{part}.parquet")
    return require(path, f"run: acapella p4 reports ... --sample {sample} -o {path.parent}")


def create_from_pairs(con, campaign: Campaign, table: str, query: str, names: Mapping[str, str]) -> None:
    """Create a table from a SELECT over the pairs of each sample and, for accuracy, of all samples together.

    Other tables contain counts of pairs, which can be added, so they have no rows for all samples. ``names``: the name
    of each sample in the table.
    """
    parts = [([sample], shown) for sample, shown in names.items()]
    parts += [([*names], ALL)] if table == "flowreport_accuracy" else []
    for number, (samples, shown) in enumerate(parts):
        files = [str(part_of(campaign, sample, "pairs")) for sample in samples]
        con.execute("create or replace temp table pairs as select * from read_parquet($files)", {"files": files})
        action = f"insert into {table}" if number else f"create temp table {table} as"
        rows = f"select $shown::varchar as sample, a.* from ({queries.text(STAGE, query)}) as a"
        con.execute(f"{action} {rows}", {"shown": shown})


def shown_names(campaign: Campaign, samples: list[str], *, hide: bool) -> dict[str, str]:
    """Return the name of each sample in the tables."""
    if not hide:
        return {sample: sample for sample in samples}
    from acapella.campaign.trials import pseudonyms_of  # noqa: PLC0415 (only if requested)

    pseudonym_of = pseudonyms_of(campaign)
    for sample in samples:
        if sample not in pseudonym_of:
            raise UserError(f"sample {sample!r} has no pseudonym", fix="run acapella campaign process --pseudonyms")
    return {sample: pseudonym_of[sample] for sample in samples}
