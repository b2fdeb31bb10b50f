"""Campaigns of a few flows, which tests define individually."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from acapella.common.tables import arrow_schema
from acapella.digest.acap_files import FORMAT

SECOND = 10**9
START = 1_700_000_000 * SECOND
TCP_COUNTS = ("syn", "syn_ack", "fin", "rst", "psh", "ack", "urg", "ece", "cwr", "retransmitted_bytes")


def flow(first_s: float, last_s: float, **parts) -> dict:
    """Return a directed TCP flow, with first and last frame in seconds since START. ``parts`` replaces columns."""
    row = {
        "peer_candidates": 0,
        "vlan": [],
        "mpls": [],
        "tunnels": [],
        "ip_version": 4,
        "src": "10.0.0.1",
        "dst": "10.0.0.2",
        "ip_proto": 6,
        "src_port": 1000,
        "dst_port": 2000,
        "first_ns": START + int(first_s * SECOND),
        "last_ns": START + int(last_s * SECOND),
        "frames": 2,
        "wire_bytes": 1000,
        "ip_bytes": 900,
        "payload_bytes": 800,
        "wire_len_min": 500,
        "wire_len_mean": 500.0,
        "wire_len_max": 500,
        "stacks": [],
        "stacks_cut": False,
        "cut_start": True,
        "cut_end": True,
        **dict.fromkeys(TCP_COUNTS, 0),
        **parts,
    }
    key = [row[k] for k in ("vlan", "mpls", "tunnels", "src", "dst", "ip_proto", "src_port", "dst_port")]
    row.setdefault("flow_id", hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32])
    return row


def add_sample(directory: Path, name: str, place: tuple, span: tuple | None, flows: list[dict], **manifest) -> None:
    """Write a sample of (site, port) with a span in seconds since START (None: unknown) and one frame per flow end."""
    site, port = place
    frames = [
        {
            "ts_ns": f[stamp],
            "wire_len": 500,
            "cap_len": 200,
            "inner_wire_len": 500,
            "protocols": "eth:ethertype:ip:tcp",
            "stack": "Ethernet/IPv4/TCP",
            "flow": n,
            "l4_by": "native",
        }
        for n, f in enumerate(flows)
        for stamp in ("first_ns", "last_ns")
    ]
    frames = [{"frame": n, **f} for n, f in enumerate(sorted(frames, key=lambda f: f["ts_ns"] or 0), 1)]
    stamps = [f["ts_ns"] for f in frames if f["ts_ns"] is not None]
    meta = {
        "version": "0",
        "acap_format": FORMAT,
        "engine": "native",
        "frames": len(frames),
        "flows": len(flows),
        "wire_bytes": 500 * len(frames),
        "first_ns": min(stamps, default=None),
        "last_ns": max(stamps, default=None),
        "peers_ambiguous": 0,
        "time_reversals": 0,
        "clock_resolution_ns": 1,
        "file_issue": None,
        "file_unread_bytes": 0,
        "site": site,
        "port": port,
        "tshark": None,
        "parameters": {},
    }
    rows = [{"flow": n, "site": site, "port": port, **f} for n, f in enumerate(flows)]
    for part, table, content in (("acap", "frames", frames), ("flows", "flows", rows)):
        (directory / part).mkdir(parents=True, exist_ok=True)
        schema = arrow_schema(table).with_metadata({"acapella": json.dumps(meta)})
        columns = [pa.array([row.get(f.name) for row in content], f.type) for f in schema]
        pq.write_table(pa.table(columns, schema=schema), directory / part / f"{name}.parquet")
    document = {
        "acapella_manifest": 1,
        "campaign": directory.name,
        "run": 1,
        "sample": name,
        "testbed": "files",
        "site": site,
        "port": port,
        "method": "file",
        "file": f"{name}.pcap",
        "sha256": hashlib.sha256(name.encode()).hexdigest(),
        "bytes": 1,
        "actual": {
            k: span and START + int(s * SECOND) for k, s in zip(("start_ns", "end_ns"), span or (0, 0), strict=True)
        },
        **manifest,
    }
    (directory / "raw").mkdir(exist_ok=True)
    (directory / "raw" / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
