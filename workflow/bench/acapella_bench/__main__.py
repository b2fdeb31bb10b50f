"""Measure Acapella on this machine, beside tshark, and print a table.

    make bench                                   every benchmark
    make bench BENCH_ARGS="native hybrid"        these
    make bench BENCH_ARGS="--scale small"        a quick look, too short to be quoted
    make bench BENCH_ARGS="cost --longest 10000000"
    make bench BENCH_ARGS="congestion --seed 7"       new samples; an interrupted run continues

Captures are generated (acapella-generate, a pure function of its arguments) or wrapped from the corpus beside the
project by its underlay.py. Each program that is compared runs alone on one core (taskset); the generator, where it
feeds standard input, on another. Numbers hold for the machine that the first lines name, and for nothing else.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from acapella_core.arguments import Parser
from acapella_core.errors import UserError

from . import (
    analysis,
    campaign,
    collector,
    congestion,
    digest_cost,
    hardening,
    hybrid,
    kappa,
    machine,
    native,
    p4,
    programs,
    storage,
    table,
    veth,
    writer,
)

BENCHMARKS = {
    "native": (native.run, "engine native: frames a second on one core, shares of its stages, peak memory"),
    "cost": (digest_cost.measure_cost, "engine native: cost per frame from 1 to 100 million frames, memory"),
    "hybrid": (hybrid.run_long_flows, "engine hybrid beside tshark, on long flows"),
    "wrapped": (hybrid.run_wrapped, "engine hybrid beside tshark, on the wrapped corpus (short flows)"),
    "memory": (digest_cost.measure_memory, "peak memory of both engines with a million flows, tshark's apart"),
    "size": (digest_cost.measure_size, "bytes a frame of an acap, on iperf-like traffic"),
    "kappa": (
        kappa.run,
        "consistency of two trials beside plain Python, hard orders, cost from 1 to 100 million packets",
    ),
    "collector": (
        collector.run,
        "flow reports to flows on one core: from memory, from frames with ICRC, 10 million flows, plain Python",
    ),
    "writer": (writer.run, "DPDK writer: frames offered, written and lost on one core; the disk's own speed"),
    "hardening": (
        hardening.run,
        "CPU time of the DPDK writer and the P4 loader with hardening flags beside that without",
    ),
    "veth": (veth.run, "tcpdump beside the DPDK writers: the highest rate without loss over the same veth pair"),
    "campaign": (
        campaign.run,
        "local testbed, three sites, samples of 2 s every 10 s, overloaded mirrors: what is lost",
    ),
    "congestion": (
        congestion.run,
        "verdicts on overloaded mirrors of the local testbed against what their switch counted",
    ),
    "storage": (storage.run, "latency of writes while the page cache fills, buffered and direct (root, bpftrace)"),
    "p4": (p4.run, "P4 programs in the software pipeline: frames a second on one core"),
    "analysis": (analysis.run, "index to figures for many samples"),
}


def parse(argv: list[str]) -> argparse.Namespace:
    """The command line."""
    lines = "\n".join(f"  {name:9} {about}" for name, (_, about) in BENCHMARKS.items())
    parser = Parser(
        prog="acapella_bench",
        description=f"{__doc__}\nBenchmarks:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which benchmarks (default: all)")
    parser.add_argument("--scale", choices=sorted(programs.SCALES), default="full", help="default: full")
    parser.add_argument("--longest", type=int, metavar="FRAMES", help="longest capture of `cost`")
    parser.add_argument("--samples", type=int, metavar="N", help="samples of `analysis` (default: by scale)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the traffic of `congestion` (default: 1)")
    parser.add_argument("--core", type=int, default=0, help="the core that what is measured runs on (default: 0)")
    parser.add_argument("-o", "--output", type=Path, default=Path("bench-results.json"), help="default: %(default)s")
    parser.add_argument("--work", type=Path, default=Path("build/bench"), help="directory for captures, removed after")
    args = parser.parse_args(argv)
    unknown = [name for name in args.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    return args


def main(argv: list[str]) -> int:
    """Run the benchmarks one after the other; one that fails or misses a floor makes the exit code 1."""
    args = parse(argv)
    facts = machine.facts()
    print(table.lines_of(facts), flush=True)
    results, failed, missed = {}, [], []
    args.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="captures-", dir=args.work) as directory:
        bench = programs.Bench.of(args, Path(directory))
        for name in args.names or BENCHMARKS:
            run, about = BENCHMARKS[name]
            print(f"\n{name}: {about}", flush=True)
            try:
                rows = run(bench)
                if args.scale == "full":  # a quick look reaches no goal
                    rows = list(table.checked(rows))
            except (UserError, programs.Failed) as error:
                failed.append(name)
                rows = [{"measured": "failed", "value": str(error)}]
            results[name] = rows
            missed += [f"{name}: {row['measured']}" for row in rows if row.get("met") is False]
            print(table.of(rows), flush=True)
    args.output.write_text(json.dumps({"machine": facts, "scale": args.scale, "results": results}, indent=1) + "\n")
    print(f"\nsaved: {args.output}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if failed or missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (UserError, programs.Failed) as error:
        print(f"acapella_bench: error: {error}", file=sys.stderr)
        sys.exit(2)
