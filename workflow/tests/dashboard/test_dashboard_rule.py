"""The rule `dashboard` of the Snakefile, with a real campaign."""

import re

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.generated_campaigns import FIRST_NS, write_campaign

pytestmark = pytest.mark.soak


def test_rule_shows_all_campaigns_and_runs_again_only_after_a_change(again):
    results = again.directory / "results"
    write_campaign(results / "other", FIRST_NS)
    assert re.search(r"^dashboard +1\ntotal +1$", again.succeed("--cores", "1", "dashboard"), re.M), (
        "no other stage runs"
    )
    rows = {row["campaign"]: row for row in read_rows(results / "dashboard" / "campaigns.csv")}
    assert rows.keys() == {"tiny", "other"}
    assert int(rows["tiny"]["frames"]) > 0
    assert rows["tiny"]["reason"] == ""
    index = results / "dashboard" / "index.html"
    assert 'href="../tiny/report.html"' in index.read_text(encoding="utf-8")
    assert "Nothing to be done" in again.succeed("--cores", "1", "dashboard")
    again.configure(dashboard={"campaigns": ["other"]})
    again.succeed("--cores", "1", "dashboard")
    assert "tiny" not in index.read_text(encoding="utf-8")
    (results / "other" / "report.html").unlink()
    again.succeed("--cores", "1", "dashboard")
    assert "report.html" not in index.read_text(encoding="utf-8")


def test_campaign_must_not_have_the_name_of_the_directory(again):
    again.configure(campaign="dashboard")
    ended = again.run("--dry-run")
    assert ended.returncode != 0
    assert "config error: campaign: results/dashboard is the directory of" in ended.stdout
