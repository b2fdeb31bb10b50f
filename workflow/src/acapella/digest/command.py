"""Convert a capture to a frame table (acap) and a flow table.

    acapella digest trace.pcap -o trace.parquet --flows trace.flows.parquet
    acapella digest queue0.pcap queue1.pcap -o trace.acap.parquet --engine native

The acap contains one row per frame (header stack, time, lengths, flow, fields of TCP); the flow table contains one row
per directed flow. schemas/tables/frames.yaml and flows.yaml describe every column. IN is a pcap or pcapng file,
optionally compressed with gzip, zstd or lz4, or - for standard input. Several captures (one per queue, or consecutive
files) are merged by timestamp; frames with equal timestamps are in the order of the files. The frame table then has a
column `file` with the name of each frame's file, without directories. Output files are either complete or absent. The
same input and options produce identical files, for any number of --threads.

Engines:

    native  dissects layers 2 to 4 and marks frames whose headers it cannot determine
    hybrid  also passes a selection of the payload frames of every flow, and the frames that native marks, to tshark
    tshark  passes every frame to tshark

Exit codes:

    0    the files contain the whole capture, or all frames of a truncated one (a warning gives the offset)
    1    files were written, but the capture is damaged: frames are missing or wrong (0 with --damaged keep)
    2    nothing was written
    75   nothing was written, because a limit on memory or time was exceeded, or because of the machine (a full disk)
    130  interrupted

Snakemake keeps output only if the command exits with 0. To keep the packets before the damage, run
`editcap BAD.pcap GOOD.pcap`; to skip the sample, set `exclude: [SAMPLE]` in the config.

To join both files in a view, in any DuckDB client:

  create view frames as select f.*, w.* exclude (flow, app_by) from 'acap/x.parquet' f
      left join 'flows/x.parquet' w using (flow);
"""

import argparse
import contextlib
import importlib
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from acapella import __version__
from acapella.common.faults import DAMAGING, describe_fault
from acapella.common.time_limit import time_limit
from acapella_core import decompression, files, names
from acapella_core.arguments import output_file, size_bytes
from acapella_core.errors import UserError

from . import duration
from .duration import MAX_TIMEOUT_S

# Each module has open_digest(source, options). The object that it returns has the methods of native.NativeDigest.
ENGINES = {
    "native": "acapella.digest.native",
    "hybrid": "acapella.digest.hybrid",
    "tshark": "acapella.digest.hybrid",
}

UNREADABLE = "unsupported_link_type"  # value of column `issue` of frames
PRIVATE_LINK_TYPES = range(147, 163)  # LINKTYPE_USER0 to USER15: tshark knows their names but does not dissect them

MEMORY = "2G"
MEMORY_POOL = ("ARROW_DEFAULT_MEMORY_POOL", "system")  # Arrow's other pools retain 12 MiB for a few pages
ANSWER_S = 120.0  # default of acapella.common.tshark, which is slow to import
# Precedes the part of an error that applies only to the command line; reports of campaigns omit it.
ADVICE = "; exit code 1: "
REPAIR = "accept the frames before the damage (--damaged keep), or repair the capture (editcap)"
AS_TEXT = "to print columns as text: acapella show ACAP.parquet --columns frame,ts_ns,stack"


@dataclass(frozen=True)
class Options:
    """Options of a digest. `threads` does not affect the result."""

    engine: str
    deep_frames: tuple[int, ...] = ()
    site: str | None = None
    port: str | None = None
    threads: int = 1
    limits: object = None  # _native.DecompressionLimits; None: defaults of the core
    memory: str = MEMORY
    answer_s: float = ANSWER_S

    def core_arguments(self) -> dict:
        """Return the limits as arguments of the core. Raises UserError if the memory limit is not a size."""
        from acapella_core import _native  # noqa: PLC0415 - keeps `--help` fast

        return {"limits": self.limits or _native.DecompressionLimits(), "memory_bytes": size_bytes(self.memory)}

    def parameters(self) -> dict:
        """Return the parameters recorded in the metadata. `threads` is not recorded: it does not affect the result."""
        return {"deep_frames": list(self.deep_frames)}


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella digest`."""
    minutes = ", ".join(f"{minutes} ({engine})" for engine, minutes in duration.MINUTES_PER_GIB.items())
    parser = subparsers.add_parser(
        "digest",
        help="convert a capture to a frame table (acap) and a flow table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "sources", metavar="IN", nargs="+", help="pcap or pcapng, optionally compressed; - for standard input"
    )
    table = output_file("Parquet", advice=AS_TEXT)
    parser.add_argument("-o", dest="acap", metavar="ACAP.parquet", type=table, required=True, help="frame table")
    parser.add_argument(
        "--flows",
        metavar="FLOWS.parquet",
        type=table,
        help="flow table (default: X.flows.parquet for an ACAP X.parquet)",
    )
    parser.add_argument(
        "--engine", choices=sorted(ENGINES), default="hybrid", help="dissection engine (default: hybrid)"
    )
    parser.add_argument(
        "--deep-frames",
        metavar="K",
        type=int,
        nargs="+",
        default=[],
        help="engine hybrid: up to 3 numbers that select which payload frames tshark dissects in each direction of a "
        "flow: the number of frames at its start (default: 2), a budget for frames with new kinds of payload "
        "(default: 8), and N for the frames N, 4 N, 16 N, ... (default: 16)",
    )
    parser.add_argument("--site", help="site of the sample, part of every flow's key (default: null)")
    parser.add_argument("--port", help="mirrored port of the sample (default: null)")
    parser.add_argument(
        "--threads", type=int, choices=[1, 2], default=1, metavar="N", help="1, or 2: write while reading (default: 1)"
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        default=MEMORY,
        help="memory limit for flows and header stacks (about 330 bytes per flow), such as 512M; if a capture exceeds "
        "it, the exit code is 75. The rest of the program uses about 150M; tshark is not included (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--tshark-timeout",
        metavar="SECONDS",
        type=float,
        default=ANSWER_S,
        help="engines hybrid and tshark: timeout for the output of tshark, in seconds (default: %(default)g)",
    )
    decompression.add_options(parser)
    parser.add_argument(
        "--damaged",
        choices=["fail", "keep"],
        default="fail",
        help="exit code for a capture with damaged bytes: 1 (fail) or 0 (keep) (default: fail)",
    )
    parser.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        default=os.environ.get("ACAPELLA_CACHE") or None,
        help="use a digest of the same bytes in this cache, or store a new one there (default: $ACAPELLA_CACHE)",
    )
    parser.add_argument(
        "--cache-key",
        metavar="TEXT",
        help="versions of the code, of tshark and of the vendor list; --cache uses only digests with the same key "
        "(default: the installed versions)",
    )
    parser.add_argument(
        "--sha256",
        metavar="HEX",
        type=checksum,
        help="SHA-256 of the capture, according to its object store: --cache uses a digest of these bytes without "
        "reading the capture; if there is none, the capture is verified before it is digested",
    )
    parser.add_argument(
        "--max-seconds",
        metavar="SECONDS",
        type=float,
        help=f"time limit: this number of seconds, plus minutes for each GiB of input, according to the engine: "
        f"{minutes}. A compressed capture counts as {duration.COMPRESSED} times its size (default: none)",
    )
    parser.add_argument("--progress", action="store_true", help="print frames and rate on standard error")
    return parser


def checksum(text: str) -> str:
    """Return the value of --sha256. Raises ValueError if it is not a SHA-256."""
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise ValueError(text)
    return text


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads captures."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(args.acap, args.flows, args.cache and entries_directory(args.cache), starts=True)


def entries_directory(cache_directory: Path) -> Path | None:
    """Create the cache, and return a path in it, so that `confine_self` permits writes to the cache; None on an error.

    To create it later, the confined process would need to write to its parent, which may be the home directory.
    """
    from .cache import prepare_directory  # noqa: PLC0415 - only with --cache

    try:
        prepare_directory(cache_directory)
    except OSError:  # store() reports it
        return None
    return cache_directory / "entries"


def preload(args: argparse.Namespace) -> None:
    """Import what a digest uses, before `acapella campaign batch` forks a process for each sample."""
    os.environ.setdefault(*MEMORY_POOL)
    for module in ("acapella.digest.acap_files", "acapella.digest.node_digest", ENGINES[args.engine]):
        importlib.import_module(module)
    from acapella.common import vendors  # noqa: PLC0415
    from acapella_core import schemas  # noqa: PLC0415

    vendors.find()  # the lists and the version of tshark are cached, as are schemas
    for table in ("frames", "flows"):
        schemas.table(table)
    if args.cache:
        from . import installed  # noqa: PLC0415 - only with --cache

        installed.code_sha256()  # cached now, when the files are those of the loaded modules


def run(args: argparse.Namespace) -> int:
    """Digest one sample and return the exit code: 1 with an error if bytes of a capture are damaged, otherwise 0.

    A truncated capture only causes a warning. ``--damaged keep`` turns the error into a warning and the exit code into
    0; the output files do not change. One note summarizes oddities. The error is printed last, so that it is at the end
    of the log.
    """
    if not 0 < args.tshark_timeout <= MAX_TIMEOUT_S:
        raise UserError(f"--tshark-timeout must be above 0 and at most {MAX_TIMEOUT_S}", where=args.tshark_timeout)
    limits = decompression.limits_of(args)
    options = Options(
        args.engine,
        tuple(args.deep_frames),
        args.site,
        args.port,
        args.threads,
        limits=limits,
        memory=args.memory,
        answer_s=args.tshark_timeout,
    )
    flows = args.flows or str(default_flows_path(Path(args.acap)))
    check_paths(args.sources, args.acap, flows)
    name = name_of(args.sources)
    with time_limit(limit_s(args), where=name, fix="raise --max-seconds, or use --engine native"):
        if args.cache and len(args.sources) == 1 and args.sources[0] != "-":
            metadata = cached_digest(args, flows, options)
        else:
            metadata = digest(args.sources, args.acap, flows, options, progress=args.progress)
    damaged = metadata["file_issue"] in DAMAGING and args.damaged == "fail"
    if oddities := oddities_of(metadata):
        names.report(f"acapella: note: {name}: {oddities}")
    if unreadable := unreadable_of(metadata):
        names.report(f"acapella: warning: {name}: {unreadable}")
    if metadata["file_issue"] is not None:
        frames = metadata["frames"]
        rest = f"{frames_before(frames)}{ADVICE}{REPAIR}" if damaged else written_frames(frames)
        names.report(f"acapella: {'error' if damaged else 'warning'}: {name}: {describe_fault(metadata)}; {rest}")
    return int(damaged)


def limit_s(args: argparse.Namespace) -> float | None:
    """Return the time limit of a digest in seconds. Raises UserError if --max-seconds is not a number above 0."""
    if args.max_seconds is None:
        return None
    if not 0 < args.max_seconds <= MAX_TIMEOUT_S:
        raise UserError(f"--max-seconds must be above 0 and at most {MAX_TIMEOUT_S}", where=args.max_seconds)
    sizes = {source: Path(source).stat().st_size for source in args.sources if Path(source).is_file()}
    return duration.limit_s(args.max_seconds, args.engine, sizes)


def cached_digest(args: argparse.Namespace, flows: str, options: Options) -> dict:
    """Link the outputs to a digest of the cache, or compute and store it; return the metadata.

    If the capture or the program changes meanwhile, the digest is not stored. The checksum from storage is used only to
    find a digest: new digests are stored under the checksum of the bytes that were read. Raises UserError if the two
    checksums differ.
    """
    from . import cache, installed  # noqa: PLC0415 - only with --cache
    from .acap_files import FORMAT  # noqa: PLC0415 (pyarrow)
    from .acap_files import metadata_of as metadata_of_file  # noqa: PLC0415 (pyarrow)

    source, outputs = Path(args.sources[0]), [Path(args.acap), Path(flows)]
    if not source.is_file():
        return digest(args.sources, args.acap, flows, options, progress=args.progress)
    before = source.stat()
    dependencies = {
        "format": FORMAT,
        "version": __version__,  # it is in the metadata
        "engine": options.engine,
        "site": options.site,
        "port": options.port,
        "deep_frames": options.deep_frames,
        "limits": [str(args.max_decompressed), str(args.max_ratio)],
        "versions": args.cache_key or installed.versions(options.engine),
    }
    sha256 = args.sha256 or files.sha256_of(source)
    entries = cache.entries_of(args.cache, cache.key_of(sha256, dependencies))
    if cache.fetch(entries, outputs):
        names.report(f"acapella: note: {source}: from the cache {args.cache}")
        return metadata_of_file(args.acap)
    if args.sha256 and files.sha256_of(source) != args.sha256:
        raise UserError("does not have the SHA-256 of its object in storage", where=source, fix="fetch it again")
    metadata = digest(args.sources, args.acap, flows, options, progress=args.progress)
    after = source.stat()
    if not installed.is_described(options.engine):
        changed = "Acapella, tshark or the vendor list was changed during the run"
        names.report(f"acapella: warning: {source}: the digest is not cached, because {changed}")
    elif (before.st_size, before.st_mtime_ns, before.st_ino) == (after.st_size, after.st_mtime_ns, after.st_ino):
        cache.store(entries, outputs)
    return metadata


def default_flows_path(acap: Path) -> Path:
    """Return the default path of an acap's flow table, in the same directory. `acapella show` searches for it there."""
    return acap.with_suffix(f".flows{acap.suffix}")


def check_paths(sources: Sequence[str], acap: str, flows: str) -> None:
    """Raise UserError if two paths name the same file, or an output directory does not exist."""
    paths = [Path(path).resolve() for path in (*sources, acap, flows) if path != "-"]
    if len(set(paths)) < len(paths) or sources.count("-") > 1:
        raise UserError("inputs, acap and flow table must be different files", where=acap)
    for path in (Path(acap), Path(flows)):
        if not path.parent.exists():
            raise UserError("no such directory", where=path.parent, fix="create it, or change -o or --flows")


def digest(sources: Sequence[str], acap: str, flows: str, options: Options, progress: bool = False) -> dict:
    """Convert the captures of a sample to two Parquet files; return the metadata, which is the same in both."""
    os.environ.setdefault(*MEMORY_POOL)
    from .acap_files import flow_writer, frame_writer  # noqa: PLC0415 - pyarrow is slow to import

    with (
        open_engine(sources, options) as engine,
        files.atomic_path(acap) as acap_part,
        files.atomic_path(flows) as flows_part,
        frame_writer(acap_part, acap, merged=len(sources) > 1) as frame_table,
        flow_writer(flows_part, flows) as flow_table,
    ):
        batches = report_progress(engine.frame_batches()) if progress else engine.frame_batches()
        write_all(batches, frame_table, options.threads)
        write_all(engine.flow_batches(), flow_table, options.threads)
        metadata = metadata_of(engine.summary(), options)
        refuse_unreadable(sources, metadata)
        frame_table.close(metadata, engine.positions())
        flow_table.close(metadata)
    return metadata


@contextlib.contextmanager
def open_engine(sources: Sequence[str], options: Options):
    """Yield the engine for one capture, or for several captures merged by time."""
    from . import node_digest  # noqa: PLC0415 - pyarrow is slow to import

    if len(sources) == 1 and node_digest.is_node_digest(sources[0]):
        with contextlib.closing(node_digest.open_digest(sources[0], options)) as engine:
            yield engine
        return
    open_digest = importlib.import_module(ENGINES[options.engine]).open_digest
    if len(sources) == 1:
        yield open_digest(sources[0], options)
        return
    from .merged import MergedDigest, MergedStream  # noqa: PLC0415 - not needed for a single capture

    with (
        MergedStream(sources, DAMAGING, options.limits) as stream,
        contextlib.closing(MergedDigest(open_digest(stream.path, options), stream)) as engine,
    ):
        yield engine


def write_all(batches, table, threads: int) -> None:
    """Write all batches. With 2 threads, a batch is written while the next one is computed; the file is the same."""
    if threads == 1:
        for batch in batches:
            table.write(batch)
            del batch  # releases its memory for the next batch
        return
    with ThreadPoolExecutor(max_workers=1) as writer:
        pending = None
        for batch in batches:
            if pending is not None:
                pending.result()
            pending = writer.submit(table.write, batch)
        if pending is not None:
            pending.result()


def metadata_of(summary: dict, options: Options) -> dict:
    """Return the metadata of a sample. It depends only on the capture's bytes, versions and parameters.

    The version of a digest that a node computed is in ``summary``.
    """
    from .acap_files import FORMAT  # noqa: PLC0415

    return summary | {
        "version": summary.get("version", __version__),
        "acap_format": FORMAT,
        "engine": options.engine,
        "site": options.site,
        "port": options.port,
        "parameters": options.parameters(),
    }


def refuse_unreadable(sources: Sequence[str], metadata: dict) -> None:
    """Raise UserError if the captures have frames, but none with a link type that the engine can read."""
    if 0 < metadata["frames"] == metadata["issues"].get(UNREADABLE):
        types = ", ".join(map(str, metadata["link_types"]))
        native = metadata["engine"] == "native"
        raise UserError(
            f"{'the core does not support' if native else 'neither the core nor tshark supports'} link type {types}",
            where=name_of(sources),
            fix="use --engine hybrid" if native else "use another link type (tcpdump -y), or convert the file",
        )


def report_progress(batches):
    """Yield the batches; print the number of frames and the rate at most once per second."""
    start = printed = time.monotonic()
    frames = 0
    for batch in batches:
        yield batch
        frames += batch.num_rows
        now = time.monotonic()
        if now - printed >= 1:
            printed = now
            names.report(f"digest: {frames:,} frames, {frames / (now - start):,.0f} a second")
    elapsed = time.monotonic() - start
    names.report(f"digest: {names.pluralize(frames, 'frame')} in all, in {elapsed:.1f} s")


def name_of(sources: Sequence[str]) -> str:
    """Return the name of the input in messages."""
    first = "standard input" if sources[0] == "-" else sources[0]
    return first if len(sources) == 1 else f"{first} and {len(sources) - 1} more"


def unreadable_of(metadata: dict) -> str:
    """Return text about frames whose link type is unsupported or private; an empty string if there are none."""
    unreadable = metadata["issues"].get(UNREADABLE)
    if not unreadable:
        private = ", ".join(str(number) for number in metadata["link_types"] if number in PRIVATE_LINK_TYPES)
        return (
            f"link type {private} is for private use and is not dissected: its frames have no headers"
            if private
            else ""
        )
    reason = "the core does not support; use --engine hybrid"
    if metadata["engine"] != "native":
        reason = "neither the core nor tshark supports"
    return f"{unreadable} of {metadata['frames']} frames have a link type that {reason}"


def frames_before(frames: int) -> str:
    """Return text about the frames before a fault."""
    return f"{names.pluralize(frames, 'complete frame')} before it" if frames else "no complete frame before it"


def written_frames(frames: int) -> str:
    """Return text about the frames before a fault, which were written."""
    if frames == 0:
        return "there is no complete frame before it"
    return f"the {frames} complete {'frame before it is' if frames == 1 else 'frames before it are'} written"


def oddities_of(metadata: dict) -> str:
    """Return text about oddities that are not faults, each with its count; an empty string if there are none."""
    if metadata["frames"] == 0:
        return "no frames" if metadata["file_issue"] is None else ""
    issues = metadata["issues"]
    counts = {
        "captured longer than the snap length": metadata["longer_than_snaplen"],
        "captured longer than on the wire": issues.get("longer_than_wire", 0),
        "empty": issues.get("empty_frame", 0),
        "with an earlier timestamp than the previous frame": metadata["time_reversals"],
        "without a timestamp": metadata["untimed"],
        "dated outside the years 1970 to 2106, whose timestamps are not used": metadata["implausible_times"],
    }
    present = [(text, count) for text, count in counts.items() if count]
    parts = [f"{count} {text}" for text, count in present]
    if parts:
        first_text, first_count = present[0]
        parts[0] = f"{names.pluralize(first_count, 'frame')} {first_text}"
    return ", ".join(parts)
