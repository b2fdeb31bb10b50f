"""Tests the tables and the figure of the storage study, on a generated study."""

import copy
from pathlib import Path

import pytest
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated.generated_tables import write_tables
from acapella_testing.generated.storage_study import RUN, campaign, rate, study
from acapella_testing.new_files import write_file
from acapella_testing.svg_text import with_spaces, words

from acapella.campaign import storage
from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.figures import storage_latency
from acapella.figures.compose import compose_figure
from acapella.figures.save import svg_of
from acapella.figures.source import Source
from acapella.report import storage as report_storage

DIRECT = RUN | {"writer": "direct", "call": "io_uring"}
OTHER_DISK = RUN | {"disk_mbps": 40}


def rows(directory: Path, table: str) -> list[dict]:
    return read_rows(directory / "tables" / f"{table}.csv")


def test_sums_of_a_run_equal_those_of_its_intervals(tmp_path):
    directory = campaign(tmp_path / "c", study(RUN, DIRECT | {"disk_mbps": None}))
    first, last = (row for row in rows(directory, "storage_growth") if row["run"] == "1")
    assert (first["t_ns"], first["calls"], first["latency_ns"]) == ("0", "3", "50000")
    assert int(first["latency_upper_ns"]) == 2 * 16384 + 32768
    assert (float(first["written_percent"]), float(first["dirty_percent"])) == (10, 9.5)
    assert (last["t_ns"], last["calls"], last["written_bytes"]) == ("1500000000", "4", "250000")
    assert int(last["latency_upper_ns"]) == 2 * 16384 + 32768 + (1 << 30)
    run, other = rows(directory, "storage_runs")
    assert (run["calls"], run["latency_ns"], run["longest_ns"]) == ("4", "900050000", "900000000")
    assert (run["crossed"], float(run["dirty_most_percent"]), float(run["lost_share"])) == ("midpoint", 15, 0.1)
    assert (run["disk_mbps"], other["disk_mbps"], other["call"]) == ("20", "", "io_uring")
    histogram = [row for row in rows(directory, "storage_latency") if row["run"] == "1"]
    assert [(int(row["lo_ns"]), int(row["calls"])) for row in histogram] == [(8192, 2), (16384, 1), (536870912, 1)]


@pytest.mark.parametrize(
    ("percent", "crossed"),
    [(9.99, "none"), (10, "background"), (14.9, "background"), (15, "midpoint"), (19.9, "midpoint"), (20, "limit")],
)
def test_highest_crossed_threshold_is_returned(percent, crossed):
    assert storage.crossed(percent, 10, 20) == crossed


def words_of(directory: Path) -> str:
    """Return the text of the figure: its description, then the text of the drawing."""
    figure = compose_figure("storage_latency", Source(Campaign(directory)))
    return with_spaces(f"{figure.description} {words(svg_of(figure))}")


def test_title_states_shares_above_100_percent():
    row = {"writer": "buffered", "calls": 100, "latency_ns": 3 * 10**9, "offered_ns": 2 * 10**9, "long_calls": 1}
    row |= {"latency_upper_ns": 4, "long_upper_ns": 1, "disk_mbps": None, "background_percent": 10, "limit_percent": 20}
    assert with_spaces(storage_latency.title([row])).startswith(
        "writev blocked the capture for 3 s, 150 % of the time in which frames were offered"
    )


@pytest.mark.parametrize(
    ("runs", "present", "absent"),
    [
        pytest.param(
            [RUN, DIRECT],
            [
                "writev blocked the capture for 900 ms, 45.0 % of the time in which frames were offered",
                "frames lost: writev 10.0 %, io_uring 10.0 %",
                *("written so far (% of 1 MB)", "dirty memory (%)", "Thresholds 10:20, disk slowed to 20 MB/s"),
                *("writev: summed latency (ms)", "io_uring: summed latency (ms)"),
                "writev and io_uring are not comparable",
                "the time for which writev blocked the capture and the share of calls are exact",
            ],
            [],
            id="latency and losses",
        ),
        pytest.param(
            [RUN, OTHER_DISK],
            ["(thresholds 10:20, disk slowed to 20 MB/s; the longest of 2 runs)"],
            [],
            id="the run is the longest of several",
        ),
        # The first interval has a sum of 66 µs, and the axis starts at 1 ms.
        pytest.param(
            [RUN],
            ["none of its calls is long", "\u22641", "sums below 1 ms are at the lower end"],
            ["the longest of", "0 % of its calls"],
            id="no call is long, and sums below the axis",
        ),
        pytest.param(
            [RUN, OTHER_DISK | {"written": 500, "lost": 500}],
            [f"disk slowed to {d} MB/s; frames lost: writev {lost}.0 %" for d, lost in ((20, 10), (40, 50))],
            [],
            id="losses of each run",
        ),
    ],
)
def test_figure_of_storage_contains_the_text_of_its_runs(tmp_path, runs, present, absent):
    words = words_of(campaign(tmp_path / "c", study(*runs)))
    assert [text for text in present if text not in words] == []
    assert [text for text in absent if text in words] == []


def panels_of(directory: Path) -> list[dict]:
    """Return the rows of panels of the figure: dirty memory, writev, io_uring."""
    spec = compose_figure("storage_latency", Source(Campaign(directory))).spec
    return [row["hconcat"] for row in spec["concat"][0]["vconcat"]]


def values_of(part: object) -> list[dict]:
    """Return all values that a part of a specification draws."""
    if isinstance(part, list):
        return [value for each in part for value in values_of(each)]
    if not isinstance(part, dict):
        return []
    own = part["data"]["values"] if "values" in part.get("data", {}) else []
    return own + [value for key, each in part.items() if key != "data" for value in values_of(each)]


def run_of_100_calls(**changes) -> dict:
    """Return a run of 100 calls: 98 of 4 to 8 µs, one of 1 to 2 ms, and one of 0.5 to 1 s."""
    run = copy.deepcopy(RUN) | changes
    run["intervals"][0]["buckets"] = [[4096, 8191, 98], [1 << 20, (1 << 21) - 1, 1]]
    run["intervals"][0]["calls"] = 99
    return run


def test_long_calls_are_those_beyond_the_power_of_two_of_the_95_percent_quantile(tmp_path):
    directory = campaign(tmp_path / "c", study(run_of_100_calls()))
    calls = sorted([8192] * 98 + [1 << 21, 1 << 30])
    average_end = calls[95 - 1]  # smallest upper bound that at least 95 of 100 calls do not exceed
    long = [end for end in calls if end > average_end]
    (run,) = rows(directory, "storage_runs")
    assert (int(run["long_from_ns"]), int(run["long_calls"])) == (average_end, len(long))
    assert int(run["long_upper_ns"]) == sum(long)
    last = rows(directory, "storage_growth")[-1]
    assert (int(last["long_calls"]), int(last["long_upper_ns"])) == (len(long), sum(long))
    ((_, writev),) = panels_of(directory)
    assert {value["line"]: value["ms"] for value in values_of(writev) if "line" in value} == {
        "writev, long calls": sum(long) / 1e6,
        "writev, average case": 1.0,
    }  # 0.8 ms: below the axis
    words = words_of(directory)
    assert "2.00 % of its calls have 99.9 % of the summed latency" in words
    assert "Long calls: 8.19 \u00b5s or more, at most 5.00 % of a run's calls" in words


def test_writev_and_io_uring_have_panels_of_their_own(tmp_path):
    direct = run_of_100_calls(writer="direct", call="io_uring")
    ((dirty, writev, uring),) = panels_of(campaign(tmp_path / "c", study(run_of_100_calls(), direct)))
    assert [{value["line"] for value in values_of(panel) if "line" in value} for panel in (dirty, writev, uring)] == [
        {"dirty memory, writev", "dirty memory, io_uring"},
        {"writev, long calls", "writev, average case"},
        {"io_uring, all calls"},
    ]


def test_thresholds_are_marked_at_the_time_dirty_memory_reached_them(tmp_path):
    ((dirty, writev),) = panels_of(campaign(tmp_path / "c", study(RUN)))
    across = [layer["data"]["values"] for layer in dirty["layer"] if layer["mark"]["type"] == "rule"]
    assert [[mark["at"] for mark in marks] for marks in across] == [[10, 15, 20]]
    reached = [layer["data"]["values"] for layer in writev["layer"] if layer["mark"]["type"] == "rule"]
    assert [[(mark["name"], mark["x"]) for mark in marks] for marks in reached] == [
        [("background", 25), ("midpoint", 25)],  # 15 % at 250,000 of 1,000,000 bytes; the limit was not reached
    ]


def test_panels_of_a_writer_that_did_not_run_are_omitted(tmp_path):
    rows_of_panels = panels_of(campaign(tmp_path / "c", study(RUN, DIRECT, RUN | {"limit_percent": 40})))
    assert [len(row) for row in rows_of_panels] == [3, 2]
    ((_, uring),) = panels_of(campaign(tmp_path / "d", study(DIRECT)))
    assert {value["line"] for value in values_of(uring)} == {"io_uring, all calls"}


@pytest.mark.soak
def test_report_has_the_figure_and_tables_of_the_study_on_request(tmp_path):
    directory = write_tables(tmp_path / "c", sites=1)
    rates = [
        *(rate(200, 1514, 10**7, 8 * 10**6, None), rate(200, 1514, 10**6, 10**4, 10**6)),
        *(rate(200, 1514, 5 * 10**5, 0, 5 * 10**5), rate(64, 128, 10**6, 10**5, None)),
    ]
    campaign(directory, {**study(RUN), "rates": rates})
    assert cli.main(["campaign", "report", str(directory), "--storage"]) == 0
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert 'data-name="storage_latency"' in page
    assert '<section id="storage">' in page
    shown = {table["name"]: table for table in report_storage.tables(Source(Campaign(directory)))}
    # A rate counts as sustained with at most 1 % loss. 2,000,000 frames were written in 2 s without a rate limit.
    first, second = shown["storage_rates"]["rows"]
    assert first == ["200", "1,514", "direct", "12.11", "1", "1.00", "12.11", "100", "5", "0.67"]
    assert second == ["64", "128", "direct", "1.02", "1", "10.00", "0.46", "28", "15", "0.13"]
    assert cli.main(["campaign", "report", str(directory)]) == 0
    assert '<section id="storage">' not in (directory / "report.html").read_text(encoding="utf-8")


def test_missing_measurements_are_stated_with_the_reason(tmp_path, capsys):
    directory = campaign(tmp_path / "c", study(skipped="bpftrace is missing; apt-get install bpftrace"))
    assert "storage: nothing was measured: bpftrace is missing; apt-get install bpftrace" in capsys.readouterr().err
    assert all(rows(directory, table) == [] for table in storage.TABLES)
    assert "No data: bpftrace is missing; apt-get install bpftrace." in words_of(directory)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}'])
def test_invalid_study_is_rejected_in_one_line(tmp_path, capsys, text):
    write_file(tmp_path / "storage" / "study.json", text)
    assert cli.main(["campaign", "storage", str(tmp_path)]) == 2
    assert (
        "not a storage study in the format of this version; run: acapella measure storage -o" in capsys.readouterr().err
    )
