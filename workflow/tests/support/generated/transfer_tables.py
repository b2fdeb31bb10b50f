"""The tables of transfer experiments: write them, read their rows."""

from pathlib import Path

import duckdb

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.figures.source import Source


def tables(directory, *options: str) -> None:
    """Write the tables of a campaign."""
    assert cli.main(["campaign", "transfers", str(directory), *options]) == 0


def source_of(directory) -> Source:
    """Write the tables of a campaign and return their source."""
    tables(directory)
    return Source(Campaign(directory))


def rows(directory, name: str, columns: str = "*") -> list[tuple]:
    """Return rows of a table in the order of its file. Writes the tables if the campaign has none yet."""
    if not Path(directory, "tables").exists():
        tables(directory)
    return duckdb.sql(f"select {columns} from '{directory}/tables/transfer_{name}.parquet'").fetchall()
