"""Tests the table and the figure of the outcome of every site in every collection."""

from collections import Counter

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.generated_tables import write_tables
from acapella_testing.new_files import write_file
from acapella_testing.svg_text import with_spaces, words

from acapella.campaign.layout import Campaign
from acapella.campaign.outcomes import OUTCOMES, reason_of
from acapella.cli import main as cli
from acapella.figures import compose, outcome_reasons
from acapella.figures.registry import COLLECTION_FIGURES
from acapella.figures.save import svg_of
from acapella.figures.source import Source

LINES = """\
campaign,started,site,outcome,reason,instances_requested,instances,samples,samples_failed
one,2026-09-10T12:00:00.000Z,STAR,success,,2,2,9,0
one,2026-09-10T12:00:00.000Z,UCSD,degraded,"room for 1 of 2, no more",2,1,9,0
one,2026-09-10T12:00:00.000Z,UTAH,failed,no NIC,2,0,0,0
one,2026-09-10T12:00:00.000Z,TACC,failed,no NIC,2,0,0,0
two,2026-09-11T12:00:00.000Z,STAR,incomplete,interrupted before completion,2,2,4,0
"""


@pytest.fixture
def summed(tmp_path):
    """Return a function that writes a CSV file of outcomes, makes the tables and returns the campaign's directory."""

    def directory_of(text: str, *options: str):
        words = [str(write_file(tmp_path / "outcomes.csv", text)), "-o", str(tmp_path / "one" / "tables"), *options]
        assert cli.main(["campaign", "outcomes", *words]) == 0
        return tmp_path / "one"

    return directory_of


@pytest.fixture
def directory(summed):
    """Return a campaign with the tables of the outcomes above."""
    return summed(LINES)


def rows_of(directory, name: str) -> list[dict]:
    """Return the rows of a table."""
    return read_rows(directory / "tables" / f"{name}.csv")


def drawn(directory, name: str) -> tuple[str, str]:
    """Return the title and the text of a figure."""
    figure = compose.compose_figure(name, Source(Campaign(directory)))
    return with_spaces(figure.title), words(svg_of(figure))


def test_reasons_of_a_collection_are_listed_once(directory):
    rows = rows_of(directory, "outcomes")
    assert len(rows) == 2 * len(OUTCOMES)
    by_outcome = {row["outcome"]: row for row in rows if row["campaign"] == "one"}
    assert (by_outcome["failed"]["sites"], by_outcome["failed"]["reasons"]) == ("2", "no NIC")
    assert by_outcome["degraded"]["reasons"] == "room for 1 of 2, no more"
    assert by_outcome["success"]["samples"] == "9"


@pytest.mark.parametrize(("campaign", "sites"), [("one", "4"), ("two", "1")])
def test_shares_of_sites_add_up(directory, campaign, sites):
    own = [row for row in rows_of(directory, "outcomes") if row["campaign"] == campaign]
    assert sum(float(row["site_share"]) for row in own) == 1
    assert {row["sites_of_all"] for row in own} == {sites}


@pytest.mark.parametrize("name", ["outcomes", "outcome_reasons"])
def test_with_pseudonyms_no_reason_reveals_a_site(summed, name):
    directory = summed(LINES.replace("no NIC", "no NIC at UTAH"), "--pseudonyms")
    published = (directory / "tables" / f"{name}.csv").read_text()
    assert "failed" in published
    assert "UTAH" not in published
    assert "SITE" not in published
    assert "room for" not in published


def test_figure_of_outcomes_states_the_shares(directory):
    title, printed = drawn(directory, "outcomes")
    assert title == "Of all sites sampled: 20.0 % success, 20.0 % degraded, 20.0 % incomplete, 40.0 % failed"
    assert "2 collections, 5 sites; a site counts once per collection" in printed
    assert "2026-09-10 12:00 one" in printed
    assert "share of sites (%)" in printed
    assert "degraded" in printed
    assert "failed" in printed


def test_shares_of_reasons_refer_to_the_unsuccessful_sites(directory):
    rows = rows_of(directory, "outcome_reasons")
    assert {(row["outcome"], row["reason"]): (row["sites"], float(row["reason_share"])) for row in rows} == {
        ("degraded", "room for N of N, no more"): ("1", 0.25),
        ("failed", "no NIC"): ("2", 0.5),
        ("incomplete", "interrupted before completion"): ("1", 0.25),
    }
    for row in rows:
        assert (row["unsuccessful_sites"], row["sites_of_all"], row["collections"]) == ("4", "5", "2")
        assert float(row["site_share"]) == int(row["sites"]) / 5


@pytest.mark.parametrize(
    ("sites", "expected"),
    [
        ({"a": 1, "b": 1, "": 1}, "; 3 reasons are equally frequent (1 site each)"),
        ({"b": 2, "a": 1}, "; most frequent reason: b (2 sites)"),
        ({"": 2, "a": 1}, ""),
    ],
)
def test_title_states_that_reasons_are_equally_frequent(sites, expected):
    shown = with_spaces(outcome_reasons.title([{"unsuccessful_sites": 3, "sites_of_all": 6}], Counter(sites)))
    assert shown == f"3 of 6 sites (50.0 %) were degraded, incomplete or failed{expected}"
    assert shown.count("%") == 1, "the only percentage is the share of unsuccessful sites"


@pytest.mark.parametrize(
    ("site", "reason", "expected"),
    [
        ("UTAH", "0 dedicated NICs free on 3 hosts", "N dedicated NICs free on N hosts"),
        ("UTAH", "refused 2: no NIC at UTAH; not released: timeout after 30 s", "refused N: no NIC at SITE"),
        ("S1", "S10 and S1-n1 have IPv4 and 1.5 GB", "S10 and SITE-n1 have IPv4 and N GB"),
        ("UTAH", "", ""),
    ],
)
def test_reasons_that_differ_only_in_numbers_and_names_are_merged(site, reason, expected):
    assert reason_of({"site": site, "reason": reason}) == expected


def test_figure_of_reasons_prints_shares_with_counts(directory):
    title, text = drawn(directory, "outcome_reasons")
    assert title == "4 of 5 sites (80.0 %) were degraded, incomplete or failed; most frequent reason: no NIC (2 sites)"
    assert "share of the 4 unsuccessful sites (%)" in text
    assert "no NIC: 50.0 % (2 sites)" in text
    assert "interrupted before completion: 25.0 % (1 site)" in text
    assert "2 collections, 5 sites; a site counts once per collection" in text


HEADER, SUCCESS, *_ = LINES.splitlines(keepends=True)


def test_figure_of_many_reasons_counts_the_rest(summed):
    lines = [f"one,2026-09-10T12:00:00.000Z,S{n},failed,cause {'x' * (n + 1)},1,0,0,0\n" for n in range(30)]
    _, text = drawn(summed(HEADER + "".join(lines)), "outcome_reasons")
    assert "16 other reasons: 53.3 % (16 sites)" in text


@pytest.mark.parametrize(
    ("lines", "expected", "printed"),
    [
        (SUCCESS, "The site succeeded", "No site was degraded, incomplete or failed"),
        (SUCCESS + SUCCESS.replace("STAR", "UCSD"), "All 2 sites succeeded", "No site was degraded"),
        ("", "Reasons for unsuccessful collections: no data", "nothing was collected"),
    ],
)
def test_figure_of_reasons_without_data_states_why(lines, expected, printed, summed):
    directory = summed(HEADER + lines)
    assert rows_of(directory, "outcome_reasons") == []
    assert compose.compose_figure("outcome_reasons", Source(Campaign(directory))).empty == (not lines)
    title, text = drawn(directory, "outcome_reasons")
    assert ("no data" in text.lower()) == (not lines)
    assert title == expected
    assert printed in text


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"a,b\n1,2\n", id="other columns"),
        pytest.param(LINES.replace("success", "splendid").encode(), id="no such outcome"),
        pytest.param(None, id="no file"),
        pytest.param(LINES.encode().replace(b"no NIC", b"no NIC \xff"), id="not UTF-8"),
        pytest.param(LINES.replace("no NIC", "x" * 131_073).encode(), id="long field"),
        pytest.param(LINES.replace(",4,0", ",\u00b2,0").encode(), id="superscript two"),
        pytest.param(LINES.replace(",4,0", ",-4,0").encode(), id="negative"),
        pytest.param(LINES.replace(",4,0", f",{'9' * 5000},0").encode(), id="5,000 digits"),
        pytest.param(LINES.replace(",4,0", f",{2**64},0").encode(), id="more than 64 bits"),
        pytest.param(LINES.replace(",4,0", ",\0,0").encode(), id="NUL"),
    ],
)
def test_invalid_table_of_outcomes_is_reported_in_one_line(tmp_path, capsys, content):
    outcomes = tmp_path / "outcomes.csv"
    if content is not None:
        outcomes.write_bytes(content)
    line = failed(capsys, "campaign", "outcomes", outcomes, "-o", tmp_path)
    assert line.startswith(f"acapella: error: {outcomes}: ")
    assert len(line) < 1000


@pytest.mark.soak
@pytest.mark.parametrize(("options", "figures"), [([], []), (["--outcomes"], [*COLLECTION_FIGURES])])
def test_report_has_the_outcomes_and_their_reasons_on_request(directory, options, figures):
    assert cli.main(["campaign", "report", str(write_tables(directory, sites=1)), *options]) == 0
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert [name for name in COLLECTION_FIGURES if f'data-name="{name}"' in page] == figures
    assert ('href="#collections"' in page) == bool(figures)
