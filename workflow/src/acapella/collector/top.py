"""Show the largest flows of a running collector, repeatedly.

    acapella p4 top reports
    acapella p4 top reports --by rtt -n 5 --json

Sends requests to the collector that writes to DIRECTORY, through a socket there, which only its owner can use. `rate`
is the rate since the previous update, by the times in the reports, or since the flow's start if that update did not
show the flow; --by throughput sorts by the rate since the start. Without a terminal or with --json, prints once unless
--every is given. Ctrl-C ends it. --json prints a document per update, with all columns of
schemas/tables/flow_reports.yaml.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from acapella.common.quantities import duration_ns, whole_number
from acapella_core.errors import UserError
from acapella_core.names import pluralize

from .request_socket import MAX_FLOWS, connect

INTERVAL = "2s"
CLEAR = "\x1b[H\x1b[2J"
PREFIXES = ("", "k", "M", "G", "T", "P", "E")
COLUMNS = ("bytes", "packets", "rate", "RTT", "reports", "flow")


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella p4 top`."""
    parser = subparsers.add_parser(
        "top",
        help="show the largest flows of a running collector",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", metavar="DIRECTORY", help="output directory of acapella p4 collect -o")
    parser.add_argument(
        "--by",
        choices=["bytes", "packets", "throughput", "rtt", "reports", "last"],
        default="bytes",
        help="sort by (default: bytes)",
    )
    parser.add_argument("-n", dest="count", metavar="N", default="20", help="number of flows (default: 20)")
    parser.add_argument(
        "--every", metavar="DURATION", help=f"update interval (default on a terminal without --json: {INTERVAL})"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON document per update")
    return parser


def run(args: argparse.Namespace) -> None:
    """Print flows once, or until Ctrl-C. Raises UserError if no collector is running."""
    count = whole_number(args.count, 1, MAX_FLOWS, "-n")
    terminal = sys.stdout.isatty() and not args.json
    every = args.every or (INTERVAL if terminal else None)
    pause_s = duration_ns(every) / 1e9 if every else None
    collector = connect(Path(args.directory))
    if collector is None:
        raise UserError("no collector is running", where=args.directory, fix="query its results: acapella p4 sql")
    with collector:
        while True:
            response = collector("top", by=args.by, count=count)
            text = json.dumps(response) if args.json else "\n".join(as_text(response))
            print(f"{CLEAR if terminal else ''}{text}", flush=True)
            if pause_s is None:
                return
            time.sleep(max(0.0, pause_s))


def as_text(response: dict) -> list[str]:
    """Return a table: a header with totals and sessions, then a line per flow."""
    counters = response["state"]["reports"]
    accepted = counters["accepted"] + counters["from_memory"]
    lines = [f"{pluralize(accepted, 'report')} of {pluralize(counters['flows'], 'flow')}"]
    lines += [session_line(session) for session in response["state"]["sessions"] if not session["retired"]]
    lines.append(f"{COLUMNS[0]:>8} {COLUMNS[1]:>8} {COLUMNS[2]:>9} {COLUMNS[3]:>8} {COLUMNS[4]:>8}  {COLUMNS[5]}")
    for flow in response["flows"]:
        rtt = flow["handshake_rtt_ns"] if flow["handshake_rtt_ns"] is not None else flow["rtt_syn_ns"]
        cells = (short(flow["bytes"]), short(flow["packets"]), short(flow["rate_bps"], "b/s"), milliseconds(rtt))
        lines.append(
            f"{cells[0]:>8} {cells[1]:>8} {cells[2]:>9} {cells[3]:>8} {short(flow['reports']):>8}  {name(flow)}"
        )
    return lines


def session_line(session: dict) -> str:
    """Return a line about a data plane's session."""
    state = "ended" if session["ended"] else "connected" if session["connected"] else "control plane disconnected"
    return f"session {session['session']} of {session['program']} ({session['instance']}): {state}"


def short(value: int, unit: str = "") -> str:
    """Return a number with at most three significant digits, such as 1.23M for 1234567."""
    size, scale = float(value), 0
    while size >= 999.5 and scale < len(PREFIXES) - 1:
        size, scale = size / 1000, scale + 1
    return (f"{value}" if scale == 0 else f"{size:.3g}{PREFIXES[scale]}") + unit


def milliseconds(value_ns: int | None) -> str:
    """Return a time in ms, or an empty string."""
    return "" if value_ns is None else f"{value_ns / 1e6:.3g}ms"


def name(flow: dict) -> str:
    """Return a flow's tags, endpoints and protocol."""
    tags = [f"vlan {id_}" for id_ in flow["vlan"]] + [f"mpls {label}" for label in flow["mpls"]]
    ends = [endpoint(flow["src"], flow["src_port"]), endpoint(flow["dst"], flow["dst_port"])]
    protocol = {1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6", 132: "SCTP"}.get(
        flow["ip_proto"], f"proto {flow['ip_proto']}"
    )
    return " ".join([*tags, ends[0], "→", ends[1], protocol])


def endpoint(address: str, port: int | None) -> str:
    """Return one endpoint of a flow."""
    if port is None:
        return address
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
