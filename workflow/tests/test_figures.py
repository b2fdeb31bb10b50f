"""Figures from tables: what each must say, for few and many sites, for nothing at all, and with hostile names."""

import csv
import hashlib
import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from made_tables import write_table, write_tables
from svg_text import COLLISIONS, words

from acapella import cli
from acapella.campaign import Campaign
from acapella.figures import FORMATS, capture_quality, compose, encapsulations, restrictions, throughput
from acapella.figures.quality import extent, losses_of
from acapella.figures.registry import NAMES, module
from acapella.figures.save import pdf_of, save, svg_of
from acapella.figures.source import Source
from acapella.figures.theme import FONT, JUMBO, LEVELS, STANDARD, WIDTH, text_width
from acapella.figures.wording import shortened

HOSTILE = ['<script>alert("x")</script>', "Site & Söns' 20 chars", "</script><img src=x onerror=alert(1)>"]
LONG_FILTER = "(vlan and mpls and ip and tcp port 443) or (host 192.0.2.17 and not udp port 4789) or ip6 proto 58"
CAMPAIGNS = {
    "one_sample": {"sites": 1, "ports": 1, "samples": 1},
    "one_site": {"sites": 1},
    "thirty_sites": {"sites": 30},
    "long_names": {"names": [f"University-of-Somew-{n:02d}" for n in range(30)], "ports": 3},
    "hostile": {"names": HOSTILE},
    "filtered": {"restriction": ("filter, sampling", f"filter {LONG_FILTER}; one frame in 1000")},
}
EMPTY = {"no_frames": {"frames": 0}, "no_samples": {"names": [], "sites": 0}}
UNITS = {  # texts of axes and legends, with their units
    "header_depth": ("distinct headers (labels)", "deepest stack (headers)"),
    "header_occurrence": ("share of frames (%)",),
    "encapsulations": ("share of frames (%)",),
    "frame_sizes": ("frame length (B)", "share of all frames (%)"),
    "flows_per_sample": ("samples", "directed flows in a sample"),
    "flow_sizes": ("flow size (B on the wire)", "share of flows of at least that size"),
    "flow_times": ("flow duration (first to last frame)", "flow rate (mean on the wire)", "share of flows of at least"),
    "throughput": ("time since", "bit/s"),
    "capture_quality": ("frames lost (%)", "repeated stamps (%)", "time watched (%)"),
}


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory) -> dict[str, Source]:
    """Tables of each kind of campaign."""
    folder = tmp_path_factory.mktemp("campaigns")
    made = {**CAMPAIGNS, **EMPTY}
    return {name: Source(Campaign(write_tables(folder / name, **shape))) for name, shape in made.items()}


@pytest.fixture(scope="module")
def svg(campaigns):
    """The SVG of a figure of a campaign, drawn once."""
    cache = {}

    def of(name: str, campaign: str) -> str:
        if (name, campaign) not in cache:
            cache[name, campaign] = svg_of(compose.drawn(name, campaigns[campaign]))
        return cache[name, campaign]

    return of


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("name", NAMES)
def test_a_figure_says_what_it_shows_of_how_much_and_what_was_lost(name, campaign, campaigns, svg):
    figure, text = compose.drawn(name, campaigns[campaign]), words(svg(name, campaign))
    assert not figure.empty
    assert figure.title.replace("\N{NO-BREAK SPACE}", " ")[:40] in text
    for said in (extent(campaigns[campaign].quality), losses_of(campaigns[campaign].quality)):
        assert said.replace("\N{NO-BREAK SPACE}", " ") in text
    for unit in UNITS[name]:
        assert unit in text
    assert f"Data: tables/{module(name).TABLE}.csv" in text


@pytest.mark.parametrize("campaign", EMPTY)
@pytest.mark.parametrize("name", NAMES)
def test_without_data_a_figure_says_why(name, campaign, campaigns, svg):
    if (name, campaign) == ("capture_quality", "no_frames"):
        assert not compose.drawn(name, campaigns[campaign]).empty  # samples without frames have a quality too
        return
    why = {"no_frames": "none of the 24 samples holds a frame", "no_samples": "the campaign has no samples"}[campaign]
    text = words(svg(name, campaign))
    assert f"{module(name).SUBJECT}: no data" in text
    assert f"No data: {why}." in text


@pytest.mark.parametrize("campaign", CAMPAIGNS)
@pytest.mark.parametrize("name", NAMES)
def test_a_figure_fits_a_page_in_one_font_of_one_weight(name, campaign, svg):
    root = ET.fromstring(svg(name, campaign))
    assert 0.8 * WIDTH < float(root.get("width")) < 1.06 * WIDTH
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    assert {element.get("font-family") for element in texts} == {FONT}
    assert {element.get("font-weight") for element in texts} <= {None, "normal"}
    assert min(float(element.get("font-size").removesuffix("px")) for element in texts) >= 9


@pytest.mark.parametrize("campaign", ["one_site", "long_names", "hostile", "filtered"])
def test_no_text_covers_another_or_leaves_the_figure(campaign, svg, browser):
    page = browser.new_page()
    for name in NAMES:
        page.set_content(svg(name, campaign))
        assert page.evaluate(COLLISIONS) == [], name
    page.close()


@pytest.mark.parametrize("name", NAMES)
def test_titles_name_the_filter_if_all_samples_are_filtered(name, campaigns, svg):
    shown = f"(samples: {shortened(f'filter {LONG_FILTER}; one frame in 1000', restrictions.LENGTH)})"
    title = compose.drawn(name, campaigns["filtered"]).title
    assert title.endswith(shown) == (name != "capture_quality"), title
    assert (shown in words(svg(name, "filtered"))) == (name != "capture_quality")
    assert "(samples: " not in compose.drawn(name, campaigns["one_site"]).title


def with_restrictions(tmp_path, **columns):
    """A campaign of 4 samples of which the first two have these columns in capture_quality."""
    folder = write_tables(tmp_path / "made", sites=1, ports=1)
    path = folder / "tables" / "capture_quality.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows[:2]:
        row.update(columns)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return Source(Campaign(folder))


def test_figures_of_traffic_state_how_much_is_excluded_and_why(tmp_path):
    source = with_restrictions(tmp_path, restriction="trial, filter", excluded="trial, filter")
    frames = [row["frames"] for row in source.quality]
    notes = " ".join(compose.drawn("header_depth", source).notes).replace("\N{NO-BREAK SPACE}", " ")
    assert f"excluded: 2 samples, {sum(frames[:2]):,} frames (replayed trial, filter)" in notes
    assert f"2 samples (20 s each) of 1 site, {sum(frames[2:]):,} frames" in notes
    quality = " ".join(compose.drawn("capture_quality", source).notes).replace("\N{NO-BREAK SPACE}", " ")
    assert "excluded" not in quality
    assert f"4 samples (20 s each) of 1 site, {sum(frames):,} frames" in quality


def test_restricted_samples_that_count_beside_others_are_stated(tmp_path):
    source = with_restrictions(tmp_path, restriction="sampling")
    notes = " ".join(compose.drawn("header_depth", source).notes).replace("\N{NO-BREAK SPACE}", " ")
    assert f"included: 2 samples, {sum(row['frames'] for row in source.quality[:2]):,} frames (sampling)" in notes


def site_marks(figure: compose.Drawn) -> tuple[int, list[dict]]:
    """The place of the layer of interval lines, and the layers of marks of sites with their places."""
    layers = figure.spec["concat"][0]["layer"]
    kinds = [layer["mark"]["type"] for layer in layers]
    marks = [
        (n, layer) for n, layer in enumerate(layers) if kinds[n] in ("circle", "point") and "yOffset" in layer["mark"]
    ]
    return kinds.index("rule"), marks


@pytest.mark.parametrize("name", ["encapsulations", "header_occurrence"])
@pytest.mark.parametrize("campaign", ["one_site", "hostile", "thirty_sites"])
def test_each_site_has_a_mark_that_no_line_covers_and_that_is_named(name, campaign, campaigns, svg):
    source, figure = campaigns[campaign], compose.drawn(name, campaigns[campaign])
    lines, marks = site_marks(figure)
    if campaign == "one_site":
        assert marks == [] and "one site" not in words(svg(name, campaign))
        return
    rule = figure.spec["concat"][0]["layer"][lines]["mark"]
    assert all(n > lines and layer["mark"]["yOffset"] > rule["yOffset"] + 2 for n, layer in marks)
    drawn = [value for _, layer in marks for value in figure_data(figure, layer)]
    assert {value["site"] for value in drawn} == set(source.sites)
    assert any(tip["field"] == "site" for tip in marks[0][1]["encoding"]["tooltip"])
    text = words(svg(name, campaign))
    if campaign == "hostile":
        legend = {value["mark"] for value in drawn}
        assert len(legend) == 3 and all(mark in text for mark in legend)
    else:
        assert "dot: one site, named where the pointer is (in the .html)" in text


def figure_data(figure: compose.Drawn, layer: dict) -> list[dict]:
    """The values of a layer, wherever its specification keeps them."""
    data = layer["data"]
    return data["values"] if "values" in data else figure.spec["datasets"][data["name"]]


def test_same_tables_give_the_same_bytes_in_any_folder_order_and_process(tmp_path):
    first, second = (write_tables(tmp_path / name / "made", sites=2) for name in ("a", "b"))
    assert cli.main(["figures", str(first)]) == 0
    environment = {**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"}
    for names in (NAMES[-1:], NAMES[:-1]):  # the last one in a process of its own, as the workflow runs them
        command = [sys.executable, "-m", "acapella.cli", "figures", str(second), "--only", *names]
        subprocess.run(command, check=True, env=environment, capture_output=True)
    assert len(hashes(first)) == len(NAMES) * len(FORMATS)
    assert hashes(first) == hashes(second)


def hashes(folder: Path) -> dict[str, str]:
    """sha256 of every figure's files."""
    files = sorted((folder / "figures").iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_only_and_formats_choose_what_is_written(tmp_path):
    folder = write_tables(tmp_path / "made", sites=1)
    assert cli.main(["figures", str(folder), "--only", "flow_sizes", "--formats", "svg", "png"]) == 0
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["flow_sizes.png", "flow_sizes.svg"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "fig11"], "--only: unknown fig11; known: header_depth, "),
        (["--formats", "gif"], "--formats: unknown gif; known: svg, pdf, png, html"),
    ],
)
def test_unknown_names_are_told_in_one_line(arguments, said, tmp_path, capsys):
    assert cli.main(["figures", str(tmp_path), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_missing_table_names_the_stage_to_run(tmp_path, capsys):
    assert cli.main(["figures", str(tmp_path), "--only", "throughput"]) == 2
    error = capsys.readouterr().err
    assert error == (
        f"acapella: error: {tmp_path}/tables/capture_quality.csv: no such file; run: acapella process {tmp_path}\n"
    )


@pytest.mark.parametrize("content", ["", "site,port\n", "site,distinct_headers\nA,many\n", "\0\0\0"])
def test_a_table_that_is_not_one_is_told_in_one_line(content, tmp_path, capsys):
    folder = write_tables(tmp_path / "made", sites=1)
    (folder / "tables" / "header_depth.csv").write_text(content, encoding="utf-8")
    assert cli.main(["figures", str(folder), "--only", "header_depth"]) == 2
    error = capsys.readouterr().err
    assert "header_depth.csv: not the table of this version: " in error
    assert error.count("\n") == 1
    assert not (folder / "figures").exists()


def test_an_unknown_loss_is_never_drawn_as_none(campaigns):
    source = campaigns["thirty_sites"]
    figure = compose.drawn("capture_quality", source)
    drawn = figure.spec["concat"][0]["hconcat"][0]["data"]["values"]
    known = [row for row in source.quality if row["lost_frames"] is not None]
    assert len(known) < len(source.quality)
    for site in source.sites:
        zero = sum(
            row["samples"] for row in drawn if row["site"] == site and row["text"].startswith("0\N{NO-BREAK SPACE}")
        )
        assert zero == sum(row["loss_share"] == 0 for row in known if row["site"] == site)
    assert sum(row["samples"] for row in drawn) == len(known)


@pytest.mark.parametrize(
    ("counters", "said"),
    [
        ({"dropped_kernel": 0, "lost_frames": 0, "loss_stages_known": 4}, "losses: none seen"),
        (
            {"dropped_kernel": 0, "lost_frames": 0, "loss_stages_known": 2},
            "losses: none seen; counted in part in 1 of 1",
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
def test_a_file_read_to_its_end_is_no_proof_that_nothing_was_lost(counters, said, tmp_path):
    write_table(tmp_path, "capture_quality", [{"site": "S0", "sample": "a", "frames": 99, **counters}])
    assert losses_of(Source(Campaign(tmp_path)).quality).replace("\N{NO-BREAK SPACE}", " ").startswith(said)


COUNTED = {"dropped_kernel": 0, "lost_frames": 0, "loss_share": 0, "loss_stages_known": 4}
FROM_FILE = {
    "lost_frames": None,
    "loss_share": None,
    "loss_stages_known": 1,
}  # the file was read to its end, no more is known


@pytest.mark.parametrize(
    ("samples", "said", "columns"),
    [
        ([COUNTED] * 3, "No loss seen in 3 samples", []),
        ([FROM_FILE] * 6, "Loss unknown: no counters in 6 of 6 samples", ["unknown"]),
        ([COUNTED, FROM_FILE], "No loss seen in 1 sample; no counters in 1 of 2 samples", ["unknown"]),
        ([{**COUNTED, "loss_stages_known": 3}], "No loss seen in 1 sample", ["known in part"]),
        (
            [COUNTED, {**COUNTED, "dropped_kernel": 1, "lost_frames": 1, "loss_share": 0.01}],
            "1 of 2 samples lost frames, the worst 1.00 %",
            [],
        ),
    ],
)
def test_the_quality_of_captures_tells_unknown_from_none(samples, said, columns, tmp_path):
    rows = [{"site": "S0", "sample": f"s{n}", "frames": 99, **row} for n, row in enumerate(samples)]
    write_table(tmp_path, "capture_quality", rows)
    figure = compose.drawn("capture_quality", Source(Campaign(tmp_path)))
    assert figure.title.replace("\N{NO-BREAK SPACE}", " ") == said
    text = words(svg_of(figure))
    assert [gap.heading[1] for gap in capture_quality.GAPS if " ".join(gap.heading) in text] == columns


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"Ethernet": 1}, "All frames are plain Ethernet (no tag, no tunnel)"),
        ({"none": 1}, "All frames start with IP (no Ethernet, no tunnel)"),
        ({"Ethernet": 0.9, "Ethernet/VLAN": 0.1}, "2 encapsulations; 90.0 % of frames are plain Ethernet (no tag, no"),
        ({"Ethernet/VLAN": 0.9, "Ethernet": 0.1}, "2 encapsulations; 90.0 % of frames have just Ethernet/VLAN"),
    ],
)
def test_frames_with_nothing_around_ethernet_are_called_plain(shares, said):
    ranked = [{"encapsulation": name, "share": share} for name, share in shares.items()]
    assert encapsulations.title(ranked).replace("\N{NO-BREAK SPACE}", " ").startswith(said)


def test_packets_that_icmp_quotes_are_not_taken_for_tunnels():
    assert encapsulations.quoted([{"encapsulation": "Ethernet/IPv4/UDP/VXLAN/Ethernet"}]) == ()
    assert "quotes" in encapsulations.quoted([{"encapsulation": "Ethernet/IPv6/ICMPv6"}])[0]


@pytest.mark.parametrize(("campaign", "on_top"), [("hostile", True), ("thirty_sites", False)])
def test_sites_lie_on_the_broad_line_of_all_while_they_have_names(campaign, on_top, campaigns, svg):
    spec = module("flow_sizes").draw(campaigns[campaign]).chart.to_dict()
    lines = list(dict.fromkeys(row["line"] for row in spec["data"]["values"]))
    assert (lines[0] == "all sites, stitched across samples") == on_top
    widths = set(re.findall(r'stroke-width="([0-9.]+)"[^>]*stroke-dasharray', svg("flow_sizes", campaign)))
    assert "4" in widths
    assert ("1.4" if on_top else "0.9") in widths


def times(measure: str, counts: dict[int, int], flows: int) -> list[dict]:
    """The rows of flow_times of one scope and measure: flows that reach each threshold."""
    row = {"scope": "campaign", "site": "all", "measure": measure, "flows": flows, "samples": 1}
    return [{**row, "value": value, "flows_ge": n, "ccdf": n / flows} for value, n in counts.items()]


@pytest.mark.parametrize(
    ("rows", "panels", "said"),
    [
        (
            [*times("duration_ns", {10**6: 8, 10**9: 4}, 8), *times("rate_bps", {1000: 6, 10**6: 3}, 6)],
            2,
            "Half of 8 directed flows last less than 1 s; half of 6 rates are below 1 Mbit/s",
        ),
        (times("duration_ns", {10**6: 8, 10**9: 4}, 8), 1, "Half of 8 directed flows last less than 1 s"),
        (times("duration_ns", {1: 3, 10**9: 1}, 8), 1, "5 of 8 directed flows are of one instant"),
        (times("duration_ns", {10**6: 8}, 8), 1, "Durations and rates of 8 directed flows"),
    ],
)
def test_durations_and_rates_tell_their_middles_and_only_what_is_there(rows, panels, said, tmp_path):
    write_table(tmp_path, "capture_quality", [{"site": "S0", "sample": "a", "frames": 99}])
    write_table(tmp_path, "flow_times", rows)
    figure = compose.drawn("flow_times", Source(Campaign(tmp_path)))
    assert figure.title.replace("\N{NO-BREAK SPACE}", " ") == said
    assert len(figure.spec["concat"][0]["hconcat"]) == panels


def test_the_caption_says_how_a_capture_without_times_counts_as_watched(tmp_path):
    source = Source(Campaign(write_tables(tmp_path / "made", sites=1)))
    said = "from their first to their last frame"
    assert said not in " ".join(throughput.draw(source).key)
    source.quality[0]["actual_by"] = "frames"
    assert said in " ".join(throughput.draw(source).key)


def test_the_quality_says_what_was_not_read_behind_a_fault(tmp_path):
    source = Source(Campaign(write_tables(tmp_path / "made", sites=1)))
    assert "Not read" not in " ".join(capture_quality.draw(source).key)
    for row, unread in zip(source.quality, (2_300_000, None, 200_000), strict=False):
        row["file_unread_bytes"] = unread
    said = " ".join(capture_quality.draw(source).key).replace("\N{NO-BREAK SPACE}", " ")
    assert "Not read behind a fault: 2.5 MB of 2 files; frames in them are in no panel." in said


@pytest.mark.parametrize("top", range(4, 12))
def test_labels_of_neighbouring_ticks_have_room(top, tmp_path):
    write_table(tmp_path, "capture_quality", [{"site": "S0", "sample": "a", "frames": 99}])
    spread = {10**power: top + 1 - power for power in range(3, top + 1)}
    rows = [*times("duration_ns", {10**6: 8, 10**9: 4}, 8), *times("rate_bps", spread, top)]
    write_table(tmp_path, "flow_times", rows)
    figure = compose.drawn("flow_times", Source(Campaign(tmp_path)))
    rates = figure.spec["concat"][0]["hconcat"][1]
    x = rates["encoding"]["x"]
    low, high = (math.log10(end) for end in x["scale"]["domain"])
    every = 3 if " % 3 == 0 ? " in x["axis"]["labelExpr"] else 1  # ticks with a label
    powers = [power for value in x["axis"]["values"] if (power := round(math.log10(value))) % every == 0]
    places = [rates["width"] * (power - low) / (high - low) for power in powers]
    units = ("bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
    widths = [text_width([f"{10 ** (power % 3)} {units[power // 3]}"]) for power in powers]
    assert len(places) > 1
    for (left, right), (one, other) in zip(pairwise(places), pairwise(widths), strict=True):
        assert right - left > (one + other) / 2


def test_flows_of_one_instant_have_no_durations_to_draw(tmp_path):
    write_table(tmp_path, "capture_quality", [{"site": "S0", "sample": "a", "frames": 99}])
    write_table(tmp_path, "flow_times", times("duration_ns", {1: 0}, 5))
    figure = compose.drawn("flow_times", Source(Campaign(tmp_path)))
    assert figure.empty and "no flow has more than one frame" in figure.description + str(figure.spec)


def test_shades_of_lengths_stay_apart_in_grey():
    def grey(colour):
        red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    for colours in ((*STANDARD, *JUMBO), LEVELS):
        greys = [grey(colour) for colour in colours]
        assert all(light - dark > 12 for light, dark in pairwise(greys))


def test_intervals_are_drawn_where_the_table_has_them_alone(svg):
    def intervals(campaign):
        return len(re.findall(r'stroke="#000000" stroke-width="1.6"', svg("header_occurrence", campaign)))

    assert intervals("one_site") > 5
    assert intervals("one_sample") == 0


def test_wider_bins_keep_every_byte_and_every_gap(campaigns):
    rows = campaigns["one_site"].rows("throughput")
    ports = defaultdict(list)
    for row in rows:
        ports[row["site"], row["port"]].append(row)
    bins, bin_ns = throughput.binned(ports, gapless=False)
    step = rows[0]["bin_ns"]
    assert bin_ns > step
    assert bin_ns % step == 0
    assert sum(row["frames"] for row in bins) == sum(row["frames"] for row in rows)
    origin = min(row["start_ns"] for row in rows)
    watched = {(row["port"], (row["start_ns"] - origin) // bin_ns * bin_ns) for row in rows}
    assert {(row["port"], row["start"]) for row in bins} == watched
    one = bins[0]
    own = [r for r in ports[one["key"]] if one["start"] <= r["start_ns"] - origin < one["end"]]
    expected = 8e9 * sum(r["wire_bytes"] for r in own) / sum(r["covered_ns"] for r in own)
    assert one["rate"] == round(expected)


def test_gaps_of_years_are_left_out(tmp_path):
    folder = write_tables(tmp_path / "made", sites=1)
    move_back(folder / "tables" / "throughput.csv", port="1", years=10)
    figure = compose.drawn("throughput", Source(Campaign(folder)))
    assert "time watched at each port, gaps left out (s)" in words(svg_of(figure))
    bins = figure.spec["concat"][0]["vconcat"][0]["data"]["values"]
    assert [row["x"] for row in bins] == list(range(len(bins)))


def move_back(path, *, port, years):
    """Rewrite a throughput table so that one port was watched years before the others."""
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        if row["port"].endswith(port):
            row["start_ns"] = int(row["start_ns"]) - years * 365 * 86400 * 10**9
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_a_pdf_finds_all_its_objects(svg):
    content = pdf_of(svg("capture_quality", "one_site"))
    start = int(re.search(rb"startxref\n(\d+)\n", content)[1])
    table = content[start:].split(b"trailer")[0].splitlines()[2:]
    assert len(table) > 20
    for number, entry in enumerate(table):
        offset, _, used = entry.split()
        if used == b"n":
            assert content[int(offset) :].startswith(b"%d 0 obj" % number)


def test_names_from_outside_stay_text(campaigns, tmp_path):
    paths = save(compose.drawn("header_depth", campaigns["hostile"]), tmp_path, "header_depth", ["svg", "html"])
    for path in paths:
        content = path.read_text(encoding="utf-8")
        assert "alert(" in content  # the name is there,
        assert "<script>alert" not in content  # but never as markup
        assert "<img src=x" not in content


def test_more_ports_than_a_page_holds_are_their_sites_busiest(campaigns):
    figure = compose.drawn("throughput", campaigns["long_names"])
    assert figure.title.startswith("30\N{NO-BREAK SPACE}ports")
    assert "of each site its busiest port" in figure.description
