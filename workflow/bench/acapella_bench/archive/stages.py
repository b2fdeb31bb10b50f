"""Reads time and memory of each stage of a campaign from the benchmark files of Snakemake and of batches."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BATCHED = ("collect", "digest", "analyze")
STAGES = ("collect", "digest", "index", "analyze", "process", "figures", "report")
THREADS = {"process": 2}  # cores of a job; one for other stages
MAX_SHARE = 25  # % of the time for each stage except digest


@dataclass(frozen=True)
class Stage:
    """The jobs of a stage."""

    name: str
    jobs: int
    seconds: float  # sum over the jobs
    peak_mib: float  # maximum over the jobs, and over the samples of batches

    def core_seconds(self, cores: int) -> float:
        """Return the core-seconds that the jobs occupied."""
        return self.seconds * min(THREADS.get(self.name, 1), cores)


def stages_of(campaign: Path) -> list[Stage]:
    """Return the stages of a finished campaign, in order. Raises FileNotFoundError if one of them did not run."""
    stages = []
    for name in STAGES:
        directory = campaign / "benchmarks" / "batches" / name if name in BATCHED else campaign / "benchmarks"
        pattern = "b*.tsv" if name in BATCHED else f"{name}.tsv"
        jobs = [path for path in sorted(directory.glob(pattern)) if not path.name.endswith(".samples.tsv")]
        if not jobs:
            raise FileNotFoundError(f"no benchmark of {name} in {directory}")
        rows = [row for path in jobs for row in rows_of(path)]
        samples = [row for path in sorted(directory.glob("b*.samples.tsv")) for row in rows_of(path)]
        peak_mib = max(float(row["max_rss"]) for row in rows if row["max_rss"] != "NA")
        peak_mib = max([peak_mib, *(float(row["max_rss_mb"]) for row in samples if name in BATCHED)])
        stages.append(Stage(name, len(jobs), sum(float(row["s"]) for row in rows), peak_mib))
    return stages


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a TSV file."""
    with path.open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream, delimiter="\t")


def stage_rows(stages: list[Stage], wall_s: float, cores: int) -> list[dict]:
    """Return share and peak memory of each stage. The rest is the share of Snakemake, and idle cores."""
    rows, used_s = [], 0.0
    for stage in stages:
        core_s = stage.core_seconds(cores)
        used_s += core_s
        jobs = f"{stage.jobs} job{'' if stage.jobs == 1 else 's'}"
        rows.append(
            {
                "measured": f"share of {stage.name}",
                "value": 100 * core_s / (wall_s * cores),
                "unit": "% of core time",
                "goal": "" if stage.name == "digest" else f"<= {MAX_SHARE}",
                "note": f"{jobs}, {core_s:.1f} core-seconds, peak memory {stage.peak_mib:.0f} MiB",
            }
        )
    rest = 100 * (1 - used_s / (wall_s * cores))
    note = "startup and planning, and idle cores"
    rows.append({"measured": "share of Snakemake", "value": rest, "unit": "% of core time", "note": note})
    return rows


def bytes_below(directory: Path) -> int:
    """Return the bytes of all files below a directory; a file with several hard links counts once."""
    files = (path.lstat() for path in directory.rglob("*") if not path.is_dir() or path.is_symlink())
    return sum({(file.st_dev, file.st_ino): file.st_size for file in files}.values())
