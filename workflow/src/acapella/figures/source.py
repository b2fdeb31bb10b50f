"""The published tables of a campaign, as input of figures and report."""

import functools

import pyarrow as pa

from acapella.campaign.layout import Campaign, require
from acapella.campaign.outcomes import TABLES as OUTCOME_TABLES
from acapella.campaign.storage import TABLES as STORAGE_TABLES
from acapella.campaign.trial_tables import TABLES as TRIAL_TABLES
from acapella.common import tables
from acapella.common.wording import natural
from acapella.flowreports.study import TABLES as STUDY_TABLES
from acapella.flowreports.tables import TABLES as FLOW_TABLES
from acapella.infrastructure.tables import TABLES as INFRASTRUCTURE_TABLES
from acapella.transfer.tables import TABLES as TRANSFER_TABLES

# tables of acapella monitor
MONITOR_TABLES = (
    "monitor_ports",
    "monitor_flows",
    "monitor_histograms",
    "monitor_clocks",
    "monitor_losses",
    "monitor_searches",
)
ALL = "all"  # site of the rows for the whole campaign


class NoData(Exception):
    """A table has nothing to draw; the text of the exception is the reason."""


class Source:
    """The tables of one campaign; each is read only once."""

    def __init__(self, campaign: Campaign):
        self.campaign = campaign

    @functools.cached_property
    def quality(self) -> list[dict]:
        """Return the rows of capture_quality, one per sample."""
        return self.rows("capture_quality")

    @functools.cached_property
    def traffic(self) -> list[dict]:
        """Return the rows of capture_quality of the samples that count in traffic statistics."""
        return [row for row in self.quality if row["excluded"] is None]

    @functools.cached_property
    def excluded(self) -> list[dict]:
        """Return the rows of capture_quality of the samples that are excluded from traffic statistics."""
        return [row for row in self.quality if row["excluded"] is not None]

    @functools.cached_property
    def sites(self) -> list[str]:
        """Return the sites that have samples in traffic statistics, in natural order."""
        return sites_of(self.traffic)

    @functools.cached_property
    def frames(self) -> int:
        """Return the number of frames of the samples in traffic statistics."""
        return sum(row["frames"] for row in self.traffic)

    @functools.cached_property
    def has_times(self) -> bool:
        """Return whether any frame of the samples in traffic statistics has a time."""
        return any(row["frames"] > row["untimed_frames"] for row in self.traffic)

    def rows(self, name: str) -> list[dict]:
        """Return a table as one dictionary per row, with the types of its schema and None for null."""
        return self.table(name).to_pylist()

    def required_rows(self, name: str) -> list[dict]:
        """Return rows as `rows` does. Raises NoData if there are no samples, frames or rows."""
        if not self.quality:
            raise NoData("the campaign has no samples")
        if not self.frames:
            raise NoData(f"none of the {len(self.traffic)} samples contains a frame")
        rows = self.rows(name)
        if not rows and not self.has_times:
            raise NoData("no frame has a timestamp (the files contain none)")
        if not rows:
            raise NoData(f"tables/{name}.csv has no rows")
        return rows

    @functools.cache  # noqa: B019 (a source lives as long as its command)
    def table(self, name: str) -> pa.Table:
        """Return a table as `tables.read` does; the error names the command that creates the table."""
        fix = f"run: {command_for(name, self.campaign)}"
        return tables.read(name, require(self.campaign.table(name, "parquet"), fix), fix)


def sites_of(rows: list[dict]) -> list[str]:
    """Return the sites of rows of capture_quality, in natural order."""
    return sorted({row["site"] for row in rows}, key=natural)


def command_for(table: str, campaign: Campaign) -> str:
    """Return the command that creates a table."""
    for group, command in (
        (TRIAL_TABLES, f"campaign trials {campaign.directory} --environments ..."),
        (
            OUTCOME_TABLES,
            f"campaign outcomes {campaign.directory.parent / 'outcomes.csv'} -o {campaign.directory / 'tables'}",
        ),
        (STORAGE_TABLES, f"campaign storage {campaign.directory}"),
        (MONITOR_TABLES, f"monitor ... -o {campaign.directory / 'tables'}"),
        (FLOW_TABLES, f"p4 tables {campaign.directory} --samples ..."),
        (STUDY_TABLES, f"p4 study {campaign.directory}"),
        (TRANSFER_TABLES, f"campaign transfers {campaign.directory}"),
        (INFRASTRUCTURE_TABLES, f"campaign infrastructure {campaign.directory} --advertisement ..."),
        (("flowreport_published",), f"p4 published {campaign.directory} --flowreports"),
        (("paper_numbers",), f"campaign papers {campaign.directory}"),
        (("kappa_published",), f"campaign conformance -o {campaign.directory / 'tables'}"),
    ):
        if table in group:
            return f"acapella {command}"
    return f"acapella campaign process {campaign.directory}"
