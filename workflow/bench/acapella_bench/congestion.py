"""Verdicts on the congestion of mirrors, against what the switch counted: real samples on the local testbed.

Half of the samples, chosen by a seed, is for choosing thresholds. The floors are of the other half.
"""

import json
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import duckdb

from acapella import cli

from . import congestion_samples
from .programs import Bench, Failed

SPLIT_SEED = 3
HALF, MUCH, LITTLE = 0.5, 0.05, 0.01  # load of the mirror; shares of the bytes lost
Judged = dict  # a row of the table congestion, with the truth: loss, load, shape, counters_s


def run(bench: Bench) -> list[dict]:
    """Take the samples, judge them with the pipeline of every campaign, and compare with the truth."""
    found: list[Judged] = []
    for seed in range(bench.scale["congestion_campaigns"]):
        counters_s = (1, 30)[seed // len(congestion_samples.RATES) % 2]
        folder = bench.folder / f"congestion-{seed}"
        found += judged(folder, seed, counters_s)
    held_out, tuned = halves(found)
    return [
        *described(found),
        *floors(held_out, "held out"),
        *floors(tuned, "tuned on"),
        *(row for every in (1, 30) for row in floors([s for s in found if s["counters_s"] == every], f"{every} s")),
    ]


def judged(folder: Path, seed: int, counters_s: int) -> list[Judged]:
    """Take and analyze one campaign; return its samples."""
    manifests = congestion_samples.collect(folder, seed, counters_s)
    configured = congestion_samples.settings(seed, counters_s)
    for kind in ("acap", "flows"):
        (folder / kind).mkdir()
    for path in manifests:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        name, place = path.stem, ("--site", manifest["site"], "--port", manifest["port"])
        capture = folder / "raw" / manifest["file"]
        tables = [folder / kind / f"{name}.parquet" for kind in ("acap", "flows")]
        call("digest", capture, "-o", tables[0], "--flows", tables[1], "--engine", "native", *place)
        call("analyze", folder, "--sample", name)
    return [with_truth(folder, path, configured, counters_s) for path in manifests]


def call(*words: object) -> None:
    """Run a command of `acapella` in this process. Raises Failed if it fails."""
    if status := cli.main([str(word) for word in words]):
        raise Failed(f"acapella {words[0]} ended with {status}")


def with_truth(folder: Path, path: Path, configured: dict, counters_s: int) -> Judged:
    """Return the verdict of one sample beside what its mirror was offered and lost."""
    manifest = json.loads(path.read_text(encoding="utf-8"))
    query = duckdb.read_parquet(str(folder / "partial" / path.stem / "congestion.parquet"))
    row = dict(zip(query.columns, query.fetchall()[0], strict=True))
    if row["verdict"] == "unknown":
        raise Failed(f"{path.stem}: the verdict is unknown")
    seconds = (manifest["actual"]["end_ns"] - manifest["actual"]["start_ns"]) / 1e9
    offered_bps = manifest["mirror"]["offered_bytes"] * 8 / seconds
    truth = {
        "loss": congestion_samples.true_loss(manifest),
        "load": offered_bps / manifest["congestion"]["capacity_bps"],
        "shape": congestion_samples.shape_of(manifest, configured),
        "counters_s": counters_s,
    }
    return row | truth


def halves(samples: list[Judged]) -> tuple[list[Judged], list[Judged]]:
    """Return two halves, drawn by SPLIT_SEED."""
    drawn = random.Random(SPLIT_SEED).sample(range(len(samples)), len(samples) // 2)
    return [samples[n] for n in sorted(drawn)], [s for n, s in enumerate(samples) if n not in set(drawn)]


def described(samples: list[Judged]) -> list[dict]:
    """Return what the samples are."""
    loads = sorted(s["load"] for s in samples)
    shapes = sorted({s["shape"] for s in samples})
    return [
        {"measured": "samples", "value": len(samples), "unit": "real samples", "goal": ">= 200"},
        *({"measured": kind, "value": sum(s["shape"] == kind for s in samples), "unit": "samples"} for kind in shapes),
        {"measured": "load", "value": f"{loads[0]:.2f} to {loads[-1]:.2f}", "unit": "of the mirror's rate"},
        {"measured": "loss-free", "value": sum(s["loss"] == 0 for s in samples), "unit": "samples"},
    ]  # fmt: skip


def floors(samples: list[Judged], which: str) -> list[dict]:
    """Return each floor and its value for some samples."""
    free = [s for s in samples if s["loss"] == 0]
    covered = [s for s in samples if s["loss_low"] <= s["loss"] <= s["loss_high"]]
    widths = [100 * (s["loss_high"] - s["loss_low"]) for s in samples]
    wrong = [s for s in samples if s["verdict"] == "clear" and s["loss"] > LITTLE]
    lossy = [s for s in samples if s["loss"] > MUCH]
    quiet = [s for s in free if s["load"] < HALF]
    return [
        {
            "measured": f"{which}: clear, loss above 1 %",
            "value": len(wrong),
            "unit": "samples",
            "goal": "0",
            "note": f"of {sum(s['verdict'] == 'clear' for s in samples)} clear",
        },
        shared(f"{which}: loss-free below half, clear", quiet, lambda s: s["verdict"] == "clear", ">= 80"),
        shared(f"{which}: loss above 5 %, congested", lossy, lambda s: s["verdict"] == "congested", ">= 90"),
        shared(f"{which}: loss-free, congested", free, lambda s: s["verdict"] == "congested", "<= 10"),
        shared(f"{which}: loss inside its interval", samples, lambda s: s in covered, ">= 95"),
        {
            "measured": f"{which}: width of the interval",
            "value": statistics.median(widths) if widths else None,
            "unit": "% points, median",
            "goal": "<= 10",
            "note": f"of {len(samples)}; {lossy_width(samples)}",
        },
    ]


def lossy_width(samples: list[Judged]) -> str:
    """Return the median width of the samples that lost bytes, in words."""
    widths = [100 * (s["loss_high"] - s["loss_low"]) for s in samples if s["loss"] > 0]
    return f"{statistics.median(widths):.1f} of the {len(widths)} that lost bytes" if widths else "none lost bytes"


def shared(measured: str, samples: list[Judged], holds: Callable[[Judged], bool], goal: str) -> dict:
    """Return the share of samples of which something holds, in percent, and their number."""
    number = sum(map(holds, samples))
    value = 100 * number / len(samples) if samples else None
    return {"measured": measured, "value": value, "unit": "%", "goal": goal, "note": f"{number} of {len(samples)}"}
