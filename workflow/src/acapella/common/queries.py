"""The SELECTs of workflow/sql/STAGE/NAME.sql, and DuckDB set up so that results are the same everywhere."""

import bisect
import contextlib
import functools
import re
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

from acapella_core.errors import OUTSIDE, UserError, exit_code_of
from acapella_core.files import held_directory, remove_held

from .links import cached

DIRECTORY = Path(__file__).resolve().parents[3] / "sql"
CANDIDATES = "Candidate bindings:"  # a line of DuckDB's errors about columns

_connections = weakref.WeakSet()


@functools.cache
def text(stage: str, name: str) -> str:
    """Return the SELECT ``name``.sql of workflow/sql/``stage`` or a directory in it."""
    path = next((DIRECTORY / stage).rglob(f"{name}.sql"), DIRECTORY / stage / f"{name}.sql")
    if not path.is_file():
        raise UserError("the query is missing", where=path, fix="install acapella from its source tree (make setup)")
    return path.read_text(encoding="utf-8")


def names(stage: str) -> list[str]:
    """The names of a stage's SELECTs, sorted."""
    return sorted(path.stem for path in (DIRECTORY / stage).glob("*.sql"))


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

    It spills into a private directory with an unpredictable name, removed with the connection. ``more``: further
    settings of DuckDB.

    Raises UserError where TMPDIR is no directory to write into.
    """
    import duckdb  # noqa: PLC0415 (keeps the start of `acapella --help` quick)

    descriptor, spill = held_directory()
    settings = {
        "threads": threads,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "temp_directory": str(spill),
        **more,
    }
    try:
        connection = duckdb.connect(str(database), read_only=read_only, config=settings)
    except duckdb.Error:
        remove_held(descriptor, spill)
        raise
    weakref.finalize(connection, remove_held, descriptor, spill)
    _connections.add(connection)
    return connection


def open_catalog(directory: Path, *, threads: int = 1, **more: str):
    """Return a connection to a campaign's catalog, read only and confined to the campaign: it may come from a third
    party, with views that read other files. Use it inside `one_line`; ``more`` and errors as of `connect`.
    """
    connection = connect(directory / "catalog.duckdb", threads=threads, read_only=True, **more)
    confine(connection, directory)
    return connection


def spill_directory(con) -> Path:
    """The directory of a connection's temporary files."""
    ((directory,),) = con.execute("select current_setting('temp_directory')").fetchall()
    return Path(directory)


def confine(con, directory: Path) -> None:
    """Let what follows read and write below ``directory`` and the spill directory only, and change no setting.

    Links are followed to entries of a cache of digests alone.
    """
    allowed = sorted({f"{path}/" for path in (directory.absolute(), directory.resolve(), spill_directory(con))})
    con.execute("set allowed_directories = $1", [allowed])
    con.execute("set allowed_paths = $1", [[str(entry) for entry in cached(directory)]])
    con.execute("set enable_external_access = false")
    con.execute("set lock_configuration = true")


def interrupt() -> None:
    """Have all queries that run end: after a signal DuckDB itself waits until its other threads are done."""
    if not _connections:
        return
    import duckdb  # noqa: PLC0415

    for connection in list(_connections):
        with contextlib.suppress(duckdb.ConnectionException):  # it was closed
            connection.interrupt()


def has_no_culprit(error: BaseException) -> bool:
    """Return whether DuckDB failed for a reason outside the samples: memory, disk, or an interrupt."""
    import duckdb  # noqa: PLC0415

    return exit_code_of(error) == OUTSIDE or isinstance(error.__cause__ or error, duckdb.InterruptException)


def culprit(samples: Sequence[str], failure: Callable[[Sequence[str]], Exception | None]) -> tuple[str, str]:
    """Return the sample that a merge of samples fails by, and the error in one line, with what it depends on.

    It is the last sample of the shortest list of first samples that fails. ``failure`` returns the error of a list of
    samples, None if there is none; that of all samples is one.
    """
    last = bisect.bisect_left(range(1, len(samples)), True, key=lambda n: failure(samples[:n]) is not None)
    name = samples[last]
    alone = failure([name])
    together = "" if alone else " together with samples before it"
    return name, f"{together}: {str(alone or failure(samples[: last + 1])).splitlines()[0]}"


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
                f"the catalog is of another version ({lines[0]})",
                where=where,
                fix=f"run acapella campaign index {catalog_of}",
            ) from error
        columns = next((line for line in lines if line.startswith(CANDIDATES)), None)  # that a wrong one may mean
        raise UserError(lines[0], where=where, fix=columns and f"perhaps{columns.removeprefix(CANDIDATES)}") from error
