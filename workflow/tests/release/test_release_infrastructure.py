"""Tests that a release contains what the tables of the infrastructure study need, and nothing else of its inputs."""

import csv
import gzip
import json
import os
import shutil
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from acapella_testing.generated import infrastructure_inputs as made
from acapella_testing.generated.files_campaign import run
from acapella_testing.new_files import new_directory
from acapella_testing.release_records import write_key
from acapella_testing.runs.workflow_run import Workplace

from acapella.campaign.layout import Campaign
from acapella.cli.main import main
from acapella.infrastructure.tables import TABLES
from acapella.release import checksums, infrastructure
from acapella.snakefile.released import with_release
from acapella_core import schemas

SHAPE = made.Shape(sites=4, ports=2, slices=60, days=8, step_s=3600, seed=3)
PRIVATE = ("slice-", "secret", "192.0.2.9", "star-w1", "NodeID", "node-1")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """Return a campaign with a study of inputs in all formats, with names of slices and hosts and with addresses."""
    place = tmp_path_factory.mktemp("study")
    made.write_inputs(place, SHAPE)
    made.write_site_model(place / "site.graphml", "ZURI", downlinks=3, uplinks=1)
    for path in place.glob("*.graphml"):
        labels = '{"local_name": "HundredGigE0/0/0/77.5", "ipv4": "192.0.2.9", "operator": "secret"}'
        text = path.read_text().replace("</graph>", f'<node id="x">{data("Labels", labels)}</node>\n</graph>')
        path.write_text(text.replace("link</data>", "secret</data>").replace("zuri-w1", "star-w1"))
    header, *rows = (place / "slices.csv").read_text().splitlines()
    halves = rows[:30], rows[30:]
    for name, half in zip(("slices-a.csv.gz", "slices-b.csv.gz"), halves, strict=True):
        lines = "\n".join([header, *(f"slice-{row}" for row in half)]) + "\n"
        (place / name).write_bytes(gzip.compress(lines.encode()))
    types = {"in_bytes": "int64", "out_bytes": "int64", "rate_bps": "int64"}
    table = pyarrow.csv.read_csv(
        place / "telemetry.csv", convert_options=pyarrow.csv.ConvertOptions(column_types=types)
    )
    pq.write_table(table.append_column("host", [["secret"] * len(table)]), place / "telemetry.parquet")
    study = {
        **{"advertisements": [f"{place}/*.graphml"], "slices": [f"{place}/slices-*"]},
        **{"telemetry": [f"{place}/telemetry.parquet"], "bin_s": SHAPE.step_s, "line_rate_share": 0.9},
    }
    directory = new_directory(place / "mine")
    (directory / "config.json").write_text(json.dumps({"figures": {"formats": ["svg"]}, "infrastructure": study}))
    remake(directory, study)
    return directory


def data(key: str, text: str) -> str:
    """Return the property of a node in GraphML."""
    return f'<data key="d{made.NODE_KEYS.index(key)}">{text}</data>'


def remake(directory: Path, study: dict) -> None:
    """Make the tables with the settings of a config."""
    names = {"advertisements": "advertisement", "slices": "slices", "telemetry": "telemetry"}
    options = [f"--{option}={pattern}" for key, option in names.items() for pattern in study[key]]
    options += [f"--bin={study['bin_s']}", f"--line-rate={study['line_rate_share']}"]
    run("campaign", "infrastructure", directory, *options)


def released_study(release: Path) -> dict:
    """Return the settings with which Snakemake computes the tables from a release."""
    config = yaml.safe_load((release / "config.yaml").read_text())
    return with_release(config | {"reproduce": str(release)})["infrastructure"]


@pytest.fixture(scope="module")
def release(campaign) -> Path:
    """Return a release of the campaign. Nothing may change it."""
    key = write_key(campaign.parent / "key")
    run("release", campaign, "-o", campaign.parent / "public", "--key-file", key)
    return campaign.parent / "public"


def rows_of(directory: Path, name: str) -> list[dict]:
    """Return the rows of a table."""
    return pq.read_table(directory / "tables" / f"{name}.parquet").to_pylist()


def test_tables_from_a_release_equal_those_of_the_campaign(campaign, release, tmp_path):
    remake(tmp_path, released_study(release))
    for name in TABLES:
        assert rows_of(tmp_path, name) == rows_of(campaign, name) != [], name


def test_release_contains_no_names_of_slices_and_hosts(release):
    files = {path.name: path for path in (release / "infrastructure").iterdir()}
    assert files.keys() == {*("model-0001.graphml", "model-0002.graphml", "slice_records.csv", "port_counters.parquet")}
    for path in (path for path in release.rglob("*") if path.is_file()):
        content = path.read_bytes()
        assert not [word for word in PRIVATE if word.encode() in content], path
    with files["slice_records.csv"].open() as stream:
        assert [row["slice"] for row in csv.DictReader(stream)] == [str(n) for n in range(1, SHAPE.slices + 1)]
    schema = pq.read_schema(files["port_counters.parquet"])
    assert schema.names == ["site", "port", "time_s", "in_bytes", "out_bytes", "rate_bps"]
    assert "| infrastructure/ | 4 inputs of the infrastructure study" in (release / "README.md").read_text()


def test_real_advertisement_gives_the_same_tables(corpus, tmp_path):
    model = corpus / "fim" / "advertised_topo.graphml"
    infrastructure.write_model(model, tmp_path / "model.graphml")
    for name, path in (("theirs", model), ("ours", tmp_path / "model.graphml")):
        run("campaign", "infrastructure", new_directory(tmp_path / name), "--advertisement", path)
    ours, theirs = (rows_of(tmp_path / name, "infrastructure_ports") for name in ("ours", "theirs"))
    assert ours == theirs != []


@pytest.mark.parametrize(
    ("file", "change", "affected"),
    [
        ("slice_records.csv", (b"2024-02-2", b"2024-03-2"), {"infrastructure_simultaneous", "infrastructure_summary"}),
        ("model-0001.graphml", (b"TrunkPort", b"TrunkPorT"), {"infrastructure_ports"}),
    ],
)
def test_one_changed_byte_lists_exactly_the_affected_columns(release, tmp_path, file, change, affected):
    public, first, again = shutil.copytree(release, tmp_path / "public"), tmp_path / "first", tmp_path / "again"
    remake(new_directory(first), released_study(public))
    run("campaign", "compare", first, public, "--record")
    path = public / "infrastructure" / file
    content = path.read_bytes()
    path.write_bytes(content.replace(*change, 1))
    assert sum(one != other for one, other in zip(content, path.read_bytes(), strict=True)) == 1
    remake(new_directory(again), released_study(public))
    assert main(["campaign", "compare", str(again), str(public)]) == 1
    expected, tables = naive_differences(first, again)
    lines = [line.split("\t") for line in (again / "reproduced.tsv").read_text().splitlines()[1:]]
    found = {(name, column) for name, column, *_ in lines if name.endswith(".parquet")}
    assert {one for one in found if one[1] != "(rows)"} == expected
    assert {Path(name).stem for name, _ in found} == tables and affected <= tables < {*TABLES}


def naive_differences(first: Path, again: Path) -> tuple[set[tuple[str, str]], set[str]]:
    """Return the columns of rows of both versions that differ, and the tables with any difference."""
    keys = {name: schemas.table(name)["key"] for name in TABLES}
    columns, tables = set(), set()
    for name in TABLES:
        ours, theirs = (
            {tuple(row[key] for key in keys[name]): row for row in rows_of(directory, name)}
            for directory in (first, again)
        )
        tables |= {name} if ours != theirs else set()
        columns |= {
            (f"tables/{name}.parquet", column)
            for key in ours.keys() & theirs.keys()
            for column in ours[key]
            if ours[key][column] != theirs[key][column]
        }
    return columns, tables


def test_changed_and_missing_inputs_are_one_line_errors(campaign, release, tmp_path, capsys):
    mine = shutil.copytree(campaign, tmp_path / "mine")
    config = json.loads((mine / "config.json").read_text())
    path = tmp_path / "slices-a.csv.gz"
    path.write_bytes(gzip.compress(b"slice,start,end,sites\n"))
    for pattern, message in (
        (str(path), "changed since the tables were created: slices-a.csv.gz"),
        ("nosuch*", "no such file"),
    ):
        config["infrastructure"]["slices"] = [pattern]
        (mine / "config.json").write_text(json.dumps(config))
        assert (
            main(["release", str(mine), "-o", str(tmp_path / "public"), "--key-file", str(release.parent / "key")]) == 2
        )
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
        assert not (tmp_path / "public").exists()


def test_unknown_inputs_and_pseudonyms_are_noted(campaign, tmp_path):
    mine = shutil.copytree(campaign, tmp_path / "mine")
    assert infrastructure.write(tmp_path, Campaign(mine), hidden=True) == [infrastructure.HIDDEN]
    (mine / "config.json").unlink()
    assert infrastructure.write(tmp_path, Campaign(mine), hidden=False) == [infrastructure.UNKNOWN]
    assert not (tmp_path / "infrastructure").exists()


@pytest.mark.timeout(1200)
@pytest.mark.skipif("ACAPELLA_SOAK" not in os.environ, reason="a long test: run make soak")
def test_workflow_reproduces_tables_and_figures_from_a_release(release, tmp_path):
    public, place = shutil.copytree(release, tmp_path / "public"), Workplace(new_directory(tmp_path / "place"))
    place.succeed("--cores", "2", "record", "--config", f"reproduce={public}")
    sums = checksums.read(public)
    assert {f"results/tables/{name}.parquet" for name in TABLES} <= sums.keys()
    assert "results/figures/infrastructure_weeks.svg" in sums
    other = Workplace(new_directory(tmp_path / "other"))
    other.succeed("--cores", "2", "reproduce", "--config", f"reproduce={public}")
    (path,) = (tmp_path / "other").glob("results/*/reproduced.txt")
    assert path.read_text().splitlines()[-1].endswith("compared files are identical")
