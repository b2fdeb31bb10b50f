"""Tests the tables of transfers against hand-computed values, and the handling of unusable files."""

import json

import pytest
from acapella_testing.generated import generated_transfers as made
from acapella_testing.generated.transfer_tables import rows, tables
from acapella_testing.new_files import new_directory, write_file

from acapella.campaign.layout import Campaign
from acapella.figures import transfer_ratios, transfer_throughput
from acapella.figures.source import NoData, Source
from acapella.transfer import settings
from acapella_core.errors import UserError

SECOND = 10**9
TWO_FLOWS = [made.document(made.Sent(8, 8, seconds, seconds)) for seconds in (2.0, 1.0)]


def test_values_of_one_cell_match_values_computed_by_hand(tmp_path):
    streams = [
        made.Sent(5_000_000, 4_000_000, 2.0, 4.0, 10, 50_000),
        made.Sent(5_000_000, 2_000_000, 2.0, 4.0, 5, 70_000),
    ]
    made.cell(tmp_path, "a", [made.document(*streams)], settings={"streams": 2})
    columns = "flow, stream, local_port, sent_bytes, sender_ns, bytes, completion_ns, throughput_bps, retransmits"
    assert rows(tmp_path, "flows", columns) == [
        (0, 0, 40_005, 5_000_000, 2 * SECOND, 4_000_000, 4 * SECOND, 8_000_000, 10),
        (0, 1, 40_007, 5_000_000, 2 * SECOND, 2_000_000, 4 * SECOND, 4_000_000, 5),
    ]
    # 6 MB in 4 s; Jain: (8 + 4)^2 / (2 (64 + 16)) = 0.9; 102,400 B / (40 Mbit/s x 60 ms = 300,000 B) = 0.34133 BDP.
    found = "flows, bytes, completion_ns, throughput_bps, retransmits, rtt_min_ns, rtt_mean_ns, round(jain, 6), error"
    assert rows(tmp_path, "cells", found) == [
        (2, 6_000_000, 4 * SECOND, 12_000_000, 15, 25_000_000, 60_000_000, 0.9, None)
    ]
    assert rows(tmp_path, "cells", "round(buffer_bdp, 5), setting, flags, kernel") == [
        (0.34133, 1, "window_unknown", "6.1")
    ]
    found = "stream, place, start_ns, end_ns, bytes, throughput_bps, retransmits, omitted"
    assert rows(tmp_path, "intervals", found)[:2] == [
        (0, 1, 0, SECOND, 2_500_000, 20_000_000, 0, False),
        (0, 2, SECOND, 2 * SECOND, 2_500_000, 20_000_000, 10, False),
    ]
    assert rows(tmp_path, "settings", "runs, per_stream_bps_mean, per_stream_bps_low, per_stream_bps_high") == [
        (1, 6e6, 4e6, 8e6)
    ]


PROBED = [  # result of the probe of the emulated link, rate, and buffer in products of bandwidth and delay
    # 150,000 B / (20 Mbit/s x 60 ms = 150,000 B)
    ({"rate_bps": 20_000_000, "buffer_bytes": 150_000}, 20_000_000, 1.0),
    # The probe was too slow: the requested 300,000 B / (40 Mbit/s x 60 ms = 300,000 B)
    ({"rate_bps": 20_000_000, "buffer_bytes": 150_000, "rate_at_least_bps": 30_000_000}, 40_000_000, 1.0),
    ({"rate_bps": 20_000_000, "buffer_bytes": 30_000, "rate_at_least_bps": 30_000_000}, 40_000_000, 1.0),
    # At least 80 Mbit/s: 600,000 B
    ({"rate_bps": None, "buffer_bytes": None, "rate_at_least_bps": 80_000_000}, 80_000_000, 0.5),
    ({}, 40_000_000, 1.0),
]


def test_buffer_is_compared_with_the_requested_rate_if_the_probe_was_too_slow(tmp_path):
    for name, (probed, *_) in zip("abcde", PROBED, strict=True):
        measured = {"rtt_ns": 60_000_000, **probed}
        made.cell(tmp_path, name, [made.document()], measured=measured, settings={"buffer_bytes": 300_000})
    assert rows(tmp_path, "cells", "bottleneck_bps, buffer_bdp") == [(rate, bdp) for _, rate, bdp in PROBED]


def test_completion_of_parallel_processes_counts_from_the_first_start(tmp_path):
    made.cell(tmp_path, "a", TWO_FLOWS, flows=[{"started_ns": 10**18}, {"started_ns": 10**18 + 3 * SECOND}])
    assert rows(tmp_path, "cells", "completion_ns, first_end_ns") == [(4 * SECOND, 2 * SECOND)]
    assert rows(tmp_path, "flows", "flow, offset_ns") == [(0, 0), (1, 3 * SECOND)]


MS = 10**6


ERRORS = [  # largest errors of the starts of two flows, those of their offsets, and whether the run is flagged
    # The first flow sends at 0 to 10 ms, the second at 3000 to 3040 ms: 2990 to 3040 ms later. 1 % of 4 s is 40 ms.
    ((10 * MS, 40 * MS), (10 * MS, 40 * MS), False),
    ((10 * MS, 41 * MS), (10 * MS, 41 * MS), True),
    # The offset of the second flow may be 50 ms smaller: the first one may send 50 ms late.
    ((50 * MS, 0), (50 * MS, 50 * MS), True),
    ((None, 0), (None, None), True),
    ((0, None), (None, None), True),
]


def test_run_is_flagged_if_the_error_of_its_starts_is_unknown_or_above_one_percent(tmp_path):
    starts = [10**18, 10**18 + 3 * SECOND]
    for name, (errors, *_) in zip("abcde", ERRORS, strict=True):
        flows = [{"started_ns": at, "start_error_ns": error} for at, error in zip(starts, errors, strict=True)]
        made.cell(tmp_path, name, TWO_FLOWS, flows=flows)
    assert rows(tmp_path, "flows", "offset_error_ns") == [(error,) for _, errors, _ in ERRORS for error in errors]
    found = rows(tmp_path, "cells", "completion_ns, error, contains(flags, 'start_error')")
    assert found == [(4 * SECOND, None, flagged) for *_, flagged in ERRORS]


@pytest.mark.parametrize("starts", [(10**18, None), (None, 10**18), (None, None)])
def test_run_with_unknown_starts_has_no_completion_time(tmp_path, starts):
    made.cell(tmp_path, "a", TWO_FLOWS, flows=[{"started_ns": at} for at in starts], settings={"ratio": 2.0})
    made.cell(tmp_path, "b", TWO_FLOWS[:1])
    assert rows(tmp_path, "flows", "cell_id, offset_ns, offset_error_ns, end_ns") == [
        ("a", None, None, None),
        ("a", None, None, None),
        ("b", 0, 0, 2 * SECOND),
    ]
    assert rows(tmp_path, "intervals", "start_ns, end_ns")[:4] == [(None, None)] * 4
    assert rows(tmp_path, "cells", "completion_ns, throughput_bps, flags, error") == [
        (None, None, "window_unknown", "the starts of its iperf3 processes are not known"),
        (2 * SECOND, 32, "window_unknown", None),
    ]
    with pytest.raises(NoData):  # the run does not count in the figure of ratios
        transfer_ratios.draw(Source(Campaign(tmp_path)))


def test_receiver_without_values_is_replaced_by_the_sender(tmp_path):
    made.cell(tmp_path, "a", [made.document(made.Sent(10_000_000, None, 2.0))])
    assert rows(tmp_path, "cells", "bytes, throughput_bps") == [(10_000_000, 40_000_000)]


def runs(directory, algorithm: str, *seconds: float, size: int = 10_000_000, **more) -> None:
    """Write a run for each completion time, of 10 MB unless ``size`` is given."""
    for run, time in enumerate(seconds):
        sent = made.Sent(size, size, time, time, 100 if algorithm == "bbr" else 50)
        values = more | {"settings": {"algorithm": algorithm} | more.get("settings", {}), "run": run}
        name = f"{algorithm}-{len(list(directory.glob('transfers/*')))}"
        made.cell(directory, name, [made.document(sent, algorithm=algorithm)], cell_id=f"{name}-{algorithm}", **values)


def test_repetitions_give_mean_and_spread(tmp_path):
    runs(tmp_path, "bbr", 2.0, 4.0)  # 40 and 20 Mbit/s
    found = "runs, throughput_bps_mean, throughput_bps_low, throughput_bps_high, round(throughput_bps_stddev)"
    assert rows(tmp_path, "settings", found) == [(2, 3e7, 2e7, 4e7, 14142136.0)]
    found = "completion_ns_mean, completion_ns_low, completion_ns_high, retransmits_mean, retransmits_stddev"
    assert rows(tmp_path, "settings", found) == [(3 * SECOND, 2 * SECOND, 4 * SECOND, 100, 0)]


def test_single_run_has_no_standard_deviation(tmp_path):
    runs(tmp_path, "bbr", 2.0)
    assert rows(tmp_path, "settings", "throughput_bps_stddev, completion_ns_stddev") == [(None, None)]


GAINS = [  # completion times of BBR and CUBIC in s, gain in percent, comparison, and difference in s
    ([2.0], [4.0], 50.0, "faster_bbr", 2.0),
    ([4.0], [2.0], -100.0, "faster_cubic", -2.0),
    ([2.0], [2.0], 0.0, "equal", 0.0),
    ([2.0], [], None, "cubic_missing", None),
    ([], [2.0], None, "bbr_missing", None),
]


def test_gain_has_the_sign_of_the_faster_algorithm(tmp_path):
    for delay_ms, (bbr, cubic, *_) in enumerate(GAINS):
        runs(tmp_path, "bbr", *bbr, settings={"delay_ms": delay_ms})
        runs(tmp_path, "cubic", *cubic, settings={"delay_ms": delay_ms})
    found = rows(tmp_path, "gain", "gain_percent, comparison, difference_ns / 1e9, bbr_runs, cubic_runs")
    assert sorted(found, key=str) == sorted([(*rest, len(bbr), len(cubic)) for bbr, cubic, *rest in GAINS], key=str)


def test_gain_is_unknown_if_bbr_transferred_nothing(tmp_path):
    for delay_ms, sizes in enumerate([(0, 10_000_000), (10_000_000, 0), (0, 0)]):
        for algorithm, size in zip(("bbr", "cubic"), sizes, strict=True):
            runs(tmp_path, algorithm, 2.0, size=size, settings={"delay_ms": delay_ms})
    found = rows(tmp_path, "gain", "comparison, gain_percent")
    assert dict(found) == {"bbr_zero": None, "cubic_zero": 100.0, "both_zero": None}


def test_gain_compares_means_and_its_range_compares_the_extreme_runs(tmp_path):
    runs(tmp_path, "bbr", 2.0, 4.0)  # 40, 20 Mbit/s
    runs(tmp_path, "cubic", 8.0, 5.0)  # 10, 16 Mbit/s
    # 100 (30 - 13) / 30; (20 - 16) / 20; (40 - 10) / 40; 6.5 - 3 s; 5 - 4 s; 8 - 2 s; 100 / 50
    found = "round(gain_percent, 4), gain_low, gain_high, difference_ns, difference_low_ns, difference_high_ns"
    assert rows(tmp_path, "gain", found) == [(56.6667, 20.0, 75.0, 3.5 * SECOND, SECOND, 6 * SECOND)]
    assert rows(tmp_path, "gain", "retransmits_ratio") == [(2.0,)]


def test_settings_of_different_modes_are_not_compared(tmp_path):
    runs(tmp_path, "bbr", 2.0, mode="clean")
    runs(tmp_path, "cubic", 2.0, mode="published")
    assert rows(tmp_path, "gain", "mode, comparison") == [("clean", "cubic_missing"), ("published", "bbr_missing")]


def test_flags_are_collected_and_flagged_runs_count(tmp_path):
    runs(tmp_path, "bbr", 2.0, flags=["rate_off", "delay_off"])
    runs(tmp_path, "cubic", 4.0)
    assert rows(tmp_path, "cells", "flags") == [
        ("delay_off rate_off window_unknown",),
        ("window_unknown",),
    ]
    assert rows(tmp_path, "settings", "algorithm, flags, runs_flagged") == [
        ("bbr", "delay_off rate_off window_unknown", 1),
        ("cubic", "window_unknown", 0),
    ]
    assert rows(tmp_path, "gain", "flagged, gain_percent") == [(True, 50.0)]


def files(directory) -> list[tuple]:
    """Return cell, file, document and reason of the rows of transfer_files."""
    return rows(directory, "files", "cell_id, file, document, reason")


def test_unusable_files_are_named_and_other_runs_count(tmp_path, capsys):
    runs(tmp_path, "bbr", 2.0)
    complete, failed = (
        json.dumps(each)
        for each in (made.document(), {"start": {}, "intervals": [], "end": {}, "error": "unable to connect"})
    )
    for name, content in (("cut", complete[:-30]), ("failed", failed), ("twice", complete * 2)):
        write_file(made.cell(tmp_path, name, [made.document()]) / "iperf3-0.json", content)
    (made.cell(tmp_path, "missing", [made.document()]) / "iperf3-0.json").unlink()
    made.cell(tmp_path, "crashed", [made.document()], error="no route to host")
    assert files(tmp_path) == [
        ("crashed", "transfers/crashed/cell.json", 1, "run failed: no route to host"),
        ("cut", "transfers/cut/iperf3-0.json", 1, "truncated"),
        ("failed", "transfers/failed/iperf3-0.json", 1, "iperf3 reports an error: unable to connect"),
        ("missing", "transfers/missing/iperf3-0.json", 0, "cannot read: No such file or directory"),
        ("twice", "transfers/twice/iperf3-0.json", 2, "more than one test: the first one is used"),
    ]
    assert dict(rows(tmp_path, "cells", "cell_id, error")) == {
        "bbr-0-bbr": None,
        "crashed": "no route to host",
        "twice": None,
        **dict.fromkeys(["cut", "failed", "missing"], "0 of 1 iperf3 files are usable"),
    }
    assert rows(tmp_path, "settings", "algorithm, runs, runs_failed") == [("bbr", 1, 0), ("cubic", 1, 4)]
    printed = capsys.readouterr().err.splitlines()
    assert "transfers: transfers/cut/iperf3-0.json: truncated" in printed
    assert len(printed) == 7
    (warning,) = [line for line in printed if line.startswith("transfers: warning: ")]
    assert warning.startswith("transfers: warning: 4 of 6 runs failed; ")
    assert "snakemake --forcerun transfer" in warning and "--retry-failed" in warning


UNUSABLE = {
    "{": "truncated",
    "[]": "contains no JSON document",
    '{"version": 2}': "not version 1: use the version of acapella that wrote it",
    '{"version": 1}': "cell_id: missing (Name of the cell; it is not parsed)",
}


def test_unusable_cells_are_named(tmp_path):
    for name, content in zip("abcd", UNUSABLE, strict=True):
        write_file(made.cell(tmp_path, name, [made.document()]) / "cell.json", content)
    assert [row[:3] for row in files(tmp_path)] == [(None, f"transfers/{name}/cell.json", 1) for name in "abcd"]
    assert [reason for *_, reason in files(tmp_path)] == [*UNUSABLE.values()]


def test_incomplete_and_hidden_directories_are_not_read(tmp_path):
    made.cell(tmp_path, ".a.part", [made.document()])
    (tmp_path / "transfers" / "b").mkdir()
    assert rows(tmp_path, "cells") == []
    assert files(tmp_path) == []


def test_directories_of_an_earlier_grid_are_not_read(tmp_path):
    for name in "ab":
        made.cell(tmp_path, name, [made.document()])
    write_grid(tmp_path, {"cell_id": "b", "run": 0, "settings": {}})
    assert rows(tmp_path, "cells", "cell_id") == [("b",)]
    write_grid(tmp_path, 3)
    tables(tmp_path)
    assert rows(tmp_path, "cells", "cell_id") == [("a",), ("b",)]
    reason = "not a list of cells in the format of this version: all cells are read"
    assert files(tmp_path)[0][1:] == ("transfers/grid.json", 1, reason)


def write_grid(directory, *cells) -> None:
    """Write the list of planned runs."""
    write_file(directory / "transfers" / "grid.json", json.dumps({"version": 1, "cells": cells}))


def test_planned_runs_that_are_missing_are_counted(tmp_path, capsys):
    for run in range(2):
        made.cell(tmp_path, f"a-{run}", [made.document()], cell_id="a", run=run)
    made.cell(tmp_path, "old", [made.document()])
    write_grid(tmp_path, *({"cell_id": "a", "run": run} for run in range(5)))
    write_file(tmp_path / "transfers/a-1/iperf3-0.json", "")
    text = "3 of 5 planned runs are missing"
    assert files(tmp_path)[0] == (None, "transfers/grid.json", 1, text)
    assert f"transfers: transfers/grid.json: {text}" in capsys.readouterr().err
    (note,) = [line for line in transfer_throughput.SCOPE(Source(Campaign(tmp_path))) if "grid.json" in line]
    assert note == f"grid.json: {text}"
    write_grid(tmp_path, *({"cell_id": "a", "run": run} for run in range(2)))
    tables(tmp_path)
    assert [file for _, file, _, _ in files(tmp_path)] == ["transfers/a-1/iperf3-0.json"], "no run is missing"


def test_second_directory_of_a_run_is_a_fault(tmp_path):
    made.cell(tmp_path, "a", [made.document()])
    made.cell(tmp_path, "b", [made.document()], cell_id="a")
    assert files(tmp_path) == [("a", "transfers/b", 0, "another directory has this cell and run")]


def test_same_input_gives_the_same_bytes(tmp_path):
    made.grid(tmp_path, delays=(0, 60), buffers=(102_400,))
    tables(tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()}
    tables(tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "tables").iterdir()} == before


# ---- imported files --------------------------------------------------------------------------------------------------

PATTERN = (  # names as in the paper's Code 3
    r"bw-(?P<rate_mbps>\d+)-sz-(?P<size_bytes>\w+)-de-(?P<delay_ms>\d+)"
    r"-bf-(?P<buffer_bytes>\w+)-(?P<algorithm>\w+)\.json"
)


def write_documents(directory, name: str, *documents: dict) -> None:
    """Write a file of several documents, as `tee -a` does."""
    write_file(directory / name, "\n".join(json.dumps(each) for each in documents))


def test_settings_are_read_from_file_names_and_repeated_documents_are_runs(tmp_path):
    data, campaign = tmp_path / "data", new_directory(tmp_path / "c")
    write_documents(data, "bw-300-sz-1G-de-60-bf-100K-bbr.json", *[made.document(algorithm="bbr", version="3.5")] * 2)
    write_documents(data, "bw-300-sz-1G-de-60-bf-100K-cubic.json", made.document(version="3.5"))
    write_documents(data, "notes.json", made.document())
    tables(campaign, "--data", f"{data}/*.json", "--name-pattern", PATTERN)
    found = "run, algorithm, delay_ns, buffer_bytes, rate_bps, size_bytes, streams, mode, iperf3_version"
    common = (60_000_000, 102_400, 300_000_000, 2**30, 1, None, "3.5")
    assert sorted(rows(campaign, "cells", found)) == [(0, "bbr", *common), (0, "cubic", *common), (1, "bbr", *common)]
    assert files(campaign) == [(None, f"{data}/notes.json", 0, "the name does not match transfer.name_pattern")]
    assert rows(campaign, "gain", "comparison, bbr_runs, cubic_runs") == [("equal", 2, 1)]


def test_settings_are_read_from_a_sheet(tmp_path):
    write_documents(tmp_path / "data", "one.json", made.document(algorithm="bbr"))
    write_documents(tmp_path / "data", "two.json", made.document(algorithm="cubic"))
    lines = ["file\tdelay_ms\tbuffer_bytes\tmode\trtt_ms", "data/one.json\t0.5\t1M\tpublished\t90"]
    sheet = write_file(tmp_path / "sheet.tsv", "\n".join([*lines, "data/none.json\t\t\t\t\n"]))
    campaign = new_directory(tmp_path / "c")
    tables(campaign, "--data", f"{tmp_path}/data/../data/*.json", "--sheet", str(sheet))
    found = "algorithm, delay_ns, buffer_bytes, mode, measured_rtt_ns"
    assert rows(campaign, "cells", found) == [("bbr", 500_000, 2**20, "published", 90_000_000)]
    assert [(file.rpartition("/")[2], reason) for _, file, _, reason in files(campaign)] == [
        ("none.json", "cannot read: No such file or directory"),
        ("two.json", "not in the sheet sheet.tsv"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name\tdelay_ms\n", "no column file"),
        ("file\tstream\n", "unknown column 'stream'; did you mean streams[?]; known: file, "),
        ("file\tdelay_ms\na\tfast\n", "row 2: delay_ms: 'fast': expected a number"),
        ("file\tbuffer_bytes\na\t1X\n", "row 2: buffer_bytes: '1X': expected bytes"),
        ("file\tstreams\na\t0\n", "row 2: streams: '0': expected a whole number from 1 to 65535"),
        ("file\tmode\na\tdirty\n", "row 2: mode: 'dirty': expected published or clean"),
        ("file\na\na\n", "is in the sheet twice"),
    ],
)
def test_errors_in_a_sheet_are_reported(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        settings.sheet(write_file(tmp_path / "sheet.tsv", text))


@pytest.mark.parametrize(
    ("pattern", "message"), [("(", "not a regular"), ("x", "no named group"), ("(?P<d>x)", "unknown group d")]
)
def test_errors_in_a_pattern_are_reported(pattern, message):
    with pytest.raises(UserError, match=message):
        settings.name_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "size"), [("100K", 102_400), ("1.5M", 1_572_864), ("1G", 2**30), ("7", 7), ("2KiB", 2048)]
)
def test_sizes_have_binary_units(text, size):
    assert settings.size(text) == size


# ---- prediction ------------------------------------------------------------------------------------------------------


def test_prediction_of_the_multipath_grid_matches_values_computed_by_hand(tmp_path):
    made.multipath(tmp_path, ratios=(1.0, 2.0))
    found = rows(tmp_path, "prediction", "flow, path, bottleneck, round(rate_bps), predicted_ns, best_ratio, together")
    # r = 1: l1 = l2 = 15 Mbit/s, 1448/1514 of it is payload: four flows over l1, two over l2.
    assert found[0] == (0, "red", "l1", 3586526.0, 11152854512, 2.0, True)
    assert found[2] == (2, "blue", "l2", 7173052.0, 5576427256, 2.0, True)
    assert {row[4] for row in found[6:]} == {8364640884}, "r = 2: all flows end together"
    errors = rows(tmp_path, "prediction", "round(error_share, 4)")[:6]
    assert errors == [(0.0,), (0.01,), (0.02,), (0.03,), (0.04,), (0.05,)]


def links_of(rate_bps: int) -> dict[str, dict]:
    """Return the links of the multipath topology, with this rate of the emulated ones."""
    return {name: {**link, "rate_bps": rate_bps if link["emulated"] else None} for name, link in made.LINKS.items()}


def multipath(directory, links: dict[str, dict], *received: int) -> None:
    """Write a run of six flows of 5,000 bytes over the paths in turn; ``received``: bytes that arrive of each flow."""
    documents = [made.document(made.Sent(5000, size, 1.0, 1.0), size=5000) for size in received]
    flows = [{"path": list(made.PATHS)[n % 3], "size_bytes": 5000} for n in range(6)]
    made.cell(directory, "a", documents, links=links, paths=made.PATHS, flows=flows)


def test_best_ratio_uses_the_requested_sizes(tmp_path):
    multipath(tmp_path, links_of(10**6), *(5000 - 100 * n for n in range(6)))
    assert set(rows(tmp_path, "prediction", "best_ratio, together")) == {(2.0, True)}
    assert rows(tmp_path, "prediction", "size_bytes")[:2] == [(5000,), (4900,)], "transferred"


@pytest.mark.parametrize(
    ("multiplied", "ratio"),
    [(("l1",), 2.0), (("l2",), 0.5), ((), 2.0), (None, 2.0)],  # four of six flows cross l1, two cross l2
)
def test_best_ratio_refers_to_the_link_with_the_multiplied_rate(tmp_path, multiplied, ratio):
    links = links_of(10**6)
    if multiplied is not None:  # absent in files of earlier versions
        links = {name: {**link, "times_ratio": name in multiplied} for name, link in links.items()}
    multipath(tmp_path, links, *[5000] * 6)
    assert set(rows(tmp_path, "prediction", "best_ratio, together")) == {(ratio, True)}


def test_unknown_path_is_a_fault(tmp_path):
    links = {"l": {"between": ["a", "b"], "rate_bps": 8}}
    made.cell(tmp_path, "a", [made.document()], links=links, paths={"p": ["a", "b"]}, flows=[{"path": "q"}])
    assert rows(tmp_path, "prediction") == []
    assert files(tmp_path) == [("a", "transfers/a/cell.json", 1, "no prediction: unknown path 'q'")]
