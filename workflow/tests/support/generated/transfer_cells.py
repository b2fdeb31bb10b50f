"""A topology for `acapella transfer`, and the results that it writes."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml

from acapella_core import schemas
from acapella_core.validation import load_jsonschema

HASHED = """
nodes: {h1: {role: host}, r1: {role: router}, r2: {role: router}, r3: {role: router}, r4: {role: router},
        h2: {role: host}}
links:
  a: {between: [h1, r1]}
  up: {between: [r1, r2], emulated: true}
  down: {between: [r1, r3], emulated: true}
  b: {between: [r2, r4]}
  c: {between: [r3, r4]}
  d: {between: [r4, h2]}
paths: {up: [h1, r1, r2, r4, h2], down: [h1, r1, r3, r4, h2]}
assignment: hash
"""


class TransferResults:
    """The results of transfers in the directory of a campaign."""

    campaign: Path

    def cells(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.campaign.glob("transfers/*/cell.json"))]

    def errors(self) -> list[str | None]:
        return [cell["error"] for cell in self.cells()]

    def directory(self, cell: dict[str, Any]) -> Path:
        return self.campaign / "transfers" / cell["cell_id"]

    def report(self, cell: dict[str, Any], flow: int) -> dict[str, Any]:
        """Return iperf3's report of a flow."""
        return json.loads((self.directory(cell) / cell["flows"][flow]["iperf3"]).read_text())

    def received(self, cell: dict[str, Any], *paths: str) -> int:
        """Return the bytes that iperf3 received over some paths."""
        reports = [self.report(cell, number) for number, flow in enumerate(cell["flows"]) if flow["path"] in paths]
        return sum(report["end"]["sum_received"]["bytes"] for report in reports)

    def begins(self, cell: dict[str, Any]) -> list[int]:
        """Return the time of the first frame of each flow in the capture."""
        rows = pq.read_table(self.directory(cell) / "wire.flows.parquet").to_pylist()
        first = {row["src_port"]: row["first_ns"] for row in rows}
        return [first[flow["client_port"]] for flow in cell["flows"]]


def at_sites(topology: str, **sites: str) -> str:
    """Return a topology whose nodes are at these sites."""
    placed = yaml.safe_load(topology)
    for node, site in sites.items():
        placed["nodes"][node]["site"] = site
    return yaml.safe_dump(placed, sort_keys=False)


def validate_written(cell: dict[str, Any]) -> None:
    """Raise an error if a `cell.json` is invalid or has a key that the schema does not describe.

    Readers ignore other keys, because cells may be imported.
    """
    load_jsonschema().validate(cell, closed(schemas.json_schema("transfer_cell")))


def closed(schema: Any) -> Any:
    """Return a schema that permits only the keys it describes."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    rest = {"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {}
    return rest | {key: closed(value) for key, value in schema.items()}
