"""Tests figures that compare timing and packet order between runs: iat_delta, latency_delta and reordering_spacing."""

import re
from collections import Counter
from itertools import combinations, groupby
from operator import itemgetter

import pytest
from acapella_testing.frames.pcap_files import write_pcap
from acapella_testing.frames.trial_frames import BASE_NS, plain
from acapella_testing.generated.generated_trials import shapes, source_of
from acapella_testing.svg_text import with_spaces, words

from acapella.campaign import trial_tables
from acapella.common.wording import percent, span
from acapella.figures import compose, deltas, reordering_spacing
from acapella.figures.save import svg_of
from acapella.figures.source import Source
from acapella.kappa import result
from acapella_core.kappa import compare

CAMPAIGNS = {
    "one_pair": {"quiet": [{}]},
    "three_environments": shapes(4),
    "nothing_differs": {"quiet": [{"I": 0.0}] * 4},
    "many": {f"e{n}": [{"I": 0.02 * n + 0.001 * run} for run in range(8)] for n in range(4)},
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory) -> dict[str, Source]:
    """Return the tables of each kind of campaign."""
    return {name: source_of(tmp_path_factory.mktemp(name), shape) for name, shape in CAMPAIGNS.items()}


@pytest.mark.soak
@pytest.mark.parametrize(("name", "measure"), [("iat_delta", "iat"), ("latency_delta", "latency")])
def test_share_within_10_ns_equals_the_bins_of_the_shaded_part(name, measure, campaigns, drawn, text):
    deltas = campaigns["three_environments"].rows("consistency_deltas")
    for panel in drawn(name, "three_environments").spec["concat"][0]["vconcat"]:
        head, _, statement = panel["title"]["text"].partition(": ")
        environment, _, runs = head.partition(" (")
        assert runs == "4\N{NO-BREAK SPACE}runs)"
        rows = [row for row in deltas if (row["environment"], row["a"]) == (environment, 1)]
        inside, common = Counter(), {row["b"]: row["packets_common"] for row in rows}
        for row in (row for row in rows if row["measure"] == measure and abs(row["bin"]) <= 5):  # below 10 ns
            inside[row["b"]] += row["packets"]
        shares = [count / common[b] for b, count in inside.items()]
        within = f"{span(percent(min(shares)), percent(max(shares)))} of packets within \u00b110\N{NO-BREAK SPACE}ns"
        assert statement == within
        shaded = panel["layer"][0]["data"]["values"][0]
        assert (shaded["low"], shaded["high"]) == (-5.5, 5.5)
    assert "% of packets within \u00b110 ns" in text(name, "three_environments")


def test_smallest_bound_is_marked_if_the_config_does_not_have_10_ns(tmp_path):
    source = source_of(tmp_path, {"quiet": [{}]}, within_ns=(100, 1000))
    text = words(svg_of(compose.compose_figure("iat_delta", source)))
    assert "within \u00b1100 ns" in text
    assert "\u00b110 ns" not in text


def test_empty_bins_have_no_line():
    rows = [{"bin": n, "b": 2, "share": 0.1, "lo_ns": n, "hi_ns": n} for n in (-7, 0, 1, 2, 9)]
    points, low, high = deltas.histogram_outline(rows, 2, "tuesday", 0.01), 0.01, 10
    pieces = groupby(points, key=itemgetter("piece"))
    assert [[(point["bin"], point["share"]) for point in piece] for _, piece in pieces] == [
        [(-7.5, low), (-7.5, high), (-6.5, high), (-6.5, low)],
        [(-0.5, low), *[(n + side, high) for n in (0, 1, 2) for side in (-0.5, 0.5)], (2.5, low)],
        [(8.5, low), (8.5, high), (9.5, high), (9.5, low)],
    ]
    assert [point["order"] for point in points] == list(range(len(points)))


@pytest.mark.parametrize("name", ["iat_delta", "latency_delta"])
def test_delta_titles_name_the_runs_that_their_numbers_come_from(name, tmp_path):
    source = source_of(tmp_path, {f"e{n}": [{"I": 0.001 * (2 + n + 7 * run)} for run in range(3)] for n in range(5)})
    means = {row[f"{name}_mean_ns"]: row["trial_b"] for row in source.rows("consistency") if row["a"] == 1}
    title = compose.compose_figure(name, source).title
    assert re.findall(r"\(run (\S+)\)", title) == [means[min(means)], means[max(means)]]


@pytest.mark.parametrize(
    ("name", "campaign"), [("latency_delta", "three_environments"), ("iat_delta", "many"), ("iat_delta", "one_pair")]
)
def test_delta_axis_has_a_tick_at_each_decade_and_labels_that_fit(name, campaign, drawn, svg):
    x = drawn(name, campaign).spec["concat"][0]["vconcat"][-1]["layer"][-1]["encoding"]["x"]
    decades = range(1, int((x["scale"]["domain"][1] - 0.5) // 5) + 1)
    assert x["axis"]["values"] == [*(-5 * n - 0.5 for n in decades[::-1]), 0, *(5 * n + 0.5 for n in decades)]
    assert x["axis"]["tickCount"] >= len(x["axis"]["values"]), "Vega omits values beyond tickCount"
    labels = set(re.findall(r">(\u2212?(?:0|10+ (?:ns|\u00b5s|ms)|1 (?:\u00b5s|ms|s)))<", svg(name, campaign)))
    assert "0" in labels
    assert len(labels) >= 5, labels


def test_reordering_text_names_environments_without_reordering_and_the_largest_spacing(campaigns, text):
    shown = text("reordering_spacing", "three_environments")
    assert "no sampled pair is reversed in quiet and shared" in shown
    assert "spacing in the first trial" in shown
    rows = [row for row in campaigns["three_environments"].rows("consistency_spacing") if row["a"] == 1]
    farthest = max(row["hi_ns"] for row in rows if row["reversed_pairs"])
    bound = re.search("no sampled pair that is (.*?) ms or more apart is reversed", shown)[1]
    assert farthest < 1e6 * float(bound) < 1.01 * (farthest + 1)
    top = max((row for row in rows if row["pairs"] >= 100), key=lambda row: row["reversed_share"])
    counts = f"{percent(top['reversed_share'])} ({top['reversed_pairs']} of {top['pairs']:,} sampled pairs, "
    assert with_spaces(f"Largest share of reversed pairs at one spacing with at least 100 pairs: {counts}") in shown
    assert f" apart, run noisy-{top['b']})" in shown


def test_reordering_title_is_the_highest_solid_point_of_the_drawing(drawn):
    figure = drawn("reordering_spacing", "three_environments")
    points = figure.spec["data"]["values"]  # only one environment has reversed pairs
    top = max((point for point in points if not point["few"]), key=lambda point: point["share"])
    assert f" with at least 100 pairs: {percent(top['share'] / 100)} (" in figure.title
    assert figure.title.endswith(f", run {top['run']})")


@pytest.mark.parametrize(
    ("pairs", "expected"),  # reversed and all pairs of each spacing
    [
        ([(14, 71), (150, 1000)], " with at least 100 pairs: 15.0\xa0% (150 of "),
        ([(14, 71), (0, 1000)], ": 19.7\xa0% (14 of 71\xa0"),
        ([(150, 1000)], ": 15.0\xa0% (150 of "),
    ],
)
def test_reordering_title_ignores_spacings_with_few_pairs(pairs, expected):
    """A spacing with fewer than 100 pairs counts only if no other pair is reversed: its share may be due to chance."""
    row = {"environment": "e", "b": 2, "lo_ns": 100, "hi_ns": 157, "bin": 11}
    rows = [row | {"pairs": n, "reversed_pairs": part, "reversed_share": part / n} for part, n in pairs]
    title = reordering_spacing.title(rows, {("e", 2): "e-2"})
    assert title.startswith(f"Largest share of reversed pairs at one spacing{expected}")


def test_zero_reversed_pairs_are_a_result(drawn, text):
    figure = drawn("reordering_spacing", "nothing_differs")
    assert figure.title == "No sampled pair of packets arrived in the opposite order"
    assert not figure.empty
    assert "no data" not in text("reordering_spacing", "nothing_differs").lower()


def test_reordering_bound_applies_only_to_sampled_pairs(tmp_path):
    """Packet 103 overtakes 100 to 102, at one packet per ms. Compares all pairs with the note on sampled pairs."""
    orders = {"a": [*range(200)], "b": [*range(100), 103, *range(100, 103), *range(104, 200)]}
    traces = {name: [(BASE_NS + at * 10**6, plain(n)) for at, n in enumerate(order)] for name, order in orders.items()}
    files = [[write_pcap(tmp_path / f"{name}.pcap", trace)] for name, trace in traces.items()]
    (pair,) = compare(files, pairs=[(0, 1)])["pairs"]
    rows = trial_tables.spacing(None, {"spacing": result.spacing(pair["spacing"]), "n_common": pair["n_common"]})
    (text,) = reordering_spacing.notes_of(rows, {}, {}, gray=False)
    apart_ms = [y - x for x, y in combinations(range(200), 2) if orders["b"].index(y) < orders["b"].index(x)]
    sampled, bound = with_spaces(text).split("no sampled pair that is ")
    assert "1, 4, 16, ... or 4096 packets apart" in sampled
    assert max(n for n in apart_ms if n in (1, 4, 16, 64)) < float(bound.split(" ms ")[0]) < max(apart_ms) == 3


@pytest.mark.soak
def test_reordering_with_many_environments_has_small_panels_and_a_range(tmp_path):
    source = source_of(tmp_path, {f"e{n}": [{"moved": 100 * n}] for n in range(6)})
    figure = compose.compose_figure("reordering_spacing", source)
    assert len(figure.spec["concat"][0]["concat"]) == 5
    assert "no sampled pair is reversed in e0" in with_spaces(figure.description)
