"""Query the catalog of a campaign in SQL.

    acapella sql results/demo "select site, count(*) from frames where port = 'p1' group by site"
    acapella sql results/demo "from frames" --format parquet > frames.parquet

Tables: samples, acaps, flows, stacks. Views: frames (each frame with its flow's vlan, mpls, src, dst, ip_proto,
src_port, dst_port, flow_id and its sample, site, port), connections (a row per pair of flows) and the published tables.
A terminal gets a drawn table, which may leave out columns and rows (--format table in a file or a pipe leaves out
none); a file or a pipe gets CSV (null is nothing, empty text is ""); --format csv --spreadsheet writes CSV without
formulas. The catalog is opened read only, and of the acaps only those files are opened that filters on sample, site,
port or flow leave. A query reads no file outside the campaign's directory and writes none. CAMPAIGN may be left out in
its directory, and where results/ holds only one.

The column `excluded` of samples and frames is null for samples that count in traffic statistics; for others it is the
reason (trial, filter, p4, sampling):

    acapella sql "select stack, count(*) from frames where excluded is null group by stack"

The same from any DuckDB client:

    duckdb -readonly results/demo/catalog.duckdb "select stack, count(*) from frames group by stack"
"""

import argparse
import contextlib
import json
import math
import re
import shutil
import sys
from decimal import Decimal
from pathlib import Path

from acapella.common import queries
from acapella_core import names, schemas
from acapella_core.errors import UserError

from .layout import Campaign, opened, require

BATCH = 10_000  # rows fetched at once: bounds memory
UNLIMITED = 2**31 - 1  # rows and characters of a drawn table
PRAGMAS = "collations|database_list|database_size|functions|platform|show_databases|show_tables|show_tables_expanded"
PRAGMAS += r"|storage_info|table_info|user_agent|version"
PRAGMA = re.compile(rf"pragma\s+({PRAGMAS})(\s*\('[^']*'\))?[\s;]*", re.IGNORECASE | re.ASCII)
EXPLAIN = re.compile(r"explain(\s+analyze(?=\s)|\s*\([\w\s,]*\)|(?=\s))\s*", re.IGNORECASE | re.ASCII)


def register_parser(subparsers):
    """Add `acapella sql`."""
    parser = subparsers.add_parser(
        "sql",
        help="query the catalog of a campaign in SQL",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("campaign", metavar="CAMPAIGN", nargs="?", help="directory results/<campaign>")
    parser.add_argument("query", metavar="QUERY", help="one SELECT")
    add_format(parser)
    parser.add_argument("--threads", type=int, default=1, help="threads of DuckDB (default: 1)")
    return parser


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add --format."""
    usual = "table on a terminal, else csv"
    parser.add_argument("--format", choices=sorted(WRITERS), help=f"output format (default: {usual})")
    parser.add_argument(
        "--spreadsheet",
        action="store_true",
        help="csv and tsv: write an apostrophe before text that begins with = + - @ (also full-width), tab, CR or LF, "
        "which spreadsheets take for a formula",
    )


def checked_spreadsheet(args: argparse.Namespace) -> bool:
    """Return whether cells are neutralized. Raises UserError if the format has no cells for spreadsheets."""
    form = args.format or ("table" if sys.stdout.isatty() else "csv")
    if args.spreadsheet and form not in ("csv", "tsv"):
        raise UserError("--spreadsheet is for --format csv and --format tsv", where=f"--format {form}")
    return args.spreadsheet


def write_answer(con, query, out, form: str | None, *, spreadsheet: bool = False) -> None:
    """Write the answer of a query to ``out`` in a format; None: a table if it is a terminal, else CSV.

    ``spreadsheet``: neutralize cells of csv and tsv.
    """
    form = form or ("table" if out.isatty() else "csv")
    if spreadsheet:
        write_separated(DELIMITERS[form], inert)(con, query, out)
    else:
        WRITERS[form](con, query, out)


def confine(_args: argparse.Namespace | None = None) -> None:
    """Take rights from this process, which executes a query of somebody else's on files of somebody else's."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - the start of `--help` stays quick

    confine_self()


def run(args) -> None:
    """Answer the query on standard output."""
    campaign = opened(args.campaign) if args.campaign else only_campaign(Path.cwd())
    spreadsheet = checked_spreadsheet(args)
    ask(campaign, args.query, sys.stdout, form=args.format, threads=args.threads, spreadsheet=spreadsheet)


def only_campaign(directory: Path) -> Campaign:
    """The campaign of a directory: itself, or the only one in its results/. Raises UserError where that is not one."""
    if (directory / "catalog.duckdb").is_file():
        return Campaign(directory)
    found = sorted(path.parent for path in (directory / "results").glob("*/catalog.duckdb"))
    if len(found) == 1:
        return Campaign(found[0])
    if not found:
        raise UserError(
            "no catalog here or in results/", fix="name the campaign's directory, or run acapella campaign index first"
        )
    raise UserError(
        "several campaigns: " + ", ".join(path.name for path in found), fix="name one: acapella sql results/NAME QUERY"
    )


def ask(  # noqa: PLR0913
    campaign: Campaign, query: str, out, *, form: str | None = None, threads: int = 1, spreadsheet: bool = False
) -> None:
    """Write the answer of one reading statement to ``out`` as ``form``: table, csv, tsv, json or parquet.

    None: a table if ``out`` is a terminal, else csv. ``spreadsheet``: as the option --spreadsheet. Raises UserError in
    one line: no catalog, a mistake in the SQL, a statement that writes, Parquet to a terminal.
    """
    from . import views  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    catalog = require(campaign.catalog, f"run acapella campaign index {campaign.directory}").resolve()
    directory = campaign.directory.absolute()
    with contextlib.chdir(directory), queries.one_line():
        con = queries.connect(threads=threads)
        con.execute(f"attach {views.literal(catalog)} as catalog (read_only)")
        queries.confine(con, directory)
        check_catalog(con, campaign)
        here = Campaign(Path())  # the catalog's own views contain the path where it was made
        tables = catalog_tables(con)
        for name in map(views.quoted, tables):
            con.execute(f"create view {name} as from catalog.{name}")
        views.create_views(con, here.directory)
        views.create_table_views(con, here.directory, sorted({*views.tables_there(here)} - {*tables}))
        with known_names(con):
            statement = reading_statement(con, query)
            write_answer(con, statement, out, form, spreadsheet=spreadsheet)


def catalog_tables(con) -> list[str]:
    """Return the tables of the attached catalog, with those in its schema `stored`, whose views have their names."""
    query = "select distinct table_name from duckdb_tables() where database_name = 'catalog' order by table_name"
    return [name for (name,) in con.execute(query).fetchall()]


def check_catalog(con, campaign: Campaign) -> None:
    """Raise UserError if the catalog's flows lack columns of this version: they come from acaps of an older format."""
    columns = con.execute("select column_name from information_schema.columns where table_name = 'flows'").fetchall()
    missing = {column["name"] for column in schemas.table("flows")["columns"]} - {name for (name,) in columns}
    if columns and missing:
        raise UserError(
            f"the catalog is of an older version: its flows have no column {', '.join(sorted(missing))}",
            where=campaign.catalog,
            fix=f"run acapella digest on the captures again, then acapella campaign index {campaign.directory}",
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
        query = "select table_name from information_schema.tables where table_schema <> 'stored'"
        names = {name for (name,) in con.execute(query).fetchall()}
        raise UserError(what, fix=f"there are {', '.join(sorted(names))}") from error


def reading_statement(con, query: str, anew: str = "; to make the catalog anew: acapella campaign index"):
    """The query, parsed. Raises UserError where it is not one statement that only reads; ``anew`` ends its advice.

    The connection needs the query's tables: DuckDB also has to bind it.
    """
    (statement, *more) = con.extract_statements(query) or [None]
    if statement is None or more:
        raise UserError(f"one statement, please: this has {len(more) + (statement is not None)}")
    if refused := why_refused(con, statement):
        raise UserError(
            f"this is read only: {refused} is refused",
            fix=f"ask with select; to keep an answer: --format csv > FILE{anew}",
        )
    return statement.query


def why_refused(con, statement) -> str | None:
    """Return the kind of a statement that does more than read, None of one that only reads.

    Text that begins with an EXPLAIN or PRAGMA of a known form is one: DuckDB removed comments before the statement, and
    there are none in these forms. `explain analyze` executes what follows.
    """
    kind = statement.type.name.removesuffix("_STATEMENT")
    if kind == "EXPLAIN" and (start := EXPLAIN.match(statement.query)):
        explained = con.extract_statements(statement.query[start.end() :])
        if len(explained) == 1 and not statement.query.startswith("(", start.end()):
            statement, kind = explained[0], explained[0].type.name
    if kind == "PRAGMA" and PRAGMA.fullmatch(statement.query):
        return None
    return writing_with(con, statement.query) if kind == "SELECT" else kind


def writing_with(con, select: str) -> str | None:
    """Return "WITH ..." if a SELECT has a WITH clause that writes, else None.

    DuckDB accepts COPY, INSERT, UPDATE and DELETE there, but at the top level only; so it is asked to bind the SELECT
    as a part of another one, which executes nothing.
    """
    import duckdb  # noqa: PLC0415 - slow to import

    try:
        con.execute("explain select * from query($1)", [select]).fetchall()
    except duckdb.BinderException as error:
        if "must be at the top level" not in str(error):
            raise
        return "WITH with a statement that writes"
    return None


def write_table(con, query, out) -> None:
    """A drawn table: on a terminal cut in the middle where it is long, elsewhere with all columns and rows."""
    answer = con.sql(query)
    if answer is None:
        return
    if out.isatty():
        out.writelines(f"{names.shown(line)}\n" for line in f"{answer}".split("\n"))
        return
    with contextlib.redirect_stdout(out):  # DuckDB's show() has the limits, and prints
        answer.show(max_width=UNLIMITED, max_rows=UNLIMITED, max_col_width=UNLIMITED)


def write_separated(delimiter, cell=None):
    """Return a writer of values separated by ``delimiter``; ``cell`` converts a value to that of a cell (`plain`).

    Null is nothing, empty text is ``""``, as PostgreSQL and DuckDB write them.
    """
    special = re.compile(f'[{delimiter}"\r\n]')

    def field(value, *, terminal: bool) -> str:
        if value is None:
            return ""
        text = names.shown(str(value)) if terminal else str(value)
        return text if text and not special.search(text) else '"' + text.replace('"', '""') + '"'

    def write(con, query, out) -> None:
        content, terminal = cell or plain, out.isatty()

        def line(values) -> str:
            return delimiter.join(field(content(value), terminal=terminal) for value in values) + "\n"

        result = con.execute(query)
        out.write(line(column[0] for column in result.description))
        for rows in batches(result):
            out.writelines(map(line, rows))

    return write


def write_json(con, query, out) -> None:
    """An array of objects, one a line; integers stay integers, NaN and infinities are null, blobs are hexadecimal."""
    result = con.execute(query)
    columns = distinct([column[0] for column in result.description])
    before = "[\n"
    for rows in batches(result):
        for row in rows:
            out.write(before + json_text(dict(zip(columns, row, strict=True))))
            before = ",\n"
    out.write("[]\n" if before == "[\n" else "\n]\n")


def distinct(columns: list[str]) -> list[str]:
    """Return the names of columns, a repeated one with a number, as `a_1` in Parquet."""
    names: list[str] = []
    for column in columns:
        name, number = column, 0
        while name in names or (number and name in columns):
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def write_parquet(con, query, out) -> None:
    """Write a Parquet file to a binary stream. Raises UserError for a terminal and for what is not a SELECT."""
    if out.isatty():
        raise UserError("Parquet is not written to a terminal", fix="name a file: --format parquet > FILE.parquet")
    file = queries.spill_directory(con) / "answer.parquet"
    answer = con.sql(query)
    if answer is None:
        raise UserError("this statement has no rows to write as Parquet", fix="use another --format")
    try:
        answer.write_parquet(str(file), compression="zstd")
        out.flush()
        with file.open("rb") as whole:
            shutil.copyfileobj(whole, out.buffer)
    finally:
        file.unlink(missing_ok=True)


def batches(result):
    """Yield the rows of an answer, some at a time."""
    while rows := result.fetchmany(BATCH):
        yield rows


def json_text(value) -> str:
    """Return a value as JSON (RFC 8259), which has neither NaN nor infinities: they are null; blobs are hexadecimal.

    Decimals are numbers with all their digits, which the module json cannot write.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(json_key(key))}: {json_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(json_text, value)) + "]"
    if isinstance(value, bytes):
        return json.dumps(value.hex())
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    return json.dumps(value, default=str)


def json_key(key) -> str:
    """Return a key of a map as text; a blob is hexadecimal."""
    return key.hex() if isinstance(key, bytes) else str(key)


def plain(value):
    """A value as text of a CSV cell; a blob is hexadecimal."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    return json_text(value) if isinstance(value, (list, dict, tuple)) else value


def inert(value):
    """A value as text of a cell that no spreadsheet takes for a formula; numbers keep their sign.

    Source: OWASP, CSV Injection.
    """
    text = plain(value)
    return f"'{text}" if isinstance(text, str) and text.startswith(FORMULA) else text


FORMULA = (*"=+-@", *"\uff1d\uff0b\uff0d\uff20", "\t", "\r", "\n")  # also as full-width characters
DELIMITERS = {"csv": ",", "tsv": "\t"}
WRITERS = {
    "table": write_table,
    **{form: write_separated(delimiter) for form, delimiter in DELIMITERS.items()},
    "json": write_json,
    "parquet": write_parquet,
}
