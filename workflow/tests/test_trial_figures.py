"""Figures of trials: what each must say, for one pair and many, with no difference, and with nothing in common."""

import xml.etree.ElementTree as ET

import pytest
from made_trials import odd_baseline, shapes, write_campaign
from svg_text import COLLISIONS, words

from acapella import cli
from acapella.campaign import Campaign
from acapella.figures import compose, kappa_components, kappa_matrix
from acapella.figures.kappa_components import number
from acapella.figures.registry import TRIALS, module
from acapella.figures.save import svg_of
from acapella.figures.source import Source
from acapella.figures.theme import FONT, WIDTH

SAME = {"L": 0.0, "I": 0.0, "jitter_ns": 0}
LONG = "an-environment-whose-name-is-longer-than-any-label"
CAMPAIGNS = {
    "one_pair": ({"quiet": [{}]}, {}),
    "three_environments": (shapes(4), {"all_pairs": True}),
    "nothing_differs": ({"quiet": [SAME] * 4, "loaded": [SAME] * 4}, {}),
    "nothing_in_common": ({"quiet": [{"common": 0}], "loaded": [{"I": 0.2}, {"common": 0}]}, {}),
    "many": ({f"{LONG}-{n}": [{"I": 0.02 * n + 0.001 * run} for run in range(8)] for n in range(4)}, {}),
}
UNITS = {
    "kappa_components": ("1 - kappa", "I: inter-arrival time"),
    "kappa_timeline": ("time since the first packet (ms)", "kappa"),
    "kappa_matrix": ("kappa", "A is the first trial of its environment"),
    "iat_delta": (
        "Mean absolute difference of inter-arrival time",
        "difference of inter-arrival time",
        "packets (%)",
        "0 ns",
    ),
    "latency_delta": ("Mean absolute difference of latency", "difference of latency", "packets (%)"),
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory) -> dict[str, Source]:
    """Tables of each kind of campaign."""
    made = {}
    for name, (environments, options) in CAMPAIGNS.items():
        folder = write_campaign(tmp_path_factory.mktemp(name), environments, **options)
        assert cli.main(["trials", str(folder), "--environments", *environments]) == 0
        made[name] = Source(Campaign(folder))
    return made


@pytest.fixture(scope="module")
def figures(campaigns):
    """A figure of a campaign and its SVG, drawn once."""
    cache = {}

    def of(name: str, campaign: str):
        if (name, campaign) not in cache:
            figure = compose.drawn(name, campaigns[campaign])
            cache[name, campaign] = figure, svg_of(figure)
        return cache[name, campaign]

    return of


@pytest.fixture(scope="module")
def svg(figures):
    """The SVG of a figure of a campaign."""
    return lambda name, campaign: figures(name, campaign)[1]


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("name", TRIALS)
def test_a_figure_of_trials_says_what_it_shows_of_how_much_and_what_was_lost(name, campaign, campaigns, figures):
    figure, drawn = figures(name, campaign)
    text = words(drawn)
    assert not figure.empty
    assert figure.title.replace("\N{NO-BREAK SPACE}", " ")[:40] in text
    runs = sum(len(runs) for runs in CAMPAIGNS[campaign][0].values())
    if name == "kappa_matrix":
        assert f"{len(campaigns[campaign].rows('consistency'))} pair" in text and "against the first trial" not in text
    else:
        assert f"{runs} run{'s' * (runs > 1)} against the first trial (A)" in text
    assert "losses: none seen" in text
    for unit in UNITS[name]:
        assert unit in text
    assert f"Data: tables/{module(name).TABLE}.csv" in text
    assert "NaN" not in text and "undefined (" not in text


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("name", TRIALS)
def test_a_figure_of_trials_fits_a_page_in_one_font(name, campaign, svg):
    root = ET.fromstring(svg(name, campaign))
    assert 0.8 * WIDTH < float(root.get("width")) < 1.06 * WIDTH
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    assert {element.get("font-family") for element in texts} == {FONT}
    assert min(float(element.get("font-size").removesuffix("px")) for element in texts) >= 9


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_no_text_of_trials_covers_another_or_leaves_the_figure(campaign, svg, browser):
    page = browser.new_page()
    for name in TRIALS:
        page.set_content(svg(name, campaign))
        assert page.evaluate(COLLISIONS) == [], name
    page.close()


def test_where_no_packet_is_in_common_it_says_so(campaigns, svg):
    text = words(svg("kappa_components", "nothing_in_common"))
    assert text.count("0: no packet in common") == 2
    assert "Mean kappa: 0 (quiet), 0.4500 (loaded)" in text
    assert "Without a packet in common: quiet B, loaded C." in words(svg("iat_delta", "nothing_in_common"))


def test_without_any_packet_in_common_histograms_say_why(tmp_path):
    folder = write_campaign(tmp_path, {"quiet": [{"common": 0}]})
    assert cli.main(["trials", str(folder), "--environments", "quiet"]) == 0
    figure = compose.drawn("iat_delta", Source(Campaign(folder)))
    assert figure.empty
    assert "no run has a packet in common with its first trial" in words(svg_of(figure))


def test_the_matrix_says_which_first_trial_is_the_odd_one_and_where_nobody_can_tell(tmp_path, svg):
    assert "whether A is the odd one does not show" in words(svg("kappa_matrix", "nothing_differs"))
    assert "odd one" not in words(svg("kappa_matrix", "one_pair"))
    runs = [{"I": 0.3, "warnings": [odd_baseline("quiet-1")]}] * 3
    folder = write_campaign(tmp_path, {"quiet": runs, "loaded": [{}] * 3}, all_pairs=True)
    assert cli.main(["trials", str(folder), "--environments", "quiet", "loaded"]) == 0
    text = words(svg_of(compose.drawn("kappa_matrix", Source(Campaign(folder)))))
    assert "in quiet the first trial is the odd one" in text
    assert "quiet: A is odd" in text and "loaded: A is odd" not in text
    assert "does not show" not in text


def test_environments_keep_the_order_of_the_config(svg):
    text = words(svg("kappa_components", "three_environments"))
    assert text.index("quiet B") < text.index("noisy B") < text.index("shared B")


def test_the_matrix_counts_all_pairs_and_the_others_the_runs(campaigns):
    source = campaigns["three_environments"]
    rows = source.rows("consistency")
    first = sum(row["a"] == 1 for row in rows)
    assert len(rows) > first
    scopes = (" ".join(figure.SCOPE(source)) for figure in (kappa_matrix, kappa_components))
    matrix, bars = (text.replace("\N{NO-BREAK SPACE}", " ") for text in scopes)
    common = sum(row["packets_common"] for row in rows)
    assert f"; {len(rows)} pairs {common:,} packets in common" in matrix
    assert f"; {first} runs against the first trial (A) " in bars


def test_a_run_that_is_nearly_the_same_is_not_called_the_same():
    assert [number(kappa) for kappa in (1, 1 - 1.5e-6, 0.9853, 0)] == ["1", "1 - 1.5e-06", "0.9853", "0"]


def test_pieces_of_a_bar_add_up_to_what_kappa_lacks(campaigns, figures):
    spec = figures("kappa_components", "three_environments")[0].spec
    bars = spec["concat"][0]["hconcat"][0]["layer"][0]["data"]["values"]
    rows = [row for row in campaigns["three_environments"].rows("consistency") if row["a"] == 1]
    ends = sorted(max(bar["to"] for bar in bars if bar["run"] == row["trial_b"]) for row in rows)
    assert ends == pytest.approx(sorted(1 - row["kappa"] for row in rows))


def test_components_too_small_for_a_piece_are_bars_of_their_own_with_their_value(campaigns, figures, svg):
    text = words(svg("kappa_components", "three_environments"))
    for value in ("3e-06", "0.014", "0.005", "0.12"):  # L of quiet, O, L and I of noisy
        assert value in text
    panels = figures("kappa_components", "three_environments")[0].spec["concat"][0]["hconcat"]
    rows = [row for row in campaigns["three_environments"].rows("consistency") if row["a"] == 1]
    for panel, name in zip(panels[1:], "UOLI", strict=True):
        bars = panel["layer"][0]["encoding"]["x"]
        assert bars["field"] == name and bars["scale"]["domain"] == [0, max(row[name] for row in rows)]


def test_figures_of_trials_are_drawn_where_they_are_asked_for(campaigns):
    folder = campaigns["one_pair"].campaign.folder
    assert cli.main(["figures", str(folder), "--only", "kappa_matrix", "--formats", "svg"]) == 0
    assert [path.name for path in (folder / "figures").iterdir()] == ["kappa_matrix.svg"]


def test_without_the_tables_of_trials_the_stage_is_named(tmp_path, capsys):
    folder = write_campaign(tmp_path, {"quiet": [{}]})
    assert cli.main(["figures", str(folder), "--only", "kappa_matrix"]) == 2
    error = capsys.readouterr().err
    assert f"consistency_environments.csv: no such file; run: acapella trials {tmp_path} --environments ..." in error
    assert error.count("\n") == 1
