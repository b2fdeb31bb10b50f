"""Tables described by schemas/tables/*.yaml: Arrow types, keys, and reproducible files."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from acapella_core import names, schemas
from acapella_core.arrow_tables import arrow_schema
from acapella_core.errors import UserError
from acapella_core.files import atomic_path

from . import queries

ROW_GROUP = 131_072  # rows


def write(relation, table: str, target, complete: contextlib.ExitStack | None = None, columns=None) -> list[Path]:
    """Write a DuckDB relation to ``target(suffix)`` for csv and parquet according to its schema; return the paths.

    With ``complete``, the files are renamed to their final names when that stack closes without an error, and removed
    otherwise. ``columns``: columns to write, which must include the key (default: all columns of the schema).

    Rows are sorted by the schema's key. CSV files follow RFC 4180, except that lines end in LF. Their text is quoted,
    so that null (an empty field) differs from empty text (""), and their doubles have at most 9 significant digits.
    Raises ValueError if a null violates the schema.
    """
    schema = arrow_schema(table)
    if columns is not None:
        schema = pa.schema([field for field in schema if field.name in columns])
    ordered = relation.select(*schema.names).order(", ".join(schemas.table(table)["key"]))
    parquet, text = target("parquet"), target("csv")
    with contextlib.ExitStack() as local:
        renamed = local if complete is None else complete
        parquet_part, text_part = (renamed.enter_context(atomic_path(path)) for path in (parquet, text))
        options = csv.WriteOptions(include_header=False, quoting_style="needed")
        with text_part.open("wb") as sink, pq.ParquetWriter(parquet_part, schema, compression="zstd") as rows:
            sink.write((",".join(schema.names) + "\n").encode())
            with csv.CSVWriter(sink, schema, write_options=options) as csv_rows, ThreadPoolExecutor(1) as thread:
                for part in parts(ordered.to_arrow_reader(ROW_GROUP)):
                    table_part = conform(part, schema)
                    written = thread.submit(lambda part=table_part: csv_rows.write_table(rounded(part)))
                    rows.write_table(table_part, row_group_size=ROW_GROUP)  # a large table takes seconds in each format
                    written.result()
    return [text, parquet]


def check(relation, table: str) -> None:
    """Raise the error that `write` would raise for a DuckDB relation, without writing it."""
    schema = arrow_schema(table)
    for part in relation.select(*schema.names).to_arrow_reader(ROW_GROUP):
        conform(pa.Table.from_batches([part]), schema)


def write_rows(rows: list[dict], table: str, target, complete: contextlib.ExitStack | None = None) -> list[Path]:
    """Write dictionaries as `write` does. Missing columns are null; keys that the schema does not name are ignored."""
    schema = arrow_schema(table)
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    con = queries.connect()
    return write(con.from_arrow(pa.table(columns, names=schema.names)), table, target, complete)


def parts(reader):
    """Yield tables of ROW_GROUP rows and a shorter last one, so that files do not depend on the sizes of batches."""
    rows = pa.Table.from_batches([], schema=reader.schema)
    for batch in reader:
        rows = pa.concat_tables([rows, pa.Table.from_batches([batch])])
        while len(rows) >= ROW_GROUP:
            yield rows.slice(0, ROW_GROUP)
            rows = rows.slice(ROW_GROUP)
    yield rows


def conform(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the schema's types. Raises ValueError for an overflow or a forbidden null.

    Integers in columns of doubles are rounded to the nearest double.
    """
    for field in schema:
        if not field.nullable and part[field.name].null_count:
            raise ValueError(f"column {field.name} contains nulls, but its schema does not allow them")
        column = part[field.name]
        if pa.types.is_floating(field.type) and pa.types.is_integer(column.type):
            position = part.schema.get_field_index(field.name)
            part = part.set_column(position, field.name, column.cast(field.type, safe=False))
    return part.cast(schema).combine_chunks()


def rounded(part: pa.Table) -> pa.Table:
    """Return the rows with doubles rounded to 9 significant digits. CSV files use the shortest form of each number."""
    columns = []
    for column in part.columns:
        if pa.types.is_floating(column.type):
            values = [None if value is None else float(f"{value:.9g}") for value in column.to_pylist()]
            columns.append(pa.array(values, column.type))
        else:
            columns.append(column)
    return pa.table(columns, schema=part.schema)


def read(table: str, path: Path, fix: str, *, partial: bool = False) -> pa.Table:
    """Return the contents of a table's Parquet file. ``partial``: add missing columns that may be null.

    Doubles are rounded as in the CSV file, and control characters in text are escaped. Raises UserError with ``fix``
    as advice if the file does not have the table's schema.
    """
    schema = arrow_schema(table)
    try:
        with pq.ParquetFile(path) as file:
            contents = file.read()
            for field in schema if partial else ():
                if field.nullable and field.name not in contents.column_names:
                    contents = contents.append_column(field, pa.nulls(len(contents), field.type))
            contents = conform(contents.select(schema.names), schema)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise UserError(f"does not match this version's schema: {one_line(error)}", where=path, fix=fix) from error
    return printable(rounded(contents))


def printable(table: pa.Table) -> pa.Table:
    """Return a table with control characters escaped, because some of them abort the renderer."""
    for index, field in enumerate(table.schema):
        if pa.types.is_string(field.type) and not pc.all(pc.utf8_is_printable(table[field.name])).as_py():
            texts = [text and names.shown(text) for text in table[field.name].to_pylist()]
            table = table.set_column(index, field, pa.array(texts, field.type))
    return table


def one_line(error: Exception) -> str:
    """Return the first line of an error's text, without the quotes that KeyError adds."""
    return str(error).strip("'\"").splitlines()[0]
