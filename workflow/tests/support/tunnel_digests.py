"""Digests of frames in tunnels."""

import pyarrow.parquet as pq
from acapella_testing.oracles import plain_flows

from acapella.digest.command import Options, digest


def digested(tmp_path, frames, engine="native"):
    """Digest frames of (captured bytes, wire length); return the rows of both tables."""
    capture = tmp_path / "t.pcap"
    with capture.open("wb") as out:
        out.write(plain_flows.PCAP_HEADER)
        for captured, wire_len in frames:
            head = (1, 0, len(captured), wire_len)
            out.write(b"".join(value.to_bytes(4, "little") for value in head) + captured)
    acap, flows = tmp_path / f"{engine}.parquet", tmp_path / f"{engine}.flows.parquet"
    digest([str(capture)], str(acap), str(flows), Options(engine, site="S"))
    return pq.read_table(acap).to_pylist(), pq.read_table(flows).to_pylist()


def whole(frames):
    """Return (captured bytes, wire length) of frames that were captured whole."""
    return [(data, len(data)) for data in frames]
