"""Replay traffic with its recorded gaps: a capture file, or traffic that a bridge has recorded.

    acapella replay trace.pcap --interface eth1 --loops 3 --departures departures.parquet
    acapella replay --control 10.0.0.1:4800,10.0.0.2:4800 --secret replay.secret run --at +2

There are three ways to use it:

  acapella replay FILE --interface eth1
      Send the packets of a capture file (pcap or pcapng, optionally compressed) to an interface, like tcpreplay.

  acapella replay --bridge eth1 eth2 --listen 10.0.0.1:4800 --secret replay.secret
      Forward packets between two interfaces, record them on request, and replay the recording to both interfaces. With
      FILE --interface instead of --bridge, replay the file on request.

  acapella replay --control 10.0.0.1:4800 --secret replay.secret ACTION
      Control one or several of these replayers:
        record   record from now on, or --from TIME --until TIME, or the last --rolling SECONDS
        stop     stop recording, or the run
        save     write the recording to the replayer's directory (--output)
        clear    discard the recording
        run      start all replayers at the same time, wait, and report departures and skew
        status   print state, counters, and clock
        quit     end the replayers

TIME is an RFC 3339 time (2026-01-31T12:00:00Z, with up to 9 decimals), nanoseconds since 1970, or +S, S seconds from
now. A replayer needs root, or CAP_NET_RAW and CAP_NET_ADMIN. The exit code is 0 if every packet was sent, 1
otherwise, and 2 or 75 after an error. docs/replay.md describes accuracy, clocks, and the control protocol.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acapella_core import decompression, names
from acapella_core.control_lines import InvalidMessage, Secret, address, make_secret, secret_of
from acapella_core.errors import DAMAGED, UserError
from acapella_core.files import scratch_directory

from . import actions, frame_socket, local, messages, times
from .agent import Agent, Replayer
from .controller import Group
from .ports import LOOPS_OF_AGENT, MIN_DEPARTURES, ProgramSettings, mtu_of
from .program import ReplayProgram, number_in

ACTIONS = ("record", "stop", "save", "clear", "run", "status", "quit")
DEFAULT_PACKETS = 65_536
RUN_OPTIONS = ("at", "loops", "speed", "departures")
PORT_OPTIONS = (
    "queues",
    "packets",
    "max_frame",
    "pace",
    "burst",
    "lead_ns",
    "measure_lead",
    "late_ns",
    "drop_late_ns",
    "tag",
    "node",
    "cpus",
    "huge",
)
FILE_OPTIONS = ("max_decompressed", "max_ratio")
# Options by use; options of a different use are rejected.
USES = {
    "file": {"interface", *RUN_OPTIONS, *PORT_OPTIONS, *FILE_OPTIONS},
    "agent": {"interface", "bridge", "listen", "in_band", "secret", "output", *PORT_OPTIONS, *FILE_OPTIONS},
    "run": {"control", "secret", *RUN_OPTIONS},
    "record": {"control", "secret", "start", "until", "rolling"},
    "control": {"control", "secret"},
}


def register_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add the parser of `acapella replay`."""
    parser = subparsers.add_parser(
        "replay", help="replay a capture, or recorded traffic, at exact times", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "what", nargs="?", metavar="FILE|ACTION", help=f"capture file; with --control: {', '.join(ACTIONS)}"
    )
    add_run_options(parser.add_argument_group("run"))
    add_port_options(parser.add_argument_group("ports"))
    add_control_options(parser.add_argument_group("control"))
    decompression.add_options(parser)
    parser.set_defaults(defaults={action.dest: action.default for action in parser._actions})
    return parser


def add_run_options(group: Any) -> None:
    """Add the options of a run."""
    group.add_argument(
        "--at", type=times.time, metavar="TIME", help="start at TIME (default: immediately; run: in 1 s)"
    )
    group.add_argument("--loops", type=count(messages.MAX_LOOPS), default=1, metavar="N",
                       help="send the recording N times (default: %(default)s)")  # fmt: skip
    group.add_argument("--speed", type=times.speed_ppm, default=times.MILLION, metavar="X",
                       help="divide all gaps by X: 2 is twice as fast (default: 1, as recorded)")  # fmt: skip
    group.add_argument(
        "--departures", type=Path, metavar="FILE",
        help="write the requested and the actual departure time of every packet to FILE (Parquet); with several "
        "replayers, -1, -2, ... is added to its name, in the order of --control",
    )  # fmt: skip


def add_port_options(group: Any) -> None:
    """Add the options of a replayer's ports."""
    group.add_argument(
        "--interface", "-i", action="append", metavar="PORT",
        help="send from PORT: a network interface, or a DPDK device (PCI address, or DRIVER,ARGUMENTS as for EAL's "
        "--vdev); repeat it for several ports: the frames of the i-th interface of a pcapng are sent from the i-th "
        "port",
    )  # fmt: skip
    group.add_argument("--bridge", nargs=2, metavar="PORT", help="forward packets between two ports; requires --listen")
    group.add_argument(
        "--queues", type=count(16), metavar="N",
        help="use N Tx queues of each port, and N Rx queues of each port of a bridge; packets of a flow use the same "
        "queue (default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--packets", type=count(1 << 30), metavar="N",
        help=f"record at most N packets (default: {DEFAULT_PACKETS}; with FILE: all its packets)",
    )  # fmt: skip
    group.add_argument(
        "--max-frame", type=count(65_000), metavar="BYTES",
        help="longest frame without FCS (default: 2048, more if the MTU of an interface permits it)",
    )  # fmt: skip
    group.add_argument("--pace", choices=("bursts", "single"), default="bursts",
                       help="send bursts as recorded, or each packet alone (default: %(default)s)")  # fmt: skip
    group.add_argument("--burst", type=count(64), metavar="N", help="packets per burst, at most 64 (default: 64)")
    group.add_argument("--lead-ns", type=count(10_000_000, 0), metavar="NS",
                       help="pass a packet to the driver NS nanoseconds before its time (default: 0)")  # fmt: skip
    group.add_argument(
        "--measure-lead", action="append", metavar="tx|PORT",
        help="measure --lead-ns with probes before the start: from the driver's transmit timestamps (tx; unknown if "
        "it has none), or at PORT, which receives what the interface sends; use it once for each port; requires "
        "--pace single",
    )  # fmt: skip
    group.add_argument("--late-ns", type=count(10**9, 0), metavar="NS",
                       help="count packets as late if they depart more than NS nanoseconds late (default: "
                       "1000)")  # fmt: skip
    group.add_argument("--drop-late-ns", type=count(3600 * 10**9, 0), metavar="NS",
                       help="do not send packets that are more than NS nanoseconds late (default: send "
                       "them)")  # fmt: skip
    group.add_argument(
        "--tag", choices=("none", "choir", "fixed"), default="none",
        help="append CHOIR's 16-byte trailer to every packet; fixed: also correct lengths and checksums "
        "(default: %(default)s)",
    )  # fmt: skip
    group.add_argument("--node", type=count(65_535, 0), metavar="N", help="node number in the trailer (default: 0)")
    group.add_argument("--cpus", metavar="CPU", help="CPU of the polling thread (default: chosen by the program)")
    group.add_argument("--huge", action="store_true", help="use huge pages (default: normal pages)")


def add_control_options(group: Any) -> None:
    """Add the options of the control channel."""
    group.add_argument("--listen", metavar="ADDRESS:PORT", help="wait for a controller; port 0: chosen by the kernel")
    group.add_argument(
        "--in-band", action="store_true",
        help="with --bridge and --listen, also accept control messages in Ethernet frames (EtherType 0x88B5) to the "
        "MAC address of a port of the bridge (default: forward them)",
    )  # fmt: skip
    group.add_argument(
        "--control", metavar="ADDRESS[,...]",
        help="control the replayers that listen at HOST:PORT, or that were started with --in-band, at INTERFACE/MAC: "
        "an interface of this machine, and the MAC address of a port of the bridge",
    )  # fmt: skip
    group.add_argument("--secret", type=Path, metavar="FILE",
                       help="file with the secret of replayers and controller, mode 0600")  # fmt: skip
    group.add_argument("--new-secret", type=Path, metavar="FILE",
                       help="write a new secret to FILE, which must not exist, and exit; copy it to every "
                       "replayer")  # fmt: skip
    group.add_argument("--output", "-o", type=Path, metavar="DIRECTORY",
                       help="write saved recordings to DIRECTORY/recording-N.pcapng (default: .)")  # fmt: skip
    group.add_argument("--from", type=times.time, dest="start", metavar="TIME",
                       help="record: start at TIME (default: immediately)")  # fmt: skip
    group.add_argument("--until", type=times.time, metavar="TIME", help="record: stop at TIME (default: until stop)")
    group.add_argument("--rolling", type=count(messages.MAX_ROLLING_S), metavar="SECONDS",
                       help="record: keep the last SECONDS seconds (default: keep everything)")  # fmt: skip


def count(maximum: int, minimum: int = 1) -> Callable[[str], int]:
    """Return a parser of whole numbers within limits."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= 20 and minimum <= int(text) <= maximum):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {minimum} to {maximum}")
        return int(text)

    return parse


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.new_secret:
        new_secret(args.new_secret)
        return 0
    if args.control:
        return control(args)
    if args.what in ACTIONS and not (args.interface or args.bridge) and not Path(args.what).exists():
        raise UserError(f"{args.what} requires --control HOST:PORT")
    if args.bridge and args.measure_lead:
        raise UserError("--measure-lead applies to --interface, not to --bridge")
    if bool(args.interface) == bool(args.bridge) or (args.bridge and args.what) or (args.interface and not args.what):
        raise UserError(
            "expected FILE --interface PORT, --bridge PORT PORT --listen ADDRESS:PORT, or --control HOST:PORT ACTION",
        )
    if args.in_band and not args.bridge:
        raise UserError("--in-band requires --bridge PORT PORT --listen ADDRESS:PORT")
    if args.listen:
        reject_other_options(args, "agent", "--listen")
        return listen(args)
    if args.bridge:
        raise UserError("--bridge requires --listen ADDRESS:PORT --secret FILE")
    reject_other_options(args, "file", "FILE --interface")
    return replay_file(args)


def reject_other_options(args: argparse.Namespace, use: str, usage: str) -> None:
    """Raise UserError if an option is set that has no effect in this ``usage`` of the command."""
    for name, default in args.defaults.items():
        if name in ("help", "what", "new_secret", "debug") or name in USES[use]:
            continue
        if getattr(args, name) != default:
            option = {"start": "--from"}.get(name, "--" + name.replace("_", "-"))
            raise UserError(f"{option} has no effect with {usage}")


def settings_of(args: argparse.Namespace, packets: int | None, departures: int) -> ProgramSettings:
    """Return the settings of the program."""
    return ProgramSettings(
        ports=tuple(args.bridge or args.interface),
        bridge=bool(args.bridge),
        in_band=args.in_band,
        packets=args.packets or packets,
        departures=departures,
        measure_lead=tuple(args.measure_lead or ()),
        **{key: getattr(args, key) for key in PORT_OPTIONS if key not in ("packets", "measure_lead")},
    )


def replay_file(args: argparse.Namespace) -> int:
    """Send a capture file and print the summary. Return 1 if packets were not sent, otherwise 0."""
    at_ns = start_of(args)
    check_target(args.departures)
    with contextlib.ExitStack() as contexts:
        recording = contexts.enter_context(local.recording_of(Path(args.what), decompression.limits_of(args)))
        settings = settings_of(args, recording.frames, recording.frames * args.loops)
        program = contexts.enter_context(ReplayProgram(settings.argv()))
        load(program, recording)
        check_start(at_ns)
        done = local.replay(program, at_ns=at_ns, loops=args.loops, speed_ppm=args.speed)
        summary = local.departures(program, recording, args.departures, done, args.pace)
    for line in actions.result_lines(summary, done, mtus_of(args.interface)):
        print(line, flush=True)
    losses = actions.losses_of(done)
    for line in losses:
        names.report(f"acapella: warning: {line}")
    return DAMAGED if losses or summary.sent < summary.packets else 0


def start_of(args: argparse.Namespace) -> int:
    """Return the time of --at in ns; 0 without it. Raises UserError if it is in the past."""
    if args.at is None:
        return 0
    at_ns = args.at(time.time_ns())
    check_start(at_ns)
    return at_ns


def check_start(at_ns: int) -> None:
    """Raise UserError if the start is in the past; 0 means immediately."""
    if at_ns and at_ns <= time.time_ns():
        raise UserError("is in the past", where=f"--at {times.text(at_ns)}", fix="choose a later time, such as --at +5")


def check_target(departures: Path | None) -> None:
    """Raise UserError if the file of departures cannot be written, before packets are sent."""
    if departures is None:
        return
    where = f"--departures {departures}"
    if not departures.parent.is_dir():
        raise UserError("no such directory", where=where, fix="create it, or choose another file name")
    if departures.exists() and not departures.is_file():
        raise UserError("not a regular file", where=where, fix="choose another file name")
    if not os.access(departures.parent, os.W_OK):
        raise UserError("the directory is not writable", where=where, fix="choose another file name")


def load(program: ReplayProgram, recording: local.Recording) -> None:
    """Load a recording; print a warning if the capture truncated packets."""
    truncated = number_in(program.command("load", recording.path).get("truncated_packets"))
    if truncated:
        names.report(
            f"acapella: warning: {truncated} of {recording.frames} packets were truncated by the capture and are sent "
            "truncated; capture whole packets (tcpdump -s 0) to send them as they were"
        )


def mtus_of(ports: list[str]) -> dict[str, int]:
    """Return the MTU of the ports that are network interfaces."""
    mtus = {}
    for port in ports:
        with contextlib.suppress(UserError):  # a DPDK device
            mtus[port] = mtu_of(port)
    return mtus


def listen(args: argparse.Namespace) -> int:
    """Run a replayer that is controlled over TCP or in-band, until it is ended."""
    host, port = address(args.listen)
    secret = read_secret(args.secret)
    directory = args.output or Path()
    if not directory.is_dir():
        raise UserError("no such directory", where=f"--output {directory}")
    with contextlib.ExitStack() as contexts:
        recording = None
        if args.what:
            recording = contexts.enter_context(local.recording_of(Path(args.what), decompression.limits_of(args)))
        packets = args.packets or (recording.frames if recording else DEFAULT_PACKETS)
        settings = settings_of(args, packets, max(MIN_DEPARTURES, LOOPS_OF_AGENT * packets))
        scratch = contexts.enter_context(scratch_directory())
        program = contexts.enter_context(ReplayProgram(settings.argv()))
        if recording:
            load(program, recording)
        ports = ("bridge " if args.bridge else "") + " ".join(settings.ports)
        replayer = Replayer(program, directory, scratch, ports, args.pace, recording.sha256 if recording else None)
        agent = Agent(replayer, secret)
        asyncio.run(serve(agent, host, port))
    names.report(f"replay: ended; {actions.counters(dict(agent.counts)) or 'no connections'}")
    return 0


async def serve(agent: Agent, host: str, port: int) -> None:
    """Serve controllers until the agent is ended by one of them or a signal."""
    agent.stop_on_signals()
    await agent.serve(host, port, lambda where, number: names.report(f"replay: listening on {where}:{number}"))


def control(args: argparse.Namespace) -> int:
    """Send an action to replayers. Return the exit code."""
    if args.what not in ACTIONS:
        raise UserError(f"choose an action: {', '.join(ACTIONS)}", where=f"--control {args.what or ''}".strip())
    reject_other_options(args, args.what if args.what in USES else "control", f"--control {args.what}")
    hosts = args.control.split(",")
    for host in hosts:
        frame_socket.parse(host) if frame_socket.is_frame_address(host) else address(host)
    if len(set(hosts)) < len(hosts):
        raise UserError("a replayer is named twice", where="--control")
    if args.rolling and (args.start or args.until):
        raise UserError("--rolling cannot be combined with --from or --until", where="record")
    with Group(hosts, read_secret(args.secret)) as group:
        return perform(args, group)


def perform(args: argparse.Namespace, group: Group) -> int:
    """Perform an action. Return the exit code."""
    if args.what == "run":
        check_target(args.departures)
        plan = actions.RunPlan(at=args.at, loops=args.loops, speed_ppm=args.speed, departures=args.departures)
        return actions.run(group, plan, show)
    if args.what == "status":
        return actions.status(group, show)
    return actions.send_request(group, request_of(args), show)


def request_of(args: argparse.Namespace) -> messages.Request:
    """Return the request of an action that consists of one request."""
    if args.what != "record":
        return messages.REQUESTS[args.what]()
    if args.rolling:
        return messages.Rolling(args.rolling)
    now = time.time_ns()
    start, until = (0 if at is None else at(now) for at in (args.start, args.until))
    if until and until <= max(start, now):
        raise UserError("--until is not after the start", where="record")
    return messages.Record(start, until)


def show(line: str) -> None:
    """Print a line on standard output."""
    names.report(line, sys.stdout)


def new_secret(path: Path) -> None:
    """Write a secret to a new file. Raises UserError if the file exists: replayers may be using its secret."""
    with contextlib.suppress(OSError):  # `touch` below then fails, too
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.touch(0o600, exist_ok=False)  # reserves the name, so that two commands cannot write the same file
    except FileExistsError:
        raise UserError(
            "already exists and may be in use",
            where=f"--new-secret {path}",
            fix="choose another file name, or remove it first",
        ) from None
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=f"--new-secret {path}") from error
    try:
        make_secret(path)
    except BaseException:
        if path.stat().st_size == 0:
            path.unlink()
        raise


def read_secret(path: Path | None) -> Secret:
    """Return the secret in a file. Raises UserError if there is none, or others can read it."""
    if path is None:
        raise UserError("--secret FILE is required", fix="acapella replay --new-secret FILE writes one")
    try:
        return secret_of(path)
    except OSError as error:
        raise UserError(f"cannot read: {error.strerror}", where=f"--secret {path}") from error
    except InvalidMessage as why:
        raise UserError(str(why), where="--secret") from None
