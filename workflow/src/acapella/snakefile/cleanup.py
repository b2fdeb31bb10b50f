"""Removal of results that no longer belong to the configuration or the sample sheet, before the first job."""

import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from acapella.campaign.layout import Campaign
from acapella.campaign.stale import remove_samples, remove_stages, remove_stale
from acapella_core import names
from acapella_core.errors import UserError

from .optional_stages import OptionalStage


def remove_unconfigured(campaign: str, stages: Iterable[OptionalStage]) -> None:
    """Remove tables and figures of stages that are not in the configuration; report them on standard error.

    Files of stages that are in the configuration stay even if this machine lacks their programs.
    """
    unconfigured = [stage.output for stage in stages if not stage.configured]
    print_lines(remove_stages(Campaign(Path(campaign)), unconfigured))


def remove_batched(campaign: str) -> None:
    """Remove the partial tables of batches, which a campaign without batches does not use."""
    directory = Path(campaign, "batches", "partial")
    if directory.is_dir() and not directory.is_symlink():
        shutil.rmtree(directory)


def remove_unlisted(campaign: str, rows: Mapping) -> None:
    """Remove the files of samples that are no longer in the user's sheet; report them on standard error.

    ``rows``: rows of the sheet by sample. `acapella campaign index` also does this, but does not run if a sample fails.
    """
    directory = Campaign(Path(campaign))
    lines = remove_stale(directory, rows, [row.file for row in rows.values()])
    if not lines:
        return
    print_lines(lines)
    try:
        remove_samples(directory, rows)
    except UserError as error:  # index writes a new catalog
        names.report(f"acapella: {error}")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, in which control characters are already escaped, on standard error."""
    for line in lines:
        print(line, file=sys.stderr)
