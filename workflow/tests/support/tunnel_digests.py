"""Digests of frames in tunnels."""

import pyarrow.parquet as pq
from acapella_testing.frames import pcap_files

from acapella.digest.command import Options, digest


def digested(tmp_path, frames, engine="native"):
    """Digest frames of (captured bytes, wire length); return the rows of both tables."""
    capture = tmp_path / "t.pcap"
    records = [pcap_files.record(10**9, captured, wire_len) for captured, wire_len in frames]
    capture.write_bytes(pcap_files.header() + b"".join(records))
    acap, flows = tmp_path / f"{engine}.parquet", tmp_path / f"{engine}.flows.parquet"
    digest([str(capture)], str(acap), str(flows), Options(engine, site="S"))
    return pq.read_table(acap).to_pylist(), pq.read_table(flows).to_pylist()


def whole(frames):
    """Return (captured bytes, wire length) of frames that were captured whole."""
    return [(data, len(data)) for data in frames]
