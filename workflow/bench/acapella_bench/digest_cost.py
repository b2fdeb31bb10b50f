"""Measures the cost of a digest: CPU time per frame by capture length, peak memory with many flows, acap size."""

from .hybrid import peak_rows
from .programs import Bench, digest_words, outputs, peak_words

MEMORY_GOAL = "< 512"  # MiB


def measure_cost(bench: Bench) -> list[dict]:
    """Measure CPU time per frame and peak memory for captures of different lengths, read from standard input."""
    lengths = bench.scale["cost"]
    if bench.longest:
        lengths = (*(n for n in lengths if n < bench.longest), bench.longest)
    with bench.generated(1000) as source:
        start = bench.measure(digest_words("-", bench.directory, "native"), source=source)
    rows, costs = [], []
    for frames in lengths:
        with bench.generated(frames) as source:
            digest = bench.measure(digest_words("-", bench.directory, "native"), source=source)
        cost_ns = (digest.cpu_s - start.cpu_s) / frames * 1e9
        costs.append(cost_ns)
        note = f"{frames / digest.wall_s:,.0f} frames/s, peak {digest.peak_mib:.0f} MiB"
        rows.append({"measured": f"{frames:,} frames", "value": cost_ns, "unit": "ns CPU/frame", "note": note})
    spread = 100 * (max(costs) / min(costs) - 1)
    rows.append({"measured": "spread", "value": spread, "unit": "%", "goal": "<= 20"})
    return rows


def measure_memory(bench: Bench) -> list[dict]:
    """Measure the peak memory of both engines, excluding tshark: mixed traffic, then one flow per frame."""
    flows = bench.scale["flows"]
    rows = []
    for profile, frames in (("fabric", bench.scale["frames_of_flows"]), ("single", flows)):
        for engine in ("native", "hybrid"):
            with bench.generated(frames, profile, "--flows", flows) as source:
                run = bench.measure(peak_words("-", bench.directory, engine), keep=True, source=source)
            note = f"{frames:,} frames, at most {flows:,} flows, {run.wall_s:.0f} s"
            rows += peak_rows(f"{engine}, {profile}", run.stdout, MEMORY_GOAL, note)
    return rows


def measure_size(bench: Bench) -> list[dict]:
    """Measure bytes of acap per frame: bulk TCP (1514 B and ACKs of 66 B, jittered timestamps), then mixed traffic."""
    rows = []
    for profile, goal in (("iperf", "<= 20"), ("fabric", "")):
        frames = bench.scale["size"]
        with bench.generated(frames, profile) as source:
            bench.measure(digest_words("-", bench.directory, "native"), source=source)
        acap, flows = (path.stat().st_size for path in outputs(bench.directory, "native"))
        note = f"{frames:,} frames; flow table {flows / frames:.2f} bytes/frame"
        rows.append(
            {"measured": f"acap, {profile}", "value": acap / frames, "unit": "bytes/frame", "goal": goal, "note": note}
        )
    return rows
