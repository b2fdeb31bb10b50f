"""Read a model: a YAML file and, if it names one, a CSV table of flows."""

import csv
import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from acapella_core.errors import UserError
from acapella_core.validation import did_you_mean

from . import headers, traffic
from .compiled import STAMP_BYTES, Checksum, CompiledModel, Flow, Length
from .headers import Template
from .protocols import PROTOCOLS
from .reading import Section, choice, integer, items, parse, read_bytes, string, text_of

START_NS = 1_767_225_600 * 10**9  # 2026-01-01T00:00:00Z
MAX_START_NS = (2**32 - 1) * 10**9 // 2  # half of the range of pcap and of stamps, which have 32-bit seconds
MAX_FLOWS = 1 << 20
DIGITS = 19  # a cell with fewer digits is an integer
PATTERNS = ("zeros", "ones", "aa55", "counter", "prbs31")
# Columns of a CSV table that are keys of a flow; other columns are fields of headers: NUMBER.FIELD.
FLOW_COLUMNS = ("name", "packets", "start_ns", "duration_ns", "rate_bps", "gaps", "sizes", "payload", "stamp")

Traces = Callable[[Path], tuple[tuple[int, ...], tuple[int, ...]]]


class Files:
    """The files of a model, relative to its directory, and one SHA-256 of all of them."""

    def __init__(self, path: Path, traces: Traces):
        self.directory = path.parent
        self.traces = traces
        self.digest = hashlib.sha256()
        self.known: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def read(self, path: Path) -> bytes:
        """Return the content of a file, and add it to the hash."""
        content = read_bytes(path)
        self.digest.update(content)
        return content

    def trace(self, name: str, where: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return gaps and sizes of a capture."""
        if name not in self.known:
            path = self.directory / name
            add_to_digest(self.digest, path, where)
            self.known[name] = self.traces(path)
        return self.known[name]


def add_to_digest(digest: Any, path: Path, where: str) -> None:
    """Add the content of a file to a hash. Raises UserError."""
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{text_of(path.name)} cannot be read: {reason}", where=where) from error


def read(path: Path, traces: Traces, *, seed: int | None = None) -> CompiledModel:
    """Read and compile a model; ``seed`` overrides the seed of the file. Raises UserError."""
    files = Files(path, traces)
    section = Section(parse(files.read(path), path), str(path))
    file_seed = section.take("seed", integer(0, 2**64 - 1), 0)
    used_seed = file_seed if seed is None else seed
    start_ns = section.take("start_ns", integer(0, MAX_START_NS), START_NS)
    port = Section(section.take("port", lambda value, _: value, {}), section.location_of("port"))
    rate_bps = port.take("rate_bps", integer(1, traffic.MAX_BPS), 0)
    port.done()
    flows = []
    for value, where in flow_values(section, files):
        if len(flows) == MAX_FLOWS:
            raise UserError(f"more than {MAX_FLOWS} flows", where=path)
        flows.append(read_flow(value, where, seed=used_seed, number=len(flows), files=files))
    section.done()
    return CompiledModel(files.digest.hexdigest(), used_seed, start_ns, rate_bps, tuple(flows))


def flow_values(section: Section, files: Files) -> Iterator[tuple[Any, str]]:
    """Yield the flows of the YAML file, then the flows of its table, with their locations for messages."""
    if not ("flows" in section or "table" in section):
        raise UserError("expected flows or table", where=section.where)
    templates = section.take("templates", Section, None)
    if "flows" in section:
        yield from section.take("flows", lambda value, where: list(items(value, where)))
    if "table" in section:
        name = section.take("table", string)
        yield from table_rows(files.directory / name, files, templates.values if templates else {})


def table_rows(path: Path, files: Files, templates: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield the flows of a CSV table: templates in which the cells of a row replace values."""
    try:
        rows = list(csv.reader(io.StringIO(files.read(path).decode("utf-8"), newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"not CSV: {error}", where=path) from error
    columns = rows[0] if rows else []
    if "template" not in columns or len(set(columns)) < len(columns) or len(rows) < 2:
        raise UserError("expected a header with column template, and rows", where=path)
    for line, row in enumerate(rows[1:], 2):
        where = f"{path}: line {line}"
        if len(row) != len(columns):
            raise UserError(f"expected {len(columns)} cells, found {len(row)}", where=where)
        cells = dict(zip(columns, row, strict=True))
        name = cells.pop("template")
        if name not in templates:
            raise UserError(f"unknown template {text_of(name)}{did_you_mean(name, templates)}", where=where)
        yield with_cells(templates[name], cells, where), where


def with_cells(template: Any, cells: dict[str, str], where: str) -> dict[str, Any]:
    """Return a flow: a template in which the cells of a row replace values. Empty cells change nothing."""
    flow = dict(Section(template, where).values)
    stack = [header_values(item, location) for item, location in items(flow.get("headers"), f"{where}: headers")]
    indexes = {str(number) for number, (name, _) in enumerate(stack) if name != "bytes"}
    for column, text in cells.items():
        if not text:
            continue
        value = text if column == "name" else cell(text, f"{where}: {column}")
        number, _, field = column.partition(".")
        if column in FLOW_COLUMNS:
            flow[column] = value
        elif field and number in indexes:
            stack[int(number)][1][field] = value
        else:
            hint = did_you_mean(column, FLOW_COLUMNS)
            raise UserError(f"unknown column {text_of(column)}{hint}", where=where)
    return flow | {"headers": [{name: values} for name, values in stack]}


def cell(text: str, where: str) -> Any:
    """Return the value of a cell. Integers are frequent, and are not parsed as YAML to save time."""
    plain = text.isascii() and text.isdecimal() and len(text) < DIGITS and not (len(text) > 1 and text[0] == "0")
    return int(text) if plain else parse(text, where)


def header_values(item: Any, where: str) -> tuple[str, Any]:
    """Return the name and the fields of a template's header; bytes have no fields."""
    if isinstance(item, str):
        return item, {}
    section = Section(item, where)
    name = section.one_of(*PROTOCOLS, "bytes")
    if name == "bytes":
        return name, section.values[name]
    return name, dict(Section(section.values[name] or {}, where).values)


def read_flow(value: Any, where: str, *, seed: int, number: int, files: Files) -> Flow:
    """Return a flow. Raises UserError."""
    section = Section(value, where)
    template = headers.read(section.take("headers", lambda item, _: item), f"{where}.headers", seed=seed, flow=number)
    size = len(template.content)
    stamp = section.take("stamp", lambda item, at: read_stamp(item, at, size), size)
    pattern = section.take("payload", choice(*PATTERNS), "zeros")
    origin = traffic.Origin(seed, number, files.trace)
    minimum = size if stamp is None else stamp + STAMP_BYTES
    packets = section.take("packets", integer(1), 0)
    start_ns = section.take("start_ns", integer(0, traffic.MAX_NS), 0)
    duration_ns = section.take("duration_ns", integer(1, traffic.MAX_NS), 0)
    gaps = section.take("gaps", lambda item, at: traffic.read_gaps(item, at, origin))
    sizes = section.take("sizes", lambda item, at: traffic.read_sizes(item, at, origin, minimum))
    lengths, checksums, truncate = malformed(section, template)
    flow = Flow(
        name=section.take("name", string, f"flow{number}"),
        protocols=tuple(header.name for header in template.headers),
        offsets=tuple(header.offset for header in template.headers),
        template=template.content,
        fields=template.fields,
        lengths=lengths,
        checksums=checksums,
        gaps=gaps,
        sizes=sizes,
        packets=packets,
        start_ns=start_ns,
        until_ns=start_ns + duration_ns if duration_ns else 0,
        rate_bps=section.take("rate_bps", integer(1, traffic.MAX_BPS), 0),
        pattern=pattern,
        stamp=stamp,
        truncate=truncate,
    )
    section.done()
    if not (packets or duration_ns):
        raise UserError("packets or duration_ns is missing", where=where)
    return flow


def read_stamp(value: Any, where: str, size: int) -> int | None:
    """Return the offset of the stamp; None for no stamp. ``size``: length of the headers in bytes."""
    if isinstance(value, bool):
        return size if value else None
    return integer(size, 60_000)(value, where)


def malformed(section: Section, template: Template) -> tuple[tuple[Length, ...], tuple[Checksum, ...], tuple[int, int]]:
    """Return the lengths and checksums of a template, with the deliberate errors of the flow, and its truncation."""
    lengths = {length.header: length for length in template.lengths}
    checksums = {checksum.header: checksum for checksum in template.checksums}
    truncate = (0, 0)
    for value, where in section.take("malformed", lambda item, at: list(items(item, at)), []):
        error = Section(value, where)
        every = error.take("every", integer(1), 1)
        if "truncate" in error:
            truncate = error.take("truncate", integer(1, traffic.MAX_BYTES)), every
        elif "length" in error:
            number = header_number(error.take("length", string), where, template, lengths)
            delta = error.take("delta", integer(-65_535, 65_535))
            lengths[number] = Length(**vars(lengths[number]) | {"delta": delta, "every": every})
        else:
            number = header_number(error.take("checksum", string), where, template, checksums)
            checksums[number] = Checksum(**vars(checksums[number]) | {"every": every})
        error.done()
    return tuple(lengths.values()), tuple(checksums.values()), truncate


def header_number(name: str, where: str, template: Template, candidates: dict[int, Any]) -> int:
    """Return the index of the header that ``name`` selects: its number, or the name of the innermost such header.

    ``candidates``: the headers that have the field. Raises UserError.
    """
    for number in reversed(range(len(template.headers))):
        if name in (str(number), template.headers[number].name) and number in candidates:
            return number
    raise UserError(f"no header {text_of(name)} with this field", where=where)
