"""Tests runs of the workflow that are killed or interrupted: the files they leave, and the next run."""

import os
import shutil
import signal
import subprocess
import time

import pytest
from acapella_testing.processes import runs
from acapella_testing.workflow_run import RESULTS, workplace

STOPPED_S = 300  # reached only if the run hangs


def test_killed_and_started_again_in_another_directory_with_two_cores_it_makes_the_same_bytes(finished, tmp_path):
    place = workplace(tmp_path / "elsewhere", digest={"threads": 2})
    running = place.start("--cores", "1")
    while not list(place.campaign.glob("acap/*.parquet")) and running.poll() is None:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert not (place.campaign / "report.html").exists()
    place.succeed("--unlock")
    place.succeed("--cores", "2", "figures")
    assert place.sha256(*RESULTS) == finished.sha256(*RESULTS)


def test_asked_to_stop_again_and_again_it_ends_and_leaves_nothing_behind(tmp_path):
    """The signal is sent to the process group, as by `kill` to that of `make demo`, then repeatedly to Snakemake."""
    place = workplace(tmp_path)
    running = place.start("--cores", "2")
    while not list(place.campaign.glob("logs/digest/*.log")) and running.poll() is None:
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGTERM)
    end = time.monotonic() + STOPPED_S
    while running.poll() is None and time.monotonic() < end:
        running.terminate()
        time.sleep(0.01)
    stopped = running.poll()
    if stopped is None:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    assert stopped, "it hangs, or went on to its end"
    assert not list(place.campaign.rglob("*.part"))
    assert not list(place.directory.glob(".snakemake/locks/*")), "the next run would ask for --unlock"


def test_after_ctrl_c_it_says_failure_report_and_a_second_run_finishes(finished, tmp_path):
    """The interrupt is sent to the whole process group, as by a terminal, while a digest waits for tshark."""
    place, seconds = workplace(tmp_path / "place"), f"600.{os.getpid()}"
    place.replace_tshark(tmp_path, f"exec sleep {seconds}")
    running = place.start("--cores", "1", output=subprocess.PIPE)
    while not runs("sleep", seconds):
        assert running.poll() is None
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)
    try:
        said, _ = running.communicate(timeout=STOPPED_S)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        said, _ = running.communicate()
        pytest.fail(f"it hangs:\n{said}")
    assert running.returncode != 0, said
    assert "acapella: stopped; run snakemake again to continue" in said.splitlines(), said
    assert "these samples failed" not in said and "Traceback" not in said, said
    assert not list(place.campaign.rglob("*.part"))
    del place.environment["PATH"]
    place.succeed("--cores", "2", "process")
    assert place.sha256("acap/*", "flows/*", "tables/*") == finished.sha256("acap/*", "flows/*", "tables/*")


def test_an_interrupt_of_snakemake_alone_is_reported_as_one(tmp_path):
    """As with `kill -INT PID`, no job receives the signal, and the running digest completes."""
    place, seconds = workplace(tmp_path / "place"), f"3.{os.getpid()}"
    place.replace_tshark(tmp_path, f'sleep {seconds}; exec {shutil.which("tshark")} "$@"')
    running = place.start("--cores", "1", output=subprocess.PIPE)
    while not runs("sleep", seconds):
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    said, _ = running.communicate(timeout=STOPPED_S)
    assert running.returncode == 1, said
    assert "acapella: stopped; run snakemake again to continue" in said.splitlines(), said
    assert "no job failed" not in said and "these samples failed" not in said, said
