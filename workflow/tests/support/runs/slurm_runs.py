"""Runs of `snakemake --profile slurm` on a cluster on this machine, while a test injects faults."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from acapella_testing.requirements import skip_if
from acapella_testing.runs import slurm_cluster
from acapella_testing.runs.slurm_cluster import Cluster
from acapella_testing.runs.workflow_run import ROOT, Workplace, workplace

# Unlike the profile, check the status of jobs every few seconds.
STATUS_CHECKS = ("--slurm-init-seconds-before-status-checks", "4", "--seconds-between-status-checks", "1")
PROFILE = ["--profile", str(ROOT / "profiles" / "slurm"), "--latency-wait", "5", *STATUS_CHECKS]
TIMEOUT_S = 900  # reached only if something hangs
POLL_S = 0.2
# Run a command. If it is killed by SIGKILL, run it with --unlock, then again.
REPEATED = '"$@"; [ $? = 137 ] && "$@" --unlock && "$@"'
SNAKEMAKE = r"^\S+ -m snakemake .* --profile "  # command line of Snakemake itself, not of its jobs


def one_sample(directory: Path) -> Workplace:
    """Return a workplace with only one sample, because each Slurm job starts Snakemake twice."""
    place = workplace(directory)
    place.sheet(("alpha-p1", "alpha", "p1", "../captures/alpha-p1.pcap.gz"))
    return place


@contextlib.contextmanager
def cluster(**options: bool) -> Iterator[Cluster]:
    """Provide a cluster that is not running yet. Skips the test with a reason if none can be started."""
    skip_if(slurm_cluster.missing(accounting=options.get("accounting", False)))
    with tempfile.TemporaryDirectory(prefix="slurm-") as directory:  # pytest's paths are too long for a Unix socket
        yield Cluster(Path(directory), **options)


def run_on(
    cluster: Cluster,
    place: Workplace,
    *arguments: str,
    fault: Callable[[], object] = lambda: None,
    killed: bool = False,
) -> str:
    """Run Snakemake on the cluster and return its output. Fails the test if Snakemake fails.

    ``fault`` is called when the nodes are ready. It may wait for jobs (`jobs_in_state`). ``killed``: it kills Snakemake
    (`kill_snakemake`), which then runs again.
    """
    command = [*(("sh", "-c", REPEATED, "sh") if killed else ()), *place.command(*PROFILE, *arguments)]
    with tempfile.TemporaryFile("w+") as output:
        running = cluster.start(command, place.directory, output, place.environment)
        try:
            wait_for((cluster.directory / "control").exists, "the cluster", running)
            fault()
            running.wait(TIMEOUT_S)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)  # ends unshare and all processes in its namespace
                running.wait()
            output.seek(0)
            printed = output.read()
            print(printed)
    assert running.returncode == 0, printed
    return printed


def wait_for(condition: Callable[[], object], what: str, running: subprocess.Popen | None = None):
    """Wait until a condition holds, and return its value. Fails the test if the run ends first, or on timeout."""
    end = time.monotonic() + TIMEOUT_S
    while not (value := condition()):
        assert time.monotonic() < end, f"{what}: not ready within {TIMEOUT_S} s"
        assert running is None or running.poll() is None, f"{what}: the run has ended"
        time.sleep(POLL_S)
    return value


def kill_snakemake(cluster: Cluster) -> None:
    """Kill Snakemake, but not its jobs."""
    cluster.run("pkill", "--signal=KILL", "--full", SNAKEMAKE)


def jobs_in_state(cluster: Cluster, state: str, rule: str = "") -> list[tuple[str, str]]:
    """Return (identifier, node) of Slurm's jobs of a rule in a state, such as RUNNING."""
    lines = cluster.run("squeue", "--noheader", f"--states={state}", "--format=%i|%N|%k").splitlines()
    jobs = [line.split("|") for line in lines if line.count("|") == 2]
    return [(job, node) for job, node, comment in jobs if rule in comment]
