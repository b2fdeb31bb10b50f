"""Writes the two digests of a file, Acapella's and tshark's, as Parquet files in a temporary directory.

Each digest has an additional file with the VLAN ids, MPLS labels and tunnels of every frame.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from acapella.common import tshark, vendors
from acapella.common.faults import DAMAGING, describe_fault
from acapella.digest import command as digest
from acapella.digest.acap_files import BATCH_ROWS, FLOW_BATCH_ROWS, flow_writer, frame_writer
from acapella_core import _native
from acapella_core.errors import UserError

TAGS = pa.schema(
    [
        pa.field("frame", pa.uint64(), nullable=False),
        pa.field("vlan", pa.list_(pa.uint16()), nullable=False),
        pa.field("mpls", pa.list_(pa.uint32()), nullable=False),
        pa.field(
            "tunnels",
            pa.list_(pa.struct([("type", pa.utf8()), ("id", pa.uint32()), ("position", pa.uint16())])),
            nullable=False,
        ),
        pa.field("eth_dst", pa.utf8(), nullable=False),
    ]
)


@dataclass(frozen=True)
class DigestFiles:
    """The frame and flow tables of a digest, and a table with the VLAN ids, MPLS labels and tunnels of each frame."""

    frames: Path
    flows: Path
    tags: Path
    blocks_not_frames: int = 0  # tshark numbers these blocks, Acapella does not
    fcs_len: int = 0  # bytes of FCS, which tshark includes in lengths and Acapella does not
    fault: str | None = None  # description of the damage if the capture is damaged
    truncation: str | None = None  # where and why the capture is truncated, if it is


def write_our_digest(file: Path, engine: str, directory: Path, limits=None) -> DigestFiles:
    """Write Acapella's digest of ``file`` to ``directory`` and return its files.

    Raises UserError if ``file`` is not a capture.
    """
    tables = DigestFiles(directory / "ours.parquet", directory / "ours.flows.parquet", directory / "ours.tags.parquet")
    metadata = digest.digest([str(file)], str(tables.frames), str(tables.flows), digest.Options(engine, limits=limits))
    installed_vendors = vendors.find()
    limits = limits or _native.DecompressionLimits()
    tags = _native.NativeTags(str(file), BATCH_ROWS, installed_vendors.core if installed_vendors else None, limits)
    with pq.ParquetWriter(tables.tags, TAGS) as writer:
        while (batch := tags.next_frames()) is not None:
            writer.write_batch(pa.record_batch(batch))
    issue, is_damaged = metadata["file_issue"], metadata["file_issue"] in DAMAGING
    description = describe_fault(metadata) if issue else None
    found = {"fault": description if is_damaged else None, "truncation": None if is_damaged else description}
    return replace(tables, fcs_len=metadata["fcs_len"], **found)


def count_frames(tables: DigestFiles) -> int:
    """Return the number of frames in a digest."""
    return pq.read_metadata(tables.frames).num_rows


def write_tshark_digest(file: Path, directory: Path, limits=None) -> DigestFiles:
    """Write the digest of tshark's dissection of ``file`` to ``directory`` and return its files.

    ``limits``: limits on decompression. Raises UserError if tshark fails.
    """
    tables = DigestFiles(
        directory / "tshark.parquet", directory / "tshark.flows.parquet", directory / "tshark.tags.parquet"
    )
    with (
        tshark.find().start(file, _native.REFERENCE_FIELDS, limits=limits) as run,
        frame_writer(tables.frames) as frames,
        flow_writer(tables.flows) as flows,
        pq.ParquetWriter(tables.tags, TAGS) as tags,
    ):
        reference = _native.ReferenceDigest(os.dup(run.stdout.fileno()), BATCH_ROWS, tshark.ANSWER_S)
        try:
            while (batch := reference.next_frames()) is not None:
                frames.write(pa.record_batch(batch))
                tags.write_batch(pa.record_batch(reference.tags()))
        except (_native.TsharkOutputError, _native.TsharkTimeout) as error:
            raise UserError(str(error), where=file) from error
        run.finish(cut_allowed=True)
        for first in range(0, reference.flows, FLOW_BATCH_ROWS):
            flows.write(pa.record_batch(reference.flow_rows(first, FLOW_BATCH_ROWS)))
        frames.close({})
        flows.close({})
    return replace(tables, blocks_not_frames=reference.blocks_not_frames)
