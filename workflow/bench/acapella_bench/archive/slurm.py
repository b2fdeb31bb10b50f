"""Runs a campaign through a real Slurm on this machine, with the cluster of the tests: a controller and a node."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ..programs import ROOT, Failed

START_S, TIMEOUT_S = 120, 6 * 3600  # only reached if something hangs
POLL_S = 0.05


def missing() -> str | None:
    """Return why no cluster can be started; None if one can."""
    try:
        from acapella_testing.runs import slurm_cluster  # noqa: PLC0415 - optional
    except ImportError:
        return "the cluster of the tests is not installed: make .venv/stamps/dev"
    return slurm_cluster.missing()


def run(archive_directory: Path, cores: int) -> tuple[float, int]:
    """Run the workflow through Slurm; return seconds since the node was ready, and the number of jobs.

    The node has ``cores``, so that the jobs have as many threads as in a local run.
    """
    from acapella_testing.runs.slurm_cluster import Cluster  # noqa: PLC0415 - optional

    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--directory", str(archive_directory)]
    command += ["--profile", str(ROOT / "profiles" / "slurm")]
    with tempfile.TemporaryDirectory(prefix="slurm-") as directory, tempfile.TemporaryFile("w+") as output:
        cluster = Cluster(Path(directory), nodes=1, cpus=cores)
        running = cluster.start(command, archive_directory, output, {})
        try:
            ready = wait_for(cluster.directory / "control", running)
            running.wait(TIMEOUT_S)
            wall_s = time.monotonic() - ready
        finally:
            end(running)
        output.seek(0)
        printed = output.read()
        if running.returncode:
            lines = printed.strip().splitlines()
            start = next((number for number, line in enumerate(lines) if line.startswith("Error in rule")), -1)
            raise Failed(f"snakemake through Slurm: {' '.join(line.strip() for line in lines[start:][:8])}")
    return wall_s, int(re.search(r"^total +(\d+)$", printed, re.MULTILINE)[1])


def wait_for(path: Path, running: subprocess.Popen) -> float:
    """Wait until the cluster is ready; return the time. Raises Failed on timeout, or if the cluster ends."""
    limit = time.monotonic() + START_S
    while not path.exists():
        if running.poll() is not None or time.monotonic() > limit:
            raise Failed("the Slurm cluster cannot start")
        time.sleep(POLL_S)
    return time.monotonic()


def end(running: subprocess.Popen) -> None:
    """End the cluster and all processes in its namespace."""
    if running.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
