"""The table and the figure of what became of the sites of all collections."""

import csv

import pytest
from svg_text import words

from acapella import cli
from acapella.campaign import Campaign
from acapella.figures import compose
from acapella.figures.save import svg_of
from acapella.figures.source import Source
from acapella.outcomes import OUTCOMES

LINES = """\
campaign,started,site,outcome,reason,instances_wanted,instances,samples,samples_failed
one,2026-09-10T12:00:00.000Z,STAR,success,,2,2,9,0
one,2026-09-10T12:00:00.000Z,UCSD,degraded,"room for 1 of 2, no more",2,1,9,0
one,2026-09-10T12:00:00.000Z,UTAH,failed,no NIC,2,0,0,0
one,2026-09-10T12:00:00.000Z,TACC,failed,no NIC,2,0,0,0
two,2026-09-11T12:00:00.000Z,STAR,incomplete,did not end,2,2,4,0
"""


@pytest.fixture
def table(tmp_path):
    """Rows of the table, and the campaign's folder."""
    (tmp_path / "outcomes.csv").write_text(LINES)
    folder = tmp_path / "one"
    assert cli.main(["outcomes", str(tmp_path / "outcomes.csv"), "-o", str(folder / "tables")]) == 0
    with (folder / "tables" / "outcomes.csv").open() as lines:
        return list(csv.DictReader(lines)), folder


def test_the_shares_of_a_collection_add_up_and_reasons_stand_once(table):
    rows, _ = table
    assert len(rows) == 2 * len(OUTCOMES)
    for campaign, sites in (("one", 4), ("two", 1)):
        own = [row for row in rows if row["campaign"] == campaign]
        assert sum(float(row["site_share"]) for row in own) == 1
        assert {row["sites_of_all"] for row in own} == {str(sites)}
    by_outcome = {row["outcome"]: row for row in rows if row["campaign"] == "one"}
    assert (by_outcome["failed"]["sites"], by_outcome["failed"]["reasons"]) == ("2", "no NIC")
    assert by_outcome["degraded"]["reasons"] == "room for 1 of 2, no more"
    assert by_outcome["success"]["samples"] == "9"


def test_with_pseudonyms_no_reason_gives_a_site_away(tmp_path):
    (tmp_path / "outcomes.csv").write_text(LINES.replace("no NIC", "no NIC at UTAH"))
    assert cli.main(["outcomes", str(tmp_path / "outcomes.csv"), "-o", str(tmp_path / "tables"), "--pseudonyms"]) == 0
    published = (tmp_path / "tables" / "outcomes.csv").read_text()
    assert "failed" in published and "UTAH" not in published and "room for" not in published


def test_the_figure_says_the_shares(table):
    figure = compose.drawn("outcomes", Source(Campaign(table[1])))
    assert (
        figure.title.replace("\N{NO-BREAK SPACE}", " ")
        == "Of all sites sampled: 20.0 % success, 20.0 % degraded, 20.0 % incomplete, 40.0 % failed"
    )
    said = words(svg_of(figure))
    for text in ("2 collections, 5 sites in sum", "2026-09-10 12:00 one", "share of sites (%)", "degraded", "failed"):
        assert text in said


@pytest.mark.parametrize("text", ["a,b\n1,2\n", LINES.replace("success", "splendid"), None])
def test_what_is_no_table_of_outcomes_is_said_in_one_line(tmp_path, capsys, text):
    if text is not None:
        (tmp_path / "outcomes.csv").write_text(text)
    assert cli.main(["outcomes", str(tmp_path / "outcomes.csv"), "-o", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
