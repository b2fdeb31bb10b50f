"""Merging the flow reports of samples: errors name the sample, earlier tables stay."""

import pyarrow.parquet as pq
import pytest

from acapella import cli
from acapella.tables import arrow_schema


@pytest.mark.parametrize("broken", ["a", "b", "c"])
def test_a_result_that_cannot_be_merged_names_its_sample_and_earlier_tables_stay(tmp_path, capsys, broken):
    folder = tmp_path / "made"
    for sample in "abc":
        part = folder / "flowreports" / sample / "compared_flows.parquet"
        part.parent.mkdir(parents=True)
        pq.write_table(arrow_schema("flowreport_flows").empty_table(), part)
    damaged = folder / "flowreports" / broken / "compared_flows.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    (folder / "tables").mkdir()
    (folder / "tables" / "flowreport_flows.parquet").write_bytes(b"earlier")
    assert cli.main(["flowtables", str(folder), "--samples", "a", "b", "c"]) == 2
    error = capsys.readouterr().err
    assert f"{damaged.parent}: sample {broken} cannot be merged: " in error and error.count("\n") == 1
    assert [path.name for path in (folder / "tables").iterdir()] == ["flowreport_flows.parquet"]
    assert (folder / "tables" / "flowreport_flows.parquet").read_bytes() == b"earlier"
