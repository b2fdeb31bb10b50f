"""Runs `snakemake --profile slurm` on captures in an S3 storage; make soak runs it."""

import sys

from acapella_testing.runs import s3_server, slurm_runs
from acapella_testing.runs.workflow_run import CAPTURES, DIGESTS, Workplace, jobs, workplace
from acapella_testing.soak import takes_minutes

pytestmark = takes_minutes


class StoredPlace(Workplace):
    """A workplace that starts Snakemake and an S3 server with the captures of .test/ in namespaces of the cluster."""

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, s3_server.__file__, "captures", str(CAPTURES), *super().command(*arguments)]


def test_slurm_jobs_use_the_copies_of_the_submitting_node(tmp_path):
    local, slurm = workplace(tmp_path / "local"), StoredPlace(tmp_path / "slurm")
    slurm.configure()
    names = [path.name.partition(".")[0] for path in sorted(CAPTURES.iterdir())]
    slurm.sheet(*((name, *name.split("-"), f"s3://captures/{name}.pcap.gz") for name in names))
    targets = [f"results/tiny/acap/{name}.parquet" for name in names]
    local.succeed("--cores", "2", *targets)
    with slurm_runs.cluster() as cluster:
        run = slurm_runs.run_on(cluster, slurm, *targets)
        assert sum(jobs(run).values()) == len(cluster.launched()) == 2 * len(names) == 6
    assert slurm.sha256(*DIGESTS) == local.sha256(*DIGESTS)
    assert [path for path in slurm.directory.rglob("*.pcap*") if not path.is_dir()] == []
