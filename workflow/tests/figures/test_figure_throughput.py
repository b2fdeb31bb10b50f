"""Tests the figure of rates over time: bins, gaps between samples, colors, and the legend."""

import re

import pytest
from acapella_testing.generated.generated_tables import change_table, source_with, write_table, write_tables
from acapella_testing.svg_text import with_spaces, words

from acapella.campaign.layout import Campaign
from acapella.figures import compose, throughput
from acapella.figures.save import svg_of
from acapella.figures.source import Source


def test_caption_states_the_watched_time_of_captures_without_times(tmp_path):
    source = source_with(tmp_path, sites=1)
    sentence = "from the first to the last frame"
    assert sentence not in " ".join(throughput.draw(source).key)
    source.quality[0]["actual_by"] = "frames"
    assert sentence in " ".join(throughput.draw(source).key)


SECOND = 10**9
WIDTH = 500  # px


def visits(*starts_s: float, seconds: int = 20, rate: int = 10**6, port: str = "p0") -> list[dict]:
    """Return rows of table throughput for a port that was watched for ``seconds`` from each start."""
    return [
        {
            **{"site": "S0", "port": port, "start_ns": int((start + n) * SECOND), "bin_ns": SECOND},
            **{"end_ns": int((start + n + 1) * SECOND), "covered_ns": SECOND, "wire_bytes": rate // 8, "frames": 7},
        }
        for start in starts_s
        for n in range(seconds)
    ]


def binned(rows: list[dict], *, gapless: bool = False) -> tuple[list[dict], bool]:
    """Return the bins of rows in ``WIDTH`` pixels, and whether gaps are drawn."""
    bins, gaps = throughput.bin_ports({("S0", "p0"): rows}, WIDTH, gapless=gapless)
    assert sum(row["frames"] for row in bins) == sum(row["frames"] for row in rows)
    return bins, gaps


@pytest.mark.parametrize("period_s", [21, 30, 300])
def test_samples_are_drawn_at_their_times_with_gaps(period_s):
    starts = [n * period_s for n in range(30)]
    rows = visits(*starts)
    bins, gaps = binned(rows)
    assert gaps
    length = rows[-1]["start_ns"] + SECOND
    for start in starts:
        own = [row for row in bins if start <= row["start"] / SECOND < start + 20]
        assert own[0]["start"] == start * SECOND
        assert own[-1]["end"] == (start + 20) * SECOND
        assert own[-1]["to"] >= min(own[-1]["end"], (start + period_s) * SECOND - length / WIDTH)
        if start != starts[-1]:
            assert (start + period_s) * SECOND - own[-1]["to"] >= 0.99 * length / WIDTH  # 1 px
        assert own[-1]["to"] - own[0]["start"] >= 1.99 * length / WIDTH  # 2 px


def test_bins_have_the_mean_rate_of_their_rows():
    bins, _ = binned([row for n in range(400) for row in visits(n, seconds=1, rate=(n + 1) * 8000)])
    assert len(bins) == 200
    assert [row["rate"] for row in bins] == [(2 * n + 1.5) * 8000 for n in range(200)]


def test_samples_too_close_for_gaps_are_binned_with_a_caption(tmp_path):
    bins, gaps = binned(visits(*(n * 300 for n in range(2000))))
    assert not gaps
    assert len(bins) <= throughput.MAX_BINS
    directory = write_tables(tmp_path / "made", sites=1)
    write_table(directory, "throughput", [{**row, "samples": 1} for row in visits(*(n * 300 for n in range(2000)))])
    sentence = " ".join(throughput.draw(Source(Campaign(directory))).key)
    assert "gaps between samples are too short to be visible" in sentence
    assert "not captured" not in sentence


def short_captures(tmp_path, *samples: tuple[int, int, dict[int, int]]) -> compose.ComposedFigure:
    """Return the figure of one port. Samples are (start in ms, end in ms, {second: bytes})."""
    start = 1_700_000_000 * SECOND
    quality, rates = [], []
    for number, (first, last, sizes) in enumerate(samples):
        ends = start + first * 10**6, start + last * 10**6
        quality.append({"site": "S0", "port": "p0", "sample": f"s{number}", "frames": 9, "actual_by": "manifest"})
        quality[-1] |= {"actual_start_ns": ends[0], "actual_end_ns": ends[1], "duration_ns": ends[1] - ends[0]}
        for second, size in sizes.items():
            at = start + second * SECOND
            covered = min(at + SECOND, ends[1]) - max(at, ends[0])
            rates.append({"site": "S0", "port": "p0", "start_ns": at, "bin_ns": SECOND, "covered_ns": covered})
            rates[-1] |= {"frames": 3, "wire_bytes": size, "samples": 1, "rate_bps": 8 * SECOND * size // covered}
    write_table(tmp_path, "capture_quality", quality)
    write_table(tmp_path, "throughput", rates)
    return compose.compose_figure("throughput", Source(Campaign(tmp_path)))


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
    sizes = {0: 3_000_000, 1: 10**6, 2: 10**6, 3: 2_000_000}
    figure = short_captures(tmp_path, (997, 3004, sizes))
    first, last = (sizes[0] + sizes[1]) * 8 / 1.003, (sizes[2] + sizes[3]) * 8 / 1.004
    assert [bar["rate"] for bar in bars(figure)] == pytest.approx([first, last], abs=1)
    assert "is 31.9 Mbit/s (over 1 s)" in with_spaces(figure.title)
    bits = sum(bar["rate"] * (bar["end"] - bar["start"]) for bar in bars(figure)) / SECOND
    assert bits == pytest.approx(8 * sum(sizes.values()))


def test_title_has_the_peak_of_the_table_if_drawn_bins_join_several(tmp_path):
    sizes = {n: 10**6 for n in range(1000)} | {500: 50 * 10**6}
    figure = short_captures(tmp_path, (0, 10**6, sizes))
    drawn = max(bar["rate"] for bar in bars(figure))
    assert drawn < 200 * 10**6, "a drawn bin is longer than a bin of the table"
    title, notes = (with_spaces(text) for text in (figure.title, figure.description))
    assert "the highest mean rate in a bin is 400 Mbit/s (over 1 s), at S0 p0" in title
    assert "in bins of at most 5 s" in notes
    assert "the title refers to the table's bins of 1 s, not to the wider bins drawn here" in notes


def test_bin_covered_for_a_short_time_has_no_peak(tmp_path):
    figure = short_captures(tmp_path, (997, 3000, {0: 3_000_000, 1: 10**6, 2: 10**6}))
    assert "8 Gbit/s" not in with_spaces(figure.title)


def test_time_between_two_samples_in_one_bin_is_not_counted_as_watched():
    place, quarter = {"site": "S0", "port": "p0"}, SECOND // 4
    spans = ((2, 3), (10, 12), (11, 16))  # in quarters of a second
    samples = [{**place, "actual_start_ns": a * quarter, "actual_end_ns": b * quarter} for a, b in spans]
    rows = [
        {**place, "start_ns": n * SECOND, "bin_ns": SECOND, "covered_ns": covered * quarter}
        for n, covered in enumerate((1, 0, 2, 4))
    ]
    found = throughput.observed_ports(rows, samples)["S0", "p0"]
    seen = [(row["start_ns"] // quarter, row["end_ns"] // quarter) for row in found]
    assert seen == [(2, 3), (10, 12), (12, 16)]


def rates(tmp_path, *values: int):
    """Return the figure of ports with one rate each, and its layers."""
    rows = [row for n, rate in enumerate(values) for row in visits(0, rate=rate, port=f"p{n}")]
    directory = write_tables(tmp_path / "made", sites=1)
    write_table(directory, "throughput", [{**row, "samples": 1} for row in rows])
    figure = compose.compose_figure("throughput", Source(Campaign(directory)))
    return figure, figure.spec["concat"][0]["layer"]


def test_colors_distinguish_rates_within_a_decade_and_the_legend_has_every_decade(tmp_path):
    figure, layers = rates(tmp_path, 11 * 10**6, 99 * 10**6, 10**9, 3 * 10**9, *[2000] * 5)
    color = layers[0]["encoding"]["color"]
    assert color["scale"]["type"] == "log"
    assert color["scale"]["domain"] == [10**3, 10**10]
    assert color["legend"]["values"] == [10**power for power in range(3, 11)]
    assert len(set(re.findall(r'fill="(#[0-9a-f]{6}|rgb\([^)]*\))"', svg_of(figure)))) >= 5
    text = words(svg_of(figure))
    assert all(label in text for label in ("1k", "10k", "100k", "1M", "10M", "100M", "1G", "10G"))


def test_watched_time_without_frames_has_a_separate_color(tmp_path):
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
    assert "a white line separates samples" in figure.description
    assert [row["x"] for row in bins] == list(range(len(bins)))
