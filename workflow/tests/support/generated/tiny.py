"""Campaigns of a few flows, which tests define individually."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
from acapella_testing.generated.digests import PLACE, write_digest, write_manifest

from acapella.common.tables import arrow_schema

SECOND = 10**9
START = 1_700_000_000 * SECOND
TCP_COUNTS = ("syn", "syn_ack", "fin", "rst", "psh", "ack", "urg", "ece", "cwr", "retransmitted_bytes")
KEY = ("vlan", "mpls", "tunnels", "src", "dst", "ip_proto", "src_port", "dst_port")


def at(seconds: float) -> int:
    """Return the time in ns of seconds since START."""
    return START + int(seconds * SECOND)


def flow(first_s: float, last_s: float, **parts) -> dict:
    """Return a directed TCP flow, with first and last frame in seconds since START. ``parts`` replaces columns."""
    row = {
        **{"vlan": [], "mpls": [], "tunnels": [], "peer_candidates": 0, "ip_version": 4, "ip_proto": 6},
        **{"src": "10.0.0.1", "dst": "10.0.0.2", "src_port": 1000, "dst_port": 2000},
        **{"first_ns": at(first_s), "last_ns": at(last_s), "cut_start": True, "cut_end": True},
        **{"frames": 2, "wire_bytes": 1000, "ip_bytes": 900, "payload_bytes": 800},
        **{"wire_len_min": 500, "wire_len_mean": 500.0, "wire_len_max": 500, "stacks": [], "stacks_cut": False},
        **dict.fromkeys(TCP_COUNTS, 0),
        **parts,
    }
    return {"flow_id": hashlib.sha256(json.dumps([row[name] for name in KEY]).encode()).hexdigest()[:32], **row}


def add_sample(
    directory: Path, name: str, place: tuple = PLACE, span: tuple | None = (0, 20), flows=None, **manifest
) -> None:
    """Write a sample of (site, port), with a frame at both ends of each flow. ``span``: s since START; None: unknown.

    Without ``flows``, it has one flow.
    """
    flows = [flow(1, 2)] if flows is None else flows
    stamps = sorted(((row[end], n) for n, row in enumerate(flows) for end in ("first_ns", "last_ns")), key=by_time)
    frame = {"wire_len": 500, "cap_len": 200, "inner_wire_len": 500, "l4_by": "native"}
    frame |= {"protocols": "eth:ethertype:ip:tcp", "stack": "Ethernet/IPv4/TCP"}
    frames = [{"frame": k, "ts_ns": ts_ns, "flow": n, **frame} for k, (ts_ns, n) in enumerate(stamps, 1)]
    rows = [{"flow": n, "site": place[0], "port": place[1], **row} for n, row in enumerate(flows)]
    tables = [pa.Table.from_pylist(part, arrow_schema(kind)) for part, kind in ((frames, "frames"), (rows, "flows"))]
    write_digest(directory, name, place, *tables)
    write_manifest(directory, name, place, tuple(map(at, span)) if span else (None, None), **manifest)


def by_time(stamp: tuple) -> int:
    """Return the key that sorts frames by time, those without a time first."""
    return stamp[0] or 0
