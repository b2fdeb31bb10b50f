"""Writes generated traffic to a release: the monitor's counts of each trial, without the addresses of flows."""

import json
from pathlib import Path

from acapella.campaign import monitor
from acapella.campaign.layout import Campaign, existing_provenance
from acapella_core import names
from acapella_core.files import atomic_path, atomic_text

from .columns import published_columns

HIDDEN = "generated traffic: names of its flows have no pseudonyms"


def write(part: Path, campaign: Campaign, *, hidden: bool) -> tuple[int, list[str]]:
    """Write the trials of a campaign to the release in ``part``.

    Return the number of trials, and reasons why results cannot be reproduced. If names are ``hidden``, no trial is
    written. Raises UserError if a file is damaged.
    """
    if not existing_provenance(campaign, monitor.STAGE).is_file():
        return 0, []
    if hidden:
        return 0, [HIDDEN]
    samples = trials_of(campaign)
    for sample in samples:
        monitor.check_files(campaign, sample)
        for table in monitor.TABLES:
            copy_table(campaign.generated(sample, table), table, part / monitor.DIRECTORY / sample)
    text = json.dumps({"samples": samples}, separators=(",", ":")) + "\n"
    atomic_text(part / monitor.DIRECTORY / monitor.TRIALS, text)
    return len(samples), []


def trials_of(campaign: Campaign) -> list[str]:
    """Return the samples of generated traffic in the order of ports, as in the table."""
    from acapella.common import tables  # noqa: PLC0415 - slow to import

    path = campaign.table("monitor_ports", "parquet")
    rows = tables.read("monitor_ports", path, monitor.FIX).to_pylist()
    return [names.sample(row["name"], path) for row in sorted(rows, key=lambda row: row["port"])]


def copy_table(path: Path, table: str, directory: Path) -> None:
    """Write the published columns of a trial's table to a directory, without metadata."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    from acapella.common import tables  # noqa: PLC0415

    rows = tables.read(table, path, monitor.FIX).select(published_columns(table)).replace_schema_metadata(None)
    directory.mkdir(parents=True, exist_ok=True)
    with atomic_path(directory / path.name) as temporary:
        pq.write_table(rows, temporary, compression="zstd")
