"""Outcomes of sites, for one campaign and for all of them."""

import functools
import time

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.new_files import new_directory
from acapella_testing.waiting import in_background

from acapella_capture.control import outcomes


@pytest.mark.parametrize(
    ("allocated", "taken", "failed", "stopped", "expected"),
    [
        (2, 9, 0, None, "success"),
        (1, 9, 0, None, "degraded"),
        (0, 0, 0, "no NIC", "failed"),
        (2, 0, 3, None, "failed"),
        (2, 4, 0, "stopped", "incomplete"),
        (1, 8, 1, None, "incomplete"),
    ],
)
def test_outcome_of_a_site_that_requested_two_nodes(allocated, taken, failed, stopped, expected):
    outcome, reason = outcomes.verdict(2, allocated, taken, failed, stopped)
    assert outcome == expected
    assert bool(reason) == (expected != "success")


def test_outcomes_accumulate_over_campaigns_and_stay_incomplete_after_a_crash(tmp_path):
    for number, campaign in enumerate(("one", "two", "two")):
        table = outcomes.OutcomeTable(new_directory(tmp_path / campaign), 10**18 + number * 10**10)
        table.record("A", "incomplete", "interrupted before completion")
        table.record("B", "incomplete", "interrupted before completion")
        table.record("A", "success", "", samples=3)
    assert [(row["site"], row["outcome"]) for row in read_rows(tmp_path / "two" / "outcomes.csv")] == [
        ("A", "success"), ("B", "incomplete"),
    ]  # fmt: skip
    all_campaigns = tmp_path / "outcomes.csv"
    earlier = all_campaigns.read_text().replace("instances_requested", "instances_wanted")  # as in an earlier version
    all_campaigns.write_text(earlier)
    rows = outcomes.read(all_campaigns)
    assert [(row["campaign"], row["site"]) for row in rows] == [
        ("one", "A"), ("one", "B"), ("two", "A"), ("two", "B"), ("two", "A"), ("two", "B"),
    ]  # fmt: skip
    assert {row["samples"] for row in rows if row["site"] == "A"} == {"3"}


def test_concurrent_campaigns_keep_all_outcome_lines(tmp_path, monkeypatch):
    """Each one pauses between reading and writing the table of all collections."""
    read = outcomes.read
    monkeypatch.setattr(outcomes, "read", lambda path: (read(path), time.sleep(0.2))[0])
    rows = [{key: f"{key}{number}" for key in outcomes.COLUMNS} for number in range(2)]
    with in_background(*(functools.partial(outcomes.merge, tmp_path / "all.csv", [row]) for row in rows)):
        pass
    assert sorted(line["campaign"] for line in read(tmp_path / "all.csv")) == ["campaign0", "campaign1"]
