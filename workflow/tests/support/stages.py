"""The stages after the digest, in the order of the workflow."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.frames.traces import MS, START_NS, write_pcap

from acapella.campaign import analyze, index, process
from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.common import tshark
from acapella_core.errors import UserError
from acapella_core.files import sha256_of


def analyzed_by_tshark(directory: Path, frames: list[bytes]) -> Path:
    """Return a campaign with one sample of these frames, digested with engine tshark; skip the test without tshark."""
    try:
        tshark.find()
    except UserError as error:
        pytest.skip(str(error))
    return analyzed_frames(directory, frames, "tshark")


def analyzed_frames(directory: Path, frames: list[bytes], engine: str = "native") -> Path:
    """Return a campaign with one sample of these frames, up to its tables."""
    for part in ("raw", "acap", "flows"):
        (directory / part).mkdir()
    capture = write_pcap(directory / "raw" / "s.pcap", [(START_NS + at, frame) for at, frame in enumerate(frames)])
    manifest = {"sample": "s", "site": "WEST", "port": "p1", "file": capture.name, "sha256": sha256_of(capture)}
    manifest |= {"status": "ok", "testbed": "files", "bytes": capture.stat().st_size}
    (directory / "raw" / "s.json").write_text(json.dumps(manifest))
    created = ["-o", str(directory / "acap" / "s.parquet"), "--flows", str(directory / "flows" / "s.parquet")]
    assert cli.main(["digest", str(capture), *created, "--engine", engine, "--site", "WEST", "--port", "p1"]) == 0
    return analyze_campaign(directory)


def analyze_campaign(
    directory: Path, *, reverse: bool = False, threads: int = 1, choice: dict | None = None, **options
) -> Path:
    """Index and analyze every sample, then process; ``reverse``: in reverse order.

    ``choice``: keywords `traffic` and `trials` of the index; ``options``: those of process.
    """
    campaign = Campaign(directory)
    index.build(campaign, threads=threads, **(choice or {}))
    for acap in sorted((directory / "acap").glob("*.parquet"), reverse=reverse):
        analyze.make_partials(campaign, acap.stem, directory / "partial" / acap.stem, threads=threads)
    process.make_tables(campaign, threads=threads, **options)
    return directory


def rows(directory: Path, table: str) -> list[dict]:
    """Return the rows of a published table."""
    return pq.read_table(directory / "tables" / f"{table}.parquet").to_pylist()


def manifest_of(directory, place, capture, start):
    """Return a manifest. Only WEST p1 has times and losses."""
    site, port = place
    name, known = capture.stem, place == ("WEST", "p1")
    manifest = {
        "acapella_manifest": 1,
        "campaign": directory.name,
        "run": 1,
        "sample": name,
        "testbed": "files",
        "site": site,
        "instance": None,
        "port": port,
        "direction": None,
        "method": "file",
        "file": capture.name,
        "sha256": sha256_of(capture),
        "bytes": capture.stat().st_size,
        "snaplen": 200,
        "filter": None,
        "requested": {"start_ns": None, "end_ns": None},
        "actual": {"start_ns": start - MS if known else None, "end_ns": start + 5 * 10**9 if known else None},
        "frames_received": None,
        "frames_captured": 80 if known else None,
        "dropped_kernel": 3 if known else None,
        "dropped_interface": None,
        "clock_resolution_ns": None,
        "port_rate_bps": None,
        "notes": [],
        "mirror": dict.fromkeys(("offered_frames", "delivered_frames", "offered_bytes", "delivered_bytes")),
    }
    (directory / "raw" / f"{name}.json").write_text(json.dumps(manifest), encoding="utf-8")
    return manifest
