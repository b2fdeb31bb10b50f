"""Tables and figure of the storage study, from a study made by hand."""

import copy
import csv
import json
import re
from pathlib import Path

import pytest

from acapella import cli, storage
from acapella.campaign import Campaign
from acapella.figures.compose import drawn
from acapella.figures.source import Source

MEMORY = 1_000_000
RUN = {
    **{"background_percent": 10, "limit_percent": 20, "disk_mbps": 20, "writer": "buffered", "call": "writev"},
    **{"memory_bytes": MEMORY, "offered": 1000, "written": 900, "lost": 100, "written_bytes": 250_000},
    "offered_ns": 2_000_000_000,
    "intervals": [
        {
            **{"at_ns": 5_000_000_000, "calls": 3, "bytes": 100_000, "latency_ns": 50_000, "longest_ns": 30_000},
            "buckets": [[8192, 16383, 2], [16384, 32767, 1]],
            **{"dirty_bytes": 90_000, "writeback_bytes": 5_000, "background_bytes": 100_000, "limit_bytes": 200_000},
        },
        {
            **{
                "at_ns": 6_500_000_000,
                "calls": 1,
                "bytes": 150_000,
                "latency_ns": 900_000_000,
                "longest_ns": 900_000_000,
            },
            "buckets": [[536870912, 1073741823, 1]],
            **{"dirty_bytes": 100_000, "writeback_bytes": 50_000, "background_bytes": 100_000, "limit_bytes": 200_000},
        },
    ],
}


def study(*runs: dict, skipped: str | None = None) -> dict:
    return {"version": 1, "skipped": skipped, "notes": [], "machine": {}, "settings": {}, "runs": list(runs)}


def campaign(folder: Path, said: dict) -> Path:
    """A campaign with its storage tables."""
    (folder / "storage").mkdir(parents=True)
    (folder / "storage" / "study.json").write_text(json.dumps(said))
    assert cli.main(["storage", str(folder)]) == 0
    return folder


def rows(folder: Path, table: str) -> list[dict]:
    with (folder / "tables" / f"{table}.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_sums_of_a_run_are_those_of_its_intervals(tmp_path):
    direct = copy.deepcopy(RUN) | {"writer": "direct", "call": "io_uring", "disk_mbps": None}
    folder = campaign(tmp_path / "c", study(RUN, direct))
    first, last = (row for row in rows(folder, "storage_growth") if row["run"] == "1")
    assert (first["t_ns"], first["calls"], first["latency_ns"]) == ("0", "3", "50000")
    assert int(first["latency_upper_ns"]) == 2 * 16384 + 32768
    assert (float(first["written_percent"]), float(first["dirty_percent"])) == (10, 9.5)
    assert (last["t_ns"], last["calls"], last["written_bytes"]) == ("1500000000", "4", "250000")
    assert int(last["latency_upper_ns"]) == 2 * 16384 + 32768 + (1 << 30)
    run, other = rows(folder, "storage_runs")
    assert (run["calls"], run["latency_ns"], run["longest_ns"]) == ("4", "900050000", "900000000")
    assert (run["crossed"], float(run["dirty_most_percent"]), float(run["lost_share"])) == ("midpoint", 15, 0.1)
    assert (run["disk_mbps"], other["disk_mbps"], other["call"]) == ("20", "", "io_uring")
    histogram = [row for row in rows(folder, "storage_latency") if row["run"] == "1"]
    assert [(int(row["lo_ns"]), int(row["calls"])) for row in histogram] == [(8192, 2), (16384, 1), (536870912, 1)]


@pytest.mark.parametrize(
    ("percent", "crossed"),
    [(9.99, "none"), (10, "background"), (14.9, "background"), (15, "midpoint"), (19.9, "midpoint"), (20, "limit")],
)
def test_thresholds_are_crossed_in_their_order(percent, crossed):
    assert storage.crossed(percent, 10, 20) == crossed


def words_of(folder: Path) -> str:
    """The words of the figure, those of its drawing last."""
    assert cli.main(["figures", str(folder), "--only", "storage_latency", "--formats", "svg"]) == 0
    figure = drawn("storage_latency", Source(Campaign(folder)))
    svg = (folder / "figures" / "storage_latency.svg").read_text()
    text = " ".join([figure.description, *re.findall(r">([^<>]+)</text>", svg)])
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_the_figure_says_what_was_waited_for_and_what_was_lost(tmp_path):
    direct = copy.deepcopy(RUN) | {"writer": "direct", "call": "io_uring"}
    words = words_of(campaign(tmp_path / "c", study(RUN, direct)))
    for text in ("writev held the capture up for 900 ms, 45.0 % of its time", "buffered 10.0 %, direct 10.0 %"):
        assert text in words
    for text in ("written so far (% of memory)", "summed latency (ms)", "Thresholds 10:20, disk slowed to 20 MB/s"):
        assert text in words


def test_what_was_not_measured_is_said_with_its_reason(tmp_path, capsys):
    folder = campaign(tmp_path / "c", study(skipped="no bpftrace here; apt-get install bpftrace"))
    assert "storage: nothing was measured: no bpftrace here" in capsys.readouterr().err
    assert all(rows(folder, table) == [] for table in storage.TABLES)
    assert "No data: no bpftrace here; apt-get install bpftrace." in words_of(folder)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}'])
def test_what_is_no_study_is_refused_in_one_line(tmp_path, capsys, text):
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "study.json").write_text(text)
    assert cli.main(["storage", str(tmp_path)]) == 2
    assert "not a storage study of this version; run: acapella measure-storage -o" in capsys.readouterr().err
