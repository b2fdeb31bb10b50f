"""Tests optional stages: their options, figures and files, and the removal of results that are no longer configured."""

from types import SimpleNamespace

import duckdb
import pytest
from acapella_testing.new_files import write_file, write_json
from acapella_testing.runs.stages import catalog_rows

from acapella.campaign.trial_tables import TABLES as TRIAL_TABLES
from acapella.figures import registry
from acapella.flowreports import program
from acapella.snakefile import cleanup, optional_stages

NO_TRANSFERS = {"data": [], "sheet": None}
NO_REPORTS = {"samples": None, "study": False}
NONE = {"trials": None, "flowreports": NO_REPORTS, "transfer": NO_TRANSFERS, "report": {"papers": False}}
ALL = {"trials": {"quiet": ["a", "b"]}, "flowreports": {"samples": "all", "study": True}, "report": {"papers": True}}
ALL |= {"transfer": {"data": ["*.json"], "sheet": None}}


def stages(config, flowreports=None):
    return optional_stages.optional_stages(config, flowreports or config["flowreports"])


def test_figures_and_options_match_the_stages_that_run():
    assert optional_stages.figures(stages(NONE)) == [*registry.TRAFFIC_FIGURES]
    assert optional_stages.figures(stages(NONE), with_samples=False) == []
    assert optional_stages.figure_flags(stages(NONE)) == []
    assert optional_stages.figure_flags(stages(ALL)) == ["--trials", "--flowreports", "--flowstudy", "--transfers"]
    figures = optional_stages.figures(stages(ALL))
    assert optional_stages.figures(stages(ALL), ["iat_delta", "frame_sizes"]) == ["frame_sizes", "iat_delta"]
    assert {*registry.TRIAL_FIGURES, *registry.FLOWREPORT_FIGURES, *registry.FLOWSTUDY_FIGURES} < {*figures}
    assert {*registry.TRANSFER_FIGURES} < {*figures}
    assert optional_stages.figure_flags(stages(ALL, NONE["flowreports"])) == ["--trials", "--transfers"]


def test_figures_of_the_infrastructure_study_match_the_given_inputs(tmp_path):
    config = NONE | {"infrastructure": {"advertisements": [], "slices": ["slices.csv"], "telemetry": []}}
    assert optional_stages.figures(stages(config), with_samples=False) == [*registry.SLICE_FIGURES]
    assert optional_stages.figure_flags(stages(config)) == ["--infrastructure"]
    kept = {"figures/infrastructure_simultaneous.svg", "tables/infrastructure_weeks.csv"}
    for path in ("figures/infrastructure_weeks.svg", *kept):
        write_file(tmp_path / path, "")
    cleanup.remove_unconfigured(str(tmp_path), stages(config))
    assert files_in(tmp_path) == kept
    cleanup.remove_unconfigured(str(tmp_path), stages(NONE))
    assert files_in(tmp_path) == set()


def with_grid(**changes):
    grid = {"algorithm": ["bbr", "cubic"], "streams": [1], "ratio": []} | changes
    return NONE | {"transfer": NO_TRANSFERS | {"grid": grid}}


@pytest.mark.parametrize(
    ("config", "omitted"),
    [
        (with_grid(), "transfer_streams and transfer_per_stream (the grid has one number of streams); "
         "transfer_fairness (the grid has no parallel streams); transfer_ratios (the grid has no ratio)"),
        (with_grid(streams=[1, 4]), "transfer_ratios (the grid has no ratio)"),
        (with_grid(streams=[6], ratio=[2], algorithm=["cubic"]), "transfer_gain (the grid does not have both bbr and "
         "cubic); transfer_streams and transfer_per_stream (the grid has a ratio)"),
        (ALL, ""),
        (NONE, ""),
    ],
)  # fmt: skip
def test_figures_for_which_the_grid_has_no_data_are_omitted_and_reported(capsys, config, omitted):
    optional_stages.report_empty_figures(config)
    assert capsys.readouterr().err == (f"figures without data are omitted: {omitted}\n" if omitted else "")
    figures = [name for name in optional_stages.figures(stages(config)) if name.startswith("transfer_")]
    expected = registry.TRANSFER_FIGURES if optional_stages.has_transfers(config) else ()
    assert figures == [name for name in expected if name not in omitted]


@pytest.mark.parametrize(("reason", "runs"), [(None, True), ("no DPDK", False)])
def test_machine_without_the_program_omits_flow_reports(monkeypatch, capsys, reason, runs):
    monkeypatch.setattr(program, "why_unavailable", lambda: reason)
    assert optional_stages.available_flowreports(ALL) == (ALL if runs else NONE)["flowreports"]
    assert capsys.readouterr().err == ("" if runs else "flow reports are omitted: no DPDK\n")
    monkeypatch.setattr(program, "why_unavailable", lambda: pytest.fail("the program is not needed"))
    assert optional_stages.available_flowreports(NONE) == NONE["flowreports"]


def files_in(directory) -> set[str]:
    """Return the relative paths of files, except for the log of the removal."""
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()} - {"logs/stale.log"}


@pytest.mark.parametrize(
    ("config", "before", "left"),
    [
        (ALL | {"figures": {"only": ["iat_delta"]}}, ("iat_delta", "frame_sizes"), "iat_delta"),
        (with_grid(), ("transfer_ratios", "transfer_gain"), "transfer_gain"),
    ],
    ids=["not selected", "without data"],
)
def test_figures_that_are_no_longer_drawn_are_removed(tmp_path, config, before, left):
    for name in before:
        write_file(tmp_path / "figures" / f"{name}.svg", "")
    cleanup.remove_unconfigured(str(tmp_path), stages(config))
    assert files_in(tmp_path) == {f"figures/{left}.svg"}


FILES = {  # some files of each optional stage and of process
    "process": ["tables/throughput.csv", "provenance/process.json"],
    "trials": [f"tables/{TRIAL_TABLES[0]}.parquet", "provenance/consistency.json", "consistency/quiet.json"],
    "flowreports": ["tables/flowreport_windows.csv", "flowtables_provenance.json"],
    "flowstudy": ["tables/flowreport_response.csv", "provenance/flowstudy.json"],
    "transfer": ["tables/transfer_gain.csv", "figures/transfer_gain.svg", "provenance/transfer.json"],
    "published": ["tables/flowreport_published.csv", "flowpublished_provenance.json"],
}


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        (ALL, ["process", "trials", "flowreports", "flowstudy", "transfer", "published"]),
        (NONE, ["process"]),
        (ALL | {"report": {"papers": False}}, ["process", "trials", "flowreports", "flowstudy", "transfer"]),
        (ALL | {"trials": None}, ["process", "flowreports", "flowstudy", "transfer", "published"]),
        (
            ALL | {"flowreports": {"samples": None, "study": True}},
            ["process", "trials", "flowstudy", "transfer", "published"],
        ),
        (ALL | {"transfer": NO_TRANSFERS}, ["process", "trials", "flowreports", "flowstudy", "published"]),
    ],
)
def test_results_of_stages_that_are_not_configured_are_removed(tmp_path, capsys, changes, kept):
    for path in (path for paths in FILES.values() for path in paths):
        write_file(tmp_path / path, "")
    cleanup.remove_unconfigured(str(tmp_path), stages(changes, NONE["flowreports"]))
    assert files_in(tmp_path) == {name for stage in kept for name in FILES[stage]}
    assert ("stages that are not in the config" in capsys.readouterr().err) == (len(kept) < len(FILES))


def write_manifest(directory, sample: str) -> None:
    """Write the manifest of a sample."""
    manifest = {"acapella_manifest": 1, "sample": sample, "file": f"{sample}.pcap"}
    write_json(directory / "raw" / f"{sample}.json", manifest)


def test_samples_that_are_not_in_the_sheet_are_removed(tmp_path, capsys):
    rows = {"a": SimpleNamespace(file=tmp_path / "a.pcap")}
    for name in "ab":
        write_manifest(tmp_path, name)
    with duckdb.connect(tmp_path / "catalog.duckdb") as con:
        con.execute("create table samples as select unnest(['a', 'b']) as sample")
    cleanup.remove_unlisted(str(tmp_path), rows)
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["a.json"]
    assert catalog_rows(tmp_path, "from samples") == [("a",)]
    assert "removed 1 file or directory of samples that are not in the sheet" in capsys.readouterr().err
    cleanup.remove_unlisted(str(tmp_path), rows)
    assert capsys.readouterr().err == ""


def test_damaged_catalog_is_reported_and_files_of_samples_are_removed(tmp_path, capsys):
    write_manifest(tmp_path, "b")
    write_file(tmp_path / "catalog.duckdb", "not a database")
    cleanup.remove_unlisted(str(tmp_path), {"a": SimpleNamespace(file=tmp_path / "a.pcap")})
    assert list((tmp_path / "raw").iterdir()) == []
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"acapella: {tmp_path / 'catalog.duckdb'}: ")


def test_report_has_sections_about_tables_that_exist(tmp_path):
    assert optional_stages.report_sections(str(tmp_path), pseudonyms=False) == {}
    sections = {flag: tmp_path / "tables" / f"{table}.csv" for flag, table in optional_stages.SECTIONS.items()}
    times = {flag: write_file(path, "").stat().st_mtime_ns for flag, path in sections.items()}
    assert optional_stages.report_sections(str(tmp_path), pseudonyms=False) == times
    assert [*optional_stages.report_sections(str(tmp_path), pseudonyms=True)] == ["--storage", "--searches"]
