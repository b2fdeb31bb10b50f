"""Campaigns of many small captures in batches: plans, jobs, and the cost of a sample in each stage.

Captures have 1,000 frames of the generator and differ only in the time of their first frame. All stages run on one
core.
"""

import csv
import re
import struct
import sys
from pathlib import Path

import yaml

from .archive.stages import stage_rows, stages_of
from .programs import ROOT, Bench, Failed, Measured, native_program

BATCH = 200
SITES, PORTS = 28, 7
FRAMES = 1000
PCAP_HEADER_BYTES = 24
DIRECTORY_FILES = 1000
STAGES = ("collect", "digest", "analyze")


def run(bench: Bench) -> list[dict]:
    """Return the rows on plans of large campaigns, and on a campaign that is processed up to its report."""
    rows = []
    for samples in bench.scale["planned_samples"]:
        place = make_campaign(bench, samples, linked=True)
        measured = snakemake(bench, place, "--dry-run")
        goal = {"goal": "< 60"} if samples >= 100_000 else {}
        rows += [
            {"measured": f"plan of {samples:,} samples", "value": measured.wall_s, "unit": "s", **goal},
            {"measured": f"jobs for {samples:,} samples", "value": jobs(measured), "unit": "jobs"},
            {"measured": f"memory for {samples:,} samples", "value": measured.peak_mib, "unit": "MiB"},
        ]
    samples = bench.scale["batched_samples"]
    place = make_campaign(bench, samples, linked=False)
    campaign = place / "results" / "bench"
    whole = snakemake(bench, place)
    note = f"{samples:,} captures of {FRAMES:,} frames on one core, from the sample sheet to the report"
    rows += [
        {"measured": "all stages", "value": whole.wall_s, "unit": "s", "note": note},
        {"measured": "a capture", "value": 1000 * whole.wall_s / samples, "unit": "ms", "goal": "< 20"},
        *({**row, "goal": ""} for row in stage_rows(stages_of(campaign), whole.wall_s, cores=1)),
        *(row for stage in STAGES for row in costs(campaign / "benchmarks" / "batches" / stage)),
    ]
    add_sample(place, samples)
    added = snakemake(bench, place, "--until", "process")
    rows.append({"measured": "one more sample", "value": added.wall_s, "unit": "s", "note": "up to its tables"})
    rows.append({"measured": "jobs for it", "value": jobs(added), "unit": "jobs"})
    return rows


def make_campaign(bench: Bench, samples: int, *, linked: bool) -> Path:
    """Return a directory with a config, a sheet and captures. ``linked``: all captures are the same file."""
    place = bench.directory / f"{'plan' if linked else 'campaign'}-{samples}"
    (place / "config").mkdir(parents=True)
    source = bench.directory / "sample.pcap"
    bench.run([native_program("acapella-generate"), "--frames", FRAMES, "-o", source])
    content = source.read_bytes()
    rows = [row_of(number) for number in range(samples)]
    for number, row in enumerate(rows):
        capture = place / "config" / row[3]
        if number % DIRECTORY_FILES == 0:
            capture.parent.mkdir(parents=True)
            first = capture
        if linked and capture is not first:
            capture.hardlink_to(first)
        else:
            capture.write_bytes(later(content, number))
    write_sheet(place, rows)
    config = {
        "campaign": "bench",
        "samples": "config/samples.tsv",
        "batches": {"samples": BATCH},
        "digest": {"engine": "native"},
    }
    (place / "config" / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return place


def row_of(number: int) -> tuple[str, str, str, str]:
    """Return sample, site, port and file of a sample."""
    name = f"s{number:06}"
    return name, f"SITE{number % SITES}", f"p{number % PORTS}", f"captures/{number // DIRECTORY_FILES:03}/{name}.pcap"


def write_sheet(place: Path, rows: list[tuple]) -> None:
    """Write the sample sheet."""
    lines = (("sample", "site", "port", "file"), *rows)
    (place / "config" / "samples.tsv").write_text("".join("\t".join(line) + "\n" for line in lines), encoding="utf-8")


def later(content: bytes, seconds: int) -> bytes:
    """Return a pcap whose first frame is a number of seconds later, so that its bytes differ."""
    end = PCAP_HEADER_BYTES + 4
    (first,) = struct.unpack("<I", content[PCAP_HEADER_BYTES:end])
    return content[:PCAP_HEADER_BYTES] + struct.pack("<I", first + seconds) + content[end:]


def add_sample(place: Path, samples: int) -> None:
    """Add a capture to a campaign."""
    row = row_of(samples)
    capture = place / "config" / row[3]
    capture.parent.mkdir(parents=True, exist_ok=True)
    capture.write_bytes(later((place / "config" / row_of(0)[3]).read_bytes(), samples))
    write_sheet(place, [row_of(number) for number in range(samples + 1)])


def snakemake(bench: Bench, place: Path, *arguments: str) -> Measured:
    """Run Snakemake in a directory on one core."""
    words = [sys.executable, "-m", "snakemake", "--snakefile", ROOT / "Snakefile", "--directory", place, "--cores", "1"]
    merged = ["sh", "-c", 'exec "$@" 2>&1', "sh"]  # it prints plans on standard output, and jobs on standard error
    return bench.measure([*merged, *words, *arguments], keep=True, cwd=place)


def jobs(measured: Measured) -> int:
    """Return the number of jobs in the output of Snakemake. Raises Failed if there is none."""
    total = re.search(rb"^total +(\d+)$", measured.stdout, re.MULTILINE)
    if total is None:
        raise Failed("snakemake printed no number of jobs")
    return int(total[1])


def costs(directory: Path) -> list[dict]:
    """Return the mean CPU time and the largest memory of the samples of a stage."""
    rows = [
        row
        for path in sorted(directory.glob("*.samples.tsv"))
        for row in csv.DictReader(path.open(encoding="utf-8"), delimiter="\t")
    ]
    if not rows:
        raise Failed(f"no costs in {directory}")
    cpu_ms = 1000 * sum(float(row["cpu_s"]) for row in rows) / len(rows)
    memory_mb = max(float(row["max_rss_mb"]) for row in rows)
    return [
        {"measured": f"{directory.name} a sample", "value": cpu_ms, "unit": "ms of CPU time"},
        {"measured": f"memory of {directory.name}", "value": memory_mb, "unit": "MiB"},
    ]
