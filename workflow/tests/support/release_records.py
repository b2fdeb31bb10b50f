"""Releases of captures and campaigns, and readers of their content."""

import json
import random
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from acapella_testing.frames import pcap_files
from acapella_testing.generated.files_campaign import run

from acapella_core.anonymize import anonymize

KEY = random.Random(4).randbytes(32)


def write_key(path: Path, key: bytes = KEY) -> Path:
    """Write a private file with a key; return its path."""
    path.touch(mode=0o600)
    path.write_bytes(key)
    return path


def published(campaign: Path, key: bytes = KEY) -> Path:
    """Release a campaign with a key next to it; return the release."""
    release = campaign.parent / "public"
    run("release", campaign, "-o", release, "--key-file", write_key(campaign.parent / "key", key))
    return release


def checksums_of(release: Path) -> dict[str, str]:
    """Return the checksums in SHA256SUMS of a release by file."""
    return dict(reversed(line.split("  ")) for line in (release / "SHA256SUMS").read_text().splitlines())


def changed_columns(file: str, key: list[str], *versions: list[dict]) -> set[tuple[str, str]]:
    """Return (file, column) of values that differ in two versions of a table, by a naive comparison.

    The column is "(rows)" for rows of only one version.
    """
    ours, theirs = ({tuple(row[name] for name in key): row for row in rows} for rows in versions)
    pairs = [(ours[at], theirs[at]) for at in ours.keys() & theirs.keys()]
    columns = {name for one, other in pairs for name in one if one[name] != other[name]}
    return {(file, name) for name in columns | ({"(rows)"} if ours.keys() ^ theirs.keys() else set())}


def reported_columns(campaign: Path) -> set[tuple[str, str]]:
    """Return (file, column) of the differences in Parquet files that `campaign compare` has listed."""
    lines = [line.split("\t") for line in (campaign / "reproduced.tsv").read_text().splitlines()[1:]]
    return {(file, column) for file, column, *_ in lines if file.endswith(".parquet")}


def pcap(frames: list[tuple[int, bytes]], link_type: int = 1) -> bytes:
    """Return a nanosecond pcap of (wire length, captured bytes), with one frame every 1.000000001 s."""
    made = (pcap_files.record(n * 1_000_000_001, frame, wire) for n, (wire, frame) in enumerate(frames, 1))
    return pcap_files.header(link_type=link_type) + b"".join(made)


def text_of(path: Path) -> str:
    """Return all values of a Parquet file or a DuckDB catalog as text; empty for other files."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        metadata = {str(key): str(value) for key, value in (table.schema.metadata or {}).items()}
        return json.dumps([table.to_pylist(), metadata], default=str)
    if path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as con:
            views = con.sql("select sql from duckdb_views() where not internal").fetchall()
            tables = con.sql("select schema_name || '.' || table_name from duckdb_tables()").fetchall()
            return json.dumps([views, {name: con.sql(f"from {name}").fetchall() for (name,) in tables}], default=str)
    return ""


def released(directory: Path, frames: list[bytes], key: bytes = KEY, link_type: int = 1, **options) -> list[bytes]:
    """Return the frames after their release."""
    source, target = directory / "in.pcap", directory / "out.pcap"
    source.write_bytes(pcap([(len(frame), frame) for frame in frames], link_type))
    anonymize(str(source), target, key, **options)
    return [frame for *_, frame in pcap_files.records(target.read_bytes())]
