"""What `acapella collector run` is asked for, in the words of its command line."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from acapella.common.control_channel import BITS, MOST_QUEUE_PAIRS, REPORT_BYTES, QueuePair, address
from acapella.common.quantities import duration_ns, whole
from acapella_core import decompression
from acapella_core.arguments import size_bytes
from acapella_core.errors import UserError

from .sessions import ring_size

WINDOW = "1s"  # of the series
RING = "64M"
MEMORY = "4G"
MOST_THREADS = 64
MOST_SESSIONS = 16
REGISTERS = {"qp_number": "number", "qp_key": "key", "qp_base": "base", "qp_end": "end", "qp_psn": "psn"}


@dataclass(frozen=True)
class Settings:
    """One run of the collector: one source of reports, and queue pairs that are named, given out, or both."""

    directory: Path
    captures: tuple[Path, ...]
    interface: str | None
    rdma_device: str | None
    rdma_peer: str | None
    rdma_port: int
    rdma_gid_index: int
    queue_pairs: tuple[QueuePair, ...]  # known beforehand
    control: Path | None  # the file that they are from
    limits: object  # on decompression, as the core takes them
    listen: tuple[str, int] | None
    listen_anywhere: bool
    a_session: int  # queue pairs
    most_sessions: int
    ring_bytes: int
    report_format: int
    threads: int
    window_ns: int | None  # None: no series; 0: a row a report
    memory_bytes: int
    until_ended: bool
    replace: bool
    progress: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `acapella collector run`."""
    source = parser.add_argument_group("where reports come from")
    source.add_argument("captures", metavar="CAPTURE", nargs="*", help="pcap or pcapng of reports, also compressed")
    source.add_argument("--interface", metavar="NAME", help="a live interface (AF_PACKET), until Ctrl-C or kill")
    source.add_argument("--rdma-device", metavar="NAME", help="an RDMA device, which writes reports into our memory")
    source.add_argument("--rdma-peer", metavar="IPV4", help="with it: the address that reports come from")
    source.add_argument("--rdma-port", metavar="N", default="1", help="of the device (default: 1)")
    source.add_argument(
        "--rdma-gid-index", metavar="N", default="0", help="of its RoCEv2 address (show_gids; default: 0)"
    )
    pairs = parser.add_argument_group("which queue pairs reports may be written to")
    pairs.add_argument("--control", metavar="FILE", help="those of a program's control file (register qp_number ...)")
    pairs.add_argument(
        "--listen", metavar="HOST:PORT", help="give them to control planes that connect there; port 0: any"
    )
    pairs.add_argument("--listen-anywhere", action="store_true", help="also on other addresses than loopback")
    pairs.add_argument("--queue-pairs", metavar="N", default="1", help="of a session: 1, 2, 4, 8 or 16 (default: 1)")
    pairs.add_argument("--ring", metavar="SIZE", default=RING, help=f"size of each ring (default: {RING})")
    pairs.add_argument("--sessions", metavar="N", default="1", help="data planes at once (default: 1)")
    parser.add_argument("--format", default="2", metavar="N", help="of the reports: 2, or 1 as published (default: 2)")
    parser.add_argument("--threads", default="1", metavar="N", help="that read the rings (default: 1)")
    parser.add_argument(
        "--window", metavar="DURATION", default=WINDOW, help=f"of the series (default: {WINDOW}); 0: each report"
    )
    parser.add_argument("--no-series", action="store_true", help="flows alone")
    parser.add_argument("--memory", metavar="SIZE", default=MEMORY, help=f"of the flow table (default: {MEMORY})")
    decompression.add_options(parser)
    parser.add_argument("--until-ended", action="store_true", help="end when every data plane has said that it ended")
    parser.add_argument(
        "-o",
        dest="directory",
        metavar="DIRECTORY",
        required=True,
        help="for flows.parquet, series.parquet, counters.json",
    )
    parser.add_argument("--replace", action="store_true", help="results that are there")
    parser.add_argument("--progress", action="store_true", help="reports, flows and refused ones on standard error")


def settings_of(args: argparse.Namespace) -> Settings:
    """The command line, checked. Raises UserError."""
    check_source(args)
    report_format = whole(args.format, 1, max(REPORT_BYTES), "a format of reports")
    count = whole(args.queue_pairs, 1, MOST_QUEUE_PAIRS, "a number of queue pairs")
    if count & (count - 1):
        raise UserError(
            f"{count} is no power of two", where="--queue-pairs", fix="a flow's queue pair is bits of its hash"
        )
    listen = address(args.listen) if args.listen else None
    known = from_control(Path(args.control), REPORT_BYTES[report_format]) if args.control else ()
    if not known and not listen:
        raise UserError(
            "no queue pair, so every report would be refused", fix="name --control FILE or --listen HOST:PORT"
        )
    if args.until_ended and not listen:
        raise UserError("--until-ended is about sessions", fix="name --listen HOST:PORT too")
    return Settings(
        directory=Path(args.directory),
        captures=tuple(Path(name) for name in args.captures),
        interface=args.interface,
        rdma_device=args.rdma_device,
        rdma_peer=args.rdma_peer,
        rdma_port=whole(args.rdma_port, 1, 255, "a port of the device"),
        rdma_gid_index=whole(args.rdma_gid_index, 0, 255, "an index of an address"),
        queue_pairs=known,
        control=Path(args.control) if args.control else None,
        limits=decompression.limits_of(args),
        listen=listen,
        listen_anywhere=args.listen_anywhere,
        a_session=count,
        most_sessions=whole(args.sessions, 1, MOST_SESSIONS, "a number of sessions"),
        ring_bytes=ring_size(size_bytes(args.ring), REPORT_BYTES[report_format]),
        report_format=report_format,
        threads=whole(args.threads, 1, MOST_THREADS, "a number of threads"),
        window_ns=None if args.no_series else window_of(args.window),
        memory_bytes=size_bytes(args.memory),
        until_ended=args.until_ended,
        replace=args.replace,
        progress=args.progress,
    )


def check_source(args: argparse.Namespace) -> None:
    """Raise UserError unless there is exactly one source, and its files are there."""
    sources = [source for source in (args.captures, args.interface, args.rdma_device) if source]
    if len(sources) != 1:
        raise UserError("reports come from captures, or --interface, or --rdma-device", fix="name one of them")
    for name in args.captures:
        if not Path(name).exists():
            raise UserError("there is no such file", where=name)
    if args.rdma_device and (not args.rdma_peer or args.control):
        raise UserError(
            "an RDMA device gives numbers of its own, to packets of one address",
            where="--rdma-device",
            fix="name --rdma-peer IPV4 and --listen HOST:PORT, and no --control",
        )


def window_of(text: str) -> int:
    """The length of a window in ns, 0 for a row a report. Raises UserError."""
    length = duration_ns(text)
    if length < 0:
        raise UserError("a window is not negative", where=f"--window {text}", fix="write 100ms or 1s")
    return length


def from_control(path: Path, report_bytes: int) -> tuple[QueuePair, ...]:
    """The queue pairs that a program's control file writes to its registers. Raises UserError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read: {getattr(error, 'strerror', None) or error}", where=path) from error
    slots: dict[int, dict[str, int]] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if len(words) >= 4 and words[0] == "register" and words[1] in REGISTERS:
            write(slots, words, f"{path}:{number}")
    pairs = [
        queue_pair(slot, values, report_bytes, path) for slot, values in sorted(slots.items()) if values.get("number")
    ]
    if not pairs:
        raise UserError("sets up no queue pair", where=path, fix="it has lines such as: register qp_number 0 0x11")
    if len({pair.number for pair in pairs}) < len(pairs):
        raise UserError("two queue pairs have one number", where=path)
    return tuple(pairs)


def write(slots: dict[int, dict[str, int]], words: list[str], where: str) -> None:
    """Do what a line ``register NAME INDEX VALUE [COUNT]`` does to the registers of queue pairs. Raises UserError."""
    try:
        index, value, *count = (int(word, 0) for word in words[2:5])
    except ValueError:
        raise UserError("not a number", where=where, fix="write it as 10 or 0x0a") from None
    indices = range(index, index + (count[0] if count else 1))
    if index < 0 or indices.stop > MOST_QUEUE_PAIRS:
        raise UserError(f"there are {MOST_QUEUE_PAIRS} queue pairs, from 0", where=where)
    for slot in indices:
        slots.setdefault(slot, {})[REGISTERS[words[1]]] = value


def queue_pair(slot: int, values: dict[str, int], report_bytes: int, path: Path) -> QueuePair:
    """The queue pair of one index of the registers. Raises UserError where they contradict each other."""
    found = {"key": 0, "base": 0, "end": 0, "psn": 0, **values}
    size = found.pop("end") - found["base"]
    if size <= 0 or size % report_bytes:
        raise UserError(
            f"qp_end - qp_base of queue pair {slot} is {size}, not a multiple of a report's {report_bytes} bytes",
            where=path,
        )
    pair = QueuePair(slot, size=size, **found)
    for name, bits in BITS.items():
        if not 0 <= getattr(pair, name) < 1 << bits:
            raise UserError(f"qp_{name} of queue pair {slot} has more than {bits} bits", where=path)
    return pair
