"""Connections to DuckDB: rows inserted in one statement, and clauses that queries must not contain."""

import json
import re
from collections.abc import Iterator

import duckdb
import pytest

from acapella.common import queries
from acapella_core.errors import UserError


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


def counts_filtered_rows(con, query: str) -> bool:
    """Return whether a query has a column `count(*) filter (...) over ...`."""
    ((text,),) = con.execute("select json_serialize_sql($1)", [query]).fetchall()
    tree = json.loads(text)
    assert not tree["error"], tree
    windows = (node for node in nodes(tree) if node.get("class") == "WINDOW")
    return any(node["function_name"] == "count" and not node["arguments"] and node["filter_expr"] for node in windows)


def nodes(tree) -> Iterator[dict]:
    """Yield all objects in a JSON value."""
    if isinstance(tree, dict):
        yield tree
        tree = [*tree.values()]
    for part in tree if isinstance(tree, list) else ():
        yield from nodes(part)


def test_no_query_counts_filtered_rows_of_windows():
    """DuckDB 2.0 counts them one by one, which takes minutes for half a million frames. Use
    `count(nullif(condition, false)) over ...`.
    """
    con, window = queries.connect(), "from t window w as (order by n)"
    allowed = "sum(n) filter (n > 1) over w, count(*) over w, count(n) filter (n > 1) over w, count(*) filter (n > 1)"
    assert counts_filtered_rows(con, f"select {allowed} {window}") is False
    assert counts_filtered_rows(con, f"select n, count(*) filter (n > 1) over w {window}") is True
    texts = {path.stem: path.read_text(encoding="utf-8") for path in queries.DIRECTORY.rglob("*.sql")}
    assert len(texts) > 100
    suspects = {name: text for name, text in texts.items() if "count(*) filter (" in text and " over " in text}
    assert [name for name, text in suspects.items() if counts_filtered_rows(con, text)] == []


def test_error_for_a_full_disk_names_the_directory(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    con = queries.connect(memory_limit="16MB")
    con.execute("set max_temp_directory_size = '4MB'")
    advice = f"failed to offload .*; free space for intermediate results in {re.escape(str(tmp_path))}, or set TMPDIR"
    with pytest.raises(UserError, match=advice), queries.one_line():
        con.execute("create temp table t as select md5(range::varchar) as a, md5(a) as b from range(1000000)")


def test_error_for_too_little_memory_names_the_options():
    con = queries.connect(memory_limit="1MB")
    with pytest.raises(UserError, match=r"Memory Error: .*; give the stage more memory \(--memory"), queries.one_line():
        con.execute("create temp table t as select md5(range::varchar) as a from range(1000000) order by a")
