"""Writes catalog.duckdb of a release: the contents of its acaps, flow tables, tables and samples.tsv for any DuckDB
client.

All data except the view `frames` are stored as tables in the file, which can be read from any working directory.
`frames` reads acap/ by a relative path, so that the release can be moved. For this view, a client must run in the
directory of the release or set file_search_path to it. `acapella sql DIR` works from any directory.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from acapella.campaign import views
from acapella.common import queries
from acapella_core.files import atomic_path

FILE = "catalog.duckdb"
TABLES = ("samples", "flows", "stacks")


def write(directory: Path, tables: Sequence[str]) -> None:
    """Write the catalog of the release in ``directory``, including its ``tables``. Raises UserError."""
    with (
        atomic_path(directory / FILE) as temporary,
        contextlib.chdir(directory),
        queries.one_line(directory),
    ):
        database = temporary
        database.unlink()  # DuckDB must create the file: it rejects an empty one as corrupt
        with contextlib.closing(views.new_database(database)) as con:
            views.store(con, "samples", queries.text("release", "samples"))
            for name, directory_of_files in (("flows", "flows"), ("stacks", "acap")):
                files = sorted(map(str, Path(directory_of_files).glob("*.parquet")))
                views.store(con, name, queries.text("index", name), {"files": files})
            views.create_views(con, Path(), searched=True)
            for name in tables:
                source = views.literal(Path("tables") / f"{name}.parquet", pattern=True)
                views.store(con, name, f"select * from read_parquet({source})")
            con.execute("checkpoint")  # on close, an error would be lost, and rows would stay in the write-ahead log
