"""Tests the warnings of the report: flaws of captures, samples that are missing or excluded, notes of manifests."""

import json
from pathlib import Path

import pytest
from acapella_testing.generated.generated_report import note, quality_with
from acapella_testing.generated.tiny import add_sample, flow
from acapella_testing.new_files import write_file
from acapella_testing.runs.stages import analyze_campaign, rows
from acapella_testing.svg_text import with_spaces

from acapella.campaign.layout import Campaign
from acapella.figures import quality
from acapella.figures.source import Source
from acapella.report import notes, summary, tables, warnings


def test_flawless_campaign_has_no_warning(tmp_path):
    assert warnings.collect(quality_with(tmp_path)) == []


@pytest.mark.soak
def test_capture_counted_twice_is_a_warning(tmp_path):
    """The same frames as two samples of a port: the peak rate and the flow's bytes are twice the traffic."""
    found = []
    for sample in ("a", "b"):
        add_sample(tmp_path, sample, ("WEST", "p1"), (0, 20), [flow(1, 19)])
        analyze_campaign(tmp_path)
        (stitched,) = rows(tmp_path, "stitched_flows")
        found.append((max(row["rate_bps"] for row in rows(tmp_path, "throughput")), stitched["wire_bytes"]))
    assert found[1] == (2 * found[0][0], 2 * found[0][1])
    (warning,) = [text for text in map(with_spaces, warnings.collect(Source(Campaign(tmp_path)))) if "overlap" in text]
    assert warning.startswith("2 samples of 2 overlap in time with another sample of their port: a, b. A frame in ")


SAMPLE = {"site": "S", "port": "p", "direction": "both", "frames": 1, "sha256": None}


def quality_rows(**spans: tuple) -> list[dict]:
    """Return rows of capture_quality: name=(start, end, changes)."""
    return [
        {**SAMPLE, "sample": name, "actual_start_ns": start, "actual_end_ns": end, **changes}
        for name, (start, end, changes) in spans.items()
    ]


@pytest.mark.parametrize(
    ("years", "expected"),
    [
        ([0, 0.5, 1.2, 2.1], None),
        ([5, 0, 5.1, 5.2], "No sample starts in the 1,826 d between b and a; 1 sample of 4 on one side: b."),
        (
            [0, 0.1, 3, 3.1, 3.2, None],
            "No sample starts in the 1,059 d between b and c; 2 samples of 6 on one side: a, b.",
        ),
    ],
)
def test_samples_dated_over_a_year_from_the_others_are_named(years, expected):
    starts = zip("abcdef", years, strict=False)
    spans = {name: (year and int(year * 31_557_600 * 10**9), year, {"misdated": False}) for name, year in starts}
    warning = warnings.far_apart(quality_rows(**spans))
    assert (warning is None) == (expected is None)
    assert with_spaces(warning or "").startswith(expected or "")


@pytest.mark.parametrize(
    ("spans", "found"),
    [
        ({"a": (0, 9, {}), "b": (9, 20, {}), "c": (20, 30, {})}, set()),
        ({"a": (0, 9, {}), "b": (1, 3, {}), "c": (4, 5, {}), "d": (9, 12, {})}, {"a", "b", "c"}),
        ({"a": (0, 9, {}), "b": (0, 9, {"port": "q"}), "c": (0, 9, {"site": "T"})}, set()),
        ({"a": (0, 9, {"direction": "rx"}), "b": (0, 9, {"direction": "tx"})}, set()),
        ({"a": (0, 9, {"direction": "rx"}), "b": (0, 9, {"direction": None})}, {"a", "b"}),
        ({"a": (None, None, {}), "b": (None, None, {})}, set()),
        ({"a": (0, 9, {"sha256": "1"}), "b": (0, 9, {"sha256": "1"})}, set()),
    ],
)
def test_samples_of_a_port_overlap_if_they_may_have_the_same_frames(spans, found):
    named = (warnings.overlapping(quality_rows(**spans)) or "").partition("of their port: ")[2].partition(".")[0]
    assert set(filter(None, named.split(", "))) == found


def test_samples_with_the_same_capture_are_named():
    same = {"sha256": "1"}
    changes = {"a": same, "b": same | {"port": "q"}, "c": {"sha256": "2"}, "d": {}, "e": {}}
    rows = quality_rows(**{name: (0, 9, change) for name, change in changes.items()})
    warning = with_spaces(warnings.repeated(rows))
    assert warning.startswith("2 samples of 5 have the same capture as another sample (SHA-256), so")
    assert ": a, b. Exclude all but one" in warning
    assert warnings.repeated(rows[2:]) is None


def test_bounds_of_mirror_loss_are_equal_in_figures_and_warnings():
    """One sample has the higher lower bound, the other the higher upper bound: neither is the worst."""
    uncounted = {"mirror_verdict": "congested", "mirror_offered": None, "mirror_delivered": None}
    rows = quality_rows(a=(0, 9, uncounted), b=(0, 9, uncounted))
    rows[0] |= {"mirror_loss_low": 0.30, "mirror_loss_high": 0.42}
    rows[1] |= {"mirror_loss_low": 0.05, "mirror_loss_high": 0.90}
    bounds = "at least 5.00 % to 30.0 % of bytes missing, at most 42.0 % to 90.0 % lost by the mirror"
    assert with_spaces(quality.mirror_loss_bounds(rows)) == bounds
    assert bounds in with_spaces(warnings.congested(rows))
    assert bounds in with_spaces(quality.mirror_loss(rows)[0])


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"one_in": 4, "sampled_out": 9}, "One in 4 received frames kept in 1 sample of 4; counts"),
        ({"filtered": True}, "Only frames passed by a filter or a P4 program kept in 1 sample of 4: S0-p0-0000."),
        ({"lost_frames": 5, "loss_share": 0.02}, "1 sample of 4 lost frames, up to 2.00 % of those offered"),
        (
            {"lost_frames": None, "loss_share": None, "dropped_kernel": None, "loss_stages_known": 0},
            "The loss of 1 sample of 4 is unknown",
        ),
        (
            {"mirror_verdict": "congested", "mirror_loss_low": 0.25, "mirror_loss_high": 0.5, "mirror_delivered": None},
            "The mirror of 1 sample of 4 was congested, at least 25.0 % of bytes missing, at most 50.0 % lost",
        ),
        (
            {"mirror_verdict": "at risk", "mirror_loss_low": 0, "mirror_loss_high": 0.02, "mirror_delivered": None},
            "The mirror of 1 sample of 4 may have lost frames in bursts, at least 0 % of bytes missing, at most 2.00 %",
        ),
        ({"clock_resolution_ns": 1_000_000}, "1 sample with a timestamp resolution of 1 ms (S0-p0-0000): shorter"),
        (
            {"file_issue": "cut_record"},
            "1 file could not be read to the end (all complete records before the error are kept)",
        ),
        (
            {"file_issue": "bad_caplen", "file_unread_bytes": 2_300_000},
            "1 file could not be read to the end (all complete records before the error are kept; 2.3 MB after it ",
        ),
        ({"untimed_frames": 3}, "3 frames ("),
        ({"time_reversals": 3}, "3 frames with an earlier timestamp"),
        ({"issue_frames": 7}, "7 frames ("),
        ({"undissected_frames": 7}, "7 frames ("),
        ({"frames": 0}, "1 sample without frames: S0-p0-0000"),
        ({"app_undecided_frames": 9}, "9 frames with payload that was not dissected"),
        ({"l4_unsure_frames": 2}, "2 frames whose headers"),
        ({"peers_ambiguous": 2}, "2 flows with several candidates"),
    ],
)
def test_flaws_of_samples_are_warnings(changes, warning, tmp_path):
    (found,) = warnings.collect(quality_with(tmp_path, **changes))
    assert with_spaces(found).startswith(warning)


def test_report_states_excluded_samples_and_frames_for_each_reason(tmp_path):
    source = quality_with(tmp_path, restriction="trial, filter", excluded="trial, filter", filtered=True)
    frames, total = source.quality[0]["frames"], sum(row["frames"] for row in source.quality)
    assert [with_spaces(text) for text in warnings.collect(source)] == [
        f"1 sample of 4 with {frames:,} frames excluded from traffic statistics (trial, filter): S0-p0-0000. "
        "To include them, set analysis.traffic: all."
    ]
    facts = {name: with_spaces(value) for name, value in summary.facts(source)}
    assert facts["In traffic statistics"] == f"3 of 4 samples, {total - frames:,} of {total:,} frames"
    (quality,) = [table for table in tables.report_tables(source) if table["name"] == "capture_quality"]
    place = [name for name, _ in quality["columns"]].index("Excluded from statistics")
    assert [row[place] for row in quality["rows"]] == ["trial, filter", "", "", ""]


def test_coarse_timestamps_are_reported_for_each_resolution(tmp_path):
    source = quality_with(tmp_path)
    for row, step in zip(source.quality, (1000, 1_000_000, 1000, 100), strict=True):
        row["clock_resolution_ns"] = step
    names = [row["sample"] for row in source.quality]
    assert [with_spaces(text) for text in warnings.collect(source)] == [
        f"1 sample with a timestamp resolution of 1 ms ({names[1]}), "
        f"2 samples with a timestamp resolution of 1 µs ({names[0]}, {names[2]}): "
        "shorter gaps between frames are not measured."
    ]


def test_coarse_resolution_is_not_inferred_from_few_timestamps(tmp_path):
    source = quality_with(tmp_path)
    for row, frames, equal in zip(source.quality, (9, 11, 11, 10), (0, 0.2, 0.1, 0), strict=True):
        row.update(clock_resolution_ns=10_000, frames=frames, equal_stamps_share=equal)
    (text,) = warnings.collect(source)
    assert with_spaces(text).startswith(
        f"2 samples with a timestamp resolution of 10 µs ({source.quality[2]['sample']}"
    )


def collected(tmp_path, samples: int, **parameters) -> Source:
    """Return a campaign with 4 samples in the tables and ``samples`` in the sheet, processed with parameters."""
    source = quality_with(tmp_path)
    lines = "".join(f"s{n}\tS0\tp0\ts{n}.pcap\n" for n in range(samples))
    write_file(source.campaign.directory / "raw" / "samples.tsv", f"sample\tsite\tport\tfile\n{lines}")
    if parameters:
        set_parameters(source.campaign.directory, **parameters)
    return source


def set_parameters(directory: Path, **parameters) -> None:
    write_file(directory / "provenance" / "process.json", json.dumps({"parameters": parameters}))


def test_collected_samples_that_are_missing_are_counted(tmp_path):
    assert [with_spaces(text) for text in warnings.collect(collected(tmp_path, 6))] == [
        "2 collected samples of 6 not in this report; see logs/ for the reasons."
    ]


@pytest.mark.parametrize("pseudonyms", [False, True])
def test_excluded_samples_are_not_failures(pseudonyms, tmp_path):
    source = collected(tmp_path, 6, pseudonyms=pseudonyms)
    warning = "2 collected samples of 6 excluded by the config"
    expected = f"{warning}." if pseudonyms else f"{warning}: s1, s5."
    assert [with_spaces(text) for text in warnings.collect(source, ["s5", "s1", "other"])] == [expected]


FAILED = 'sample\tsite\tport\twhy\nstar-p1-0001\tSTAR\tp1\ttcpdump on STAR-1: failed: "no" space\n'
FAILED += "star-p1-0002\tSTAR\tp1\ttcpdump on STAR-1: failed\nutah-p9-0001\tUTAH\tp9\tno port p9\n"
MAPPING = "sample\tsite\tport\ttrue_sample\ttrue_site\ttrue_port\nS0-P0-0000\tS0\tP0\tstar-p1-0000\tSTAR\tp1\n"


@pytest.mark.parametrize(
    ("pseudonyms", "named"),
    [
        (
            False,
            'star-p1-0001 (tcpdump on STAR-1: failed: "no" space); star-p1-0002 (tcpdump on STAR-1: failed); '
            "utah-p9-0001 (no port p9).",
        ),
        (True, "S0 P0 (2 samples), another site another port. raw/failed.tsv lists the reasons."),
    ],
)
def test_failed_samples_are_listed_with_their_reasons_and_do_not_reveal_pseudonyms(pseudonyms, named, tmp_path):
    source = collected(tmp_path, 4, pseudonyms=pseudonyms)
    write_file(source.campaign.directory / "raw" / "failed.tsv", FAILED)
    write_file(source.campaign.directory / "pseudonyms.tsv", MAPPING)  # of an earlier run if pseudonyms is False
    text = f"3 samples of 7 were not collected and are not included in any number: {named}"
    assert [with_spaces(warning) for warning in warnings.collect(source)] == [text]


def test_note_lists_its_samples_and_their_loss(tmp_path):
    source = quality_with(tmp_path, lost_frames=None, loss_share=None)
    assert notes.tables(source) == []
    unknown, *known = source.quality
    for row in source.quality:
        note(source.campaign.directory, row["sample"], "all have it")
    replayed = "7 of 9 replayed frames are not in the capture"
    note(source.campaign.directory, known[0]["sample"], "all have it", replayed)
    note(source.campaign.directory, "left-out", "of no sample of the tables")
    (shown,) = notes.tables(source)
    assert unknown["lost_frames"] is None
    assert {row[-1]: row[1:3] for row in shown["rows"]} == {
        "all have it": [str(len(source.quality)), f"{sum(row['lost_frames'] for row in known)}, 1 unknown"],
        replayed: ["1", str(known[0]["lost_frames"])],
    }
    set_parameters(source.campaign.directory, pseudonyms=True)
    (shown,) = notes.tables(source)
    assert (shown["rows"], shown["columns"]) == ([], [])
    assert "all have it" not in shown["note"]
    assert "with notes in raw/" in shown["note"]
