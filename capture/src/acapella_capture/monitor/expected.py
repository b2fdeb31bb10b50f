"""The list of generated flows (schemas/generated.json): what a monitor expects."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acapella_core import schemas
from acapella_core.errors import UserError
from acapella_core.validation import first_error

MAGIC = b"ACFLWv1\0"  # magic number of the list that acapella-monitor reads (capture/monitor/src/files/flow_list.h)
NO_OFFSET = 0xFFFFFFFF
RECORD = np.dtype(
    [
        ("sequences", "<u8"),
        ("stamp_offset", "<u4"),
        ("pattern_offset", "<u4"),
        ("pattern", "<u4"),
        ("reserved", "<u4"),
    ]
)
FLOW_COLUMNS = ("name", "ip_version", "src", "dst", "ip_proto", "src_port", "dst_port")  # columns of monitor_flows


@dataclass(frozen=True)
class ExpectedFlows:
    """The generated flows of a file, in the order of their index, with the SHA-256 of the model and the seed.

    ``drained``: whether all packets left the queue of the generator's device.
    """

    flows: tuple[dict[str, Any], ...]
    model_sha256: str
    seed: int
    drained: bool = True

    def records(self) -> np.ndarray:
        """Return the flows as records for acapella-monitor."""
        patterns = patterns_by_name()
        records = np.zeros(len(self.flows), RECORD)
        for record, flow in zip(records, self.flows, strict=True):
            stamped = flow["stamp_offset"] is not None
            record["sequences"] = flow["packets"] + flow["dropped"]
            record["stamp_offset"] = flow["stamp_offset"] if stamped else NO_OFFSET
            record["pattern_offset"] = flow["pattern_offset"] if stamped else NO_OFFSET
            record["pattern"] = patterns[flow["pattern"]]
        return records

    def write(self, path: Path) -> None:
        """Write the list for acapella-monitor."""
        path.write_bytes(MAGIC + len(self.flows).to_bytes(8, "little") + self.records().tobytes())


def patterns_by_name() -> dict[str, int]:
    """Return the number of each payload pattern (schemas/stamp.json)."""
    stamp = json.loads((schemas.root() / "stamp.json").read_text(encoding="utf-8"))
    return {pattern["name"]: pattern["number"] for pattern in stamp["patterns"]}


def read(path: Path) -> ExpectedFlows:
    """Return the flows of a file. Raises UserError if it does not match schemas/generated.json."""
    schema = json.loads((schemas.root() / "generated.json").read_text(encoding="utf-8"))
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"not JSON: {error}"
        raise UserError(
            f"cannot read: {reason}", where=path, fix="specify OUT.pcap.generated.json of the generator"
        ) from error
    error = first_error(value, schema)
    if error is None and [flow["flow"] for flow in value["flows"]] != list(range(len(value["flows"]))):
        error = "flows: not in the order of their indexes"
    if error:
        raise UserError(error, where=path, fix="specify OUT.pcap.generated.json of the generator")
    timing = value.get("timing")  # None: a file was written
    return ExpectedFlows(
        tuple(value["flows"]), value["model_sha256"], value["seed"], timing is None or timing["drained"]
    )
