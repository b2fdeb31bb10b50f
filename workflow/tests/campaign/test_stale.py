"""Tests the cleanup after samples were removed from the sheet: files that are removed, moved, or kept."""

import re
import shutil

import duckdb
import pyarrow.parquet as pq
import pytest
from acapella_testing.generated.tiny import add_sample
from acapella_testing.new_files import change_json, new_directory, write_file
from acapella_testing.processes import with_umask
from acapella_testing.runs.stages import catalog_rows
from acapella_testing.runs.workflow_run import ROOT, workplace

from acapella.campaign import index
from acapella.campaign.layout import Campaign, provenance_names
from acapella.campaign.stale import Stage, remove_stages, remove_stale
from acapella.cli import main as cli
from acapella_core.errors import UserError

REMOVED = "acapella: removed {} files and directories of samples that are not in the sheet;"


@pytest.fixture
def campaign(tmp_path):
    """Return a campaign of samples a, b and c with testbed captures in raw/. The sheet lists all three."""
    for name in "abc":
        add_sample(tmp_path / "made", name)
        write(tmp_path / "made", **{f"raw/{name}.pcap": name, f"partial/{name}/quality.parquet": ""})
    return Campaign(tmp_path / "made")


def write(directory, **files):
    """Write files, given as path and text, with their directories."""
    for name, text in files.items():
        write_file(directory / name, text)


def names(directory):
    """Return the paths of all files and links below a directory."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_symlink() or not path.is_dir()}


def test_derived_files_are_removed_and_captures_of_a_testbed_are_moved(campaign):
    before = names(campaign.directory)
    first, *listed = remove_stale(campaign, ["a", "b"])
    after = names(campaign.directory)
    assert before - after == {"acap/c.parquet", "flows/c.parquet", "partial/c/quality.parquet"} | {
        "raw/c.pcap",
        "raw/c.json",
    }
    assert after - before == {"logs/stale.log", "stale/raw/c.pcap", "stale/raw/c.json"}
    assert (campaign.directory / "stale/raw/c.pcap").read_bytes() == b"c"
    assert first.startswith(f"{REMOVED.format(5)} 2 of them moved")
    assert [line.strip() for line in listed] == (campaign.directory / "logs/stale.log").read_text().splitlines()
    assert len(listed) == 5
    assert remove_stale(campaign, ["a", "b"]) == []


def test_records_of_failed_samples_are_removed_with_them(campaign):
    records = [f"quarantine/{name}.{suffix}" for name in "bd" for suffix in ("json", "log")]
    write(campaign.directory, **dict.fromkeys(records, "{}"))
    remove_stale(campaign, ["a", "b", "c"])
    assert names(campaign.directory / "quarantine") == {"b.json", "b.log"}


def test_departures_of_a_trial_are_moved_with_its_capture(campaign):
    write(campaign.directory, **{f"raw/{name}.departures.parquet": "departures" for name in "bc"})
    remove_stale(campaign, ["a", "b"])
    assert (campaign.directory / "stale" / "raw" / "c.departures.parquet").read_bytes() == b"departures"
    assert not (campaign.directory / "raw" / "c.departures.parquet").exists()
    assert (campaign.directory / "raw" / "b.departures.parquet").exists()


def test_control_characters_in_the_name_of_a_capture_are_escaped(campaign):
    raw = campaign.directory / "raw"
    (raw / "c.pcap").rename(raw / "c\x1b[2J\n.pcap")
    change_json(raw / "c.json", file="c\x1b[2J\n.pcap")
    lines = remove_stale(campaign, ["a", "b"])
    assert any(r"raw/c\x1b[2J\n.pcap -> " in line for line in lines)
    assert all(line.isprintable() for line in lines)
    assert all(line.isprintable() for line in (campaign.directory / "logs/stale.log").read_text().splitlines())


def test_links_are_removed_and_never_followed(campaign, tmp_path):
    directory, outside = campaign.directory, tmp_path / "outside"
    mine = {"directory/mine.txt", "mine.pcap", "cached.parquet"}
    write(outside, **dict.fromkeys(mine, "mine"))
    links = {"raw/c.pcap": "mine.pcap", "acap/c.parquet": "cached.parquet", "flows/d.parquet": "cached.parquet"}
    links |= {"partial/d": "directory", "flowreports/c": "directory"}
    add_sample(directory, "d")
    for place, target in links.items():
        new_directory((directory / place).parent)
        (directory / place).unlink(missing_ok=True)
        (directory / place).symlink_to(outside / target)
    (directory / "partial" / "c" / "inner").symlink_to(outside / "directory")
    remove_stale(campaign, ["a", "b"])
    assert not [place for place in links if (directory / place).is_symlink()]
    assert names(outside) == mine
    assert not (directory / "stale").exists()
    assert not (directory / "partial" / "c").exists()


def test_files_without_a_sample_are_kept_and_listed(campaign, tmp_path):
    """A link, a copy of an acap, and directories of the user are kept when sample c is removed from the sheet."""
    directory, acap = campaign.directory, campaign.directory / "acap"
    write(directory, **{"../elsewhere.parquet": "mine", "partial/notes/todo.txt": "mine"})
    (acap / "mine.parquet").symlink_to(tmp_path / "elsewhere.parquet")
    shutil.copyfile(acap / "a.parquet", acap / "backup.parquet")
    (directory / "flows" / "c.parquet").unlink()
    (directory / "flows" / "c.parquet").mkdir()
    (directory / "raw" / "linked.json").symlink_to(directory / "raw" / "a.json")
    *_, line = remove_stale(campaign, ["a", "b"])
    assert line.startswith(
        "acapella: 4 files or directories belong to no sample of the campaign and were not removed; "
    )
    assert line.endswith(
        f": {acap}/backup.parquet, {acap}/mine.parquet, {directory}/flows/c.parquet, {directory}/partial/notes"
    )
    assert (acap / "mine.parquet").is_symlink()
    assert (directory / "partial" / "notes" / "todo.txt").exists()
    assert (acap / "backup.parquet").read_bytes() == (acap / "a.parquet").read_bytes()
    assert not (acap / "c.parquet").exists()
    assert (directory / "raw" / "linked.json").is_symlink()
    assert remove_stale(campaign, ["a", "b"]) == [line]


def test_sample_without_manifest_is_recognized_by_its_log_and_metadata(campaign):
    """Snakemake deletes a manifest if its job runs again and fails."""
    directory = campaign.directory
    for name in "bc":
        (directory / "raw" / f"{name}.json").unlink()
    write(directory, **{f"logs/digest/{name}.log": "" for name in "bc"})
    write(directory, **{f"{kind}/b.parquet": "not of acapella digest" for kind in ("acap", "flows")})
    remove_stale(campaign, ["a"])
    assert names(directory / "acap") == names(directory / "flows") == {"a.parquet", "b.parquet"}
    assert {path.name for path in (directory / "partial").iterdir()} == {"a", "b"}


@pytest.mark.parametrize(
    ("linked", "sheet", "lines"),
    [
        pytest.param(["raw/c.json"], ["a", "b"], 1, id="linked manifest"),
        pytest.param([], [], 0, id="empty sheet"),
        pytest.param(["acap", "flows", "partial", "raw"], ["a"], 0, id="linked directories"),
    ],
)
def test_nothing_is_removed_without_a_sample_to_remove(campaign, tmp_path, linked, sheet, lines):
    for place in linked:
        (campaign.directory / place).symlink_to((campaign.directory / place).rename(tmp_path / place.replace("/", "-")))
    before = names(tmp_path)
    assert len(remove_stale(campaign, sheet)) == lines
    assert names(tmp_path) == before


def test_moved_captures_are_private(campaign):
    with with_umask(0):
        remove_stale(campaign, ["a", "b"])
    assert (campaign.directory / "stale" / "raw").stat().st_mode & 0o777 == 0o700


def test_files_that_are_not_samples_and_listed_captures_are_kept(campaign, tmp_path):
    raw = campaign.directory / "raw"
    mine = {"raw/notes.txt": "mine", "acap/notes.txt": "mine", "../precious.pcap": "mine"}
    write(campaign.directory, **{"raw/notes.json": "{}"}, **mine)
    change_json(raw / "b.json", file="../../precious.pcap")
    remove_stale(campaign, ["a"], captures=[raw / "c.pcap"])
    assert {"notes.json", "notes.txt", "c.pcap", "a.pcap", "a.json", "b.json"} <= names(raw)
    assert (campaign.directory / "acap" / "notes.txt").exists()
    assert (tmp_path / "precious.pcap").exists()


def test_earlier_captures_of_the_same_name_are_kept(campaign):
    for content in ("first", "second"):
        write(campaign.directory, **{"raw/c.pcap": content})
        add_sample(campaign.directory, "c")
        remove_stale(campaign, ["a", "b"])
    kept = campaign.directory / "stale" / "raw"
    assert [(kept / name).read_text() for name in ("c.pcap", "c.pcap.1")] == ["first", "second"]


def test_without_a_sheet_nothing_is_removed(campaign):
    before = names(campaign.directory)
    assert cli.main(["campaign", "index", str(campaign.directory)]) == 0
    assert names(campaign.directory) - before == {"catalog.duckdb"}


def test_index_removes_files_left_by_a_new_collection(campaign, capsys):
    (campaign.directory / "raw" / "samples.tsv").write_text("sample\tsite\tport\tfile\na\tWEST\tp1\ta.pcap\n")
    assert cli.main(["campaign", "index", str(campaign.directory)]) == 0
    assert "removed 10 files and directories of samples that are not in the sheet" in capsys.readouterr().out
    assert [path.name for path in (campaign.directory / "acap").iterdir()] == ["a.parquet"]


def test_tables_of_stages_that_left_the_config_are_removed_and_nothing_else(campaign):
    directory = campaign.directory
    made = ["tables/consistency.csv", "tables/consistency.parquet", "figures/kappa_matrix.svg", "consistency/env.json"]
    made += ["provenance/consistency.json", "consistency_provenance.json"]
    kept = ["tables/throughput.csv", "figures/throughput.svg", "kappa/env.json", "consistency_runs.csv"]
    write(directory, **dict.fromkeys([*made, *kept, "provenance/process.json"], ""))
    before = names(directory)
    files = ["consistency/*.json", "none.json", *provenance_names("consistency")]
    stage = Stage(["consistency", "consistency_runs"], ["kappa_matrix"], files)
    first, *listed = remove_stages(campaign, [stage])
    assert before - names(directory) == set(made)
    assert first.startswith("acapella: removed 6 files and directories of stages that are not in the config; list: ")
    assert len(listed) == 6
    assert (directory / "logs/stale.log").is_file()
    assert remove_stages(campaign, [stage]) == []


SITES_QUERY = re.search(r"with sites as.*?;", (ROOT / "results" / "README.md").read_text(), re.S)[0]


@pytest.mark.soak
def test_files_of_a_sample_removed_from_the_sheet_are_removed_but_not_those_of_users(tmp_path):
    """This also holds if another sample fails, so that `index` does not run. A dry run removes nothing."""
    place = workplace(tmp_path, digest={"engine": "native"})
    place.succeed("index")
    made_ns = (place.campaign / "catalog.duckdb").stat().st_mtime_ns
    (tmp_path / "captures" / "letter.pcap").write_text("Dear reader\n")
    sheet = tmp_path / "config" / "samples.tsv"
    kept = [line for line in sheet.open() if not line.startswith("beta-p1")]
    sheet.write_text("".join(kept) + "letter\talpha\tp3\t../captures/letter.pcap\n")
    place.succeed("--dry-run", "--until", "digest")
    assert (place.campaign / "acap" / "beta-p1.parquet").exists()
    printed = place.run("--keep-going", "--until", "collect", "digest").stdout
    assert [line for line in printed.splitlines() if line.startswith(f"{REMOVED.format(4)} list: ")]
    assert not [name for name in names(place.campaign) if name.startswith(("acap", "flows", "raw")) and "beta" in name]
    assert (tmp_path / "captures" / "beta-p1.pcap.gz").is_file()
    digested = {path.stem: pq.read_metadata(path).num_rows for path in (place.campaign / "acap").glob("*.parquet")}
    assert digested == {"alpha-p1": 82, "alpha-p2": 78}
    assert sorted(duckdb.sql(SITES_QUERY.replace("results/demo", str(place.campaign))).fetchall()) == [
        ("alpha-p1", "alpha", "p1", 82),
        ("alpha-p2", "alpha", "p2", 78),
    ]
    assert (place.campaign / "catalog.duckdb").stat().st_mtime_ns == made_ns
    for table in ("samples", "acaps", "flows", "stacks", "frames", "connections"):
        assert {*catalog_rows(place.campaign, f"select sample from {table}")} == {("alpha-p1",), ("alpha-p2",)}, table


def test_error_without_any_included_sample_names_the_reason(tmp_path):
    write_file(tmp_path / "raw" / "samples.tsv", "sample\tsite\tport\tfile\na\ts\tp\tf\nb\ts\tp\tf\n")
    with pytest.raises(UserError, match=r"all samples are omitted, .* delete .*/quarantine/NAME\.json, or"):
        index.build(Campaign(tmp_path), exclude=["a"], failed=["b"])
