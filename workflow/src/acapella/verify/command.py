"""Compare the digest of captures with tshark, frame by frame.

    acapella verify trace.pcap
    acapella verify captures/ --engine native --jobs 2

Digests every FILE, runs tshark on the same file with the preferences recorded in each digest (among others, without
reassembly, so that a frame does not depend on earlier ones), and counts the frames on which both agree, for each layer:
time, lengths, header tokens of the link, network and transport layers (including tunnels), addresses, ports, VLAN ids,
MPLS labels, identifiers of tunnels, TCP flags, sequence and acknowledgment numbers, and the complete frame.protocols.
In a directory, every capture is compared; skipped files are listed on standard error with the reason. Frames affected
by a known tshark error are counted separately (schemas/tshark_errata.yaml lists each error with the clause of the
standard).

Damaged captures are not compared, because tshark ends with an error; standard error lists each with the number of
frames in its digest. For a truncated capture, the complete frames are compared, and a line reports their number.

Prints every kind of disagreement with its first frames and both results: layers 2 to 4 first, then times and lengths,
then everything above layer 4. A kind is a layer or, for header tokens, a pair of results. Also lists the first frames
that were not compared. The output does not depend on --jobs.

Exit codes:

    0  all FILEs were compared, and no disagreement is printed (known tshark errors do not count)
    1  there is a disagreement on any layer, or a FILE could not be compared (files in a directory are only counted),
       but at least one file was compared
    2  no file could be compared

With --tshark-command, prints the command that reads each FILE, with all preferences and fields of the comparison, and
compares nothing. In a shell, it prints one line per frame: the fields in the order of the options -e, tab-separated.
To print all headers of frame N, replace the options of this command from -T to the last -e with:
-V -Y frame.number==N

Above layer 4, digests of engines native and hybrid may differ from tshark on frames that were not passed to it. The
last line counts the frames with a disagreement on a layer that the core decoded, not tshark.
"""

import argparse
import os
import shlex
import sys
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from acapella_core import decompression, names
from acapella_core.errors import DAMAGED, OUTSIDE, UserError, exit_code_of
from acapella_core.files import scratch_directory

from . import captures
from .results import DEFAULT_EXAMPLES, Result, print_result

PROGRESS_S = 1.0  # between two lines of --progress


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella verify`."""
    parser = subparsers.add_parser(
        "verify",
        help="compare the digest of captures with tshark, frame by frame",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", metavar="FILE|DIR", nargs="+", help="captures, or directories of captures")
    parser.add_argument(
        "--engine",
        choices=("hybrid", "native", "tshark"),
        default="hybrid",
        help="dissection engine of the digest (default: hybrid)",
    )
    parser.add_argument(
        "--first",
        type=int,
        default=DEFAULT_EXAMPLES,
        metavar="N",
        help=f"frames to print of each kind (default: {DEFAULT_EXAMPLES})",
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files compared at the same time (default: 1)")
    parser.add_argument("--progress", action="store_true", help="print numbers of files and frames on standard error")
    parser.add_argument(
        "--tshark-command", action="store_true", help="print the tshark command for each FILE, and compare nothing"
    )
    decompression.add_options(parser)
    return parser


def confine(_: argparse.Namespace) -> None:
    """Confine this process, which reads captures and only writes to TMPDIR."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(starts=True)


def run(args: argparse.Namespace) -> int | None:
    """Compare the captures, print the result, and return the exit code; or print the commands of tshark."""
    if args.jobs < 1:
        raise UserError("--jobs must be at least 1", where=args.jobs)
    files, skipped = captures.find_captures(args.paths)
    if args.tshark_command:
        return print_commands(files)
    first = max(args.first, 0)
    limits = decompression.limits_of(args)
    results = compare_all(list(files), args.engine, first, args.jobs, progress=args.progress, limits=limits)
    total = Result()
    for result in results:
        total.add(result, first)
    print_result(total, skipped)
    if not total.files:
        raise UserError("no capture could be compared", where=" ".join(args.paths), fix=captures.KINDS)
    has_missed_file = any(
        is_named and not result.files for is_named, result in zip(files.values(), results, strict=True)
    )
    return DAMAGED if total.disagreements or has_missed_file else 0


def print_commands(files: Iterable[Path]) -> None:
    """Print the shell command that runs tshark on each file."""
    from acapella.common import tshark  # noqa: PLC0415 - slow to import
    from acapella_core import _native  # noqa: PLC0415

    variables = [f"{name}={value}" for name, value in tshark.environment().items() if name != "PATH"]
    command = shlex.join(["env", *variables, *tshark.find().command(_native.REFERENCE_FIELDS)])
    for file in files:
        print(f"{command} < {shlex.quote(str(file))}")


def compare_all(  # noqa: PLR0913 - independent choices
    files: list[Path], engine: str, first: int, jobs: int, *, progress: bool, limits=None
) -> list[Result]:
    """Compare ``jobs`` files in parallel and return the results in the order of ``files``."""
    from acapella.common import tshark  # noqa: PLC0415 - slow to import

    report = Progress(len(files)) if progress else None
    compare_file = partial(
        compare, engine=engine, first=first, threads=max((os.cpu_count() or 1) // jobs, 1), limits=limits
    )
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures: list[Future[Result]] = [pool.submit(compare_file, file) for file in files]
        try:
            for future in as_completed(futures):
                result = future.result()
                if report:
                    report.add(result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            tshark.stop_all()  # otherwise the pool waits for every running comparison
            raise
    if report:
        report.print()
    return [future.result() for future in futures]


def compare(file: Path, engine: str, first: int = DEFAULT_EXAMPLES, threads: int = 1, limits=None) -> Result:
    """Compare one file and return the result, which names the ``first`` frames of each kind."""
    from . import comparison, tables  # noqa: PLC0415 - pyarrow and DuckDB are slow to import

    result, ours = Result(), None
    with scratch_directory() as directory:
        try:
            ours = tables.write_our_digest(file, engine, directory, limits)
            if ours.fault:
                raise UserError(ours.fault, where=file)
            theirs = tables.write_tshark_digest(file, directory, limits)
        except UserError as error:
            if exit_code_of(error) == OUTSIDE:
                raise
            frames = tables.count_frames(ours) if ours else 0
            result.not_compared.append(f"{error}{f'; none of its {frames:,} frames is compared' if frames else ''}")
            return result
        if ours.truncation:
            frames = names.pluralize(tables.count_frames(ours), "complete frame")
            result.notes.append(f"{file}: truncated {ours.truncation}; compared: {frames}")
        with comparison.open_database(threads) as database:
            comparison.Comparison(database, ours, theirs, file, first).add_to(result)
    result.files = 1
    if theirs.blocks_not_frames:
        result.notes.append(f"{file}: {theirs.blocks_not_frames:,} blocks that are not frames; tshark numbers them")
    return result


class Progress:
    """Prints the numbers of compared files and frames, at most once per PROGRESS_S seconds."""

    def __init__(self, files: int):
        self._files = files
        self._done = self._frames = 0
        self._printed = time.monotonic()

    def add(self, result: Result) -> None:
        """Add the result of one file."""
        self._done += 1
        self._frames += result.frames
        if time.monotonic() - self._printed >= PROGRESS_S:
            self.print()

    def print(self) -> None:
        """Print the counts so far."""
        self._printed = time.monotonic()
        files, frames = names.pluralize(self._files, "file"), names.pluralize(self._frames, "frame")
        print(f"verify: {self._done} of {files}, {frames}", file=sys.stderr)
