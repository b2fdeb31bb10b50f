#!/usr/bin/env python3
"""Find phrases that are not plain technical English: phrases.py [PATH...]

Reads phrases.tsv (expressions) and phrases-allowed.tsv (correct uses, each with a reason) next to this script. Without
PATH it checks every tracked text file. Exits with 1 if it finds a phrase, or if an entry of the allow list matches
nothing.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MAX_ALLOWED = 50
# Data, generated files, and text by others. The list itself and the change history contain forbidden phrases.
SKIPPED = re.compile(
    r"(^|/)(LICENSE|CHANGELOG\.md|phrases(-allowed)?\.tsv|.*\.(lock|spec|gz|zst|lz4|pcap|pcapng|png|svg|bin|parquet))$"
    r"|(^|/)corpus/"
)
# A line break within a paragraph or a comment, with the next line's indentation and comment mark.
BREAK = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:(?://+|#+|--|\*)[ \t]*)?)"


def rows(name: str) -> list[list[str]]:
    """Return the fields of the lines of a list, without comments and empty lines."""
    lines = (HERE / name).read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def expressions() -> list[tuple[re.Pattern, str]]:
    """Return the compiled expressions, each with its suggestion."""
    return [(re.compile(phrase.replace(" ", BREAK), re.I), better) for phrase, better in rows("phrases.tsv")]


def tracked() -> list[str]:
    """Return the paths of all tracked and new files below the root."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    return [name for name in listed if name and not SKIPPED.search(name)]


def found_in(name: str, phrases: list[tuple[re.Pattern, str]]) -> list[tuple[int, str, str, str]]:
    """Return (line number, line, phrase, suggestion) for each phrase in a file; nothing for files that are not text."""
    try:
        text = (ROOT / name).read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError):
        return []
    lines = text.splitlines() or [""]
    hits = {}
    for phrase, better in phrases:
        for match in phrase.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            hits.setdefault((number, match.end()), (number, lines[number - 1], " ".join(match[0].split()), better))
    return sorted(hits.values())


def report(names: list[str]) -> int:
    """Print the phrases of files and a summary; return the exit code."""
    allowed = {(path, text): 0 for path, text, _reason in rows("phrases-allowed.tsv")}
    phrases, faults = expressions(), 0
    for name in names:
        for number, line, phrase, better in found_in(name, phrases):
            entry = next(((path, text) for path, text in allowed if path == name and text in line), None)
            if entry:
                allowed[entry] += 1
            else:
                faults += 1
                print(f"{name}:{number}: {phrase!r}: write: {better}")
    unused = [entry for entry, uses in allowed.items() if not uses and entry[0] in names]
    for path, text in unused:
        print(f"phrases-allowed.tsv: no phrase in {path} is in a line with {text!r}: remove the entry")
    print(f"{len(names)} files checked: {faults} phrases, {len(allowed)} allowed")
    return int(bool(faults or unused or len(allowed) > MAX_ALLOWED))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or directories (default: all)")
    args = parser.parse_args()
    selected = [path.rstrip("/") for path in args.paths]
    names = [name for name in tracked() if not selected or any(name == p or name.startswith(p + "/") for p in selected)]
    return report(names)


if __name__ == "__main__":
    sys.exit(main())
