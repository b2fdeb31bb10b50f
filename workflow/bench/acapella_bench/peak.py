"""Run one stage of acapella and say how much memory it took: `python -m acapella_bench.peak digest ...`.

A parent that waits for a process sees only the largest of it and of its own children; here the process itself says, in
its last line of standard output, what it took at most and what the largest of its children did, as JSON in KiB.
"""

import json
import re
import resource
import sys
from pathlib import Path

from acapella.cli import main as cli


def own_kib() -> int:
    """The most memory that this process has held since it was executed (VmHWM, proc(5))."""
    return int(
        re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)[1]
    )


def main(argv: list[str]) -> int:
    """The stage's own exit code."""
    code = cli.main(argv)
    children_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(json.dumps({"own_kib": own_kib(), "children_kib": children_kib}))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
