"""A campaign of one batch, and runs of `acapella campaign batch` in this process."""

import faulthandler
import os
import signal
from pathlib import Path

import pyarrow.parquet as pq
from acapella_testing.csv_rows import read_rows
from acapella_testing.frames.traces import busy_port, write_pcap
from acapella_testing.generated.digests import write_manifest

from acapella.campaign.batches import Member, write_plan
from acapella.cli import main as cli
from acapella.common import queries

SAMPLES = ("s0", "s1", "s2")
BATCH = "b0001"


def write_campaign(campaign: Path) -> Path:
    """Write a plan of one batch, and its captures next to the campaign; return the campaign.

    The port of each sample has the same name as the sample.
    """
    campaign.mkdir(parents=True)
    captures = {name: write_pcap(campaign.parent / f"{name}.pcap", busy_port()) for name in SAMPLES}
    write_plan(campaign, [Member(BATCH, name, "site", name, str(path)) for name, path in captures.items()])
    return campaign


def digest_arguments(campaign: Path, *options: str) -> list[str]:
    """Return the arguments that digest the batch."""
    output = campaign / "batches" / "digest" / f"{BATCH}.tsv"
    return ["campaign", "batch", str(campaign), "digest", BATCH, "-o", str(output), "--", "--engine=native", *options]


def write_digests(campaign: Path) -> Path:
    """Digest the batch and write manifests; return the campaign."""
    assert cli.main(digest_arguments(campaign)) == 0
    for name in SAMPLES:
        write_manifest(campaign, name, ("site", name), status="ok")
    return campaign


def analysis_arguments(campaign: Path, **versions: int) -> list[str]:
    """Return the arguments that analyze the batch. ``versions``: query versions other than 1."""
    output = str(campaign / "batches" / "analyze" / f"{BATCH}.tsv")
    tables = [f"{name}={versions.get(name, 1)}" for name in queries.names("analyze")]
    return ["campaign", "batch", str(campaign), "analyze", BATCH, "-o", output, "--tables", *tables, "--"]


def analyze(campaign: Path, **versions: int) -> int:
    """Analyze the batch; return the exit code."""
    return cli.main(analysis_arguments(campaign, **versions))


def partials(campaign: Path) -> dict[str, list[dict]]:
    """Return the rows of all partial tables of the batch."""
    paths = (campaign / "batches" / "partial" / BATCH).iterdir()
    return {path.stem: pq.read_table(path).to_pylist() for path in sorted(paths)}


def kill_itself(number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to this process, a fork of pytest, without pytest's report of a crash."""
    faulthandler.disable()
    os.kill(os.getpid(), number)


def processed_samples(campaign: Path, stage: str) -> list[str]:
    """Return the samples that the last run of a stage processed, in their order."""
    return [row["sample"] for row in read_rows(campaign / "benchmarks" / "batches" / stage / f"{BATCH}.samples.tsv")]


def analyzed_samples(campaign: Path) -> list[str]:
    """Return the samples that the last run of the analysis processed, sorted."""
    return sorted(processed_samples(campaign, "analyze"))
