"""Generate tokens.inc, the list of tokens, from schemas/protocols.tsv: generate_tokens.py PROTOCOLS.tsv TOKENS.inc

Tokens of layers 1 to 4, tunnels and glue become ``ACAPELLA_TOKEN(name, "token", "label", layer)`` and thus members of
enum Token; tokens above layer 4 become ``ACAPELLA_APPLICATION("token", "label")``, sorted by token. An application
without a label is part of the previous header (the ASN.1 of a certificate) and not shown in `stack`.
"""

import csv
import sys
from pathlib import Path

LAYERS = {"1": "kPhysical", "2": "kLink", "3": "kNetwork", "4": "kTransport", "tunnel": "kTunnel", "glue": "kGlue"}
ABOVE = ("app", "payload")  # payload: a kind of content named by tshark, not a header


def enumerator(token: str) -> str:
    """Return the C++ enumerator of a token, which must not be a keyword."""
    return token.replace(".", "_").replace("-", "_")


def lines(table: Path):
    with table.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    for row in rows:
        if row["layer"] in LAYERS:
            token, label, layer = row["token"], row["label"], LAYERS[row["layer"]]
            yield f'ACAPELLA_TOKEN({enumerator(token)}, "{token}", "{label}", {layer})'
        elif row["layer"] not in ABOVE:
            raise SystemExit(f"{table}: token {row['token']}: unknown layer {row['layer']!r}")
    for row in sorted((row for row in rows if row["layer"] in ABOVE), key=lambda row: row["token"]):
        yield f'ACAPELLA_APPLICATION("{row["token"]}", "{row["label"]}")'


def main(table: str, output: str) -> None:
    target = Path(output)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(
        "// generated from schemas/protocols.tsv\n" + "\n".join(lines(Path(table))) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
