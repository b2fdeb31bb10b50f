"""Finds the differences between two versions of a table, by column.

Rows are matched by the key of the table's schema. The tables may come from a third party, so they are read as Parquet
and CSV, and file names in their content are never opened.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from acapella.common import queries
from acapella_core import names, schemas
from acapella_core.errors import UserError

MAX_SHOWN = 60  # characters of a value
ROWS = "(rows)"  # instead of a column: rows that only one version contains
BYTES = "(bytes)"  # instead of a column: the files differ but their values do not, or the files are not tables
SCHEMAS_BY_DIRECTORY = {"acap": "frames", "flows": "flows"}
KEYS_OF_DIGESTS = {"frames": ["frame"], "flows": ["flow_id"]}


@dataclass(frozen=True)
class Difference:
    """A column with different values: the number of rows, and the first of them."""

    file: str
    column: str
    rows: int | None
    first: str


def table_of(file: str) -> str:
    """Return the name of the schema of a table in a release or campaign, such as tables/top_flows.csv."""
    path = Path(file)
    return SCHEMAS_BY_DIRECTORY.get(path.parent.name, path.stem)


def differences(file: str, published: Path, other: Path) -> list[Difference]:
    """Return the differences between two versions of a Parquet or CSV file; [] if all values are equal."""
    tables = read(published), read(other)
    with queries.one_line(published):
        con = queries.connect()
        return [*missing_columns(file, *tables), *different_rows(con, file, *tables)]


def read(path: Path):
    """Return the content of a Parquet or CSV file as an Arrow table; values of CSV files are strings."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415
    from pyarrow import csv  # noqa: PLC0415

    try:
        if path.suffix == ".parquet":
            return plain(pq.read_table(path))
        with path.open(encoding="utf-8") as lines:
            columns = lines.readline().rstrip("\n").split(",")
        options = csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False)
        parse = csv.ParseOptions(newlines_in_values=True)
        return csv.read_csv(path, convert_options=options, parse_options=parse)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"cannot read: {reason}", where=path, fix="download the release again") from error


def plain(table):
    """Return a table without dictionary encoding and metadata, so that its values can be compared between files."""
    import pyarrow as pa  # noqa: PLC0415

    fields = [
        pa.field(field.name, field.type.value_type if pa.types.is_dictionary(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def missing_columns(file: str, published, other) -> Iterator[Difference]:
    """Yield the columns that only one version contains."""
    for column in published.column_names:
        if column not in other.column_names:
            yield Difference(file, column, len(published), "the column is only in the release")
    for column in other.column_names:
        if column not in published.column_names:
            yield Difference(file, column, len(other), "the column is only in this campaign")


def different_rows(con, file: str, published, other) -> Iterator[Difference]:
    """Yield the differences in values, and in the number of rows."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    common = [column for column in published.column_names if column in other.column_names]
    key = key_columns(file, common)
    con.register("published_keys", keys(published, key))
    con.register("other_keys", keys(other, key))
    matched = con.sql(queries.text("release", "matched_rows")).to_arrow_table()
    unmatched = [pc.sum(pc.is_null(matched[name])).as_py() or 0 for name in ("other_row", "published_row")]
    if any(unmatched):
        first = f"{unmatched[0]} only in the release, {unmatched[1]} only in this campaign"
        yield Difference(file, ROWS, sum(unmatched), first)
    in_both = matched.filter(pc.and_(pc.is_valid(matched["published_row"]), pc.is_valid(matched["other_row"])))
    for column in common:
        values = published[column].take(in_both["published_row"]), other[column].take(in_both["other_row"])
        if values[0].type != values[1].type:
            yield Difference(file, column, len(in_both), f"type {values[0].type} in the release, here {values[1].type}")
            continue
        pairs = {"pair": pa.array(range(len(in_both)), pa.int64()), "published": values[0], "other": values[1]}
        con.register("pairs", pa.table(pairs))
        ((rows, first, published_value, other_value),) = con.sql(queries.text("release", "different_values")).fetchall()
        if rows:
            row = in_both["published_row"][first].as_py()
            where = ", ".join(f"{name} {shown(published[name][row].as_py())}" for name in key) or f"row {row}"
            yield Difference(file, column, rows, f"{where}: {shown(published_value)}, here {shown(other_value)}")


def key_columns(file: str, common: list[str]) -> list[str]:
    """Return the columns by which rows are matched; [] if they are matched by row number."""
    table = table_of(file)
    if table not in KEYS_OF_DIGESTS and not (schemas.root() / "tables" / f"{table}.yaml").is_file():
        return []
    key = KEYS_OF_DIGESTS.get(table) or schemas.table(table)["key"]
    return list(key) if set(key) <= set(common) else []


def keys(table, key: list[str]):
    """Return a table of row numbers and keys. Without key columns, the key is the row number."""
    import pyarrow as pa  # noqa: PLC0415

    rows = pa.array(range(len(table)), pa.int64())
    if not key:
        return pa.table({"row": rows, "key": rows})
    columns = [table[name].combine_chunks() for name in key]
    return pa.table({"row": rows, "key": pa.StructArray.from_arrays(columns, names=key)})


def shown(value: object) -> str:
    """Return a value as a string of bounded length without control characters."""
    text = "null" if value is None else names.shown(str(value))
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."
