"""Compares verdicts on the congestion of mirrors with counters of the switch, on samples from the local testbed.

The traffic depends only on --seed. Thresholds are chosen with one half of the samples, which the seed selects. The
goals are checked with the other half, and the benchmark fails if one is missed. Samples are kept in
build/bench/congestion-SEED until all have been collected, so that an interrupted benchmark can continue.
"""

import json
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import duckdb

from acapella.cli import main as cli

from . import congestion_samples
from .congestion_samples import Plan
from .programs import BUILD, Bench, Failed

HALF_LOAD = 0.5  # of the mirror's rate
LARGE_LOSS, SMALL_LOSS = 0.05, 0.01  # shares of lost bytes
CLEAR, CONGESTED = "clear", "congested"
Judged = dict  # a row of table congestion with the true values: loss, load, shape, counters_s, mtu


def run(bench: Bench) -> list[dict]:
    """Collect the samples, compute their verdicts with the usual pipeline, and compare them with the true losses."""
    started_s = time.monotonic()
    kept = BUILD.parent / f"congestion-{bench.seed}"
    found: list[Judged] = []
    unknown: list[Judged] = []  # the same samples with an unknown queue size
    campaigns, total = bench.scale["congestion_campaigns"], 0
    for number in range(campaigns):
        plan, directory = Plan(number, bench.seed), kept / f"campaign-{number}"
        manifests, is_new = collected(directory, plan)
        total += len(manifests)
        found += judged(directory, plan, manifests)
        unknown += judged(without_buffer(directory, manifests), plan, manifests)
        minutes = (time.monotonic() - started_s) / 60
        origin = "captured" if is_new else "captured before"
        print(
            f"  campaign {number + 1} of {campaigns}: {len(manifests)} samples {origin}, {minutes:.1f} min", flush=True
        )
    if campaigns:
        shutil.rmtree(kept)
    held_out, tuned = halves(found, bench.seed)
    return [
        *described(found),
        {"measured": "without a verdict", "value": total - len(found), "unit": "samples: no reply from the switch"},
        {"measured": "duration", "value": (time.monotonic() - started_s) / 60, "unit": "min", "goal": "<= 30"},
        *goal_rows(held_out, "held out"),
        *without_effect(goal_rows(tuned, "tuned on")),
        *without_effect(goal_rows(found, "all")),
        *(row for name, samples in classes(found) for row in without_effect(goal_rows(samples, name))),
        *goal_rows(unknown, "queue unknown")[:1],
        *without_effect(goal_rows(unknown, "queue unknown")[1:]),
    ]


def classes(samples: list[Judged]) -> Iterable[tuple[str, list[Judged]]]:
    """Yield the name and the samples of each counter interval, traffic shape and MTU."""
    for key, unit in (("counters_s", " s"), ("shape", ""), ("mtu", " B")):
        for value in sorted({s[key] for s in samples}):
            yield f"{value}{unit}", [s for s in samples if s[key] == value]


def collected(directory: Path, plan: Plan) -> tuple[list[Path], bool]:
    """Return the manifests of a campaign, and whether it was newly collected. Complete earlier campaigns are reused."""
    marker = directory.with_name(f"{directory.name}.whole")
    if marker.exists():
        return sorted((directory / "raw").glob("*.json")), False
    shutil.rmtree(directory, ignore_errors=True)
    manifests = congestion_samples.collect(directory, plan)
    for path in manifests:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        location = ("--site", manifest["site"], "--port", manifest["port"])
        tables = [directory / kind / f"{path.stem}.parquet" for kind in ("acap", "flows")]
        for table in tables:
            table.parent.mkdir(exist_ok=True)
        capture = directory / "raw" / manifest["file"]
        call("digest", capture, "-o", tables[0], "--flows", tables[1], "--engine", "native", *location)
        capture.unlink()
    marker.touch()
    return manifests, True


def without_buffer(directory: Path, manifests: list[Path]) -> Path:
    """Return a copy of a campaign whose manifests lack the size of the mirror port's queue, as on FABRIC."""
    copy = directory.with_name(f"{directory.name}-unknown")
    shutil.rmtree(copy, ignore_errors=True)
    (copy / "raw").mkdir(parents=True)
    for kind in ("acap", "flows"):
        (copy / kind).symlink_to((directory / kind).absolute())
    for path in manifests:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        manifest["congestion"]["buffer_bytes"] = None
        (copy / "raw" / path.name).write_text(json.dumps(manifest), encoding="utf-8")
    return copy


def judged(directory: Path, plan: Plan, manifests: list[Path]) -> list[Judged]:
    """Analyze the samples of one campaign; return those with a verdict."""
    configured = congestion_samples.settings(plan)
    for path in manifests:
        call("campaign", "analyze", directory, "--sample", path.stem)
    rows = [with_truth(directory, path, configured, plan) for path in manifests]
    return [row for row in rows if row["verdict"] != "unknown"]


def call(*words: object) -> None:
    """Run a command of `acapella` in this process. Raises Failed if it fails."""
    if status := cli.main([str(word) for word in words]):
        raise Failed(f"acapella {words[0]} exited with {status}")


def with_truth(directory: Path, path: Path, configured: dict, plan: Plan) -> Judged:
    """Return the verdict of one sample with the true load and loss of its mirror."""
    manifest = json.loads(path.read_text(encoding="utf-8"))
    query = duckdb.read_parquet(str(directory / "partial" / path.stem / "congestion.parquet"))
    row = dict(zip(query.columns, query.fetchall()[0], strict=True))
    seconds = (manifest["actual"]["end_ns"] - manifest["actual"]["start_ns"]) / 1e9
    offered_bps = manifest["mirror"]["offered_bytes"] * 8 / seconds
    truth = {
        "loss": congestion_samples.true_loss(manifest),
        "load": offered_bps / manifest["congestion"]["capacity_bps"],
        "shape": congestion_samples.shape_of(manifest, configured),
        "counters_s": plan.counters_s,
        "mtu": plan.mtu,
    }
    return row | truth


def halves(samples: list[Judged], seed: int) -> tuple[list[Judged], list[Judged]]:
    """Return two halves, selected by a seed."""
    drawn = random.Random(seed).sample(range(len(samples)), len(samples) // 2)
    return [samples[n] for n in sorted(drawn)], [s for n, s in enumerate(samples) if n not in set(drawn)]


def described(samples: list[Judged]) -> list[dict]:
    """Return rows that describe the samples."""
    loads = sorted(s["load"] for s in samples)
    shapes = sorted({s["shape"] for s in samples})
    return [
        {"measured": "samples", "value": len(samples), "unit": "real samples", "goal": ">= 200"},
        *({"measured": kind, "value": sum(s["shape"] == kind for s in samples), "unit": "samples"} for kind in shapes),
        {"measured": "load", "value": f"{loads[0]:.2f} to {loads[-1]:.2f}", "unit": "of the mirror's rate"},
        {"measured": "loss-free", "value": sum(s["loss"] == 0 for s in samples), "unit": "samples"},
    ]  # fmt: skip


def without_effect(rows: Iterable[dict]) -> Iterable[dict]:
    """Yield rows whose goals do not decide whether the benchmark passes."""
    return ({**row, "goal": f"aim {row['goal']}"} for row in rows)


def goal_rows(samples: list[Judged], name: str) -> list[dict]:
    """Return the rows of all goals for these samples, which ``name`` describes."""
    free = [s for s in samples if s["loss"] == 0]
    covered = [s for s in samples if s["loss_low"] <= s["loss"] <= s["loss_high"]]
    widths = [100 * (s["loss_high"] - s["loss_low"]) for s in samples]
    falsely_clear = [s for s in samples if s["verdict"] == CLEAR and s["loss"] > SMALL_LOSS]
    lossy = [s for s in samples if s["loss"] > LARGE_LOSS]
    lightly_loaded = [s for s in free if s["load"] < HALF_LOAD]
    return [
        {
            "measured": f"{name}: clear, loss above 1 %",
            "value": len(falsely_clear),
            "unit": "samples",
            "goal": "0",
            "note": f"of {sum(s['verdict'] == 'clear' for s in samples)} clear",
        },
        share_row(f"{name}: loss-free below half, clear", lightly_loaded, lambda s: s["verdict"] == CLEAR, ">= 80"),
        share_row(f"{name}: loss above 5 %, congested", lossy, lambda s: s["verdict"] == CONGESTED, ">= 90"),
        share_row(f"{name}: loss-free, congested", free, lambda s: s["verdict"] == CONGESTED, "<= 10"),
        share_row(f"{name}: loss inside its interval", samples, lambda s: s in covered, ">= 95"),
        {
            "measured": f"{name}: width of the interval",
            "value": statistics.median(widths) if widths else None,
            "unit": "% points, median",
            "goal": "<= 10",
            "note": f"of {len(samples)}; {lossy_width(samples)}",
        },
    ]


def lossy_width(samples: list[Judged]) -> str:
    """Return the median width of the intervals of samples that lost bytes, as text."""
    widths = [100 * (s["loss_high"] - s["loss_low"]) for s in samples if s["loss"] > 0]
    return f"{statistics.median(widths):.1f} of the {len(widths)} that lost bytes" if widths else "none lost bytes"


def share_row(measured: str, samples: list[Judged], holds: Callable[[Judged], bool], goal: str) -> dict:
    """Return a row with the share, in percent, and the number of samples for which ``holds`` returns true."""
    number = sum(map(holds, samples))
    value = 100 * number / len(samples) if samples else None
    return {"measured": measured, "value": value, "unit": "%", "goal": goal, "note": f"{number} of {len(samples)}"}
