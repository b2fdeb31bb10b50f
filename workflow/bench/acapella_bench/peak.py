"""Runs a stage of acapella and prints its memory use: `python -m acapella_bench.peak digest ...`.

A parent process only gets the maximum over its child and the descendants of that child. Therefore, this process prints
its own peak memory and the peak memory of its largest child in the last line of standard output, as JSON in KiB.
"""

import json
import re
import resource
import sys
from pathlib import Path

from acapella.cli import main as cli


def own_kib() -> int:
    """Return the peak memory of this process since it was executed (VmHWM, proc(5))."""
    return int(
        re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)[1]
    )


def main(argv: list[str]) -> int:
    """Run the stage, print the memory use, and return the exit code of the stage."""
    code = cli.main(argv)
    children_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(json.dumps({"own_kib": own_kib(), "children_kib": children_kib}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
