"""Runs `snakemake --profile slurm` on a real Slurm: every job passes through sbatch and writes the same bytes.

test_slurm_faults.py has the tests with faults.
"""

from acapella_testing.runs import slurm_runs
from acapella_testing.runs.workflow_run import DIGESTS, jobs


def test_jobs_run_by_sbatch_write_the_same_bytes(tmp_path):
    local, slurm = (slurm_runs.one_sample(tmp_path / name) for name in ("local", "slurm"))
    stages = ("--until", "collect", "digest")
    local.succeed("--cores", "2", *stages)
    with slurm_runs.cluster() as cluster:
        printed = slurm_runs.run_on(cluster, slurm, *stages)
        launched = cluster.launched()
    assert len(launched) == len(set(launched)) == sum(jobs(printed).values()) == 2
    assert slurm.sha256(*DIGESTS, "raw/*.json") == local.sha256(*DIGESTS, "raw/*.json")
