"""Connections to DuckDB: rows inserted in one statement."""

import duckdb
import pytest

from acapella.common import queries


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [("a", 1, [80, 443]), (None, 2**64 - 1, [])],
        [(None, None, None)],
        [("'; drop table t", 0, [None])],
        [(str(n), n, [n] * (n % 3)) for n in range(5000)],
    ],
    ids=len,
)
def test_inserted_rows_have_the_types_and_the_order_of_the_table(rows):
    con = queries.connect()
    con.execute("create table t (name varchar, number ubigint, ports integer[])")
    queries.insert(con, "t", rows)
    assert con.execute("from t").fetchall() == rows
    assert [kind for _, kind, *_ in con.execute("describe t").fetchall()] == ["VARCHAR", "UBIGINT", "INTEGER[]"]


def test_too_large_value_inserts_nothing():
    con = queries.connect()
    con.execute("create table t (port usmallint)")
    with pytest.raises(duckdb.ConversionException, match="65536"):
        queries.insert(con, "t", [(80,), (65536,)])
    assert con.execute("from t").fetchall() == []
