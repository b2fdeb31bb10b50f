"""Query the catalog of a campaign in SQL.

    acapella sql results/demo "select site, count(*) from frames where port = 'p1' group by site"
    acapella sql results/demo "from frames" --format parquet > frames.parquet

Tables: samples, acaps, flows, stacks. Views: frames (each frame with its flow's vlan, mpls, src, dst, ip_proto,
src_port, dst_port, app, flow_id and its sample, site, port), connections (a row per pair of flows) and the published
tables. On a terminal, the output is a table that may omit columns and rows. In a file or a pipe, it is CSV: null is an
empty field, and empty text is "". With --format table, nothing is omitted in a file or a pipe. --format csv
--spreadsheet writes CSV without formulas. The catalog is opened read-only. Filters on sample, site, port or flow_id
limit which acaps are opened, but a query of frames fails if any acap is missing, for example because it was removed
from the cache of digests. A query reads no files outside the campaign's directory and writes no files. CAMPAIGN may be
omitted if the working directory is the campaign, or if results/ contains only one campaign with a catalog; a warning
names campaigns without a catalog.

The column `excluded` of samples, flows, stacks and frames is null for samples that count in traffic statistics. For
other samples, it contains the reasons why they do not count (trial, filter, p4, sampling; in samples also config,
failed, no acap):

    acapella sql "select stack, count(*) from frames where excluded is null group by stack"

The same query from any DuckDB client:

    duckdb -readonly results/demo/catalog.duckdb "select stack, count(*) from frames group by stack"
"""

import argparse
import contextlib
import glob
import json
import math
import os
import re
import shutil
import sys
from decimal import Decimal
from pathlib import Path

from acapella.common import queries
from acapella_core import names, schemas
from acapella_core.errors import UserError

from .layout import Campaign, fix_without_catalog, open_campaign, require

BATCH = 10_000  # rows fetched at once, to limit memory
UNLIMITED = 2**31 - 1  # rows and characters of a drawn table
MAX_LISTED = 3  # missing acaps that an error names
RESTORE = "copy them from the archive of the release"  # what to do if acaps of a release are missing
PRAGMAS = "collations|database_list|database_size|functions|platform|show_databases|show_tables|show_tables_expanded"
PRAGMAS += r"|storage_info|table_info|user_agent|version"
PRAGMA = re.compile(rf"pragma\s+({PRAGMAS})(\s*\('[^']*'\))?[\s;]*", re.IGNORECASE | re.ASCII)
# Matches, in the JSON syntax tree of a query, view frames or a table function that takes the name of a view as text.
USES_FRAMES = re.compile(r'"table_name":"frames"|"function_name":"query(_table)?"', re.IGNORECASE)
NAMES_FRAMES = re.compile(r"\b(frames|query|query_table)\b", re.IGNORECASE)  # in the text of a query
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
    parser.add_argument("query", metavar="QUERY", help="a SELECT statement")
    add_format(parser)
    parser.add_argument("--threads", type=int, default=1, help="number of DuckDB threads (default: 1)")
    return parser


def add_format(parser: argparse.ArgumentParser) -> None:
    """Add --format."""
    default = "table on a terminal, else csv"
    parser.add_argument("--format", choices=sorted(WRITERS), help=f"output format (default: {default})")
    parser.add_argument(
        "--spreadsheet",
        action="store_true",
        help="csv and tsv: write an apostrophe before text that begins with = + - @ (also full-width), tab, CR or LF, "
        "which spreadsheets would treat as a formula",
    )


def checked_spreadsheet(args: argparse.Namespace) -> bool:
    """Return whether to neutralize formulas in cells. Raises UserError if so and the format is neither csv nor tsv."""
    form = args.format or ("table" if sys.stdout.isatty() else "csv")
    if args.spreadsheet and form not in ("csv", "tsv"):
        raise UserError("--spreadsheet is for --format csv and --format tsv", where=f"--format {form}")
    return args.spreadsheet


def write_result(con, query, out, form: str | None, *, spreadsheet: bool = False) -> None:
    """Write the result of a query to ``out``. ``form``: output format; None: table on a terminal, otherwise csv.

    ``spreadsheet``: neutralize formulas in cells of csv and tsv.
    """
    form = form or ("table" if out.isatty() else "csv")
    if spreadsheet:
        write_separated(DELIMITERS[form], without_formula)(con, query, out)
    else:
        WRITERS[form](con, query, out)


def confine(_args: argparse.Namespace | None = None) -> None:
    """Confine this process, because queries and files may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self()


def run(args) -> None:
    """Write the result of the query to standard output."""
    campaign = open_campaign(args.campaign) if args.campaign else only_campaign(Path.cwd())
    spreadsheet = checked_spreadsheet(args)
    query_catalog(campaign, args.query, sys.stdout, form=args.format, threads=args.threads, spreadsheet=spreadsheet)


def only_campaign(directory: Path) -> Campaign:
    """Return the campaign in a directory, or the only one in its results/. Print a warning for each without a catalog.

    Raises UserError if there is none, or if there are several.
    """
    if (directory / "catalog.duckdb").is_file():
        return Campaign.at(directory)
    campaigns = sorted(path.parent for path in (directory / "results").glob("*/catalog.duckdb"))
    if not campaigns:
        raise UserError(
            "no catalog here or in results/",
            fix="specify the campaign's directory, or run acapella campaign index first",
        )
    for path in sorted({path.parent for path in (directory / "results").glob("*/raw")} - {*campaigns}):
        names.report(
            f"acapella: warning: results/{path.name} is ignored: its run is incomplete, without catalog.duckdb"
        )
    if len(campaigns) == 1:
        return Campaign.at(campaigns[0])
    raise UserError(
        "several campaigns: " + ", ".join(path.name for path in campaigns),
        fix="specify one: acapella sql results/NAME QUERY",
    )


def query_catalog(  # noqa: PLR0913
    campaign: Campaign, query: str, out, *, form: str | None = None, threads: int = 1, spreadsheet: bool = False
) -> None:
    """Write the result of a read-only statement to ``out``. ``form``: table, csv, tsv, json or parquet.

    If ``form`` is None, the format is table on a terminal and csv otherwise. ``spreadsheet``: see option --spreadsheet.
    Raises UserError with a message of one line if there is no catalog, the SQL is invalid, the statement writes, or
    Parquet would be written to a terminal.
    """
    from . import views  # noqa: PLC0415 (pyarrow: keeps the start of `acapella --help` quick)

    catalog = require(campaign.catalog, fix_without_catalog(campaign)).resolve()
    directory = campaign.directory.absolute()
    with contextlib.chdir(directory), queries.one_line():
        con = queries.connect(threads=threads)
        con.execute(f"attach {views.literal(catalog)} as catalog (read_only)")
        queries.confine(con, directory)
        check_catalog(con, campaign)
        campaign_here = Campaign(Path())  # not the views in the catalog, which contain the path at the time of indexing
        tables = catalog_tables(con)
        for name in map(views.quoted, tables):
            con.execute(f"create view {name} as from catalog.{name}")
        acaps = acaps_for(con, query, campaign)
        views.create_views(con, campaign_here.directory, acaps=acaps)
        views.create_table_views(
            con, campaign_here.directory, sorted({*views.existing_tables(campaign_here)} - {*tables})
        )
        with known_names(con):
            statement = reading_statement(con, query)
            write_result(con, statement, out, form, spreadsheet=spreadsheet)


def acaps_for(con, query: str, campaign: Campaign) -> str | None:
    """Return the pattern of the acaps that view `frames` reads: "", for all, if the query uses the view.

    Otherwise, return the pattern of one acap, or None if no acap exists. Listing a directory of 100,000 acaps takes a
    second, which is more than most queries of the tables. Raises UserError if the query uses the view and acaps are
    missing.
    """
    if uses_frames(con, query):
        check_acaps(con, campaign)
        return ""
    ((first,),) = con.execute("select min(acap) from catalog.samples").fetchall()
    if first and not Path(first).is_file():
        first = next((file for file in acaps_in_catalog(con) if Path(file).is_file()), None)
    return None if first is None else glob.escape(first)


def uses_frames(con, query: str) -> bool:
    """Return whether a query may read view `frames`. If DuckDB returns no syntax tree, its words decide."""
    explained = EXPLAIN.match(query.lstrip())
    select = query.lstrip()[explained.end() :] if explained else query
    ((tree,),) = con.execute("select json_serialize_sql($query)", {"query": select}).fetchall()
    return bool(USES_FRAMES.search(tree) if '"error":false' in tree else NAMES_FRAMES.search(query))


def check_acaps(con, campaign: Campaign, sample: str | None = None) -> None:
    """Raise UserError if acaps in the catalog are missing, because view `frames` would omit their frames.

    The working directory must be the campaign. ``sample``: check only its acap (default: those of all samples). Only
    directories and the targets of links are read, not the files.
    """
    files = acaps_in_catalog(con, sample)
    directories = {file.rpartition("/")[0] for file in files}
    entries = (entry for directory in directories if Path(directory).is_dir() for entry in os.scandir(directory))
    existing = {entry.path for entry in entries if not entry.is_symlink() or Path(entry).is_file()}
    missing = [file for file in files if file not in existing]
    if not missing:
        return
    named = ", ".join([*missing[:MAX_LISTED], *(["..."] if len(missing) > MAX_LISTED else [])])
    reason = "no longer in the cache of digests" if Path(missing[0]).is_symlink() else "no such file"
    raise UserError(
        f"frames of {len(missing):,} of {names.pluralize(len(files), 'sample')} are missing ({named}: {reason})",
        where=campaign.directory,
        fix="run snakemake, which digests these samples again" if "acaps" in catalog_tables(con) else RESTORE,
    )


def acaps_in_catalog(con, sample: str | None = None) -> list[str]:
    """Return the paths of acaps in the attached catalog, relative to the campaign. ``sample``: only its acap."""
    query = "select acap from catalog.samples where acap is not null and sample = coalesce($1, sample) order by acap"
    return [file for (file,) in con.execute(query, [sample]).fetchall()]


def catalog_tables(con) -> list[str]:
    """Return the tables of the attached catalog, including those in schema `stored`, whose views have their names."""
    query = (
        "select distinct table_name from duckdb_tables() "
        "where database_name = 'catalog' and schema_name in ('main', 'stored') order by table_name"
    )
    return [name for (name,) in con.execute(query).fetchall()]


def check_catalog(con, campaign: Campaign) -> None:
    """Raise UserError if the flows of the catalog lack columns of this version, for example because of older acaps."""
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
    """If a query names an unknown table, raise UserError with the names of the existing tables."""
    import duckdb  # noqa: PLC0415 - slow to import

    try:
        yield
    except duckdb.CatalogException as error:
        message = str(error).splitlines()[0]
        if not message.startswith("Catalog Error: Table "):
            raise
        query = "select table_name from information_schema.tables where table_schema not in ('indexed', 'stored')"
        names = {name for (name,) in con.execute(query).fetchall()}
        raise UserError(message, fix=f"existing tables: {', '.join(sorted(names))}") from error


def reading_statement(con, query: str, hint: str = "; to rebuild the catalog: acapella campaign index"):
    """Return the query if it is one read-only statement; otherwise raise UserError with ``hint`` after the advice.

    The connection must have the tables of the query, because DuckDB also binds it.
    """
    (statement, *more) = con.extract_statements(query) or [None]
    if statement is None or more:
        raise UserError(f"expected one statement, found {len(more) + (statement is not None)}")
    if refused := refused_kind(con, statement):
        raise UserError(
            f"only reading is permitted: {refused} is not allowed",
            fix=f"use select; to save a result: --format csv > FILE{hint}",
        )
    return statement.query


def refused_kind(con, statement) -> str | None:
    """Return the kind of a statement that is not read-only; None if it is read-only.

    EXPLAIN and PRAGMA are recognized by their text. This is safe because DuckDB removes comments before a statement and
    the accepted forms contain none. `explain analyze` executes the statement after it, which is therefore checked.
    """
    kind = statement.type.name.removesuffix("_STATEMENT")
    if kind == "EXPLAIN" and (start := EXPLAIN.match(statement.query)):
        explained = con.extract_statements(statement.query[start.end() :])
        if len(explained) == 1 and not statement.query.startswith("(", start.end()):
            statement, kind = explained[0], explained[0].type.name
    if kind == "PRAGMA" and PRAGMA.fullmatch(statement.query):
        return None
    return writing_clause(con, statement.query) if kind == "SELECT" else kind


def writing_clause(con, select: str) -> str | None:
    """Return "WITH ..." if a SELECT has a WITH clause that writes; otherwise None.

    DuckDB accepts COPY, INSERT, UPDATE and DELETE in WITH, but only at the top level. Therefore, DuckDB binds the
    SELECT as part of an outer one, which fails for such clauses and does not execute anything.
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
    """Write a drawn table. On a terminal, DuckDB omits rows and columns that do not fit; otherwise all are written."""
    result = con.sql(query)
    if result is None:
        return
    if out.isatty():
        out.writelines(f"{names.shown(line)}\n" for line in f"{result}".split("\n"))
        return
    with contextlib.redirect_stdout(out):  # only show() accepts limits, and it prints
        result.show(max_width=UNLIMITED, max_rows=UNLIMITED, max_col_width=UNLIMITED)


def write_separated(delimiter, cell=None):
    """Return a writer of delimited text. ``cell`` converts a value to the content of a cell (default: `csv_value`).

    Null is an empty cell and empty text is ``""``, as in PostgreSQL and DuckDB.
    """
    special = re.compile(f'[{delimiter}"\r\n]')

    def field(value, *, terminal: bool) -> str:
        if value is None:
            return ""
        text = names.shown(str(value)) if terminal else str(value)
        return text if text and not special.search(text) else '"' + text.replace('"', '""') + '"'

    def write(con, query, out) -> None:
        content, terminal = cell or csv_value, out.isatty()

        def line(values) -> str:
            return delimiter.join(field(content(value), terminal=terminal) for value in values) + "\n"

        result = con.execute(query)
        out.write(line(column[0] for column in result.description))
        for rows in batches(result):
            out.writelines(map(line, rows))

    return write


def write_json(con, query, out) -> None:
    """Write a JSON array with one object per line; `json_text` describes the values."""
    result = con.execute(query)
    columns = unique_names([column[0] for column in result.description])
    separator = "[\n"
    for rows in batches(result):
        for row in rows:
            out.write(separator + json_text(dict(zip(columns, row, strict=True))))
            separator = ",\n"
    out.write("[]\n" if separator == "[\n" else "\n]\n")


def unique_names(columns: list[str]) -> list[str]:
    """Return the names of columns, with a number appended to repeated ones, such as `a_1`, as in Parquet."""
    names: list[str] = []
    for column in columns:
        name, number = column, 0
        while name in names or (number and name in columns):
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def write_parquet(con, query, out) -> None:
    """Write Parquet to the binary stream of ``out``. Raises UserError for a terminal or a statement without rows."""
    if out.isatty():
        raise UserError("Parquet is not written to a terminal", fix="specify a file: --format parquet > FILE.parquet")
    file = queries.spill_directory(con) / "answer.parquet"
    result = con.sql(query)
    if result is None:
        raise UserError("this statement has no rows to write as Parquet", fix="use a different --format")
    try:
        result.write_parquet(str(file), compression="zstd")
        out.flush()
        with file.open("rb") as stream:
            shutil.copyfileobj(stream, out.buffer)
    finally:
        file.unlink(missing_ok=True)


def batches(result):
    """Yield lists of at most BATCH rows of a result."""
    while rows := result.fetchmany(BATCH):
        yield rows


def json_text(value) -> str:
    """Return a value as JSON (RFC 8259). Blobs are hexadecimal. NaN and infinities are null, because JSON lacks them.

    Decimals are numbers with all digits, which the module json does not support.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(json_key(key))}: {json_text(item)}" for key, item in value.items()) + "}"
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
    """Return a key of a map as text; blobs are hexadecimal."""
    return key.hex() if isinstance(key, bytes) else str(key)


def csv_value(value):
    """Return the content of a CSV cell for a value. Lists and structs are JSON, blobs are hexadecimal."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.hex()
    return json_text(value) if isinstance(value, (list, dict, tuple)) else value


def without_formula(value):
    """Return the content of a CSV cell for a value, so that spreadsheets do not evaluate it as a formula.

    Numbers are not changed. Source: OWASP, CSV Injection.
    """
    text = csv_value(value)
    return f"'{text}" if isinstance(text, str) and text.startswith(FORMULA) else text


FORMULA = (*"=+-@", *"\uff1d\uff0b\uff0d\uff20", "\t", "\r", "\n")  # also as full-width characters
DELIMITERS = {"csv": ",", "tsv": "\t"}
WRITERS = {
    "table": write_table,
    **{form: write_separated(delimiter) for form, delimiter in DELIMITERS.items()},
    "json": write_json,
    "parquet": write_parquet,
}
