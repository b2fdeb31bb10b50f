"""Views of a catalog: frames, connections, published tables, and tables with list columns.

Views contain absolute paths. After a campaign is moved, `acapella campaign index CAMPAIGN --views` creates new ones.
"""

import contextlib
import glob
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from acapella.common import queries
from acapella_core import schemas
from acapella_core.arrow_tables import arrow_schema
from acapella_core.files import atomic_path, scratch_directory

from .layout import Campaign, require

TABLES = ("samples", "acaps", "flows", "stacks")
STORAGE_VERSION = "v1.0.0"  # the oldest DuckDB that opens the catalog
VIEWS = ("frames", "connections")
EMPTY = "acapella_creates_views"  # schema in which views of tables read empty files


def renew_views(campaign: Campaign, tables: Sequence[str] = ()) -> list[str]:
    """Recreate the views of a catalog; return the published tables with a view. The modification time is kept."""
    names = published(campaign, tables)
    with edited(campaign) as temporary:
        add_views(campaign, temporary, names)
    return names


@contextlib.contextmanager
def edited(campaign: Campaign) -> Iterator[Path]:
    """Yield a copy of the catalog; when the context ends, it replaces the catalog with the same modification time.

    The time must not change, because stages depend on the catalog and would rerun.
    """
    catalog = require(campaign.catalog, f"run acapella campaign index {campaign.directory}")
    status = catalog.stat()
    with atomic_path(catalog) as temporary:
        shutil.copyfile(catalog, temporary)
        try:
            yield temporary
        finally:
            temporary.with_name(temporary.name + ".wal").unlink(missing_ok=True)
        os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))


def published(campaign: Campaign, tables: Sequence[str]) -> list[str]:
    """Return the published tables that get a view: those of `campaign process`, ``tables``, and existing ones.

    A table of a different version, whose columns differ from its schema, gets no view until its stage has rerun.
    """
    known = {path.stem for path in (schemas.root() / "tables").glob("*.yaml")}
    existing = {path.stem for path in (campaign.directory / "tables").glob("*.parquet")}
    names = {*queries.names("process"), *tables, *(existing & known)}
    return sorted(name for name in names if name not in existing or has_schema(campaign.table(name, "parquet"), name))


def existing_tables(campaign: Campaign) -> list[str]:
    """Return the published tables that exist and have the columns of this version."""
    return [name for name in published(campaign, ()) if campaign.table(name, "parquet").is_file()]


def has_schema(file: Path, table: str) -> bool:
    """Return whether a Parquet file has the columns of a table's schema."""
    import pyarrow as pa  # noqa: PLC0415 (slow to import)
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        return pq.read_schema(file).equals(arrow_schema(table))
    except (OSError, pa.ArrowException):
        return False


def add_views(campaign: Campaign, database: Path, tables: Sequence[str], directory: Path | None = None) -> None:
    """Create the views of a catalog over files in ``directory`` (default: the absolute path of the campaign)."""
    root = campaign.directory.resolve() if directory is None else directory
    with (
        contextlib.chdir(campaign.directory),
        queries.one_line(campaign.directory),
        contextlib.closing(new_database(database)) as con,
    ):
        renew_stored_views(con)
        create_views(con, root)
        create_views_of_later_tables(con, root, tables)
        con.execute("checkpoint")


def renew_stored_views(con) -> None:
    """Drop all views, because the catalog may come from a third party; recreate the views of schema `stored`."""
    views = con.execute("select schema_name, view_name from duckdb_views() where not internal").fetchall()
    for schema, name in views:
        con.execute(f"drop view {quoted(schema)}.{quoted(name)}")
    stored = con.execute("select table_name from duckdb_tables() where schema_name = 'stored' order by 1").fetchall()
    for name in (name for (name,) in stored if name in TABLES):
        create_stored_view(con, name)


def create_views(con, root: Path, *, temporary: bool = False, searched: bool = False, acaps: str | None = "") -> None:
    """Create the views `frames` and `connections` over the files in ``root``.

    ``acaps``: pattern of the acaps that view `frames` reads (default: all); None: do not create this view.
    ``searched``: a relative ``root`` may be found through DuckDB's file_search_path, so names of acaps are compared
    without directories. DuckDB does not bind parameters in the definition of a view, so the paths in its SELECT are
    replaced.
    """
    acaps = Campaign.at(root).pattern("acap", ".parquet") if acaps == "" else acaps
    prefix = "" if root == Path() else f"{root}/"
    for name in VIEWS if acaps is not None else VIEWS[1:]:
        query = queries.text("index", name)
        query = query.replace("'acap/*.parquet'", literal(f"{glob.escape(prefix)}{acaps}"))
        query = query.replace("= s.acap", f"= {literal(prefix)} || s.acap" if prefix else "= s.acap")
        if searched:
            query = query.replace("a.filename =", "'acap/' || parse_filename(a.filename) =")
        con.execute(f"create {'temp ' if temporary else ''}view {name} as {query}")


def create_table_views(con, root: Path, tables: Sequence[str], *, temporary: bool = False) -> None:
    """Create a view of each published table over its file in ``root``, which must exist."""
    for table in tables:
        source = literal(root / "tables" / f"{table}.parquet", pattern=True)
        con.execute(f"create {'temp ' if temporary else ''}view {table} as select * from read_parquet({source})")


def create_views_of_later_tables(con, root: Path, tables: Sequence[str]) -> None:
    """Create a view of each published table over its file in ``root``, which may not exist yet.

    DuckDB creates a view only over an existing file. While the current schema is EMPTY, the views read empty tables
    in the working directory, so no file is written to ``root``.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415 (slow to import)

    with scratch_directory() as directory, contextlib.chdir(directory):
        con.execute(f"create schema {EMPTY}")
        con.execute(f"use {EMPTY}")
        for table in tables:
            file = f"{table}.parquet"
            pq.write_table(arrow_schema(table).empty_table(), file)
            later = literal(root / "tables" / file, pattern=True)
            source = f"read_parquet(case current_schema() when '{EMPTY}' then '{file}' else {later} end)"
            con.execute(f"create view main.{table} as select * from {source}")
        con.execute("use main")
        con.execute(f"drop schema {EMPTY}")


def store(con, name: str, query: str, bound: dict | None = None) -> None:
    """Create a table of the catalog. If it has list columns, create a view with its name over a table in `stored`."""
    stored = stored_query(con, query, bound)
    if stored == query:
        con.execute(f"create table {name} as {query}", bound)
        return
    con.execute("create schema if not exists stored")
    con.execute(f"create table stored.{name} as {stored}", bound)
    create_stored_view(con, name)


def stored_query(con, query: str, bound: dict | None = None) -> str:
    """Return a query with the same result whose lists have the format of schema `stored`.

    Return the same query if its result has no list columns.

    DuckDB 1.0 cannot read a list column if the lists of a row group (122,880 rows) have no elements. Stored lists
    therefore begin with two nulls, and a null is stored as a list with one null.
    """
    relation = con.sql(query, params=bound or {})
    lists = {column: kind for column, kind in zip(relation.columns, relation.types, strict=True) if kind.id == "list"}
    if not lists:
        return query
    columns = ", ".join(
        f"case when {column} is null then [null]::{kind}"
        f" else list_concat([null, null]::{kind}, {column}) end as {column}"
        for column, kind in lists.items()
    )
    return f"select * replace ({columns}) from ({query})"


def create_stored_view(con, name: str) -> None:
    """Create the view of a table in schema `stored`, which restores the original lists."""
    relation = con.table(f"stored.{name}")
    lists = [column for column, kind in zip(relation.columns, relation.types, strict=True) if kind.id == "list"]
    restored = ", ".join(f"case when len({column}) > 1 then {column}[3:] end as {column}" for column in lists)
    con.execute(f"create view {name} as select * replace ({restored}) from stored.{name}")


def new_database(path: Path, **resources):
    """Open or create a database file that DuckDB 1.0.0 and later can open; return the connection.

    ``resources``: threads, and further settings of DuckDB.
    """
    return queries.connect(path, storage_compatibility_version=STORAGE_VERSION, **resources)


def quoted(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(path: str | Path, *, pattern: bool = False) -> str:
    """Return a path as an SQL literal. ``pattern``: the last component is a pattern; directories are escaped."""
    path = Path(path) if pattern else path
    text = f"{glob.escape(str(path.parent))}/{path.name}" if pattern else str(path)
    return "'" + text.replace("'", "''") + "'"
