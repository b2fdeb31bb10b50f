"""Estimates memory and run time of jobs for the resources `mem_mb` and `runtime` from the size of their input.

`NEEDS` contains the coefficients of the stages. Source: `max_rss` and seconds in Snakemake's benchmark files of a
campaign with captures of 0.1, 17, 173 and 691 MiB (1,000 to 4 million frames, engine hybrid) on two shared cores of an
x86-64 machine, and benchmarks of index and process with 30 and 300 samples; for other rules, maximum RSS and CPU time
of their commands with generated captures. `Need.measured` contains the numbers. The coefficients include a margin,
because a job that exceeds its memory or time is lost, but a job that requests too much only waits longer.

Each further attempt of a job requests twice as much as the one before, up to MAX_FACTOR times as much as the first.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from acapella.digest.duration import MINUTES_PER_GIB, REPORT_MINUTES_PER_GIB, decompressed

from .snakemake_internals import is_incomplete_checkpoint

MAX_FACTOR = 8
MIB = 1 << 20
# Bytes of acap and flows for each byte of a capture: 0.12 for 17 MiB, 0.07 for 691 MiB.
ACAP_SHARE = 0.15
# Bytes of the tables in flowreports/ for each byte of a capture, in addition to 30 kB of each sample: 0.10 for 18 MiB
# with 6,000 flows, 0.14 for 22 MiB with 20,000.
REPORT_SHARE = 0.2
# Acaps and flows of samples that a batch analyzes together: TOGETHER_BYTES of acapella.cli.batch_analysis.
TOGETHER_MIB = 48
# Memory of Snakemake, which a cluster counts as part of the job: it runs twice on the node, and each process reads the
# sheet and the plan of the whole campaign. Measured for one: 209 MiB with 1,000 samples, 233 with 10,000, 296 with
# 40,000, 441 with 100,000.
SNAKEMAKE_MB = 450
SNAKEMAKE_MB_PER_1000_SAMPLES = 6


@dataclass(frozen=True)
class Need:
    """Memory in MiB and run time in minutes of a job: a constant, a part for each MiB or GiB of input files, and a part
    for each 1,000 samples.

    ``measured``: the measurements from which the coefficients were chosen; ``at_most_mb``: limit of the part for each
    MiB of input files.
    """

    mb: int
    minutes: int
    measured: str
    mb_per_mib: float = 0
    minutes_per_gib: float = 0
    mb_per_1000_samples: float = 0
    minutes_per_1000_samples: float = 0
    at_most_mb: int | None = None


NEEDS = {
    "collect": Need(
        mb=300,
        minutes=10,
        minutes_per_gib=3,
        minutes_per_1000_samples=10,
        measured="79 MiB for any size; 3 s for 691 MiB; in batches: 92 MiB with 10,000 samples in the campaign, 179 "
        "MiB with 100,000",
    ),
    "samples": Need(mb=300, minutes=10, measured="78 MiB; 1.4 s"),
    # Most frames of this campaign do not need tshark. Memory grows with the number of flows, at most to the limit
    # digest.memory_mb and 1,280 MiB of tshark. The run time depends on the engine.
    "digest": Need(
        mb=600,
        minutes=15,
        mb_per_mib=1,
        minutes_per_gib=MINUTES_PER_GIB["hybrid"],
        minutes_per_1000_samples=20,
        measured="190 MiB for 0.1 MiB, 288 MiB for 691 MiB; 11.3 s for 691 MiB",
    ),
    "analyze": Need(
        mb=400,
        minutes=15,
        mb_per_mib=25,
        minutes_per_gib=80,
        minutes_per_1000_samples=40,
        measured="acap and flows of 0.1 MiB: 159 MiB, 2.2 s; 13 MiB: 479 MiB, 12.4 s; 48 MiB: 807 MiB, 47 s; 12 MiB of "
        "200 samples together: 309 MiB, 1.6 s",
    ),
    "index": Need(
        mb=550,
        minutes=15,
        mb_per_mib=2,
        mb_per_1000_samples=50,
        minutes_per_gib=1,
        minutes_per_1000_samples=6,
        at_most_mb=4096,
        measured="30 samples: 163 MiB, 0.6 s; 300: 176 MiB, 3.2 s; acaps and flows of 837 MiB: 1685 MiB, 27 s; "
        "4171 MiB: 6626 MiB, 138 s; 1681 MiB, CPU time: without limit 1371 MiB, 16 s, with both databases limited to "
        "468 MiB 834 MiB, 16 s; 2,000 samples of 1,000 frames: 659 MiB; 10,000: 669 MiB",
    ),
    # The catalog contains the flows of all samples. Beyond its memory, DuckDB writes intermediate results to TMPDIR.
    "process": Need(
        mb=400,
        minutes=20,
        mb_per_mib=16,
        mb_per_1000_samples=200,
        minutes_per_gib=10,
        minutes_per_1000_samples=20,
        at_most_mb=8192,
        measured="30 samples: 173 MiB, 1.9 s; catalog of 166 MiB (200 samples, 1.2 million flows): 2201 MiB, 32 s; "
        "5 times as many: 11364 MiB, 166 s; 1,000 samples of 1,000 frames, catalog of 53 MiB: 375 MiB, 5 s; 5,000 of "
        "them, 222 MiB: 1174 MiB, 10 s; catalog of 378 MiB, CPU time: without limit 14 s, with DuckDB limited to 1907 "
        "MiB 2127 MiB, 14 s, to 381 MiB 889 MiB, 25 s; 2,000 samples of 1,000 frames: 566 MiB; 10,000: 2228 MiB",
    ),
    "figures": Need(
        mb=700,
        minutes=20,
        mb_per_mib=4,
        minutes_per_gib=60,
        measured="244 MiB and 8 s; 356 MiB and 25 s with trials, flow reports and transfers",
    ),
    # Its largest input is the catalog, which it only copies.
    "report": Need(
        mb=700,
        minutes=20,
        mb_per_mib=4,
        minutes_per_gib=60,
        at_most_mb=2048,
        measured="330 MiB and 14 s; 363 MiB and 14 s with trials, flow reports and transfers; with a catalog of 3 GiB: "
        "325 MiB, 7 s",
    ),
    # Memory and time depend on the number of packets, so a MiB of small frames needs most. Beyond consistency.memory_mb
    # (at_most of the rule), packets are written to disk. With a display filter, the run time is that of tshark.
    "kappa": Need(
        mb=300,
        minutes=15,
        mb_per_mib=3,
        minutes_per_gib=10,
        measured="two trials in order, frames of 100 bytes, CPU time: 22 MiB: 85 MiB, 0.3 s; 443 MiB: 208 MiB, 0.7 s; "
        "five trials, 277 MiB: 142 MiB, 0.5 s, all pairs 0.6 s; 60 bytes, out of order: 72 MiB: 127 MiB, 0.4 s; 217 "
        "MiB: 239 MiB, 0.9 s; with departures: 124 MiB: 326 MiB, 1.0 s; 369 MiB: 741 MiB, 3.0 s; with a "
        "filter, tshark alone: 22 MiB: 157 MiB, 5 s; 72 MiB: 165 MiB, 21 s",
    ),
    # The P4 program has 235 MiB at the default sketch size. Memory and time grow with the number of packets and of
    # flows, so frames of 60 bytes need 1.5 times as much for each MiB as those measured.
    "flowreports": Need(
        mb=600,
        minutes=15,
        mb_per_mib=35,
        minutes_per_gib=REPORT_MINUTES_PER_GIB,
        minutes_per_1000_samples=100,
        measured="TCP, frames of 100 bytes, sum of the processes, CPU time: 500 flows: 2 MiB: 332 MiB, 1.4 s; 11 MiB: "
        "359 MiB, 2.5 s; 33 MiB: 475 MiB, 5.7 s; 111 MiB: 1095 MiB, 19 s; 40,000 flows: 11 MiB: 519 MiB, 6.0 s; 33 "
        "MiB: 960 MiB, 13 s; 111 MiB: 2575 MiB, 36 s; the collector alone (acapella p4 collect): reports of 14 MiB, "
        "500 flows: 88 MiB, 0.3 s; 139 MiB: 97 MiB, 0.4 s; 132 MiB, 40,000 flows: 244 MiB, 0.8 s; 441 MiB: 346 MiB, "
        "1.2 s; in batches, 100 frames: 0.9 s, 5 s elapsed time of a sample with other jobs on the machine",
    ),
    "flowtables": Need(
        mb=400,
        minutes=15,
        mb_per_mib=45,
        minutes_per_gib=60,
        mb_per_1000_samples=150,
        minutes_per_1000_samples=5,
        measured="CPU time: 5.4 MiB: 329 MiB, 1.7 s; 17 MiB: 697 MiB, 4.1 s; 82 MiB: 2585 MiB, 22 s; 200 samples of "
        "0.4 MiB: 2092 MiB, 19 s; 500 samples of 100 frames: 197 MiB, 9 s; 2,000: 312 MiB, 41 s",
    ),
    # The runs of a grid are no input files, so the constant part has to suffice for their acaps.
    "transfer_tables": Need(
        mb=2048,
        minutes=60,
        mb_per_mib=100,
        minutes_per_gib=600,
        measured="JSON of iperf3, CPU time: 216 runs, 1 MiB: 177 MiB, 0.7 s; 3,016 runs, 20 MiB: 200 MiB, 1.1 s; acap "
        "of a run with 2 million frames, 5.1 MiB: 526 MiB; 8 million frames, 20 MiB: over 1629 MiB and 110 s",
    ),
    "infrastructure": Need(
        mb=400,
        minutes=15,
        mb_per_mib=8,
        minutes_per_gib=20,
        measured="CPU time: 17 MiB: 212 MiB, 0.6 s; 71 MiB, a million readings: 429 MiB, 1.5 s",
    ),
}


def memory_mb(
    rule: str,
    *,
    campaign: Callable[[object], int] = lambda wildcards: 0,
    at_most: int | None = None,
    together_mib: float = 0,
    **work,
) -> Callable:
    """Return the function for the resource `mem_mb` of a rule in NEEDS.

    ``campaign``: returns the number of samples of the campaign; ``at_most``: limit in MiB of the part for each MiB
    of input files, if the config sets one; ``together_mib``: size of the samples of a batch that one process reads
    together; ``work``: arguments of `amount`. By default, the samples of a batch are processed one by one, so the
    largest one determines the memory.
    """
    need = NEEDS[rule]
    limit = at_most or need.at_most_mb or math.inf

    def mem_mb(wildcards, input, attempt):
        largest, total, samples = amount(wildcards, input, **work)
        largest = max(largest, min(total, together_mib))
        dependent = min(need.mb_per_mib * largest, limit) + need.mb_per_1000_samples * samples / 1000
        snakemake = SNAKEMAKE_MB + SNAKEMAKE_MB_PER_1000_SAMPLES * known_samples(campaign, wildcards) / 1000
        return math.ceil(snakemake + scaled(need.mb + dependent, attempt))

    return mem_mb


def run_minutes(rule: str, *, engine: str | None = None, limit_s: float = 0, **work) -> Callable:
    """Return the function for the resource `runtime` of a rule in NEEDS, in minutes. ``work``: as for `memory_mb`.

    ``engine``: dissection engine of a digest. ``limit_s``: constant part of the time limit of a sample (max_seconds of
    `acapella.digest.duration.limit_s`, whose other part is the estimate for its capture): a sample that exceeds its
    limit fails before the job does. Further attempts allow for 2, 4 and 8 such samples of a batch.
    """
    need = NEEDS[rule]
    minutes_per_gib = MINUTES_PER_GIB[engine] if engine else need.minutes_per_gib

    def runtime(wildcards, input, attempt):
        _, total, samples = amount(wildcards, input, **work)
        minutes = need.minutes + minutes_per_gib * total / 1024 + need.minutes_per_1000_samples * samples / 1000
        return math.ceil(scaled(minutes + limit_s / 60, attempt))

    return runtime


def constant_memory_mb(mb: int, *, campaign: Callable[[object], int]) -> Callable:
    """Return the function for the resource `mem_mb` of a rule whose input is small, including Snakemake.

    ``campaign``: as for `memory_mb`.
    """

    def mem_mb(wildcards, attempt):
        samples = known_samples(campaign, wildcards)
        return math.ceil(scaled(mb, attempt) + SNAKEMAKE_MB_PER_1000_SAMPLES * samples / 1000)

    return mem_mb


def memory_limit(mb: int) -> Callable:
    """Return the function for the resource `memory`: the limit of a command, which grows with each attempt."""
    return lambda wildcards, attempt: f"{scaled(mb, attempt)}M"


def scaled(estimate: float, attempt: int) -> float:
    """Return the estimate for an attempt, which is 1 for the first."""
    return estimate * min(2 ** (attempt - 1), MAX_FACTOR)


def amount(
    wildcards,
    input,
    captures: Callable[[object], Sequence[tuple[str, int]]] | None = None,
    share: float = 1,
    samples: Callable[[object], int] | None = None,
) -> tuple[float, float, int]:
    """Return the largest input of a job in MiB, the total, and the number of samples.

    ``captures``: returns path and size in bytes of the captures of a batch, which replaces the input files of the rule;
    ``share``: part of these bytes that the stage reads; ``samples``: returns the number of samples of a job for the
    whole campaign. Compressed captures count with their expected size. Raises FileNotFoundError if an input file
    does not exist yet; Snakemake then calls the resource function later.

    Before the samples are collected, their sizes are unknown. Snakemake recreates the job afterwards; it fails if a
    resource function raises the exception of an incomplete checkpoint.
    """
    try:
        if captures:
            sizes = [decompressed(path, share * size / MIB) for path, size in captures(wildcards)]
            return max(sizes, default=0), sum(sizes), len(sizes)
    except Exception as error:
        if is_incomplete_checkpoint(error):
            return 0, 0, 0
        raise
    number = known_samples(samples, wildcards) if samples else 1
    total = sum(decompressed(str(path), mib) for path, mib in zip(input, input.size_files_mb, strict=True))
    return total, total, number


def known_samples(samples: Callable[[object], int], wildcards) -> int:
    """Return the number of samples; 0 before they are collected."""
    try:
        return samples(wildcards)
    except Exception as error:
        if is_incomplete_checkpoint(error):
            return 0
        raise
