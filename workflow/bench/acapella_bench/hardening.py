"""Measures CPU time per frame of the C programs, built with and without the flags of workflow/setup/hardening.mk."""

from pathlib import Path

from .programs import ROOT, Bench
from .sending import writer

PROGRAMS = {"writer": "capture/dpdk/acapella-dpdk-capture", "loader": "p4/loader/acapella-p4-run"}
# Compilers of distributions set some of the flags by default.
FLAGS = {
    "hardened": [],
    "plain": ["HARDENED=-fno-PIE -fno-stack-protector -fno-stack-clash-protection -U_FORTIFY_SOURCE",
              "HARDENED_LINK=-no-pie -Wl,-z,lazy -Wl,-z,norelro"],
}  # fmt: skip
RUNS = 5  # of each build, alternating
LOAD = writer.Load("sink", 200, 128)
SPEC = ROOT / "p4" / "spec" / "preprocess.spec"


def run(bench: Bench) -> list[dict]:
    """Return a row per program with the fastest run of both builds, which was disturbed least. Runs alternate."""
    measured = {"writer": cost_of_writer, "loader": cost_of_loader}
    rows = []
    for name, cost in measured.items():
        built = {kind: build(bench, name, kind) for kind in FLAGS}
        costs: dict[str, list[float]] = {kind: [] for kind in FLAGS}
        for _ in range(RUNS):
            for kind, program in built.items():
                costs[kind].append(cost(bench, program))
        hardened, plain = (min(costs[kind]) for kind in ("hardened", "plain"))
        spread = ", ".join(f"{kind} {min(found):.1f} to {max(found):.1f}" for kind, found in costs.items())
        rows.append(
            {
                "measured": f"{name}, hardened",
                "value": hardened,
                "unit": "ns/frame",
                "note": f"{hardened / plain:.3f} times plain ({plain:.1f} ns/frame); of {RUNS} runs: {spread}",
            }
        )
    return rows


def build(bench: Bench, name: str, kind: str) -> Path:
    """Build a program with the flags of a kind; return its path."""
    directory = bench.directory.parent / "hardening" / kind
    bench.run(["make", "-s", "-C", ROOT, "programs", f"PROGRAMS={directory.resolve()}", *FLAGS[kind]])
    return directory / PROGRAMS[name]


def cost_of_writer(bench: Bench, program: Path) -> float:
    """Return the CPU time of the writer thread in ns per frame, at more frames than it can write."""
    point = writer.run_writer(bench, LOAD, None, bench.scale["writer_s"], program)
    return 1e9 * point.cpu_s / point.written


def cost_of_loader(bench: Bench, program: Path) -> float:
    """Return the CPU time of a whole run in ns per frame, with iperf-like traffic."""
    frames = bench.scale["p4"]
    capture = bench.generate(frames, "iperf")
    return 1e9 * bench.measure([program, "--spec", SPEC, "--in", capture]).cpu_s / frames
