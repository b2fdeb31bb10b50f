"""Generate reports.inc, the layouts of flow reports, from schemas/report_formats.tsv: generate_reports.py TSV INC

Format N becomes namespace formatN: a ``Field<BYTES> name{OFFSET}`` for each row, ``kBytes``, and for a meaning that
lists bits or values (``bits: 1=syn 2=ack``) a namespace NAME_bits or NAME_values with them. Adjacent
rows name_0, name_1 ... are also a ``Fields<BYTES, COUNT> names{OFFSET}``.
"""

import csv
import re
import sys
from itertools import groupby
from pathlib import Path


def lines(rows: list[dict]):
    for number, of_format in groupby(rows, key=lambda row: row["format"]):
        fields, end = list(of_format), 0
        yield f"namespace format{number} {{"
        for row in fields:
            if int(row["offset"]) != end:
                raise SystemExit(f"format {number}: {row['name']} does not start at the end of the previous field")
            end += int(row["bytes"])
            yield f"inline constexpr Field<{row['bytes']}> {row['name']}{{{row['offset']}}};"
            yield from named_values(row)
        yield from arrays(fields)
        yield f"inline constexpr std::size_t kBytes = {end};"
        yield f"}}  // namespace format{number}"


def named_values(row: dict):
    found = re.search(r"(bits|values): ((?:\d+=\w+ ?)+)", row["meaning"])
    if found:
        yield f"namespace {row['name']}_{found[1]} {{"
        for word in found[2].split():
            value, name = word.split("=")
            yield f"inline constexpr std::uint32_t {name} = {value};"
        yield "}"


def arrays(fields: list[dict]):
    numbered = [(row["name"].rpartition("_")[0], row) for row in fields if re.search(r"_\d$", row["name"])]
    for name, group in groupby(numbered, key=lambda entry: entry[0]):
        found = [row for _, row in group]
        plural = name if name.endswith("s") else f"{name}s"
        yield f"inline constexpr Fields<{found[0]['bytes']}, {len(found)}> {plural}{{{found[0]['offset']}}};"


def main(table: str, output: str) -> None:
    with Path(table).open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    target = Path(output)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        "// generated from schemas/report_formats.tsv\n" + "\n".join(lines(rows)) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
