"""Digests with one changed cell, which acapella verify must detect."""

import pyarrow as pa
import pyarrow.parquet as pq

from acapella.verify import tables


def tamper(monkeypatch, change, flows: bool = False) -> None:
    """Make verify read a digest that ``change`` has altered. ``change`` takes and returns a table."""
    original = tables.write_our_digest

    def altered(file, engine, directory, limits=None):
        created = original(file, engine, directory)
        path = created.flows if flows else created.frames
        table = pq.read_table(path)
        pq.write_table(change(table).cast(table.schema), path)
        return created

    monkeypatch.setattr(tables, "write_our_digest", altered)


def replaced(name: str, new_value, row: int = 0):
    """Return a function that changes one cell of a table; ``new_value`` computes it from the old value."""

    def change(table: pa.Table) -> pa.Table:
        column = table[name].to_pylist()
        column[row] = new_value(column[row])
        return table.set_column(table.schema.get_field_index(name), name, pa.array(column, table[name].type))

    return change
