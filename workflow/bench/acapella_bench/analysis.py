"""Measures the stages from digested samples to tables and figures: index, analyze, process, figures of a campaign."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from acapella_core.files import sha256_of

from .programs import Bench, acapella, native_program

SITES = 10
PORT = "p1"
SAMPLE_GAP_NS = 300_000_000_000  # samples start five minutes apart


def run(bench: Bench) -> list[dict]:
    """Return the time of each stage, which may use all cores. Generating and digesting samples is not measured."""
    samples, frames = bench.scale["samples"], bench.scale["frames_per_sample"]
    campaign = bench.directory / "campaign"
    names = []
    for number in range(samples):
        sample = Sample(number, frames)
        make_sample(bench, campaign, sample)
        names.append(sample.name)
    rows = [{"measured": "frames", "value": samples * frames, "unit": "frames", "note": f"in {samples} samples"}]
    total_s = 0.0
    stages = {
        "index": lambda: bench.measure(acapella("campaign", "index", campaign, "--threads", 2), any_core=True),
        "analyze": lambda: analyze_all(bench, campaign, names),
        "process": lambda: bench.measure(acapella("campaign", "process", campaign, "--threads", 2), any_core=True),
        "figures": lambda: bench.measure(acapella("campaign", "figures", campaign), any_core=True),
    }
    for stage, work in stages.items():
        start = time.monotonic()
        work()
        seconds = time.monotonic() - start
        total_s += seconds
        rows.append({"measured": stage, "value": seconds, "unit": "s"})
    rows.append({"measured": "total", "value": total_s, "unit": "s", "goal": "< 300 for 100 million frames, 2 cores"})
    return rows


def analyze_all(bench: Bench, campaign: Path, names: list[str]) -> None:
    """Analyze all samples, two at a time, as Snakemake does on two cores."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        commands = [acapella("campaign", "analyze", campaign, "--sample", name) for name in names]
        list(pool.map(lambda words: bench.measure(words, any_core=True), commands))


@dataclass(frozen=True)
class Sample:
    """A generated sample. Every site has separate flows, which continue from sample to sample."""

    number: int
    frames: int

    @property
    def site(self) -> str:
        return f"SITE{self.number % SITES}"

    @property
    def name(self) -> str:
        return f"{self.site}-{PORT}-{self.number:04d}"

    @property
    def start_ns(self) -> int:
        return 1_700_000_000_000_000_000 + self.number // SITES * SAMPLE_GAP_NS

    def generator_words(self) -> list:
        """Return the arguments of acapella-generate."""
        return ["--frames", self.frames, "--seed", self.number % SITES, "--start-ns", self.start_ns]


def make_sample(bench: Bench, campaign: Path, sample: Sample) -> None:
    """Generate and digest a sample, and write its manifest. The capture is deleted."""
    for directory in ("raw", "acap", "flows"):
        (campaign / directory).mkdir(parents=True, exist_ok=True)
    capture = bench.directory / "sample.pcap"
    bench.run([native_program("acapella-generate"), *sample.generator_words(), "-o", capture])
    acap, flows = (campaign / directory / f"{sample.name}.parquet" for directory in ("acap", "flows"))
    location = ["--site", sample.site, "--port", PORT]
    bench.run(acapella("digest", capture, "-o", acap, "--flows", flows, "--engine", "native", *location))
    manifest = json.dumps(manifest_of(sample, capture))
    (campaign / "raw" / f"{sample.name}.json").write_text(manifest, encoding="utf-8")
    with (campaign / "raw" / "samples.tsv").open("a", encoding="utf-8") as sheet:
        if sample.number == 0:
            sheet.write("sample\tsite\tport\tfile\n")
        sheet.write(f"{sample.name}\t{sample.site}\t{PORT}\t{sample.name}.pcap\n")
    capture.unlink()


def manifest_of(sample: Sample, capture: Path) -> dict:
    """Return a manifest as written by `collect`; values that do not exist for a generated capture are null."""
    unknown = dict.fromkeys(("direction", "filter", "port_rate_bps", "dropped_kernel", "dropped_interface"))
    times = {"start_ns": sample.start_ns, "end_ns": sample.start_ns + 20_000_000_000}
    return unknown | {
        "acapella_manifest": 1,
        "campaign": "bench",
        "run": 1,
        "sample": sample.name,
        "testbed": "files",
        "site": sample.site,
        "instance": "generator",
        "port": PORT,
        "method": "file",
        "file": f"{sample.name}.pcap",
        "sha256": sha256_of(capture),
        "bytes": capture.stat().st_size,
        "snaplen": 200,
        "requested": times,
        "actual": times,
        "frames_received": sample.frames,
        "frames_captured": sample.frames,
        "mirror": dict.fromkeys(("offered_frames", "delivered_frames", "offered_bytes", "delivered_bytes")),
        "clock_resolution_ns": 1,
        "notes": [],
    }
