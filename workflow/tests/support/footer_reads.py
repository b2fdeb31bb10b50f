"""Count how often DuckDB reads the footers of Parquet files."""

import json
from collections import Counter
from pathlib import Path

import duckdb


def log_reads(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Make a connection log its reads; return it."""
    return connection.execute("call enable_logging('FileSystem')")


def footer_reads(connection: duckdb.DuckDBPyConnection, directory: Path | str = ".") -> Counter:
    """Return the number of logged reads that reach the end of a Parquet file, by name of the file and its directory.

    Logged paths are relative to ``directory``, unless they are absolute.
    """
    read = Counter()
    logged = connection.execute("select message from duckdb_logs where type = 'FileSystem'").fetchall()
    for event in (json.loads(message) for (message,) in logged):
        path = Path(directory, event["path"])
        if event["op"] == "READ" and path.suffix == ".parquet" and path.is_file():
            read[path.stem, path.parent.name] += int(event["pos"]) + int(event["bytes"]) == path.stat().st_size
    return read
