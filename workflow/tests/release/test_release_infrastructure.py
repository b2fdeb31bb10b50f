"""Tests that a release contains what the tables of the infrastructure study need, and nothing else of its inputs."""

import gzip
import json
from pathlib import Path

import networkx
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from acapella_testing.csv_rows import read_rows
from acapella_testing.generated import infrastructure_inputs as inputs
from acapella_testing.generated.files_campaign import failed, run
from acapella_testing.new_files import change_json, new_directory, write_file, write_json
from acapella_testing.release_records import changed_columns, reported_columns
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import Workplace
from acapella_testing.soak import takes_minutes

from acapella.campaign.layout import Campaign
from acapella.cli.main import main
from acapella.infrastructure.tables import TABLES
from acapella.release import checksums, infrastructure
from acapella.snakefile.released import with_release
from acapella_core import schemas

SHAPE = inputs.Shape(sites=4, ports=2, slices=60, days=8, step_s=3600, seed=3)
PRIVATE = ("slice-", "secret", "192.0.2.9", "star-w1", "NodeID", "node-1")


@pytest.fixture(scope="module")
def campaign(tmp_path_factory) -> Path:
    """Return a campaign whose study has inputs in every format. The inputs contain names of slices and hosts, and
    addresses.
    """
    place = tmp_path_factory.mktemp("study")
    inputs.write_inputs(place, SHAPE)
    inputs.write_site_model(place / "site.graphml", "ZURI", downlinks=3, uplinks=1)
    labels = '{"local_name": "HundredGigE0/0/0/77.5", "ipv4": "192.0.2.9", "operator": "secret"}'
    for path in place.glob("*.graphml"):
        graph = networkx.read_graphml(path)
        graph.add_node("x", Labels=labels)
        networkx.write_graphml_xml(graph, path)
        path.write_text(path.read_text().replace("link</data>", "secret</data>").replace("zuri-w1", "star-w1"))
    header, *slices = (place / "slices.csv").read_text().splitlines()
    for letter, half in (("a", slices[:30]), ("b", slices[30:])):
        lines = "\n".join([header, *(f"slice-{row}" for row in half)]) + "\n"
        (place / f"slices-{letter}.csv.gz").write_bytes(gzip.compress(lines.encode()))
    options = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(("in_bytes", "out_bytes", "rate_bps"), "int64"))
    table = pyarrow.csv.read_csv(place / "telemetry.csv", convert_options=options)
    pq.write_table(table.append_column("host", [["secret"] * len(table)]), place / "telemetry.parquet")
    files = {"advertisements": "*.graphml", "slices": "slices-*", "telemetry": "telemetry.parquet"}
    study = {name: [f"{place}/{pattern}"] for name, pattern in files.items()}
    study |= {"bin_s": SHAPE.step_s, "line_rate_share": 0.9}
    write_json(place / "mine" / "config.json", {"figures": {"formats": ["svg"]}, "infrastructure": study})
    return create_tables(place / "mine", study)


def create_tables(directory: Path, study: dict) -> Path:
    """Create the tables with the settings of a config; return the campaign."""
    names = {"advertisements": "advertisement", "slices": "slices", "telemetry": "telemetry"}
    options = [f"--{option}={pattern}" for key, option in names.items() for pattern in study[key]]
    options += [f"--bin={study['bin_s']}", f"--line-rate={study['line_rate_share']}"]
    run("campaign", "infrastructure", new_directory(directory), *options)
    return directory


def create_tables_from_release(directory: Path, release: Path) -> Path:
    """Create the tables from a release with the settings that Snakemake uses; return the campaign."""
    config = yaml.safe_load((release / "config.yaml").read_text())
    return create_tables(directory, with_release(config | {"reproduce": str(release)})["infrastructure"])


def test_tables_from_a_release_equal_those_of_the_campaign(campaign, release, tmp_path):
    create_tables_from_release(tmp_path, release)
    assert {name: rows(tmp_path, name) for name in TABLES} == {name: rows(campaign, name) for name in TABLES}
    assert all(rows(campaign, name) for name in TABLES)


def test_release_contains_no_names_of_slices_and_hosts(release):
    files = {path.name: path for path in (release / "infrastructure").iterdir()}
    assert files.keys() == {*("model-0001.graphml", "model-0002.graphml", "slice_records.csv", "port_counters.parquet")}
    content = b"".join(path.read_bytes() for path in release.rglob("*") if path.is_file())
    assert [word for word in PRIVATE if word.encode() in content] == []
    slices = [row["slice"] for row in read_rows(files["slice_records.csv"])]
    assert slices == [str(n) for n in range(1, SHAPE.slices + 1)]
    columns = pq.read_schema(files["port_counters.parquet"]).names
    assert columns == ["site", "port", "time_s", "in_bytes", "out_bytes", "rate_bps"]
    assert "| infrastructure/ | 4 inputs of the infrastructure study" in (release / "README.md").read_text()


def test_released_model_of_a_real_advertisement_gives_the_same_tables(corpus, tmp_path):
    model = corpus / "fim" / "advertised_topo.graphml"
    infrastructure.write_model(model, tmp_path / "model.graphml")
    for name, path in (("original", model), ("released", tmp_path / "model.graphml")):
        run("campaign", "infrastructure", new_directory(tmp_path / name), "--advertisement", path)
    assert (
        rows(tmp_path / "released", "infrastructure_ports") == rows(tmp_path / "original", "infrastructure_ports") != []
    )


@pytest.mark.parametrize(
    ("file", "change", "affected"),
    [
        ("slice_records.csv", (b"2024-02-2", b"2024-03-2"), {"infrastructure_simultaneous", "infrastructure_summary"}),
        ("model-0001.graphml", (b"TrunkPort", b"TrunkPorT"), {"infrastructure_ports"}),
    ],
)
def test_comparison_lists_exactly_the_columns_affected_by_a_changed_byte(public, tmp_path, file, change, affected):
    first = create_tables_from_release(tmp_path / "first", public)
    run("campaign", "compare", first, public, "--record")
    path = public / "infrastructure" / file
    content = path.read_bytes()
    path.write_bytes(content.replace(*change, 1))
    assert sum(one != other for one, other in zip(content, path.read_bytes(), strict=True)) == 1
    again = create_tables_from_release(tmp_path / "again", public)
    assert main(["campaign", "compare", str(again), str(public)]) == 1
    keys = {name: schemas.table(name)["key"] for name in TABLES}
    different = [changed_columns(f"tables/{n}.parquet", keys[n], rows(first, n), rows(again, n)) for n in TABLES]
    assert reported_columns(again) == set().union(*different)
    assert affected <= {Path(file).stem for file, _ in reported_columns(again)} < {*TABLES}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("slices-a.csv.gz", "changed since the tables were created: slices-a.csv.gz"), ("nosuch*", "no such file")],
)
def test_changed_and_missing_inputs_are_one_line_errors(mine, release, tmp_path, capsys, pattern, message):  # noqa: PLR0913, PLR0917
    study = json.loads((mine / "config.json").read_text())["infrastructure"]
    write_file(tmp_path / "slices-a.csv.gz", gzip.compress(b"slice,start,end,sites\n"))
    change_json(mine / "config.json", infrastructure=study | {"slices": [f"{tmp_path}/{pattern}"]})
    words = ["release", mine, "-o", tmp_path / "public", "--key-file", release.parent / "key"]
    assert message in failed(capsys, *words)
    assert not (tmp_path / "public").exists()


def test_unknown_inputs_and_pseudonyms_are_noted(mine, tmp_path):
    assert infrastructure.write(tmp_path, Campaign(mine), hidden=True) == [infrastructure.HIDDEN]
    (mine / "config.json").unlink()
    assert infrastructure.write(tmp_path, Campaign(mine), hidden=False) == [infrastructure.UNKNOWN]
    assert not (tmp_path / "infrastructure").exists()


@pytest.mark.timeout(1200)
@takes_minutes
def test_workflow_reproduces_tables_and_figures_from_a_release(public, tmp_path):
    place, other = (Workplace(new_directory(tmp_path / name)) for name in ("place", "other"))
    place.succeed("--cores", "2", "record", "--config", f"reproduce={public}")
    sums = checksums.read(public)
    assert {f"results/tables/{name}.parquet" for name in TABLES} <= sums.keys()
    assert "results/figures/infrastructure_weeks.svg" in sums
    other.succeed("--cores", "2", "reproduce", "--config", f"reproduce={public}")
    (path,) = (tmp_path / "other").glob("results/*/reproduced.txt")
    assert path.read_text().splitlines()[-1].endswith("compared files are identical")
