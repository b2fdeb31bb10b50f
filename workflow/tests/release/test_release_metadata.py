"""Tests the descriptions of a release, RO-Crate and Croissant, with the validators of both formats, offline.

The functions import what is slow to import, because each worker imports this file and one runs its tests.
"""

import io
import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.generated import generated_transfers
from acapella_testing.generated.files_campaign import run
from acapella_testing.generated.monitored_trials import monitored
from acapella_testing.new_files import new_directory, write_file, write_json
from acapella_testing.release_records import checksums_of, published
from acapella_testing.runs.workflow_run import ROOT
from requests.adapters import BaseAdapter, HTTPAdapter
from urllib3 import HTTPResponse

from acapella.release import crate, croissant

# The package rocrate contains the context of RO-Crate 1.3. In version 1.1, these terms have other IRIs.
TERMS_1_1 = {
    "ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow",
    "FormalParameter": "https://bioschemas.org/FormalParameter",
    "input": "https://bioschemas.org/ComputationalWorkflow#input",
    "output": "https://bioschemas.org/ComputationalWorkflow#output",
}


class LocalContext(BaseAdapter):
    """An adapter that answers each request with the local copy of the context of RO-Crate."""

    def send(self, request, **_):
        import rocrate  # noqa: PLC0415

        copy = json.loads((Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld").read_text())
        copy["@context"] |= TERMS_1_1
        body, kind = io.BytesIO(json.dumps(copy).encode()), {"Content-Type": "application/ld+json"}
        return HTTPAdapter().build_response(request, HTTPResponse(body, kind, 200, preload_content=False))

    def close(self):
        pass


@pytest.fixture(scope="module")
def http_cache(tmp_path_factory) -> Path:
    """Return the cache of the validator, which contains only the context."""
    import requests_cache  # noqa: PLC0415

    path = tmp_path_factory.mktemp("validator") / "cache"
    with requests_cache.CachedSession(str(path), backend="sqlite") as session:
        session.mount("https://", LocalContext())
        assert session.get("https://w3id.org/ro/crate/1.1/context").status_code == 200
    return path


def issues(release: Path, cache: Path) -> list[str]:
    """Return what the validator finds wrong in the crate of a release."""
    from rocrate_validator import models, services  # noqa: PLC0415

    required = {"requirement_severity": models.Severity.REQUIRED, "offline": True, "cache_path": str(cache)}
    settings = {"rocrate_uri": str(release), "profile_identifier": "provenance-run-crate", **required}
    found = services.validate(services.ValidationSettings(**settings)).get_issues()
    return [f"{issue.check.identifier}: {issue.message}" for issue in found]


def test_crate_conforms_to_the_provenance_run_crate_profile(recorded_release, http_cache):
    assert issues(recorded_release, http_cache) == []


@pytest.fixture(scope="module")
def studies_release(tmp_path_factory) -> Path:
    """Return a recorded release of transfers, generated traffic and an infrastructure study, without samples."""
    place = tmp_path_factory.mktemp("studies")
    mine, made = new_directory(place / "mine"), new_directory(place / "made")
    generated_transfers.captured(mine, delays=(20,))
    run("campaign", "transfers", mine)
    monitored(mine, "quiet-1", 0)
    run("campaign", "monitored", mine, "--samples", "quiet-1")
    slices = write_file(place / "slices.csv", "slice,start,end,sites\nx,2024-01-01T00:00:00Z,2024-01-02T00:00:00Z,A\n")
    run("campaign", "infrastructure", mine, f"--slices={slices}")
    study = {"advertisements": [], "slices": [str(slices)], "telemetry": []}
    write_json(mine / "config.json", {"infrastructure": study})
    public = published(mine)
    run("campaign", "transfers", made, "--runs", public)
    run("campaign", "monitored", made, "--release", public)
    run("campaign", "infrastructure", made, f"--slices={public}/infrastructure/slice_records.csv")
    run("campaign", "compare", made, public, "--record", "--workflow", ROOT)
    return public


def entities_of(release: Path) -> dict[str, dict]:
    """Return the entities of the crate of a release by identifier."""
    graph = json.loads((release / crate.FILE).read_text())["@graph"]
    assert len({entity["@id"] for entity in graph}) == len(graph)
    return {entity["@id"]: entity for entity in graph}


@pytest.mark.soak
def test_crate_of_a_release_without_samples_conforms(studies_release, http_cache):
    assert issues(studies_release, http_cache) == []
    entities = entities_of(studies_release)
    assert entities["./"]["name"] == croissant.STUDIES
    assert "captures" not in entities["./"]["description"]
    assert {"infrastructure/slice_records.csv", "generated/trials.json"} <= {*ids(entities["#run"]["object"])}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("step", "directory"),
    [("transfer_tables", "transfers"), ("monitor", "generated"), ("infrastructure", "infrastructure")],
)
def test_step_of_a_study_has_its_inputs_and_tables(studies_release, step, directory):
    entity = entities_of(studies_release)[f"#{step}"]
    assert {name.partition("/")[0] for name in ids(entity["object"])} == {directory, "config.yaml"}
    assert ids(entity["result"])
    assert all(name.startswith(f"results/tables/{step.removesuffix('_tables')}_") for name in ids(entity["result"]))


@pytest.mark.soak
def test_croissant_of_a_release_without_samples_is_valid(studies_release):
    import mlcroissant  # noqa: PLC0415

    dataset = mlcroissant.Dataset(jsonld=str(studies_release / "croissant.json"))
    assert not dataset.metadata.issues.errors
    assert dataset.metadata.name == croissant.STUDIES
    assert "captures" not in dataset.metadata.description
    tables = [f"results-tables-{name}" for name in ("transfer_cells", "monitor_flows", "infrastructure_summary")]
    assert {*tables} <= {record_set.id for record_set in dataset.metadata.record_sets}
    (row,) = dataset.records(tables[1])
    assert row[f"{tables[1]}/name"] == b"small"


def test_crate_names_every_file_with_its_checksum_and_no_time_of_a_run(recorded_release):
    entities = entities_of(recorded_release)
    described = {name: entity["sha256"] for name, entity in entities.items() if "sha256" in entity}
    own = {"croissant.json", "ro-crate-metadata.json", "catalog.duckdb"}
    assert described == {name: sha for name, sha in checksums_of(recorded_release).items() if name not in own}
    assert not {"startTime", "endTime", "agent"} & {key for entity in entities.values() for key in entity}
    dates = set(re.findall(r"\d{4}-\d\d-\d\d", (recorded_release / crate.FILE).read_text()))
    assert dates <= {entities["./"]["datePublished"]}


def test_crate_lists_inputs_and_results_of_each_step(recorded_release):
    entities = entities_of(recorded_release)
    assert ids(entities["#digest-beta-p1"]["object"]) == ["captures/beta-p1.pcap", "config.yaml"]
    assert ids(entities["#digest-beta-p1"]["result"]) == ["acap/beta-p1.parquet", "flows/beta-p1.parquet"]
    results = {name for step in ("#process", "#figures") for name in ids(entities[step]["result"])}
    assert results == {name for name in entities if name.startswith(("results/tables/", "results/figures/"))} != set()


def test_crate_lists_flow_reports_and_trials_as_results_of_their_steps(tmp_path):
    described = {"license": "https://creativecommons.org/licenses/by/4.0/", "datePublished": "2026-01-01"}
    tables = [f"results/tables/{name}.parquet" for name in ("consistency", "flowreport_flows", "throughput")]
    others = ("captures/a.pcap", "acap/a.parquet", "flows/a.parquet", "config.yaml", "captures.tsv", crate.MAIN)
    for name in (*tables, *others, "results/figures/throughput.svg"):
        write_file(tmp_path / name, name)
    write_file(tmp_path / "croissant.json", json.dumps(described))
    crate.write(tmp_path, {})
    entities = entities_of(tmp_path)
    for step, table in (("#trials", tables[0]), ("#flowtables", tables[1])):
        assert ids(entities[step]["object"]) == ["captures/a.pcap", "config.yaml"]
        assert ids(entities[step]["result"]) == [table]
    assert ids(entities["#process"]["result"]) == tables[2:]
    assert ids(entities["#figures"]["object"]) == [*tables, "config.yaml"]
    (tmp_path / tables[1]).unlink()
    crate.write(tmp_path, {})
    assert "flowtables" not in (tmp_path / crate.FILE).read_text()


def ids(entities: dict | list[dict]) -> list[str]:
    """Return the identifiers of one or several entities."""
    return [entity["@id"] for entity in (entities if isinstance(entities, list) else [entities])]


def test_recording_again_gives_the_same_bytes(recorded, tmp_path):
    release = shutil.copytree(recorded / "public", tmp_path / "again")
    write_file(release / "results" / "left-over.txt", "of an interrupted run")
    run("campaign", "compare", recorded / "place/results/reproduced", release, "--record", "--workflow", ROOT)
    assert (release / "SHA256SUMS").read_bytes() == (recorded / "public" / "SHA256SUMS").read_bytes()


@pytest.mark.soak
def test_croissant_is_valid_and_its_record_sets_have_the_rows_of_the_tables(recorded_release):
    import mlcroissant  # noqa: PLC0415

    dataset = mlcroissant.Dataset(jsonld=str(recorded_release / "croissant.json"))
    assert not dataset.metadata.issues.errors
    tables = {record_set.id for record_set in dataset.metadata.record_sets}
    assert {"frames", "flows", "tables-throughput", "results-tables-throughput"} <= tables
    rows = [row["results-tables-throughput/frames"] for row in dataset.records("results-tables-throughput")]
    assert rows == pq.read_table(recorded_release / "results/tables/throughput.parquet")["frames"].to_pylist()
    flows = sorted(row["flows/flow_id"].decode() for row in dataset.records("flows"))
    tables = [pq.read_table(path)["flow_id"].to_pylist() for path in (recorded_release / "flows").iterdir()]
    assert flows == sorted(flow for table in tables for flow in table)
