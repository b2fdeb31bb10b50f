"""The stages from the digest of a capture to the tables of its campaign, in the order of the workflow."""

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from acapella_testing.frames.traces import START_NS, write_pcap
from acapella_testing.generated.digests import PLACE, write_manifest
from acapella_testing.new_files import new_directory
from acapella_testing.requirements import required

from acapella.campaign import analyze, index, process
from acapella.campaign.layout import Campaign
from acapella.cli import main as cli
from acapella.common import tshark
from acapella_core.files import sha256_of


def analyzed_by_tshark(directory: Path, frames: list[bytes]) -> Path:
    """Return a campaign with one sample of these frames, digested with engine tshark; skip the test without tshark."""
    required(tshark.find)
    return analyzed_frames(directory, frames, engine="tshark")


def analyzed_frames(directory: Path, frames: list[bytes], **options) -> Path:
    """Return a campaign with one sample of these frames, up to its tables."""
    add_capture(directory, "s", [(START_NS + at, frame) for at, frame in enumerate(frames)], **options)
    return analyze_campaign(directory)


def add_capture(  # noqa: PLR0913 (tests give the two or three that matter to them)
    directory: Path, name: str, trace: list, *, place=PLACE, engine="native", snaplen=200, **manifest
) -> tuple[Path, dict]:
    """Write a capture, its manifest and its digest; return the path of the capture and the manifest."""
    capture = write_pcap(new_directory(directory / "raw") / f"{name}.pcap", trace, snaplen)
    manifest |= {"status": "ok", "snaplen": snaplen, "sha256": sha256_of(capture), "bytes": capture.stat().st_size}
    acap, flows = (str(new_directory(directory / part) / f"{name}.parquet") for part in ("acap", "flows"))
    options = ["--engine", engine, "--site", place[0], "--port", place[1]]
    assert cli.main(["digest", str(capture), "-o", acap, "--flows", flows, *options]) == 0
    return capture, write_manifest(directory, name, place, **manifest)


def analyze_campaign(
    directory: Path,
    *,
    reverse: bool = False,
    alone: bool = False,
    threads: int = 1,
    choice: dict | None = None,
    **options,
) -> Path:
    """Index and analyze every sample, then process; ``reverse``: in reverse order.

    ``alone``: analyze each sample in its own queries; otherwise all together, as in a batch, which is faster.
    ``choice``: keywords `traffic` and `trials` of the index; ``options``: those of process.
    """
    campaign = Campaign(directory)
    index.build(campaign, threads=threads, **(choice or {}))
    samples = sorted((acap.stem for acap in (directory / "acap").glob("*.parquet")), reverse=reverse)
    for sample in samples if alone else []:
        analyze.make_partials(campaign, [sample], directory / "partial" / sample, threads=threads)
    if not alone:
        analyze.make_partials(campaign, samples, campaign.batch_partial("b0001", "quality").parent, threads=threads)
    process.make_tables(campaign, threads=threads, **options)
    return directory


def catalog_rows(directory: Path, query: str) -> list[tuple]:
    """Return the rows of a query to the catalog of a campaign."""
    with duckdb.connect(str(directory / "catalog.duckdb"), read_only=True) as con:
        return con.execute(query).fetchall()


def rows(directory: Path, table: str) -> list[dict]:
    """Return the rows of a published table."""
    return pq.read_table(directory / "tables" / f"{table}.parquet").to_pylist()
