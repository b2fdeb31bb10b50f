"""Make the tables of flow reports: what P4 program and collector measured of samples, beside their digests.

Reads CAMPAIGN/flowreports/SAMPLE/, which `acapella flowreports` writes, and makes the tables flowreport_flows,
flowreport_windows, flowreport_window_reasons, flowreport_flow_reasons, flowreport_accuracy, flowreport_by_report,
flowreport_memory, flowreport_seconds, flowreport_counts and flowreport_tools as CSV and Parquet, each described in
schemas/tables/. Sample `all` of flowreport_accuracy is of the pairs of all.

With --study also what `acapella measure-collector` and `acapella measure-response` found: flowreport_offered,
flowreport_response, flowreport_response_counts. flowreport_published has what the P4/RDMA paper printed beside ours.

CAMPAIGN/flowtables_provenance.json has their checksums. With --pseudonyms samples are called as CAMPAIGN/pseudonyms.tsv
says.
"""

import argparse
import contextlib
import functools
from collections.abc import Sequence
from pathlib import Path

from acapella.campaign.layout import Campaign, opened, require
from acapella.common import queries
from acapella_core.errors import UserError

STAGE = "flowreports"  # directory of the results, and of their SELECTs
MERGED = {  # table: the file of each sample
    "flowreport_flows": "compared_flows",
    "flowreport_windows": "judged_windows",
    "flowreport_window_reasons": "window_reasons",
    "flowreport_flow_reasons": "flow_reasons",
    "flowreport_memory": "memory",
    "flowreport_seconds": "seconds",
    "flowreport_counts": "counts",
    "flowreport_tools": "tools",
}
BY_PAIR = {"flowreport_accuracy": "accuracy", "flowreport_by_report": "by_report"}  # table: SELECT over the pairs
TABLES = (*MERGED, *BY_PAIR)
ALL = "all"


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella flowtables`."""
    parser = subparsers.add_parser(
        "flowtables",
        help="tables of flow reports beside digests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", help="directory results/<campaign>")
    parser.add_argument("--samples", nargs="+", required=True, metavar="NAME", help="samples that were reported on")
    parser.add_argument("--pseudonyms", action="store_true", help="hide the names of samples")
    return parser


def run(args: argparse.Namespace) -> None:
    """Write the tables and name them."""
    campaign = opened(args.campaign)
    written = make_tables(campaign, args.samples, hide=args.pseudonyms)
    print(f"{campaign.directory / 'tables'}: {len(written)} files")


def make_tables(campaign: Campaign, samples: list[str], *, hide: bool = False) -> list[Path]:
    """Write tables/flowreport_*; return their paths. Earlier tables stay until all new ones are complete.

    Raises UserError where a sample's results are missing, or cannot be merged.
    """
    from acapella.campaign import provenance  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)
    from acapella.common import tables  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    names = shown_names(campaign, samples, hide=hide)
    written = []
    with queries.one_line(campaign.directory), culprit_named(campaign, samples, names):
        con = merged(campaign, samples, names)
        with contextlib.ExitStack() as complete:
            for name in TABLES:
                written += tables.write(con.table(name), name, functools.partial(campaign.table, name), complete)
    provenance.write_outputs(campaign, "flowtables", written, pseudonyms=hide)
    return written


def merged(campaign: Campaign, samples: Sequence[str], names: dict[str, str]):
    """Return a connection with the tables of some samples, under the names that they are given."""
    con = queries.connect()
    con.execute("create temp table names (given varchar, shown varchar)")
    con.executemany("insert into names values (?, ?)", [(sample, names[sample]) for sample in samples])
    for name, part in MERGED.items():
        files = [str(part_of(campaign, sample, part)) for sample in samples]
        con.execute(
            f"create temp table {name} as select * replace (n.shown as sample) from read_parquet($files) as p "
            "inner join names as n on p.sample = n.given",
            {"files": files},
        )
    for name, query in BY_PAIR.items():
        of_pairs(con, campaign, name, query, samples)
    return con


@contextlib.contextmanager
def culprit_named(campaign: Campaign, samples: Sequence[str], names: dict[str, str]):
    """Raise UserError with the name of the sample whose results cannot be merged or do not fit their schemas."""
    import duckdb  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    from acapella.common import tables  # noqa: PLC0415

    faults = (duckdb.Error, ValueError, pa.ArrowException)

    def failure(part: Sequence[str]) -> Exception | None:
        try:
            with contextlib.closing(merged(campaign, part, names)) as con:
                for table in TABLES:
                    tables.check(con.table(table), table)
        except faults as error:
            return error
        except UserError:  # a file is missing, which the merge of all did not get to
            return None
        return None

    try:
        yield
    except faults as error:
        if queries.has_no_culprit(error):
            raise
        name, why = queries.culprit(samples, failure)
        raise UserError(
            f"sample {name} cannot be merged{why}",
            where=campaign.directory / STAGE / name,
            fix="delete the directory and run snakemake again",
        ) from error


def part_of(campaign: Campaign, sample: str, part: str) -> Path:
    """A file that `acapella flowreports` wrote for a sample."""
    path = campaign.directory / STAGE / sample / f"{part}.parquet"
    return require(path, f"run: acapella flowreports ... --sample {sample} -o {path.parent}")


def of_pairs(con, campaign: Campaign, table: str, query: str, samples: list[str]) -> None:
    """Make a table of what a SELECT says of the pairs of each sample, and of all: that is left out of counts of pairs,
    which add up.
    """
    made = []
    for sample in (*samples, *([None] if table == "flowreport_accuracy" else [])):
        files = [str(part_of(campaign, name, "pairs")) for name in ([sample] if sample else samples)]
        con.execute("create or replace temp table pairs as select * from read_parquet($files)", {"files": files})
        name = f"{query}_{len(made)}"
        con.execute(f"create temp table {name} as {queries.text(STAGE, query)}")
        made.append((name, sample))
    union = " union all ".join(
        f"select coalesce(n.shown, '{ALL}') as sample, a.* from {name} as a left join names as n on n.given = ${place}"
        for place, (name, _) in enumerate(made, 1)
    )
    con.execute(f"create or replace temp table {table} as {union}", [sample for _, sample in made])


def shown_names(campaign: Campaign, samples: list[str], *, hide: bool) -> dict[str, str]:
    """What the tables call each sample."""
    if not hide:
        return {sample: sample for sample in samples}
    from acapella.campaign.trials import pseudonyms_of  # noqa: PLC0415 (only where it is asked for)

    called = pseudonyms_of(campaign)
    for sample in samples:
        if sample not in called:
            raise UserError(f"sample {sample!r} has no pseudonym", fix="run acapella process --pseudonyms")
    return {sample: called[sample] for sample in samples}
