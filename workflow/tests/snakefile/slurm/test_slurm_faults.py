"""Runs the workflow on a real Slurm with faults: each run ends with all results, and the same bytes as a local run.

In most of them, all samples are in one batch: there are then as many jobs as for one sample. Each test takes one to
three minutes, and on a busy machine more than the timeout in pyproject.toml. `make soak` runs them, and `make test`
only test_slurm.py.
"""

import contextlib
import importlib.util
import signal
import time
from pathlib import Path

import pytest
from acapella_testing.requirements import require
from acapella_testing.runs import slurm_runs
from acapella_testing.runs.workflow_run import CAPTURES, DIGESTS, RESULTS, Workplace, jobs, workplace
from acapella_testing.soak import takes_minutes

from acapella.campaign.journal import Journal

pytestmark = [takes_minutes, pytest.mark.timeout(2 * slurm_runs.TIMEOUT_S)]
SAMPLES = ("alpha-p1", "alpha-p2", "beta-p1")
HELD_S = 40  # longer than the time by which Slurm delays a requeued job (cred_expire)
DOWN_S = 25  # longer than the plugin's queries of one check; if all fail, it forgets its jobs (docs/upstream.md)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Return a campaign of one sample, processed without Slurm."""
    place = slurm_runs.one_sample(tmp_path_factory.mktemp("local") / "place")
    place.succeed("--cores", "2")
    return place


@pytest.fixture
def place(tmp_path):
    """Return the same campaign before its first run."""
    return slurm_runs.one_sample(tmp_path / "slurm")


@pytest.fixture
def batched(tmp_path):
    """Return the tiny campaign, in one batch, before its first run."""
    return workplace(tmp_path / "slurm", batches={"samples": 3})


def running(cluster: slurm_runs.Cluster) -> list[tuple[str, str]]:
    """Return (identifier, node) of the running jobs of stage analyze."""
    return slurm_runs.jobs_in_state(cluster, "RUNNING", "analyze")


def started_samples(place: Workplace, stage: str, *batches: str) -> int:
    """Return how many times a sample of the batches (default: b0001) was started in a stage."""
    journals = (Journal(place.campaign, stage, batch) for batch in batches or ("b0001",))
    return sum(journal.path.read_text().count("\t\t") for journal in journals)


@pytest.mark.parametrize("share", [False, True])
def test_campaign_in_batches_is_the_same_with_accounting(finished, tmp_path, share):
    """``share``: the captures are on a share, from which jobs copy them; the report and provenance name them."""
    place, accounts = workplace(tmp_path, batches={"samples": 2}), set()
    if share:
        require(importlib.util.find_spec("snakemake_storage_plugin_fs"), "no storage plugin fs")
        place.sheet(*((name, *name.split("-"), f"fs:{CAPTURES}/{name}.pcap.gz") for name in SAMPLES))
    with slurm_runs.cluster(accounting=True) as cluster:

        def fault():
            """The controller sends jobs to the database a few seconds after they have started."""
            query = ("sacct", "--allocations", "--noheader", "--format=Account")
            accounts.update(slurm_runs.wait_for(lambda: cluster.run(*query).split(), "a job in the database"))

        printed = slurm_runs.run_on(cluster, place, fault=fault)
        launched = cluster.launched()
    assert accounts == {"traffic"}
    assert len(launched) == sum(jobs(printed).values())
    compared = (*DIGESTS, "tables/*", "figures/*") if share else RESULTS
    assert place.sha256(*compared) == finished.sha256(*compared)


def fail_node(cluster: slurm_runs.Cluster, _job: str, node: str, pause: Path) -> None:
    """Let a node lose power, and repair it after Slurm has noticed it."""
    cluster.fail_node(node)
    pause.unlink()
    slurm_runs.wait_for(lambda: "down" in cluster.run("sinfo", "-h", "-n", node, "-o", "%T"), "down")
    cluster.start_daemon(f"slurmd-{node}")


def submit_urgent_job(cluster: slurm_runs.Cluster) -> None:
    """Submit a job that needs all nodes, to a partition with a higher priority."""
    cluster.run("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=true")


def preempt(cluster: slurm_runs.Cluster, job: str, _node: str, pause: Path) -> None:
    """Preempt a job that Slurm requeues."""
    submit_urgent_job(cluster)
    slurm_runs.wait_for(lambda: job in dict(slurm_runs.jobs_in_state(cluster, "PENDING")), "a preempted job")
    pause.unlink()


def preempt_for_good(cluster: slurm_runs.Cluster, job: str, _node: str, pause: Path) -> None:
    """Preempt a job that Slurm does not requeue."""
    cluster.run("scontrol", "update", "PartitionName=all", "PreemptMode=CANCEL")
    submit_urgent_job(cluster)
    slurm_runs.wait_for(lambda: job in dict(slurm_runs.jobs_in_state(cluster, "PREEMPTED")), "a preempted job")
    pause.unlink()


def hold(cluster: slurm_runs.Cluster, job: str, _node: str, pause: Path) -> None:
    """Requeue a job and hold it, and release it later."""
    cluster.run("scontrol", "requeue", job)
    slurm_runs.wait_for(lambda: job in dict(slurm_runs.jobs_in_state(cluster, "PENDING")), "a requeued job")
    cluster.run("scontrol", "hold", job)
    pause.unlink()
    time.sleep(HELD_S)
    assert cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%T %r").startswith("PENDING JobHeld")
    cluster.run("scontrol", "release", job)


@pytest.mark.parametrize(
    ("interrupt", "starts", "accounting"),
    [
        (fail_node, 2, False),
        (preempt, 2, True),
        (preempt_for_good, 1, False),
        (preempt_for_good, 1, True),
        (hold, 2, False),
    ],
)
def test_interrupted_job_runs_again(finished, batched, interrupt, starts, accounting):
    """It is interrupted after it has written the first table of a group of samples.

    ``starts``: how many times Slurm starts this job; Snakemake submits a new one if Slurm does not requeue it.
    """
    pause, interrupted = batched.pause_analysis(), []
    with slurm_runs.cluster(accounting=accounting) as cluster:

        def fault():
            slurm_runs.wait_for(batched.tables_of_batch, "a table")
            ((job, node),) = running(cluster)
            interrupted.append(job)
            interrupt(cluster, job, node, pause)

        slurm_runs.run_on(cluster, batched, fault=fault)
        launched = cluster.launched()
    assert launched.count(interrupted[0]) == starts, (interrupted, launched)
    assert started_samples(batched, "analyze") == 6
    assert batched.sha256(*RESULTS) == finished.sha256(*RESULTS)


def test_run_after_a_killed_snakemake_waits_for_its_job_and_cancels_the_others(finished, tmp_path):
    """Snakemake is killed when one batch is being analyzed, and the job of the other one is pending."""
    place, batches, canceled = workplace(tmp_path, batches={"samples": 2}), ("b0001", "b0002"), []
    pause, logs = place.pause_analysis(), place.campaign / "logs" / "batches" / "analyze"
    with slurm_runs.cluster(cpus=2) as cluster:

        def pending(batch: str) -> list[str]:
            """Return the pending jobs of a batch that are not in ``canceled``."""
            found = slurm_runs.jobs_in_state(cluster, "PENDING", f"analyze_wildcards_{batch}")
            return [job for job, _ in found if job not in canceled]

        def waits(batch: str) -> bool:
            """Return whether the second job of a batch waits for the first one."""
            with contextlib.suppress(FileNotFoundError):  # Snakemake deletes the log before the job starts
                return "waiting for another process" in (logs / f"{batch}.log").read_text()
            return False

        def fault():
            """The second job of the running batch can start, because the other job is held meanwhile."""
            cluster.run("scontrol", "update", "NodeName=n2", "State=drain", "Reason=test")
            batch = slurm_runs.wait_for(lambda: next(filter(place.tables_of_batch, batches), None), "a table")
            (other,) = {*batches} - {batch}
            ((job, _),) = running(cluster)
            canceled.extend(slurm_runs.wait_for(lambda: pending(other), "a pending job"))
            slurm_runs.kill_snakemake(cluster)
            ((held,), _) = slurm_runs.wait_for(lambda: all(new := [*map(pending, (other, batch))]) and new, "jobs")
            assert "Requeue=0" in cluster.run("scontrol", "show", "job", job)
            cluster.run("scontrol", "hold", held)
            cluster.run("scontrol", "update", "NodeName=n2", "State=resume")
            slurm_runs.wait_for(lambda: waits(batch), "the second job of the batch")
            pause.unlink()
            cluster.run("scontrol", "release", held)

        printed = slurm_runs.run_on(cluster, place, "--set-threads", "analyze=2", fault=fault, killed=True)
        launched = cluster.launched()
    assert "acapella: canceled pending Slurm jobs of an earlier run, which was killed: " in printed
    assert not {*canceled} & {*launched}
    assert started_samples(place, "analyze", *batches) == 3
    assert place.sha256(*RESULTS) == finished.sha256(*RESULTS)


def test_job_over_its_memory_is_repeated_with_more(finished, batched):
    """It exceeds its memory limit after it has written the first table of a group of samples."""
    pause = batched.pause_analysis("held.append(b'x' * (64 << 20))")
    with slurm_runs.cluster(over_memory_kill=True) as cluster:

        def exceeded() -> bool:
            """Return whether a log contains Slurm's message."""
            logs = [*batched.directory.glob(".snakemake/slurm_logs/*/*/*.log"), *cluster.directory.glob("slurmd-*.log")]
            return any("exceeded memory limit" in log.read_text() for log in logs)

        def fault():
            """Without the pause, the job could end before Slurm has killed it."""
            ((job, _),) = slurm_runs.wait_for(lambda: running(cluster), "an analysis")
            slurm_runs.wait_for(exceeded, "a job over its memory")
            slurm_runs.wait_for(lambda: job not in dict(running(cluster)), "its end")
            pause.unlink()

        printed = slurm_runs.run_on(cluster, batched, "--set-resources", "analyze:mem_mb=900 * attempt", fault=fault)
    assert "Trying to restart job" in printed
    assert started_samples(batched, "analyze") == 6
    assert batched.sha256(*RESULTS) == finished.sha256(*RESULTS)


def test_one_run_completes_a_campaign_and_omits_a_failed_sample(local, place):
    """The file of a second sample is not a capture."""
    place.configure(missing="report")
    place.add_letter()
    with slurm_runs.cluster() as cluster:
        printed = slurm_runs.run_on(cluster, place, "--retries", "0")
        launched = cluster.launched()
    assert printed.count("acapella: starting the next run; ") == 1
    assert "1 sample is missing from the tables, because its job failed: letter" in printed
    page = (place.campaign / "report.html").read_text().replace("\xa0", " ")
    assert "1 sample of 2 failed and is in no table or figure: letter (digest: " in page
    assert len(launched) == 10  # samples, collect and digest twice, index, analyze, process, figures, report
    same = ("acap/alpha-p1.parquet", "flows/*", "tables/frame_sizes.csv")
    assert place.sha256(*same) == local.sha256(*same)


def restart_controller(place: Workplace, number: int) -> None:
    """Run a campaign, and restart the controller while a job runs. ``number``: signal that ends the controller."""
    with slurm_runs.cluster() as cluster:

        def fault():
            slurm_runs.wait_for(lambda: slurm_runs.jobs_in_state(cluster, "RUNNING"), "a job")
            cluster.stop_daemon("slurmctld", number)
            time.sleep(DOWN_S)
            cluster.start_daemon("slurmctld")

        slurm_runs.run_on(cluster, place, fault=fault)


def test_run_continues_after_a_controller_restart(local, place):
    restart_controller(place, signal.SIGTERM)
    assert place.sha256(*RESULTS) == local.sha256(*RESULTS)


def test_batch_run_continues_after_a_controller_crash(finished, batched):
    """The controller does not know the jobs submitted in the last seconds."""
    restart_controller(batched, signal.SIGKILL)
    assert batched.sha256(*RESULTS) == finished.sha256(*RESULTS)


def test_job_over_its_time_limit_is_repeated_with_more(finished, batched, tmp_path):
    """tshark hangs in the first attempt. The next attempt processes this sample last."""
    batched.replace_tshark(tmp_path / "first", "sleep 1000")
    with slurm_runs.cluster() as cluster:

        def fault():
            slurm_runs.wait_for(lambda: slurm_runs.jobs_in_state(cluster, "TIMEOUT", "digest"), "a time limit")
            batched.replace_tshark(tmp_path / "first", 'exec tshark "$@"')

        printed = slurm_runs.run_on(cluster, batched, "--set-resources", "digest:runtime=attempt**4", fault=fault)
    assert "SLURM status is: 'TIMEOUT'" in printed
    costs = (batched.campaign / "benchmarks" / "batches" / "digest" / "b0001.samples.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in costs[1:]] == ["alpha-p2", "beta-p1", "alpha-p1"]
    assert batched.sha256(*RESULTS) == finished.sha256(*RESULTS)
