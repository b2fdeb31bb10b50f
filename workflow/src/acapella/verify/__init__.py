"""Compare our digest of captures with tshark, frame by frame.

Digests every FILE, lets tshark dissect the whole file itself with the preferences that every digest records, and counts
on how many frames both agree, layer by layer: time, lengths, header tokens of the link, network and transport layers
(tunnels among them), addresses, ports, VLAN ids, MPLS labels, identifiers of tunnels, TCP flags and numbers, and the
whole of frame.protocols.
Of a folder, every capture in it. Where tshark is known to err, a frame is counted apart (schemas/tshark_errata.yaml
names each case with the standard's clause).

Prints the first disagreements with both answers, and names the first frames of whatever was not compared. Exit code 0
where every frame that the core decided agrees on layers 2 to 4, errata apart; 1 where one does not, or where a FILE
could not be compared (in a folder, such are counted). What stands above layer 4 may differ on frames that tshark did
not see.
"""

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from acapella_core.errors import UserError
from acapella_core.files import temporary_folder

FIRST = 10  # frames named of each kind
UNCOMPARED = {  # layers that are not compared on every frame, and why
    "time": "neither has a plausible one",
    "vlan": "the digest says none: no flow, and the header is cut or tshark's answer was taken",
    "mpls": "the digest says none: no flow, and the header is cut or tshark's answer was taken",
    "tunnels": "the digest has none: no flow, and the header is cut or tshark's answer was taken",
    "above layer 4": "the core, on its own, left it undecided",
}
CAPTURES = tuple(kind + packed for kind in (".pcap", ".pcapng", ".cap") for packed in ("", ".gz", ".zst", ".lz4"))


@dataclass
class Tally:
    """Frames of one layer."""

    agree: int = 0
    errata: int = 0
    differ: int = 0


@dataclass
class Places:
    """Some frames: how many, and the first of them as file:frame."""

    frames: int = 0
    first: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        more = ", ..." if 0 < len(self.first) < self.frames else ""
        return f"{self.frames:,} frames" + (f" ({', '.join(self.first)}{more})" if self.first else "")


@dataclass
class Result:
    """Counts over all files."""

    frames: int = 0
    native: int = 0
    files: int = 0
    tallies: dict[str, Tally] = field(default_factory=dict)
    left_out: dict[str, Places] = field(default_factory=dict)  # by layer: not compared there
    errata: dict[str, Places] = field(default_factory=dict)
    faults: int = 0  # frames with an unexplained disagreement of what the core decided, or with no partner
    not_compared: list[str] = field(default_factory=list)

    def tally(self, layer: str) -> Tally:
        """The counts of a layer."""
        return self.tallies.setdefault(layer, Tally())


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella verify`."""
    parser = subparsers.add_parser(
        "verify",
        help="compare our digest with tshark, frame by frame",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", metavar="FILE|DIR", nargs="+", help="captures, or folders of captures")
    parser.add_argument("--engine", choices=("hybrid", "native", "tshark"), default="hybrid", help="of our digest")
    parser.add_argument("--first", type=int, default=FIRST, metavar="N", help=f"frames to name of each kind ({FIRST})")
    return parser


def run(args: argparse.Namespace) -> int:
    """Compare, print, and say whether all is well."""
    files = captures(args.paths)
    result = Result()
    shown = 0
    missed = []
    for file, named in files.items():
        before = result.files
        shown += len(compare(file, args.engine, args.first - shown, result, named=args.first))
        if named and result.files == before:
            missed.append(file)
    print_result(result)
    if not result.files:
        raise UserError("no capture could be compared", where=" ".join(args.paths))
    return 1 if result.faults or missed else 0


def captures(paths: list[str]) -> dict[Path, bool]:
    """The files named (true), and those with a capture's suffix in the folders named, in order. Raises UserError."""
    found: dict[Path, bool] = {}
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(CAPTURES))
            found |= {file: found.get(file, False) for file in inside}
        elif path.is_file():
            found[path] = True
        else:
            raise UserError("no such file or folder", where=path)
    if not found:
        raise UserError("there is no capture", where=" ".join(paths), fix=f"known suffixes: {' '.join(CAPTURES)}")
    return found


def compare(file: Path, engine: str, first: int, result: Result, named: int = FIRST) -> list[tuple]:
    """Add one file to ``result`` and print its first disagreements; returns those printed.

    ``named``: how many frames ``result`` names of each other kind.
    """
    from . import comparison, tables  # noqa: PLC0415 - pyarrow and DuckDB are slow to import

    with tempfile.TemporaryDirectory(prefix="acapella-verify-", dir=temporary_folder()) as folder:
        try:
            ours = tables.our_tables(file, engine, Path(folder))
            theirs = tables.tshark_tables(file, Path(folder))
        except UserError as error:
            result.not_compared.append(str(error))
            return []
        compared = comparison.Comparison(ours, theirs, file, max(named, 0))
    result.files += 1
    if theirs.blocks_not_frames:
        print(f"{file}: {theirs.blocks_not_frames:,} blocks that are not frames; tshark numbers them")
    compared.add_to(result)
    disagreements = compared.first(max(first, 0))
    for frame, layer, answer, reference in disagreements:
        print(f"{file}: frame {frame}, {layer}: ours {answer!r}, tshark {reference!r}")
    return disagreements


def print_result(result: Result) -> None:
    """The table of layers, errata by name, and what could not be compared."""
    for line in result.not_compared:
        print(f"not compared: {line}", file=sys.stderr)
    if not result.files:
        return
    if result.not_compared:
        print(f"{len(result.not_compared)} files not compared", file=sys.stderr)
    share = 100 * result.native / result.frames if result.frames else 100.0
    print(f"\n{result.files} files, {result.frames:,} frames; the core decided layers 2 to 4 of {share:.3f} %")
    print(f"{'':14}{'agree':>13}{'errata':>11}{'differ':>11}{'agree of the rest':>20}")
    for layer, tally in result.tallies.items():
        rest = tally.agree + tally.differ
        print(
            f"{layer:14}{tally.agree:13,}{tally.errata:11,}{tally.differ:11,}"
            f"{100 * tally.agree / rest if rest else 100:18.3f} %"
        )
    for layer, why in UNCOMPARED.items():
        if layer in result.left_out and result.left_out[layer].frames:
            print(f"not compared, {layer} ({why}): {result.left_out[layer]}")
    for name, places in sorted(result.errata.items()):
        print(f"erratum {name}: {places}")
    print(f"unexplained on what the core decided: {result.faults:,} frames")
