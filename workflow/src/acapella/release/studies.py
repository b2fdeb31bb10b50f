"""Writes files of a release other than captures of samples, from which `make reproduce` creates further tables."""

from pathlib import Path

from acapella.campaign.layout import Campaign, existing_provenance
from acapella.campaign.monitor import DIRECTORY as GENERATED

from . import generated, infrastructure, transfers

RECREATED = {  # directory of the inputs, by the prefix of the names of the tables that `make reproduce` recreates
    **{"transfer_": transfers.DIRECTORY, "monitor_": GENERATED, "infrastructure_": infrastructure.DIRECTORY},
}


def write(part: Path, campaign: Campaign, *, hidden: bool) -> tuple[dict[str, int], list[str]]:
    """Write transfers, generated traffic and the inputs of the infrastructure study to the release in ``part``.

    Return the numbers of `runs`, `trials` and `inputs`, and reasons why results cannot be reproduced. Raises UserError.
    """
    notes = transfers.write(part, campaign.directory, hidden=hidden)
    trials, notes_of_trials = generated.write(part, campaign, hidden=hidden)
    notes += notes_of_trials + infrastructure.write(part, campaign, hidden=hidden)
    inputs = len([*(part / infrastructure.DIRECTORY).glob("*")])
    return {"runs": len(transfers.cells_of(part)), "trials": trials, "inputs": inputs}, notes


def has_studies(campaign: Campaign) -> bool:
    """Return whether a campaign has transfers or an infrastructure study, and can be released without samples."""
    has_study = existing_provenance(campaign, infrastructure.STAGE).is_file()
    return has_study or transfers.cells_of(campaign.directory) != []


def why_omitted(table: str, part: Path) -> str:
    """Return why a table is not copied, if the release in ``part`` contains the inputs of its computation; else ""."""
    directory = next((directory for prefix, directory in RECREATED.items() if table.startswith(prefix)), None)
    return f"recreated from {directory}/ by make reproduce" if directory and (part / directory).is_dir() else ""
