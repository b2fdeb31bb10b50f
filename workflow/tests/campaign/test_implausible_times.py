"""Runs the workflow, from the sample sheet to the report, on captures with timestamps in the year 586524."""

from pathlib import Path

import pytest
from acapella_testing.frames.pcapng_files import SECTION, interface, packet_block
from acapella_testing.frames.traces import YEAR_586524_US, busy_frames
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import Workplace, processed, rules_run

from acapella.cli import main as cli

pytestmark = pytest.mark.soak

START_US = 1_700_000_000_000_000
STEP_US = 250_000
SAMPLES = {"all": ("alpha", "p1"), "half": ("alpha", "p2"), "none": ("beta", "p1")}


def time_of(name: str, number: int) -> int:
    """Return the timestamp of a frame in microseconds."""
    implausible = name == "all" or (name == "half" and number % 2)
    return YEAR_586524_US - number if implausible else START_US + number * STEP_US


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Workplace:
    """Return a campaign in which every second frame of one sample, and all frames of another, have implausible
    timestamps.
    """

    def write(path: Path) -> None:
        frames = (packet_block(0, time_of(path.stem, number), frame) for number, frame in enumerate(busy_frames()))
        path.write_bytes(SECTION + interface() + b"".join(frames))

    place = processed(tmp_path_factory.mktemp("implausible"), SAMPLES, write)
    assert cli.main(["campaign", "report", str(place.campaign)]) == 0
    return place


def test_implausible_times_are_excluded_only_from_statistics_over_time(place):
    count = len(busy_frames())
    quality = {row["sample"]: row for row in rows(place.campaign, "capture_quality")}
    implausible = {"all": count, "half": count // 2, "none": 0}
    assert {name: row["implausible_frames"] for name, row in quality.items()} == implausible
    assert {name: row["untimed_frames"] for name, row in quality.items()} == implausible
    assert {row["frames"] for row in quality.values()} == {count}
    assert {row["issue_frames"] for row in quality.values()} == {quality["none"]["issue_frames"]}
    assert quality["all"]["duration_ns"] is None
    assert quality["half"]["duration_ns"] == max(range(0, count, 2)) * STEP_US * 1000
    assert sum(row["frames"] for row in rows(place.campaign, "throughput")) == 3 * count - sum(implausible.values())
    sizes = rows(place.campaign, "frame_sizes")
    assert sum(row["frames"] for row in sizes if (row["site"], row["length"]) == ("all", "outer")) == 3 * count


def test_report_names_the_samples_with_implausible_times(place):
    page = (place.campaign / "report.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    total = len(busy_frames()) + len(busy_frames()) // 2
    assert f"{total} frames (50.0 %) dated outside the years 1970 to 2106, in all, half: " in page
    assert "without a timestamp in their file" not in page


def test_failed_merge_keeps_the_previous_tables_and_the_next_run_recreates_them(place, tmp_path):
    again = place.copy(tmp_path / "again")
    before = again.sha256("tables/*")
    partial = again.campaign / "partial" / "half" / "frame_sizes.parquet"
    content = partial.read_bytes()
    partial.write_bytes(content[:-10])
    ended = again.run("--cores", "2", "--forcerun", "process", "--allowed-rules", "process", "--", "process")
    assert ended.returncode != 0
    assert "sample half cannot be merged: " in ended.stdout, ended.stdout
    assert again.sha256("tables/*") == before
    partial.write_bytes(content)
    assert "process" in rules_run(again.succeed("--cores", "2", "process"))
    assert again.sha256("tables/*") == before
    assert (again.campaign / "provenance" / "process.json").is_file()
