"""Tests the figures of distinct headers and deepest stacks (bars for few sites, points for many) and header shares."""

from collections.abc import Iterable

import pytest
from acapella_testing.generated.generated_tables import source_of_rows, source_with
from acapella_testing.svg_text import with_spaces

from acapella.figures import compose, encapsulations, header_depth, header_occurrence, theme
from acapella.figures.source import Source
from acapella.figures.theme import text_width


def drawn_panels(source: Source) -> list[dict]:
    """Return the two panels."""
    chart = compose.compose_figure("header_depth", source).spec["concat"][0]
    return chart.get("vconcat") or chart["hconcat"]


@pytest.mark.soak
@pytest.mark.parametrize("sites", [header_depth.MAX_BARS + 1, 30])
def test_many_sites_have_two_panels_in_the_same_order(sites, tmp_path):
    source = source_with(tmp_path, sites=sites)
    panels = drawn_panels(source)
    first, second = ([panel["layer"][0]["encoding"][axis] for panel in panels] for axis in "xy")
    order = first[0]["sort"]
    assert order == first[1]["sort"]
    rows = {row["site"]: row for row in source.rows("header_depth")}
    assert set(order) == set(rows) - {"all"}
    counts = [rows[site]["distinct_headers"] for site in order]
    assert counts == sorted(counts, reverse=True)
    assert [axis["title"] for axis in second] == ["distinct headers (labels)", "deepest stack (headers)"]
    assert [axis["scale"]["domain"] for axis in second] == ends_of_data(rows[site] for site in order)
    assert panels[0]["height"] == panels[1]["height"]
    all_sites = rows["all"]
    sentence = (
        f"All sites: {all_sites['distinct_headers']} distinct headers, deepest stack {all_sites['deepest_stack']}."
    )
    assert sentence in compose.compose_figure("header_depth", source).description


def test_few_sites_have_bars(tmp_path):
    source = source_with(tmp_path, sites=header_depth.MAX_BARS)
    assert "hconcat" in compose.compose_figure("header_depth", source).spec["concat"][0]
    first, second = drawn_panels(source)
    scales = [panel["layer"][0]["encoding"]["x"]["scale"] for panel in (first, second)]
    assert [scale["domain"] for scale in scales] == ends_of_data(source.rows("header_depth"))
    assert first["width"] == second["width"]


def ends_of_data(drawn: Iterable[dict]) -> list[list[int]]:
    """Return the domains of the panels: each axis ends at the largest number in its panel."""
    rows = list(drawn)
    return [[0, max(row[column] for row in rows)] for column, *_ in header_depth.PANELS]


def test_payload_is_not_a_header_of_a_stack(tmp_path):
    source = source_with(tmp_path, sites=1)
    rows = {row["site"]: row for row in source.rows("header_depth")}
    headers = {row["header"] for row in source.rows("header_occurrence") if row["site"] == "all"}
    assert "Data" in headers
    assert rows["all"]["distinct_headers"] == len(headers) - 1
    assert header_depth.PAYLOAD in compose.compose_figure("header_depth", source).description


@pytest.mark.parametrize(("rank", "share"), [(header_occurrence.MAX_HEADERS, 0.02), (3, 0.001)])
def test_title_names_only_headers_with_a_visible_bar(rank, share, tmp_path):
    """IPv6 comes after the headers that are drawn, or has a bar of less than one pixel."""
    source = source_with(tmp_path, sites=1)
    (row,) = [row for row in source.rows("header_occurrence") if (row["site"], row["header"]) == ("all", "TCP")]
    shares = {"TCP": 0.9, **{f"header {n}": max(share, 0.5 - 0.01 * n) for n in range(1, rank)}, "IPv6": share}
    source.required_rows = lambda _: [{**row, "header": name, "frame_share": each} for name, each in shares.items()]
    figure = compose.compose_figure("header_occurrence", source)
    assert figure.title.startswith("Of all frames: TCP in 90.0")
    assert "IPv6" not in figure.title


def test_header_shares_state_labels_of_other_frames_and_the_base_of_heuristic_shares(tmp_path):
    header = {"site": "all", "header": "TLS", "frames": 100, "occurrences": 100, "frame_share": 0.5, "samples": 1}
    notes = {}
    for part in (0, 1):
        quality = [{"site": "S0", "sample": "a", "frames": 200, "app_flow_frames": 50 * part}]
        rows = [header | {"guessed_frames": part, "occurrence_share": 0.5}]
        source = source_of_rows(tmp_path / str(part), capture_quality=quality, header_occurrence=rows)
        notes[part] = with_spaces(" ".join(compose.compose_figure("header_occurrence", source).notes))
    expected = ("In 50 of 200 frames (25.0 %), the protocols above layer 4", "of the frames with the header, not")
    assert [[text in notes[part] for text in expected] for part in (0, 1)] == [[False] * 2, [True] * 2]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("name", "column", "share", "max_shown"),
    [
        ("header_occurrence", "header", "frame_share", header_occurrence.MAX_HEADERS),
        ("encapsulations", "encapsulation", "share", encapsulations.MAX_ENCAPSULATIONS),
    ],
)
def test_site_without_a_header_or_an_encapsulation_has_a_dot_at_0(name, column, share, max_shown, tmp_path):
    source = source_with(tmp_path, sites=30)
    rows = [row for row in source.rows(name) if row["site"] == "all" or row["site"][-1] != "3" or row[share] > 0.2]
    source.required_rows = lambda _: rows
    shares = {(row["site"], row[column]): 100 * row[share] for row in rows}
    sites = {row["site"] for row in rows} - {"all"}
    all_sites = sorted((row for row in rows if row["site"] == "all"), key=lambda row: -row[share])
    drawn = {row[column].replace("none", encapsulations.NONE): row[column] for row in all_sites[:max_shown]}
    assert any((site, value) not in shares for site in sites for value in drawn.values()), "every site has all"
    layers = compose.compose_figure(name, source).spec["concat"][0]["layer"]
    dots = [dot for layer in layers if layer["mark"]["type"] == "circle" for dot in layer["data"]["values"]]
    assert {(dot["site"], drawn[dot[column]]): dot["share"] for dot in dots} == {
        (site, value): shares.get((site, value), 0) for site in sites for value in drawn.values()
    }
    assert len(dots) == len(sites) * len(drawn)


def test_labels_of_encapsulations_end_at_100_percent():
    name = "/".join(["Ethernet", "VLAN", "MPLS", "GTP-U", "IPv4", "UDP"] * 6)
    label = encapsulations.shorten_to_bars(name)
    assert text_width([label], theme.SMALL) <= encapsulations.BARS < text_width([name], theme.SMALL)
    assert label.startswith("Ethernet/VLAN")
    assert label.endswith("IPv4/UDP")
    assert encapsulations.shorten_to_bars("Ethernet/VLAN") == "Ethernet/VLAN"
