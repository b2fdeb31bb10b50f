"""Creates rows of flowreport_tools: the flows that the collector and other flow meters find, compared with the digest.

Corresponds to table III of the P4/RDMA paper.
"""

from pathlib import Path

from acapella import __version__
from acapella.common import queries

from . import comparators

SEVERAL_FILES = "it reads one file, but the sample has several"
COUNTS = {  # column of flowreport_tools: key of a comparison
    "flows": "flows",
    "common_flows": "common_flows",
    "equal_packets": "flows_with_equal_packets",
    "equal_bytes": "flows_with_equal_bytes",
    "packets": "packets",
    "bytes": "ip_bytes",
}


def rows(sample: str, captures: tuple[Path, ...], digested: Path, reported: Path, limits=None) -> list[dict]:
    """Return the rows of flowreport_tools: the digest, the collector, and each tool (without counts if skipped)."""
    tools = [collector_comparison(digested, reported)]
    try:
        tools += (
            comparators.compare(str(captures[0]), str(digested), limits=limits)["tools"]
            if len(captures) == 1
            else skipped_rows(SEVERAL_FILES)
        )
    except comparators.meters.CopyTooLargeError:
        tools += skipped_rows(comparators.meters.TOO_LARGE)
    packets = tools[0]["exact_packets"]
    exact = {name: tools[0]["exact_flows"] for name in ("flows", "common_flows", "equal_packets", "equal_bytes")}
    exact |= {"packets": packets, "bytes": tools[0]["exact_bytes"], "missed_share": 0.0 if packets else None}
    all_rows = [{"tool": "digest", "version": __version__, "skipped": None, **exact}]
    all_rows += [tool_row(tool, packets) for tool in tools]
    return [{"sample": sample, "place": number, **row} for number, row in enumerate(all_rows, 1)]


def skipped_rows(reason: str) -> list[dict]:
    """Return a row without counts for each tool."""
    return [{"tool": name, "version": None, "skipped": reason} for name in comparators.meters.METERS]


def collector_comparison(digested: Path, reported: Path) -> dict:
    """Return the collector's comparison in the format of `acapella p4 compare`."""
    con = queries.connect()
    comparators.make_table(con, "exact", "exact", {"flows": str(digested)})
    comparators.make_table(con, "measured", "collector", {"log": str(reported)})
    row = con.sql(queries.text("comparators", "comparison")).to_arrow_table().to_pylist()[0]
    return {"tool": "collector", "version": __version__, "skipped": None, **row}


def tool_row(tool: dict, packets: int) -> dict:
    """Return the row of a tool."""
    row = {name: tool[name] for name in ("tool", "version", "skipped")}
    if tool["skipped"]:
        return row
    missed = 1 - tool["packets"] / packets if packets else None
    return {**row, **{name: tool[key] for name, key in COUNTS.items()}, "missed_share": missed}
