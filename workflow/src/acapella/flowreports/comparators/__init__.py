"""Compare the flows that other flow meters find in a capture with the exact flows of its digest.

    acapella digest trace.pcap -o trace.parquet --flows trace.flows.parquet
    acapella p4 compare trace.pcap --flows trace.flows.parquet

Runs softflowd, nfdump (its nfpcapd) and Zeek on the capture if they are installed. Matches their flows with those of
the digest by addresses, protocol and, for TCP and UDP, ports; a flow is one direction. If a tool exports several
records for a flow, because the flow was idle or is exported periodically, their counts are added. Packets that a tool
does not parse (softflowd: anything inside the outermost IP header; softflowd and nfdump: pseudowires) appear as
differences. --json includes each tool's version and counters, and a reason for each tool that was skipped.
"""

import argparse
import contextlib
import json
import sys
from pathlib import Path

from acapella.common import queries
from acapella.common.faults import DAMAGING, describe_fault
from acapella_core import _native, files, names
from acapella_core.arguments import output_file
from acapella_core.errors import DAMAGED, UserError

from . import meters

COLUMNS = (  # title, key of a comparison
    ("flows", "flows"),
    ("packets", "packets"),
    ("bytes", "ip_bytes"),
    ("records", "records"),
    ("common flows", "common_flows"),
    ("packets equal", "flows_with_equal_packets"),
    ("bytes equal", "flows_with_equal_bytes"),
)


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4 compare`."""
    parser = subparsers.add_parser(
        "compare",
        help="compare other flow meters with the exact flows of a capture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("capture", metavar="CAPTURE", help="capture: pcap or pcapng, optionally compressed")
    parser.add_argument("--flows", metavar="FLOWS.parquet", required=True, help="its flow table, from acapella digest")
    parser.add_argument(
        "--tool",
        choices=sorted(meters.METERS),
        nargs="+",
        action="extend",
        help="tools to run (default: all that are installed)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON; with -o, write it only to the file")
    parser.add_argument(
        "-o", dest="output", metavar="FILE.json", type=output_file("JSON"), help="write JSON to this file"
    )
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process and the programs that it runs, because they read captures."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(args.output, starts=True)


def run(args: argparse.Namespace) -> int:
    """Print the comparison; return DAMAGED if the capture is damaged, else 0. Raises UserError."""
    result = compare(args.capture, args.flows, args.tool)
    text = json.dumps(result, indent=1) + "\n"
    if args.output:
        files.atomic_text(args.output, text)
    if not args.json:
        print("\n".join(as_text(result)))
    elif not args.output:
        print(text, end="")
    if result["damaged"]:
        fault = f"acapella: error: {args.capture}: {result['damaged']}"
        print(
            f"{fault}; the tools counted the complete frames before the damage; repair the capture (editcap)",
            file=sys.stderr,
        )
    return DAMAGED if result["damaged"] else 0


def compare(capture: str, flows: str, tools: list[str] | None = None, limits=None) -> dict:
    """Return the comparison of the named tools (default: all) with the digest's ``flows`` of ``capture``.

    ``{"exact": {flows, packets, ip_bytes}, "tools": [{tool, version, skipped, own, flows, packets, ...}], "damaged"}``:
    counts of flows, IP packets, and bytes by the lengths in IP headers. For a tool that is not installed, or that needs
    editcap, which is missing, ``skipped`` contains the reason, and there are no counts. ``damaged``: where and how the
    capture is damaged, else None. ``limits``: decompression limits. Raises UserError if a named tool is not installed,
    or if a file or the output of a tool cannot be read.
    """
    for path in (capture, flows):
        if not Path(path).is_file():
            raise UserError("no such file", where=path)
    from acapella.digest.acap_files import check_format  # noqa: PLC0415 (pyarrow)

    check_format(flows)
    selected = list(dict.fromkeys(tools or meters.METERS))
    for name in selected if tools else ():
        if reason := meters.METERS[name].why_unavailable():
            raise UserError(reason, where=f"--tool {name}")
    with files.scratch_directory() as directory, queries.one_line(), contextlib.closing(queries.connect()) as con:
        make_table(con, "exact", "exact", {"flows": str(Path(flows).resolve())})
        path = Path(capture).resolve()
        rows = [compare_tool(con, name, path, directory, limits, required=bool(tools)) for name in selected]
        exact = con.execute(
            "select count(*), coalesce(sum(packets), 0)::ubigint, coalesce(sum(ip_bytes), 0)::ubigint from exact"
        ).fetchone()
    totals = dict(zip(("flows", "packets", "ip_bytes"), exact, strict=True))
    return {"exact": totals, "tools": rows, "damaged": damage_of(capture, limits)}


def damage_of(capture: str, limits=None) -> str | None:
    """Return a description of the damage in a capture; None if it is intact, or if it is not a capture."""
    try:
        facts = _native.scan_capture(str(capture), limits or _native.DecompressionLimits())
    except _native.InputError:
        return None
    return describe_fault(facts) if facts["file_issue"] in DAMAGING else None


def make_table(con, name: str, select: str, parameters: dict) -> None:
    """Create a table of flows with the key that all tools share, from a SELECT of workflow/sql/comparators."""
    con.execute(f"create or replace table tool_records as {queries.text('comparators', select)}", parameters)
    con.execute(f"create or replace table {name} as {queries.text('comparators', 'flows')}")


def compare_tool(con, name: str, capture: Path, directory: Path, limits=None, *, required: bool = False) -> dict:  # noqa: PLR0913
    """Return the comparison of one tool with the table ``exact`` of the connection.

    A tool that needs editcap, which is missing, is skipped unless it is ``required``.
    """
    meter = meters.METERS[name]
    if reason := meter.why_unavailable():
        return {"tool": name, "version": None, "skipped": reason}
    try:
        log, counters = run_meter(meter, capture, directory, limits)
    except meters.NoEditcapError as error:
        if required:
            raise
        names.report(f"acapella: warning: {error}; {name} is skipped")
        return {"tool": name, "version": None, "skipped": meters.NO_EDITCAP}
    make_table(con, "measured", name, {"log": str(log)})
    cursor = con.execute(queries.text("comparators", "comparison"))
    row = dict(zip((column[0] for column in cursor.description), cursor.fetchone(), strict=True))
    return {"tool": name, "version": meter.version(), "skipped": None, "own": counters, **row}


def run_meter(meter: meters.Meter, capture: Path, directory: Path, limits=None) -> tuple[Path, dict]:
    """Run a meter on a capture, or on its complete frames: softflowd fails if a capture ends within a record."""
    output = directory / meter.program
    output.mkdir()
    if not meters.is_uncompressed(capture):
        return meters.read_complete_frames(meter, capture, output, limits)
    try:
        return meter.read(capture, output)
    except UserError as fault:
        if fault.outside:
            raise
        retry_directory = directory / f"{meter.program}-whole"
        retry_directory.mkdir()
        try:
            return meters.read_complete_frames(meter, capture, retry_directory, limits)
        except UserError as error:
            raise (error if error.outside else fault) from None


def as_text(result: dict) -> list[str]:
    """Return a table: the digest first, then each tool; a line for each skipped tool."""
    lines = [" ".join(f"{title:>14}" for title in ("", *(title for title, _ in COLUMNS)))]
    exact = result["exact"]
    exact_cells = ["exact", *(exact.get(key, "") for _, key in COLUMNS)]
    tool_rows = [[tool["tool"], *(tool[key] for _, key in COLUMNS)] for tool in result["tools"] if not tool["skipped"]]
    lines += [
        " ".join(f"{cell:>14,}" if isinstance(cell, int) else f"{cell:>14}" for cell in row)
        for row in (exact_cells, *tool_rows)
    ]
    return lines + [f"{tool['tool']}: skipped: {tool['skipped']}" for tool in result["tools"] if tool["skipped"]]
