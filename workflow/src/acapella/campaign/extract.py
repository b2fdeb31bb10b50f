"""Copy frames of an acap from their captures to a pcapng.

    acapella extract trace.pcap --frames 17,19-40 -o out.pcapng
    acapella extract results/demo --where "dst_port = 443 and tcp_flags & 4 > 0" -o - | wireshark -k -i -

IN is a capture that has an acap, or the directory of a campaign or a release, in which captures are found
automatically. The acap of a capture X.pcap is searched for at X.acap.parquet, X.parquet and ../acap/X.parquet; its flow
table is found in the same way as by `acapella show`. --where is an SQL condition on the columns of the frame table and
the flow table and, in a campaign, on sample, site and port. --frames and --flow select frames by their number and by
the flow_id of their flow. If several of these options are given, a frame must match all of them. If the campaign has
pseudonyms.tsv, --flow and --sample also accept the names used in tables with pseudonyms.

Frames keep their timestamps, original lengths, link types, interfaces and comments: the blocks of a pcapng are copied
unchanged. Statistics, names and secrets of a pcapng are not copied. Frames are in the order of the capture; several
captures are written one after the other, as sections of the pcapng. If an acap merges several captures, they are
searched for in the directory of IN. If OUT ends in .pcap or .cap, the records of a single pcap are copied to a pcap.
An existing output file is replaced.

Digests record the positions of frames, so only parts of a large capture are read. This works for captures that are not
compressed, for gzip and lz4, and for captures in several frames of zstd (seekable zstd). A capture in a single frame of
zstd, or of lz4 with linked blocks and their checksums, is decompressed up to the last selected frame; if that takes
long, the command prints how to recompress the capture. If a capture has changed since the digest, the command reports
it and writes nothing.
"""

import argparse
import contextlib
import errno
import os
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from acapella.common import queries
from acapella.common.pseudonyms import FILE as PSEUDONYMS
from acapella.common.wording import scaled
from acapella_core import decompression, files, names, shards, sheets
from acapella_core.arguments import output_file
from acapella_core.errors import UserError
from acapella_core.validation import did_you_mean

from .layout import Campaign, fix_without_catalog, open_campaign, readable_capture, require, similar_campaigns

# Columns with their Arrow types: frame number, and values to compare with the capture if the acap has no positions.
COLUMNS = {"frame": "uint64", "ts_ns": "int64", "wire_len": "uint32", "cap_len": "uint32"}
NO_TIME = -(2**63)
SLOW_BYTES = 256 << 20  # decompressed in about half a second
ADVICE = {
    "zstd": "recompress it into several frames (zstd -dc IN | pzstd -o OUT)",
    "lz4": "recompress it with blocks that do not depend on each other (lz4 -dc IN | lz4 -BI - OUT)",
}
STDOUT = "-"
FILE_FRAME = "file_frame"  # number of a frame in its capture, in an acap of several captures


@dataclass(frozen=True)
class Selection:
    """The options that select frames. None: not given."""

    where: str | None
    frames: list[tuple[int, int]] | None  # first and last
    flows: list[str] | None  # flow_id of each
    sample: str | None


@dataclass(frozen=True)
class Part:
    """Selected frames of one capture: the columns of `COLUMNS` in the order of the capture.

    If the acap has positions, the column frame is sufficient.
    """

    capture: Path
    acap: Path
    columns: object  # pyarrow.Table
    checksum: str | None = None  # SHA-256 of the whole capture, if the catalog contains it


def register_parser(subparsers) -> argparse.ArgumentParser:
    """Add `acapella extract`."""
    parser = subparsers.add_parser(
        "extract",
        help="copy frames of an acap from their captures to a pcapng",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="IN", help="a capture, or the directory of a campaign or release")
    parser.add_argument(
        "-o",
        dest="output",
        metavar="OUT.pcapng",
        type=output_file("a capture", advice="to print frames as text: acapella show"),
        required=True,
        help="pcapng to write, or OUT.pcap; - for standard output",
    )
    parser.add_argument(
        "--where", metavar="SQL", help="select frames by an SQL condition, such as \"src = '10.0.0.1'\""
    )
    parser.add_argument("--frames", metavar="N,N-N,...", help="select frames by number, from 1, such as 17,19-40")
    parser.add_argument("--flow", metavar="FLOW_ID", help="select frames of the directed flow with this flow_id")
    parser.add_argument("--sample", metavar="SAMPLE", help="select frames of this sample of a campaign (default: all)")
    parser.add_argument("--acap", metavar="ACAP", help="acap of the capture (default: see above)")
    parser.add_argument("--flows", metavar="FLOWS", help="flow table (default: as for acapella show)")
    parser.add_argument("--threads", type=int, default=1, help="number of DuckDB threads (default: 1)")
    decompression.add_options(parser)
    return parser


def confine(args: argparse.Namespace) -> None:
    """Confine this process, because it reads captures and files that may come from a third party."""
    from acapella.common.confined import confine_self  # noqa: PLC0415 - keeps `--help` fast

    confine_self(None if args.output == STDOUT else args.output)


def run(args: argparse.Namespace) -> None:
    """Write the selected frames; print their number unless they are written to standard output."""
    selection = Selection(
        args.where,
        None if args.frames is None else frame_ranges(args.frames),
        None if args.flow is None else [args.flow],
        args.sample,
    )
    if selection == Selection(None, None, None, None):
        raise UserError("no frames are selected", fix="use --where, --frames, --flow or --sample")
    if args.output == STDOUT and sys.stdout.isatty():
        raise UserError("a capture is not written to a terminal", fix="specify a file with -o, or use a pipe")
    source = Path(args.source)
    if not os.path.lexists(source):
        raise UserError("no such capture or campaign", where=source, fix=similar_campaigns(source))
    parts = parts_of_campaign(source, selection, args) if source.is_dir() else parts_of_capture(source, selection, args)
    frames = sum(len(part.columns) for part in parts)
    if frames == 0:
        target = "standard output" if args.output == STDOUT else args.output
        names.report(f"acapella: warning: {source}: 0 frames match; {target} contains no frames")
    if args.output == STDOUT:
        write(parts, sys.stdout.fileno(), args)
        return
    check_output(args.output, parts)
    with files.atomic_path(args.output) as temporary, temporary.open("wb") as stream:
        write(parts, stream.fileno(), args)
    captures = f" of {len(parts)} captures" if len(parts) > 1 else ""
    print(f"{args.output}: {names.pluralize(frames, 'frame')}{captures}")


def check_output(output: str, parts: list[Part]) -> None:
    """Raise UserError if the output would replace a capture or an acap."""
    target = Path(output).resolve()
    for part in parts:
        if target in (part.capture.resolve(), part.acap.resolve()):
            raise UserError("input and output must be different files", where=output)


def frame_ranges(text: str) -> list[tuple[int, int]]:
    """Return the ranges of --frames as (first, last). Raises UserError if one is invalid."""
    ranges = []
    for item in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", item, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 0 < first <= last:
            raise UserError("expected numbers from 1 and ranges, such as 17,19-40", where=f"--frames {item.strip()!r}")
        ranges.append((first, last))
    return ranges


def parts_of_capture(capture: Path, selection: Selection, args: argparse.Namespace) -> list[Part]:
    """Return the selected frames of a capture, or of each capture that its acap merges.

    Raises UserError if the acap or a capture is not found, or a condition is invalid.
    """
    from acapella.digest.acap_files import positions_of  # noqa: PLC0415 (pyarrow)
    from acapella.digest.merged import FILE  # noqa: PLC0415
    from acapella.digest.show import find_flows, open_table  # noqa: PLC0415

    check_capture(capture)
    if selection.sample is not None:
        raise UserError("--sample is for a campaign, not for a capture", where=capture)
    acap = find_acap(capture, args.acap)
    check_numbers(selection.frames, acap, capture)
    merged = FILE.name in open_table(acap)[0].schema_arrow.names
    if selection.where is None and selection.flows is None and positions_of(acap) is not None and not merged:
        return [Part(capture, acap, numbers_table(selection.frames, acap))]
    flows = None
    if args.flows or selection.where is not None or selection.flows is not None:
        flows = find_flows(acap, args.flows)
        open_table(flows, flows=True)
    with queries.one_line("--where" if selection.where is not None else acap):
        con = queries.connect(threads=args.threads)
        add_view(con, acap, flows, merged=merged)
        queries.confine_to_files(con, [acap, *([flows] if flows else [])])
        columns = select_frames(con, selection, *([FILE.name, FILE_FRAME] if merged else [])).to_arrow_table()
        check_flow(con, selection, columns, f"{capture}: --flow {args.flow}")
    return [*split_by_file(capture.parent, acap, columns)] if merged else [Part(capture, acap, columns)]


def split_by_file(directory: Path, acap: Path, table) -> Iterator[Part]:
    """Yield the frames of each capture that a merged acap contains, with their numbers in that capture.

    Acaps contain names of captures, not their directories. Raises UserError if a capture is not in ``directory``.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import
    import pyarrow.compute as pc  # noqa: PLC0415

    from acapella.digest.merged import FILE  # noqa: PLC0415

    files_of_rows = table[FILE.name].cast(pa.utf8())
    for name in sorted(pc.unique(files_of_rows).to_pylist()):
        capture = directory / names.file(name, acap)
        check_capture(capture)
        rows = table.filter(pc.equal(files_of_rows, name))
        yield Part(capture, acap, rows.drop_columns("frame").rename_columns({FILE_FRAME: "frame"}))


def check_numbers(ranges: list[tuple[int, int]] | None, acap: Path, where: Path | str) -> None:
    """Print a note if some numbers of --frames are not in the acap. Raises UserError if none of them are."""
    from acapella.digest.show import open_table  # noqa: PLC0415 (pyarrow)

    frames = open_table(acap)[0].metadata.num_rows
    beyond = [(first, last) for first, last in ranges or [] if last > frames]
    if not beyond:
        return
    text = ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in beyond)
    last_frame = f"the last frame has number {frames:,}" if frames else "there are no frames"
    if all(first > frames for first, _ in ranges):
        raise UserError(f"no such frame: {last_frame}", where=f"{where}: --frames {text}")
    names.report(f"acapella: note: {where}: --frames {text}: {last_frame}")


def numbers_table(ranges: list[tuple[int, int]], acap: Path):
    """Return the numbers in these ranges that are in the acap, without duplicates, as a table with the column frame."""
    import numpy as np  # noqa: PLC0415 - slow to import
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    frames = pq.read_metadata(acap).num_rows
    numbers = [np.arange(first, min(last, frames) + 1, dtype=np.uint64) for first, last in ranges if first <= frames]
    return pa.table({"frame": np.unique(np.concatenate([np.array([], np.uint64), *numbers]))})


def add_view(con, acap: Path, flows: Path | None, *, merged: bool) -> None:
    """Create the view `frames`: the frame table, joined with the flow table.

    ``merged``: the acap contains several captures; add the number of each frame in its capture, whose order is kept.
    """
    from .views import literal  # noqa: PLC0415 (pyarrow)

    number = f", row_number() over (partition by file order by frame) as {FILE_FRAME}" if merged else ""
    query = f"select f.*{number} from read_parquet({literal(acap.absolute(), pattern=True)}) as f"
    if flows:
        query = query.replace("f.*", "f.*, w.* exclude (flow, app_by)", 1)
        query += f" left join read_parquet({literal(flows.absolute(), pattern=True)}) as w on f.flow = w.flow"
    con.execute(f"create view frames as {query}")


def select_frames(con, selection: Selection, *more: str):
    """Return the relation of the selected frames: `COLUMNS` and the columns ``more``, in the order of the captures."""
    import duckdb  # noqa: PLC0415 - slow to import

    relation = con.view("frames")
    if selection.where is not None:
        check_condition(con, selection.where)
        relation = relation.filter(selection.where)
    for column, values in (("flow_id", selection.flows), ("sample", selection.sample and [selection.sample])):
        if values is not None:
            relation = relation.filter(duckdb.ColumnExpression(column).isin(*map(duckdb.ConstantExpression, values)))
    if selection.frames is not None:
        relation = relation.filter(in_ranges(selection.frames))
    return relation.project(", ".join([*COLUMNS, *more])).order(", ".join([*more, "frame"]))


def check_flow(con, selection: Selection, table, where: str) -> None:
    """Raise UserError if ``table`` has no selected frames because no frame has the flow_id of --flow."""
    if selection.flows is None or len(table):
        return
    if not con.execute("select 1 from frames where list_contains(?, flow_id) limit 1", [selection.flows]).fetchall():
        raise UserError("no such flow", where=where, fix="column flow_id of the flow table contains the identifiers")


def check_condition(con, where: str) -> None:
    """Raise UserError unless ``where`` is a single SQL expression on the columns of the view."""
    from .sql import reading_statement  # noqa: PLC0415 (pyarrow)

    reading_statement(con, f"select 1 from frames where (\n{where}\n)", hint="")


def in_ranges(ranges: list[tuple[int, int]]) -> str:
    """Return the condition that a frame number is in one of the ranges, which are integers."""
    single = [str(first) for first, last in ranges if first == last]
    terms = [f"frame between {first} and {last}" for first, last in ranges if first != last]
    return " or ".join([*([f"frame in ({', '.join(single)})"] if single else []), *terms])


def parts_of_campaign(directory: Path, selection: Selection, args: argparse.Namespace) -> list[Part]:
    """Return the selected frames of each capture of a campaign or release. Raises UserError."""
    from . import sql, views  # noqa: PLC0415 (pyarrow)

    campaign = open_campaign(directory)
    if args.acap or args.flows:
        raise UserError("--acap and --flows are for a capture, not for a campaign", where=directory)
    mapping = sheets.read(campaign.directory / PSEUDONYMS, {})
    with open_tables(campaign, args.threads) as con:
        samples = captures_of(con, campaign)
        selection = with_true_names(con, selection, samples, mapping)
        if selection.frames is not None and selection.where is None and selection.sample is None and len(samples) > 1:
            raise UserError("--frames requires a sample", where=directory, fix="specify it with --sample")
        if selection.sample is not None and selection.sample not in samples:
            hint = (
                did_you_mean(selection.sample, samples)
                or f'; to list them: acapella sql {directory} "select sample from acaps"'
            )
            raise UserError(f"no sample {selection.sample!r} with an acap{hint}", where=directory)
        sql.check_acaps(con, campaign, selection.sample)
        views.create_views(con, Path())
        with sql.known_names(con):
            table = select_frames(con, selection, "sample").to_arrow_table()
        check_flow(con, selection, table, f"{directory}: --flow {args.flow}")
    numbered_in = [selection.sample] if selection.sample is not None else [*samples]
    if len(numbered_in) == 1:
        check_numbers(selection.frames, campaign.acap(numbered_in[0]), numbered_in[0])
    return [*split_by_sample(campaign, table, samples)]


def with_true_names(con, selection: Selection, samples: Collection[str], mapping: list[dict[str, str]]) -> Selection:
    """Return the selection with pseudonyms of the sample and the flow replaced by the names in the catalog.

    ``mapping``: rows of pseudonyms.tsv, [] if the campaign has none. Names in the catalog take precedence.
    """
    sample, flows = selection.sample, selection.flows
    if sample is not None and sample not in samples:
        sample = next((row["true_sample"] for row in mapping if row["sample"] == sample), sample)
    if mapping and flows and not con.execute("select 1 from flows where flow_id = ? limit 1", flows).fetchall():
        con.execute("create temp table pseudonyms (true_sample varchar, site varchar)")
        queries.insert(con, "pseudonyms", [(row["true_sample"], row["site"]) for row in mapping])
        flow_ids = queries.select(con, "extract", "pseudonymous_flow", {"flow_id": flows[0]}).fetchall()
        flows = [flow_id for (flow_id,) in flow_ids] or flows
    return replace(selection, sample=sample, flows=flows)


@contextlib.contextmanager
def open_tables(campaign: Campaign, threads: int) -> Iterator:
    """Yield a connection with the tables of `acapella sql`. Use absolute paths inside."""
    from . import sql, views  # noqa: PLC0415 (pyarrow)

    catalog = require(campaign.catalog, fix_without_catalog(campaign)).resolve()
    directory = campaign.directory.absolute()
    with contextlib.chdir(directory), queries.one_line():
        con = queries.connect(threads=threads)
        con.execute(f"attach {views.literal(catalog)} as catalog (read_only)")
        queries.confine(con, directory)
        sql.check_catalog(con, campaign)
        for name in map(views.quoted, sql.catalog_tables(con)):
            con.execute(f"create view {name} as from catalog.{name}")
        yield con


def captures_of(con, campaign: Campaign) -> dict[str, tuple[Path, str | None]]:
    """Return the capture of each sample with an acap, and its checksum if the catalog contains it."""
    columns = {name for (name,) in con.execute("select column_name from (describe samples)").fetchall()}
    private = "file, sha256" if {"file", "sha256"} <= columns else "null, null"  # a release has neither
    rows = con.execute(f"select sample, {private} from samples where acap is not null").fetchall()
    captures = {}
    for sample, file, checksum in rows:
        names.sample(sample, campaign.catalog)
        if file is None:
            captures[sample] = (campaign.directory / "captures" / f"{sample}.pcap", None)
        else:
            captures[sample] = (campaign.capture(sample, names.file(file, campaign.catalog)), checksum)
    return captures


def split_by_sample(campaign: Campaign, table, samples: dict[str, tuple[Path, str | None]]) -> Iterator[Part]:
    """Yield the frames of each sample."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    for sample in sorted(pc.unique(table["sample"]).to_pylist()):
        path, checksum = samples[sample]
        capture = readable_capture(campaign, sample, path)
        check_capture(capture)
        yield Part(capture, campaign.acap(sample), table.filter(pc.equal(table["sample"], sample)), checksum)


def check_capture(capture: Path) -> None:
    """Raise UserError if a capture does not exist or is not a regular file."""
    if not capture.exists():
        raise UserError("no such capture; it was moved or deleted since the digest", where=capture)
    if not capture.is_file():
        raise UserError("not a capture file", where=capture)


def find_acap(capture: Path, acap: str | None) -> Path:
    """Return the path of a capture's acap: ``acap``, or else the usual places. Raises UserError."""
    stem = re.sub(r"\.(gz|zst|lz4)$", "", capture.name)
    bases = dict.fromkeys([re.sub(r"\.(pcap|pcapng|cap)$", "", stem), stem, capture.name])
    beside = [capture.parent / f"{base}{suffix}" for base in bases for suffix in (".acap.parquet", ".parquet")]
    candidates = [*beside, *(capture.parent.parent / "acap" / f"{base}.parquet" for base in bases)]
    for campaign in (capture.parent.parent, capture.parent.parent.parent):  # raw/ or raw/SHARD/
        candidates += [campaign / "acap" / shards.shard_of(base) / f"{base}.parquet" for base in bases]
    for candidate in [Path(acap)] if acap else candidates:
        if candidate.is_file():
            return candidate
    if acap:
        raise UserError("no such acap", where=acap)
    raise UserError("its acap was not found", where=capture, fix="run acapella digest, or specify it with --acap")


def write(parts: list[Part], descriptor: int, args: argparse.Namespace) -> None:
    """Copy the frames of all captures to a file descriptor. Raises UserError or OSError."""
    from acapella.digest.acap_files import positions_of  # noqa: PLC0415 (pyarrow)
    from acapella_core import _native  # noqa: PLC0415

    extraction = _native.Extraction(descriptor, as_pcap(parts, args.output))
    for part in parts:
        positions = positions_of(part.acap)
        if positions is None and part.checksum and files.sha256_of(part.capture) != part.checksum:
            raise UserError("changed since the digest: its SHA-256 differs", where=part.capture)
        try:
            report_slow(part, positions)
            extraction.add(
                str(part.capture),
                positions,
                *columns_of(part),
                decompression.limits_of(args),
            )
        except _native.InputError as error:
            raise UserError(str(error)) from error
        check_written(extraction)
    extraction.finish()
    check_written(extraction)


def report_slow(part: Part, positions: bytes | None) -> None:
    """Print a note if a large part of a capture has to be decompressed before the selected frames."""
    from acapella_core import _native  # noqa: PLC0415

    compression = metadata_of(part.acap)["compression"]
    if positions is None or compression not in ADVICE:
        return
    longest = _native.longest_without_start(positions, str(part.acap))
    if longest > SLOW_BYTES:
        size = scaled(longest, "B")
        names.report(
            f"acapella: note: {part.capture}: up to {size} are decompressed before a frame; to extract faster, "
            f"{ADVICE[compression]} and digest the result"
        )


def metadata_of(acap: Path) -> dict:
    """Return the metadata of an acap. Raises UserError if it is damaged."""
    from acapella.digest import acap_files  # noqa: PLC0415 (pyarrow)

    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
        metadata = acap_files.metadata_of(acap)
        if isinstance(metadata["format"], str) and isinstance(metadata["compression"], str | None):
            return metadata
    raise UserError("not an acap: its metadata is damaged", where=acap, fix="digest the capture again")


def columns_of(part: Part) -> list[bytes]:
    """Return the values of `COLUMNS`; zeros if the part does not have a column. Raises UserError for a damaged acap."""
    import numpy as np  # noqa: PLC0415 - slow to import
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    rows, values = part.columns, []
    for name, kind in COLUMNS.items():
        if name not in rows.column_names:
            values.append(np.zeros(len(rows), kind).tobytes())
            continue
        try:
            array = pc.fill_null(rows[name].cast(kind), NO_TIME if name == "ts_ns" else 0).to_numpy()
            is_valid = name != "frame" or bool((array[1:] > array[:-1]).all() and array.all())
        except pa.ArrowException:
            is_valid = False
        if not is_valid:
            raise UserError(f"not an acap: column {name} has invalid values", where=part.acap, fix="digest again")
        values.append(array.tobytes())
    return values


def check_written(extraction) -> None:
    """Raise OSError if the output could not be written; BrokenPipeError if the reader closed the pipe."""
    if number := extraction.error_number:
        raise OSError(number, os.strerror(number)) if number != errno.EPIPE else BrokenPipeError(number, "")


def as_pcap(parts: list[Part], output: str) -> bool:
    """Return whether to write a pcap: OUT ends in .pcap or .cap, and all frames are from one pcap.

    Print a note if OUT has such a name, but frames are of a pcapng or of several captures.
    """
    if not output.endswith((".pcap", ".cap")):
        return False
    if len(parts) == 1 and not metadata_of(parts[0].acap)["format"].startswith("pcapng"):
        return True
    reason = "of a pcapng" if len(parts) == 1 else f"of {len(parts)} captures"
    names.report(f"acapella: note: {output}: written as pcapng, because it has frames {reason}")
    return False
