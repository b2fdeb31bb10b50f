"""Runs `snakemake --profile slurm` on captures in an S3 storage; make soak runs it."""

import sys

from acapella_testing.runs import s3_server, slurm_runs
from acapella_testing.runs.workflow_run import CAPTURES, DIGESTS, Workplace, workplace
from acapella_testing.soak import takes_minutes

pytestmark = takes_minutes


class StoredPlace(Workplace):
    """A workplace with a storage of the captures of .test/, which is in the namespaces of the cluster."""

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, s3_server.__file__, "captures", str(CAPTURES), *super().command(*arguments)]


def test_slurm_jobs_use_the_copies_of_the_submitting_node(tmp_path):
    local, slurm = workplace(tmp_path / "local"), StoredPlace(tmp_path / "slurm")
    slurm.configure()
    for place, origin in ((local, "../captures"), (slurm, "s3://captures")):
        place.sheet(("alpha-p1", "alpha", "p1", f"{origin}/alpha-p1.pcap.gz"))
    target = "results/tiny/acap/alpha-p1.parquet"
    local.succeed("--cores", "2", target)
    with slurm_runs.cluster() as cluster:
        assert slurm_runs.planned_jobs(slurm_runs.run_on(cluster, slurm, target)) == len(cluster.launched()) == 2
    assert slurm.sha256(*DIGESTS) == local.sha256(*DIGESTS)
    assert [path for path in slurm.directory.rglob("*.pcap*") if not path.is_dir()] == []
