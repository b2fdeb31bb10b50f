"""Query the flows of a collector in SQL, while it runs or afterwards.

    acapella p4 sql reports "select src, dst, bytes from flows order by bytes desc limit 5"
    acapella p4 sql reports "select window_ns, sum(bytes) from series group by all order by all" --format csv

Tables: flows and series (schemas/tables/flow_reports.yaml, flow_report_series.yaml), counters (name, value). While the
collector runs, they are a snapshot with the newest rows of the series; afterwards they are its output files, which any
DuckDB client can read as well.
"""

import argparse
import contextlib
import json
import sys
from pathlib import Path

from acapella.campaign import sql
from acapella.common import queries
from acapella_core.errors import UserError

from .request_socket import connect

TABLES = ("flows", "series")


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4 sql`."""
    parser = subparsers.add_parser(
        "sql",
        help="query the flows of a collector in SQL",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", metavar="DIRECTORY", help="output directory of acapella p4 collect -o")
    parser.add_argument("query", metavar="QUERY", help="a SELECT statement")
    sql.add_format(parser)
    return parser


def run(args: argparse.Namespace) -> None:
    """Print the result of the query. Raises UserError."""
    directory = Path(args.directory)
    collector = connect(directory)
    if collector is None:
        counters = final_counters(directory)
        tables = directory
    else:
        with collector:
            response = collector("snapshot")
        counters, tables = response["state"]["reports"], directory / response["directory"]
    spreadsheet = sql.checked_spreadsheet(args)
    if args.own_process:
        sql.confine()  # only now, since the request uses a socket
    with queries.one_line(), contextlib.closing(queries.connect()) as con:
        create_tables(con, tables, counters)
        queries.confine(con, tables)
        with sql.known_names(con):
            sql.write_result(
                con, sql.reading_statement(con, args.query, hint=""), sys.stdout, args.format, spreadsheet=spreadsheet
            )


def final_counters(directory: Path) -> dict:
    """Return the counters of a collector that has ended. Raises UserError if the directory has no results."""
    path = directory / "counters.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))["reports"]
    except FileNotFoundError:
        raise UserError(
            "no collector is running here, and there are no results",
            where=directory,
            fix="run acapella p4 collect -o DIRECTORY first",
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError("not the counters of a collector", where=path) from error


def create_tables(con, directory: Path, counters: dict[str, int]) -> None:
    """Create the views flows and series, and the table counters."""
    for name in TABLES:
        path = directory / f"{name}.parquet"
        if path.is_file():  # a run without series has none
            con.read_parquet(str(path)).create_view(name)
    con.execute("create table counters (name varchar, value ubigint)")
    queries.insert(con, "counters", list(counters.items()))
