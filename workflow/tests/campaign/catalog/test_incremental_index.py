"""Tests that an index which keeps rows of the earlier catalog has the same rows as an index of all files."""

import json
import os
import random
import shutil
import sys
from functools import partial
from pathlib import Path

import duckdb
import pytest
from acapella_testing import processes
from acapella_testing.generated.files_campaign import run
from acapella_testing.generated.tiny import add_sample, flow
from acapella_testing.new_files import change_json, new_directory
from acapella_testing.runs.in_process import call_before
from acapella_testing.runs.stages import catalog_rows

from acapella.campaign import index, reused
from acapella.campaign.layout import Campaign
from acapella_core import shards

PLACES = [("WEST", "p1"), ("WEST", "p2"), ("EAST", "p1")]
TABLES = ("samples", "acaps", "flows", "stacks", "connections", "frames")


def add(directory: Path, name: str, choice: random.Random, **manifest) -> None:
    """Add or rewrite a sample with random flows."""
    flows = [
        flow(start, start + choice.randrange(5), src_port=choice.randrange(3), vlan=[7][: choice.randrange(2)])
        for start in range(choice.randrange(4))
    ]
    add_sample(directory, name, choice.choice(PLACES), (0, 20), flows, **manifest)


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """Return a campaign of four samples. The index treats the clock of the file system as exact."""
    monkeypatch.setattr(reused, "CLOCK_STEP_NS", 0)
    directory = tmp_path / "made"
    for name in "abcd":
        add(directory, name, random.Random(name))
    return directory


def tick(directory: Path) -> None:
    """Wait until the clock of the file system is later than the change times of all files of a campaign."""
    latest, probe = max(path.stat().st_ctime_ns for path in directory.rglob("*")), directory / "probe"
    while True:
        probe.write_bytes(b"")
        if probe.stat().st_ctime_ns > latest:
            return probe.unlink()


def rows(directory: Path) -> dict[str, list]:
    """Return the rows of all tables of a catalog in the order of their values."""
    return {name: sorted(map(repr, catalog_rows(directory, f"from {name}"))) for name in TABLES}


@pytest.fixture
def indexed(directory):
    """Return the campaign with its catalog."""
    tick(directory)
    index.build(Campaign(directory))
    return directory


def rows_of_new_catalog(directory: Path, **options) -> dict[str, list]:
    """Return the rows of a catalog that is created from all files. The existing catalog is kept."""
    earlier = (directory / "catalog.duckdb").rename(directory / "earlier")
    index.build(Campaign.at(directory), **options)
    found = rows(directory)
    earlier.rename(directory / "catalog.duckdb")
    return found


@pytest.fixture
def hashed(monkeypatch):
    """Return a list of the files, relative to the campaign, whose checksums an index has computed."""
    files = []
    reused.version()
    call_before(monkeypatch, reused, "sha256_of", lambda path: files.append("/".join(Path(path).parts[-2:])))
    return files


@pytest.mark.soak
def test_only_new_and_changed_files_are_read(directory, hashed, monkeypatch):
    read = []
    call_before(monkeypatch, index, "add_digests", lambda *args, **_: read.extend(each.sample for each in args[2]))
    tick(directory)
    index.build(Campaign(directory))
    assert read == [*"abcd"]
    assert len(hashed) == 12
    tick(directory)
    hashed.clear(), read.clear()
    os.utime(directory / "raw" / "b.json")
    add(directory, "e", random.Random("e"))
    tick(directory)
    index.build(Campaign(directory))
    assert read == ["e"]
    assert sorted(hashed) == ["acap/e.parquet", "flows/e.parquet", "raw/b.json", "raw/e.json"]
    assert rows(directory) == rows_of_new_catalog(directory)


def rewrite_manifest(directory: Path, name: str, choice: random.Random) -> None:
    """Change a byte of a manifest; its size and modification time remain the same."""
    file = directory / "raw" / f"{name}.json"
    before = file.stat()
    change_json(file, bytes=choice.randrange(10))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace_digests(directory: Path, name: str, choice: random.Random) -> None:
    """Replace the acap and flow table of a sample with those of a new sample, which disappears."""
    add(directory, "other", choice)
    other = json.loads((directory / "raw" / "other.json").read_text())
    for kind in ("acap", "flows"):
        (directory / kind / "other.parquet").rename(directory / kind / f"{name}.parquet")
    (directory / "raw" / "other.json").unlink()
    change_json(directory / "raw" / f"{name}.json", site=other["site"], port=other["port"])


def remove_files(directory: Path, name: str, _choice: random.Random, pattern: str = "*/{}.*") -> None:
    """Remove the files of a sample that match a pattern."""
    for path in directory.glob(pattern.format(name)):
        path.unlink()


EDITS = {
    "add": lambda directory, name, choice: add(directory, f"{name}{choice.randrange(100)}", choice),
    "change": add,
    "trial": lambda directory, name, choice: add(directory, name, choice, environment="E", trial=1),
    "filter": lambda directory, name, choice: add(directory, name, choice, filter="tcp"),
    "touch": lambda directory, name, choice: os.utime(directory / "flows" / f"{name}.parquet"),
    "rewrite": rewrite_manifest,
    "rename": replace_digests,
    "remove": remove_files,
    "no digest": partial(remove_files, pattern="*/{}.parquet"),
}


@pytest.mark.parametrize("seed", range(2))
def test_index_after_random_edits_equals_an_index_of_all_files(directory, seed):
    """Trials and filtered samples are excluded as long as others exist, so an edit may change rows of other samples."""
    choice, kept = random.Random(seed), 0
    index.build(Campaign(directory))
    for _ in range(3):
        for _ in range(choice.randrange(1, 4)):
            names = sorted(path.stem for path in (directory / "acap").iterdir())
            edits = [edit for edit in EDITS if len(names) > 2 or edit not in ("remove", "no digest")]
            EDITS[choice.choice(edits)](directory, choice.choice(names), choice)
        exclude = [name for name in names if choice.random() < 0.1][:1]
        options = {"exclude": exclude, "traffic": choice.choice(index.TRAFFIC)}
        tick(directory)
        earlier = reused.read_earlier(Campaign(directory))
        index.build(Campaign(directory), **options)
        later = reused.read_earlier(Campaign(directory))
        kept += sum(later.digests.get(sample) == digest for sample, digest in earlier.digests.items())
        assert rows(directory) == rows_of_new_catalog(directory, **options)
    assert kept > 0, "no rows were kept"


@pytest.mark.soak
def test_files_moved_into_shards_are_indexed_again(indexed):
    """The paths of the files change, but not the files."""
    for stage in ("collect", "digest"):
        shards.marker(indexed, stage).mkdir(parents=True)
    for path in [path for kind in ("acap", "flows", "raw") for path in (indexed / kind).iterdir()]:
        path.rename(new_directory(path.parent / shards.shard_of(path.stem)) / path.name)
    index.build(Campaign.at(indexed))
    assert rows(indexed) == rows_of_new_catalog(indexed)


def test_file_that_changes_right_after_an_index_is_read_again(directory, monkeypatch):
    """The clock of the file system has steps of 2 s, and the file keeps its size and inode."""
    monkeypatch.undo()
    step, status_of = reused.CLOCK_STEP_NS, reused.status_of

    def coarse(*files):
        found = (map(int, text.split()) for text in status_of(*files).split("; "))
        return "; ".join(
            f"{size} {at - at % step} {changed - changed % step} {node}" for size, at, changed, node in found
        )

    monkeypatch.setattr(reused, "status_of", coarse)
    index.build(Campaign(directory))
    manifest = directory / "raw" / "a.json"
    manifest.write_text(manifest.read_text().replace('"bytes": 1', '"bytes": 2'))
    index.build(Campaign(directory))
    assert catalog_rows(directory, "select bytes from samples order by sample") == [(2,), (1,), (1,), (1,)]


def damage(catalog: Path) -> None:
    """Invert a byte of the rows of table flows, which a new index would keep."""
    with duckdb.connect(str(catalog), read_only=True) as con:
        query = "select block_id from pragma_storage_info('stored.flows') where column_name = 'src' and block_id >= 0"
        ((block, *_), *_) = con.execute(query).fetchall()
        ((size,),) = con.execute("select block_size from pragma_database_size()").fetchall()
    content = bytearray(catalog.read_bytes())
    content[3 * 4096 + block * size + 8] ^= 0xFF
    catalog.write_bytes(content)


@pytest.mark.soak
@pytest.mark.parametrize(
    "change", [damage, lambda catalog: os.truncate(catalog, 5000), lambda catalog: catalog.write_bytes(b"?")]
)
def test_damaged_catalog_is_reported_and_replaced(indexed, change, capsys):
    expected = rows(indexed)
    change(indexed / "catalog.duckdb")
    run("campaign", "index", indexed)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"acapella: {indexed}/catalog.duckdb cannot be read; all samples are indexed again: ")
    assert rows(indexed) == expected


@pytest.mark.soak
@pytest.mark.parametrize("change", ["version", "copy", "few"])
def test_catalog_of_another_version_or_of_other_files_is_not_used(indexed, change, hashed, monkeypatch):
    directory, copied = indexed, []
    if change == "version":
        monkeypatch.setattr(reused, "version", lambda: "other")
        monkeypatch.setattr(index, "version", lambda: "other")
    elif change == "copy":
        directory = shutil.copytree(directory, directory.with_name("copy"))
    else:
        for name in "abc":
            add(directory, name, random.Random(name + "2"))
    monkeypatch.setattr(reused.shutil, "copyfile", lambda *paths: copied.append(paths))
    index.build(Campaign(directory))
    assert copied == []
    assert len(hashed) == (9 if change == "few" else 12)
    assert rows(directory) == rows_of_new_catalog(directory)


@pytest.mark.soak
def test_duckdb_1_0_0_reads_a_catalog_with_replaced_rows(indexed, old_client):
    add(indexed, "a", random.Random("changed"))
    index.build(Campaign(indexed))
    code = f"import duckdb, json; con = duckdb.connect({str(indexed / 'catalog.duckdb')!r}, read_only=True); "
    code += f"print(json.dumps({{t: sorted(map(repr, con.execute(f'from {{t}}').fetchall())) for t in {TABLES}}}))"
    read = processes.run(sys.executable, "-c", code, cwd="/", env=old_client, check=True)
    assert json.loads(read.stdout) == rows(indexed)
