"""The exact tables of a trace, and their rows."""

from acapella_testing.frames import traces
from acapella_testing.oracles.naive_frames import read_frames

from acapella.common import queries
from acapella.digest.command import Options, digest
from acapella.flowreports import exact

WINDOW_NS = 50_000_000
KEY = ("vlan", "mpls", "src", "dst", "ip_proto", "src_port", "dst_port")


def made(tmp_path, trace):
    """A connection with the exact tables of a trace, and its frames as the naive reader has them."""
    capture = traces.write_pcap(tmp_path / "t.pcap", trace, snaplen=262144)
    acap, flows = tmp_path / "t.parquet", tmp_path / "t.flows.parquet"
    digest([str(capture)], str(acap), str(flows), Options("native", site="S", port="p"))
    con = queries.connect()
    exact.make(con, acap, flows, window_ns=WINDOW_NS)
    return con, read_frames(capture)


def rows(con, query):
    """Rows as dictionaries."""
    return con.sql(query).to_arrow_table().to_pylist()


def keyed(row):
    """A row's key as the naive one has it."""
    return tuple(tuple(row[name]) if name in ("vlan", "mpls") else row[name] for name in KEY)
