"""Tests that a release of transfers and generated traffic contains what their tables need, and no addresses."""

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from acapella_testing.generated import generated_transfers as made
from acapella_testing.generated.files_campaign import run
from acapella_testing.generated.monitored_trials import monitored
from acapella_testing.new_files import new_directory
from acapella_testing.release_records import write_key
from acapella_testing.runs.other_environment import check_out, run_elsewhere, turkish, why_unavailable
from acapella_testing.runs.workflow_run import Workplace

from acapella.campaign.layout import Campaign
from acapella.campaign.monitor import TABLES as MONITOR_TABLES
from acapella.cli.main import main
from acapella.release import checksums, generated, reproducible, transfers
from acapella.transfer.tables import TABLES

PRIVATE = ("secret-host", "10.0.0.1", "192.0.2.77", "cookie", "Thu, 01 Jan 2026", "SITE-A", "operator")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """Return a campaign of transfers, whose files have names of hosts and sites, addresses and a failed run."""
    directory = new_directory(tmp_path_factory.mktemp("transfers") / "mine")
    made.captured(directory, delays=(20,))
    made.multipath(directory, ratios=(2.0,))
    made.cell(directory, "failed", [{"error": "unable to connect to 192.0.2.77"}], error="secret-host: no reply")
    for path in (directory / "transfers").glob("*/*.json"):
        content = json.loads(path.read_text())
        if path.name == "cell.json":
            content["environment"]["sites"] = {"h1": "SITE-A"}
            content["operator"] = "operator"
            for nodes in (
                *content.get("paths", {}).values(),
                *(e["between"] for e in content.get("links", {}).values()),
            ):
                nodes[:] = ["secret-host" if name == "r1" else name for name in nodes]
        elif "start" in content:
            content["start"] |= {"cookie": "cookie", "connecting_to": {"host": "secret-host"}}
        path.write_text(json.dumps(content))
    (directory / "config.json").write_text('{"figures": {"formats": ["svg"]}}')
    run("campaign", "transfers", directory)
    trials = ("quiet-1", "busy-1")
    for number, sample in enumerate(trials):
        monitored(directory, sample, number)
    run("campaign", "monitored", directory, "--samples", *trials)
    return directory


@pytest.fixture(scope="module")
def release(campaign) -> Path:
    """Return a release of the campaign. Nothing may change it."""
    key = write_key(campaign.parent / "key")
    run("release", campaign, "-o", campaign.parent / "public", "--key-file", key)
    return campaign.parent / "public"


def test_release_contains_no_host_site_or_address(release):
    files = [path for path in release.rglob("*") if path.is_file()]
    assert len([path for path in files if path.name == "cell.json"]) == 8
    for path in files:
        content = path.read_bytes()
        for word in PRIVATE:
            assert word.encode() not in content, (path, word)
        assert not {"src", "dst", "flow_id"} & {*(pq.read_schema(path).names if path.suffix == ".parquet" else ())}


def test_tables_from_a_release_equal_those_of_the_campaign(campaign, release, tmp_path):
    run("campaign", "transfers", tmp_path, "--runs", release)
    for name in TABLES:
        ours, theirs = (pq.read_table(d / "tables" / f"{name}.parquet").to_pylist() for d in (tmp_path, campaign))
        if name == "transfer_files":
            assert [row["reason"] for row in ours] == [
                "iperf3 reports an error: not published",
                "run failed: not published",
            ]
            continue
        for row in (*ours, *theirs):
            row["error"] = row.get("error") is None
        assert ours == theirs, name
        assert bool(ours) == (name != "transfer_shallow"), "no buffer is shallow"


def test_tables_of_generated_traffic_equal_those_of_the_campaign_without_addresses(campaign, release, tmp_path):
    assert "| generated/ | 2 trials of generated traffic" in (release / "README.md").read_text()
    run("campaign", "monitored", tmp_path, "--release", release)
    for name in MONITOR_TABLES:
        ours, theirs = (pq.read_table(d / "tables" / f"{name}.parquet").to_pylist() for d in (tmp_path, campaign))
        addresses = {"src": None, "dst": None} if name == "monitor_flows" else {}
        assert ours == [row | addresses for row in theirs] and len(ours) == 2, name
        if name == "monitor_ports":
            assert [row["name"] for row in ours] == ["quiet-1", "busy-1"], "in the order of ports"


@pytest.mark.parametrize("content", ["{", "[]", '{"samples": 5}', '{"samples": ["../x"]}'])
def test_invalid_list_of_generated_traffic_is_a_one_line_error(release, tmp_path, content, capsys):
    public = shutil.copytree(release, tmp_path / "public")
    (public / "generated" / "trials.json").write_text(content)
    assert main(["campaign", "monitored", str(new_directory(tmp_path / "made")), "--release", str(public)]) == 2
    error = capsys.readouterr().err
    assert "generated/trials.json: " in error and error.count("\n") == 1


def test_damaged_files_of_generated_traffic_are_not_released(campaign, release, tmp_path, capsys):
    mine = shutil.copytree(campaign, tmp_path / "mine")
    path = mine / "generated" / "busy-1" / "monitor_flows.parquet"
    path.write_bytes(path.read_bytes()[:100])
    assert main(["release", str(mine), "-o", str(tmp_path / "public"), "--key-file", str(release.parent / "key")]) == 2
    assert "its SHA-256 differs from that in" in capsys.readouterr().err
    assert not (tmp_path / "public").exists()


def test_damaged_files_and_invalid_cells_are_not_released(campaign, tmp_path):
    directory = campaign.parent / "mine" / "transfers" / "bbr-20-102400"
    for name in ("damaged", "without-flows", "elsewhere"):
        copy = shutil.copytree(directory, tmp_path / "mine" / "transfers" / name)
        content = json.loads((copy / "cell.json").read_text())
        changes = {"damaged": {}, "without-flows": {"flows": [1]}, "elsewhere": {"wire": "/home/operator/wire.parquet"}}
        (copy / "cell.json").write_text(json.dumps(content | changes[name]))
    for name in ("wire.parquet", "wire.flows.parquet"):
        path = tmp_path / "mine" / "transfers" / "damaged" / name
        path.write_bytes(path.read_bytes()[:100])
    notes = transfers.write(tmp_path / "public", tmp_path / "mine", hidden=False)
    assert notes == ["transfers: 4 files are damaged or invalid"]
    written = {path.relative_to(tmp_path / "public").as_posix() for path in (tmp_path / "public").rglob("*.*")}
    assert written == {"transfers/damaged/cell.json", "transfers/damaged/iperf3-0.json"}
    assert transfers.original_flows(tmp_path / "mine") == []


def test_one_changed_byte_of_a_start_lists_exactly_the_affected_columns(release, tmp_path):
    """The flow then starts three years after the others: 10^17 ns have no exact double."""
    public, made = shutil.copytree(release, tmp_path / "public"), tmp_path / "made"
    remake(made, public)
    run("campaign", "compare", made, public, "--record")
    path = public / "transfers" / "ratio-2.0" / "cell.json"
    text = path.read_text()
    path.write_text(text.replace('"started_ns":1000000000000001000', '"started_ns":1100000000000001000'))
    assert path.read_text() != text
    expected = compared_again(made, public, tmp_path / "again")
    assert ("tables/transfer_settings.parquet", "completion_ns_high") in expected
    assert not any(file.startswith("tables/monitor_") for file, _ in expected)


def test_one_changed_byte_of_generated_traffic_lists_exactly_the_affected_columns(release, tmp_path):
    public, made = shutil.copytree(release, tmp_path / "public"), tmp_path / "made"
    path = public / "generated" / "busy-1" / "monitor_flows.parquet"
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pq.read_table(path), path, **plain)  # so that a byte is a character
    checksums.write(public)
    remake(made, public)
    run("campaign", "compare", made, public, "--record")
    content = path.read_bytes()
    assert content.count(b"small") == 1
    path.write_bytes(content.replace(b"small", b"smell"))
    assert compared_again(made, public, tmp_path / "again") == {("tables/monitor_flows.parquet", "name")}


def remake(made: Path, public: Path) -> None:
    """Make the tables of a release."""
    run("campaign", "transfers", new_directory(made), "--runs", public)
    run("campaign", "monitored", made, "--release", public)


def compared_again(made: Path, public: Path, again: Path) -> set[tuple[str, str]]:
    """Recompute the tables of a changed release and return the columns that differ, by a naive comparison.

    They have to be those that the comparison with the release lists.
    """
    remake(again, public)
    assert main(["campaign", "compare", str(again), str(public)]) == 1
    expected = set()
    for name in (*TABLES, *MONITOR_TABLES):
        ours, theirs = (pq.read_table(each / "tables" / f"{name}.parquet").to_pylist() for each in (again, made))
        assert len(ours) == len(theirs)
        expected |= {
            (f"tables/{name}.parquet", column)
            for row, other in zip(ours, theirs, strict=True)
            for column in row
            if row[column] != other[column]
        }
    rows = [line.split("\t") for line in (again / "reproduced.tsv").read_text().splitlines()[1:]]
    assert {(file, column) for file, column, *_ in rows if file.endswith(".parquet")} == expected
    return expected


def test_imported_iperf3_files_are_noted(campaign, tmp_path):
    mine = shutil.copytree(campaign, tmp_path / "mine")
    assert transfers.write(tmp_path / "first", mine, hidden=False) == []
    run("campaign", "transfers", mine, "--data", campaign / "transfers" / "bbr-20-102400" / "iperf3-0.json")
    assert transfers.write(tmp_path / "second", mine, hidden=False) == [transfers.IMPORTED]


@pytest.mark.parametrize(
    ("replay", "notes"), [({"departures": [{"file": "d"}]}, [reproducible.DEPARTURES]), (None, [])]
)
def test_corrections_of_kappa_by_departures_are_noted(tmp_path, replay, notes):
    (new_directory(tmp_path / "raw") / "a-1.json").write_text(json.dumps({"replay": replay}))
    (tmp_path / "config.json").write_text('{"trials": {"a": ["a-1", "a-2"]}}')
    samples = [SimpleNamespace(sample=name, name=name) for name in ("a-1", "a-2")]
    config, found = reproducible.released_config(tmp_path, samples, ["native"] * 2, hidden=False)
    assert found == notes and config["trials"] == {"a": [["a-1"], ["a-2"]]}


def test_hidden_names_omit_transfers(campaign, tmp_path):
    assert transfers.write(tmp_path, campaign, hidden=True) == [transfers.HIDDEN]
    assert generated.write(tmp_path, Campaign(campaign), hidden=True) == (0, [generated.HIDDEN])
    assert not any(tmp_path.iterdir())


def test_search_finds_an_original_address(campaign, tmp_path, capsys, monkeypatch):
    """The flow tables of real captures have addresses."""
    mine = shutil.copytree(campaign, tmp_path / "mine")
    path = next(iter((mine / "transfers").glob("*/wire.flows.parquet")))
    table = pq.read_table(path)
    for name in ("src", "dst"):
        table = table.append_column(name, [["192.0.2.77"] * len(table)])
    for name in ("flow_id", "peer_flow_id", "community_id"):
        table = table.append_column(name, [["0" * 32] * len(table)])
    pq.write_table(table, path)
    text = {**transfers.IPERF3_KEYS["start"], "version": transfers.TEXT}
    monkeypatch.setitem(transfers.IPERF3_KEYS, "start", text | {"connecting_to": {"host": transfers.TEXT}})
    report = next(iter(path.parent.glob("iperf3-*.json")))
    content = json.loads(report.read_text())
    content["start"]["connecting_to"] = {"host": "192.0.2.77"}
    report.write_text(json.dumps(content))
    assert main(["release", str(mine), "-o", str(tmp_path / "public"), "--key-file", str(campaign.parent / "key")]) == 2
    assert "the original address 192.0.2.77" in capsys.readouterr().err
    assert not (tmp_path / "public").exists()


@pytest.mark.timeout(1200)
@pytest.mark.skipif("ACAPELLA_SOAK" not in os.environ, reason="a long test: run make soak")
def test_tables_and_figures_of_transfers_are_reproduced_in_another_directory(release, tmp_path):
    if reason := why_unavailable():
        pytest.skip(reason)
    public = shutil.copytree(release, tmp_path / "public")
    place, elsewhere = Workplace(new_directory(tmp_path / "place")), new_directory(tmp_path / "elsewhere")
    place.succeed("--cores", "2", "record", "--config", f"reproduce={public}")
    sums = dict(reversed(line.split("  ")) for line in (public / "SHA256SUMS").read_text().splitlines())
    names = {name for name in sums if name.startswith("results/tables/")}
    tables = (*TABLES, *MONITOR_TABLES)
    assert names == {f"results/tables/{name}.{suffix}" for name in tables for suffix in ("csv", "parquet")}
    assert "results/figures/monitor_flows.svg" in sums
    assert "results/figures/transfer_ratios.svg" in sums and "results/figures/transfer_streams.svg" not in sums
    variables = turkish(tmp_path / "locales") | {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "9"}
    words = ("--cores", "1", "reproduce", "--config", f"reproduce={public}", "campaign=mine")
    ended = run_elsewhere(check_out(tmp_path / "checkout"), elsewhere, *words, **variables)
    assert ended.returncode == 0, ended.stdout[-4000:]
    lines = (elsewhere / "results/mine/reproduced.txt").read_text().splitlines()
    compared = [name for name in sums if name.startswith(("results/tables/", "results/figures/"))]
    assert lines[-1] == f"all {len(compared)} compared files are identical"
