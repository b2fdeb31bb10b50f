"""The report: one page that needs nothing, runs in Chromium without a complaint, and shows hostile names as text."""

import base64
import csv
import html
import json
import re
import shutil

import pytest
from made_tables import write_tables
from made_trials import odd_baseline, shapes, write_campaign

from acapella import cli
from acapella.campaign import Campaign
from acapella.figures.registry import NAMES, TRIALS
from acapella.figures.source import Source
from acapella.report import notes, page, summary, tables, trials, warnings

HOSTILE = ['<script>alert("x")</script>', "Site & Söns' 20 chars", "</script><img src=x onerror=alert(1)>"]
LINK = re.compile(r'(?:src|href)\s*=\s*"([^"]*)"')


def note(folder, sample: str, *notes: str) -> None:
    """A manifest, as far as the report looks at it."""
    (folder / "raw").mkdir(exist_ok=True)
    (folder / "raw" / f"{sample}.json").write_text(json.dumps({"notes": notes}), encoding="utf-8")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A report about sites with hostile names, and a hostile provenance."""
    folder = write_tables(tmp_path_factory.mktemp("report") / "a <b>campaign", names=HOSTILE)
    (folder / "provenance.json").write_text(json.dumps({"versions": {HOSTILE[0]: [HOSTILE[2]]}}), encoding="utf-8")
    for sample in [row["sample"] for row in Source(Campaign(folder)).quality if "/" not in row["sample"]][:3]:
        note(folder, sample, "no lldpd here, so no names of ports" * 3, f"{HOSTILE[0]} was noted")
    assert cli.main(["report", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def opened(hostile, browser):
    """The page in Chromium once its charts are drawn, and what the browser said and asked for meanwhile."""
    page, heard = browser.new_page(), []
    page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (heard.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: heard.append(request.url) if request.url.startswith("http") else None)
    page.goto((hostile / "report.html").as_uri())
    page.wait_for_function("n => document.querySelectorAll('figure.drawn').length === n", arg=len(NAMES))
    yield page, heard
    page.close()


def test_every_chart_is_drawn_and_nothing_is_said_or_fetched(opened):
    page, heard = opened
    for name in NAMES:
        marks = page.locator(f'[data-name="{name}"] svg .role-mark').locator("path, text, line, rect")
        assert marks.count() > 3, name
    assert heard == []


def test_the_pointer_shows_numbers(opened):
    page, _ = opened
    page.locator('[data-name="header_depth"] svg .mark-rect.role-mark path').first.hover()
    assert "distinct headers" in page.locator("#vg-tooltip-element").inner_text()


def test_hostile_names_are_shown_and_do_nothing(opened):
    page, _ = opened
    assert page.locator("h1").inner_text() == "a <b>campaign"
    cells = page.locator("#tables td").all_inner_texts()
    assert set(HOSTILE) <= set(cells)
    assert page.locator("main script:not([type='application/json'])").count() == 0
    assert page.locator("img:not([src^='data:image/svg+xml'])").count() == 0
    assert HOSTILE[2] in page.locator("#provenance").inner_text()


def test_notes_of_manifests_stand_under_the_quality_of_the_samples(opened):
    page, _ = opened
    headings = page.locator("#tables h3").all_inner_texts()
    assert headings[-2:] == ["Quality of each sample", "Notes on samples"]
    rows = [row.split("\t") for row in page.locator("[aria-labelledby='table-notes'] tbody tr").all_inner_texts()]
    assert {row[-1] for row in rows} == {"no lldpd here, so no names of ports" * 3, f"{HOSTILE[0]} was noted"}
    box = page.locator("[aria-labelledby='table-notes'] table").bounding_box()
    assert box["width"] <= page.locator("main").bounding_box()["width"], "it fits the page"


def test_a_note_has_its_samples_and_what_they_lost(tmp_path):
    source = quality_with(tmp_path, lost_frames="", loss_share="")
    assert notes.tables(source) == []
    (first, *others) = [row["sample"] for row in source.quality]
    unknown, *known = source.quality
    for sample in (first, *others):
        note(source.campaign.folder, sample, "all have it")
    note(source.campaign.folder, others[0], "all have it", "7 of 9 replayed frames are not in the capture")
    note(source.campaign.folder, "left-out", "of no sample of the tables")
    (shown,) = notes.tables(source)
    assert unknown["lost_frames"] is None
    assert {row[-1]: row[1:3] for row in shown["rows"]} == {
        "all have it": [str(len(source.quality)), f"{sum(row['lost_frames'] for row in known)}, 1 unknown"],
        "7 of 9 replayed frames are not in the capture": ["1", str(known[0]["lost_frames"])],
    }
    provenance = source.campaign.folder / "provenance.json"
    provenance.write_text(json.dumps({"parameters": {"pseudonyms": True}}), encoding="utf-8")
    (shown,) = notes.tables(source)
    assert (shown["rows"], shown["columns"]) == ([], [])
    assert "all have it" not in shown["note"] and "with notes in raw/" in shown["note"]


def test_print_shows_each_picture_once(opened):
    page, _ = opened
    page.emulate_media(media="print")
    shown = [page.locator("figure img:visible").count(), page.locator("figure .vega-embed:visible").count()]
    page.emulate_media(media="screen")
    assert shown == [len(NAMES), 0]


def test_without_javascript_every_picture_is_there(hostile, browser):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.goto((hostile / "report.html").as_uri())
    sizes = page.locator("figure img").evaluate_all("all => all.map(i => [i.naturalWidth, i.alt.length])")
    page.context.close()
    assert len(sizes) == len(NAMES)
    assert all(width > 400 and alt > 40 for width, alt in sizes)


def test_the_page_holds_all_that_it_links_to(hostile):
    page = (hostile / "report.html").read_text(encoding="utf-8")
    links = [link for link in LINK.findall(page.split("<script>")[0]) if not link.startswith(("data:", "#"))]
    assert links == []
    assert "default-src 'none'" in html.unescape(page)
    assert "unsafe-eval" not in page
    assert page.count("window.vegaEmbed=") == 1


def test_a_table_can_be_had_from_the_page(hostile):
    page = (hostile / "report.html").read_text(encoding="utf-8")
    link = re.search(r'href="data:text/csv;base64,([^"]+)" download="header_depth.csv"', page)
    assert base64.b64decode(link[1]) == (hostile / "tables" / "header_depth.csv").read_bytes()


def test_a_large_table_is_linked_to_and_not_carried(tmp_path):
    folder = write_tables(tmp_path / "made", sites=1)
    path = folder / "tables" / "throughput.csv"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text(lines[0] + "".join(lines[1:]) * 60, encoding="utf-8")
    assert cli.main(["report", str(folder)]) == 0
    assert '<a href="tables/throughput.csv">' in (folder / "report.html").read_text(encoding="utf-8")


def test_same_tables_give_the_same_page(tmp_path):
    pages = []
    for name in ("a", "b"):
        folder = write_tables(tmp_path / name / "made", sites=1)
        assert cli.main(["report", str(folder)]) == 0
        pages.append((folder / "report.html").read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.parametrize("shape", [{"names": [], "sites": 0}, {"frames": 0}])
def test_a_campaign_without_data_has_a_report(shape, tmp_path):
    folder = write_tables(tmp_path / "made", **shape)
    assert cli.main(["report", str(folder)]) == 0
    assert "no data" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "fix"), [("provenance.json", "acapella process"), ("tables/tcp_control.csv", "acapella process")]
)
def test_a_missing_file_names_the_stage_to_run(name, fix, tmp_path, capsys):
    folder = write_tables(tmp_path / "made", sites=1)
    (folder / name).unlink()
    capsys.readouterr()
    assert cli.main(["report", str(folder)]) == 2
    error = capsys.readouterr().err
    assert f"{name}: no such file; run: {fix} {folder}" in error
    assert error.count("\n") == 1
    assert not (folder / "report.html").exists()


def quality_with(tmp_path, **changes) -> Source:
    """A campaign of 4 flawless samples whose first one is changed."""
    folder = write_tables(tmp_path / "made", sites=1, ports=1)
    path = folder / "tables" / "capture_quality.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    flawless = {
        "lost_frames": 0,
        "dropped_kernel": 0,
        "loss_share": 0,
        "loss_stages_known": 4,
        "clock_resolution_ns": 1,
    }
    for row in rows:
        row.update(flawless, issue_frames=0, time_reversals=0, untimed_frames=0)
    rows[0].update(changes)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return Source(Campaign(folder))


def test_a_flawless_campaign_has_no_warning(tmp_path):
    assert warnings.of(quality_with(tmp_path)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"one_in": 4, "sampled_out": 9}, "In 1 sample of 4 is one frame in 4 of those that came, and all counts"),
        ({"filtered": "true"}, "In 1 sample of 4 is only what a filter or a P4 program passes: S0-p0-0000."),
        ({"lost_frames": 5, "loss_share": 0.02}, "1 sample of 4 lost frames, the worst 2.00 %"),
        (
            {"lost_frames": "", "loss_share": "", "dropped_kernel": "", "loss_stages_known": 0},
            "The loss of 1 sample of 4 is unknown",
        ),
        (
            {
                "mirror_verdict": "congested",
                "mirror_loss_low": 0.25,
                "mirror_loss_high": 0.5,
                "mirror_delivered": "",
            },
            "The mirror of 1 sample of 4 was congested, at worst 25.0 % to 50.0 % of the bytes: S0-p0-0000.",
        ),
        (
            {"mirror_verdict": "at risk", "mirror_loss_low": 0, "mirror_loss_high": 0.02, "mirror_delivered": ""},
            "The mirror of 1 sample of 4 may have lost frames in bursts, at worst 0 % to 2.00 % of the bytes",
        ),
        ({"clock_resolution_ns": 1_000_000}, "1 sample with stamps no finer than 1 ms (S0-p0-0000): shorter"),
        (
            {"file_issue": "cut_record"},
            "1 file could not be read to the end (every whole record before the fault is kept)",
        ),
        (
            {"file_issue": "bad_caplen", "file_unread_bytes": 2_300_000},
            "1 file could not be read to the end (every whole record before the fault is kept; 2.3 MB behind the ",
        ),
        ({"untimed_frames": 3}, "3 frames ("),
        ({"time_reversals": 3}, "3 frames stamped earlier"),
        ({"issue_frames": 7}, "7 frames ("),
        ({"frames": 0}, "1 sample without a frame: S0-p0-0000"),
        ({"app_undecided_frames": 9}, "9 frames with payload that no engine looked into"),
        ({"l4_unsure_frames": 2}, "2 frames whose headers"),
        ({"peers_ambiguous": 2}, "2 flows with several candidates"),
    ],
)
def test_each_flaw_is_warned_of(changes, said, tmp_path):
    found = [text.replace("\N{NO-BREAK SPACE}", " ") for text in warnings.of(quality_with(tmp_path, **changes))]
    assert any(text.startswith(said) for text in found), found
    assert len(found) == 1


def plain(text: str) -> str:
    """A text with spaces for no-break spaces."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_report_states_excluded_samples_and_frames_for_each_reason(tmp_path):
    source = quality_with(tmp_path, restriction="trial, filter", excluded="trial, filter", filtered="true")
    frames = source.quality[0]["frames"]
    assert [plain(text) for text in warnings.of(source)] == [
        f"1 sample of 4 with {frames:,} frames excluded from traffic statistics (replayed trial, filter): S0-p0-0000. "
        "To count them: analysis.traffic: all."
    ]
    facts = {name: plain(value) for name, value in summary.facts(source)}
    total = sum(row["frames"] for row in source.quality)
    assert facts["In traffic statistics"] == f"3 of 4 samples, {total - frames:,} of {total:,} frames"
    (quality,) = [table for table in tables.of(source) if table["name"] == "capture_quality"]
    assert [row[-1] for row in quality["rows"]] == ["replayed trial, filter", "", "", ""]


def test_tables_of_the_report_name_the_filter_of_all_samples(tmp_path):
    folder = write_tables(tmp_path / "made", sites=1, restriction=("filter", "filter tcp port 443"))
    source = Source(Campaign(folder))
    titles = {table["name"]: table["title"] for table in tables.of(source)}
    for name in ("top_flows", "applications", "ip_versions", "tcp_control"):
        assert titles[name].endswith(" (samples: filter tcp port 443)"), titles[name]
    assert titles["capture_quality"] == "Quality of each sample"
    assert "restrictions" in titles
    assert any("filter tcp port 443" in text for text in warnings.of(source))


def test_coarse_stamps_are_told_for_each_resolution(tmp_path):
    source = quality_with(tmp_path)
    for row, step in zip(source.quality, (1000, 1_000_000, 1000, 100), strict=True):
        row["clock_resolution_ns"] = step
    names = [row["sample"] for row in source.quality]
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in warnings.of(source)] == [
        f"1 sample with stamps no finer than 1 ms ({names[1]}), "
        f"2 samples with stamps no finer than 1 µs ({names[0]}, {names[2]}): shorter gaps between frames are not real."
    ]


def test_captures_from_files_are_not_called_samples_of_a_testbed(tmp_path):
    source = quality_with(tmp_path)
    assert "testbed" in summary.lead(source)
    assert "Time in samples" in dict(summary.facts(source))
    for row in source.quality:
        row["method"] = "file"
    assert "testbed" not in summary.lead(source)
    told = dict(summary.facts(source))
    assert "First to last frame, files added up" in told
    assert "mirrored" not in told["Sites"]


def test_provenance_has_words_for_its_parts(tmp_path):
    folder = write_tables(tmp_path / "made", sites=1)
    told = {"acapella_provenance": 1, "else": 2, "outputs": {"a": "b"}, "versions": {"acapella": "0"}}
    (folder / "provenance.json").write_text(json.dumps(told), encoding="utf-8")
    parts = page.provenance_of(Campaign(folder))
    assert [part["key"] for part in parts] == ["versions", "outputs", "acapella_provenance", "else"]
    assert [part["label"] for part in parts][2:] == ["Version of provenance.json's format", "else"]


def test_samples_that_failed_are_counted(tmp_path):
    source = quality_with(tmp_path)
    raw = source.campaign.folder / "raw"
    raw.mkdir()
    lines = "".join(f"s{n}\tS0\tp0\ts{n}.pcap\n" for n in range(6))
    (raw / "samples.tsv").write_text("sample\tsite\tport\tfile\n" + lines, encoding="utf-8")
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in warnings.of(source)] == [
        "2 collected samples of 6 not in this report; logs/ says why."
    ]


@pytest.mark.parametrize("pseudonyms", [False, True])
def test_excluded_samples_are_no_failures(pseudonyms, tmp_path):
    source = quality_with(tmp_path)
    folder = source.campaign.folder
    (folder / "raw").mkdir()
    lines = "".join(f"s{n}\tS0\tp0\ts{n}.pcap\n" for n in range(6))
    (folder / "raw" / "samples.tsv").write_text("sample\tsite\tport\tfile\n" + lines, encoding="utf-8")
    (folder / "provenance.json").write_text(json.dumps({"parameters": {"pseudonyms": pseudonyms}}), encoding="utf-8")
    said = "2 collected samples of 6 excluded by the config"
    expected = f"{said}." if pseudonyms else f"{said}: s1, s5."
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in warnings.of(source, ["s5", "s1", "other"])] == [
        expected
    ]


FAILED = """sample\tsite\tport\twhy
star-p1-0001\tSTAR\tp1\ttcpdump on STAR-1: failed: "no" space
star-p1-0002\tSTAR\tp1\ttcpdump on STAR-1: failed
utah-p9-0001\tUTAH\tp9\tno port p9
"""
MAPPING = "sample\tsite\tport\ttrue_sample\ttrue_site\ttrue_port\nS0-P0-0000\tS0\tP0\tstar-p1-0000\tSTAR\tp1\n"


def warned_of_what_was_not_taken(source, *, pseudonyms: bool) -> list[str]:
    folder = source.campaign.folder
    (folder / "raw").mkdir()
    (folder / "raw" / "failed.tsv").write_text(FAILED, encoding="utf-8")
    lines = "".join(f"s{n}\tS0\tp0\ts{n}.pcap\n" for n in range(4))
    (folder / "raw" / "samples.tsv").write_text("sample\tsite\tport\tfile\n" + lines, encoding="utf-8")
    (folder / "pseudonyms.tsv").write_text(MAPPING, encoding="utf-8")  # also of an earlier run, without a meaning now
    (folder / "provenance.json").write_text(json.dumps({"parameters": {"pseudonyms": pseudonyms}}), encoding="utf-8")
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in warnings.of(source)]


def test_samples_that_could_not_be_taken_are_named_with_their_reasons(tmp_path):
    assert warned_of_what_was_not_taken(quality_with(tmp_path), pseudonyms=False) == [
        "3 samples of 7 could not be taken, and no number here knows of them: "
        'star-p1-0001 (tcpdump on STAR-1: failed: "no" space); star-p1-0002 (tcpdump on STAR-1: failed); '
        "utah-p9-0001 (no port p9)."
    ]


def test_samples_that_could_not_be_taken_do_not_give_pseudonyms_away(tmp_path):
    assert warned_of_what_was_not_taken(quality_with(tmp_path), pseudonyms=True) == [
        "3 samples of 7 could not be taken, and no number here knows of them: "
        "S0 P0 (2 samples), another site another port. raw/failed.tsv says why."
    ]


def test_an_unknown_loss_is_a_question_mark_in_the_table(tmp_path):
    source = quality_with(tmp_path, lost_frames="", loss_share="")
    table = tables.quality(source)
    column = [heading for heading, _ in table["columns"]].index("Loss")
    assert [row[column].replace("\N{NO-BREAK SPACE}", " ") for row in table["rows"]] == ["?", "0 %", "0 %", "0 %"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A report on trials in three environments."""
    folder = write_campaign(tmp_path_factory.mktemp("report") / "compared", shapes(2))
    assert cli.main(["trials", str(folder), "--environments", *shapes(2)]) == 0
    assert cli.main(["conformance", "-o", str(folder / "tables")]) == 0
    assert cli.main(["report", str(folder), "--trials"]) == 0
    return folder


def test_the_comparison_says_which_baseline_is_odd_and_where_nobody_can_tell(tmp_path, compared):
    note = trials.compared(Source(Campaign(compared)))["note"]
    assert (
        "Of quiet, noisy and shared every kappa is against the first trial alone" in note
        and "The first trial of" not in note
    )
    runs = [{"I": 0.3, "warnings": [odd_baseline("quiet-1")]}] * 2
    folder = write_campaign(tmp_path, {"quiet": runs, "loaded": [{}] * 2}, all_pairs=True)
    assert cli.main(["trials", str(folder), "--environments", "quiet", "loaded"]) == 0
    table = trials.compared(Source(Campaign(folder)))
    assert "The first trial of quiet is the odd one" in table["note"] and "does not show" not in table["note"]
    column = [heading for heading, _ in table["columns"]].index("Others")
    assert [row[column] for row in table["rows"]] == ["0.8500", "0.9850"]


def test_a_warning_of_several_trials_is_told_once_with_their_number(tmp_path):
    def coarse(trial: int) -> dict:
        text = f"the clock of trial quiet-{trial} is coarse: {trial}0 packets."
        return {"code": "coarse_clock", "components": ["O", "L", "I"], "text": text}

    runs = [{"warnings": [coarse(n)]} for n in (2, 3, 10)] + [{}]
    folder = write_campaign(tmp_path, {"quiet": runs, "loaded": [{"warnings": [coarse(2)]}] * 2})
    assert cli.main(["trials", str(folder), "--environments", "quiet", "loaded"]) == 0
    assert trials.warnings(Source(Campaign(folder))) == [
        "quiet, 3 of 5 trials (O, L and I): the clock of trial quiet-2 is coarse: 20 packets. The others likewise; "
        "consistency_warnings.csv has the numbers of each.",
        "loaded, runs B and C (O, L and I): the clock of trial quiet-2 is coarse: 20 packets.",
    ]


def test_the_section_on_trials_compares_environments_and_draws_its_figures(compared, browser):
    page, heard = browser.new_page(), []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.goto((compared / "report.html").as_uri())
    page.wait_for_function("n => document.querySelectorAll('figure.drawn').length === n", arg=len(NAMES) + len(TRIALS))
    rows = page.locator("[aria-labelledby='table-consistency_environments'] tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in rows] == ["quiet", "noisy", "shared"]
    assert "0.9848" in rows[0]
    warned = page.locator("#consistency .warnings li").all_inner_texts()
    assert warned == ["noisy, runs B and C (O, L and I): the clock of trial noisy-1 is coarse."]
    for name in TRIALS:
        assert page.locator(f'#consistency [data-name="{name}"] svg .role-mark').count() > 0, name
    assert page.locator("#table-kappa_published").count() == 1
    assert "Trials. Inputs" in page.locator("#provenance").inner_text()
    assert heard == []
    page.close()


def test_without_trials_there_is_no_section_about_them(hostile):
    page = (hostile / "report.html").read_text(encoding="utf-8")
    assert 'id="consistency"' not in page
    assert 'href="#consistency"' not in page


def test_undefined_components_are_words_and_no_zero(tmp_path):
    folder = write_campaign(tmp_path, {"quiet": [{"common": 0}]})
    assert cli.main(["trials", str(folder), "--environments", "quiet"]) == 0
    table = trials.compared(Source(Campaign(folder)))
    row = dict(zip((heading for heading, _ in table["columns"]), table["rows"][0], strict=True))
    assert (row["U"], row["O"], row["I"], row["L"], row["Kappa"]) == ("1", *["undefined"] * 3, "0")
    assert "1\N{NO-BREAK SPACE}run with undefined components" in table["note"]


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("tables/kappa_published.csv", "run: acapella conformance -o "),
        ("tables/consistency_moves.csv", "run: acapella trials "),
        ("consistency_provenance.json", "run: acapella trials "),
    ],
)
def test_a_missing_file_of_trials_names_the_stage_to_run(name, fix, compared, tmp_path, capsys):
    folder = shutil.copytree(compared, tmp_path / "copy")
    (folder / name).unlink()
    capsys.readouterr()
    assert cli.main(["report", str(folder), "--trials"]) == 2
    assert f"{name}: no such file; {fix}" in capsys.readouterr().err
