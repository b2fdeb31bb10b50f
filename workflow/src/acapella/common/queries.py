"""The SELECT statements in workflow/sql/STAGE/NAME.sql, and DuckDB connections with reproducible results."""

import argparse
import bisect
import contextlib
import functools
import os
import re
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

from acapella_core.arguments import size_bytes
from acapella_core.errors import OUTSIDE, UserError, exit_code_of
from acapella_core.files import locked_directory, remove_locked

from .links import cached

_PACKAGED = Path(__file__).resolve().parents[1] / "sql"  # in wheels
DIRECTORY = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).resolve().parents[3] / "sql"
CANDIDATES = "Candidate bindings:"  # a line of DuckDB's errors about columns
SNAKEMAKE_BYTES = 450 << 20  # memory of Snakemake in a job of a small campaign (acapella.snakefile.resources)
DUCKDB_SHARE, DUCKDB_LEAST_BYTES = 0.75, 256 << 20  # the rest is for Python and Arrow

_connections = weakref.WeakSet()


@functools.cache
def text(stage: str, name: str) -> str:
    """Return the SELECT ``name``.sql of workflow/sql/``stage`` or a directory in it."""
    path = next((DIRECTORY / stage).rglob(f"{name}.sql"), DIRECTORY / stage / f"{name}.sql")
    if not path.is_file():
        raise UserError("the query is missing", where=path, fix="install acapella again")
    return path.read_text(encoding="utf-8")


def names(stage: str) -> list[str]:
    """Return the sorted names of a stage's SELECT statements."""
    return sorted(path.stem for path in (DIRECTORY / stage).glob("*.sql"))


def bound(stage: str, name: str, parameters: dict) -> tuple[str, dict]:
    """Return a SELECT statement and the parameters that it uses, because DuckDB rejects unused ones."""
    query = text(stage, name)
    return query, {key: value for key, value in parameters.items() if re.search(rf"\${key}\b", query)}


def select(con, stage: str, name: str, parameters: dict):
    """Return the relation of a SELECT statement with its parameters bound."""
    query, values = bound(stage, name, parameters)
    return con.sql(query, params=values)


def insert(con, table: str, rows: Sequence[Sequence]) -> None:
    """Insert rows into a table in one statement, because DuckDB's executemany runs one statement per row."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    if columns:
        con.execute(f"insert into {table} select {', '.join('unnest(?)' for _ in columns)}", columns)


def add_memory_argument(parser: argparse.ArgumentParser) -> None:
    """Add --memory, from which `memory_limit` calculates the memory of DuckDB."""
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory of the job, such as 8G, including 450M for Snakemake. DuckDB gets three quarters of the rest, at "
        "least 256M and at most 80 %% of the machine's memory, and writes further intermediate results to TMPDIR "
        "(default: DuckDB gets 80 %% of the machine's memory)",
    )


def memory_limit(size: str | None, *, databases: int = 1) -> dict[str, str]:
    """Return DuckDB's memory setting for a job with the memory ``size``, such as 8G; {} for None. Raises UserError.

    ``databases``: number of databases that are open at the same time, each of which has its own memory.
    """
    if size is None:
        return {}
    share = int(DUCKDB_SHARE * (size_bytes(size) - SNAKEMAKE_BYTES))
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"memory_limit": f"{min(max(share, DUCKDB_LEAST_BYTES), machine * 8 // 10) // databases}B"}


def connect(database: str | Path = ":memory:", *, threads: int = 1, read_only: bool = False, **more: str):
    """Return a DuckDB connection that installs no extensions and spills to TMPDIR. Use it inside `one_line`.

    It spills to a private directory with an unpredictable name, which is removed with the connection. ``more``: further
    settings of DuckDB. Raises UserError if TMPDIR is not a writable directory.
    """
    import duckdb  # noqa: PLC0415 (keeps the start of `acapella --help` quick)

    descriptor, spill = locked_directory()
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
        remove_locked(descriptor, spill)
        raise
    weakref.finalize(connection, remove_locked, descriptor, spill)
    _connections.add(connection)
    return connection


def cursor(connection):
    """Return a connection to the same database, which `interrupt` also interrupts."""
    new = connection.cursor()
    _connections.add(new)
    return new


def open_catalog(directory: Path, *, threads: int = 1, **more: str):
    """Return a read-only connection to a campaign's catalog, which can only read files of the campaign.

    The catalog may come from a third party and contain views that read other files. Use the connection inside
    `one_line`. For ``more`` and errors see `connect`.
    """
    connection = connect(directory / "catalog.duckdb", threads=threads, read_only=True, **more)
    confine(connection, directory)
    return connection


def spill_directory(con) -> Path:
    """Return the directory of a connection's temporary files."""
    ((directory,),) = con.execute("select current_setting('temp_directory')").fetchall()
    return Path(directory)


def confine(con, directory: Path) -> None:
    """Restrict a connection to files below ``directory`` and the spill directory, and lock its settings.

    Links are only followed to entries of a digest cache.
    """
    allowed = sorted({f"{path}/" for path in (directory.absolute(), directory.resolve(), spill_directory(con))})
    con.execute("set allowed_directories = $1", [allowed])
    con.execute("set allowed_paths = $1", [[str(entry) for entry in cached(directory)]])
    con.execute("set enable_external_access = false")
    con.execute("set lock_configuration = true")


def confine_to_files(con, paths: Sequence[Path]) -> None:
    """Restrict a connection to reading these files, and lock its settings."""
    con.execute("set allowed_directories = $1", [[f"{spill_directory(con)}/"]])
    con.execute("set allowed_paths = $1", [[str(path.absolute()) for path in paths]])
    con.execute("set enable_external_access = false")
    con.execute("set lock_configuration = true")


def interrupt() -> None:
    """Interrupt all running queries. Without this, DuckDB waits for its other threads after a signal."""
    if not _connections:
        return
    import duckdb  # noqa: PLC0415

    for connection in list(_connections):
        with contextlib.suppress(duckdb.ConnectionException):  # already closed
            connection.interrupt()


def is_unrelated_to_samples(error: BaseException) -> bool:
    """Return whether DuckDB failed for a reason unrelated to samples: memory, disk, or an interrupt."""
    import duckdb  # noqa: PLC0415

    return exit_code_of(error) == OUTSIDE or isinstance(error.__cause__ or error, duckdb.InterruptException)


def failing_sample(samples: Sequence[str], failure: Callable[[Sequence[str]], Exception | None]) -> tuple[str, str]:
    """Return the sample that causes a merge of samples to fail, and a one-line error.

    It is the last sample of the shortest prefix of ``samples`` that fails. If merging only this sample succeeds, the
    error states this. ``failure`` returns the error of merging a list of samples, or None. Merging all samples must
    fail.
    """
    last = bisect.bisect_left(range(1, len(samples)), True, key=lambda n: failure(samples[:n]) is not None)
    name = samples[last]
    error_alone = failure([name])
    suffix = "" if error_alone else " together with samples before it"
    return name, f"{suffix}: {str(error_alone or failure(samples[: last + 1])).splitlines()[0]}"


@contextlib.contextmanager
def one_line(where: object = None, *, catalog_of: object = None):
    """Convert errors of DuckDB, which show the query on several lines, to a UserError of one line.

    ``catalog_of``: the campaign whose catalog is read. An unknown column then means that a different version wrote the
    catalog.
    """
    import duckdb  # noqa: PLC0415

    try:
        yield
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        if catalog_of is not None and isinstance(error, duckdb.BinderException):
            raise UserError(
                f"the catalog was written by a different version ({lines[0]})",
                where=where,
                fix=f"run acapella campaign index {catalog_of}",
            ) from error
        raise UserError(
            lines[0].replace(" in FROM clause!", "").rstrip("!."), where=where, fix=advice(lines)
        ) from error


def advice(lines: Sequence[str]) -> str | None:
    """Return what to do about an error of DuckDB, if its text shows this."""
    if columns := next((line for line in lines if line.startswith(CANDIDATES)), None):  # similar names
        return f"did you mean{columns.removeprefix(CANDIDATES)}?"
    if lines[0].startswith("Out of Memory Error: failed to offload"):
        return f"free space for intermediate results in {tempfile.gettempdir()}, or set TMPDIR"
    if lines[0].startswith("Out of Memory Error"):
        return "give the stage more memory (--memory, or --set-resources RULE:mem_mb=MB)"
    return None
