"""Writes runs of transfers to a release: only the values and frames from which the tables of transfers are computed.

cell.json and iperf3 files are rewritten with the keys listed below, which exclude names of hosts and sites, addresses
and cookies. Nodes of links and paths are numbered. Digests contain the columns listed below, which exclude addresses
and hashes of flows.
"""

import contextlib
import datetime
import json
from pathlib import Path

from acapella_core import schemas
from acapella_core.files import atomic_text
from acapella_core.validation import load_jsonschema

DIRECTORY, CELL, GRID = "transfers", "cell.json", "grid.json"
MAX_BYTES = 64 << 20  # maximum size of a JSON file
NUMBER, TEXT = (bool, int, float, type(None)), (str, type(None))
PATH = {"path": TEXT, "rtt_ns": NUMBER}
CELL_KEYS = {
    **{
        "version": NUMBER,
        "cell_id": TEXT,
        "run": NUMBER,
        "mode": TEXT,
        "topology": TEXT,
        "wire": TEXT,
        "flags": [TEXT],
    },
    "settings": {
        **{"algorithm": TEXT, "delay_ms": NUMBER, "buffer_bytes": NUMBER, "rate_bps": NUMBER, "streams": NUMBER},
        **{"size_bytes": NUMBER, "ratio": NUMBER, "delay_on": TEXT, "loss_percent": NUMBER, "reorder_percent": NUMBER},
    },
    "measured": {
        **{"rtt_ns": NUMBER, "rate_bps": NUMBER, "rate_at_least_bps": NUMBER, "buffer_bytes": NUMBER},
        **{"frames_over_mtu": NUMBER, "background_bps": NUMBER, "paths": [PATH]},
    },
    "environment": {"kernel": TEXT, "bbr_version": TEXT, "tcp_wmem": [NUMBER]},
    "links": {None: {"between": [TEXT], "emulated": NUMBER, "times_ratio": NUMBER, "rate_bps": NUMBER}},
    "paths": {None: [TEXT]},
    "flows": [
        {
            **{"flow": NUMBER, "path": TEXT, "client_port": NUMBER, "server_port": NUMBER, "size_bytes": NUMBER},
            **{"extra_bytes": NUMBER, "iperf3": TEXT, "started_ns": NUMBER, "start_error_ns": NUMBER},
        }
    ],
    "tcp_info": [{"flow": NUMBER, "busy_ns": NUMBER, "snd_wnd_bytes": NUMBER}],
}
SENDER = {
    **{"socket": NUMBER, "sender": NUMBER, "bytes": NUMBER, "start": NUMBER, "end": NUMBER, "seconds": NUMBER},
    **{"retransmits": NUMBER, "min_rtt": NUMBER, "mean_rtt": NUMBER, "max_rtt": NUMBER, "max_snd_cwnd": NUMBER},
}
INTERVAL = {
    **{"socket": NUMBER, "start": NUMBER, "end": NUMBER, "bytes": NUMBER, "omitted": NUMBER, "retransmits": NUMBER},
    **{"snd_cwnd": NUMBER, "rtt": NUMBER},
}
IPERF3_KEYS = {
    "start": {
        **{"version": TEXT, "tcp_mss_default": NUMBER, "tcp_mss": NUMBER},
        "test_start": {"protocol": TEXT, "bytes": NUMBER, "omit": NUMBER, "reverse": NUMBER},
        "connected": [{"socket": NUMBER, "local_port": NUMBER, "remote_port": NUMBER}],
    },
    "intervals": [{"streams": [INTERVAL]}],
    "end": {"sender_tcp_congestion": TEXT, "streams": [{"sender": SENDER, "receiver": SENDER}]},
}
GRID_KEYS = {"version": NUMBER, "cells": [{"cell_id": TEXT, "run": NUMBER}]}
FRAMES = ("frame", "ts_ns", "wire_len", "ip_len", "flow", "tcp_flags", "tcp_seq", "tcp_ack", "payload_len")
FLOWS = ("flow", "peer_flow", "ip_proto", "src_port", "dst_port", "payload_bytes", "cut_end")
FAILED = "not published"  # instead of the text of an error
IMPORTED = "transfers: iperf3 files from elsewhere are not released"
HIDDEN = "transfers: names of links and paths have no pseudonyms"


def cells_of(directory: Path) -> list[Path]:
    """Return cell.json of each run of a campaign or release. Directories of runs in progress begin with a dot."""
    return sorted((directory / DIRECTORY).glob(f"[!.]*/{CELL}"))


def write(part: Path, campaign: Path, *, hidden: bool) -> list[str]:
    """Write the runs of a campaign to the release in ``part``; return reasons why results cannot be reproduced.

    If names are ``hidden``, no run is written.
    """
    runs = cells_of(campaign)
    notes = [IMPORTED] if has_imported(campaign, runs) else []
    if not runs or hidden:
        return [*notes, HIDDEN] if runs else notes
    validator = load_jsonschema().Draft202012Validator(schemas.json_schema("transfer_cell"))
    invalid = 0
    write_json(campaign / DIRECTORY / GRID, part / DIRECTORY / GRID, GRID_KEYS)
    for path in runs:
        target = part / DIRECTORY / path.parent.name
        cell = read_json(path)
        if not validator.is_valid(cell):
            invalid += 1
            continue
        write_content(cell, target / CELL, CELL_KEYS)
        files = {flow["iperf3"] for flow in cell["flows"]}
        written = [write_json(path.parent / name, target / name, IPERF3_KEYS) for name in files]
        invalid += written.count(None)
        if cell.get("wire"):
            invalid += write_digest(path.parent / cell["wire"], target)
    return [*notes, *([f"transfers: {invalid} files are damaged or invalid"] if invalid else [])]


def has_imported(campaign: Path, runs: list[Path]) -> bool:
    """Return whether the tables contain imported runs, besides the runs in ``runs`` (cell.json of each)."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    path = campaign / "tables" / "transfer_cells.parquet"
    try:
        listed = {*pq.read_table(path, columns=["cell_id"])["cell_id"].to_pylist()} if path.is_file() else set()
    except (OSError, pa.ArrowException):
        return False  # a damaged table is not released
    cells = (read_json(run) for run in runs)
    return bool(listed - {cell.get("cell_id") for cell in cells if isinstance(cell, dict)})


def read_json(path: Path) -> object:
    """Return the value in a JSON file; None if the file cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size <= MAX_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None


def write_json(path: Path, target: Path, keys: dict) -> dict | None:
    """Write the known keys of a JSON file to a new one and return them; None if it contains no object."""
    return write_content(read_json(path), target, keys)


def write_content(content: object, target: Path, keys: dict) -> dict | None:
    """Write the known keys of a JSON value to a file and return them; None if it is not an object."""
    kept = known(content, keys)
    if not isinstance(content, dict):
        return None
    number_nodes(kept)
    if isinstance(content.get("error"), str):
        kept["error"] = FAILED
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_text(target, json.dumps(kept, sort_keys=True, separators=(",", ":")) + "\n")
    return kept


def known(value: object, keys: object) -> object:
    """Return the parts of a JSON value that ``keys`` describes; None for a value of a different type.

    A dictionary lists keys (None: any key), a list has the description of its elements, a tuple has types.
    """
    if isinstance(keys, tuple):
        return value if isinstance(value, keys) else None
    if isinstance(keys, list):
        return [known(each, keys[0]) for each in value] if isinstance(value, list) else None
    if not isinstance(value, dict):
        return None
    if None in keys:
        return {name: known(each, keys[None]) for name, each in value.items()}
    return {name: known(value[name], inner) for name, inner in keys.items() if name in value}


def number_nodes(cell: dict) -> None:
    """Replace the names of nodes in links and paths, which may be host names, by n1, n2 and so on."""
    paths, links = cell.get("paths") or {}, cell.get("links") or {}
    lists = [*paths.values(), *(link["between"] for link in links.values())]
    numbers = {name: f"n{n}" for n, name in enumerate(dict.fromkeys(name for names in lists for name in names), 1)}
    for names in lists:
        names[:] = [numbers[name] for name in names]


def flows_of(acap: Path) -> Path:
    """Return the path of the flow table of a run's acap."""
    return acap.with_name(f"{acap.name.removesuffix('.parquet')}.flows.parquet")


def write_digest(acap: Path, target: Path) -> int:
    """Copy the listed columns of an acap and its flow table, without metadata; return the number of damaged files.

    Files that do not exist are skipped.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    from acapella_core.files import atomic_path  # noqa: PLC0415

    damaged = 0
    for path, columns in ((acap, FRAMES), (flows_of(acap), FLOWS)):
        if path.is_file():
            try:
                rows = pq.read_table(path, columns=list(columns)).replace_schema_metadata(None)
            except (OSError, pa.ArrowException):
                damaged += 1
                continue
            with atomic_path(target / path.name) as temporary:
                pq.write_table(rows, temporary, compression="zstd")
    return damaged


def original_flows(campaign: Path) -> list[Path]:
    """Return the flow tables of a campaign's transfers that contain addresses, for the search of the release.

    Damaged flow tables are skipped: no release contains them.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.parquet as pq  # noqa: PLC0415

    found = []
    for path in sorted((campaign / DIRECTORY).glob("[!.]*/*.flows.parquet")):
        with contextlib.suppress(OSError, pa.ArrowException):
            if "src" in pq.read_schema(path).names:
                found.append(path)
    return found


def date(release: Path) -> str:
    """Return the date (UTC) on which the last transfer started; 1970-01-01 if it is unknown."""
    last = 0
    for path in cells_of(release):
        flows = json.loads(path.read_text(encoding="utf-8")).get("flows") or []
        last = max([last, *(flow.get("started_ns") or 0 for flow in flows)])
    return datetime.datetime.fromtimestamp(last // 10**9, datetime.UTC).date().isoformat()
