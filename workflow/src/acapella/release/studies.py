"""Files of a release that are no captures of samples, from which `make reproduce` makes further tables."""

from pathlib import Path

from acapella.campaign.layout import Campaign
from acapella.campaign.monitor import DIRECTORY as GENERATED

from . import generated, transfers

REMADE = {"transfer_": transfers.DIRECTORY, "monitor_": GENERATED}  # directory by the beginning of the tables' names


def write(part: Path, campaign: Campaign, *, hidden: bool) -> tuple[dict[str, int], list[str]]:
    """Write transfers and generated traffic to the release in ``part``.

    Return the numbers of `runs` and `trials`, and reasons why results cannot be reproduced. Raises UserError.
    """
    notes = transfers.write(part, campaign.directory, hidden=hidden)
    trials, notes_of_trials = generated.write(part, campaign, hidden=hidden)
    return {"runs": len(transfers.cells_of(part)), "trials": trials}, notes + notes_of_trials


def why_omitted(table: str, part: Path) -> str:
    """Return why a table is not copied, if the release in ``part`` has the files from which it is made; else ""."""
    directory = next((directory for prefix, directory in REMADE.items() if table.startswith(prefix)), None)
    return f"made again from {directory}/ by make reproduce" if directory and (part / directory).is_dir() else ""
