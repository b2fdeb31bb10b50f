"""How consistent a network was: trials of the same traffic in, U, O, L, I and kappa out.

    acapella kappa A.pcap B.pcap C.pcap
    acapella kappa A1.pcap,A2.pcap B1.pcap,B2.pcap --json -o ab.json

Each argument is one trial: a capture that `acapella digest` reads, or several of one trial (one per queue) with commas
between them, merged in the order of their stamps. The first trial is the baseline that the others are compared with.
U is about packets missing or extra, O about their order, L about latency, I about the gaps between packets; kappa is 1
where all of them are 0 (CHOIR, SC'25 workshops, section 3). docs/kappa.md derives each number and says what it cannot
tell; schemas/kappa.schema.json describes the JSON.
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
from acapella_core.arguments import size_bytes
from acapella_core.errors import UserError

WINDOWS = 50  # over the longer trial: as many bars as fit a line
MOST_WINDOWS = 10_000
WITHIN_NS = (10,)  # the paper's bound
PROGRESS_S = 1.0  # between two lines of --progress
REGION = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")  # no frame is longer


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella kappa`."""
    parser = subparsers.add_parser(
        "kappa",
        help="how consistent trials of the same traffic are",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "trials", metavar="TRIAL", nargs="+", help="a capture, or several of one trial: A1.pcap,A2.pcap"
    )
    parser.add_argument("--all-pairs", action="store_true", help="each trial with each other one")
    parser.add_argument("--name", metavar="NAME", nargs="+", action="extend", help="of each trial (default: A, B, ...)")
    add_identity(parser.add_argument_group("how a packet is known again"))
    add_selection(parser.add_argument_group("which packets take part (default: all)"))
    parser.add_argument(
        "--within",
        metavar="NS",
        nargs="+",
        action="extend",
        help="bounds for the share of common packets whose gap changed by at most so many ns (default: 10)",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--windows", metavar="N", help=f"windows of the timeline, at most (default: {WINDOWS})")
    length.add_argument("--window", metavar="DURATION", help="length of a window instead, as 10ms; without a unit in s")
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        default="2G",
        help="memory limit, as 512M; packets that exceed it are compared through files in TMPDIR (default: 2G); a long "
        "block of packets out of order, some 100 bytes a packet, ends the command with exit code 75",
    )
    decompression.add_options(parser)
    parser.add_argument("--spool", metavar="DIRECTORY", help="of what is on disk then (default: TMPDIR, else /tmp)")
    parser.add_argument("--json", action="store_true", help="JSON on standard output; with -o nothing there")
    parser.add_argument("-o", dest="output", metavar="FILE.json", help="write the JSON there")
    parser.add_argument("--sha256", action="store_true", help="record it for every file, also where it is not needed")
    parser.add_argument(
        "--damaged",
        choices=["fail", "keep"],
        default="fail",
        help="a capture whose bytes are damaged: exit 1, or 0 as for one that is cut (default: fail)",
    )
    parser.add_argument("--progress", action="store_true", help="what has been read, on standard error")
    return parser


def add_identity(group) -> None:
    """The options of the identity rule."""
    group.add_argument(
        "--identity",
        choices=["invariant", "tag", "regions", "frame"],
        default="invariant",
        help="invariant: what no hop changes, from the innermost IP header on (default); tag: a replayer's trailer; "
        "regions: bytes that --region names; frame: the whole frame",
    )
    group.add_argument("--no-l4-checksum", action="store_true", help="leave it out: offload fills it in behind us")
    group.add_argument(
        "--region", metavar="OFFSET:LENGTH", nargs="+", action="extend", help="bytes from the frame's start on"
    )


def add_selection(group) -> None:
    """The options that select packets."""
    group.add_argument(
        "--filter", metavar="DISPLAY_FILTER", help="frames that tshark shows for it, as 'udp.port == 53'"
    )
    group.add_argument("--flow", metavar="SRC[:PORT],DST[:PORT][,PROTOCOL]", help="one directed flow, innermost ends")
    group.add_argument("--from", dest="begin", metavar="TIME", help="as 1.5s since the trial's first packet, or ISO")
    group.add_argument("--to", dest="end", metavar="TIME", help="the same; not part of it")


def confine(args: argparse.Namespace) -> None:
    """Take rights from this process, which reads captures."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - the start of `--help` stays quick

    confine_self(args.output, args.spool and Path(args.spool, "spooled"), starts=True)


def run(args: argparse.Namespace) -> int:
    """Compare; 1 where a capture's bytes are damaged and ``--damaged keep`` is not given, 0 otherwise."""
    result = compare(args)
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    if args.output:
        files.atomic_text(args.output, text)
    if not args.json:
        from . import summary  # noqa: PLC0415 - as compare: the start stays quick

        to_standard_output(summary.text(result))
    else:  # in a file of JSON nobody sees it
        for line in nothing_selected(result):
            names.report(f"acapella: warning: {line}")
        if not args.output:
            to_standard_output(text)
    damaged = [file["file"] for trial in result["trials"] for file in trial["files"] if file["end"] in DAMAGING]
    fails = bool(damaged) and args.damaged == "fail"
    if damaged:
        said = f"{', '.join(damaged)}: damaged, its frames may be wrong; the comparison is made of what could be read"
        code = "; exit code 1 (0: --damaged keep)" if fails else ""
        names.report(f"acapella: {'error' if fails else 'warning'}: {said}{code}")
    return int(fails)


def nothing_selected(result: dict) -> list[str]:
    """What is said of trials without a packet, each once."""
    warnings = [warning for pair in result["pairs"] for warning in pair["warnings"]]
    return list(dict.fromkeys(warning["text"] for warning in warnings if warning["code"] == "empty_trial"))


def to_standard_output(text: str) -> None:
    """Print all of it. Raises UserError where it does not fit, as on a full disk."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # `acapella kappa ... | head`
    except OSError as error:
        with Path(os.devnull).open("w") as nowhere:  # what is left in the buffer is not tried again at the end
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise UserError(f"cannot write: {error.strerror}", where="standard output") from error


def compare(args: argparse.Namespace) -> dict:
    """The result of the command line's comparison, as schemas/kappa.schema.json has it. Raises UserError."""
    from acapella_core import consistency  # noqa: PLC0415 - the native core

    from . import result, selection  # noqa: PLC0415

    trials = [files_of(argument) for argument in args.trials]
    names = names_of(args.name, len(trials))
    within = bounds_of(args.within)
    check_output(args.output, trials)
    begin, end, relative = selection.span(args.begin, args.end)
    rule = identity_rule(args)
    room = {"memory_bytes": size_bytes(args.memory), "spool": args.spool}
    room["limits"] = decompression.limits_of(args)
    windows, window_ns = windows_of(args)
    flow = selection.flow(args.flow)
    frames, filter_of = None, {"filter": args.filter}
    if args.filter is not None:
        frames, version = selection.filtered(args.filter, [path for trial in trials for path in trial], room["limits"])
        filter_of["tshark"] = version
    chosen = consistency.Selection(frames=frames, flow=flow, from_ns=begin, to_ns=end, relative=relative)
    native = consistency.compare(
        trials,
        pairs=pairs_of(len(trials), args.all_pairs),
        identity=consistency.IdentityRule(**rule),
        selection=chosen,
        within_ns=within,
        windows=windows,
        window_ns=window_ns,
        **room,
        hash_files=args.sha256,
        progress=Progress() if args.progress else None,
    )
    parameters = {
        "identity": {**rule, "regions": [list(region) for region in rule["regions"]]},
        **filter_of,
        "flow": args.flow,
        "from": args.begin,
        "to": args.end,
        "within_ns": within,
        "windows": windows,
        "window_ns": window_ns,
        "all_pairs": args.all_pairs,
    }
    cut = cut_frames(native, trials, rule["kind"], chosen, room)
    return result.document(native, names, parameters, cut)


def cut_frames(native: dict, trials: list[list[str]], kind: str, chosen, room: dict) -> list[int]:
    """For each trial in which most packets lack their tag or region, the frames that the capture cut; else 0.

    The core counts cut frames among those that take part. Where a snap length took the trailer off none does, so
    they are read once more as whole frames, which lack an identity only where they were cut to next to nothing.
    """
    from acapella_core import consistency  # noqa: PLC0415

    found = []
    for paths, trial in zip(trials, native["trials"], strict=True):
        if kind not in ("tag", "regions") or trial["without_identity"] <= trial["packets"]:
            found.append(0)
            continue
        frame = consistency.IdentityRule(kind="frame")
        again = consistency.compare([paths], pairs=[], identity=frame, selection=chosen, **room)
        (whole,) = again["trials"]
        found.append(whole["without_identity"] + sum(file["truncated"] for file in whole["files"]))
    return found


def files_of(argument: str) -> list[str]:
    """The captures of one trial; a file whose name has a comma in it is taken as it is. Raises UserError."""
    parts = [argument] if "," not in argument or Path(argument).is_file() else argument.split(",")
    for part in parts:
        if not part:
            raise UserError("a trial names an empty file", where=argument, fix="write A1.pcap,A2.pcap")
        if not Path(part).exists():
            raise UserError("there is no such file", where=part)
    return parts


def check_output(output: str | None, trials: list[list[str]]) -> None:
    """Raise UserError where the result would take a capture's place, or has no directory: before hours of reading."""
    if not output:
        return
    if Path(output).resolve() in {Path(path).resolve() for trial in trials for path in trial}:
        raise UserError("this is one of the captures", where=output, fix="name another file for the result")
    if not Path(output).resolve().parent.is_dir():
        raise UserError("there is no such directory", where=Path(output).parent, fix="make it, or name another one")


def names_of(given: list[str] | None, count: int) -> list[str]:
    """A name for each trial: A, B, ..., Z, A1, B1, ... where none is given. Raises UserError."""
    if count < 2:
        raise UserError("one trial alone has nothing to be compared with", fix="name two captures or more")
    letters = string.ascii_uppercase
    chosen = given or [letters[n % 26] + (str(n // 26) if n >= 26 else "") for n in range(count)]
    if len(chosen) != count:
        raise UserError(f"{len(chosen)} names for {count} trials", where="--name")
    if "" in chosen or len(set(chosen)) < count:
        raise UserError("every trial needs a name of its own", where="--name")
    return [names.label(name, "--name") for name in chosen]


def pairs_of(count: int, all_pairs: bool) -> list[tuple[int, int]]:
    """Indices of the trials to compare: the first with each other one, or each with each later one."""
    return [(a, b) for a in range(count if all_pairs else 1) for b in range(a + 1, count)]


def bounds_of(given: list[str] | None) -> list[int]:
    """The bounds of --within, once each. Raises UserError."""
    from acapella.common.quantities import LARGEST, whole  # noqa: PLC0415

    if not given:
        return list(WITHIN_NS)
    return list(dict.fromkeys(whole(text, 0, LARGEST, "a bound of --within in ns") for text in given))


def windows_of(args: argparse.Namespace) -> tuple[int | None, int | None]:
    """How many windows, or how long one is in ns. Raises UserError."""
    from acapella.common.quantities import whole  # noqa: PLC0415

    from .selection import window_ns  # noqa: PLC0415

    if args.window is not None:
        return None, window_ns(args.window)
    if args.windows is None:
        return WINDOWS, None
    return whole(args.windows, 1, MOST_WINDOWS, "a number of --windows"), None


def identity_rule(args: argparse.Namespace) -> dict:
    """The arguments of the core's IdentityRule. Raises UserError."""
    if bool(args.region) != (args.identity == "regions"):
        fix = "write --identity regions --region OFFSET:LENGTH, in bytes, as 42:16"
        raise UserError("--region and --identity regions go together", fix=fix)
    return {
        "kind": args.identity,
        "l4_checksum": not args.no_l4_checksum,
        "regions": tuple(region_of(text) for text in args.region or ()),
        "tag": "auto",
    }


def region_of(text: str) -> tuple[int, int]:
    """``OFFSET:LENGTH`` in bytes. Raises UserError."""
    found = REGION.fullmatch(text)
    if not found or int(found[2]) == 0:
        raise UserError(f"{text!r} is not a region", fix="write OFFSET:LENGTH in bytes, as 42:16")
    return int(found[1]), int(found[2])


class Progress:
    """Prints how far reading is, now and then."""

    def __init__(self):
        self._printed = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._printed >= PROGRESS_S:
            self._printed = now
            names.report(f"kappa: {done / 1e6:,.0f} MB read; the files have {total / 1e6:,.0f} MB")
