"""Does a frame of a long capture cost what a frame of a short one does?"""

from .programs import Bench, digest_words


def run(bench: Bench) -> list[dict]:
    """CPU time a frame and peak memory, from the generator into standard input."""
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
