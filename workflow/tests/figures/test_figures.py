"""Tests figures from tables: required text, few and many sites, missing data, and malicious names."""

import hashlib
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.files_campaign import failed
from acapella_testing.generated.generated_tables import change_table, source_of_rows, source_with, write_tables
from acapella_testing.svg_text import check_collisions, check_page, with_spaces, words

from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.common.wording import shortened
from acapella.figures import compose, encapsulations, flows_per_sample, restrictions
from acapella.figures.command import FORMATS
from acapella.figures.quality import loss_summary, sample_summary
from acapella.figures.registry import TRAFFIC_FIGURES, figure_module
from acapella.figures.save import pdf_of, save, svg_of
from acapella.figures.source import Source
from acapella.figures.theme import DECADES, JUMBO, LEVELS, STANDARD

HOSTILE = ['<script>alert("x")</script>', "Site & Söns' 20 chars", "</script><img src=x onerror=alert(1)>"]
LONG_FILTER = "(vlan and mpls and ip and tcp port 443) or (host 192.0.2.17 and not udp port 4789) or ip6 proto 58"
LONG_NAMES = [f"University-of-Somew-{n:02d}" for n in range(30)]
CAMPAIGNS = {
    "one_sample": {"sites": 1, "ports": 1, "samples": 1},
    "one_site": {"sites": 1},
    "thirty_sites": {"sites": 30, "ports": 1, "frames": 100},
    "long_names": {"names": LONG_NAMES, "ports": 3, "samples": 2, "frames": 100},
    "hostile": {"names": HOSTILE, "filter": LONG_FILTER, "one_in": 1000},
}
EMPTY = {  # campaigns without data, and the reason that figures print
    "no_frames": ({"frames": 0}, "none of the 24 samples contains a frame"),
    "no_samples": ({"names": [], "sites": 0}, "the campaign has no samples"),
}
UNITS = {  # text of axes and legends, with units
    "header_depth": ("distinct headers (labels)", "deepest stack (headers)"),
    "header_occurrence": ("share of frames (%)",),
    "encapsulations": ("share of frames (%)",),
    "frame_sizes": ("frame length (B)", "share of all frames (%)"),
    "header_stack_sizes": (
        *("frame length (B)", "frames of that length (%)"),
        *("frames of at most 127 B (%)", "TCP, only ACK, no payload"),
    ),
    "flows_per_sample": ("samples", "directed flows in a sample"),
    "flow_sizes": ("flow size (B on the wire)", "share of flows of at least that size"),
    "flow_times": ("flow duration (first to last frame)", "flow rate (bit/s, mean on the wire)", "share of flows"),
    "throughput": ("time since", "bit/s"),
    "capture_quality": ("frames lost (%)", "repeated timestamps (%)", "time captured (%)"),
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory) -> dict[str, Source]:
    """Return the tables of each kind of campaign."""
    directory = tmp_path_factory.mktemp("campaigns")
    created = CAMPAIGNS | {name: shape for name, (shape, _) in EMPTY.items()}
    return {name: Source(Campaign(write_tables(directory / name, **shape))) for name, shape in created.items()}


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("name", TRAFFIC_FIGURES)
def test_figure_states_subject_samples_loss_units_and_data(name, campaign, campaigns, drawn, text):
    figure, shown, quality = drawn(name, campaign), text(name, campaign), campaigns[campaign].quality
    assert not figure.empty
    assert with_spaces(figure.title)[:40] in shown
    assert with_spaces(sample_summary(quality)) in shown
    assert with_spaces(loss_summary(quality)) in shown
    assert [unit for unit in UNITS[name] if unit not in shown] == []
    assert f"Data: tables/{figure_module(name).TABLE}.csv" in shown


@pytest.mark.parametrize("campaign", EMPTY)
@pytest.mark.parametrize("name", TRAFFIC_FIGURES)
def test_figure_without_data_states_the_reason(name, campaign, drawn, text):
    if (name, campaign) == ("capture_quality", "no_frames"):
        assert not drawn(name, campaign).empty  # samples without frames still have a quality
        return
    assert f"{figure_module(name).SUBJECT}: no data" in text(name, campaign)
    assert f"No data: {EMPTY[campaign][1]}." in text(name, campaign)


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("name", TRAFFIC_FIGURES)
def test_figure_fits_a_page_in_one_font_and_weight(name, campaign, svg):
    check_page(svg(name, campaign))


@pytest.mark.parametrize("campaign", ["one_site", "long_names", "hostile"])
def test_text_does_not_overlap_and_is_inside_the_figure(campaign, svg, browser):
    check_collisions(browser, {name: svg(name, campaign) for name in TRAFFIC_FIGURES})


@pytest.mark.parametrize("name", TRAFFIC_FIGURES)
def test_titles_name_the_filter_if_all_samples_are_filtered(name, drawn, text):
    shown = f"(samples: {shortened(f'filter {LONG_FILTER}; one frame in 1000', restrictions.MAX_LENGTH)})"
    assert drawn(name, "hostile").title.endswith(shown)
    assert shown in text(name, "hostile")
    assert "(samples: " not in drawn(name, "one_site").title


def with_restrictions(tmp_path, **columns):
    """Return a campaign of 4 samples; the first two have these columns in capture_quality."""
    directory = write_tables(tmp_path / "made", sites=1, ports=1)
    change_table(directory, "capture_quality", lambda number, row: row.update(columns if number < 2 else {}))
    return Source(Campaign(directory))


def notes_of(name, source) -> str:
    """Return the notes of a figure."""
    return with_spaces(" ".join(compose.compose_figure(name, source).notes))


def test_figures_of_traffic_state_how_much_is_excluded_and_why(tmp_path):
    source = with_restrictions(tmp_path, restriction="trial, filter", excluded="trial, filter")
    frames = [row["frames"] for row in source.quality]
    notes, quality = (notes_of(name, source) for name in ("header_depth", "capture_quality"))
    assert f"excluded: 2 samples, {sum(frames[:2]):,} frames (trial, filter)" in notes
    assert f"2 samples (20 s each) of 1 site, {sum(frames[2:]):,} frames" in notes
    assert "excluded" not in quality
    assert f"4 samples (20 s each) of 1 site, {sum(frames):,} frames" in quality


def test_restricted_samples_that_count_beside_others_are_stated(tmp_path):
    source = with_restrictions(tmp_path, restriction="sampling")
    frames = sum(row["frames"] for row in source.quality[:2])
    assert f"included: 2 samples, {frames:,} frames (sampling)" in notes_of("header_depth", source)


def site_marks(figure: compose.ComposedFigure) -> tuple[int, list[dict]]:
    """Return the index of the layer of interval lines, and (index, layer) of each layer with marks of sites."""
    layers = figure.spec["concat"][0]["layer"]
    kinds = [layer["mark"]["type"] for layer in layers]
    moved = [(n, layer) for n, layer in enumerate(layers) if "yOffset" in layer["mark"]]
    return kinds.index("rule"), [(n, layer) for n, layer in moved if kinds[n] in ("circle", "point")]


@pytest.mark.parametrize("name", ["encapsulations", "header_occurrence"])
def test_marks_of_a_single_site_are_omitted(name, drawn, text):
    assert site_marks(drawn(name, "one_site"))[1] == []
    assert "one site" not in text(name, "one_site")


@pytest.mark.parametrize("name", ["encapsulations", "header_occurrence"])
@pytest.mark.parametrize("campaign", ["hostile", "thirty_sites"])
def test_sites_have_visible_marks_with_their_names(name, campaign, campaigns, drawn, text):
    figure = drawn(name, campaign)
    lines, marks = site_marks(figure)
    layers = figure.spec["concat"][0]["layer"]
    middle = layers[lines]["mark"].get("yOffset", 0)
    assert all(n > lines and abs(layer["mark"]["yOffset"] - middle) > 2 for n, layer in marks)
    assert middle == layers[0]["mark"].get("yOffset", 0)  # the interval is centered on its bar
    shown = [value for _, layer in marks for value in figure_data(figure, layer)]
    assert {value["site"] for value in shown} == set(campaigns[campaign].sites)
    assert any(tip["field"] == "site" for tip in marks[0][1]["encoding"]["tooltip"])
    legend = {value["mark"] for value in shown if campaign == "hostile"}
    assert len(legend) == (3 if campaign == "hostile" else 0)
    dots = "dot: one site (named by the tooltip in the .html file)"
    assert all(mark in text(name, campaign) for mark in legend or {dots})


def figure_data(figure: compose.ComposedFigure, layer: dict) -> list[dict]:
    """Return the values of a layer, which are in the layer or in the datasets of the specification."""
    data = layer["data"]
    return data["values"] if "values" in data else figure.spec["datasets"][data["name"]]


def test_control_characters_in_names_are_drawn_escaped(tmp_path):
    """The renderer terminates the process at some control characters."""
    source = source_with(tmp_path, names=["W\x1b]0;x\x07\x01"], ports=1, samples=1)
    assert "W\\x1b]0;x\\x07\\x01" in words(svg_of(compose.compose_figure("capture_quality", source)))


def test_same_tables_give_the_same_bytes_in_any_directory_order_and_process(tmp_path):
    """Draws in this process and in another one. All formats are converted from the SVG, so a few figures are enough."""
    first, second = (write_tables(tmp_path / name / "made", sites=2, ports=1, samples=2) for name in "ab")
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    for names, formats in ((TRAFFIC_FIGURES[-3:], FORMATS), (TRAFFIC_FIGURES[:-3], ["svg"])):
        options = ["--only", *names, "--formats", *formats]
        assert cli.main(["campaign", "figures", str(first), *options]) == 0
        command = [sys.executable, "-m", "acapella.cli.main", "campaign", "figures", str(second), *options]
        subprocess.run(command, check=True, env=environment, capture_output=True)
    assert len(hashes(first)) == len(TRAFFIC_FIGURES) + 3 * (len(FORMATS) - 1)
    assert hashes(first) == hashes(second)


def hashes(directory: Path) -> dict[str, str]:
    """Return the SHA-256 checksum of every figure."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (directory / "figures").glob("[!.]*")}


def test_only_and_formats_select_the_written_files(tmp_path):
    directory = write_tables(tmp_path / "made", sites=1)
    assert cli.main(["campaign", "figures", str(directory), "--only", "flow_sizes", "--formats", "svg", "png"]) == 0
    assert sorted(path.name for path in (directory / "figures").iterdir()) == ["flow_sizes.png", "flow_sizes.svg"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--only", "fig11"], "--only: unknown fig11; known: header_depth, "),
        (["--only", "frame_size"], "--only: unknown frame_size; did you mean frame_sizes?"),
        (["--formats", "gif"], "--formats: unknown gif; known: svg, pdf, png, html"),
    ],
)
def test_unknown_figure_or_format_is_reported_in_one_line(arguments, expected, tmp_path, capsys):
    assert expected in error_of(capsys, tmp_path, *arguments)


def error_of(capsys, directory, *options) -> str:
    """Draw figures, which must fail; return the error message, which is one line."""
    return failed(capsys, "campaign", "figures", directory, *options)


def test_missing_table_error_names_the_command_to_run(tmp_path, capsys):
    assert error_of(capsys, tmp_path, "--only", "throughput") == (
        f"acapella: error: {tmp_path}/tables/capture_quality.parquet: no such file; "
        f"run: acapella campaign process {tmp_path}"
    )


def replace_column(path, name, value):
    """Set all values of a column of a file."""
    table = pq.read_table(path)
    values = pa.array([value] * len(table), pa.string())
    pq.write_table(table.set_column(table.schema.get_field_index(name), name, values), path)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(b""), id="empty file"),
        pytest.param(lambda path: path.write_bytes(b"\0\0\0"), id="not Parquet"),
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-9]), id="truncated"),
        pytest.param(
            lambda path: pq.write_table(pq.read_table(path).drop_columns("distinct_headers"), path), id="missing column"
        ),
        pytest.param(lambda path: replace_column(path, "distinct_headers", "many"), id="text for a number"),
        pytest.param(lambda path: replace_column(path, "site", None), id="null in the key"),
    ],
)
def test_damaged_table_is_reported_in_one_line(damage, tmp_path, capsys):
    directory = write_tables(tmp_path / "made", sites=1)
    damage(directory / "tables" / "header_depth.parquet")
    error = error_of(capsys, directory, "--only", "header_depth")
    assert "header_depth.parquet: does not match this version's schema: " in error
    assert not (directory / "figures").exists()


def test_figures_draw_the_numbers_of_the_csv_files(tmp_path):
    source = source_with(tmp_path, sites=2)
    tables = source.campaign.directory / "tables"
    published = [float(row["share"]) for row in read_rows(tables / "frame_sizes.csv") if row["share"]]
    assert [row["share"] for row in source.rows("frame_sizes") if row["share"] is not None] == published
    assert pq.read_table(tables / "frame_sizes.parquet")["share"].to_pylist() != published


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"Ethernet": 1}, "All frames are plain Ethernet (no tag, no tunnel with a decoded network header)"),
        ({"none": 1}, "All frames start with IP (no Ethernet, no tunnel with a decoded network header)"),
        ({"Ethernet": 0.9, "Ethernet/VLAN": 0.1}, "2 encapsulations; 90.0 % of frames are plain Ethernet (no tag, no"),
        ({"Ethernet/VLAN": 0.9, "Ethernet": 0.1}, "2 encapsulations; 90.0 % of frames have only Ethernet/VLAN"),
    ],
)
def test_frames_without_encapsulation_are_called_plain(shares, expected):
    ranked = [{"encapsulation": name, "share": share} for name, share in shares.items()]
    assert with_spaces(encapsulations.title(ranked)).startswith(expected)


@pytest.mark.parametrize("colors", [(*STANDARD, *JUMBO), LEVELS, DECADES])
def test_shades_differ_in_gray_print(colors):
    parts = ([int(color[place : place + 2], 16) for place in (1, 3, 5)] for color in colors)
    grays = [0.299 * red + 0.587 * green + 0.114 * blue for red, green, blue in parts]
    assert all(light - dark > 12 for light, dark in pairwise(grays))


def test_intervals_are_drawn_only_if_the_table_has_them(svg):
    line = 'stroke="#000000" stroke-width="1.6"'
    assert svg("header_occurrence", "one_site").count(line) > 5
    assert svg("header_occurrence", "one_sample").count(line) == 0


def test_pdf_cross_reference_table_is_correct(svg):
    content = pdf_of(svg("flows_per_sample", "thirty_sites"))
    table = content[int(re.search(rb"startxref\n(\d+)\n", content)[1]) :].split(b"trailer")[0].splitlines()[2:]
    assert len(table) > 20
    used = [(n, int(entry.split()[0])) for n, entry in enumerate(table) if entry.split()[2] == b"n"]
    assert [n for n, offset in used if not content[offset:].startswith(b"%d 0 obj" % n)] == []


def test_untrusted_names_are_escaped(drawn, tmp_path):
    for path in save(drawn("header_depth", "hostile"), tmp_path, "header_depth", ["svg", "html"]):
        content = path.read_text(encoding="utf-8")
        assert "alert(" in content  # the name is present,
        assert "<script>alert" not in content  # but never as markup
        assert "<img src=x" not in content


def test_too_many_ports_are_reduced_to_the_busiest_of_each_site(drawn):
    assert drawn("throughput", "long_names").title.startswith("30\N{NO-BREAK SPACE}ports")
    assert "only the busiest port of each site" in drawn("throughput", "long_names").description


def sizes(site: str, stack: str, low: int, high: int, *counts: int) -> dict:
    """Return a row of header_stack_sizes. ``counts`` are frames, without payload, only ACK, with a truncated TCP
    header.
    """
    frames, empty, acks, cut = (*counts, 0, 0, 0)[:4]
    tcp = frames - cut if stack.endswith("TCP") else 0
    row = {"site": site, "stack": stack, "bin": f"{low}-{high}", "bin_lo": low, "bin_hi": high, "frames": frames}
    return row | {"tcp_frames": tcp, "no_payload_frames": empty, "ack_frames": acks, "cut_tcp_frames": cut}


@pytest.mark.parametrize(
    ("sites", "expected"),
    [
        (
            {"A": [("IPv4/TCP", 65, 127, 90, 80, 70), ("ARP", 0, 63, 10)], "B": [("ARP", 64, 64, 100)]},
            "40.0 % of frames of at most 127 B are TCP segments without payload (0 % to 80.0 % at 2 sites)",
        ),
        (
            {"A": [("IPv4/TCP", 65, 127, 10, 10, 5), ("IPv4/TCP", 128, 255, 90)], "B": [("ARP", 256, 511, 7)]},
            "100 % of frames of at most 127 B are TCP segments without payload",
        ),
        (
            {"A": [("IPv4/TCP", 65, 127, 10, 6, 5, 4)]},
            "60.0 % of frames of at most 127 B are TCP segments without payload",
        ),
        ({"A": [("IPv4/TCP", 128, 255, 90, 90, 90)]}, "No frame has at most 127 B"),
    ],
)
def test_share_of_short_frames_without_payload_includes_every_site(sites, expected, tmp_path):
    quality = [{"site": site, "sample": site, "frames": 200} for site in sites]
    rows = [sizes(site, *row) for site, own in sites.items() for row in own]
    rows += [{**row, "site": "all"} for row in rows]
    source = source_of_rows(tmp_path, capture_quality=quality, header_stack_sizes=rows)
    figure = compose.compose_figure("header_stack_sizes", source)
    assert with_spaces(figure.title) == expected
    cut = any(len(row) > 6 for own in sites.values() for row in own)
    assert ("segments with a truncated header do not count" in words(svg_of(figure))) == cut
    without = "B" in sites and sites["B"][0][1] > 127
    assert ("1 site without frames of at most 127 B" in words(svg_of(figure))) == without


def test_frames_are_counted_in_exactly_one_segment_of_a_bar(campaigns, drawn):
    frames, stacks, sites = drawn("header_stack_sizes", "thirty_sites").spec["concat"][0]["vconcat"]
    bars = frames["layer"][0]["data"]["values"]
    rows = [row for row in campaigns["thirty_sites"].rows("header_stack_sizes") if row["site"] == "all"]
    for name in {row["bin"] for row in rows}:
        own = [bar for bar in bars if bar["label"] == name]
        assert sum(bar["frames"] for bar in own) == sum(row["frames"] for row in rows if row["bin"] == name)
        assert sum(bar["share"] for bar in own) == pytest.approx(100)
    small = sum(row["frames"] for row in rows if row["bin_hi"] and row["bin_hi"] <= 127)
    assert sum(bar["frames"] for bar in stacks["layer"][0]["data"]["values"]) == small
    assert len({bar["label"] for bar in sites["data"]["values"]}) == 30


@pytest.mark.parametrize(
    ("flows", "ticks"), [([1] * 11, [0, 1, 2]), ([3, 5], [0, 1, 2, 3, 4, 5, 6]), ([90, 100], [0, 20, 40, 60, 80, 100])]
)
def test_axis_of_flows_has_whole_numbers_once(flows, ticks):
    assert flows_per_sample.axis(flows_per_sample.bin_edges(flows), labels=True).to_dict()["values"] == ticks


@pytest.mark.parametrize("campaign", ["one_site", "hostile", "thirty_sites"])
def test_axis_of_header_shares_ends_at_100_percent(campaign, drawn):
    layers = drawn("header_occurrence", campaign).spec["concat"][0]["layer"]
    domains = [x["scale"]["domain"] for x in (layer["encoding"]["x"] for layer in layers) if "scale" in x]
    assert domains
    assert all(domain == [0, 100] for domain in domains)
    assert all(layer["mark"].get("shape") != "diamond" for layer in layers)


REDRAWN = ["frame_sizes", "flow_sizes"]


@pytest.mark.soak
def test_figure_is_redrawn_only_if_its_code_options_files_or_a_table_change(tmp_path, capsys):
    directory = write_tables(tmp_path / "made", sites=1)
    files = [directory / "figures" / f"{name}.svg" for name in REDRAWN]

    def drawn(*versions: str, options: tuple[str, ...] = ()) -> list[str]:
        codes = [f"{name}={version}" for name, version in zip(REDRAWN, versions, strict=False)]
        words = ["campaign", "figures", str(directory), "--only", *REDRAWN, "--formats", "svg", *options]
        assert cli.main([*words, *(["--code", *codes] if codes else [])]) == 0
        return re.findall(r"^figures: .*/(\w+) \(svg\)", capsys.readouterr().err, re.MULTILINE)

    assert drawn("1", "1") == REDRAWN
    before = hashes(directory)
    os.utime(directory / "tables" / "flow_sizes.parquet")
    assert drawn("1", "1") == [], "only the time of a table has changed"
    for path in files:
        os.utime(path)  # as Snakemake does at the end of the job
    assert drawn("1", "1") == []
    table_time = (directory / "tables" / "flow_sizes.parquet").stat().st_mtime
    assert min(path.stat().st_mtime for path in files) >= table_time, "Snakemake would draw it again"
    assert drawn("2", "1") == REDRAWN[:1]
    files[1].write_text("edited")
    assert drawn("2", "1") == REDRAWN[1:]
    assert hashes(directory) == before
    assert drawn("2", "1", options=("--missing", "1")) == REDRAWN
    change_table(directory, "flow_sizes", lambda _, row: row.update(flows_ge=max(1, row["flows_ge"] - 1)))
    assert drawn("2", "1", options=("--missing", "1")) == REDRAWN
    assert drawn() == REDRAWN, "without versions, all figures are drawn"
