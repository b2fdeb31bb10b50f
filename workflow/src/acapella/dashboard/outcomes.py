"""Outcomes of the latest collection of each campaign, from results/outcomes.csv."""

from collections import Counter
from pathlib import Path

from acapella.campaign.outcomes import OUTCOMES, SUCCESS, read
from acapella_core.errors import UserError

from .cells import EMPTY, Cell

Outcomes = dict[str, dict[str, str]]  # outcome by campaign and site


def read_outcomes(path: Path) -> tuple[Outcomes, str | None]:
    """Return the outcomes of each campaign's latest collection, and a warning if the file cannot be read (or None)."""
    if not path.exists():
        return {}, None
    try:
        rows = read(path)
    except (UserError, RecursionError) as error:
        return {}, f"outcomes of collections are omitted: {str(error).removeprefix(f'{path}: ')}"
    latest: dict[str, str] = {}
    for row in rows:
        latest[row["campaign"]] = max(row["started"], latest.get(row["campaign"], ""))
    outcomes: Outcomes = {}
    for row in rows:
        if row["started"] == latest[row["campaign"]]:
            outcomes.setdefault(row["campaign"], {})[row["site"]] = row["outcome"]
    return outcomes, None


def outcome_cell(by_site: dict[str, str] | None) -> Cell:
    """Return the cell of a campaign: ``2 of 4 succeeded, 1 degraded, 1 failed``. Empty without a collection."""
    if not by_site:
        return EMPTY
    numbers = Counter(by_site.values())
    words = [f"{numbers[SUCCESS]} of {len(by_site)} succeeded"]
    words += [f"{numbers[outcome]} {outcome}" for outcome in OUTCOMES if outcome != SUCCESS and numbers[outcome]]
    return Cell(", ".join(words), round(numbers[SUCCESS] / len(by_site), 6))
