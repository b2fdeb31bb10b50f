"""Runs programs on one core, and measures their wall time, CPU time and peak memory."""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BUILD = ROOT / "build" / "bench" / "native"

# Sizes and durations of each benchmark. Full runs are long enough for stable results; small ones test the benchmarks.
SCALES = {
    "small": {
        "native": 1_000_000,
        "cost": (300_000, 1_000_000, 3_000_000),
        "hybrid": 1_000_000,
        "wrapped": 200_000,
        "tshark": 50_000,
        "tshark_default": 20_000,
        "flows": 50_000,
        "frames_of_flows": 200_000,
        "size": 1_000_000,
        "extract": 300_000,
        "samples": 4,
        "frames_per_sample": 100_000,
        "kappa": 100_000,
        "kappa_cost": (100_000, 1_000_000),
        "kappa_files": 300_000,
        "p4": 200_000,
        "collector": 3_000_000,
        "collector_flows": 300_000,
        "collector_plain": 200_000,
        "writer_s": 0.2,
        "writer_snaplens": (200,),
        "writer_sizes": (1514, 128),
        "generate": 1_000_000,
        "monitor": 500_000,
        "replay_loops": 4,
        "replay_s": 0.2,
        "replay_drift_s": 1,
        "disk_s": 1,
        "veth_s": 1,
        "veth_sizes": (1514,),
        "campaign_s": 20,
        "congestion_campaigns": 1,
        "iperf3_files": 200,
        "planned_samples": (1_000,),
        "batched_samples": 20,
        "archive": 10,  # captures of 300,000 frames
        "comparators": 100_000,
        "storage": {"thresholds": ("10:20",), "disks": ("own", 20), "memory_mb": 64, "rate": 1e6, "run_s": 2},
    },
    "full": {
        "native": 10_000_000,
        "cost": (1_000_000, 10_000_000, 100_000_000),
        "hybrid": 10_000_000,
        "wrapped": 1_000_000,
        "tshark": 500_000,
        "tshark_default": 200_000,
        "flows": 1_000_000,
        "frames_of_flows": 9_000_000,
        "size": 5_000_000,
        "extract": 9_600_000,  # 10 GB
        "samples": 100,
        "frames_per_sample": 1_000_000,
        "kappa": 1_055_648,
        "kappa_cost": (1_000_000, 10_000_000, 100_000_000),
        "kappa_files": 10_000_000,
        "p4": 2_000_000,
        "collector": 20_000_000,
        "collector_flows": 10_000_000,
        "collector_plain": 1_000_000,
        "writer_s": 0.75,
        "writer_snaplens": (200, 64),
        "writer_sizes": (1514, 1024, 512, 128),
        "generate": 50_000_000,
        "monitor": 20_000_000,
        "replay_loops": 16,
        "replay_s": 2,
        "replay_drift_s": 10,
        "disk_s": 4,
        "veth_s": 2,
        "veth_sizes": (1514, 128),
        "campaign_s": 180,
        "congestion_campaigns": 12,
        "iperf3_files": 10_000,
        "planned_samples": (1_000, 10_000, 100_000),
        "batched_samples": 10_000,
        "archive": 1_000,
        "comparators": 2_000_000,
        "storage": {"thresholds": ("10:20", "20:50"), "disks": ("own", 20), "memory_mb": 256, "rate": 1e6, "run_s": 10},
    },
}


class Failed(Exception):
    """A program failed, or its result is wrong or missing; the text is the reason."""


@dataclass(frozen=True)
class Measured:
    """One run of one program."""

    wall_s: float
    cpu_s: float  # CPU time of the program and the children that it waited for
    peak_mib: float  # maximum over these processes
    stdout: bytes


@dataclass(frozen=True)
class Bench:
    """Settings and functions of benchmarks."""

    scale: dict
    directory: Path  # for captures and results; deleted at the end
    core: int
    longest: int | None
    seed: int = 1
    drift_s: float | None = None

    @classmethod
    def of(cls, args: argparse.Namespace, directory: Path) -> "Bench":
        counts = dict.fromkeys(("samples", "batched_samples", "archive"), args.samples) if args.samples else {}
        scale = SCALES[args.scale] | counts
        return cls(scale, directory, args.core, args.longest, args.seed, args.drift)

    @property
    def other_core(self) -> int:
        """Return a core other than the measured one, or the measured one if it is the only core."""
        return next((c for c in sorted(os.sched_getaffinity(0)) if c != self.core), self.core)

    def measure(self, words: list, keep: bool = False, source: int | None = None, **options) -> Measured:
        """Run a command on the measured core; keep or discard its standard output.

        ``options``: any_core=True for commands that may use all cores; other options are those of subprocess.Popen.
        """
        where = [] if options.pop("any_core", False) else ["taskset", "-c", str(self.core)]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error_output:
            start = time.monotonic()
            child = subprocess.Popen(
                [*where, *map(str, words)],
                stdin=subprocess.DEVNULL if source is None else source,
                stdout=out if keep else subprocess.DEVNULL,
                stderr=error_output,
                **options,
            )
            _, status, usage = os.wait4(child.pid, 0)
            wall_s = time.monotonic() - start
            child.returncode = os.waitstatus_to_exitcode(status)
            if child.returncode:
                error_output.seek(0)
                errors = error_output.read().decode(errors="replace").strip().splitlines() or ["no message"]
                raise Failed(f"{Path(words[0]).name} {words[1] if len(words) > 1 else ''}: {errors[-1]}")
            out.seek(0)
            return Measured(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.read())

    def generate(self, frames: int, profile: str = "fabric", *more: object) -> Path:
        """Return a generated capture. It is generated only once for each profile, number of frames and options."""
        path = self.directory / f"{'-'.join(map(str, (profile, frames, *more)))}.pcap"
        if not path.exists():
            self.run([native_program("acapella-generate"), *generator_words(frames, profile), *more, "-o", path])
        return path

    @contextlib.contextmanager
    def generated(self, frames: int, profile: str = "fabric", *more: object) -> Iterator[int]:
        """Provide a descriptor from which a generated capture can be read. The generator runs on another core."""
        words = ["taskset", "-c", self.other_core, native_program("acapella-generate")]
        words += [*generator_words(frames, profile), *more]
        with subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE) as generator:
            yield generator.stdout.fileno()
            generator.stdout.close()
        if generator.returncode:
            raise Failed(f"acapella-generate: exit code {generator.returncode}")

    def run(self, words: list) -> None:
        """Run a command that is not measured."""
        result = subprocess.run([str(w) for w in words], check=False, capture_output=True, text=True)
        if result.returncode:
            raise Failed(f"{Path(words[0]).name}: {(result.stderr.strip().splitlines() or [''])[-1]}")


def generator_words(frames: int, profile: str) -> list:
    """Return the arguments of acapella-generate. The number of flows is the default of the profile."""
    return ["--frames", frames, "--profile", profile]


def acapella(*words: object) -> list:
    """Return an acapella command line with the interpreter that runs the benchmarks."""
    return [sys.executable, "-m", "acapella.cli.main", *words]


def digest_words(source: object, directory: Path, engine: str) -> list:
    """Return the command line of `acapella digest` with two output files in ``directory``."""
    acap, flows = outputs(directory, engine)
    return acapella("digest", source, "-o", acap, "--flows", flows, "--engine", engine)


def peak_words(source: object, directory: Path, engine: str) -> list:
    """Return the command line of the same digest in acapella_bench.peak, which also prints its memory use."""
    command = digest_words(source, directory, engine)
    return [sys.executable, "-m", "acapella_bench.peak", *command[3:]]


def outputs(directory: Path, engine: str) -> tuple[Path, Path]:
    """Return the acap and the flow table that digest_words writes."""
    return directory / f"{engine}.acap.parquet", directory / f"{engine}.flows.parquet"


def native_program(name: str) -> Path:
    """Return a program of workflow/native/bench, after building it with optimization if it is not up to date."""
    configure = ["cmake", "-S", ROOT / "workflow" / "native", "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"]
    configure += ["-DACAPELLA_BINDINGS=OFF", "-DACAPELLA_BENCH=ON", f"-DPython_EXECUTABLE={sys.executable}"]
    for words in ([] if (BUILD / "build.ninja").exists() else [configure]) + [["cmake", "--build", BUILD, "-t", name]]:
        result = subprocess.run([str(w) for w in words], check=False, capture_output=True, text=True)
        if result.returncode:
            errors = (result.stdout + result.stderr).strip().splitlines()
            raise Failed(
                f"{name} does not build: {next((line for line in errors if 'error' in line.lower()), errors[-1])}"
            )
    return BUILD / "bench" / name
