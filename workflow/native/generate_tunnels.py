"""Generate tunnels.inc, the types of tunnel identifiers, from schemas/tunnels.tsv.

    generate_tunnels.py TUNNELS.tsv TUNNELS.inc

Each row becomes ``ACAPELLA_TUNNEL(type, number, directions)``. The number is part of flow ids and never changes.
"""

import csv
import sys
from pathlib import Path

DIRECTIONS = ("same", "mostly_same", "may_differ")


def lines(table: Path):
    with table.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream, delimiter="\t"):
            if row["directions"] not in DIRECTIONS:
                raise SystemExit(f"{table}: type {row['type']}: unknown directions {row['directions']!r}")
            yield f"ACAPELLA_TUNNEL({row['type']}, {int(row['number'])}, {row['directions']})"


def main(table: str, output: str) -> None:
    target = Path(output)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        "// generated from schemas/tunnels.tsv\n" + "\n".join(lines(Path(table))) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
