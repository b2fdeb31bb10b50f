"""Tests runs of the workflow that are killed or interrupted: the files they leave, and the next run."""

import os
import shutil
import signal
import subprocess

import pytest
from acapella_testing.runs.workflow_run import RESULTS, PausedProgram, workplace
from acapella_testing.waiting import wait_until

TIMEOUT_S = 300  # reached only if the run hangs
INTERRUPTED = "acapella: stopped; run snakemake again to continue"


def printed_at_end(running: subprocess.Popen) -> str:
    """Return the output of a run when it ends. Kill it and fail the test if it hangs."""
    try:
        return running.communicate(timeout=TIMEOUT_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        pytest.fail(f"the run hangs:\n{running.communicate()[0]}")


def test_interrupted_and_then_killed_run_is_completed_with_the_same_bytes(finished, tmp_path):
    """Uses another directory than the complete run, and in the last part two cores and threads instead of one.

    As a terminal does, the test sends the interrupt to the whole process group, while a digest waits for tshark.
    """
    place = workplace(tmp_path / "elsewhere", digest={"threads": 2})
    with place.paused_tshark() as tshark:
        running = place.start("--cores", "1", output=subprocess.PIPE)
        tshark.wait(running)
        os.killpg(running.pid, signal.SIGINT)
        printed = printed_at_end(running)
    assert running.returncode != 0, printed
    assert printed.splitlines()[-1] == INTERRUPTED, printed
    for unwanted in ("these samples failed", "Traceback", "RuleException", "Error in rule", "WorkflowError"):
        assert unwanted not in printed, printed
    (log,) = place.directory.glob(".snakemake/log/*.log")
    assert "Error in rule digest" in log.read_text()
    assert not list(place.campaign.rglob("*.part"))

    running = place.start("--cores", "1")
    wait_until(lambda: list(place.campaign.glob("acap/*.parquet")), running=running)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert not (place.campaign / "report.html").exists()
    place.succeed("--unlock")
    place.succeed("--cores", "2", "report")
    assert place.sha256(*RESULTS) == finished.sha256(*RESULTS)


@pytest.mark.soak
def test_repeated_sigterm_ends_the_run_and_leaves_nothing_behind(tmp_path):
    """The signal is sent to the whole process group, as to stop `make demo`, and then repeatedly to Snakemake."""
    place = workplace(tmp_path)
    running = place.start("--cores", "2")
    try:
        wait_until(lambda: list(place.campaign.glob("logs/digest/*.log")), running=running)
        os.killpg(running.pid, signal.SIGTERM)
        wait_until(lambda: running.poll() is not None or running.terminate(), "the run hangs")
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode, "it completed"
    assert not list(place.campaign.rglob("*.part"))
    assert not list(place.directory.glob(".snakemake/locks/*")), "the next run would need --unlock"


@pytest.mark.soak
def test_interrupt_of_snakemake_alone_is_reported(tmp_path):
    """As with `kill -INT PID`, no job receives the signal, and the running digest completes.

    The first run is interrupted while Snakemake reads the Snakefile, which waits for the content of the sample sheet.
    """
    place = workplace(tmp_path / "place")
    sheet = place.directory / "config" / "samples.tsv"
    original = sheet.rename(tmp_path / "samples.tsv")
    reading = PausedProgram(sheet)
    running = place.start("--cores", "1", output=subprocess.PIPE)
    reading.wait(running)
    running.send_signal(signal.SIGINT)
    profile, *printed = printed_at_end(running).splitlines()
    assert profile.startswith("Using workflow specific profile ")
    assert (printed, running.returncode) == (["acapella: stopped"], 1)
    original.replace(sheet)

    with place.paused_tshark(then=f'exec {shutil.which("tshark")} "$@"') as tshark:
        running = place.start("--cores", "1", output=subprocess.PIPE)
        tshark.wait(running)
        running.send_signal(signal.SIGINT)
        tshark.proceed()
        printed = printed_at_end(running)
    assert running.returncode == 1, printed
    assert printed.splitlines()[-1] == INTERRUPTED, printed
    assert "no job failed" not in printed, printed
    assert "these samples failed" not in printed, printed
