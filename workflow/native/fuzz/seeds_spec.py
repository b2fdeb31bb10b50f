"""Seeds of fuzz_spec: the loader's test programs, and statements of each kind from the delivered programs.

The delivered programs themselves are longer than the largest input. Usage: seeds_spec.py DIRECTORY.
"""

import re
import shutil
import sys
from collections import defaultdict
from pathlib import Path

P4 = Path(__file__).resolve().parents[3] / "p4"
PER_KIND = 4  # statements
LONGEST = 4000  # bytes of a statement; the test programs have shorter apply blocks
STATEMENT = re.compile(r"^[a-z]+ [^\n{]*(?:\{.*?^\})?$", re.MULTILINE | re.DOTALL)


def statements(text: str) -> str:
    """Return the shortest statements of each kind, in their order."""
    kinds = defaultdict(list)
    for found in STATEMENT.finditer(text):
        if len(found[0]) <= LONGEST:
            kinds[found[0].split()[0]].append(found)
    chosen = [match for found in kinds.values() for match in sorted(found, key=lambda match: len(match[0]))[:PER_KIND]]
    return "\n".join(match[0] for match in sorted(chosen, key=lambda match: match.start())) + "\n"


def main() -> None:
    """Write the programs into the directory given by the first argument."""
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for source in sorted(P4.glob("loader/tests/*.spec")):
        shutil.copyfile(source, directory / source.name)
    for source in sorted(P4.glob("spec/*.spec")):
        (directory / source.name).write_text(statements(source.read_text(encoding="ascii")), encoding="ascii")


if __name__ == "__main__":
    main()
