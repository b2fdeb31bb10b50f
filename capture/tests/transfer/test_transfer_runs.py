"""Grids on a slice of namespaces: output, continuation, and cleanup however they end."""

import json
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing import processes
from acapella_testing.capture.interrupted_runs import tree_when
from acapella_testing.capture.local_transfers import environment
from acapella_testing.generated.transfer_cells import HASHED, TransferResults, validate_written
from acapella_testing.new_files import new_directory, write_file

from acapella_capture.testbeds.local import sandbox
from acapella_capture.transfer import fabric

LINEAR = """
transfer:
  grid: {algorithm: [cubic, reno], delay_ms: [20], buffer_bytes: ["50K"], rate_mbps: [20], size_bytes: ["500K"]}
"""
MULTIPATH = """
transfer: {topology: multipath, mode: published, delay_on: both, keep_captures: true, grid:
  {algorithm: [reno], delay_ms: [10], buffer_bytes: ["50K"], rate_mbps: [10], size_bytes: ["200K"], streams: [3],
   ratio: [2]}}
"""
GRID_OF_HASHED = """
transfer:
  topology: {}
  delay_on: both
  grid: {{algorithm: [reno], delay_ms: [5], buffer_bytes: ["50K"], rate_mbps: [20], size_bytes: ["200K"], streams: [6]}}
"""
RENO = LINEAR.replace("[cubic, reno]", "[reno]")
THREE = RENO.replace('"500K"', '"4M"') + "  repetitions: 3\n"
EARLY_NS = 50_000  # a busy machine delays more; acapella-link sends packets at most this early in each direction
END_S = 180  # reached only if the command hangs


@dataclass(frozen=True)
class Grid(TransferResults):
    """A finished grid: its directory and the output of the command."""

    campaign: Path
    printed: str = ""


@pytest.fixture(scope="module", autouse=True)
def _programs() -> None:
    environment()


def argv(campaign: Path, config: Path) -> list[str]:
    return [sys.executable, "-m", "acapella_capture.transfer.command", str(campaign), "--config", str(config)]


def attempt(campaign: Path, text: str, **variables: str) -> subprocess.CompletedProcess:
    """Run the command with a config; ``variables`` are added to the environment."""
    config = write_file(campaign.with_suffix(".yaml"), text)
    return processes.run(*argv(campaign, config), env=environment() | variables, timeout=END_S)


def broken_program(directory: Path, name: str, script: str) -> str:
    """Write a program that fails if ``script`` succeeds, and else runs the real program; return PATH with it."""
    real = shutil.which(name, path=sandbox.search_path())
    processes.executable(directory / name, f'#!/bin/sh\n{script} && exit 1\nexec {real} "$@"\n')
    return f"{directory}:{environment()['PATH']}"


def run(campaign: Path, text: str) -> Grid:
    done = attempt(campaign, text)
    assert done.returncode == 0, done.stderr
    return Grid(campaign, done.stdout)


@pytest.fixture(scope="module")
def linear(tmp_path_factory) -> Grid:
    return run(tmp_path_factory.mktemp("linear") / "one", LINEAR)


@pytest.fixture(scope="module")
def multipath(tmp_path_factory) -> Grid:
    return run(tmp_path_factory.mktemp("multipath") / "many", MULTIPATH)


@pytest.fixture(params=["cubic", "reno"])
def cell(request, linear) -> dict:
    """Provide the run of an algorithm."""
    return next(cell for cell in linear.cells() if cell["settings"]["algorithm"] == request.param)


def test_every_run_is_written_completely(linear):
    cells = linear.cells()
    assert sorted(cell["settings"]["algorithm"] for cell in cells) == ["cubic", "reno"]
    for cell in cells:
        validate_written(cell)
        assert cell["error"] is None
        assert sorted(path.name for path in linear.directory(cell).iterdir()) == [
            "cell.json", "iperf3-0.json", "wire.flows.parquet", "wire.parquet",
        ]  # fmt: skip
        report = linear.report(cell, 0)
        assert report["end"]["sender_tcp_congestion"] == cell["settings"]["algorithm"]
        assert report["end"]["sum_received"]["bytes"] >= 500 * 1024, "all requested bytes have arrived"
    grids = [json.loads((linear.campaign / "transfers" / f"{name}.json").read_text()) for name in ("grid", "complete")]
    listed, complete = ([cell["cell_id"] for cell in grid["cells"]] for grid in grids)
    assert listed == complete


def test_progress_names_each_run_and_the_time_left(linear):
    lines = [line for line in linear.printed.splitlines() if line.startswith("transfer:")]
    assert len(lines) == 2
    assert "2 of 2" in lines[1]
    assert lines[1].endswith("; 0 s left")


def test_probes_and_tcp_measure_the_requested_delay(cell):
    assert cell["measured"]["rtt_ns"] >= 20_000_000 - EARLY_NS
    assert cell["measured"]["rtt_base_ns"] < cell["measured"]["rtt_ns"]
    assert (cell["measured"]["delay_late_p99_ns"] or 0) <= 1_000_000 or "delay_late" in cell["flags"]  # null with netem
    assert all(sample["min_rtt_ns"] >= 19_000_000 for sample in cell["tcp_info"] if sample["bytes_acked"] > 1000)


def test_no_frame_is_longer_than_the_mtu(linear, cell):
    assert cell["environment"]["offloads"] == {"tso": False, "gso": False, "gro": False}
    assert cell["measured"]["frames_over_mtu"] == 0
    assert max(pq.read_table(linear.directory(cell) / "wire.parquet")["wire_len"].to_pylist()) == 1514


def test_tcp_buffers_are_at_least_twice_the_bytes_in_flight(cell):
    flight = 20_000_000 * cell["measured"]["rtt_ns"] / 8e9 + 50 * 1024
    assert cell["environment"]["tcp_rmem"][2] >= 2 * flight
    assert cell["environment"]["tcp_wmem"][2] >= 2 * flight


def test_finished_grid_is_not_run_again(linear):
    before = {path: path.stat().st_mtime_ns for path in linear.campaign.glob("transfers/*/*")}
    assert "transfer:" not in run(linear.campaign, LINEAR).printed
    assert before == {path: path.stat().st_mtime_ns for path in linear.campaign.glob("transfers/*/*")}


@pytest.mark.soak
def test_flows_take_the_paths_in_turn_over_links_with_the_requested_ratio(multipath):
    (cell,) = multipath.cells()
    validate_written(cell)
    assert [flow["path"] for flow in cell["flows"]] == ["red", "green", "blue"]
    assert [flow["exit_code"] for flow in cell["flows"]] == [0, 0, 0]
    assert (cell["links"]["l1"]["rate_bps"], cell["links"]["l2"]["rate_bps"]) == (20_000_000, 10_000_000)
    assert [name for name, link in cell["links"].items() if link["times_ratio"]] == ["l1"]
    rates = {each["path"]: each["rate_bps"] for each in cell["measured"]["paths"]}
    assert min(each["rtt_ns"] for each in cell["measured"]["paths"]) >= 10_000_000 - 2 * EARLY_NS
    # a link is never faster than requested; the paths over l1 are faster than l2 could be
    assert rates["blue"] <= 10_500_000
    assert 11_000_000 < rates["red"] <= 21_000_000
    assert cell["capture"]["file"] == "wire.pcap"
    assert (multipath.directory(cell) / "wire.pcap").stat().st_size > 0


def test_connections_begin_within_the_error_after_the_recorded_starts(multipath):
    (cell,) = multipath.cells()
    starts = multipath.begins(cell)
    for flow, begins_ns in zip(cell["flows"], starts, strict=True):
        assert flow["started_ns"] <= begins_ns <= flow["started_ns"] + flow["start_error_ns"]
        assert flow["ended_ns"] > begins_ns
    assert cell["start_skew"]["reason"] is None
    assert abs(max(starts) - min(starts) - cell["start_skew"]["skew_ns"]) <= cell["start_skew"]["error_ns"]


@pytest.mark.soak
def test_hash_selects_the_recorded_path_of_each_flow(tmp_path):
    grid = run(tmp_path / "hashed", GRID_OF_HASHED.format(write_file(tmp_path / "hash.yaml", HASHED)))
    (cell,) = grid.cells()
    assert (cell["error"], cell["topology"], len(cell["flows"])) == (None, "hash", 6)
    # each link carried at least the data of its flows
    assert all(cell["links"][name]["sent_bytes"] >= grid.received(cell, name) for name in ("up", "down"))
    assert {flow["path"] for flow in cell["flows"]} <= {"up", "down"}


def left_on_the_machine() -> list[str]:
    """Return what a slice would have left: interfaces, mounts, files of the scratch file system."""
    found = re.findall(r"\b(?:to-[hr]\d|delay-fwd|delay-rev)\b", processes.run("ip", "-o", "link", check=True).stdout)
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if "acapella" in line]
    return found + [path.name for path in Path("/dev/shm").iterdir() if path.name in ("net", "spool")]


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_grid_leaves_nothing_and_continues(tmp_path, number):
    campaign, config = tmp_path / "one", write_file(tmp_path / "one.yaml", THREE)
    transfers = campaign / "transfers"
    temporary = new_directory(tmp_path / "tmp")
    env = environment() | {"TMPDIR": str(temporary)}
    with subprocess.Popen(argv(campaign, config), env=env, stdout=subprocess.PIPE, text=True) as process:
        assert any(line.startswith("transfer: 1 of 3: ") for line in process.stdout)
        with tree_when(process, "tcpdump") as tree:  # the capture of the second run
            process.send_signal(number)
            status = process.wait(END_S)
            left = tree.gone_within(60)
    assert status == (130 if number == signal.SIGINT else -number)
    assert left == [], left
    assert left_on_the_machine() == []
    assert list(temporary.iterdir()) == []
    (first,) = transfers.glob("*/cell.json")
    written = first.stat().st_mtime_ns
    # the next run removes incomplete cells of a killed run
    assert bool(list(transfers.glob(".cell-*"))) == (number == signal.SIGKILL)
    if number == signal.SIGINT:
        return
    assert "transfer: 3 of 3: " in run(campaign, THREE).printed
    assert list(transfers.glob(".cell-*")) == []
    assert Grid(campaign).errors() == [None, None, None]
    assert first.stat().st_mtime_ns == written, "a finished run is not repeated"


@pytest.mark.soak
def test_failed_run_is_written_with_its_error_and_repeated(tmp_path):
    campaign = tmp_path / "one"
    # clients fail; servers, and iperf3 --version, are the real program
    path = broken_program(tmp_path, "iperf3", '[ "$1" = -c ] && echo \'{"error": "broken"}\'')
    done = attempt(campaign, RENO, PATH=path)
    assert done.returncode == 2
    assert "transfer: warning: the warm-up failed: flow 0: iperf3: broken" in done.stderr
    assert "1 of 1 runs failed: " in done.stderr
    assert "-0: flow 0: iperf3: broken; run it again" in done.stderr
    (cell,) = Grid(campaign).cells()
    assert cell["error"] == "flow 0: iperf3: broken"
    assert cell["flows"][0]["exit_code"] == 1
    assert run(campaign, RENO).errors() == [None]


@pytest.mark.soak
def test_run_whose_capture_fails_does_not_end_the_grid(tmp_path):
    campaign, path = tmp_path / "one", broken_program(tmp_path, "tcpdump", f"mkdir {tmp_path}/first 2>/dev/null")
    done = attempt(campaign, LINEAR, PATH=path)
    assert done.returncode == 0, done.stderr
    assert "transfer: warning: 1 of 2 runs failed; the first: " in done.stderr
    errors = Grid(campaign).errors()
    assert sorted(error is None for error in errors) == [False, True]
    assert "tcpdump" in next(filter(None, errors))
    complete = json.loads((campaign / "transfers" / "complete.json").read_text())
    assert [cell["error"] for cell in complete["cells"] if cell["error"]] == [*filter(None, errors)]
    assert run(campaign, LINEAR).errors() == [None, None]


def test_second_process_of_a_campaign_is_refused(tmp_path):
    campaign = new_directory(tmp_path / "one")
    with fabric.locked(campaign):
        done = attempt(campaign, RENO)
    assert done.returncode == 2
    assert "another process is running transfers of this campaign" in done.stderr
    assert not (campaign / "transfers").exists(), "the files of the other process, such as grid.json, are unchanged"


def test_unknown_algorithm_is_an_error_that_lists_the_known_ones(tmp_path):
    done = attempt(tmp_path / "one", RENO.replace("reno", "nosuch"))
    assert done.returncode == 2
    assert "no congestion control nosuch" in done.stderr
    assert "reno" in done.stderr
