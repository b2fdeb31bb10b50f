"""The report's section on trials."""

import re
import shutil

import pytest
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.generated_trials import PACKETS, outlier_baseline, shapes, source_of, write_replays
from acapella_testing.runs.browser_pages import opened_page
from acapella_testing.svg_text import with_spaces

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.figures.registry import TRAFFIC_FIGURES, TRIAL_FIGURES
from acapella.figures.source import Source
from acapella.report import trials


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return the directory of a campaign whose report covers trials in three environments."""
    directory = source_of(tmp_path_factory.mktemp("report") / "compared", shapes(2)).campaign.directory
    assert cli.main(["campaign", "conformance", "-o", str(directory / "tables")]) == 0
    assert cli.main(["campaign", "report", str(directory), "--trials", "--papers"]) == 0
    return directory


@pytest.mark.soak
def test_note_reports_whether_the_baseline_is_an_outlier_or_that_this_is_unknown(tmp_path, compared):
    note = trials.environments_table(Source(Campaign(compared)))["note"]
    assert "In quiet, noisy and shared, every run is compared only with the first trial, so it is not known" in note
    assert "The first trial of" not in note
    runs = [{"I": 0.3, "warnings": [outlier_baseline("quiet-1")]}] * 2
    table = trials.environments_table(source_of(tmp_path, {"quiet": runs, "loaded": [{}] * 2}, all_pairs=True))
    assert "The first trial of quiet is an outlier" in table["note"]
    assert "it is not known" not in table["note"]
    column = [heading for heading, _ in table["columns"]].index("Others")
    assert [row[column] for row in table["rows"]] == ["0.8500", "0.9850"]


def test_warning_shared_by_several_trials_is_shown_once_with_their_count(tmp_path):
    text = "the clock of trial quiet-{0} is coarse: {0}0 packets."
    coarse = {"code": "coarse_clock", "components": ["O", "L", "I"]}
    two, three, ten = ({"warnings": [coarse | {"text": text.format(trial)}]} for trial in (2, 3, 10))
    assert trials.warnings(source_of(tmp_path, {"quiet": [two, three, ten, {}], "loaded": [two] * 2})) == [
        "quiet, 3 of 5 trials (O, L and I): the clock of trial quiet-2 is coarse: 20 packets. Similarly for the "
        "others; consistency_warnings.csv contains the numbers of each.",
        "loaded, runs B and C (O, L and I): the clock of trial quiet-2 is coarse: 20 packets.",
    ]


def test_packets_in_only_one_trial_are_reported(tmp_path):
    source = source_of(tmp_path, {"quiet": [{"common": PACKETS - 75}, {}], "loaded": [{}]})
    assert [with_spaces(text) for text in trials.warnings(source)] == [
        "quiet, 1 of 2 pairs (U): a trial has up to 75 packets that the other lacks. They were lost (possibly before "
        "the mirror, where losses are not counted), or do not belong to the trial."
    ]


def test_section_on_trials_compares_environments_and_draws_its_figures(compared, browser):
    figures = len(TRAFFIC_FIGURES) + len(TRIAL_FIGURES)
    with opened_page(browser, compared / "report.html") as (page, messages):
        page.wait_for_function("n => document.querySelectorAll('figure.drawn').length === n", arg=figures)
        rows = page.locator("[aria-labelledby='table-consistency_environments'] tbody tr").all_inner_texts()
        assert [row.split("\t")[0] for row in rows] == ["quiet", "noisy", "shared"]
        assert "0.9848" in rows[0]
        first, *others = page.locator("#consistency .warnings li").all_inner_texts()
        assert with_spaces(first).startswith("noisy, 2 of 2 pairs (U): a trial has up to 400 packets that the other")
        assert others == ["noisy, runs B and C (O, L and I): the clock of trial noisy-1 is coarse."]
        for name in TRIAL_FIGURES:
            assert page.locator(f'#consistency [data-name="{name}"] svg .role-mark').count() > 0, name
        assert page.locator("#table-kappa_published").count() == 1
        assert "Trials. Inputs" in page.locator("#provenance").inner_text()
    assert messages == []


@pytest.mark.soak
@pytest.mark.usefixtures("one_figure")
def test_numbers_of_papers_are_shown_on_request_only(compared, tmp_path):
    assert 'id="table-kappa_published"' in (compared / "report.html").read_text(encoding="utf-8")
    directory = shutil.copytree(compared, tmp_path / "copy", ignore=shutil.ignore_patterns("kappa_published.*"))
    assert cli.main(["campaign", "report", str(directory), "--trials"]) == 0
    page = (directory / "report.html").read_text()
    assert "kappa_published" not in re.sub("<style>.*?</style>", "", page, flags=re.S)


def test_undefined_components_are_not_shown_as_zero(tmp_path):
    table = trials.environments_table(source_of(tmp_path, {"quiet": [{"common": 0}]}))
    row = dict(zip((heading for heading, _ in table["columns"]), table["rows"][0], strict=True))
    assert (row["U"], row["O"], row["I"], row["L"], row["Kappa"]) == ("1", *["undefined"] * 3, "0")
    assert "1\N{NO-BREAK SPACE}run with undefined components" in table["note"]


@pytest.mark.soak
@pytest.mark.usefixtures("one_figure")
@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("tables/kappa_published.csv", "conformance -o"),
        ("tables/consistency_moves.csv", "trials"),
        ("tables/consistency_moves.parquet", "trials"),
        ("provenance/consistency.json", "trials"),
    ],
)
def test_missing_file_of_trials_error_names_the_stage_to_run(compared, tmp_path, capsys, name, stage):
    directory = shutil.copytree(compared, tmp_path / "copy")
    (directory / name).unlink()
    error = failed(capsys, "campaign", "report", directory, "--trials", "--papers")
    assert f"{name}: no such file; run: acapella campaign {stage} " in error


@pytest.mark.parametrize(("counted", "expected"), [((7, 2), ["9 of 100", "7", "2"]), ((None, None), ["", "", ""])])
def test_replays_list_the_reversed_pairs_that_departed_in_order(tmp_path, counted, expected):
    write_replays(tmp_path, {"quiet-1": {"replayers": 2}})
    source, (in_order, unexplained) = source_of(tmp_path, {"quiet": [{}]}), counted
    (row,) = source.rows("consistency_replays")
    row |= {"replayer_pairs": 100, "reversed_pairs": None if in_order is None else 9}
    row |= {"sent_in_order_pairs": in_order, "unexplained_pairs": unexplained}
    source.rows = lambda name, rows=source.rows: [row] if name == "consistency_replays" else rows(name)
    (cells,) = trials.replays_table(source)["rows"]
    assert cells[-3:] == expected
