"""Ask a campaign's catalog a question in SQL.

    acapella sql "select site, count(*) from frames where port = 'p1' group by site"
    acapella sql results/demo "from connections limit 5" > connections.csv
    acapella sql results/demo "from frames" --format parquet > frames.parquet

Tables: samples, acaps, flows, stacks. Views: frames (each frame with its flow's vlan, mpls, src, dst, ip_proto,
src_port, dst_port, flow_id and its sample, site, port), connections (a row per pair of flows) and the published tables.
A terminal gets a drawn table, which may leave out columns and rows; a file or a pipe gets CSV. The catalog is opened
read only, and of the acaps only those files are opened that filters on sample, site, port or flow leave. CAMPAIGN may
be left out in its folder, and where results/ holds only one.

The column `excluded` of samples and frames is null for samples that count in traffic statistics; for others it is the
reason (trial, filter, p4, sampling):

    acapella sql "select stack, count(*) from frames where excluded is null group by stack"

The same from any DuckDB client:

    duckdb -readonly results/demo/catalog.duckdb "select stack, count(*) from frames group by stack"
"""

import argparse
import contextlib
import csv
import json
import shutil
import sys
import tempfile
from pathlib import Path

from acapella_core import schemas
from acapella_core.errors import UserError
from acapella_core.files import temporary_folder

from . import queries
from .campaign import Campaign, opened, require

BATCH = 10_000  # rows fetched at once: bounds memory
READ_ONLY = {"SELECT", "EXPLAIN", "PRAGMA"}


def register_parser(subparsers):
    """Add `acapella sql`."""
    parser = subparsers.add_parser(
        "sql", help="ask the catalog in SQL", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", nargs="?", help="folder results/<campaign>")
    parser.add_argument("query", metavar="QUERY", help="one SELECT")
    add_format(parser)
    parser.add_argument("--threads", type=int, default=1, help="threads of DuckDB (default: 1)")
    return parser


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add --format."""
    usual = "table on a terminal, else csv"
    parser.add_argument("--format", choices=sorted(WRITERS), help=f"output format (default: {usual})")


def write_answer(con, query, out, form: str | None) -> None:
    """Write the answer of a query to ``out`` in a format; None: a table if it is a terminal, else CSV."""
    WRITERS[form or ("table" if out.isatty() else "csv")](con, query, out)


def run(args) -> None:
    """Answer the query on standard output."""
    campaign = opened(args.campaign) if args.campaign else only_campaign(Path.cwd())
    ask(campaign, args.query, sys.stdout, form=args.format, threads=args.threads)


def only_campaign(folder: Path) -> Campaign:
    """The campaign of a folder: itself, or the only one in its results/. Raises UserError where that is not one."""
    if (folder / "catalog.duckdb").is_file():
        return Campaign(folder)
    found = sorted(path.parent for path in (folder / "results").glob("*/catalog.duckdb"))
    if len(found) == 1:
        return Campaign(found[0])
    if not found:
        raise UserError("no catalog here or in results/", fix="name the campaign's folder, or run acapella index first")
    raise UserError(
        "several campaigns: " + ", ".join(path.name for path in found), fix="name one: acapella sql results/NAME QUERY"
    )


def ask(campaign: Campaign, query: str, out, *, form: str | None = None, threads: int = 1) -> None:
    """Write the answer of one reading statement to ``out`` as ``form``: table, csv, tsv, json or parquet.

    None: a table if ``out`` is a terminal, else csv. Raises UserError in one line: no catalog, a mistake in the SQL, a
    statement that writes, Parquet to a terminal.
    """
    from . import index  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    catalog = require(campaign.catalog, f"run acapella index {campaign.folder}").resolve()
    with contextlib.chdir(campaign.folder), queries.one_line():
        con = queries.connect(catalog, threads=threads, read_only=True)
        check_catalog(con, campaign)
        statement = reading_statement(con, query)
        index.create_views(con, Path(), temporary=True)  # the catalog's own contain the path where it was made
        with known_names(con):
            write_answer(con, statement, out, form)


def check_catalog(con, campaign: Campaign) -> None:
    """Raise UserError if the catalog's flows lack columns of this version: they come from acaps of an older format."""
    columns = con.execute("select column_name from information_schema.columns where table_name = 'flows'").fetchall()
    missing = {column["name"] for column in schemas.table("flows")["columns"]} - {name for (name,) in columns}
    if columns and missing:
        raise UserError(
            f"the catalog is of an older version: its flows have no column {', '.join(sorted(missing))}",
            where=campaign.catalog,
            fix=f"run acapella digest on the captures again, then acapella index {campaign.folder}",
        )


@contextlib.contextmanager
def known_names(con):
    """Where a query names a table that does not exist, raise UserError with those that do."""
    import duckdb  # noqa: PLC0415 - slow to import

    try:
        yield
    except duckdb.CatalogException as error:
        what = str(error).splitlines()[0]
        if not what.startswith("Catalog Error: Table "):
            raise
        names = {name for (name,) in con.execute("select table_name from information_schema.tables").fetchall()}
        raise UserError(what, fix=f"there are {', '.join(sorted(names))}") from error


def reading_statement(con, query: str, anew: str = "; to make the catalog anew: acapella index"):
    """The query, parsed. Raises UserError where it is not one statement that only reads; ``anew`` ends its advice."""
    statements = con.extract_statements(query)
    if len(statements) != 1:
        raise UserError(f"one statement, please: this has {len(statements)}")
    kind = statements[0].type.name.removesuffix("_STATEMENT")
    if kind not in READ_ONLY:
        raise UserError(
            f"this is read only: {kind} is refused",
            fix=f"ask with select; to keep an answer: --format csv > FILE{anew}",
        )
    return statements[0].query


def write_table(con, query, out) -> None:
    """A drawn table, cut in the middle where it is long."""
    answer = con.sql(query)
    out.write(f"{answer}\n" if answer is not None else "")


def write_separated(delimiter):
    """A writer of values separated by ``delimiter``, nested ones as JSON, null as nothing."""

    def write(con, query, out) -> None:
        result = con.execute(query)
        writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
        writer.writerow(column[0] for column in result.description)
        for rows in batches(result):
            writer.writerows([plain(value) for value in row] for row in rows)

    return write


def write_json(con, query, out) -> None:
    """An array of objects, one a line; integers stay integers."""
    result = con.execute(query)
    columns = [column[0] for column in result.description]
    before = "[\n"
    for rows in batches(result):
        for row in rows:
            out.write(before + json.dumps(dict(zip(columns, row, strict=True)), default=str))
            before = ",\n"
    out.write("[]\n" if before == "[\n" else "\n]\n")


def write_parquet(con, query, out) -> None:
    """Write a Parquet file to a binary stream. Raises UserError for a terminal and for what is not a SELECT."""
    if out.isatty():
        raise UserError("Parquet is not written to a terminal", fix="name a file: --format parquet > FILE.parquet")
    answer = con.sql(query)
    if answer is None:
        raise UserError("this statement has no rows to write as Parquet", fix="use another --format")
    with tempfile.TemporaryDirectory(prefix="acapella-sql-", dir=temporary_folder()) as folder:
        file = Path(folder) / "answer.parquet"
        answer.write_parquet(str(file), compression="zstd")
        out.flush()
        with file.open("rb") as whole:
            shutil.copyfileobj(whole, out.buffer)


def batches(result):
    """Yield the rows of an answer, some at a time."""
    while rows := result.fetchmany(BATCH):
        yield rows


def plain(value):
    """A value as text of a CSV cell."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, default=str) if isinstance(value, (list, dict)) else value


WRITERS = {
    "table": write_table,
    "csv": write_separated(","),
    "tsv": write_separated("\t"),
    "json": write_json,
    "parquet": write_parquet,
}
