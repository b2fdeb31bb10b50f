"""The rule `dashboard` of the Snakefile, with a real campaign."""

import csv
import re

from acapella_testing.generated.generated_campaigns import FIRST_NS, write_campaign


def test_rule_shows_all_campaigns_and_runs_again_only_after_a_change(again):
    write_campaign(again.directory / "results" / "other", FIRST_NS)
    printed = again.succeed("--cores", "1", "dashboard")
    assert re.search(r"^dashboard +1\ntotal +1$", printed, re.M), "no other stage runs"
    output = again.directory / "results" / "dashboard"
    with (output / "campaigns.csv").open(encoding="utf-8", newline="") as lines:
        rows = {row["campaign"]: row for row in csv.DictReader(lines)}
    assert rows.keys() == {"tiny", "other"} and int(rows["tiny"]["frames"]) > 0 and rows["tiny"]["reason"] == ""
    assert 'href="../tiny/report.html"' in (output / "index.html").read_text(encoding="utf-8")
    assert "Nothing to be done" in again.succeed("--cores", "1", "dashboard")
    again.configure(dashboard={"campaigns": ["other"]})
    again.succeed("--cores", "1", "dashboard")
    assert "tiny" not in (output / "index.html").read_text(encoding="utf-8")
    (again.directory / "results" / "other" / "report.html").unlink()
    again.succeed("--cores", "1", "dashboard")
    assert "report.html" not in (output / "index.html").read_text(encoding="utf-8")


def test_campaign_must_not_have_the_name_of_the_directory(again):
    again.configure(campaign="dashboard")
    ended = again.run("--dry-run")
    assert ended.returncode != 0 and "config error: campaign: results/dashboard is the directory of" in ended.stdout
