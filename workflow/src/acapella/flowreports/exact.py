"""Computes the exact flows of a sample from its acap and flow table: the values that error-free reports would contain.

They are temporary tables of a DuckDB connection (TABLES), each defined by a SELECT in workflow/sql/flowreports/exact/.
"""

from pathlib import Path

from acapella.common import queries

STAGE = "flowreports"
TABLES = (
    *("keys", "packets", "handshakes", "segments", "losses", "acknowledgments"),
    *("exact_flows", "exact_windows"),
)


def make(con, acap: Path, flows: Path, *, window_ns: int) -> None:
    """Create the tables in ``con``, with time windows of ``window_ns``.

    Raises UserError if a file has a different format.
    """
    from acapella.digest.acap_files import check_format  # noqa: PLC0415 (pyarrow)

    for path in (acap, flows):
        check_format(path)
    con.read_parquet(str(acap)).create_view("frames", replace=True)
    con.read_parquet(str(flows)).create_view("flows", replace=True)
    for name in TABLES:
        create(con, name, {"length_ns": window_ns})


def create(con, name: str, parameters: dict | None = None, *, table: str | None = None) -> None:
    """Create a temporary table from a SELECT, under its name or ``table``."""
    query, bound = queries.bound(STAGE, name, parameters or {})
    con.execute(f"create or replace temp table {table or name} as {query}", bound)
