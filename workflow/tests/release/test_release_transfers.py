"""Tests that a release of transfers and generated traffic contains what their tables need, and no addresses."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from acapella_testing.generated import generated_transfers as made
from acapella_testing.generated.files_campaign import failed, run
from acapella_testing.generated.monitored_trials import monitored
from acapella_testing.new_files import change_json, new_directory, write_file, write_json
from acapella_testing.release_records import changed_columns, checksums_of, reported_columns
from acapella_testing.requirements import skip_if
from acapella_testing.runs.other_environment import check_out, run_elsewhere, turkish, why_unavailable
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import Workplace
from acapella_testing.soak import takes_minutes

from acapella.campaign.layout import Campaign
from acapella.campaign.monitor import TABLES as MONITOR_TABLES
from acapella.cli.main import main
from acapella.release import checksums, generated, reproducible, transfers
from acapella.transfer.tables import TABLES
from acapella_core import schemas

TRIALS = ("quiet-1", "busy-1")
PRIVATE = ("secret-host", "10.0.0.1", "192.0.2.77", "cookie", "Thu, 01 Jan 2026", "SITE-A", "operator")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """Return a campaign of transfers, one of which failed, and generated traffic. Files contain names and addresses."""
    directory = new_directory(tmp_path_factory.mktemp("transfers") / "mine")
    made.captured(directory, delays=(20,))
    made.multipath(directory, ratios=(2.0,))
    made.cell(directory, "failed", [{"error": "unable to connect to 192.0.2.77"}], error="secret-host: no reply")
    for path in (directory / "transfers").glob("*/*.json"):
        content = json.loads(path.read_text())
        if path.name == "cell.json":
            content["environment"]["sites"] = {"h1": "SITE-A"}
            content["operator"] = "operator"
            links = [link["between"] for link in content.get("links", {}).values()]
            for nodes in (*content.get("paths", {}).values(), *links):
                nodes[:] = ["secret-host" if name == "r1" else name for name in nodes]
        elif "start" in content:
            content["start"] |= {"cookie": "cookie", "connecting_to": {"host": "secret-host"}}
        path.write_text(json.dumps(content))
    (directory / "config.json").write_text('{"figures": {"formats": ["svg"]}}')
    run("campaign", "transfers", directory)
    for number, sample in enumerate(TRIALS):
        monitored(directory, sample, number)
    run("campaign", "monitored", directory, "--samples", *TRIALS)
    return directory


def test_release_contains_no_host_site_or_address(release):
    files = [path for path in release.rglob("*") if path.is_file()]
    assert len([path for path in files if path.name == "cell.json"]) == 8
    for path in files:
        assert not [word for word in PRIVATE if word.encode() in path.read_bytes()], path
        assert not {"src", "dst", "flow_id"} & {*(pq.read_schema(path).names if path.suffix == ".parquet" else ())}


def test_tables_from_a_release_equal_those_of_the_campaign(campaign, release, tmp_path):
    run("campaign", "transfers", tmp_path, "--runs", release)
    reasons = [row["reason"] for row in rows(tmp_path, "transfer_files")]
    assert reasons == ["iperf3 reports an error: not published", "run failed: not published"]
    for name in (name for name in TABLES if name != "transfer_files"):
        ours, theirs = rows(tmp_path, name), rows(campaign, name)
        for row in (*ours, *theirs):
            row["error"] = row.get("error") is None
        assert ours == theirs, name
        assert bool(ours) == (name != "transfer_shallow"), "no buffer is shallow"


def test_tables_of_generated_traffic_equal_those_of_the_campaign_without_addresses(campaign, release, tmp_path):
    assert "| generated/ | 2 trials of generated traffic" in (release / "README.md").read_text()
    run("campaign", "monitored", tmp_path, "--release", release)
    for name in MONITOR_TABLES:
        addresses = {"src": None, "dst": None} if name == "monitor_flows" else {}
        assert rows(tmp_path, name) == [row | addresses for row in rows(campaign, name)], name
        assert len(rows(tmp_path, name)) == 2, name
    assert [row["name"] for row in rows(tmp_path, "monitor_ports")] == [*TRIALS], "in the order of ports"


@pytest.mark.parametrize("content", ["{", "[]", '{"samples": 5}', '{"samples": ["../x"]}'])
def test_invalid_list_of_generated_traffic_is_a_one_line_error(public, tmp_path, content, capsys):
    (public / "generated" / "trials.json").write_text(content)
    error = failed(capsys, "campaign", "monitored", new_directory(tmp_path / "made"), "--release", public)
    assert "generated/trials.json: " in error


def test_damaged_files_of_generated_traffic_are_not_released(mine, release, tmp_path, capsys):
    os.truncate(mine / "generated" / "busy-1" / "monitor_flows.parquet", 100)
    error = failed(capsys, "release", mine, "-o", tmp_path / "public", "--key-file", release.parent / "key")
    assert "its SHA-256 differs from that in" in error
    assert not (tmp_path / "public").exists()


def test_damaged_files_and_invalid_cells_are_not_released(campaign, tmp_path):
    changes = {"damaged": {}, "without-flows": {"flows": [1]}, "elsewhere": {"wire": "/home/operator/wire.parquet"}}
    for name, change in changes.items():
        copy = shutil.copytree(campaign / "transfers" / "bbr-20-102400", tmp_path / "mine" / "transfers" / name)
        change_json(copy / "cell.json", **change)
    for name in ("wire.parquet", "wire.flows.parquet"):
        os.truncate(tmp_path / "mine" / "transfers" / "damaged" / name, 100)
    notes = transfers.write(tmp_path / "public", tmp_path / "mine", hidden=False)
    assert notes == ["transfers: 4 files are damaged or invalid"]
    written = {path.relative_to(tmp_path / "public").as_posix() for path in (tmp_path / "public").rglob("*.*")}
    assert written == {"transfers/damaged/cell.json", "transfers/damaged/iperf3-0.json"}
    assert transfers.original_flows(tmp_path / "mine") == []


@pytest.mark.soak
def test_one_changed_byte_of_a_start_lists_exactly_the_affected_columns(public, tmp_path):
    """The flow then starts three years after the others: most times near 10^17 ns have no exact double."""
    made = make_tables(tmp_path / "made", public)
    run("campaign", "compare", made, public, "--record")
    path = public / "transfers" / "ratio-2.0" / "cell.json"
    text = path.read_text()
    assert '"started_ns":1000000000000001000' in text
    path.write_text(text.replace('"started_ns":1000000000000001000', '"started_ns":1100000000000001000'))
    expected = changed_columns_again(made, public, tmp_path / "again")
    assert ("tables/transfer_settings.parquet", "completion_ns_high") in expected
    assert not any(file.startswith("tables/monitor_") for file, _ in expected)


@pytest.mark.soak
def test_one_changed_byte_of_generated_traffic_lists_exactly_the_affected_columns(public, tmp_path):
    path = public / "generated" / "busy-1" / "monitor_flows.parquet"
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pq.read_table(path), path, **plain)  # so that a byte is a character
    checksums.write(public)
    made = make_tables(tmp_path / "made", public)
    run("campaign", "compare", made, public, "--record")
    content = path.read_bytes()
    assert content.count(b"small") == 1
    path.write_bytes(content.replace(b"small", b"smell"))
    assert changed_columns_again(made, public, tmp_path / "again") == {("tables/monitor_flows.parquet", "name")}


def make_tables(directory: Path, public: Path) -> Path:
    """Make the tables of a release; return the campaign."""
    run("campaign", "transfers", new_directory(directory), "--runs", public)
    run("campaign", "monitored", directory, "--release", public)
    return directory


def changed_columns_again(made: Path, public: Path, again: Path) -> set[tuple[str, str]]:
    """Recompute the tables of a changed release and return the columns that differ, by a naive comparison.

    They have to be those that the comparison with the release lists.
    """
    make_tables(again, public)
    assert main(["campaign", "compare", str(again), str(public)]) == 1
    expected = set()
    for name in (*TABLES, *MONITOR_TABLES):
        ours, theirs = rows(again, name), rows(made, name)
        assert len(ours) == len(theirs)
        expected |= changed_columns(f"tables/{name}.parquet", schemas.table(name)["key"], ours, theirs)
    assert reported_columns(again) == expected
    return expected


def test_imported_iperf3_files_are_noted(mine, tmp_path):
    assert transfers.write(tmp_path / "first", mine, hidden=False) == []
    run("campaign", "transfers", mine, "--data", mine / "transfers" / "bbr-20-102400" / "iperf3-0.json")
    assert transfers.write(tmp_path / "second", mine, hidden=False) == [transfers.IMPORTED]


@pytest.mark.parametrize(
    ("replay", "notes"), [({"departures": [{"file": "d"}]}, [reproducible.DEPARTURES]), (None, [])]
)
def test_corrections_of_kappa_by_departures_are_noted(tmp_path, replay, notes):
    write_json(tmp_path / "raw" / "a-1.json", {"replay": replay})
    write_file(tmp_path / "config.json", '{"trials": {"a": ["a-1", "a-2"]}}')
    samples = [SimpleNamespace(sample=name, name=name) for name in ("a-1", "a-2")]
    config, found = reproducible.released_config(tmp_path, samples, ["native"] * 2, hidden=False)
    assert found == notes
    assert config["trials"] == {"a": [["a-1"], ["a-2"]]}


def test_hidden_names_omit_transfers(campaign, tmp_path):
    assert transfers.write(tmp_path, campaign, hidden=True) == [transfers.HIDDEN]
    assert generated.write(tmp_path, Campaign(campaign), hidden=True) == (0, [generated.HIDDEN])
    assert not any(tmp_path.iterdir())


def test_search_finds_an_original_address(mine, release, tmp_path, capsys, monkeypatch):
    """The flow tables of real captures have addresses."""
    path = next((mine / "transfers").glob("*/wire.flows.parquet"))
    table = pq.read_table(path)
    for name in ("src", "dst", "flow_id", "peer_flow_id", "community_id"):
        table = table.append_column(name, [["0" * 32 if name.endswith("_id") else "192.0.2.77"] * len(table)])
    pq.write_table(table, path)
    text = {**transfers.IPERF3_KEYS["start"], "version": transfers.TEXT}
    monkeypatch.setitem(transfers.IPERF3_KEYS, "start", text | {"connecting_to": {"host": transfers.TEXT}})
    report = next(path.parent.glob("iperf3-*.json"))
    change_json(report, start=json.loads(report.read_text())["start"] | {"connecting_to": {"host": "192.0.2.77"}})
    error = failed(capsys, "release", mine, "-o", tmp_path / "public", "--key-file", release.parent / "key")
    assert "the original address 192.0.2.77" in error
    assert not (tmp_path / "public").exists()


@pytest.mark.timeout(1200)
@takes_minutes
def test_tables_and_figures_of_transfers_are_reproduced_in_another_directory(public, tmp_path):
    skip_if(why_unavailable())
    place, elsewhere = Workplace(new_directory(tmp_path / "place")), new_directory(tmp_path / "elsewhere")
    place.succeed("--cores", "2", "record", "--config", f"reproduce={public}")
    sums = checksums_of(public)
    names = {name for name in sums if name.startswith("results/tables/")}
    tables = (*TABLES, *MONITOR_TABLES)
    assert names == {f"results/tables/{name}.{suffix}" for name in tables for suffix in ("csv", "parquet")}
    assert "results/figures/monitor_flows.svg" in sums
    assert "results/figures/transfer_ratios.svg" in sums
    assert "results/figures/transfer_streams.svg" not in sums
    variables = turkish(tmp_path / "locales") | {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "9"}
    words = ("--cores", "1", "reproduce", "--config", f"reproduce={public}", "campaign=mine")
    ended = run_elsewhere(check_out(tmp_path / "checkout"), elsewhere, *words, **variables)
    assert ended.returncode == 0, ended.stdout[-4000:]
    lines = (elsewhere / "results/mine/reproduced.txt").read_text().splitlines()
    compared = [name for name in sums if name.startswith(("results/tables/", "results/figures/"))]
    assert lines[-1] == f"all {len(compared)} compared files are identical"
