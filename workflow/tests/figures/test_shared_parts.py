"""Tests that charts composed with shared parts equal those that Altair composes with copies."""

import contextlib
import json

import altair as alt
import pytest
from acapella_testing.generated.generated_tables import write_tables
from acapella_testing.generated.generated_trials import shapes, source_of

from acapella.campaign.layout import Campaign
from acapella.figures import compose
from acapella.figures.registry import TRAFFIC_FIGURES, TRIAL_FIGURES
from acapella.figures.shared_parts import shared_parts
from acapella.figures.source import Source


def specifications(sources: dict[str, Source]) -> dict[str, str]:
    """Return the specification of each figure as JSON."""
    return {name: json.dumps(compose.compose_figure(name, source).spec) for name, source in sources.items()}


@pytest.mark.soak
def test_figures_equal_those_with_copied_parts(tmp_path, monkeypatch):
    traffic = Source(Campaign(write_tables(tmp_path / "traffic", names=["a", "<b>"], ports=2, samples=2)))
    trials = source_of(tmp_path / "trials", shapes(4), all_pairs=True)
    sources = dict.fromkeys(TRAFFIC_FIGURES, traffic) | dict.fromkeys(TRIAL_FIGURES, trials)
    shared = specifications(sources)
    monkeypatch.setattr(compose, "shared_parts", contextlib.nullcontext)
    assert shared == specifications(sources)


def test_parts_of_charts_are_shared():
    layers = [alt.Chart(alt.Data(values=[])).mark_point() for _ in range(2)]
    with shared_parts():
        assert alt.layer(*layers).layer[0] is layers[0]
    assert alt.layer(*layers).layer[0] is not layers[0]


@pytest.mark.filterwarnings("ignore:Automatically deduplicated")
@pytest.mark.parametrize("compose_charts", [alt.layer, alt.concat, alt.hconcat, alt.vconcat])
def test_charts_with_parameters_or_names_are_composed_as_by_altair(compose_charts):
    def composed() -> dict:
        point = alt.Chart(alt.Data(values=[])).mark_point().encode(x="a:Q")
        brush = point.add_params(alt.selection_interval(name="brush"))
        return compose_charts(brush, brush, point.properties(name="named"), alt.layer(point, brush)).to_dict()

    with shared_parts():
        shared = composed()
    assert shared == composed()
