"""Files of one sample, as `acapella collect` and `acapella digest` write them. Values not given are unknown."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from acapella_testing.new_files import new_directory, write_json

from acapella.digest.acap_files import FORMAT

PLACE = ("WEST", "p1")
UNKNOWN = ("instance", "direction", "snaplen", "filter", "clock_resolution_ns", "port_rate_bps")
COUNTERS = ("frames_received", "frames_captured", "dropped_kernel", "dropped_interface")
MIRROR = ("offered_frames", "delivered_frames", "offered_bytes", "delivered_bytes")


def write_manifest(
    directory: Path, sample: str, place: tuple = PLACE, span: tuple = (None, None), mirror=None, **values
) -> dict:
    """Write raw/SAMPLE.json of (site, port), recorded from start to end in ns; return its content."""
    manifest = {
        **dict.fromkeys((*UNKNOWN, *COUNTERS)),
        **{"acapella_manifest": 1, "campaign": directory.name, "run": 1, "sample": sample, "testbed": "files"},
        **{"site": place[0], "port": place[1], "method": "file", "file": f"{sample}.pcap", "bytes": 1},
        **{"sha256": hashlib.sha256(sample.encode()).hexdigest(), "requested": dict.fromkeys(("start_ns", "end_ns"))},
        "actual": dict(zip(("start_ns", "end_ns"), span, strict=True)),
        "mirror": dict.fromkeys(MIRROR) | (mirror or {}),
        **values,
    }
    write_json(directory / "raw" / f"{sample}.json", manifest)
    return manifest


def write_digest(directory: Path, sample: str, place: tuple, frames: pa.Table, flows: pa.Table, **values) -> dict:
    """Write an acap and its flows with the metadata of a digest; return the metadata."""
    metadata = {
        **{"version": "0.1.0", "acap_format": FORMAT, "engine": "native", "tshark": None, "parameters": {}},
        **{"site": place[0], "port": place[1], "frames": len(frames), "flows": len(flows)},
        **{"first_ns": pc.min(frames["ts_ns"]).as_py(), "last_ns": pc.max(frames["ts_ns"]).as_py()},
        "wire_bytes": pc.sum(frames["wire_len"]).as_py() or 0,
        **dict.fromkeys(("time_reversals", "implausible_times", "peers_ambiguous", "file_unread_bytes"), 0),
        **{"clock_resolution_ns": 1, "file_issue": None, **values},
    }
    for part, table in (("acap", frames), ("flows", flows)):
        named = table.replace_schema_metadata({"acapella": json.dumps(metadata, sort_keys=True)})
        pq.write_table(named, new_directory(directory / part) / f"{sample}.parquet", compression="zstd")
    return metadata
