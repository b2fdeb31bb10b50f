"""Reads telemetry exports (schemas/inputs/port_counters.yaml) with DuckDB, because they may have many rows."""

import csv
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path

from acapella_core.errors import UserError

from .inputs import columns_of, schema

TABLE = "port_counters"
TYPES = {"utf8": "varchar", "int64": "bigint"}


def create(con, paths: Sequence[Path]) -> None:
    """Create table ``raw_counters`` from CSV and Parquet files. Raises UserError if a file has a different format."""
    import duckdb  # noqa: PLC0415 (keeps the start of `acapella --help` quick)

    types = {column["name"]: TYPES[column["type"]] for column in schema(TABLE)["columns"]}
    con.execute(f"create table raw_counters ({', '.join(f'{name} {kind}' for name, kind in types.items())})")
    for path in paths:
        if path.suffix != ".parquet":
            check_header(path)
        try:
            if path.suffix == ".parquet":
                rows = con.read_parquet(str(path)).select(*types)
            else:
                rows = con.read_csv(str(path), header=True, columns=types, sep=",", quotechar='"', auto_detect=False)
            rows.insert_into("raw_counters")
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error as error:
            raise UserError(f"not a telemetry export: {reason(str(error))}", where=path) from error


def reason(text: str) -> str:
    """Return the useful lines of a DuckDB reader error: the line number, and what is wrong."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    useful = [line for line in lines if line.startswith("Error when")] or lines[1:2]
    return "; ".join([lines[0], *useful[:1]])


def check_header(path: Path) -> None:
    """Raise UserError if the first line of a CSV file does not have the columns of the format."""
    columns = columns_of(TABLE)
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as stream:
            found = next(csv.reader([stream.readline(10_000)]), [])
    except (csv.Error, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise UserError(f"not CSV: {error}", where=path) from error
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror or error}", where=path) from error
    if found != columns:
        raise UserError(f"expected the columns {', '.join(columns)}", where=path)
