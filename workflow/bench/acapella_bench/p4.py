"""P4 programs in DPDK's software pipeline: frames a second on one core, without reading and writing captures."""

import json

from .programs import ROOT, Bench, acapella

SPECS = ROOT / "p4" / "spec"
PROFILES = ("iperf", "fabric")
# Ring of queue pair 0, so that reports are made and not only counted; epochs as in the paper.
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
    """Each program over iperf-like traffic and over all encapsulations; its tables empty, its registers as compiled."""
    programs = sorted(spec.stem for spec in SPECS.glob("*.spec"))
    return [measured(bench, program, profile) for program in programs for profile in PROFILES]


def measured(bench: Bench, program: str, profile: str) -> dict:
    """One program over one capture that streams in."""
    frames = bench.scale["p4"]
    stats, control = bench.folder / "p4.json", bench.folder / "p4.txt"
    control.write_text(CONTROL.get(program, ""), encoding="utf-8")
    words = acapella("p4", "run", program, "--in", "-", "--control", control, "--stats", stats)
    with bench.generated(frames, profile) as source:
        run = bench.measure(words, source=source)
    counts = json.loads(stats.read_text(encoding="utf-8"))
    sent = f"{counts['out']:,} sent, {counts['reports']:,} of them reports with ICRC"
    return {
        "measured": f"{program}, {profile}",
        "value": counts["frames_per_second"],
        "unit": "frames/s",
        "note": f"{counts['in']:,} frames, {sent}; {run.cpu_s:.1f} s of CPU with reading, peak {run.peak_mib:.0f} MiB",
    }
