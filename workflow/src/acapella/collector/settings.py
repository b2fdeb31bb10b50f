"""Settings of `acapella p4 collect`, and its command line options."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from acapella.common.control_channel import BITS, MAX_QUEUE_PAIRS, REPORT_BYTES, QueuePair
from acapella.common.quantities import duration_ns, whole_number
from acapella_core import decompression, p4_control
from acapella_core.arguments import size_bytes
from acapella_core.control_lines import address
from acapella_core.errors import UserError

from .sessions import ring_size

WINDOW = "1s"  # default window of the series
RING = "64M"
MEMORY = "4G"
MAX_THREADS = 64
MAX_SESSIONS = 16
REGISTERS = {"qp_number": "number", "qp_key": "key", "qp_base": "base", "qp_end": "end", "qp_psn": "psn"}


@dataclass(frozen=True)
class Settings:
    """One run of the collector: a source of reports, and queue pairs that are configured, assigned to sessions, or
    both.
    """

    directory: Path
    captures: tuple[Path, ...]
    interface: str | None
    rdma_device: str | None
    rdma_peer: str | None
    rdma_port: int
    rdma_gid_index: int
    queue_pairs: tuple[QueuePair, ...]  # configured in a control file
    control: Path | None  # path of this control file
    limits: object  # decompression limits of the core
    listen: tuple[str, int] | None
    listen_anywhere: bool
    queue_pairs_per_session: int
    max_sessions: int
    ring_bytes: int
    report_format: int
    threads: int
    window_ns: int | None  # None: no series; 0: a row per report
    memory_bytes: int
    until_sessions_end: bool
    replace: bool
    progress: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `acapella p4 collect`."""
    source = parser.add_argument_group("source of reports")
    source.add_argument(
        "captures", metavar="CAPTURE", nargs="*", help="capture of reports: pcap or pcapng, optionally compressed"
    )
    source.add_argument(
        "--interface", metavar="NAME", help="receive from an interface (AF_PACKET) until Ctrl-C or SIGTERM"
    )
    source.add_argument("--rdma-device", metavar="NAME", help="receive from an RDMA device, which writes to memory")
    source.add_argument("--rdma-peer", metavar="IPV4", help="source address of the reports (RDMA device)")
    source.add_argument("--rdma-port", metavar="N", default="1", help="port of the RDMA device (default: 1)")
    source.add_argument(
        "--rdma-gid-index", metavar="N", default="0", help="GID index of its RoCEv2 address, see show_gids (default: 0)"
    )
    pairs = parser.add_argument_group("queue pairs that accept reports")
    pairs.add_argument(
        "--control", metavar="FILE", help="queue pairs of a program's control file (register qp_number ...)"
    )
    pairs.add_argument(
        "--listen",
        metavar="HOST:PORT",
        help="assign queue pairs to control planes that connect here; port 0: any free port",
    )
    pairs.add_argument("--listen-anywhere", action="store_true", help="allow addresses other than loopback")
    pairs.add_argument(
        "--queue-pairs", metavar="N", default="1", help="queue pairs per session: 1, 2, 4, 8 or 16 (default: 1)"
    )
    pairs.add_argument("--ring", metavar="SIZE", default=RING, help=f"size of each queue pair's ring (default: {RING})")
    pairs.add_argument(
        "--sessions", metavar="N", default="1", help="maximum number of simultaneous sessions (default: 1)"
    )
    parser.add_argument("--format", default="2", metavar="N", help="report format: 1 (the paper's) or 2 (default: 2)")
    parser.add_argument("--threads", default="1", metavar="N", help="worker threads of the flow table (default: 1)")
    parser.add_argument(
        "--window",
        metavar="DURATION",
        default=WINDOW,
        help=f"window of the series (default: {WINDOW}); 0: a row per report",
    )
    parser.add_argument("--no-series", action="store_true", help="do not write the series")
    parser.add_argument(
        "--memory", metavar="SIZE", default=MEMORY, help=f"memory limit of the flow table (default: {MEMORY})"
    )
    decompression.add_options(parser)
    parser.add_argument("--until-sessions-end", action="store_true", help="exit once every session has ended")
    parser.add_argument(
        "-o",
        dest="directory",
        metavar="DIRECTORY",
        required=True,
        help="output: flows.parquet, series.parquet, counters.json",
    )
    parser.add_argument("--replace", action="store_true", help="replace existing results")
    parser.add_argument("--progress", action="store_true", help="print counters on standard error")


def settings_of(args: argparse.Namespace) -> Settings:
    """Return the checked settings. Raises UserError."""
    check_source(args)
    report_format = whole_number(args.format, 1, max(REPORT_BYTES), "--format")
    count = whole_number(args.queue_pairs, 1, MAX_QUEUE_PAIRS, "--queue-pairs")
    if count & (count - 1):
        raise UserError(f"{count} is not a power of two", where="--queue-pairs", fix="use 1, 2, 4, 8 or 16")
    listen = address(args.listen) if args.listen else None
    queue_pairs = queue_pairs_of_control_file(Path(args.control), REPORT_BYTES[report_format]) if args.control else ()
    if not queue_pairs and not listen:
        raise UserError(
            "no queue pair, so every report would be rejected", fix="add --control FILE or --listen HOST:PORT"
        )
    if args.until_sessions_end and not listen:
        raise UserError("--until-sessions-end requires sessions", fix="add --listen HOST:PORT")
    return Settings(
        directory=Path(args.directory),
        captures=tuple(Path(name) for name in args.captures),
        interface=args.interface,
        rdma_device=args.rdma_device,
        rdma_peer=args.rdma_peer,
        rdma_port=whole_number(args.rdma_port, 1, 255, "--rdma-port"),
        rdma_gid_index=whole_number(args.rdma_gid_index, 0, 255, "--rdma-gid-index"),
        queue_pairs=queue_pairs,
        control=Path(args.control) if args.control else None,
        limits=decompression.limits_of(args),
        listen=listen,
        listen_anywhere=args.listen_anywhere,
        queue_pairs_per_session=count,
        max_sessions=whole_number(args.sessions, 1, MAX_SESSIONS, "--sessions"),
        ring_bytes=ring_size(size_bytes(args.ring), REPORT_BYTES[report_format]),
        report_format=report_format,
        threads=whole_number(args.threads, 1, MAX_THREADS, "--threads"),
        window_ns=None if args.no_series else window_of(args.window),
        memory_bytes=size_bytes(args.memory),
        until_sessions_end=args.until_sessions_end,
        replace=args.replace,
        progress=args.progress,
    )


def check_source(args: argparse.Namespace) -> None:
    """Raise UserError unless there is exactly one source and its files exist."""
    sources = [source for source in (args.captures, args.interface, args.rdma_device) if source]
    if len(sources) != 1:
        raise UserError("expected one of captures, --interface and --rdma-device", fix="use exactly one of them")
    for name in args.captures:
        if not Path(name).exists():
            raise UserError("no such file", where=name)
    if args.rdma_device and (not args.rdma_peer or args.control):
        raise UserError(
            "an RDMA device chooses the queue pair numbers, and accepts packets from one address only",
            where="--rdma-device",
            fix="use --rdma-peer IPV4 and --listen HOST:PORT, without --control",
        )


def window_of(text: str) -> int:
    """Return the length of a window in ns, 0 for a row per report. Raises UserError."""
    length = duration_ns(text)
    if length < 0:
        raise UserError("a window cannot be negative", where=f"--window {text}", fix="write 100ms or 1s")
    return length


def queue_pairs_of_control_file(path: Path, report_bytes: int) -> tuple[QueuePair, ...]:
    """Return the queue pairs that a program's control file writes to its registers. Raises UserError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read: {getattr(error, 'strerror', None) or error}", where=path) from error
    slots: dict[int, dict[str, int]] = {}
    for number, line in enumerate(lines, 1):
        fields = line.partition("#")[0].split()
        if len(fields) >= 4 and fields[0] == "register" and fields[1] in REGISTERS:
            apply_register(slots, fields, f"{path}:{number}")
    pairs = [
        queue_pair(slot, values, report_bytes, path) for slot, values in sorted(slots.items()) if values.get("number")
    ]
    if not pairs:
        raise UserError("no queue pair", where=path, fix="add lines such as: register qp_number 0 0x11")
    if len({pair.number for pair in pairs}) < len(pairs):
        raise UserError("two queue pairs have the same number", where=path)
    return tuple(pairs)


def apply_register(slots: dict[int, dict[str, int]], fields: list[str], where: str) -> None:
    """Apply a line ``register NAME INDEX VALUE [COUNT]`` to the registers of queue pairs. Raises UserError."""
    numbers = {field: p4_control.number(field) for field in fields[2:5]}
    if invalid := [field for field, number in numbers.items() if number is None]:
        fix = "use a number such as 10 or 0x0a, without a leading zero"
        raise UserError(f"{invalid[0]}: not a number", where=where, fix=fix)
    index, value, *count = (numbers[field] for field in fields[2:5])
    indices = range(index, index + (count[0] if count else 1))
    if indices.stop > MAX_QUEUE_PAIRS:
        raise UserError(f"queue pair indices are 0 to {MAX_QUEUE_PAIRS - 1}", where=where)
    for slot in indices:
        slots.setdefault(slot, {})[REGISTERS[fields[1]]] = value


def queue_pair(slot: int, values: dict[str, int], report_bytes: int, path: Path) -> QueuePair:
    """Return the queue pair at one index of the registers. Raises UserError if values are inconsistent."""
    fields = {"key": 0, "base": 0, "end": 0, "psn": 0, **values}
    for name, value in fields.items():
        bits = BITS["base" if name == "end" else name]
        if not 0 <= value < 1 << bits:
            raise UserError(f"qp_{name} of queue pair {slot} is not an unsigned {bits}-bit number", where=path)
    size = fields.pop("end") - fields["base"]
    if size <= 0 or size % report_bytes:
        raise UserError(
            f"qp_end - qp_base of queue pair {slot} is {size}, not a positive multiple of the report size "
            f"({report_bytes} bytes)",
            where=path,
        )
    return QueuePair(slot, size=size, **fields)
