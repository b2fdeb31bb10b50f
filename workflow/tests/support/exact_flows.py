"""The exact tables of a trace, and their rows."""

from acapella_testing.frames import traces
from acapella_testing.oracles.naive_frames import read_frames

from acapella.common import queries
from acapella.digest.command import Options, digest
from acapella.flowreports import exact

WINDOW_NS = 50_000_000
KEY = ("vlan", "mpls", "src", "dst", "ip_proto", "src_port", "dst_port")


def exact_results(tmp_path, trace):
    """Return a connection with the exact tables of a trace, and the trace's frames as read by the naive reference."""
    capture = traces.write_pcap(tmp_path / "t.pcap", trace, snaplen=262144)
    acap, flows = tmp_path / "t.parquet", tmp_path / "t.flows.parquet"
    digest([str(capture)], str(acap), str(flows), Options("native", site="S", port="p"))
    con = queries.connect()
    exact.make(con, acap, flows, window_ns=WINDOW_NS)
    return con, read_frames(capture)


def rows(con, query):
    """Return the rows of a query as dictionaries."""
    return con.sql(query).to_arrow_table().to_pylist()


def key_of(row):
    """Return a row's key in the form of the naive reference."""
    return tuple(tuple(row[name]) if name in ("vlan", "mpls") else row[name] for name in KEY)
