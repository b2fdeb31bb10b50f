"""Count the packets of acapella generate: loss, latency, jitter, reordering, duplicates and bit errors of each flow.

    acapella monitor arrived.pcap --expected sent.generated.json -o results/CAMPAIGN/tables
    acapella monitor --interface eth1 --expected sent.generated.json --duration 10

FILE is a capture (pcap or pcapng, optionally compressed with gzip) whose timestamps are the arrival times. With
--interface, packets are received until --duration has passed, no packet has arrived for --stop-when-idle, or SIGINT,
SIGTERM or SIGHUP arrives. In a terminal, a table shows the counts every second. --interface needs root, or CAP_NET_RAW.

Each packet of acapella generate contains a stamp: its flow, its sequence number and its departure. Packets without a
stamp and malformed packets are also counted. With --expected, packets lost at the end of a flow are counted, and
payloads are compared with their patterns.

With --search, acapella generate sends a flow from --send, and the packets are counted at --interface, to find the
highest rate without loss for each packet size, the latency at that rate, and the longest burst without loss (RFC 2544,
sections 26.1, 26.2 and 26.4):

    acapella monitor --search --send eth0 --interface eth1 --max-rate 1000000
    acapella monitor --search --virtual 2 --max-rate 200000 --with-capture

With -o, the tables monitor_* are written to DIRECTORY as Parquet and CSV. If DIRECTORY is the directory tables of a
campaign, report.html has a section about them.

RULE is PROTOCOL,SRC,SRC_PORT,DST,DST_PORT, such as udp,10.0.0.0/8,*,*,5000-5999. A protocol is tcp, udp, sctp, icmp,
icmpv6 or a number, an address may have a prefix length, a port may be a range, and * matches anything. The rule is
compared with the innermost headers, after VLAN tags, MPLS labels and IP-in-IP. docs/monitor.md defines all counts.
"""

import argparse
import contextlib
import math
import shutil
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from acapella_core import names
from acapella_core.errors import UserError
from acapella_core.files import scratch_directory, temporary_directory

from ..replay.command import count
from . import expected, finished, live, losses, program, search, tables, text, trials, virtual

PATTERNS = ("zeros", "ones", "aa55", "counter", "prbs31")
MAX_WINDOW = 1 << 20
LIVE_S = 1.0
LIVE_FLOWS = 16
MAX_PAIRS = 4
DEFAULTS = {  # of options whose argparse default is None, so that a given option without effect is detected
    "max_flows": 65_536,
    "window": 1024,
    "snaplen": 64,
    "flows": text.SHOWN_FLOWS,
    "frame_bytes": search.FRAME_BYTES,
    "trial_seconds": 10.0,
    "settle_seconds": 2.0,
    "burst_packets": 10_000,
}
ONLY_SEARCH = ("send", "virtual", "max_rate", "resolution", "with_capture", "frame_bytes", "trial_seconds",
               "settle_seconds", "burst_packets")  # fmt: skip
NOT_SEARCH = ("expected", "max_flows", "window", "pattern", "rule", "correct_drift", "sent", "packets", "write",
              "flows", "duration", "stop_when_idle")  # fmt: skip
RECORD_BYTES = 64  # overhead of a packet in a pcapng file: block, hash and padding
GB = 1e9

Rows = dict[str, list[dict[str, Any]]]


def register_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the parser of `acapella monitor`."""
    parser = subparsers.add_parser(
        "monitor", help="count generated traffic: loss, latency, jitter, reordering", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="captures to read; each counts as a port")
    parser.add_argument("--interface", "-i", action="append", default=[], metavar="PORT",
                        help="receive from PORT: a network interface, or a DPDK device (PCI address, or "
                        "DRIVER,ARGUMENTS as for EAL's --vdev); repeat it for several")  # fmt: skip
    parser.add_argument(
        "--duration", type=seconds, metavar="S", help="with --interface: stop after S seconds (default: never)"
    )
    parser.add_argument("--stop-when-idle", type=seconds, metavar="S",
                        help="with --interface: stop after S seconds without a packet (default: never)")  # fmt: skip
    add_packet_options(parser.add_argument_group("packets"))
    add_output_options(parser.add_argument_group("output"))
    add_search_options(parser.add_argument_group("search"))
    return parser


def add_packet_options(group: Any) -> None:
    """Add the options that concern packets."""
    group.add_argument(
        "--expected", type=Path, metavar="JSON", help="list of the generated flows (OUT.pcap.generated.json)"
    )
    group.add_argument("--max-flows", type=count(1 << 24), metavar="N",
                       help="without --expected: count flows with indexes below N "
                       f"(default: {DEFAULTS['max_flows']})")  # fmt: skip
    group.add_argument("--window", type=window, metavar="N",
                       help="recognize duplicates and reordered packets up to N packets back, a power of 2 "
                       f"(default: {DEFAULTS['window']})")  # fmt: skip
    group.add_argument("--pattern", choices=PATTERNS, help="without --expected: payload pattern after the stamp "
                       "(default: not checked)")  # fmt: skip
    group.add_argument("--rule", action="append", default=[], metavar="RULE",
                       help="count only packets of this 5-tuple; repeat it for several (default: all)")  # fmt: skip
    group.add_argument("--correct-drift", action="store_true",
                       help="with FILE: correct latencies for the drift between the clocks of sender and receiver, "
                       "estimated with a least-squares line over the run")  # fmt: skip
    group.add_argument("--sent", type=Path, metavar="FILE",
                       help="list the packets of FILE that did not arrive, matched by a hash of their bytes (table "
                       "monitor_losses); FILE is a capture from a different capture point, or was written "
                       "there by --packets")  # fmt: skip


def add_output_options(group: Any) -> None:
    """Add the options of the output."""
    group.add_argument("-o", "--output", type=Path, metavar="DIRECTORY", help="write the tables to DIRECTORY")
    group.add_argument("--packets", type=Path, metavar="FILE",
                       help="write a row per packet, with its 128-bit hash, to FILE (Parquet)")  # fmt: skip
    group.add_argument("--write", type=Path, metavar="FILE.pcapng",
                       help="write the packets, truncated, with the hash of each whole packet; several ports: "
                       "FILE-q0.pcapng, FILE-q1.pcapng, ...")  # fmt: skip
    group.add_argument("--snaplen", type=count(262_144, 0), metavar="BYTES",
                       help="with --write or --with-capture: truncate packets to this length "
                       f"(default: {DEFAULTS['snaplen']}); with --write, 0 keeps them whole")  # fmt: skip
    group.add_argument("--flows", type=count(1 << 24, 0), metavar="N",
                       help=f"print at most N flows (default: {DEFAULTS['flows']})")  # fmt: skip


def add_search_options(group: Any) -> None:
    """Add the options of a search."""
    group.add_argument("--search", action="store_true", help="find the highest rate and the longest burst without "
                       "loss")  # fmt: skip
    group.add_argument("--send", action="append", default=[], metavar="PORT",
                       help="port that sends the packets, in the format of --interface; repeat both options for "
                       "a second search with several ports at the same time")  # fmt: skip
    group.add_argument("--virtual", type=count(MAX_PAIRS), metavar="N",
                       help="instead of --send and --interface: search with 1 and with N pairs of virtual Ethernet "
                       "interfaces, in a network namespace of this machine")  # fmt: skip
    group.add_argument(
        "--max-rate", type=rate, metavar="N", help="highest rate to try, in packets/s; required with --search"
    )
    group.add_argument("--frame-bytes", type=count(9000, 60), nargs="+", metavar="BYTES",
                       help="packet sizes without FCS (default: those of RFC 2544 for Ethernet)")  # fmt: skip
    group.add_argument("--resolution", type=rate, metavar="N",
                       help="width of the interval, in packets/s, at which a search ends (default: a hundredth of "
                       "--max-rate, at least 1)")  # fmt: skip
    group.add_argument("--trial-seconds", type=seconds, metavar="S",
                       help="duration of a trial in seconds; RFC 2544: 60 "
                       f"(default: {DEFAULTS['trial_seconds']:g})")  # fmt: skip
    group.add_argument("--settle-seconds", type=seconds, metavar="S",
                       help=f"time to wait for late packets (default: {DEFAULTS['settle_seconds']:g})")  # fmt: skip
    group.add_argument("--with-capture", action="store_true",
                       help="repeat the search while packets are written: once whole, and once truncated to "
                       "--snaplen, with hashes")  # fmt: skip
    group.add_argument("--burst-packets", type=count(1 << 24, 0), metavar="N",
                       help=f"longest burst to try; 0: no bursts (default: {DEFAULTS['burst_packets']})")  # fmt: skip


def rate(value: str) -> float:
    """Parse a rate of at least one packet per second."""
    number = seconds(value)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{value!r} is less than 1 packet/s")
    return number


def window(value: str) -> int:
    """Parse a power of 2 from 64 to MAX_WINDOW."""
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 9 else 0
    if not 64 <= number <= MAX_WINDOW or number & (number - 1):
        raise argparse.ArgumentTypeError(f"{value!r} is not a power of 2 from 64 to {MAX_WINDOW}")
    return number


def seconds(value: str) -> float:
    """Parse a positive number of seconds."""
    try:
        number = float(value)
    except ValueError:
        number = 0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{value!r} is not a number above 0 and below 1e9")
    return number


def given(args: argparse.Namespace, names_: Iterable[str]) -> list[str]:
    """Return the options among ``names_`` that are on the command line, even with the value 0."""
    values = {f"--{name.replace('_', '-')}": getattr(args, name) for name in names_}
    return [name for name, value in values.items() if value is not None and value is not False and value != []]


def set_defaults(args: argparse.Namespace) -> None:
    """Set the options that are not on the command line."""
    for name, value in DEFAULTS.items():
        if getattr(args, name) is None:
            setattr(args, name, value)


def check(args: argparse.Namespace) -> None:
    """Raise UserError for options that are mutually exclusive or have no effect."""
    for name in given(args, ONLY_SEARCH):
        raise UserError(f"{name} needs --search")
    if bool(args.files) == bool(args.interface):
        raise UserError("expected captures or --interface", fix="specify one of them")
    if args.expected and args.pattern:
        raise UserError("--pattern: the file of --expected contains the patterns", fix="remove --pattern")
    if args.expected and args.max_flows is not None:
        raise UserError("--max-flows: the file of --expected contains the flows", fix="remove --max-flows")
    if args.snaplen is not None and not args.write:
        raise UserError("--snaplen needs --write")
    if args.files and (args.duration or args.stop_when_idle):
        raise UserError("--duration and --stop-when-idle need --interface", fix="remove them")
    if args.interface and args.correct_drift:
        raise UserError("--correct-drift needs a capture", fix="capture the packets, and monitor the capture")
    if args.packets and not args.packets.parent.is_dir():
        raise UserError("no such directory", where=f"--packets {args.packets}", fix="create it")
    if (args.sent or args.packets) and len(args.files) + len(args.interface) > 1:
        raise UserError("--sent and --packets need a single port", fix="monitor one port")


def make_directory(path: Path) -> None:
    """Create the directory of the tables, before anything is counted. Raises UserError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create the directory: {error.strerror}", where=f"--output {path}") from error


def check_search(args: argparse.Namespace) -> None:
    """Raise UserError if an option of a search is missing, or has no effect."""
    if bool(args.virtual) == bool(args.send) or not args.max_rate or args.files:
        raise UserError("--search needs --max-rate N, and either --virtual N, or --send PORT and --interface PORT")
    if len(args.send) != len(args.interface):
        raise UserError("--send and --interface are not pairs", fix="specify a receiving port for each sending port")
    if args.virtual and args.output and args.output.resolve().is_relative_to(virtual.HIDDEN):
        raise UserError(
            f"--virtual hides {virtual.HIDDEN}", where=f"--output {args.output}", fix="choose another directory"
        )
    if args.snaplen is not None and not args.with_capture:
        raise UserError("--snaplen needs --with-capture")
    if args.snaplen == 0:
        raise UserError("--with-capture compares whole with truncated packets", where="--snaplen 0", fix="set a length")
    if args.frame_bytes and len(set(args.frame_bytes)) < len(args.frame_bytes):
        raise UserError("a size occurs twice", where="--frame-bytes", fix="specify each size once")
    if args.resolution and args.resolution >= args.max_rate:
        raise UserError("--resolution is not less than --max-rate")
    for name in given(args, NOT_SEARCH):
        raise UserError(f"{name} has no effect with --search")


def settings_of(args: argparse.Namespace) -> program.Settings:
    """Return the settings of the program."""
    return program.Settings(
        files=tuple(args.files),
        interfaces=tuple(sorted(args.interface, key=program.sort_key)),  # the order of the results
        wanted=expected.read(args.expected) if args.expected else None,
        max_flows=args.max_flows,
        window=args.window,
        pattern=args.pattern,
        rules=tuple(args.rule),
        packets=bool(args.packets or args.sent),
        write=args.write,
        snaplen=args.snaplen,
        duration_s=args.duration,
        idle_s=args.stop_when_idle,
        every_s=LIVE_S if args.interface else None,
        live_flows=LIVE_FLOWS if args.interface else 0,
    )


def run(args: argparse.Namespace) -> int | None:
    """Count the packets, print the tables and write them."""
    (check_search if args.search else check)(args)
    set_defaults(args)
    if args.output:
        make_directory(args.output)
    if args.search:
        if args.virtual and not virtual.entered():
            return virtual.call()
        run_search(args)
        return None
    settings = settings_of(args)
    sent = packets_sent(args.sent, settings) if args.sent else None
    if sent is not None:
        losses.check_memory(2 * len(sent), f"--sent {args.sent}")  # if all packets arrive
    if args.output:
        tables.remove(args.output, *tables.TABLES, "monitor_losses")
    with scratch_directory() as scratch:
        shown = live.Live(settings.interfaces or [path.name for path in args.files])
        counted = program.count(
            settings, scratch, on_event=lambda event: shown.show(event, LIVE_S), until_signal=bool(args.interface)
        )
        rows = rows_of_counts(settings, counted, scratch, correct=args.correct_drift)
    if sent is not None and counted.packets:
        rows["monitor_losses"] = losses.events(sent, losses.lost(sent, counted.packets[0]))
    print_rows(rows, args.flows)
    for line in text.clock_warnings(rows["monitor_ports"], rows["monitor_flows"]):
        names.report(f"acapella: warning: {line}")
    if args.output:
        tables.write(args.output, rows)
    counted.complete()
    if args.packets:
        losses.write(args.packets, losses.table_of(counted.packets), args.rule)
    return None


def run_search(args: argparse.Namespace) -> None:
    """Search for each packet size, report each result, write the table of trials after each, and print all at the end.

    If a search fails or is interrupted, its trials remain in the directory, and the next run does not repeat them.
    """
    all_pairs = tuple(zip(args.send, args.interface, strict=True)) or virtual.make_pairs(args.virtual)
    if args.with_capture:
        check_disk(args, len(all_pairs))  # in the namespaces, which hide a file system that may contain TMPDIR
    settings = (all_pairs, args.max_rate, args.trial_seconds, args.settle_seconds)
    done = finished.FinishedTrials(args.output, settings)
    if args.output:
        tables.remove(args.output, "monitor_searches")
    if len(done):
        names.report(f"monitor: continuing the search of an earlier run; finished trials: {len(done)}")
    rows: list[dict[str, Any]] = []
    try:
        for search_rows in all_searches(args, all_pairs, done):
            names.report(f"monitor: {text.search_result(search_rows)}")
            rows += search_rows
            if args.output:
                tables.write(args.output, {"monitor_searches": rows})
    except BaseException:
        with contextlib.suppress(OSError):  # the terminal may be closed
            print_searches(rows)
            if len(done):
                names.report(f"monitor: finished trials: {len(done)}; run the command again to continue the search")
        raise
    print_searches(rows)
    done.remove()


def print_searches(rows: list[dict[str, Any]]) -> None:
    """Print the results of searches."""
    if rows:
        print(*text.search_lines(rows), sep="\n", flush=True)


def all_searches(
    args: argparse.Namespace, all_pairs: tuple[tuple[str, str], ...], done: finished.FinishedTrials
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each search.

    A search for a rate begins near the result of the previous size, or else near the result of the previous search.
    """
    snaplens = {"none": None} | ({"whole": 0, "truncated": args.snaplen} if args.with_capture else {})
    plan = list(product(dict.fromkeys((all_pairs[:1], all_pairs)), args.frame_bytes, snaplens.items()))
    planned = len(plan) * (2 if args.burst_packets else 1)
    results: dict[tuple[int, str], float] = {}
    near = None
    for pairs, size, (capture, snaplen) in plan:
        link = trials.Link(pairs, args.settle_seconds, snaplen)
        series = (len(pairs), capture)
        for measure, found in searches(args, link, size, results.get(series, near), done):
            if measure == "throughput":
                near = results[series] = found.value or lowest(args)
            yield list(search.rows([(len(pairs), size, capture, measure, found)], planned))


def lowest(args: argparse.Namespace) -> float:
    """Return the lowest rate of a search, which is also its resolution: at least 1 packet/s, the minimum of a model."""
    return args.resolution or max(1.0, args.max_rate / 100)


def searches(
    args: argparse.Namespace, link: trials.Link, size: int, near: float | None, done: finished.FinishedTrials
) -> Iterator[tuple[str, search.SearchResult]]:
    """Yield the measures of a packet size and their results. ``near``: an estimate of the rate."""
    key = (len(link.pairs), size, link.snaplen)

    def trial(pps: float) -> search.Trial:
        packets = max(2, round(pps * args.trial_seconds))
        return done.run((*key, pps), lambda: search.repeat_until_reached(lambda: trials.run(link, size, pps, packets)))

    def burst(packets: int) -> search.Trial:
        run = lambda: search.repeat_until_reached(lambda: trials.run(link, size, args.max_rate, packets))  # noqa: E731
        return done.run((*key, "burst", packets), run)

    yield "throughput", search.highest(trial, lowest(args), args.max_rate, lowest(args), near)
    if args.burst_packets:
        yield "burst", search.longest_burst(burst, args.burst_packets)


def check_disk(args: argparse.Namespace, ports: int) -> None:
    """Raise UserError if the packets that a trial writes do not fit into the free space of their directory."""
    packet_bytes = max(args.frame_bytes) + RECORD_BYTES  # for searches that write whole packets
    packets = max(math.ceil(args.max_rate * args.trial_seconds), args.burst_packets or 0)
    needed = packets * packet_bytes * ports
    directory = temporary_directory()
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise UserError(
            f"packets of a trial need up to {needed / GB:.1f} GB; {free / GB:.1f} GB is free in {directory}",
            where="--with-capture", fix="set TMPDIR to a larger file system, or reduce --trial-seconds or --max-rate",
            outside=True,
        )  # fmt: skip


def print_rows(rows: Rows, flows: int) -> None:
    """Print the tables of ports, flows, clocks and losses."""
    printed = (
        text.port_lines(rows["monitor_ports"]),
        text.flow_lines(rows["monitor_flows"], flows),
        text.clock_lines(rows["monitor_clocks"]),
        text.loss_lines(rows["monitor_losses"]) if "monitor_losses" in rows else [],
    )
    print("\n\n".join("\n".join(lines) for lines in printed if lines))


def packets_sent(path: Path, settings: program.Settings) -> np.ndarray:
    """Return the packets that satisfy the rules, from a capture or from a file that --packets wrote."""
    if path.suffix == ".parquet":
        return losses.read(path, settings.rules)
    with scratch_directory() as scratch:
        capture_settings = program.Settings(files=(path,), rules=settings.rules, wanted=settings.wanted, packets=True)
        return program.count(capture_settings, scratch).complete().packets[0]


def rows_of(settings: program.Settings, *, correct: bool) -> Rows:
    """Return the rows of all tables for captures."""
    with scratch_directory() as scratch:
        return rows_of_counts(settings, program.count(settings, scratch).complete(), scratch, correct=correct)


def rows_of_counts(settings: program.Settings, counted: program.RunResult, scratch: Path, *, correct: bool) -> Rows:
    """Return the rows of all tables. To correct the drift, each file is read again with the line fitted to it."""
    ports = list(counted.ports)
    drifts = [tables.drift_of(port) for port in ports]
    if correct:
        for number, line in enumerate(drifts):
            if line is not None:
                (ports[number],) = program.count(settings.for_file(number), scratch, line).ports
    return tables.rows_of(ports, settings.wanted, drifts, corrected=correct)
