"""A campaign as input of the report: its tables, with changes to the first sample, and manifests."""

import json

from acapella_testing.generated.generated_tables import change_table, write_tables
from acapella_testing.new_files import write_file

from acapella.campaign.layout import Campaign
from acapella.figures.source import Source


def quality_with(tmp_path, **changes) -> Source:
    """Return a campaign of 4 samples without faults, with changes to the first one."""
    directory = write_tables(tmp_path / "made", sites=1, ports=1)
    zero = ("lost_frames", "dropped_kernel", "loss_share", "issue_frames", "time_reversals", "untimed_frames")
    flawless = {"loss_stages_known": 4, "clock_resolution_ns": 1, **dict.fromkeys(zero, 0)}
    change_table(directory, "capture_quality", lambda number, row: row.update(flawless, **({} if number else changes)))
    return Source(Campaign(directory))


def note(directory, sample: str, *notes: str) -> None:
    """Write a manifest that contains only notes."""
    write_file(directory / "raw" / f"{sample}.json", json.dumps({"notes": notes}))
