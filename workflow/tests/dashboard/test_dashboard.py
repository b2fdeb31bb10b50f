"""The dashboard: campaigns over time, faults of campaigns, hostile names, and pages that need no server."""

import gzip
import itertools
import json
import os
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.generated_campaigns import (
    FIRST_NS,
    WEEK_NS,
    write_campaign,
    write_campaigns,
    write_provenance,
    write_rows,
)
from acapella_testing.new_files import write_file
from acapella_testing.runs.browser_pages import opened_page
from acapella_testing.soak import SOAK, takes_minutes

from acapella.cli import main as cli
from acapella.dashboard import campaigns, history, page, summaries
from acapella.dashboard.counts import Counts
from acapella.dashboard.history import History
from acapella.dashboard.summaries import Environment, Place, Summary

HOSTILE = [
    '<script>alert("x")</script>',
    "</script><img src=x onerror=alert(1)>",
    '" onmouseover="alert(1)',
    "²\x1b[31m",
]
QUALITY = "tables/capture_quality.parquet"
LARGE = 500  # campaigns
SITES_OF_LARGE = 30 if SOAK else 8
LINK = re.compile(r'(?:src|href)\s*=\s*"([^"]*)"')


def dashboard(results: Path, *options: str) -> Path:
    """Write a dashboard and return its directory."""
    assert cli.main(["campaign", "dashboard", str(results), *options]) == 0
    return results / "dashboard"


def write_tables(directory: Path, quality: list[dict], flows: list[dict], **others: str) -> None:
    """Write both tables of a campaign, and a provenance file with their checksums. ``others``: additional outputs."""
    outputs = write_rows(directory, "capture_quality", quality) | write_rows(directory, "flows_per_sample", flows)
    write_provenance(directory, "process", outputs | others)


def files_of(directory: Path) -> dict[str, bytes]:
    """Return the content of all files by relative path."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Return a directory of campaigns with hostile names of campaigns, sites and ports."""
    results = tmp_path_factory.mktemp("results")
    for week, name in enumerate(("<script>alert(2)<", 'a" onclick="alert(3)', "..-%2e%2e#?&amp;")):
        write_campaign(results / name, FIRST_NS + week * WEEK_NS, sites=HOSTILE, seed=week)
    row = {"site": HOSTILE[0], "port": HOSTILE[1], "mirror_verdict": HOSTILE[2], "sample": "s"}
    row |= {"frames": 1, "wire_bytes": 60, "lost_frames": 1, "loss_share": 5e-324}
    row |= {"actual_start_ns": FIRST_NS, "actual_end_ns": FIRST_NS + 1}
    write_tables(results / "ports", [row], [], **{HOSTILE[0]: HOSTILE[1]})
    write_file(results / "outcomes.csv", f"{HOSTILE[0]}\n{HOSTILE[1]}\n")
    dashboard(results)
    return results


def test_hostile_names_are_escaped(hostile):
    pages = [path.read_text(encoding="utf-8") for path in (hostile / "dashboard").rglob("*.html")]
    assert len(pages) == 1 + len(HOSTILE)
    for text in pages:
        assert text.count("<script") == 1
        assert "<img" not in text
        assert "alert(" in text
        assert not re.search(r"<[^>]*\son(click|mouseover)=", re.sub(r'"[^"]*"', '""', text))
        assert "\x1b" not in text


def test_pages_load_nothing_and_their_links_have_targets(hostile):
    for path in (hostile / "dashboard").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "default-src &#39;none&#39;" in text
        assert not re.findall(r"fetch\(|https?:", text)
        for link in (link for link in LINK.findall(text) if not link.startswith("#")):
            assert not re.search(r"[<>\"#?&]", link)
            assert (path.parent / unquote(link)).is_file(), link


def test_same_tables_give_the_same_bytes_in_any_directory(tmp_path):
    first, other = (files_of(dashboard(write_campaigns(tmp_path / name, 3))) for name in ("a", "b"))
    assert first == other
    assert first == files_of(dashboard(tmp_path / "a")), "a second run changes nothing"
    assert not any(str(tmp_path).encode() in content for content in first.values())


def test_only_changed_campaigns_are_read_again(tmp_path, monkeypatch):
    read, summarize = [], summaries.summarize
    monkeypatch.setattr(summaries, "summarize", lambda directory: read.append(directory.name) or summarize(directory))
    write_campaigns(tmp_path, 3)
    dashboard(tmp_path)
    assert read == ["week-001", "week-002", "week-003"]
    before = campaigns.state_of_results(tmp_path)
    dashboard(tmp_path)
    assert len(read) == 3
    write_campaign(tmp_path / "week-002", FIRST_NS, seed=99)
    (tmp_path / "week-003" / "tables" / "flows_per_sample.parquet").unlink()
    assert campaigns.state_of_results(tmp_path) != before
    dashboard(tmp_path)
    assert read[3:] == ["week-002", "week-003"]
    kept = tmp_path / "dashboard" / "summaries.json.gz"
    content = json.loads(gzip.decompress(kept.read_bytes()))
    content["campaigns"]["week-001"]["summary"]["counts"][1] = "many"
    kept.write_bytes(gzip.compress(json.dumps(content).encode()))
    dashboard(tmp_path)
    assert read[5:] == ["week-001", "week-003"], "an entry with a wrong type is not used, nor one that lacks parts"
    kept.write_bytes(gzip.compress(b"[" * 100_000))
    dashboard(tmp_path)
    assert len(read) == 10


def test_repaired_table_of_the_same_size_is_read(tmp_path):
    table = write_campaign(tmp_path / "a", FIRST_NS) / QUALITY
    content = table.read_bytes()
    table.write_bytes(bytes(len(content)))
    (row,) = read_rows(dashboard(tmp_path) / "campaigns.csv")
    assert row["reason"] == f"damaged: {QUALITY} differs from its SHA-256 in provenance/"
    damaged = campaigns.state_of_results(tmp_path)
    table.write_bytes(content)
    assert campaigns.state_of_results(tmp_path) != damaged, "the rule runs again"
    (row,) = read_rows(dashboard(tmp_path) / "campaigns.csv")
    assert row["reason"] == ""


def cut(name: str):
    """Return a change that truncates a table to half."""
    return lambda directory: os.truncate(directory / "tables" / name, (directory / "tables" / name).stat().st_size // 2)


def provenance(text: str):
    """Return a change that replaces the provenance."""
    return lambda directory: write_file(directory / "provenance" / "process.json", text)


def quality(change):
    """Return a change that replaces capture_quality, with a valid checksum."""

    def damage(directory: Path) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415

        pq.write_table(change(pq.read_table(directory / QUALITY)), directory / QUALITY)
        write_provenance(directory, "process", {QUALITY: summaries.sha256_of(directory / QUALITY)})

    return damage


def with_null_site(table):
    """Return the table with nulls that its schema forbids."""
    import pyarrow as pa  # noqa: PLC0415

    return table.set_column(0, pa.field("site", pa.string()), pa.nulls(len(table), pa.string()))


FAULTS = {
    "empty": (shutil.rmtree, "incomplete: provenance/process.json does not exist"),
    "not-json": (provenance("{"), "damaged: not a provenance file: provenance/process.json"),
    "deep": (provenance("[" * 100_000), "damaged: not a provenance file"),
    "list": (provenance("[1]"), "damaged"),
    "no-sums": (provenance("{}"), "old version: no checksums"),
    "wrong-sums": (provenance('{"outputs": 3}'), "damaged: outputs of provenance/process.json"),
    "parameters": (provenance('{"outputs": {}, "parameters": 3}'), "damaged: parameters of provenance/process.json"),
    "cut": (cut("capture_quality.parquet"), f"damaged: {QUALITY} differs from"),
    "missing": (lambda directory: (directory / QUALITY).unlink(), f"incomplete: {QUALITY}"),
    "old": (quality(lambda table: table.drop_columns(["misdated"])), f"old version: {QUALITY} has no column misdated"),
    "null": (quality(with_null_site), "damaged: column site contains nulls"),
    "cut-flows": (cut("flows_per_sample.parquet"), "damaged: tables/flows_per_sample.parquet differs"),
    "cut-kappa": (cut("consistency_environments.parquet"), "damaged: tables/consistency_environments"),
}


def test_damaged_and_old_campaigns_are_listed_with_the_reason(tmp_path, capsys):
    write_campaigns(tmp_path, 2)
    for name, (damage, _) in FAULTS.items():
        damage(shutil.copytree(tmp_path / "week-001", tmp_path / name))
        (tmp_path / name).mkdir(exist_ok=True)
    write_file(tmp_path / "transfers" / "provenance" / "transfer.json", "{}")
    write_file(tmp_path / "file", "not a campaign")
    text = (dashboard(tmp_path) / "index.html").read_text(encoding="utf-8")
    assert f"({len(FAULTS) + 3} campaigns, {len(FAULTS) + 3} of them read)" in capsys.readouterr().err
    rows = {row["campaign"]: row for row in read_rows(tmp_path / "dashboard" / "campaigns.csv")}
    assert rows.keys() == {"week-001", "week-002", "transfers", *FAULTS}
    assert rows["transfers"]["reason"].startswith("without samples")
    partly = {"cut-flows", "cut-kappa"}
    for name, (_, reason) in FAULTS.items():
        assert reason in text, name
        assert rows[name]["reason"].startswith("" if name in partly else reason), name
        assert bool(rows[name]["frames"]) == (name in partly), name
    assert rows["cut-flows"]["flows"] == ""
    assert rows["cut-kappa"]["flows"] != ""
    assert f"{len(FAULTS) - 1} campaigns without results".replace(" ", "\xa0", 1) in text


def test_numbers_are_sums_of_the_tables(tmp_path):
    times = {"duration_ns": 10**9, "actual_start_ns": FIRST_NS, "actual_end_ns": FIRST_NS + 1}
    first, other = {"site": "A", "port": "p"}, {"site": "B", "port": "q"}
    quality = [
        first | times | {"sample": "1", "frames": 90, "wire_bytes": 9000, "lost_frames": 10, "loss_share": 0.1},
        first | times | {"sample": "2", "frames": 100, "wire_bytes": 1000, "lost_frames": 0, "loss_share": 0.0},
        first | {"sample": "3", "frames": 7, "wire_bytes": 500, "excluded": "trial"},
        other | {"sample": "4", "frames": 5, "wire_bytes": 300},
    ]
    write_tables(tmp_path / "c", quality, [first | {"sample": str(n), "flows": n} for n in (1, 2)])
    output = dashboard(tmp_path)
    (campaign,) = read_rows(output / "campaigns.csv")
    assert [campaign[name] for name in ("samples", "frames", "wire_bytes", "flows")] == ["4", "202", "10800", "3"]
    assert [campaign[name] for name in ("loss_share", "unknown_loss_samples")] == ["0.05", "2"]
    rows = {(row["site"], row["port"]): row for row in read_rows(output / "ports.csv")}
    assert rows.keys() == {("A", "p"), ("B", "q")}
    assert [rows["A", "p"][name] for name in ("rate_bps", "samples")] == ["40000", "2"]
    assert [rows["B", "q"][name] for name in ("rate_bps", "loss_share")] == ["", ""]


def test_pseudonyms_are_in_no_trend_of_a_site(tmp_path):
    write_campaign(tmp_path / "named", FIRST_NS, sites=["STAR"])
    write_campaign(tmp_path / "hidden", FIRST_NS + WEEK_NS, sites=["S0"], pseudonyms=True)
    output = dashboard(tmp_path)
    assert {row["site"] for row in read_rows(output / "ports.csv")} == {"STAR"}
    assert (
        "1\xa0campaign with pseudonyms, not in the trends of sites and ports: hidden."
        in (output / "index.html").read_text()
    )


def test_page_of_a_site_that_no_longer_exists_is_removed(tmp_path):
    write_campaign(tmp_path / "a", FIRST_NS, sites=["STAR"])
    write_campaign(tmp_path / "b", FIRST_NS, sites=["TACC"])
    sites = dashboard(tmp_path) / "sites"
    assert [path.name.partition("-")[0] for path in sorted(sites.iterdir())] == ["STAR", "TACC"]
    dashboard(tmp_path, "--campaigns", "b")
    assert [path.name.partition("-")[0] for path in sites.iterdir()] == ["TACC"]


def test_other_files_in_the_directory_of_site_pages_are_kept(tmp_path):
    write_campaign(tmp_path / "results" / "a", FIRST_NS, sites=["STAR"])
    other = write_file(tmp_path / "www" / "sites" / "about.html", "mine")
    dashboard(tmp_path / "results", "-o", str(tmp_path / "www"))
    assert other.read_text() == "mine"


@pytest.mark.parametrize("place", [".", "pages", "../www"])
def test_links_to_reports_are_relative_from_any_directory(tmp_path, place):
    results, output = tmp_path / "results", tmp_path / "results" / place
    write_file(write_campaign(results / "a", FIRST_NS, sites=["STAR"]) / "report.html", "report")
    dashboard(results, "-o", str(output))
    for path in (output / "index.html", *(output / "sites").iterdir()):
        (link,) = [link for link in LINK.findall(path.read_text()) if link.endswith("report.html")]
        assert not link.startswith("/")
        assert (path.parent / link).read_text() == "report"


def test_directory_of_site_pages_is_not_a_campaign(tmp_path):
    write_campaign(tmp_path / "a", FIRST_NS, sites=["STAR"])
    for _ in range(2):
        dashboard(tmp_path, "-o", str(tmp_path))
        assert [row["campaign"] for row in read_rows(tmp_path / "campaigns.csv")] == ["a"]
    shutil.copytree(tmp_path / "a", tmp_path / "sites", dirs_exist_ok=True)
    dashboard(tmp_path, "-o", str(tmp_path))
    assert [row["campaign"] for row in read_rows(tmp_path / "campaigns.csv")] == ["a", "sites"]


def test_campaigns_with_little_time_captured_have_hollow_marks(tmp_path):
    found = {}
    for week, seconds in enumerate((100, 90, 24, 110, 100)):
        counts = Counts(1, 10, 10**6, 10**6, seconds * 10**9, 10, 0.0, 0, 0, 5)
        start = FIRST_NS + week * WEEK_NS
        found[f"w{week}"] = Summary(start_ns=start, end_ns=start, counts=counts, places=[Place("A", "p", counts)])
    page.write_files(page.Dashboard(History(found), {}, frozenset()), tmp_path)
    for path in (tmp_path / "index.html", *(tmp_path / "sites").iterdir()):
        hollow = re.findall(r'<circle class="sparse"[^>]*><title>([^<]*)', path.read_text())
        assert hollow
        assert all(label.startswith("w2, ") and "little time captured" in label for label in hollow)
    assert [row["duration_ns"] for row in read_rows(tmp_path / "campaigns.csv")][2] == "24000000000"


def test_outcomes_of_a_site_are_sorted_from_success_to_failed():
    cells = [page.outcome_of_site(outcome) for outcome in ("failed", "success", "incomplete", "degraded")]
    cells.sort(key=lambda cell: cell.value)
    assert [cell.text for cell in cells] == ["success", "degraded", "incomplete", "failed"]


@pytest.mark.parametrize("name", ["other", "../a", "dashboard"])
def test_unknown_campaign_is_an_error(name, tmp_path, capsys):
    write_campaign(tmp_path / "a", FIRST_NS)
    assert f"no such campaign: {name}" in failed(capsys, "campaign", "dashboard", tmp_path, "--campaigns", name)


def test_campaigns_without_samples_have_no_values(tmp_path):
    write_tables(tmp_path / "none", [], [])
    assert "no campaign has a value" in (dashboard(tmp_path) / "index.html").read_text(encoding="utf-8")


def dashboard_of(number: int) -> page.Dashboard:
    """Return a dashboard over a number of campaigns without files."""
    found = {f"week-{week}": summary_of(week) for week in range(number)}
    return page.Dashboard(History(found), {}, frozenset(found))


def summary_of(week: int) -> Summary:
    """Return the summary of a campaign of a week, with 3 ports per site."""
    sizes = [10**7 * (week % 9 + port) for port in range(3)]
    places = [
        Place(f"S{s}", f"P{p}", Counts(2, 10_000 + week * s, size, size, 10**10, 10_000, 3.0, 0, 0, 50 + week))
        for s, (p, size) in itertools.product(range(SITES_OF_LARGE), enumerate(sizes))
    ]
    start, kappa = FIRST_NS + week * WEEK_NS, [Environment("E0", 0.5 + week / 2000, 0.5, 0.99)]
    return Summary(start_ns=start, end_ns=start + 1, counts=places[0].counts, places=places, environments=kappa)


def test_labels_of_campaigns_are_created_once_for_all_ports(tmp_path, monkeypatch):
    labels = []
    monkeypatch.setattr(history, "utc_text", lambda start: labels.append(start) or "2024-01-01")
    page.write_files(dashboard_of(12), tmp_path)
    assert len(labels) == 12


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return the pages over 500 campaigns of 3 ports per site."""
    page.write_files(dashboard_of(LARGE), output := tmp_path_factory.mktemp("large") / "dashboard")
    return output


@pytest.mark.soak
def test_pages_over_500_campaigns_are_small(large):
    assert (large / "index.html").stat().st_size < 1_000_000
    sizes = [path.stat().st_size for path in (large / "sites").iterdir()]
    assert len(sizes) == SITES_OF_LARGE
    assert max(sizes) < 1_000_000


@takes_minutes
def test_tables_of_500_campaigns_are_read_once(tmp_path, capsys):
    rows = read_rows(dashboard(write_campaigns(tmp_path, LARGE)) / "campaigns.csv")
    assert "(500 campaigns, 500 of them read)" in capsys.readouterr().err
    assert len(rows) == LARGE
    assert not any(row["reason"] for row in rows)
    dashboard(tmp_path)
    assert "(500 campaigns, 0 of them read)" in capsys.readouterr().err


@pytest.fixture(scope="module")
def opened(large, browser):
    """Return the first page over 500 campaigns in Chromium, and the messages and requests of the browser."""
    with opened_page(browser, large / "index.html") as opened:
        yield opened


def first_cells(tab) -> list[str]:
    """Return the first column of the table of campaigns."""
    shown = "all => all.filter(r => !r.hidden).map(r => r.cells[0].textContent)"
    return tab.locator("#campaigns tbody tr").evaluate_all(shown)


@pytest.mark.soak
def test_tables_are_sorted_and_filtered_with_the_keyboard(opened):
    tab, messages = opened
    assert first_cells(tab)[:2] == ["week-499", "week-498"]
    tab.locator("#campaigns th button").first.focus()
    tab.keyboard.press("Enter")
    assert first_cells(tab)[:11][1:] == [f"week-{n}" for n in range(1, 11)]
    assert tab.locator("#campaigns th").first.get_attribute("aria-sort") == "ascending"
    tab.keyboard.press("Space")
    assert first_cells(tab)[0] == "week-499"
    tab.locator("#campaigns input").fill("WEEK-49")
    assert len(first_cells(tab)) == 11
    assert tab.locator("#campaigns output").inner_text() == "11 of 500 rows"
    tab.locator("#campaigns input").fill("")
    assert messages == []


def test_page_fits_a_window_and_a_printed_page(opened):
    tab, _ = opened
    fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert tab.evaluate(fits)
    assert tab.locator("svg.trend").count() == 5
    tab.emulate_media(media="print")
    assert not tab.locator("#campaigns .filter").is_visible()
    assert not tab.locator("nav").is_visible()
    tab.set_viewport_size({"width": 720, "height": 1000})  # A4 without margins, in px of 1/96 in
    assert tab.evaluate(fits)
