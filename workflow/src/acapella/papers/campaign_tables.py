"""Reads numbers of a campaign from its tables and collect.json."""

import functools
import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from acapella.campaign.layout import Campaign
from acapella.common import tables
from acapella.common.wording import GAP, percent
from acapella_core.errors import UserError

ALL = "all"
COLLECTION = "collect.json"  # the configuration of a collection from a testbed


class Value(NamedTuple):
    """A number of the campaign, and its text. Without a number, the text is the reason why it was not measured."""

    number: float | None
    text: str


class CampaignTables:
    """The tables of a campaign; each is read only once."""

    def __init__(self, campaign: Campaign):
        self.campaign = campaign

    @functools.cache  # noqa: B019 (it lives as long as its command)
    def rows(self, name: str) -> list[dict] | None:
        """Return the rows of a table; None if the campaign does not have it."""
        path = self.campaign.table(name, "parquet")
        fix = f"run snakemake again, or remove {path}"
        return tables.read(name, path, fix).to_pylist() if path.is_file() else None

    def setting(self, section: str, key: str, unit: str, scale: float = 1) -> Value:
        """Return a number in the configuration of the collection, divided by ``scale``.

        Without a collection from a testbed, or if the number is null, there is no value.
        """
        path = self.campaign.directory / COLLECTION
        if not path.is_file():
            return Value(None, f"this campaign has no {COLLECTION}")
        try:
            number = json.loads(path.read_text(encoding="utf-8"))[section][key]
            if number is None:
                return Value(None, f"{section}.{key} is not set")
            return Value(number / scale, f"{number / scale:,.6g} {unit}")
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise UserError(f"no number {section}.{key}", where=path, fix="collect the campaign again") from error

    def value(self, table: str, compute: Callable[[list[dict]], Value | None]) -> Value:
        """Return ``compute(rows)``. Without the table, or if the result is None, the value was not measured."""
        rows = self.rows(table)
        if rows is None:
            return Value(None, f"this campaign has no table {table}")
        return compute(rows) or Value(None, f"table {table} has no data for this number")


def text(value: float, form: Callable[[float], str] = percent) -> Value:
    """Return a number with its text."""
    return Value(value, plain(form(value)))


def plain(words: str) -> str:
    """Return a text with ordinary spaces."""
    return words.replace(GAP, " ")


def median(values: Iterable[float]) -> float | None:
    """Return the median; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
