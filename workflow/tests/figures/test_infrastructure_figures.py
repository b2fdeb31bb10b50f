"""Tests figures of the infrastructure study: required text, the paper's numbers, page size, overlaps, missing data."""

import re

import pytest
from acapella_testing.generated import infrastructure_inputs
from acapella_testing.svg_text import check_collisions, check_page, with_spaces

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.figures.registry import INFRASTRUCTURE_FIGURES, figure_module
from acapella.figures.source import Source

SHAPES = {
    "few": infrastructure_inputs.Shape(sites=3, slices=40, days=21, step_s=6 * 3600),
    "many": infrastructure_inputs.Shape(sites=30, ports=2, slices=400, days=250, step_s=86400),
}
TEXTS = {  # units, and the numbers of the paper
    "infrastructure_ports": ("switch ports", "uplinks", "downlinks", "all sites in the Patchwork paper (figure 2)"),
    "infrastructure_slice_sites": ("sites of a slice", "share of slices (%)", "66.5 %", "43.5 %, a misprint of 33.5 %"),
    "infrastructure_slice_durations": (
        *("duration of a slice", "24 h", "75 % in the Patchwork paper (figure 4)", "end of the lease"),
    ),
    "infrastructure_simultaneous": ("slices at the same time", "mean of a day", "85 in the", "52 in the", "272 in the"),
    "infrastructure_weeks": ("sum of rate samples (B/s)", "3.968 Tbps in the Patchwork paper", "without samples"),
    "infrastructure_utilization": ("utilization of a port (%)", "largest sample", "at most 38 %: 50 % in the"),
    "infrastructure_activity": ("mean rate of all ports (bit/s)", "prints no numbers"),
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory) -> dict[str, Source]:
    """Return the tables of studies of few and many sites, of two days, and without input."""
    found = {"empty": study(tmp_path_factory.mktemp("empty"), [])}
    for name, shape in {**SHAPES, "short": infrastructure_inputs.EXAMPLE}.items():
        directory = tmp_path_factory.mktemp(name)
        infrastructure_inputs.write_inputs(directory / "inputs", shape)
        found[name] = study(directory, infrastructure_inputs.options(directory / "inputs", shape))
    return found


def study(directory, options: list[str]) -> Source:
    assert cli.main(["campaign", "infrastructure", str(directory), *options]) == 0
    return Source(Campaign(directory))


def test_every_figure_is_tested():
    assert {*TEXTS} == {*INFRASTRUCTURE_FIGURES}


@pytest.mark.parametrize("campaign", SHAPES)
@pytest.mark.parametrize("name", TEXTS)
def test_figure_states_units_the_number_of_the_paper_and_data(name, campaign, svg, text):
    parts = (*TEXTS[name], f"Data: tables/{figure_module(name).TABLE}.csv")
    assert [part for part in parts if with_spaces(part) not in text(name, campaign)] == []
    check_page(svg(name, campaign))


@pytest.mark.parametrize("name", TEXTS)
def test_study_without_input_states_which_is_missing(name, text):
    assert f"{figure_module(name).SUBJECT}: no data" in text(name, "empty")
    assert "(infrastructure." in text(name, "empty")


@pytest.mark.parametrize("campaign", SHAPES)
def test_text_does_not_overlap_and_is_inside_the_figure(campaign, svg, browser):
    check_collisions(browser, {name: svg(name, campaign) for name in TEXTS})


def test_subtitle_has_the_number_of_the_campaign(campaigns, notes):
    (row,) = campaigns["few"].rows("infrastructure_summary")
    assert f"{100 * row['single_site_share']:.1f} % here" in notes("infrastructure_slice_sites", "few")


def test_axes_of_a_study_of_two_days_have_each_label_once(text):
    dates = text("infrastructure_simultaneous", "short")
    assert [dates.count(f"2024-02-{day}") for day in (19, 20, 21)] == [1, 1, 1]


@pytest.mark.parametrize("name", ["infrastructure_activity", "infrastructure_weeks"])
def test_label_of_0_has_no_prefix(name, text):
    assert not re.search(r"\b0[kMGT]\b", text(name, "short"))


def test_utilization_names_the_threshold_of_the_line_rate(notes):
    assert "a sample of at least infrastructure.line_rate_share" in notes("infrastructure_utilization", "few")


def test_title_states_that_downlinks_are_not_known():
    row = {"site": "A", "uplinks": 2, "downlinks": None, "downlinks_from": "unknown"}
    module = figure_module("infrastructure_ports")
    assert with_spaces(module.title([row])) == "Uplinks of 1 site; downlinks are unknown"
    assert module.notes([row]) == ("Downlinks of 1\N{NO-BREAK SPACE}site are unknown.",)
    known = module.title([row, row | {"downlinks": 6}])
    assert with_spaces(known) == "1 of 1 site has more downlinks than uplinks; 3 downlinks per uplink"


def test_report_has_the_figures_with_data_and_the_busiest_ports(campaigns):
    directory = campaigns["few"].campaign.directory
    assert cli.main(["campaign", "report", str(directory), "--no-samples", "--infrastructure"]) == 0
    page = (directory / "report.html").read_text()
    assert '<section id="infrastructure">' in page
    assert [name for name in TEXTS if f'id="{name}"' not in page] == []
    assert "Ports with the largest" in page
    assert "Infrastructure of a testbed, summarized by Acapella." in page
