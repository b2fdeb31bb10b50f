"""The stages after the digest, one after the other, as the workflow runs them."""

from pathlib import Path

import pyarrow.parquet as pq

from acapella import analyze, index, process
from acapella.campaign import Campaign


def analyse(folder: Path, *, reverse: bool = False, threads: int = 1, choice: dict | None = None, **options) -> Path:
    """Index, analyze every sample, process; ``reverse`` takes the samples the other way round.

    ``choice``: the index's keywords `traffic` and `trials`; ``options``: those of process.
    """
    campaign = Campaign(folder)
    index.build(campaign, threads=threads, **(choice or {}))
    for acap in sorted((folder / "acap").glob("*.parquet"), reverse=reverse):
        analyze.make_partials(campaign, acap.stem, folder / "partial" / acap.stem, threads=threads)
    process.make_tables(campaign, threads=threads, **options)
    return folder


def rows(folder: Path, table: str) -> list[dict]:
    """The rows of a published table."""
    return pq.read_table(folder / "tables" / f"{table}.parquet").to_pylist()
