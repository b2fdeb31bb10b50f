"""catalog.duckdb of a release: what its acaps, flows, tables and samples.tsv contain, for any DuckDB client.

Everything but the view `frames` is a table in the file, so it can be read from any working directory. `frames` reads
acap/ by a relative path, so that the directory can be moved: a client has to run in the release's directory, or set
file_search_path to it. `acapella sql DIR` works from anywhere.
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
    """Write the catalog of the release in ``directory``; it contains ``tables``. Raises UserError."""
    with (
        atomic_path(directory / FILE) as temporary,
        contextlib.chdir(directory),
        queries.one_line(directory),
    ):
        database = temporary
        database.unlink()  # DuckDB makes its own file, and takes an empty one for a broken one
        with contextlib.closing(views.new_database(database)) as con:
            views.store(con, "samples", queries.text("release", "samples"))
            for name in ("flows", "stacks"):
                views.store(con, name, queries.text("index", name))
            views.create_views(con, Path(), searched=True)
            for name in tables:
                source = views.literal(Path("tables") / f"{name}.parquet", pattern=True)
                views.store(con, name, f"select * from read_parquet({source})")
            con.execute("checkpoint")  # closing would drop an error of it, and leave rows in a file beside the catalog
