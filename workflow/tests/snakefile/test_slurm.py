"""Runs `snakemake --profile slurm` on a real Slurm: every job passes through sbatch and writes the same bytes."""

import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from acapella_testing import slurm_cluster
from acapella_testing.requirements import skip_if
from acapella_testing.workflow_run import ROOT, workplace

RESULTS = ("acap/*", "flows/*", "tables/*", "provenance/*")
# Unlike the profile, check the status of jobs every second.
STATUS_CHECKS = ("--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1")
PROFILE = ["--profile", str(ROOT / "profiles" / "slurm"), *STATUS_CHECKS]
TIMEOUT_S = 900  # reached only if something hangs


@pytest.fixture
def cluster():
    """Return a directory for a cluster's files. Skips the test with a reason if no cluster can be started."""
    skip_if(slurm_cluster.missing())
    with tempfile.TemporaryDirectory(prefix="slurm-") as directory:  # paths of pytest are too long for a Unix socket
        yield Path(directory)


def test_jobs_run_by_sbatch_write_the_same_bytes(cluster, tmp_path):
    local, slurm = workplace(tmp_path / "local"), workplace(tmp_path / "slurm")
    for place in (local, slurm):  # each Slurm job starts Snakemake again, so only one capture
        place.sheet(("alpha-p1", "alpha", "p1", "../captures/alpha-p1.pcap.gz"))
    local.succeed("--cores", "2", "process")
    command = slurm_cluster.command_on_cluster(cluster, slurm.command(*PROFILE, "process"))
    running = subprocess.Popen(
        command,
        cwd=slurm.directory,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed = running.communicate(timeout=TIMEOUT_S)[0]
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)  # ends unshare and all processes in its namespace
            running.wait()
    assert running.returncode == 0, printed
    launched = re.findall(r"Launching batch job (\d+)", (cluster / "slurmd.log").read_text())
    assert len(launched) == len(set(launched)) == jobs(printed)
    assert slurm.sha256(*RESULTS) == local.sha256(*RESULTS)


def jobs(printed: str) -> int:
    """Return the total number of jobs in Snakemake's table."""
    return int(re.search(r"^total +(\d+)$", printed, re.M)[1])
