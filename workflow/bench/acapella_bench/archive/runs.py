"""Runs the whole workflow over an archive: from the sample sheet to the report, on one or two cores.

In a full run, the archive contains 300 million frames in 1,000 captures; in a small one, 3 million in 10. --samples
sets a different number of captures. Engine hybrid runs over a tenth of them. Captures and results take at most 15 GB of
disk: results are deleted before the next run.
"""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..programs import ROOT, Bench
from . import slurm
from .captures import SNAPLEN, Archive, make_campaign, write_config
from .stages import bytes_below, stage_rows, stages_of

FULL_CAPTURES = 1000  # captures of a full run
FRAMES, FLOWS = 300_000, 6000  # of each capture
JOBS = 4  # batches of a stage, two for each core: each job of Slurm starts Snakemake twice
CORES = 2
MAX_MINUTES = 6  # goal for the wall time of the full archive
DISK_GB = 15


@dataclass(frozen=True)
class Run:
    """Wall time and rows of one run of the workflow."""

    wall_s: float
    rows: list[dict]


def run(bench: Bench) -> list[dict]:
    """Run the workflow with engines native and hybrid on two cores, hybrid over a tenth of the captures."""
    archive, _, rows = create_archive(bench)
    native = run_of(bench, "native", CORES)
    tenth = max(2, archive.captures // 10)
    hybrid = run_of(replace(bench, scale={**bench.scale, "archive": tenth}), "hybrid", CORES)
    goal = {"goal": f"< {60 * MAX_MINUTES}"} if archive.captures == FULL_CAPTURES else {}
    return [
        *rows,
        {"measured": "native: wall time", "value": native.wall_s, "unit": "s", **goal, "note": f"{CORES} cores"},
        *native.rows,
        {
            "measured": "hybrid: wall time",
            "value": hybrid.wall_s,
            "unit": "s",
            "note": f"{CORES} cores, {tenth:,} captures",
        },
        *({key: row[key] for key in row if key != "goal"} for row in hybrid.rows),
    ]


def run_cores(bench: Bench) -> Iterator[dict]:
    """Compare one core with two, and Slurm with a local run; yield rows, which are kept if a later run fails."""
    archive, directory, rows = create_archive(bench)
    yield from rows
    two_cores_s = run_of(bench, "native", CORES).wall_s
    yield {"measured": "two cores", "value": two_cores_s, "unit": "s"}
    one_core_s = run_of(bench, "native", 1).wall_s
    yield {"measured": "one core", "value": one_core_s, "unit": "s"}
    yield {"measured": "speedup", "value": one_core_s / two_cores_s, "unit": "times", "goal": ">= 1.8"}
    if reason := slurm.missing():
        yield {"measured": "through Slurm", "value": "skipped", "note": reason}
        return
    prepare(directory, "native", archive)
    slurm_s, jobs = slurm.run(directory, CORES)
    overhead = 100 * (slurm_s / two_cores_s - 1)
    note = f"{jobs} jobs, one node with {CORES} cores"
    yield {"measured": "through Slurm", "value": slurm_s, "unit": "s", "note": note}
    yield {"measured": "overhead of Slurm", "value": overhead, "unit": "%", "goal": "<= 20"}


def create_archive(bench: Bench) -> tuple[Archive, Path, list[dict]]:
    """Return the archive, its directory, and rows about it. The archive is generated only once."""
    archive = Archive(bench.scale["archive"], FRAMES, FLOWS)
    directory = bench.directory / f"archive-{archive.captures}"
    record = directory / "archive.json"
    if not record.exists():
        start = time.monotonic()
        size = make_campaign(bench, directory, archive, batch_of(archive))
        record.write_text(json.dumps({"bytes": size, "seconds": time.monotonic() - start}), encoding="utf-8")
    facts = json.loads(record.read_text(encoding="utf-8"))
    frames = archive.captures * archive.frames
    batches = f"batches of {batch_of(archive)}"
    scale = f"scale 1/{FULL_CAPTURES / archive.captures:g} of the full archive"
    note = f"{archive.captures:,} captures in {batches}; {scale}"
    return (
        archive,
        directory,
        [
            {"measured": "frames", "value": frames, "unit": "frames", "note": note},
            {
                "measured": "captures",
                "value": facts["bytes"] / frames,
                "unit": "bytes/frame",
                "note": f"snap length {SNAPLEN}, zstd, generated in {facts['seconds']:.0f} s",
            },
        ],
    )


def batch_of(archive: Archive) -> int:
    """Return the number of samples of a batch, at least two, because one sample is not processed as a batch."""
    return max(2, -(-archive.captures // JOBS))


def prepare(directory: Path, engine: str, archive: Archive) -> Path:
    """Delete the results of an earlier run, and write the config; return the directory of the campaign."""
    shutil.rmtree(directory / "results", ignore_errors=True)
    shutil.rmtree(directory / ".snakemake", ignore_errors=True)
    write_config(directory, engine, batch_of(archive))
    return directory / "results" / "bench"


def run_of(bench: Bench, engine: str, cores: int) -> Run:
    """Return the run of an engine on a number of cores. It runs only once, even if several benchmarks need it."""
    archive, directory, _ = create_archive(bench)
    record = directory / f"{engine}-{cores}.json"
    if not record.exists():
        campaign = prepare(directory, engine, archive)
        measured = bench.measure(snakemake_words(directory, cores), any_core=cores > 1, cwd=directory)
        wall_s = measured.wall_s
        frames = archive.captures * archive.frames
        rows = [
            {
                "measured": f"{engine}: rate",
                "value": round(frames / wall_s / cores),
                "unit": "frames/s per core",
            },
            {
                "measured": f"{engine}: CPU time",
                "value": 1e9 * measured.cpu_s / frames,
                "unit": "ns/frame",
                "note": f"{measured.cpu_s:.0f} s; unlike wall time, hardly depends on other programs",
            },
            *stage_rows(stages_of(campaign), wall_s, cores),
            *size_rows(directory, campaign, frames),
        ]
        record.write_text(json.dumps(asdict(Run(wall_s, rows))), encoding="utf-8")
    return Run(**json.loads(record.read_text(encoding="utf-8")))


def snakemake_words(directory: Path, cores: int) -> list:
    """Return the command line of a local run."""
    return [sys.executable, "-m", "snakemake", "-s", ROOT / "Snakefile", "--directory", directory, "--cores", cores]


def size_rows(directory: Path, campaign: Path, frames: int) -> list[dict]:
    """Return the bytes on disk per frame, of the results and in total."""
    sizes = {name: bytes_below(campaign / name) for name in ("acap", "flows")}
    sizes["partial results"] = bytes_below(campaign / "partial") + bytes_below(campaign / "batches" / "partial")
    rows = [
        {"measured": f"bytes of {name}", "value": size / frames, "unit": "bytes/frame"} for name, size in sizes.items()
    ]
    rows.append({"measured": "bytes of all results", "value": bytes_below(campaign) / frames, "unit": "bytes/frame"})
    total = bytes_below(directory) / 1e9
    return [*rows, {"measured": "disk, with captures", "value": total, "unit": "GB", "goal": f"<= {DISK_GB}"}]
