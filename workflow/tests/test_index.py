"""The catalog: what it holds, what it refuses, and that any DuckDB client can open it."""

import json
import os
import subprocess
import sys

import duckdb
import pytest
from tiny import add_sample, flow

from acapella import cli, index, process
from acapella.campaign import Campaign
from acapella_core.errors import UserError

WEST = ("WEST", "p1")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "made"
    add_sample(folder, "a", WEST, (0, 20), [flow(1, 2), flow(1, 3, src="10.0.0.2", dst="10.0.0.1")])
    add_sample(folder, "b", ("EAST", "p1"), None, [])
    return folder


LISTS = {"flows": "vlan, mpls, tunnels, stacks", "frames": "vlan, mpls, tunnels", "samples": "notes"}
LISTS["connections"] = "fwd_vlan, rev_vlan, fwd_mpls, rev_mpls, fwd_tunnels, rev_tunnels"


def content(folder, environment=None, without=None):
    """Every table and view of a catalog but the published ones, as text, read from another folder.

    ``without``: columns that are left out, by table.
    """
    query = (
        f"import duckdb; c = duckdb.connect({str(folder / 'catalog.duckdb')!r}, read_only=True); "
        f"left_out, published = {without or {}}, {process.TABLES}; "
        "names = [t for (t,) in c.execute('show tables').fetchall() if t not in published]; "
        "columns = {t: f'* exclude ({left_out[t]})' if t in left_out else '*' for t in names}; "
        "print({t: c.execute(f'select {columns[t]} from {t}').fetchall() for t in names})"
    )
    command = [sys.executable, "-c", query]
    return subprocess.run(command, cwd="/", check=True, capture_output=True, text=True, env=environment).stdout


@pytest.fixture(scope="session")
def old_client(tmp_path_factory):
    """The environment in which Python imports DuckDB 1.0.0, the oldest that is to open a catalog."""
    folder = tmp_path_factory.mktemp("duckdb-1.0.0")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--target"]
    installed = subprocess.run([*command, str(folder), "duckdb==1.0.0"], capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"duckdb 1.0.0 cannot be installed from PyPI: {installed.stderr.strip().splitlines()[-1:]}")
    return os.environ | {"PYTHONPATH": str(folder)}


def test_any_client_opens_the_views_from_any_folder(tmp_path, folder):
    moved = folder.rename(tmp_path / "it's [one] of *")
    counts, missing = index.build(Campaign(moved))
    assert counts == {"samples": 2, "acaps": 2, "flows": 2, "stacks": 1}
    assert missing == []
    assert "Ethernet/IPv4/TCP" in content(moved)


def test_duckdb_1_0_0_opens_the_catalog(folder, old_client):
    """It cannot read a list column without any element, as here, which 1.1.0 can."""
    index.build(Campaign(folder))
    assert content(folder, old_client, without=LISTS) == content(folder, without=LISTS)


def test_published_tables_are_views_of_the_catalog(campaign):
    con = duckdb.connect(str(campaign / "catalog.duckdb"), read_only=True)
    for name in process.TABLES:
        assert (
            con.sql(f"from {name}").to_arrow_table()
            == con.read_parquet(str(campaign / "tables" / f"{name}.parquet")).to_arrow_table()
        ), name


def test_content_depends_on_the_inputs_alone(folder, tmp_path):
    index.build(Campaign(folder))
    first = content(folder)
    moved = folder.rename(tmp_path / "moved")
    index.build(Campaign(moved), threads=2)
    assert content(moved) == first


def test_a_second_run_replaces_the_catalog_whole(folder):
    index.build(Campaign(folder))
    add_sample(folder, "c", WEST, (40, 60), [flow(41, 42)])
    counts, _ = index.build(Campaign(folder))
    assert counts["samples"] == 3
    assert sorted(path.name for path in folder.iterdir()) == ["acap", "catalog.duckdb", "flows", "raw"]


def test_frames_join_their_flow_and_keep_those_without(campaign, monkeypatch):
    con = duckdb.connect(str(campaign / "catalog.duckdb"), read_only=True)
    monkeypatch.chdir(campaign)
    query = "select count(*), count(flow), count(src), count(flow_id), count(distinct sample) from frames"
    frames, with_flow, *joined, samples = con.execute(query).fetchone()
    total = con.execute("select sum(rows), count(*) filter (where rows > 0) from acaps").fetchone()
    assert (frames, samples) == total
    assert joined == [with_flow, with_flow]
    assert with_flow < frames


def test_connections_have_one_row_a_pair_in_the_direction_of_its_first_frame(tmp_path):
    folder = tmp_path / "made"
    there = flow(1, 5, syn=2, peer_flow=1, handshake_rtt_ns=77)
    back = flow(2, 6, src="10.0.0.2", dst="10.0.0.1", src_port=2000, dst_port=1000, syn=1, peer_flow=0)
    lonely = flow(3, 3, src_port=5, peer_flow=1)  # points at a flow that points elsewhere
    add_sample(folder, "a", WEST, (0, 20), [there, back, lonely])
    index.build(Campaign(folder))
    con = duckdb.connect(str(folder / "catalog.duckdb"), read_only=True)
    query = "select src, fwd_flow, rev_flow, syn, handshake_rtt_ns, duration_ns from connections"
    assert con.execute(query).fetchall() == [("10.0.0.1", 0, 1, 3, 77, 5 * 10**9)]


def test_sample_without_an_acap_is_named_and_counts_in_no_table(folder, capsys):
    (folder / "acap" / "b.parquet").unlink()
    (folder / "flows" / "b.parquet").unlink()
    assert cli.main(["index", str(folder)]) == 0
    assert "1 samples have no acap or are excluded, and count in no table: b" in capsys.readouterr().out


def test_excluded_sample_is_in_no_table_but_samples(folder, capsys):
    add_sample(folder, "c", WEST, (40, 60), [flow(41, 42)])
    assert cli.main(["index", str(folder), "--exclude", "a"]) == 0
    assert "count in no table: a" in capsys.readouterr().out
    con = duckdb.connect(str(folder / "catalog.duckdb"), read_only=True)
    assert con.execute("select sample, acap is null from samples order by 1").fetchall() == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]
    for table in ("flows", "stacks", "acaps"):
        assert con.execute(f"select count(*) from {table} where sample = 'a'").fetchone() == (0,)


def rewrite(folder, changed):
    path = folder / "raw" / "a.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changed), encoding="utf-8")


@pytest.mark.parametrize(
    ("changed", "mistake"),
    [
        ({"site": "EAST"}, "another site or port"),
        ({"port": "p9"}, "another site or port"),
        ({"sample": "z"}, "names another sample"),
        ({"site": None}, "names no site"),
        ({"run": "first"}, "raw/a.json"),
    ],
)
def test_contradictions_are_one_line_and_leave_no_catalog(folder, changed, mistake):
    rewrite(folder, changed)
    with pytest.raises(UserError, match=mistake) as error:
        index.build(Campaign(folder))
    assert "\n" not in str(error.value)
    assert not (folder / "catalog.duckdb").exists()
    assert sorted(path.name for path in folder.iterdir()) == ["acap", "flows", "raw"]


def test_site_called_all_is_refused(tmp_path):
    add_sample(tmp_path / "made", "a", ("all", "p1"), (0, 20), [])
    with pytest.raises(UserError, match="sum over all sites"):
        index.build(Campaign(tmp_path / "made"))


@pytest.mark.parametrize("part", [r"flows/a\.parquet", r"raw/a\.json"])
def test_acap_without_its_flows_or_manifest_is_named(folder, part):
    (folder / part.replace("\\", "")).unlink()
    with pytest.raises(UserError, match=part):
        index.build(Campaign(folder))


def test_broken_acap_is_one_line(folder):
    (folder / "acap" / "b.parquet").write_bytes(b"PAR1 no more")
    with pytest.raises(UserError, match=r"b\.parquet") as error:
        index.build(Campaign(folder))
    assert "\n" not in str(error.value)


def test_no_acaps_say_what_to_do(tmp_path):
    with pytest.raises(UserError, match="run acapella digest first"):
        index.build(Campaign(tmp_path))


@pytest.mark.parametrize(
    ("control", "not_sent", "filtered"),
    [
        (None, {}, False),
        (None, {"no-room": 0}, False),
        ("0" * 64, {}, True),
        (None, {"headerless": 2}, True),
        (None, None, True),
    ],
)
def test_a_sample_is_filtered_where_its_program_was_set_or_held_frames_back(folder, control, not_sent, filtered):
    program = {"program": "p.spec", "program_sha256": "0" * 64, "control_sha256": control, "not_sent": not_sent}
    manifest = folder / "raw" / "a.json"
    told = json.loads(manifest.read_text()) | {"testbed": "local", "method": "fpga", "filter": None, "p4": program}
    manifest.write_text(json.dumps(told))
    index.build(Campaign(folder))
    con = duckdb.connect(str(folder / "catalog.duckdb"), read_only=True)
    assert con.execute("select filtered from samples where sample = 'a'").fetchall() == [(filtered,)]
