"""How much memory a digest itself takes with a million flows, its tshark not counted."""

from .hybrid import peak_rows
from .programs import Bench, peak_words

GOAL = "< 512"


def run(bench: Bench) -> list[dict]:
    """Both engines, from the generator into standard input: mixed traffic, and as many flows as frames."""
    flows = bench.scale["flows"]
    rows = []
    for profile, frames in (("fabric", bench.scale["frames_of_flows"]), ("single", flows)):
        for engine in ("native", "hybrid"):
            with bench.generated(frames, profile, "--flows", flows) as source:
                run = bench.measure(peak_words("-", bench.directory, engine), keep=True, source=source)
            note = f"{frames:,} frames, at most {flows:,} flows, {run.wall_s:.0f} s"
            rows += peak_rows(f"{engine}, {profile}", run.stdout, GOAL, note)
    return rows
