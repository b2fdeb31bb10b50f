"""Measure how consistent a network was: compare trials of the same traffic and print U, O, L, I and kappa.

    acapella kappa A.pcap B.pcap C.pcap
    acapella kappa A1.pcap,A2.pcap B1.pcap,B2.pcap --json -o ab.json

Each argument is one trial: a capture that `acapella digest` can read, or several captures of one trial (one per queue),
separated by commas and merged by timestamp. The first trial is the baseline for all others. U measures missing and
extra packets, O reordering, L latency, and I the gaps between packets; kappa is 1 if all of them are 0 (CHOIR, SC'25
workshops, section 3). docs/kappa.md derives each number and describes its limitations; schemas/kappa.schema.json
describes the JSON.
"""

import argparse
import json
import os
import re
import string
import sys
import time
from pathlib import Path

from acapella.common.faults import DAMAGING
from acapella_core import decompression, files, names
from acapella_core.arguments import output_file, size_bytes
from acapella_core.errors import UserError

WINDOWS = 50  # default of --windows; the bars of 50 windows fit on a line
MAX_WINDOWS = 10_000
WITHIN_NS = (10,)  # bound used in the paper
PROGRESS_INTERVAL_S = 1.0
REGION = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")  # up to 9 digits, which is more than the length of any frame


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella kappa`."""
    parser = subparsers.add_parser(
        "kappa",
        help="measure how consistent trials of the same traffic are",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "trials", metavar="TRIAL", nargs="+", help="capture, or several captures of one trial: A1.pcap,A2.pcap"
    )
    parser.add_argument("--all-pairs", action="store_true", help="compare every pair (default: each with the first)")
    parser.add_argument("--name", metavar="NAME", nargs="+", action="extend", help="trial names (default: A, B, ...)")
    add_identity(parser.add_argument_group("how packets are matched between trials"))
    add_selection(parser.add_argument_group("which packets are compared (default: all)"))
    add_replay(parser.add_argument_group("replayed trials: separate the replayer from the path"))
    parser.add_argument(
        "--within",
        metavar="NS",
        nargs="+",
        action="extend",
        help="report the share of common packets whose gap changed by at most NS nanoseconds (default: 10)",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--windows", metavar="N", help=f"maximum number of timeline windows (default: {WINDOWS})")
    length.add_argument(
        "--window",
        metavar="DURATION",
        help="window length, such as 10ms; without a unit: seconds (default: trial divided by --windows)",
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        default="2G",
        help="memory limit, such as 512M; larger trials are compared using temporary files (default: 2G). The command "
        "fails with exit code 75 if a long block of reordered packets (about 100 bytes each) does not fit",
    )
    decompression.add_options(parser)
    parser.add_argument(
        "--spool", metavar="DIRECTORY", help="directory for temporary files (default: TMPDIR, else /tmp)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON; with -o, write it only to the file")
    parser.add_argument(
        "-o", dest="output", metavar="FILE.json", type=output_file("JSON"), help="write JSON to this file"
    )
    parser.add_argument("--sha256", action="store_true", help="record the SHA-256 of every file, even if not needed")
    parser.add_argument(
        "--damaged",
        choices=["fail", "keep"],
        default="fail",
        help="exit code for captures with damaged bytes: 1 (fail) or 0 (keep) (default: fail)",
    )
    parser.add_argument("--progress", action="store_true", help="print progress on standard error")
    return parser


def add_identity(group) -> None:
    """Add the options of the identity rule."""
    group.add_argument(
        "--identity",
        choices=["invariant", "tag", "regions", "frame"],
        default="invariant",
        help="invariant: all fields that no hop changes, beginning with the innermost IP header (default); tag: a "
        "replayer's trailer; regions: the bytes selected by --region; frame: the whole frame",
    )
    group.add_argument(
        "--no-l4-checksum",
        action="store_true",
        help="ignore layer-4 checksums (needed if the NIC computes them after capture)",
    )
    group.add_argument(
        "--region",
        metavar="OFFSET:LENGTH",
        nargs="+",
        action="extend",
        help="bytes, with offsets from the start of the frame",
    )


def add_selection(group) -> None:
    """Add the options that select packets."""
    group.add_argument(
        "--filter",
        metavar="DISPLAY_FILTER",
        help="packets that match a tshark display filter, such as 'udp.port == 53' (default: all)",
    )
    group.add_argument(
        "--flow",
        metavar="SRC[:PORT],DST[:PORT][,PROTOCOL]",
        help="packets of one directed flow, by its innermost addresses (default: all flows)",
    )
    group.add_argument(
        "--from",
        dest="begin",
        metavar="TIME",
        help="start: a time after the trial's first packet, such as 1.5s, or an ISO time (default: the first packet)",
    )
    group.add_argument(
        "--to", dest="end", metavar="TIME", help="end (exclusive), in the same format (default: after the last packet)"
    )


def add_replay(group) -> None:
    """Add the options that describe a replay."""
    group.add_argument(
        "--recording", metavar="CAPTURE", nargs="+", help="recording that was replayed, one for each replayer"
    )
    group.add_argument(
        "--departures",
        metavar="PARQUET",
        nargs="+",
        help="departures of each trial, in the order of the trials; with several replayers: A1.parquet,A2.parquet",
    )
    group.add_argument(
        "--arrival-error",
        metavar="DURATION",
        help="largest standard deviation of the error of an arrival timestamp, such as 20ns (default: rounding of the "
        "clock)",
    )
    group.add_argument(
        "--departure-error",
        metavar="DURATION",
        help="largest standard deviation of the error of a departure timestamp (default: 0ns)",
    )
    group.add_argument(
        "--burst-error",
        metavar="DURATION",
        help="longest time from the first to the last departure of a burst (default: until the next burst of the queue "
        "departs)",
    )


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads captures."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(args.output, args.spool and Path(args.spool, "spooled"), starts=True)


def run(args: argparse.Namespace) -> int:
    """Compare trials. Return 1 if the bytes of a capture are damaged and ``--damaged keep`` is not given, else 0."""
    result = compare(args)
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    if args.output:
        files.atomic_text(args.output, text)
    if not args.json:
        from . import summary  # noqa: PLC0415 - keeps startup fast

        print_text(summary.text(result))
    else:  # the warnings in the JSON are easily missed
        for line in empty_trial_texts(result):
            names.report(f"acapella: warning: {line}")
        if not args.output:
            print_text(text)
    damaged = [file["file"] for trial in result["trials"] for file in trial["files"] if file["end"] in DAMAGING]
    failed = bool(damaged) and args.damaged == "fail"
    if damaged:
        problem = f"{', '.join(damaged)}: damaged, frames may be wrong; only what could be read was compared"
        code = "; exit code 1 (0: --damaged keep)" if failed else ""
        names.report(f"acapella: {'error' if failed else 'warning'}: {problem}{code}")
    return int(failed)


def empty_trial_texts(result: dict) -> list[str]:
    """Return the warnings about trials without a packet, without duplicates."""
    warnings = [warning for pair in result["pairs"] for warning in pair["warnings"]]
    return list(dict.fromkeys(warning["text"] for warning in warnings if warning["code"] == "empty_trial"))


def print_text(text: str) -> None:
    """Print the text. Raises UserError if it cannot be written, such as on a full disk."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # `acapella kappa ... | head`
    except OSError as error:
        with Path(os.devnull).open("w") as null_device:  # so that the buffer is not flushed again at exit
            os.dup2(null_device.fileno(), sys.stdout.fileno())
        raise UserError(f"cannot write: {error.strerror}", where="standard output") from error


def compare(args: argparse.Namespace) -> dict:
    """Return the result of the comparison, as in schemas/kappa.schema.json. Raises UserError."""
    from acapella_core import kappa  # noqa: PLC0415 - the native core

    from . import replay_result, result, selection  # noqa: PLC0415

    trials = [files_of(argument) for argument in args.trials]
    names = names_of(args.name, len(trials))
    within = bounds_of(args.within)
    check_output(args.output, trials)
    begin, end, relative = selection.span(args.begin, args.end)
    rule = identity_rule(args)
    resources = {"memory_bytes": size_bytes(args.memory), "spool": args.spool}
    resources["limits"] = decompression.limits_of(args)
    replay = replay_result.replay_of(args, len(trials))
    windows, window_ns = windows_of(args)
    flow = selection.flow(args.flow)
    frames, filter_of = None, {"filter": args.filter}
    if args.filter is not None:
        frames, version = selection.matching_frames(
            args.filter, [path for trial in trials for path in trial], resources["limits"]
        )
        filter_of["tshark"] = version
    packet_selection = kappa.Selection(frames=frames, flow=flow, from_ns=begin, to_ns=end, relative=relative)
    native = kappa.compare(
        trials,
        pairs=pairs_of(len(trials), args.all_pairs),
        identity=kappa.IdentityRule(**rule),
        selection=packet_selection,
        within_ns=within,
        windows=windows,
        window_ns=window_ns,
        **resources,
        hash_files=args.sha256,
        progress=Progress() if args.progress else None,
    )
    parameters = {
        "identity": {**rule, "regions": [list(region) for region in rule["regions"]]},
        **{**filter_of, "flow": args.flow, "from": args.begin, "to": args.end},
        **{"within_ns": within, "windows": windows, "window_ns": window_ns, "all_pairs": args.all_pairs},
        "replay": replay and replay.parameters(),
    }
    note_same_files(trials, names)
    options = {"identity": kappa.IdentityRule(**rule), **resources}
    separated = replay and replay_result.pair_results(replay, trials, names, native, options)
    truncated = truncated_frames(native, trials, rule["kind"], packet_selection, resources)
    return result.document(native, names, parameters, truncated, separated)


def truncated_frames(native: dict, trials: list[list[str]], kind: str, packet_selection, resources: dict) -> list[int]:
    """Return for each trial the number of truncated frames if most packets lack their tag or region, else 0.

    The core counts truncated frames only among the compared packets, and if the snap length removed every trailer, no
    packet is compared. Such trials are reread with whole frames as identity, which only the shortest truncated frames
    lack.
    """
    from acapella_core import kappa  # noqa: PLC0415

    counts = []
    for paths, trial in zip(trials, native["trials"], strict=True):
        if kind not in ("tag", "regions") or trial["without_identity"] <= trial["packets"]:
            counts.append(0)
            continue
        frame = kappa.IdentityRule(kind="frame")
        result = kappa.compare([paths], pairs=[], identity=frame, selection=packet_selection, **resources)
        (trial_of_frames,) = result["trials"]
        counts.append(trial_of_frames["without_identity"] + sum(file["truncated"] for file in trial_of_frames["files"]))
    return counts


def files_of(argument: str) -> list[str]:
    """Return the captures of one trial. A file whose name contains a comma is one capture. Raises UserError."""
    parts = [argument] if "," not in argument or Path(argument).is_file() else argument.split(",")
    for part in parts:
        if not part:
            raise UserError("empty file name in a trial", where=argument, fix="write A1.pcap,A2.pcap")
        if not Path(part).exists():
            raise UserError("no such file", where=part)
    return parts


def note_same_files(trials: list[list[str]], names_: list[str]) -> None:
    """Report trials that consist of the same files, because they are the same trial: their kappa is always 1."""
    same: dict[tuple[Path, ...], list[str]] = {}
    for name, paths in zip(names_, trials, strict=True):
        same.setdefault(tuple(sorted(Path(path).resolve() for path in paths)), []).append(name)
    for paths, group in same.items():
        if len(group) > 1:
            files_ = ", ".join(path.name for path in paths)
            names.report(f"acapella: note: trials {', '.join(group)} are the same file ({files_}): kappa is 1")


def check_output(output: str | None, trials: list[list[str]]) -> None:
    """Raise UserError if the output is one of the captures or its directory does not exist, before hours of reading."""
    if not output:
        return
    if Path(output).resolve() in {Path(path).resolve() for trial in trials for path in trial}:
        raise UserError("this is one of the captures", where=output, fix="choose a different file for the result")
    if not Path(output).resolve().parent.is_dir():
        raise UserError("no such directory", where=Path(output).parent, fix="create it, or choose a different one")


def names_of(given: list[str] | None, count: int) -> list[str]:
    """Return a name for each trial: ``given``, or A, B, ..., Z, A1, B1, ... Raises UserError."""
    if count < 2:
        raise UserError("a single trial cannot be compared", fix="specify two or more captures")
    letters = string.ascii_uppercase
    chosen = given or [letters[n % 26] + (str(n // 26) if n >= 26 else "") for n in range(count)]
    if len(chosen) != count:
        raise UserError(f"{len(chosen)} names for {count} trials", where="--name")
    if "" in chosen or len(set(chosen)) < count:
        raise UserError("trial names must be unique and not empty", where="--name")
    return [names.label(name, "--name") for name in chosen]


def pairs_of(count: int, all_pairs: bool) -> list[tuple[int, int]]:
    """Return the indices of the trials to compare: the first trial with each of the others, or all pairs."""
    return [(a, b) for a in range(count if all_pairs else 1) for b in range(a + 1, count)]


def bounds_of(given: list[str] | None) -> list[int]:
    """Return the bounds of --within without duplicates. Raises UserError."""
    from acapella.common.quantities import MAX_NS, whole_number  # noqa: PLC0415

    if not given:
        return list(WITHIN_NS)
    return list(dict.fromkeys(whole_number(text, 0, MAX_NS, "--within", "ns") for text in given))


def windows_of(args: argparse.Namespace) -> tuple[int | None, int | None]:
    """Return the number of windows, or the length of a window in ns. Raises UserError."""
    from acapella.common.quantities import whole_number  # noqa: PLC0415

    from .selection import window_ns  # noqa: PLC0415

    if args.window is not None:
        return None, window_ns(args.window)
    if args.windows is None:
        return WINDOWS, None
    return whole_number(args.windows, 1, MAX_WINDOWS, "--windows"), None


def identity_rule(args: argparse.Namespace) -> dict:
    """Return the arguments of the core's IdentityRule. Raises UserError."""
    if bool(args.region) != (args.identity == "regions"):
        fix = "write --identity regions --region OFFSET:LENGTH, in bytes, such as 42:16"
        raise UserError("--region and --identity regions require each other", fix=fix)
    return {
        "kind": args.identity,
        "l4_checksum": not args.no_l4_checksum,
        "regions": tuple(region_of(text) for text in args.region or ()),
        "tag": "auto",
    }


def region_of(text: str) -> tuple[int, int]:
    """Return ``OFFSET:LENGTH`` in bytes. Raises UserError."""
    match = REGION.fullmatch(text)
    if not match or int(match[2]) == 0:
        raise UserError(f"{text!r} is not a region", fix="write OFFSET:LENGTH in bytes, such as 42:16")
    return int(match[1]), int(match[2])


class Progress:
    """Prints the number of bytes read, at most every PROGRESS_INTERVAL_S."""

    def __init__(self):
        self._printed = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._printed >= PROGRESS_INTERVAL_S:
            self._printed = now
            names.report(f"kappa: {done / 1e6:,.0f} of {total / 1e6:,.0f} MB read")
