"""What other flow meters see of a sample's captures, beside the collector and the digest (table III of the paper)."""

from pathlib import Path

from acapella import __version__
from acapella.common import queries

from . import comparators

SEVERAL = "it reads one file, and the sample has several"
COUNTS = {  # column of flowreport_tools: key of a comparison
    "flows": "flows",
    "common_flows": "common_flows",
    "equal_packets": "flows_with_equal_packets",
    "equal_bytes": "flows_with_equal_bytes",
    "packets": "packets",
    "bytes": "ip_bytes",
}


def rows(sample: str, captures: tuple[Path, ...], digested: Path, reported: Path, limits=None) -> list[dict]:
    """The rows of flowreport_tools: the digest's flows, the collector's, and those of each tool that is installed."""
    told = [collector(digested, reported)]
    try:
        told += (
            comparators.compare(str(captures[0]), str(digested), limits=limits)["tools"]
            if len(captures) == 1
            else skipped(SEVERAL)
        )
    except comparators.meters.CopyTooLargeError:
        told += skipped(comparators.meters.TOO_LARGE)
    packets = told[0]["exact_packets"]
    exact = {name: told[0]["exact_flows"] for name in ("flows", "common_flows", "equal_packets", "equal_bytes")}
    exact |= {"packets": packets, "bytes": told[0]["exact_bytes"], "missed_share": 0.0 if packets else None}
    every = [{"tool": "digest", "version": __version__, "skipped": None, **exact}]
    every += [seen(tool, packets) for tool in told]
    return [{"sample": sample, "place": place, **row} for place, row in enumerate(every, 1)]


def skipped(why: str) -> list[dict]:
    """Return a row without counts for each tool."""
    return [{"tool": name, "version": None, "skipped": why} for name in comparators.meters.METERS]


def collector(digested: Path, reported: Path) -> dict:
    """The collector as `acapella comparators` has a tool."""
    con = queries.connect()
    comparators.make_table(con, "exact", "exact", {"flows": str(digested)})
    comparators.make_table(con, "seen", "collector", {"log": str(reported)})
    answer = con.sql(queries.text("comparators", "comparison")).to_arrow_table().to_pylist()[0]
    return {"tool": "collector", "version": __version__, "skipped": None, **answer}


def seen(tool: dict, packets: int) -> dict:
    """A tool's row."""
    told = {name: tool[name] for name in ("tool", "version", "skipped")}
    if tool["skipped"]:
        return told
    missed = 1 - tool["packets"] / packets if packets else None
    return {**told, **{name: tool[key] for name, key in COUNTS.items()}, "missed_share": missed}
