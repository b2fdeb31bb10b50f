"""Figure of distinct headers and deepest stacks: bars for a few sites, curves for many."""

import pytest
from made_tables import write_tables

from acapella.campaign import Campaign
from acapella.figures import compose, encapsulations, header_depth, header_occurrence, theme
from acapella.figures.source import Source
from acapella.figures.theme import text_width


def drawn_layers(source: Source) -> list[dict]:
    """The layers of the curves."""
    return compose.drawn("header_depth", source).spec["concat"][0]["layer"]


@pytest.mark.parametrize("sites", [header_depth.FEW + 1, 30])
def test_many_sites_have_two_curves_in_the_same_order_with_an_axis_each(sites, tmp_path):
    source = Source(Campaign(write_tables(tmp_path / "made", sites=sites)))
    layers = drawn_layers(source)
    assert [layer["layer"][0]["mark"]["type"] for layer in layers] == ["line", "line"]
    orders = [layer["layer"][0]["encoding"]["x"]["sort"] for layer in layers]
    assert orders[0] == orders[1]
    rows = {row["site"]: row for row in source.rows("header_depth")}
    assert set(orders[0]) == set(rows) - {"all"}
    counts = [rows[site]["distinct_headers"] for site in orders[0]]
    assert counts == sorted(counts, reverse=True)
    axes = [layer["layer"][0]["encoding"]["y"]["axis"] for layer in layers]
    assert [(axis["orient"], axis["title"]) for axis in axes] == [
        ("left", "distinct headers (labels)"),
        ("right", "deepest stack (headers)"),
    ]
    whole = rows["all"]
    said = f"All sites: {whole['distinct_headers']} distinct headers, deepest stack {whole['deepest_stack']}."
    assert said in compose.drawn("header_depth", source).description


def test_few_sites_have_bars(tmp_path):
    source = Source(Campaign(write_tables(tmp_path / "made", sites=header_depth.FEW)))
    assert "hconcat" in compose.drawn("header_depth", source).spec["concat"][0]


@pytest.mark.parametrize(
    ("name", "column", "share", "most"),
    [
        ("header_occurrence", "header", "frame_share", header_occurrence.MOST),
        ("encapsulations", "encapsulation", "share", encapsulations.MOST),
    ],
)
def test_site_without_a_header_or_an_encapsulation_has_a_dot_at_0(name, column, share, most, tmp_path):
    source = Source(Campaign(write_tables(tmp_path / "made", sites=30)))
    rows = [row for row in source.rows(name) if row["site"] == "all" or row["site"][-1] != "3" or row[share] > 0.2]
    source.wanted = lambda _: rows
    shares = {(row["site"], row[column]): 100 * row[share] for row in rows}
    sites = {row["site"] for row in rows} - {"all"}
    whole = sorted((row for row in rows if row["site"] == "all"), key=lambda row: -row[share])
    drawn = {row[column].replace("none", encapsulations.NONE): row[column] for row in whole[:most]}
    assert any((site, value) not in shares for site in sites for value in drawn.values()), "made sites have all"
    layers = compose.drawn(name, source).spec["concat"][0]["layer"]
    dots = [dot for layer in layers if layer["mark"]["type"] == "circle" for dot in layer["data"]["values"]]
    assert {(dot["site"], drawn[dot[column]]): dot["share"] for dot in dots} == {
        (site, value): shares.get((site, value), 0) for site in sites for value in drawn.values()
    }
    assert len(dots) == len(sites) * len(drawn)


def test_labels_of_encapsulations_end_at_100_percent():
    name = "/".join(["Ethernet", "VLAN", "MPLS", "GTP-U", "IPv4", "UDP"] * 6)
    label = encapsulations.fitted(name)
    assert text_width([label], theme.SMALL) <= encapsulations.BARS < text_width([name], theme.SMALL)
    assert label.startswith("Ethernet/VLAN") and label.endswith("IPv4/UDP")
    assert encapsulations.fitted("Ethernet/VLAN") == "Ethernet/VLAN"
