"""The SELECTs of workflow/sql/STAGE/NAME.sql, and DuckDB set up so that results are the same everywhere."""

import contextlib
import functools
import os
import re
import weakref
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import temporary_folder

FOLDER = Path(__file__).resolve().parents[2] / "sql"

_connections = weakref.WeakSet()


@functools.cache
def text(stage: str, name: str) -> str:
    """The SELECT of workflow/sql/``stage``/``name``.sql."""
    path = FOLDER / stage / f"{name}.sql"
    if not path.is_file():
        raise UserError("the query is missing", where=path, fix="install acapella from its source tree (make setup)")
    return path.read_text(encoding="utf-8")


def names(stage: str) -> list[str]:
    """The names of a stage's SELECTs, sorted."""
    return sorted(path.stem for path in (FOLDER / stage).glob("*.sql"))


def bound(stage: str, name: str, parameters: dict) -> tuple[str, dict]:
    """A SELECT, and those of the parameters that it names: DuckDB refuses the others."""
    query = text(stage, name)
    return query, {key: value for key, value in parameters.items() if re.search(rf"\${key}\b", query)}


def select(con, stage: str, name: str, parameters: dict):
    """The relation of a SELECT with its parameters bound."""
    query, named = bound(stage, name, parameters)
    return con.sql(query, params=named)


def connect(database: str | Path = ":memory:", *, threads: int = 1, read_only: bool = False, **more: str):
    """A DuckDB connection that installs nothing from the network and spills to TMPDIR; use it inside `one_line`.

    ``more``: further settings of DuckDB.

    Raises UserError where TMPDIR is no folder to write into.
    """
    import duckdb  # noqa: PLC0415 (keeps the start of `acapella --help` quick)

    settings = {
        "threads": threads,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "temp_directory": f"{temporary_folder()}/acapella-{os.getpid()}",
        **more,
    }
    connection = duckdb.connect(str(database), read_only=read_only, config=settings)
    _connections.add(connection)
    return connection


def interrupt() -> None:
    """Have all queries that run end: after a signal DuckDB itself waits until its other threads are done."""
    if not _connections:
        return
    import duckdb  # noqa: PLC0415

    for connection in list(_connections):
        with contextlib.suppress(duckdb.ConnectionException):  # it was closed
            connection.interrupt()


@contextlib.contextmanager
def one_line(where: object = None, *, catalog_of: object = None):
    """Turn DuckDB's errors, which draw the query over several lines, into a UserError of one line.

    Where queries of ours lack a column they meet the catalog of another version: that of the campaign ``catalog_of``.
    """
    import duckdb  # noqa: PLC0415

    try:
        yield
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        if catalog_of is not None and isinstance(error, duckdb.BinderException):
            raise UserError(
                f"the catalog is of another version ({lines[0]})", where=where, fix=f"run acapella index {catalog_of}"
            ) from error
        raise UserError(lines[0], where=where) from error
