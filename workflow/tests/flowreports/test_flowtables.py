"""Merging the flow reports of samples: errors name the sample, earlier tables are kept."""

import contextlib

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from acapella_testing.new_files import new_directory, write_file, write_json

from acapella.campaign.layout import open_campaign
from acapella.cli import main as cli
from acapella.common.tables import arrow_schema
from acapella.flowreports import tables as flowtables

PAIRS = """copy (
    select 'flows' as triggers, 'bytes' as measure, 'report' as report, 1.0::double as exact, 1.0::double as measured,
        false as outside, true as covered, 0.0::double as width, false as ambiguous
    where false
) to '{file}' (format parquet)"""


@pytest.fixture
def created(tmp_path):
    """Return a campaign of three samples whose results have no rows."""
    directory = tmp_path / "made"
    for sample in "abc":
        part = new_directory(directory / "flowreports" / sample)
        for table, name in flowtables.MERGED.items():
            pq.write_table(arrow_schema(table).empty_table(), part / f"{name}.parquet")
        duckdb.execute(PAIRS.format(file=part / "pairs.parquet"))
    return directory


@pytest.mark.parametrize("value", [None, -1])
def test_invalid_value_error_names_the_sample(created, capsys, value):
    """DuckDB merges the value, but Arrow cannot convert it, which must not be a traceback."""
    assert cli.main(["p4", "tables", str(created), "--samples", "a", "b", "c"]) == 0
    earlier = {path: path.read_bytes() for path in (created / "tables").iterdir()}
    row = {"sample": "b", "place": 1, "stage": "settings", "counter": "reports", "value": value}
    types = {field.name: field.type for field in arrow_schema("flowreport_counts")} | {"value": pa.int64()}
    columns = [pa.array([row[name]], kind) for name, kind in types.items()]
    pq.write_table(pa.table(columns, names=list(types)), created / "flowreports" / "b" / "counts.parquet")
    capsys.readouterr()
    assert cli.main(["p4", "tables", str(created), "--samples", "a", "b", "c"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{created / 'flowreports' / 'b'}: sample b cannot be merged" in line
    assert {path: path.read_bytes() for path in (created / "tables").iterdir()} == earlier


@pytest.mark.parametrize("broken", ["a", "b", "c"])
def test_failed_merge_names_the_sample_and_keeps_earlier_tables(created, capsys, broken):
    damaged = created / "flowreports" / broken / "compared_flows.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    earlier = write_file(created / "tables" / "flowreport_flows.parquet", b"earlier")
    assert cli.main(["p4", "tables", str(created), "--samples", "a", "b", "c"]) == 2
    error = capsys.readouterr().err
    assert f"{damaged.parent}: sample {broken} cannot be merged: " in error and error.count("\n") == 1
    assert list(earlier.parent.iterdir()) == [earlier]
    assert earlier.read_bytes() == b"earlier"


def select(campaign, samples, failed=()) -> None:
    """Write the files of a run with these samples in key flowreports.samples, in which c is excluded."""
    write_json(campaign / "config.json", {"flowreports": {"samples": samples, "failed": [*failed]}})
    rows = "".join(f"{name}\tsite\tport\tfile\n" for name in "bac")
    write_file(campaign / "raw" / "samples.tsv", f"sample\tsite\tport\tfile\n{rows}")
    with contextlib.closing(duckdb.connect(campaign / "catalog.duckdb")) as con:
        con.execute(
            "create or replace table samples as "
            "select unnest(['a', 'b', 'c']) as sample, unnest(['f', 'f', null]) as acap"
        )


@pytest.mark.parametrize(("samples", "expected"), [("all", ["b", "a"]), (["a", "c", "b"], ["a", "b"])])
def test_samples_of_the_config_have_tables_unless_they_are_excluded(created, samples, expected):
    """The names are no arguments, because they may exceed the length of a command."""
    select(created, samples)
    assert flowtables.configured_samples(open_campaign(created)) == expected
    assert cli.main(["p4", "tables", str(created)]) == 0


@pytest.mark.parametrize("samples", ["all", ["a", "b"]])
def test_samples_whose_flow_reports_failed_have_no_tables(created, samples):
    select(created, samples, failed=["a"])
    assert flowtables.configured_samples(open_campaign(created)) == ["b"]
    select(created, samples, failed=["a", "b"])
    assert cli.main(["p4", "tables", str(created)]) == 0
    assert pq.read_table(created / "tables" / "flowreport_flows.parquet").num_rows == 0


@pytest.mark.parametrize(
    ("samples", "error"), [(None, "config.json: lists no samples with flow reports"), (["a", "d"], "no such file")]
)
def test_config_without_samples_is_an_error(created, capsys, samples, error):
    select(created, samples)
    assert cli.main(["p4", "tables", str(created)]) == 2
    assert error in capsys.readouterr().err
