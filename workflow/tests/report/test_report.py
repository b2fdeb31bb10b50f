"""The report: a self-contained page that runs in Chromium without messages, and shows hostile names as text."""

import base64
import html
import re

import pytest
from acapella_testing.generated import generated_flowreports, generated_trials, storage_study
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.generated_report import note, quality_with
from acapella_testing.generated.generated_tables import write_tables
from acapella_testing.new_files import write_file, write_json
from acapella_testing.runs.browser_pages import opened_page
from acapella_testing.svg_text import words

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.figures.registry import TRAFFIC_FIGURES
from acapella.figures.source import Source
from acapella.report import page, summary

HOSTILE = ['<script>alert("x")</script>', "Site & Söns' 20 chars", "</script><img src=x onerror=alert(1)>"]
LINK = re.compile(r'(?:src|href)\s*=\s*"([^"]*)"')


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Return a campaign whose report has hostile names of sites and a hostile provenance."""
    directory = write_tables(tmp_path_factory.mktemp("report") / "a <b>campaign", names=HOSTILE)
    write_json(directory / "provenance" / "process.json", {"versions": {HOSTILE[0]: [HOSTILE[2]]}})
    for sample in [row["sample"] for row in Source(Campaign(directory)).quality if "/" not in row["sample"]][:3]:
        note(directory, sample, "no lldpd here, so no names of ports" * 3, f"{HOSTILE[0]} was noted")
    assert cli.main(["campaign", "report", str(directory)]) == 0
    return directory


@pytest.fixture(scope="module")
def text(hostile):
    return (hostile / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page_and_messages(hostile, browser):
    """Return the page in Chromium once its charts are drawn, and the messages and requests of the browser."""
    with opened_page(browser, hostile / "report.html") as (page, messages):
        page.wait_for_function("n => document.querySelectorAll('figure.drawn').length === n", arg=len(TRAFFIC_FIGURES))
        yield page, messages


@pytest.fixture
def opened(page_and_messages):
    """Return the page in Chromium."""
    return page_and_messages[0]


@pytest.mark.parametrize("name", TRAFFIC_FIGURES)
def test_charts_are_drawn(name, opened):
    assert opened.locator(f'[data-name="{name}"] svg .role-mark').locator("path, text, line, rect").count() > 3


def test_charts_are_drawn_without_messages_or_requests(page_and_messages):
    assert page_and_messages[1] == []


def test_tooltips_show_numbers(opened):
    opened.locator('[data-name="header_depth"] svg .mark-rect.role-mark path').first.hover()
    assert "distinct headers" in opened.locator("#vg-tooltip-element").inner_text()


def test_malicious_names_are_escaped(opened):
    assert opened.locator("h1").inner_text().startswith("a <b>campaign: 2023-11-14 22:13:20 to ")
    assert set(HOSTILE) <= set(opened.locator("#tables td").all_inner_texts())
    assert opened.locator("main script:not([type='application/json'])").count() == 0
    assert opened.locator("img:not([src^='data:image/svg+xml'])").count() == 0
    assert HOSTILE[2] in opened.locator("#provenance").inner_text()


def test_columns_are_visible_without_scrolling(opened):
    assert len(widths(opened)) > 4
    assert [name for name, needed, seen in widths(opened) if needed > seen] == []


def widths(page) -> list:
    """Return name, needed and visible width of each table."""
    measure = "all => all.map(e => [e.getAttribute('aria-labelledby'), e.scrollWidth, e.clientWidth])"
    return page.locator(".scroll").evaluate_all(measure)


@pytest.mark.soak
@pytest.mark.usefixtures("one_figure")
def test_columns_of_the_other_sections_are_visible_without_scrolling(tmp_path, browser):
    generated_trials.source_of(tmp_path, generated_trials.shapes(2))
    generated_flowreports.write_study(generated_flowreports.write_tables(tmp_path))
    rates = [storage_study.rate(64, 128, 10**6, 10**5, None)]
    storage_study.campaign(tmp_path, storage_study.study(storage_study.RUN) | {"rates": rates})
    parts = ("--trials", "--storage", "--flowreports", "--flowstudy")
    assert cli.main(["campaign", "report", str(tmp_path), *parts]) == 0
    with opened_page(browser, tmp_path / "report.html") as (opened, _):
        found = {name.removeprefix("table-"): (needed, seen) for name, needed, seen in widths(opened)}
    assert {"consistency", "storage_runs", "flowreport_accuracy"} <= set(found)
    assert {name: width for name, width in found.items() if width[0] > width[1]} == {}


def test_title_names_campaign_testbed_and_time(tmp_path):
    source = quality_with(tmp_path)
    first, last = (source.quality[n]["actual_start_ns"] for n in (0, -1))
    assert summary.heading(source) == f": {summary.utc_text(first)} to {summary.utc_text(last + 20 * 10**9)[11:]} UTC"
    raw = source.campaign.directory / "raw"
    write_file(raw / "b.json", "no JSON")
    for testbed, start in (("local", ": testbed local, 2023-11-14 "), ("files", ": captures from files, 2023-11-14 ")):
        write_json(raw / "a.json", {"testbed": testbed})
        assert summary.heading(source).startswith(start)


def test_manifest_notes_are_shown_below_sample_quality(opened):
    assert opened.locator("#tables h3").all_inner_texts()[-2:] == ["Quality of each sample", "Notes on samples"]
    rows = [row.split("\t") for row in opened.locator("[aria-labelledby='table-notes'] tbody tr").all_inner_texts()]
    assert {row[-1] for row in rows} == {"no lldpd here, so no names of ports" * 3, f"{HOSTILE[0]} was noted"}
    box = opened.locator("[aria-labelledby='table-notes'] table").bounding_box()
    assert box["width"] <= opened.locator("main").bounding_box()["width"], "it fits the page"


def test_printed_page_shows_each_figure_once(opened):
    opened.emulate_media(media="print")
    shown = [opened.locator("figure img:visible").count(), opened.locator("figure .vega-embed:visible").count()]
    opened.emulate_media(media="screen")
    assert shown == [len(TRAFFIC_FIGURES), 0]


def test_figures_are_shown_without_javascript(hostile, browser):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto((hostile / "report.html").as_uri())
    sizes = page.locator("figure img").evaluate_all("all => all.map(i => [i.naturalWidth, i.alt.length])")
    page.context.close()
    assert len(sizes) == len(TRAFFIC_FIGURES)
    assert all(width > 400 and alt > 40 for width, alt in sizes)


def test_page_refers_to_no_other_file(text):
    assert [link for link in LINK.findall(text.split("<script>")[0]) if not link.startswith(("data:", "#"))] == []
    assert "default-src 'none'" in html.unescape(text)
    assert "unsafe-eval" not in text
    assert text.count("window.vegaEmbed=") == 1


def test_table_can_be_downloaded_from_the_page(hostile, text):
    link = re.search(r'href="data:text/csv;base64,([^"]+)" download="header_depth.csv"', text)
    assert base64.b64decode(link[1]) == (hostile / "tables" / "header_depth.csv").read_bytes()


@pytest.mark.soak
def test_large_table_is_linked_and_not_embedded(tmp_path):
    directory = write_tables(tmp_path / "made", sites=1)
    header, *lines = (directory / "tables" / "throughput.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    write_file(directory / "tables" / "throughput.csv", header + "".join(lines) * 60)
    assert cli.main(["campaign", "report", str(directory)]) == 0
    assert '<a href="tables/throughput.csv">' in (directory / "report.html").read_text(encoding="utf-8")


def reported(directory) -> str:
    """Write the report of a campaign; return its HTML."""
    assert cli.main(["campaign", "report", str(directory)]) == 0
    return (directory / "report.html").read_text(encoding="utf-8")


@pytest.mark.soak
def test_page_depends_only_on_the_tables(tmp_path):
    first, second = (reported(write_tables(tmp_path / name / "made", sites=1)) for name in ("a", "b"))
    assert first == second


@pytest.mark.parametrize("shape", [{"names": [], "sites": 0}, {"frames": 0}])
def test_campaign_without_data_has_a_report(shape, tmp_path):
    assert "no data" in reported(write_tables(tmp_path / "made", **shape))


@pytest.mark.soak
@pytest.mark.parametrize("name", ["provenance/process.json", "tables/tcp_control.csv"])
@pytest.mark.usefixtures("one_figure")
def test_missing_file_error_names_the_stage_to_run(name, tmp_path, capsys):
    directory = write_tables(tmp_path / "made", sites=1)
    (directory / name).unlink()
    error = failed(capsys, "campaign", "report", directory)
    assert f"{name}: no such file; run: acapella campaign process {directory}" in error
    assert not (directory / "report.html").exists()


def test_captures_from_files_are_not_described_as_samples_of_a_testbed(tmp_path):
    source = quality_with(tmp_path)
    assert "testbed" in summary.introduction(source)
    assert "Time in samples" in dict(summary.facts(source))
    for row in source.quality:
        row["method"] = "file"
    assert "testbed" not in summary.introduction(source)
    assert "First to last frame, sum of all files" in dict(summary.facts(source))
    assert "mirrored" not in dict(summary.facts(source))["Sites"]


def test_parts_of_provenance_have_readable_names(tmp_path):
    directory = write_tables(tmp_path / "made", sites=1)
    shown = {"acapella_provenance": 1, "else": 2, "outputs": {"a": "b"}, "versions": {"acapella": "0"}}
    write_json(directory / "provenance" / "process.json", shown)
    parts = page.provenance_of(Campaign(directory), "process")
    assert [part["key"] for part in parts] == ["versions", "outputs", "acapella_provenance", "else"]
    assert [part["label"] for part in parts][2:] == ["Version of the file format", "else"]


def test_report_without_trials_has_no_section_about_trials(text):
    assert 'id="consistency"' not in text
    assert 'href="#consistency"' not in text


def test_figures_name_their_data_once(text):
    """The caption names the table and links to it; the picture above it does not."""
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', text)
    assert len(pictures) == len(TRAFFIC_FIGURES)
    assert not any("Data: tables/" in words(base64.b64decode(picture).decode()) for picture in pictures)
    assert "Data: tables/" not in text
    assert text.count("Data: <a ") == len(TRAFFIC_FIGURES) + len(re.findall(r'<p class="note">[^\n]* Data: <a ', text))
