"""Tests the figure of rates over time: bins, gaps between samples, colors, and the legend."""

import re

import pytest
from acapella_testing.generated.generated_tables import change_table, source_of_rows, source_with, write_tables
from acapella_testing.svg_text import with_spaces, words

from acapella.campaign.layout import Campaign
from acapella.figures import compose, throughput
from acapella.figures.save import svg_of
from acapella.figures.source import Source


def test_caption_explains_the_captured_time_of_captures_without_known_start_and_end(tmp_path):
    source = source_with(tmp_path, sites=1)
    assert "from the first to the last frame" not in " ".join(throughput.draw(source).key)
    source.quality[0]["actual_by"] = "frames"
    assert "from the first to the last frame" in " ".join(throughput.draw(source).key)


SECOND = 10**9
START = 1_700_000_000 * SECOND


WIDTH = 500  # px


def visits(*starts_s: float, seconds: int = 20, rate: int = 10**6, port: str = "p0") -> list[dict]:
    """Return rows of table throughput for a port that was captured for ``seconds`` from each start."""
    shared = {"site": "S0", "port": port, "bin_ns": SECOND, "covered_ns": SECOND, "wire_bytes": rate // 8, "frames": 7}
    times = [int((start + n) * SECOND) for start in starts_s for n in range(seconds)]
    return [{**shared, "start_ns": time, "end_ns": time + SECOND, "samples": 1} for time in times]


def binned(rows: list[dict]) -> tuple[list[dict], bool]:
    """Return the bins of rows in ``WIDTH`` pixels, and whether gaps are drawn."""
    bins, gaps = throughput.bin_ports({("S0", "p0"): rows}, WIDTH, gapless=False)
    assert sum(row["frames"] for row in bins) == sum(row["frames"] for row in rows)
    return bins, gaps


@pytest.mark.parametrize("period_s", [21, 30, 300])
def test_samples_are_drawn_at_their_times_with_gaps(period_s):
    starts = [n * period_s for n in range(30)]
    rows = visits(*starts)
    bins, gaps = binned(rows)
    assert gaps
    pixel = (rows[-1]["start_ns"] + SECOND) / WIDTH
    for start in starts:
        own = [row for row in bins if start <= row["start"] / SECOND < start + 20]
        following = (start + period_s) * SECOND
        assert (own[0]["start"], own[-1]["end"]) == (start * SECOND, (start + 20) * SECOND)
        assert own[-1]["to"] >= min(own[-1]["end"], following - pixel)
        assert start == starts[-1] or following - own[-1]["to"] >= 0.99 * pixel
        assert own[-1]["to"] - own[0]["start"] >= 1.99 * pixel


def test_bins_have_the_mean_rate_of_their_rows():
    bins, _ = binned([row for n in range(400) for row in visits(n, seconds=1, rate=(n + 1) * 8000)])
    assert len(bins) == 200
    assert [row["rate"] for row in bins] == [(2 * n + 1.5) * 8000 for n in range(200)]


def test_samples_too_close_for_gaps_are_binned_with_a_caption(tmp_path):
    rows = visits(*(n * 300 for n in range(2000)))
    bins, gaps = binned(rows)
    assert not gaps
    assert len(bins) <= throughput.MAX_BINS
    sentence = " ".join(throughput.draw(with_rates(tmp_path, rows)).key)
    assert "gaps between samples are too short to be visible" in sentence
    assert "not captured" not in sentence
    with_night = with_rates(tmp_path, [*rows, *visits(10**6)])
    assert "blank: not captured; other gaps between samples are too" in " ".join(throughput.draw(with_night).key)


def with_rates(tmp_path, rows: list[dict]) -> Source:
    """Return generated tables in which these are the rows of throughput."""
    return source_of_rows(write_tables(tmp_path / "made", sites=1), throughput=rows)


def short_captures(tmp_path, *samples: tuple[int, int, dict[int, int]]) -> compose.ComposedFigure:
    """Return the figure of one port. Samples are (start in ms, end in ms, {second: bytes})."""
    quality, rates = [], []
    for number, (first, last, sizes) in enumerate(samples):
        ends = START + first * 10**6, START + last * 10**6
        quality.append({"site": "S0", "port": "p0", "sample": f"s{number}", "frames": 9, "actual_by": "manifest"})
        quality[-1] |= {"actual_start_ns": ends[0], "actual_end_ns": ends[1], "duration_ns": ends[1] - ends[0]}
        for second, size in sizes.items():
            (row,) = visits(START // SECOND + second, seconds=1, rate=8 * size)
            covered = min(row["end_ns"], ends[1]) - max(row["start_ns"], ends[0])
            rates.append(row | {"covered_ns": covered, "rate_bps": 8 * SECOND * size // covered})
    return compose.compose_figure("throughput", source_of_rows(tmp_path, capture_quality=quality, throughput=rates))


def bars(figure: compose.ComposedFigure) -> list[dict]:
    """Return the values that the panel of the only port draws."""
    return figure.spec["data"]["values"]


def test_capture_of_250_ms_is_drawn_to_scale(tmp_path):
    figure = short_captures(tmp_path, (600, 850, {0: 31_250}), (2000, 4000, {2: 10**6, 3: 10**6}))
    drawn = [(bar["x"], bar["x2"], bar["rate"]) for bar in bars(figure)]
    assert [end - start for start, end, _ in drawn] == pytest.approx([0.25, 1, 1], abs=0.01)
    assert [rate for *_, rate in drawn] == [8 * 31_250 * 4, 8 * 10**6, 8 * 10**6]
    assert "the highest mean rate in a bin is 8 Mbit/s (over 1 s), at S0 p0" in with_spaces(figure.title)


def test_highest_rate_of_short_captures_names_its_averaging_time(tmp_path):
    figure = short_captures(tmp_path, (600, 850, {0: 31_250}), (2000, 2500, {2: 31_250}))
    assert "the highest mean rate in a bin is 1 Mbit/s (over 250 ms), at S0 p0" in with_spaces(figure.title)
    assert "in bins of at most 500 ms" in with_spaces(figure.description)


def test_burst_in_the_first_3_ms_is_averaged_with_the_next_bin(tmp_path):
    sizes = (3_000_000, 10**6, 10**6, 2_000_000)
    figure = short_captures(tmp_path, (997, 3004, dict(enumerate(sizes))))
    first, last = (sizes[0] + sizes[1]) * 8 / 1.003, (sizes[2] + sizes[3]) * 8 / 1.004
    assert [bar["rate"] for bar in bars(figure)] == pytest.approx([first, last], abs=1)
    assert "is 31.9 Mbit/s (over 1 s)" in with_spaces(figure.title)
    bits = sum(bar["rate"] * (bar["end"] - bar["start"]) for bar in bars(figure)) / SECOND
    assert bits == pytest.approx(8 * sum(sizes))


def test_title_has_the_peak_of_the_table_if_drawn_bins_join_several_of_its_bins(tmp_path):
    figure = short_captures(tmp_path, (0, 10**6, {n: 10**6 for n in range(1000)} | {500: 50 * 10**6}))
    assert max(bar["rate"] for bar in bars(figure)) < 200 * 10**6, "a drawn bin is longer than a bin of the table"
    assert "the highest mean rate in a bin is 400 Mbit/s (over 1 s), at S0 p0" in with_spaces(figure.title)
    assert "in bins of at most 5 s" in with_spaces(figure.description)
    wider = "the title refers to the table's bins of 1 s, not to the wider bins drawn here"
    assert wider in with_spaces(figure.description)


def test_bin_covered_for_a_short_time_has_no_peak(tmp_path):
    figure = short_captures(tmp_path, (997, 3000, {0: 3_000_000, 1: 10**6, 2: 10**6}))
    assert with_spaces(figure.title).startswith("1 port; the highest mean rate, except in briefly captured bins, is ")
    assert "8 Gbit/s" not in with_spaces(figure.title)
    assert "less than half was captured have up to 8 Gbit/s (over 3 ms), at S0 p0" in with_spaces(figure.description)


def test_time_between_two_samples_in_one_bin_is_not_counted_as_captured():
    place, quarter = {"site": "S0", "port": "p0"}, SECOND // 4
    spans = ((2, 3), (10, 12), (11, 16))  # in quarters of a second
    samples = [{**place, "actual_start_ns": a * quarter, "actual_end_ns": b * quarter} for a, b in spans]
    covered = [{"start_ns": n * SECOND, "covered_ns": part * quarter} for n, part in enumerate((1, 0, 2, 4))]
    found = throughput.observed_ports([{**place, "bin_ns": SECOND, **row} for row in covered], samples)["S0", "p0"]
    assert [(row["start_ns"] // quarter, row["end_ns"] // quarter) for row in found] == [(2, 3), (10, 12), (12, 16)]


def test_ports_with_a_single_frame_are_counted_as_omitted(tmp_path):
    rows = [*visits(0, port="p0"), *(row | {"covered_ns": 0} for row in visits(0, seconds=1, port="p1"))]
    figure = compose.compose_figure("throughput", with_rates(tmp_path, rows))
    assert with_spaces(figure.title).startswith("1 port; ")
    assert "1 port omitted, because the captured time is 0" in with_spaces(figure.description)


def rates(tmp_path, *values: int):
    """Return the figure of ports with one rate each, and its layers."""
    rows = [row for n, rate in enumerate(values) for row in visits(0, rate=rate, port=f"p{n}")]
    figure = compose.compose_figure("throughput", with_rates(tmp_path, rows))
    return figure, figure.spec["concat"][0]["layer"]


def test_colors_distinguish_rates_within_a_decade_and_the_legend_has_every_decade(tmp_path):
    figure, layers = rates(tmp_path, 11 * 10**6, 99 * 10**6, 10**9, 3 * 10**9, *[2000] * 5)
    color = layers[0]["encoding"]["color"]
    assert color["scale"]["type"] == "log"
    assert color["scale"]["domain"] == [10**3, 10**10]
    assert color["legend"]["values"] == [10**power for power in range(3, 11)]
    svg = svg_of(figure)
    assert len(set(re.findall(r'fill="(#[0-9a-f]{6}|rgb\([^)]*\))"', svg))) >= 5
    assert all(label in words(svg) for label in ("1k", "10k", "100k", "1M", "10M", "100M", "1G", "10G"))


def test_captured_time_without_frames_has_a_separate_color(tmp_path):
    figure, layers = rates(tmp_path, 0, *[10**6] * 8)
    assert layers[1]["encoding"]["color"]["scale"]["range"] == [throughput.IDLE]
    assert throughput.IDLE.lower() in svg_of(figure).lower()


def test_ports_without_any_frame_have_an_axis(tmp_path):
    figure, layers = rates(tmp_path, *[0] * 9)
    assert layers[0]["encoding"]["color"]["scale"]["domain"] == [1, 10]
    assert "the highest mean rate in a bin is 0 bit/s (over 1 s)" in with_spaces(figure.title)


def test_gaps_of_years_are_omitted(tmp_path):
    directory = write_tables(tmp_path / "made", sites=1)

    def move_back(_: int, row: dict) -> None:
        row["start_ns"] -= 10 * 365 * 86400 * SECOND if row["port"].endswith("1") else 0

    change_table(directory, "throughput", move_back)
    figure = compose.compose_figure("throughput", Source(Campaign(directory)))
    assert "captured time of each port, without gaps (s)" in words(svg_of(figure))
    bins = figure.spec["concat"][0]["vconcat"][0]["data"]["values"]
    assert [row["x"] for row in bins] == list(range(len(bins)))


def test_removed_gaps_are_marked_with_their_lengths_unless_there_are_too_many(tmp_path):
    rows = [row for day in range(4) for row in visits(day * 86400)]
    figure = compose.compose_figure("throughput", with_rates(tmp_path, rows))
    assert "dashed line: time removed from the axis" in figure.description
    assert words(svg_of(figure)).count("24 h") == 3
    rows = [row for day in range(1000) for row in visits(day * 86400, seconds=1)]
    described = compose.compose_figure("throughput", with_rates(tmp_path, rows)).description
    assert "time between samples is removed from the axis, without a mark" in described
    assert "too short to be visible" not in described
