"""Searches a complete release for data that must not be published. docs/release.md lists the checks and their limits.

The core compares released captures with the original ones, frame by frame. In the other files, this module searches
text: lines, values of text columns, names of files, metadata of Parquet files, and the tables of the catalog.
"""

import base64
import contextlib
import functools
import itertools
import json
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from acapella.campaign.monitor import DIRECTORY as GENERATED
from acapella.campaign.views import literal
from acapella.common import queries
from acapella_core import _native
from acapella_core.errors import UserError

from . import croissant
from . import readme as release_readme
from .columns import METADATA, published_columns
from .infrastructure import DIRECTORY as INFRASTRUCTURE
from .transfers import DIRECTORY as TRANSFERS

# Patterns of possible addresses and checksums at any position of a text. DuckDB evaluates ANY_WORD, because it does not
# support the look-around assertions of WORD_PATTERNS.
HEX, BASE64 = "[0-9A-Fa-f]{64}", "[A-Za-z0-9+/_-]{43}"
MAC = "[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5}"
PLAIN_MAC = r"[0-9A-Fa-f]{4}\.?[0-9A-Fa-f]{4}\.?[0-9A-Fa-f]{4}"
IPV6 = "[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:]*:[0-9A-Fa-f.:]*"
IPV4 = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
ANY_WORD = "|".join((HEX, BASE64, MAC, PLAIN_MAC, IPV6, IPV4))
DIGIT = "[0-9A-Fa-f]"
WORD_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        f"(?=({HEX}))",
        f"(?=({BASE64}))",
        f"(?=(?<!{DIGIT})({MAC})(?!{DIGIT}))",
        f"(?=(?<![0-9A-Za-z])({PLAIN_MAC})(?![0-9A-Za-z]))",
        IPV6,
        f"(?=(?<![0-9])({IPV4})(?![0-9]))",
    )
)
MIN_NAME_LENGTH = 3  # minimum length of values that are searched for names; columns of names have no minimum
PAYLOAD_WINDOW = 16  # minimum number of payload bytes that the core recognizes
NAME_COLUMNS = ("site", "sample", "environment", "environment_a", "environment_b", "trial_a", "trial_b", "largest_site")
NAME_COLUMNS += ("port", "largest_port")
HASH_COLUMNS = ("flow_id", "peer_flow_id", "community_id")
# Columns that are not compared with payload. They contain hashes, addresses, names that the owner publishes, or terms
# of Acapella and tshark, which may also occur in payload.
UNSEARCHED_COLUMNS = {*NAME_COLUMNS, *HASH_COLUMNS, "src", "dst", "tunnels", "stack", "stacks", "protocols", "header"}
UNSEARCHED_COLUMNS |= {
    "deepest_example",
    "encapsulation",
    "app",
    "acap",
    "what",
    "where",
    "printed",
    "ours",
    "reason",
    "metadata",
}
# Names that are searched for in every text; not short names, numbers and lowercase words, because prose may contain
# them.
DISTINCTIVE = re.compile("(?=.*[^a-z])(?=.*[A-Za-z]).{3,}")


@dataclass(frozen=True)
class ReleasedCapture:
    """A released capture.

    ``sample``: original name of its sample; ``original``: original file; ``name``: name in the release; ``replaced``:
    replaced addresses.
    """

    sample: str
    original: Path
    name: str
    replaced: dict[str, bytes]
    limits: _native.DecompressionLimits = field(default_factory=_native.DecompressionLimits)


@dataclass(frozen=True)
class Text:
    """Text values in a release.

    ``where``: the file or directory; ``column``: the column if the values are from a table, "metadata" for metadata,
    None for other text.
    """

    where: str
    column: str | None
    values: Sequence[str]


def check(
    part: Path,
    captures: Sequence[ReleasedCapture],
    flows: Sequence[Path],
    checksums: frozenset[str],
    names: frozenset[str],
) -> None:
    """Search the release in ``part``. Raises UserError at the first finding.

    ``flows``: flow tables of the campaign; ``checksums``: SHA-256 of the campaign's files in hexadecimal; ``names``:
    original names if the release has pseudonyms.
    """
    check_columns(part)
    search = _native.LeakSearch()
    for capture in captures:
        search.add(**capture.replaced)
    add_originals(search, flows)
    distinctive = frozenset(name for name in names if DISTINCTIVE.fullmatch(name))
    contents = []
    with queries.one_line(part), contextlib.closing(queries.connect()) as con:
        for text in texts_of(con, part):
            check_words(text, search, checksums)
            check_names(text, names, distinctive)
            if text.column not in UNSEARCHED_COLUMNS:
                contents += [value.encode() for value in text.values]
        check_hashes(con, part, flows)
    check_bytes(part, checksums)
    check_captures(part, captures, search, contents)


def add_originals(search: _native.LeakSearch, flows: Sequence[Path]) -> None:
    """Add the addresses in the campaign's flow tables, which are independent of the anonymization."""
    if not flows:
        return
    with queries.one_line(flows[0].parent), contextlib.closing(queries.connect()) as con:
        sources = ", ".join(literal(path) for path in flows)
        ends = con.execute(f"select distinct unnest([src, dst]) as address from read_parquet([{sources}])")
        while batch := ends.fetchmany(1 << 20):
            search.add_originals([address for (address,) in batch if address])


def fail(what: str, where: object) -> NoReturn:
    """Raise UserError about a finding, so that no release is created."""
    raise UserError(
        f"the release would contain {what}; no release was created", where=where, fix="report this as a bug"
    )


def files_of(part: Path, pattern: str = "*") -> list[Path]:
    """Return the files of a release."""
    return sorted(path for path in part.rglob(pattern) if path.is_file())


def table_of(part: Path, path: Path) -> str:
    """Return the name of the schema of a Parquet or CSV file of a release."""
    directory = path.relative_to(part).parts[0]
    if directory == TRANSFERS:
        return "flows" if path.name.endswith(".flows.parquet") else "frames"
    return {"acap": "frames", "flows": "flows"}.get(directory, path.stem)


def columns_of(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet or CSV file."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    if path.suffix == ".parquet":
        return pq.read_schema(path).names
    with path.open(encoding="utf-8") as lines:
        return lines.readline().rstrip("\n").split(",")


def check_columns(part: Path) -> None:
    """Raise UserError if a file has a column or a metadata key that must not be published."""
    for path in [*files_of(part, "*.parquet"), *files_of(part, "*.csv")]:
        private = sorted(set(columns_of(path)) - set(published_columns(table_of(part, path))))
        if private:
            fail(f"column {private[0]}, which must not be published", path.relative_to(part))
        private = sorted(set(metadata_of(path)) - set(published_columns(METADATA)))
        if private:
            fail(f"metadata {private[0]}, which must not be published", path.relative_to(part))


def metadata_of(path: Path) -> dict:
    """Return the metadata of a Parquet file of a release; empty for other files."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    if path.suffix != ".parquet":
        return {}
    metadata = pq.read_metadata(path).metadata or {}
    json_metadata = json.loads(metadata.get(b"acapella", b"{}"))
    return json_metadata | {
        key.decode(): value.decode() for key, value in metadata.items() if key not in (b"acapella", SCHEMA, POSITIONS)
    }


SCHEMA = b"ARROW:schema"  # Arrow's description of the columns
POSITIONS = b"acapella_positions"  # base64: offsets and checksums of the published capture


def texts_of(con, part: Path) -> Iterator[Text]:
    """Yield all text of a release."""
    files = files_of(part)
    yield Text(
        "name of a file", "sample", [piece for path in files for piece in (*path.relative_to(part).parts, path.stem)]
    )
    yield from digest_texts(con, part)
    for path in files:
        where = path.relative_to(part).as_posix()
        if path.suffix in (".md", ".yaml", ".graphml", ".json"):
            # croissant.json consists of public names and terms of Acapella, which may also occur in payload
            yield Text(where, "metadata" if where == croissant.FILE else None, lines_of(path, where))
        elif path.suffix == ".tsv":
            yield from sheet_texts(path, where)
        elif path.suffix == ".parquet":
            yield Text(where, "metadata", [json.dumps(metadata_of(path))])
            if path.parent.name == "tables" or where.startswith((f"{GENERATED}/", f"{INFRASTRUCTURE}/")):
                yield from column_texts(con, f"read_parquet({literal(path, pattern=True)})", where)
        elif path.suffix == ".csv":
            yield from column_texts(con, csv_source(path), where)
        elif path.suffix == ".duckdb":
            yield from catalog_texts(con, path, where)


def lines_of(path: Path, where: str) -> list[str]:
    """Return the distinct lines of a text or JSON file, without those that are the same in every release."""
    lines = {*path.read_text(encoding="utf-8").splitlines()}
    if where == croissant.FILE:
        return sorted({croissant.without_layout(line) for line in lines} - croissant.fixed_lines())
    return sorted(lines - {*release_readme.TEXT.template.splitlines()})


def sheet_texts(path: Path, where: str) -> Iterator[Text]:
    """Yield the lines of a tab-separated sheet, and its columns with names."""
    lines = path.read_text(encoding="utf-8").splitlines()
    yield Text(where, "metadata", lines)
    head, *rows = (line.split("\t") for line in lines)
    for index, name in enumerate(head):
        if name in NAME_COLUMNS:
            yield Text(where, name, [row[index] for row in rows if index < len(row)])


def digest_texts(con, part: Path) -> Iterator[Text]:
    """Yield the text of all acaps, and of all flow tables, in one query each."""
    for directory in ("acap", "flows"):
        if files_of(part / directory):
            source = f"read_parquet({literal(part / directory / '*.parquet', pattern=True)})"
            yield from column_texts(con, source, directory, many_rows=True)


def catalog_texts(con, path: Path, where: str) -> Iterator[Text]:
    """Yield the text in a catalog: the values of its tables, and the definitions of its views."""
    con.execute(f"attach {literal(path)} as searched (read_only)")
    tables = con.execute("select table_name from duckdb_tables() where database_name = 'searched'").fetchall()
    views = con.execute("select sql from duckdb_views() where database_name = 'searched' and not internal").fetchall()
    yield Text(where, "metadata", [sql for (sql,) in views])
    for (table,) in tables:
        yield from column_texts(con, f'searched."{table}"', f"{where}, table {table}")
    con.execute("detach searched")


def column_texts(con, source: str, where: str, *, many_rows: bool = False) -> Iterator[Text]:
    """Yield the distinct values to search in each text column. Raises UserError if a column contains binary data.

    ``many_rows``: reduce each column to its distinct values separately, which is faster if many rows have the same
    values. Otherwise, planning such a query takes longer than running it.
    """
    schema = con.execute(f"describe select * from {source}").fetchall()
    binary = [name for name, kind, *_ in schema if "BLOB" in kind]
    if binary:
        fail(f"bytes in column {binary[0]}, which cannot be searched", where)
    texts = [name for name, kind, *_ in schema if "VARCHAR" in kind]
    if not texts:
        return
    casts = ", ".join(f'"{name}"::varchar as "{name}"' for name in texts)
    query = f"select distinct unnest({texts}) as name, unnest([*columns(*)]) as value from texts"
    if many_rows:
        column_query = "select '{0}' as name, value from (select distinct \"{0}\" as value from texts)"
        query = " union all ".join(map(column_query.format, texts))
    rows = con.execute(
        f"""
        with texts as not materialized (select {casts} from {source})
        select name, value
        from ({query})
        where length(value) >= case when name in $names then 0 when name in $unsearched then {1 << 30} else $length end
            or regexp_matches(value, $word)
        """,
        {"word": ANY_WORD, "names": NAME_COLUMNS, "unsearched": [*UNSEARCHED_COLUMNS], "length": MIN_NAME_LENGTH},
    )
    while batch := rows.fetchmany(1 << 16):
        for name, pairs in itertools.groupby(sorted(batch), key=operator.itemgetter(0)):
            yield Text(where, name, [value for _, value in pairs])


def csv_source(path: Path) -> str:
    """Return the DuckDB expression that reads a CSV file of `tables.write`, with all columns as text."""
    column_types = ", ".join(f"'{name}': 'varchar'" for name in columns_of(path))
    options = "auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', "
    options += f"columns = {{{column_types}}}"
    return f"read_csv({literal(path, pattern=True)}, {options})"


def check_words(text: Text, search: _native.LeakSearch, checksums: frozenset[str]) -> None:
    """Raise UserError if a text contains an original address, or the checksum of an unpublished file."""
    words = [word for value in text.values for pattern in WORD_PATTERNS for word in pattern.findall(value)]
    for word in search.addresses(words):
        fail(f"the original address {word}", text.where)
    found = {word.lower() for word in words} & (checksums | {word.lower() for word in base64_forms(checksums)})
    if found:
        fail(f"the checksum of a file that is not published: {min(found)}", text.where)


@functools.cache
def base64_forms(checksums: frozenset[str]) -> set[str]:
    """Return checksums in base64 and base64url (RFC 4648), without padding."""
    encoders = (base64.b64encode, base64.urlsafe_b64encode)
    return {encode(bytes.fromhex(checksum)).decode().rstrip("=") for checksum in checksums for encode in encoders}


def check_names(text: Text, names: frozenset[str], distinctive: frozenset[str]) -> None:
    """Raise UserError if a text contains an original name.

    In columns with names, a value or one of its parts separated by "+" must not be an original name. Other texts must
    not contain a distinctive name as a word.
    """
    if text.column in NAME_COLUMNS:
        for value in text.values:
            if true_names := names & {value, *value.split("+")}:
                fail(f"the original name {min(true_names)}", text.where)
    elif text.column is None or text.column == "metadata" or text.column not in UNSEARCHED_COLUMNS:
        content = "\n".join(text.values)
        for name in distinctive:
            if name in content and re.search(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", content):
                fail(f"the original name {name}", text.where)


def check_hashes(con, part: Path, flows: Sequence[Path]) -> None:
    """Raise UserError if a flow has the same hash as a flow of the campaign."""
    sources = [", ".join(literal(path) for path in paths) for paths in (files_of(part / "flows"), flows)]
    if not all(sources):
        return
    released, original = (
        f"(select unnest([{', '.join(HASH_COLUMNS)}]) as hash from read_parquet([{s}]))" for s in sources
    )
    row = con.execute(f"select hash from {released} where hash in (from {original}) limit 1").fetchone()
    if row:
        fail(f"the hash of an original flow: {row[0]}", "flows")


def check_bytes(part: Path, checksums: frozenset[str]) -> None:
    """Raise UserError if a file contains a checksum as bytes or text. Compressed values are not searched."""
    forms = [
        form
        for checksum in checksums
        for form in (checksum.encode(), checksum.upper().encode(), bytes.fromhex(checksum))
    ]
    search = _native.Windows([*forms, *(checksum.encode() for checksum in base64_forms(checksums))], whole=False)
    for path in files_of(part):
        with path.open("rb") as stream:
            tail = b""
            while block := stream.read(1 << 24):
                if search.find(tail + block) is not None:
                    fail("the checksum of a file that is not published", path.relative_to(part))
                tail = block[-PAYLOAD_WINDOW:]


def check_captures(part: Path, captures: Sequence[ReleasedCapture], search: _native.LeakSearch, contents: list) -> None:
    """Raise UserError if a capture contains more than headers with pseudonyms, or if a text contains payload."""
    from acapella.common import vendors  # noqa: PLC0415

    installed_vendors = vendors.find()
    texts = _native.Windows(contents, whole=True)
    for capture in captures:
        released = part / "captures" / f"{capture.name}.pcap"
        with core_errors(part, capture.sample):
            finding = search.find(
                str(capture.original),
                str(released),
                installed_vendors.core if installed_vendors else None,
                texts,
                capture.limits,
            )
        if finding:
            frame, offset, description = finding
            fail(f"{description}: sample {capture.sample}, frame {frame}, byte {offset}", released.relative_to(part))
    for capture in captures:
        with core_errors(part, capture.sample):
            finding = search.find_unexplained(str(capture.original), capture.limits)
        if finding:
            frame, offset, description = finding
            fail(f"{description}: sample {capture.sample}, frame {frame}, byte {offset}", "captures")


@contextlib.contextmanager
def core_errors(part: Path, sample: str) -> Iterator[None]:
    """Convert errors of the core to UserError, and remove the temporary path of the release from their text."""
    try:
        yield
    except (_native.InputError, _native.AnonymizeError) as error:
        raise UserError(str(error).replace(f"{part}/", ""), where=f"sample {sample}") from error
