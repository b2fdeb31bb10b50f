"""Testbed `files`: existing captures, listed in a sample sheet. It has no switch and runs no programs.

The sheet is TSV with a header line. Columns: site, port, file; optional: sample (a unique name; default: the file's
name, preceded by directory names if two files share it), start (ISO 8601, UTC without an offset, or nanoseconds since
1970), restriction (why the capture does not contain all traffic of its port). `file` may be a glob; relative paths
start at the sheet's directory. `file` may also be an object in storage (`stored_captures`).
"""

import csv
import datetime
import functools
import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from acapella_core import names as allowed
from acapella_core import shards
from acapella_core.errors import UserError
from acapella_core.files import atomic_link, sha256_of
from acapella_core.validation import did_you_mean

from .. import manifest as manifests
from ..scan import scan
from .base import CompletedProgram, Direction, Host, Instance, Job, Mirror, Port, ResourceRequest, Site, Testbed
from .file_names import is_unnamed, name_from_path, name_with_crc, suffixes
from .stored_captures import StoredCapture, check_copy, fault_of_query, manifest_keys, path_of_query, query_of

REQUIRED = ("site", "port", "file")
OPTIONAL = ("sample", "start", "restriction")
RESTRICTIONS = ("trial", "filter", "p4", "sampling")
NO_MATCH = "no file matches this pattern, which counts as one sample"
RESERVED_NAME = "all"  # stands for all sites in the tables
END_NS = 2**32 * 10**9 - 1  # end of the plausible range (exclusive); the core's kFirstImplausibleNs

_preloaded: dict[Path, list["Row"]] = {}


@dataclass(frozen=True)
class Row:
    """A capture of the sheet; `line` is its line number, the header being line 1.

    `query`: the capture is this object in storage, and `file` is the path of its fetched copy, once it is known.
    `unnamed`: the sheet has no name for the sample, and that of its file has no character that a name may have.
    """

    line: int
    sample: str
    site: str
    port: str
    file: Path
    start_ns: int | None
    restriction: tuple[tuple[str, str | None], ...] = ()
    query: str | None = None
    unnamed: bool = False

    @property
    def link(self) -> str:
        """Return the name of its link in raw/: the sample's name with the suffixes that indicate the file type."""
        return self.sample + suffixes(self.file)


class Entry(NamedTuple):
    """A capture of the sheet before it has a sample name."""

    line: int
    fields: dict[str, str]
    file: Path
    start_ns: int | None
    restriction: tuple[tuple[str, str | None], ...]


class Faults:
    """Problems of a sheet, collected so that one message can name the first and count the others."""

    def __init__(self, sheet: Path):
        self.sheet = sheet
        self._messages: dict[int, list[str]] = {}

    def add(self, line: int, message: str) -> None:
        self._messages.setdefault(line, []).append(message)

    def check(self) -> None:
        """Raise UserError if there are problems."""
        ordered = [(line, message) for line in sorted(self._messages) for message in self._messages[line]]
        if ordered:
            line, message = ordered[0]
            more = f" (and {len(ordered) - 1} more)" if len(ordered) > 1 else ""
            raise UserError(message + more, where=f"{self.sheet} line {line}")


def read_sheet(sheet: Path, *, may_be_empty: bool = False) -> list[Row]:
    """Return the captures of a sheet; globs are expanded in the order of names.

    Files are not opened here but in `describe`, so that a missing file, or a glob without a match, fails only its own
    sample. Raises UserError with the first invalid line and the number of further problems, or for an empty sheet
    unless `may_be_empty`.
    """
    faults = Faults(sheet)
    directory_of = functools.cache(without_parents)
    entries: list[Entry] = []
    for line, fields in read_lines(sheet):
        start_ns = parse_start(fields["start"], line, faults)
        restriction = parse_restriction(fields["restriction"], line, faults)
        for key in (*REQUIRED, "restriction"):
            if not fields[key] and key in REQUIRED:
                faults.add(line, f"no {key}")
            elif not fields[key].isprintable():
                faults.add(line, f"{key} {fields[key]!r} has a control character")
            elif key in ("site", "port") and fields[key] == RESERVED_NAME:
                faults.add(line, f"{key} {RESERVED_NAME!r}: reserved for the whole campaign; choose another name")
        if fields["file"]:
            entries += [
                Entry(line, fields, file, start_ns, restriction)
                for file in expand(fields, line, sheet, faults, directory_of)
            ]
    first_line: dict[str, int] = {}
    for line, fields, file, *_ in entries:
        real = os.path.realpath(file)
        if first_line.setdefault(real, line) != line:
            faults.add(line, f"{source_of(fields, file)} is already in line {first_line[real]}")
    names = sample_names(entries, faults)
    faults.check()
    if not entries and not may_be_empty:
        raise no_samples(sheet)
    return [
        Row(
            line,
            name,
            fields["site"],
            fields["port"],
            file,
            start_ns,
            restriction,
            query_of(fields),
            not fields["sample"] and is_unnamed(file),
        )
        for name, (line, fields, file, start_ns, restriction) in zip(names, entries, strict=True)
    ]


def no_samples(sheet: str | Path) -> UserError:
    """Return the error for a sheet without lines."""
    return UserError("no samples", where=sheet, fix="add one line per capture (config/README.md)")


def read_lines(sheet: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield number and fields of each line, absent optional ones as "". Raises UserError for a wrong header."""
    try:
        text = sheet.read_text(encoding="utf-8-sig")
    except OSError as error:
        start = "" if sheet.is_absolute() else f"; its path starts in {Path.cwd()}"
        fix = f"create it (config/README.md), or set key samples of the config{start}"
        raise UserError(f"cannot read the sample sheet: {error.strerror}", where=sheet, fix=fix) from error
    except UnicodeDecodeError as error:
        raise UserError("not a sample sheet: not UTF-8 text", where=sheet) from error
    lines = csv.reader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    header = [name.strip() for name in next(lines, [])]
    unknown = [name for name in header if name not in REQUIRED + OPTIONAL]
    missing = [name for name in REQUIRED if name not in header]
    if missing or unknown or len(set(header)) < len(header):
        message = f"no column {missing[0]}" if missing else "a column occurs twice"
        if missing and set(REQUIRED) <= set(re.split(r"[\s,;]+", " ".join(header))):
            message = "no tabs between the columns"
        elif unknown:
            message = unknown_column(unknown, header) or message
        fix = f"required columns, separated by tabs: {', '.join(REQUIRED)}; optional columns: {', '.join(OPTIONAL)}"
        raise UserError(message, where=f"{sheet} line 1", fix=fix)
    for number, values in enumerate(lines, start=2):
        if not any(value.strip() for value in values) or values[0].startswith("#"):
            continue
        if len(values) == 1 < len(header):
            raise UserError(f"no tabs: 1 field, {len(header)} columns", where=f"{sheet} line {number}")
        if len(values) > len(header):
            raise UserError(f"{len(values)} fields, {len(header)} columns", where=f"{sheet} line {number}")
        padded = [value.strip() for value in values] + [""] * (len(header) - len(values))
        yield number, dict.fromkeys(OPTIONAL, "") | dict(zip(header, padded, strict=True))


def unknown_column(unknown: list[str], header: list[str]) -> str:
    """Return the message for unknown columns: the first one that is similar to an absent column, else the first one.

    Returns "" if a required column is missing and no unknown column is similar to an absent one.
    """
    absent = [name for name in REQUIRED + OPTIONAL if name not in header]
    hints = {name: did_you_mean(name, absent) for name in unknown}
    if set(REQUIRED) & set(absent) and not any(hints.values()):
        return ""
    name = next((name for name in unknown if hints[name]), unknown[0])
    return f"unknown column {name!r}{hints[name]}"


def parse_start(text: str, line: int, faults: Faults) -> int | None:
    """Return ns since 1970 from an ISO 8601 time or an integer; None if empty."""
    if not text:
        return None
    if re.fullmatch(r"\d{1,40}", text, re.ASCII):
        start_ns = int(text)
    else:
        match = re.fullmatch(
            r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", text, re.ASCII
        )
        try:
            moment = datetime.datetime.fromisoformat(match[1] + (match[3] or "Z"))
        except (TypeError, ValueError):
            faults.add(line, f"start {text!r} is neither ISO 8601 nor nanoseconds since 1970")
            return None
        elapsed = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        start_ns = (elapsed.days * 86400 + elapsed.seconds) * 10**9 + int((match[2] or "").ljust(9, "0"))
    if not 0 <= start_ns < END_NS:
        faults.add(line, f"start {text!r} is not within the years 1970 to 2106")
        return None
    return start_ns


def parse_restriction(text: str, line: int, faults: Faults) -> tuple[tuple[str, str | None], ...]:
    """Return reason and detail of each part of, for example, `trial; filter tcp port 443; sampling 100`.

    Details are optional.
    """
    restrictions: dict[str, str | None] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        reason, _, detail = part.partition(" ")
        detail = " ".join(detail.split())
        if reason not in RESTRICTIONS:
            hint = did_you_mean(reason, RESTRICTIONS)
            faults.add(line, f"restriction {reason!r} is not one of {', '.join(RESTRICTIONS)}{hint}")
        elif reason in restrictions:
            faults.add(line, f"restriction {reason!r} occurs twice")
        elif reason == "trial" and detail:
            faults.add(line, f"restriction {part!r}: trial takes no value; separate restrictions with ;")
        elif reason == "sampling" and detail and not re.fullmatch(r"[1-9][0-9]{0,17}", detail):
            faults.add(line, f"restriction {part!r}: not a sampling rate, such as sampling 100")
        elif part != "sampling 1":  # sampling 1 keeps every frame
            restrictions[reason] = detail or None
    return tuple(restrictions.items())


def source_of(fields: dict[str, str], file: Path) -> str:
    """Return the name of a capture in messages."""
    return query_of(fields) or str(file)


def without_parents(directory: Path) -> Path:
    """Return the path of a directory without `..`, or unchanged if a symbolic link or a pattern precedes the `..`."""
    short = Path(os.path.normpath(directory))
    same = not glob.has_magic(str(directory)) and os.path.realpath(short) == os.path.realpath(directory)
    return short if ".." in directory.parts and same else directory


def expand(
    fields: dict[str, str], line: int, sheet: Path, faults: Faults, directory_of: Callable[[Path], Path]
) -> list[Path]:
    """Return the files of a line; for an object in storage, a path with the same name.

    ``directory_of``: `without_parents`, possibly with a cache.
    """
    if query := query_of(fields):
        if fault := fault_of_query(query):
            faults.add(line, fault)
        return [path_of_query(query)]
    path = sheet.parent / Path(fields["file"]).expanduser()
    pattern = str(directory_of(path.parent) / path.name)
    if not glob.has_magic(pattern) or Path(pattern).exists():
        return [Path(pattern)]
    files = [Path(name) for name in sorted(glob.glob(pattern, recursive=True)) if Path(name).is_file()]  # noqa: PTH207
    if not files:
        return [Path(pattern)]  # fails its sample, like a missing file
    if fields["sample"] and len(files) > 1:
        faults.add(line, f"{len(files)} files match {fields['file']}, one sample name {fields['sample']!r}")
    return files


def sample_names(entries: Sequence[Entry], faults: Faults) -> list[str]:
    """Return a name for each capture: the sheet's, or the file's, preceded by directory names if needed."""
    names = [fields["sample"] or name_from_path(file, 0) for _, fields, file, *_ in entries]
    for directories in range(1, 64):
        counts = Counter(names)
        duplicates = [i for i, name in enumerate(names) if counts[name] > 1 and not entries[i][1]["sample"]]
        if not duplicates:
            break
        for i in duplicates:
            names[i] = name_from_path(entries[i][2], directories)
    for i in duplicates:
        names[i] = name_with_crc(entries[i][2], [entries[j][2] for j in duplicates]) or names[i]
    first_use: dict[str, tuple[int, dict[str, str], Path]] = {}
    for name, (line, fields, file, *_) in zip(names, entries, strict=True):
        if not allowed.is_sample(name):
            origin = "" if fields["sample"] else f" of {file}"
            faults.add(line, f"sample {name!r}{origin}: {allowed.SAMPLE_RULE}")
            continue
        other_line, other_fields, other_file = first_use.setdefault(name, (line, fields, file))
        if other_file == file:
            continue
        if fields["sample"] and other_fields["sample"]:
            faults.add(line, f"sample {name!r} is already in line {other_line}")
        else:
            faults.add(
                line,
                f"{other_file} and {file} would have the same sample name; "
                "set the column sample, with a line for each file",
            )
    return names


def preload(sheet: Path) -> None:
    """Read a sheet that `describe` will read in each of many forks of this process. Raises UserError."""
    _preloaded[sheet] = read_sheet(sheet)


def describe(
    sheet: Path, campaign: Path, *, sample: str | None = None, limits=None, stored: StoredCapture | None = None
) -> Iterator[dict[str, Any]]:
    """Link a sheet's captures into raw/, write their manifests, and yield these.

    With `sample`, process only this one; otherwise, check all files before linking the first. `stored`: the fetched
    copy of this sample's object in storage, which is not linked, because it is deleted later. Raises UserError.
    """
    rows = [row for row in _preloaded.get(sheet) or read_sheet(sheet) if sample in (None, row.sample)]
    if not rows:
        raise UserError(f"no sample {sample!r}", where=sheet)
    faults = Faults(sheet)
    rows = [with_copy(row, stored) for row in rows]
    for row in rows:
        fault = stored.fault if stored and stored.fault else unreadable(row.file)
        if fault:
            faults.add(row.line, f"{row.query or row.file}: {fault}")
    faults.check()
    with FilesTestbed(sheet, rows) as testbed:
        for row in rows:
            directory = shards.directory_of(campaign, "raw", row.sample)
            if not row.query:
                testbed.fetch(row.site, row.sample, directory / row.link)
            manifest = manifest_of(row, campaign, limits) | manifest_keys(row.query, stored)
            check_copy(row.query, manifest["sha256"], stored)
            manifests.write(directory, manifest)
            yield manifest


def with_copy(row: Row, stored: StoredCapture | None) -> Row:
    """Return a row whose file is the fetched copy, if it is an object in storage. Raises UserError if there is none."""
    if row.query and stored is None:
        raise UserError(f"{row.query} is in storage; Snakemake fetches it", where=row.sample, fix="run snakemake")
    return replace(row, file=Path(stored.file)) if row.query and stored.file else row


def unreadable(file: Path) -> str | None:
    """Return why a file cannot be read; None if it can."""
    if set("{}") & set(str(file)):
        return "braces in a path are wildcards of Snakemake: use a link without braces"
    try:
        if not file.is_file():
            missing = NO_MATCH if glob.has_magic(str(file)) else "no such file"
            return "is not a file" if file.exists() else missing
        file.open("rb").close()
    except OSError as error:
        return f"cannot read: {error.strerror}"
    return None


def manifest_of(row: Row, campaign: Path, limits=None) -> dict[str, Any]:
    """Return the manifest of an existing capture; if it cannot be read, a note contains the reason."""
    result = scan(row.file, limits)
    return manifests.empty() | {
        "campaign": campaign.resolve().name,
        "sample": row.sample,
        "testbed": "files",
        "site": row.site,
        "port": row.port,
        "method": "file",
        "file": row.link,
        "sha256": sha256_of(row.file),
        "bytes": row.file.stat().st_size,
        "snaplen": result.snaplen,
        "requested": {"start_ns": row.start_ns, "end_ns": None},
        "frames_captured": result.frames,
        "clock_resolution_ns": result.clock_resolution_ns,
        "notes": [f"not read to the end: {result.fault}"] if result.fault else [],
        **(
            {"restrictions": [{"reason": reason, "detail": detail} for reason, detail in row.restriction]}
            if row.restriction
            else {}
        ),
    }


class FilesTestbed(Testbed):
    """The sheet as a testbed: its sites and ports. Nodes are sites, and their files are the samples."""

    name = "files"

    def __init__(self, sheet: Path, rows: list[Row] | None = None):
        self._sheet = sheet
        self._rows = read_sheet(sheet) if rows is None else rows

    def sites(self) -> tuple[Site, ...]:
        ports: dict[str, dict[str, Port]] = {}
        for row in self._rows:
            ports.setdefault(row.site, {})[row.port] = Port(row.port, None)
        return tuple(Site(name, tuple(by_name.values())) for name, by_name in ports.items())

    def resources(self, site: str) -> tuple[Host, ...]:
        self.site(site)
        return ()

    def allocate(self, site: str, request: ResourceRequest) -> tuple[Instance, ...]:
        self.site(site)
        raise self._error_without("node to listen on")

    def instances(self, site: str) -> tuple[Instance, ...]:
        self.site(site)
        return ()

    def release(self, site: str | None = None) -> None:
        """Do nothing: nothing is allocated."""

    def mirror(self, instance: Instance, receiver: str, port: str, direction: Direction) -> Mirror:
        raise self._error_without("switch to mirror")

    def run(self, node: str, argv: Sequence[str], *, timeout_s: float = 30, stdin: str = "") -> CompletedProgram:
        raise self._error_without("node to run programs on")

    def start(self, node: str, argv: Sequence[str], *, output: str | None = None) -> Job:
        raise self._error_without("node to run programs on")

    def fetch(self, node: str, path: str, target: Path) -> None:
        """Link a sample's capture to `target`: captures are not copied."""
        for row in self._rows:
            if (row.site, row.sample) == (node, path):
                link(row.file, target)
                return
        raise UserError(f"no sample {path!r} of site {node!r}", where=self._sheet)

    def _error_without(self, missing: str) -> UserError:
        return UserError(f"testbed files has no {missing}", where=self._sheet)


def link(file: Path, target: Path) -> None:
    """Replace a symbolic link atomically; the link is relative, so that it can be moved together with its target."""
    try:
        atomic_link(os.path.relpath(file.resolve(), target.parent.resolve()), target)
    except OSError as error:
        raise UserError(f"cannot write: {error.strerror}", where=target) from error
