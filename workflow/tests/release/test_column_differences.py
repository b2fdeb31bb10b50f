"""Tests the comparison of two versions of a table."""

import math
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.new_files import write_file

from acapella.release.column_differences import MAX_SHOWN, ROWS, differences
from acapella_core.errors import UserError

NAME = "tables/top_flows.parquet"  # key: site, rank


def parquet_file(path: Path, rows: list[dict], schema: pa.Schema | None = None) -> Path:
    """Write rows as Parquet; return the path."""
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def found(tmp_path: Path, published: list[dict], other: list[dict], name: str = NAME) -> list[tuple]:
    """Return (column, rows, first) of the differences between two lists of rows."""
    paths = parquet_file(tmp_path / "published.parquet", published), parquet_file(tmp_path / "other.parquet", other)
    return [(row.column, row.rows, row.first) for row in differences(name, *paths)]


def rows(count: int = 4) -> list[dict]:
    """Return rows with the key of the table and values of several types."""
    return [{"site": "a", "rank": n, "frames": n * n, "vlan": [n, 7], "app": None} for n in range(count)]


def test_equal_tables_have_no_differences_in_any_order_of_rows(tmp_path):
    assert found(tmp_path, rows(), rows()[::-1]) == []


def test_changed_values_are_counted_and_the_first_is_named(tmp_path):
    other = rows()
    other[1]["frames"], other[3]["frames"], other[2]["vlan"] = 5, None, [2]
    changes = [("frames", 2, "site a, rank 1: 1, here 5"), ("vlan", 1, "site a, rank 2: [2, 7], here [2]")]
    assert found(tmp_path, rows(), other) == changes


def test_missing_and_added_rows_do_not_shift_the_others(tmp_path):
    other = [*rows()[1:], {"site": "b", "rank": 0, "frames": 1, "vlan": [], "app": None}]
    assert found(tmp_path, rows(), other) == [(ROWS, 2, "1 only in the release, 1 only in this campaign")]


def test_null_keys_and_equal_keys_are_matched(tmp_path):
    published, other = ([{"site": None, "rank": 1, "frames": n} for n in counts] for counts in ((1, 2), (1, 3)))
    assert found(tmp_path, published, other) == [("frames", 1, "site null, rank 1: 2, here 3")]


def test_columns_of_only_one_version_and_changed_types_are_reported(tmp_path):
    key = {"site": "a", "rank": 1}
    changes = found(tmp_path, [key | {"old": 1, "frames": 1}], [key | {"new": 1, "frames": "1"}])
    assert [(column, count) for column, count, _ in changes] == [("old", 1), ("new", 1), ("frames", 1)]


def test_tables_without_a_schema_are_matched_by_row_number(tmp_path):
    published, other = ([{"x": 1}, {"x": n}] for n in (2, 3))
    assert found(tmp_path, published, other, "tables/unknown.parquet") == [("x", 1, "row 1: 2, here 3")]


def test_long_values_and_control_characters_are_not_printed(tmp_path):
    ((_, _, first),) = found(tmp_path, *([rows(1)[0] | {"app": app}] for app in ("\x1b[31m", "long" * 1000)))
    assert "\x1b" not in first
    assert len(first) < 3 * MAX_SHOWN


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_random_tables_match_a_naive_comparison(tmp_path, seed):
    rng = random.Random(seed)
    keys = rng.sample(range(100), 30)
    ours, theirs = (
        {n: {"site": "s", "rank": n, "a": rng.choice((1, None)), "b": rng.choice((0.5, math.nan))} for n in part}
        for part in (keys[:25], keys[5:])
    )
    common, expected = ours.keys() & theirs.keys(), {ROWS: len(ours.keys() ^ theirs.keys())}
    expected |= {name: sum(str(ours[n][name]) != str(theirs[n][name]) for n in common) for name in "ab"}
    counts = {column: count for column, count, _ in found(tmp_path, [*ours.values()], [*theirs.values()])}
    assert counts == {column: count for column, count in expected.items() if count}


def test_csv_files_are_compared_as_text(tmp_path):
    text = "site,rank,app\na,1,{}\na,2,\n"
    paths = [write_file(tmp_path / f"{n}.csv", text.format(value)) for n, value in enumerate(('"a,b"', '"a\nb"'))]
    ((difference),) = differences("tables/top_flows.csv", *paths)
    assert (difference.column, difference.rows, difference.first) == ("app", 1, "site a, rank 1: a,b, here a\\nb")


def test_unreadable_table_is_a_one_line_error(tmp_path):
    damaged = write_file(tmp_path / "published.parquet", b"PAR1")
    with pytest.raises(UserError) as caught:
        differences(NAME, damaged, parquet_file(tmp_path / "other.parquet", rows()))
    assert "\n" not in str(caught.value)
