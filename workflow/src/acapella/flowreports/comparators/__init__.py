"""What other flow meters see of a capture, beside the exact flows of its digest.

    acapella digest trace.pcap -o trace.parquet --flows trace.flows.parquet
    acapella comparators trace.pcap --flows trace.flows.parquet

Runs softflowd, nfdump (its nfpcapd) and Zeek, where they are installed, over the same file, and pairs their flows with
ours by addresses, protocol and, for TCP and UDP, ports; a flow is one direction. A tool splits a flow where it was
idle or asked anew, so its records of one flow are added up. What it does not see (softflowd: anything behind the
outermost IP header; both: pseudowires) shows as a difference. --json has each tool's version and own counters, and a
reason for each that was left out.
"""

import argparse
import contextlib
import json
from pathlib import Path

from acapella.common import queries
from acapella_core import files
from acapella_core.errors import UserError

from . import meters

SHOWN = (  # column of the text, key of a comparison
    ("flows", "flows"),
    ("packets", "packets"),
    ("bytes", "ip_bytes"),
    ("records", "records"),
    ("common flows", "common_flows"),
    ("packets equal", "flows_with_equal_packets"),
    ("bytes equal", "flows_with_equal_bytes"),
)


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella comparators`."""
    parser = subparsers.add_parser(
        "comparators",
        help="what other flow meters see of a capture",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("capture", metavar="CAPTURE", help="pcap or pcapng, also compressed")
    parser.add_argument("--flows", metavar="FLOWS.parquet", required=True, help="its flows, of acapella digest")
    parser.add_argument(
        "--tool", choices=sorted(meters.METERS), nargs="+", action="extend", help="default: those that are installed"
    )
    parser.add_argument("--json", action="store_true", help="JSON on standard output")
    parser.add_argument("-o", dest="output", metavar="FILE.json", help="write the JSON there")
    return parser


def confine(args: argparse.Namespace) -> None:
    """Take rights from this process, which reads captures, and from the programs that it runs on them."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - the start of `--help` stays quick

    confine_self(args.output, starts=True)


def run(args: argparse.Namespace) -> None:
    """Print what each tool saw. Raises UserError."""
    result = compare(args.capture, args.flows, args.tool)
    text = json.dumps(result, indent=1) + "\n"
    if args.output:
        files.atomic_text(args.output, text)
    if not args.json:
        print("\n".join(as_text(result)))
    elif not args.output:
        print(text, end="")


def compare(capture: str, flows: str, tools: list[str] | None = None, limits=None) -> dict:
    """What the named tools (default: all) saw of ``capture`` beside the digest's ``flows``.

    ``{"exact": {flows, packets, ip_bytes}, "tools": [{tool, version, skipped, own, flows, packets, ...}]}``, counts of
    flows, IP packets and bytes by the IP headers' lengths. A tool that is not installed says so in ``skipped``, and
    has no counts. ``limits``: on decompression. Raises UserError for a named one, and where a file or a tool's answer
    cannot be read.
    """
    for path in (capture, flows):
        if not Path(path).is_file():
            raise UserError("there is no such file", where=path)
    from acapella.digest.acap_files import check_format  # noqa: PLC0415 (pyarrow)

    check_format(flows)
    wanted = list(dict.fromkeys(tools or meters.METERS))
    for name in wanted if tools else ():
        if why := meters.METERS[name].missing():
            raise UserError(why, where=f"--tool {name}")
    with files.scratch_directory() as directory, queries.one_line(), contextlib.closing(queries.connect()) as con:
        make_table(con, "exact", "exact", {"flows": str(Path(flows).resolve())})
        told = [beside(con, name, Path(capture).resolve(), directory, limits) for name in wanted]
        exact = con.execute("select count(*), sum(packets)::ubigint, sum(ip_bytes)::ubigint from exact").fetchone()
    return {"exact": dict(zip(("flows", "packets", "ip_bytes"), exact, strict=True)), "tools": told}


def make_table(con, name: str, select: str, parameters: dict) -> None:
    """Make a table of flows, told apart as all of them do, of what a SELECT of workflow/sql/comparators says."""
    con.execute(f"create or replace table told as {queries.text('comparators', select)}", parameters)
    con.execute(f"create or replace table {name} as {queries.text('comparators', 'flows')}")


def beside(con, name: str, capture: Path, directory: Path, limits=None) -> dict:
    """What one tool saw, beside the table ``exact`` of the connection."""
    meter = meters.METERS[name]
    if why := meter.missing():
        return {"tool": name, "version": None, "skipped": why}
    log, own = read(meter, capture, directory, limits)
    make_table(con, "seen", name, {"log": str(log)})
    answer = con.execute(queries.text("comparators", "comparison"))
    row = dict(zip((column[0] for column in answer.description), answer.fetchone(), strict=True))
    return {"tool": name, "version": meter.version(), "skipped": None, "own": own, **row}


def read(meter: meters.Meter, capture: Path, directory: Path, limits=None) -> tuple[Path, dict]:
    """What a meter says of a capture, or of its whole frames: softflowd fails where a capture ends within a record."""
    own = directory / meter.program
    own.mkdir()
    if not meters.is_plain(capture):
        return meters.read_whole(meter, capture, own, limits)
    try:
        return meter.read(capture, own)
    except UserError as fault:
        again = directory / f"{meter.program}-whole"
        again.mkdir()
        try:
            return meters.read_whole(meter, capture, again, limits)
        except UserError:
            raise fault from None


def as_text(result: dict) -> list[str]:
    """A table for people: ours first, then each tool's; a line for each that was left out."""
    lines = [" ".join(f"{title:>14}" for title in ("", *(title for title, _ in SHOWN)))]
    exact = result["exact"]
    ours = ["exact", *(exact.get(key, "") for _, key in SHOWN)]
    seen = [[tool["tool"], *(tool[key] for _, key in SHOWN)] for tool in result["tools"] if not tool["skipped"]]
    lines += [
        " ".join(f"{cell:>14,}" if isinstance(cell, int) else f"{cell:>14}" for cell in row) for row in (ours, *seen)
    ]
    return lines + [f"{tool['tool']}: left out: {tool['skipped']}" for tool in result["tools"] if tool["skipped"]]
