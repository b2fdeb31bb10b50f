"""Files of an older format are rejected with one line that names the command to rerun."""

import json

import duckdb
import pyarrow.parquet as pq
import pytest
from acapella_testing.new_files import write_file
from acapella_testing.oracles.naive_tunnels import frame
from acapella_testing.tunnel_digests import digested, whole

from acapella.campaign.analyze import make_partials
from acapella.campaign.layout import Campaign
from acapella.cli.main import main
from acapella.digest.acap_files import KEY, check_format, metadata_of
from acapella.flowreports import exact
from acapella_core.errors import UserError


@pytest.fixture
def old(tmp_path):
    """Return a campaign whose acap and flow table have the metadata of a format before version 2."""
    campaign = Campaign(tmp_path / "old")
    digested(tmp_path, whole([frame([("vxlan_vni", 5)])]))
    for created, target in (("native.parquet", campaign.acap("a")), ("native.flows.parquet", campaign.flows("a"))):
        table = pq.read_table(tmp_path / created)
        metadata = metadata_of(tmp_path / created)
        assert metadata.pop("acap_format") == 3
        target.parent.mkdir(parents=True)
        pq.write_table(table.replace_schema_metadata({KEY: json.dumps(metadata)}), target)
    write_file(campaign.manifest("a"), "{}")
    return campaign


def check_error(line: str) -> None:
    assert line.count("\n") == 1
    assert "format version 1" in line
    assert "acapella digest" in line


@pytest.mark.parametrize(
    "words", ["show {acap} --columns src", "campaign index {directory}", "p4 compare {acap} --flows {flows}"]
)
def test_commands_reject_files_of_an_older_format_in_one_line(old, words, capfd):
    paths = {"acap": old.acap("a"), "flows": old.flows("a"), "directory": old.directory}
    assert main(words.format(**paths).split()) == 2
    check_error(capfd.readouterr().err)


@pytest.mark.parametrize(
    "read",
    [
        lambda old: make_partials(old, ["a"], old.directory / "partial"),
        lambda old: exact.make(None, old.acap("a"), old.flows("a"), window_ns=1),
    ],
    ids=["analyze", "flowreports"],
)
def test_stages_reject_files_of_an_older_format_in_one_line(old, read):
    with pytest.raises(UserError) as caught:
        read(old)
    check_error(f"{caught.value}\n")


def test_catalog_of_an_older_format_is_rejected_in_one_line(tmp_path, capfd):
    with duckdb.connect(str(tmp_path / "catalog.duckdb")) as con:
        con.execute("create table flows (sample varchar, src varchar)")
    assert main(["sql", str(tmp_path), "select src from flows"]) == 2
    error = capfd.readouterr().err
    assert error.count("\n") == 1
    assert "tunnels" in error and "acapella digest" in error


def test_files_of_this_format_are_read(tmp_path):
    digested(tmp_path, whole([frame([("vxlan_vni", 5)])]))
    check_format(tmp_path / "native.parquet")
    check_format(tmp_path / "native.flows.parquet")
