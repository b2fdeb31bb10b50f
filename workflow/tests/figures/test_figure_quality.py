"""Tests figure capture_quality and losses in subtitles: marks, counts of unknown losses, and titles."""

import re
from collections import Counter
from itertools import pairwise

import pytest
from acapella_testing.generated.generated_tables import source_of_rows, source_with, write_tables
from acapella_testing.svg_text import with_spaces, words

from acapella.campaign.layout import Campaign
from acapella.figures import capture_quality, compose, theme
from acapella.figures.quality import loss_summary
from acapella.figures.save import svg_of
from acapella.figures.source import Source

COUNTED = {"dropped_kernel": 0, "lost_frames": 0, "loss_share": 0, "loss_stages_known": 4}

# the file was read to its end; losses at the other stages are unknown
UNCOUNTED = {"lost_frames": None, "loss_share": None, "loss_stages_known": 1}
CAMPAIGNS = {
    "one_site": {"sites": 1},
    "thirty_sites": {"sites": 30, "ports": 1, "frames": 100},
    "three_ports": {"sites": 30, "ports": 3, "samples": 2, "frames": 100},
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory) -> dict[str, Source]:
    """Return the tables of campaigns with few and many sites."""
    directory = tmp_path_factory.mktemp("campaigns")
    return {name: Source(Campaign(write_tables(directory / name, **shape))) for name, shape in CAMPAIGNS.items()}


def quality_marks(figure: compose.ComposedFigure, place: int) -> list[dict]:
    """Return the marks of a panel of capture_quality."""
    panels = [panel for panel in figure.spec["concat"][0]["hconcat"] if "layer" in panel]
    data = (panels[place] if "data" in panels[place] else panels[place]["layer"][0])["data"]
    return data["values"] if "values" in data else figure.spec["datasets"][data["name"]]


@pytest.mark.parametrize("campaign", ["one_site", "three_ports", "thirty_sites"])
def test_marks_of_capture_quality_do_not_overlap_and_count_their_samples(campaign, campaigns, drawn):
    source, figure = campaigns[campaign], drawn("capture_quality", campaign)
    for place, (column, _) in enumerate(capture_quality.PANELS):
        known = Counter(row["site"] for row in source.quality if capture_quality.share(row, column) is not None)
        marks = quality_marks(figure, place)
        for site in source.sites:
            own = sorted((mark for mark in marks if mark["site"] == site), key=lambda mark: mark["x"])
            assert sum(mark["samples"] for mark in own) == known[site]
            assert all(mark["number"] == str(mark["samples"]) for mark in own)
            sizes = [capture_quality.DOT if mark["samples"] == 1 else capture_quality.MARK for mark in own]
            rooms = [(one + other) / 2 for one, other in pairwise(sizes)]
            assert all(b["x"] - a["x"] >= room - 0.02 for (a, b), room in zip(pairwise(own), rooms, strict=True))


def test_zero_loss_and_small_loss_have_separate_marks(tmp_path):
    counted = COUNTED | {"frames": 10**7}
    source = quality_of(tmp_path, [counted, counted, counted | {"lost_frames": 5, "loss_share": 5e-7}])
    figure = compose.compose_figure("capture_quality", source)
    found = sorted((mark["samples"], with_spaces(mark["text"])) for mark in quality_marks(figure, 0))
    assert found == [(1, "< 0.0001 %"), (2, "0 %")]


def quality_of(directory, samples):
    """Return the tables of samples of a site that have these columns in capture_quality."""
    rows = [{"site": "S0", "sample": f"s{n}", "frames": 99, **columns} for n, columns in enumerate(samples)]
    return source_of_rows(directory, capture_quality=rows)


def test_panel_without_a_known_value_is_omitted_and_named(tmp_path):
    source = quality_of(tmp_path, [UNCOUNTED | {"equal_stamps_share": 0.5, "port_coverage_share": 1}])
    figure = compose.compose_figure("capture_quality", source)
    assert [place for place in range(3) if len(quality_marks(figure, place)) != 1] == []
    assert "Unknown for every sample, and not drawn: frames lost." in figure.description
    assert words(svg_of(figure)).count("S0") == 1


def test_unknown_loss_is_never_drawn_as_zero(campaigns, drawn):
    source = campaigns["thirty_sites"]
    marks = quality_marks(drawn("capture_quality", "thirty_sites"), 0)
    known = [row for row in source.quality if row["lost_frames"] is not None]
    assert len(known) < len(source.quality)
    for site in source.sites:
        zero = sum(row["samples"] for row in marks if row["site"] == site and row["x"] == 0)
        assert zero == sum(row["loss_share"] == 0 for row in known if row["site"] == site)
    assert sum(row["samples"] for row in marks) == len(known)


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ({"dropped_kernel": 0, "lost_frames": 0, "loss_stages_known": 4}, "losses: none seen"),
        (
            {"dropped_kernel": 0, "lost_frames": 0, "loss_stages_known": 2},
            "losses: none counted; partly counted in 1 of 1",
        ),
        ({"lost_frames": None, "loss_stages_known": 1}, "losses: unknown (no sample has a counter"),
        ({"loss_stages_known": 0}, "losses: unknown (no sample has a counter"),
        ({"lost_frames": 1, "loss_share": 0.01, "loss_stages_known": 1}, "losses: at least 1.00 % of offered frames"),
        (
            {"lost_frames": 6136, "loss_share": 0.75, "mirror_offered": 8188, "loss_stages_known": 4},
            "losses: 75.0 % of offered frames",
        ),
        ({"lost_frames": 1, "loss_share": 0.01, "loss_stages_known": 4}, "losses: 1.00 % of offered frames"),
    ],
)
def test_complete_file_does_not_prove_that_nothing_was_lost(counters, expected, tmp_path):
    assert with_spaces(loss_summary(quality_of(tmp_path, [counters]).quality)).startswith(expected)


@pytest.mark.parametrize(
    ("samples", "expected", "columns"),
    [
        ([COUNTED] * 3, "No loss seen in 3 samples", []),
        ([UNCOUNTED] * 6, "Loss unknown: no counters in 6 of 6 samples", ["unknown"]),
        ([COUNTED, UNCOUNTED], "No loss seen in 1 sample; no counters in 1 of 2 samples", ["unknown"]),
        ([{**COUNTED, "loss_stages_known": 3}], "No loss counted in 1 sample", ["partly known"]),
        (
            [COUNTED, {**COUNTED, "dropped_kernel": 1, "lost_frames": 1, "loss_share": 0.01}],
            "Loss counted in 1 of 2 samples, the largest 1.00 % of frames",
            [],
        ),
        (
            [{**COUNTED, "loss_stages_known": 3}, {**COUNTED, "lost_frames": 1, "loss_share": 0.01}],
            "Loss counted in 1 of 2 samples, the largest at least 1.00 % of frames",
            ["partly known"],
        ),
    ],
)
def test_capture_quality_distinguishes_unknown_from_zero(samples, expected, columns, tmp_path):
    figure = compose.compose_figure("capture_quality", quality_of(tmp_path, samples))
    assert with_spaces(figure.title) == expected
    text = words(svg_of(figure))
    assert [gap.heading[1] for gap in capture_quality.UNKNOWN_LOSSES if " ".join(gap.heading) in text] == columns


def test_truncated_files_are_counted_per_site_and_named(tmp_path):
    samples = [COUNTED | {"file_issue": "cut_record" if n < 6 else None, "file_unread_bytes": 0} for n in range(7)]
    figure = compose.compose_figure("capture_quality", quality_of(tmp_path / "truncated", samples))
    text = words(svg_of(figure))
    assert "truncated or damaged files" in text
    assert " 6 of 7 " in text
    assert "the file ends within a frame" in figure.description
    assert with_spaces(figure.description).count(": 6 files (s0, s1, s2, s3 and 2 more)") == 1
    complete = compose.compose_figure("capture_quality", quality_of(tmp_path / "complete", [COUNTED]))
    assert "damaged files" not in words(svg_of(complete))


@pytest.mark.parametrize("column", ["loss", "coverage"])
def test_labels_of_narrow_panels_do_not_collide(column):
    """A panel has 52 px if all columns of text are shown and the site has a long name."""
    for width in (52, capture_quality.NARROW - 1, capture_quality.NARROW, 150):
        chart = capture_quality.panel([], ["site"], (column, ("heading",)), width, first=True).to_dict(validate=False)
        axis = chart["layer"][0]["encoding"]["x"]["axis"]
        texts = re.findall(r"- ([0-9.]+)\) < 0.01 \? '([^']+)'", axis["labelExpr"])
        places = [(float(place), theme.text_width([text]) - 4) for place, text in texts]
        assert all(b - a >= (one + other) / 2 + 2 for (a, one), (b, other) in pairwise(places)), width


def test_notes_keep_units_with_numbers_and_state_which_headers_can_be_malformed(tmp_path):
    figure = compose.compose_figure("capture_quality", quality_of(tmp_path, [COUNTED]))
    lines = [line for note in figure.notes for line in compose.wrap_lines(note, theme.TEXT)]
    assert [line for line in lines if line.startswith("%")] == []
    assert "Malformed or truncated: in headers of layers 2 to 4 and tunnels; " in figure.description
    assert "0.0001\N{NO-BREAK SPACE}%" in figure.description


def test_capture_quality_states_bytes_not_read_after_an_error(tmp_path):
    source = source_with(tmp_path, sites=1)
    assert "Not read" not in " ".join(capture_quality.draw(source).key)
    for row, unread in zip(source.quality, (2_300_000, None, 200_000), strict=False):
        row["file_unread_bytes"] = unread
    expected = with_spaces(" ".join(capture_quality.draw(source).key))
    assert "Not read after an error: 2.5 MB of 2 files; no panel includes their frames." in expected


def test_samples_with_few_frames_have_no_clock_resolution_and_no_silently_omitted_share(tmp_path):
    samples = [{"clock_resolution_ns": 10_000, "frames": frames} for frames in (1, 2, 99)]
    samples = [row | {"untimed_frames": 0, "equal_stamps_share": None if row["frames"] < 2 else 0} for row in samples]
    notes = " ".join(capture_quality.draw(quality_of(tmp_path, samples)).key)
    expected = "Clock resolution: not determined from fewer than 10 distinct timestamps (2 samples), 10 µs (1 sample)."
    assert expected in with_spaces(notes)
    assert "Repeated timestamps: no mark for 1 sample with fewer than two frames" in with_spaces(notes)
