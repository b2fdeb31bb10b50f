"""Measures P4 programs in DPDK's software pipeline: frames per second on one core, excluding file I/O."""

import json

from .programs import ROOT, Bench, Failed, acapella

SPECS = ROOT / "p4" / "spec"
PROFILES = ("iperf", "fabric")
# Ring of queue pair 0, so that reports are sent and not only counted; epochs as in the paper.
REPORTING = """
register qp_address 0 0x10000
register qp_base 0 0x10000
register qp_end 0 0x110000
register qp_key 0 0x55
register qp_number 0 17
epoch 10s
"""
CONTROL = {"flowstats": REPORTING}


def run(bench: Bench) -> list[dict]:
    """Measure each program with iperf-like traffic and with all encapsulations.

    Tables are empty, and registers have their initial values, except those in CONTROL.

    If the source of the installed DPDK is available, also run each program compiled, directly after the interpreter.
    """
    programs = sorted(spec.stem for spec in SPECS.glob("*.spec"))
    return [row for program in programs for profile in PROFILES for row in compared(bench, program, profile)]


def compared(bench: Bench, program: str, profile: str) -> list[dict]:
    """Measure one program, interpreted and compiled, with the ratio or the reason why it cannot be compiled."""
    interpreted = measured(bench, program, profile, "interpreted")
    try:
        measured(bench, program, profile, "compiled", frames=1000)  # compiles, unless the library is cached
    except Failed as error:
        return [interpreted | {"note": f"{interpreted['note']}; not compiled: {error}"}]
    compiled = measured(bench, program, profile, "compiled")
    ratio = compiled["value"] / interpreted["value"]
    return [interpreted, compiled | {"note": f"{ratio:.2f} times interpreted; {compiled['note']}"}]


def measured(bench: Bench, program: str, profile: str, pipeline: str, frames: int | None = None) -> dict:
    """Measure one program with one generated capture on standard input."""
    frames = frames or bench.scale["p4"]
    stats, control = bench.directory / "p4.json", bench.directory / "p4.txt"
    control.write_text(CONTROL.get(program, ""), encoding="utf-8")
    words = acapella("p4", "run", program, "--in", "-", "--control", control, "--stats", stats)
    words += ["--pipeline", pipeline]
    with bench.generated(frames, profile) as source:
        run = bench.measure(words, source=source)
    counts = json.loads(stats.read_text(encoding="utf-8"))
    sent = f"{counts['out']:,} sent, {counts['reports']:,} of them reports with ICRC"
    return {
        "measured": f"{program}, {profile}, {counts['pipeline']}",
        "value": counts["frames_per_second"],
        "unit": "frames/s",
        "note": f"{counts['in']:,} frames, {sent}; {run.cpu_s:.1f} s of CPU with reading, peak {run.peak_mib:.0f} MiB",
    }
