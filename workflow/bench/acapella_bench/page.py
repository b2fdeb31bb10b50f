"""Write docs/performance.md from the results of benchmarks: python -m acapella_bench.page bench-results.json...

All numbers on the page come from `make bench`. To combine runs, pass the result file of each.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from acapella_core.files import atomic_text

from . import table

INTRODUCTION = """# Performance

`make bench` measured these numbers. They are valid only for the machine and the load stated above each group of
sections. To measure another machine:

    make bench BENCH_ARGS="archive cores batches comparators extract generate monitor"
    PYTHONPATH=workflow/bench .venv/bin/python -m acapella_bench.page bench-results.json

The benchmark `archive` runs the whole workflow, from the sample sheet to the report, on captures that all differ. The
share of a stage is the core time that its jobs occupied, divided by the core time of the whole run. `cores` repeats the
run on one core and, if Slurm is installed, through Slurm, and compares both with two cores. `batches` processes many
captures of 1,000 frames. `comparators` runs other flow meters on the same frames, and counts the flows that they find
inside the encapsulations of FABRIC. `extract` copies frames from a large capture. `generate` and `monitor` measure the
programs of docs/generate.md and docs/monitor.md.
"""
SMALL = """
**These are results of small runs (`--scale small`), which only test the benchmarks: they are too short to be compared
with the goals. If load_1_min is not near 0, other programs ran at the same time: rates are too low, and wall times too
long. Flows seen, bytes and memory are not affected.**
"""


def page(results: Iterable[dict]) -> str:
    """Return the page. ``results``: contents of files that acapella_bench wrote."""
    parts = [INTRODUCTION]
    for result in results:
        if result["scale"] != "full":
            parts.append(SMALL)
        facts = ", ".join(f"{name} {table.shown(value)}" for name, value in result["machine"].items())
        parts.append(f"\nMachine: {facts}.\n")
        for name, rows in result["results"].items():
            parts.append(f"\n## {name}\n\n| | Value | | Goal | Note |\n|---|---:|---|---|---|\n")
            parts += [line_of(row) for row in rows]
    return "".join(parts)


def line_of(row: dict) -> str:
    """Return a row as a line of a Markdown table."""
    more = (row.get(key, "") for key in ("unit", "goal", "note"))
    cells = (row["measured"].strip(), table.shown(row["value"]), *more)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


def main(argv: list[str]) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="acapella_bench.page", description=__doc__)
    parser.add_argument("results", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument("-o", "--output", default="docs/performance.md", help="default: %(default)s")
    args = parser.parse_args(argv)
    atomic_text(args.output, page(json.loads(path.read_text(encoding="utf-8")) for path in args.results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
