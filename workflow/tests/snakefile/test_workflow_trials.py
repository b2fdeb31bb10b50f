"""Runs the whole workflow on trials of the same traffic, up to the report, and checks what is published with
pseudonyms.
"""

import json
import os
import re
import shutil

import pyarrow.parquet as pq
import pytest
from acapella_testing.new_files import write_file
from acapella_testing.release_records import text_of
from acapella_testing.runs.stages import catalog_rows, rows
from acapella_testing.runs.workflow_run import ROOT, Workplace, jobs, only_figures, rules_run

from acapella_core.files import sha256_of

TRIALS = ROOT / ".test" / "trials"
# Site, port and capture of each sample. No text of a report or figure contains these names.
SAMPLES = {
    "monday-north": ("zurich", "tengig-0-7", TRIALS / "a.pcap.gz"),
    "monday-south": ("zurich", "tengig-0-9", TRIALS / "b.pcap.gz"),
    "evening-oslo": ("oslo", "eth77", TRIALS / "c.pcap.gz"),
}
A, B, C = SAMPLES
FIGURES = {"kappa_components", "kappa_timeline", "kappa_matrix", "iat_delta"}
COMPARED = {
    "trials": {"lab-steady": [A, B], "lab-congested": [A, C], "lab-queues": [[A, C], B]},
    "consistency": {"within_ns": [100, 10]},
}


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        ({}, ["--windows=50"]),
        ({"window": "10ms", "windows": 7}, ["--window=10ms"]),
        (
            {"flow": "10.0.0.1:5,10.0.0.2:6,udp", "from": "2025-12-31 00:00:00Z", "to": "2026-01-01 00:00:00Z"},
            ["--flow=10.0.0.1:5,10.0.0.2:6,udp", "'--from=2025-12-31 00:00:00Z'", "'--to=2026-01-01 00:00:00Z'"],
        ),
    ],
)
def test_kappa_has_the_options_of_the_config(tmp_path, keys, options):
    place = Workplace(tmp_path)
    place.configure(trials={"steady": ["a", "b"]}, consistency=keys)
    place.sheet(*((name, "lab", f"p{name}", str(TRIALS / f"{name}.pcap.gz")) for name in "ab"))
    plan = place.succeed("--dry-run", "--printshellcmds")
    (command,) = (line for line in plan.splitlines() if "acapella kappa " in line)
    assert [option for option in options if f" {option} " not in command] == []
    assert ("--windows" in command) == ("window" not in keys)


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Workplace:
    """Return a campaign with compared trials. A is the baseline of two environments, and one trial has two files."""
    place = Workplace(tmp_path_factory.mktemp("compared"))
    place.configure(**COMPARED, **only_figures(*sorted(FIGURES)))
    for sample, (_, _, capture) in SAMPLES.items():
        shutil.copy(capture, place.directory / f"{sample}-capture.pcap.gz")
    place.sheet(*((name, site, port, f"../{name}-capture.pcap.gz") for name, (site, port, _) in SAMPLES.items()))
    place.succeed("--cores", "2")
    return place


def test_trials_are_compared_up_to_the_report(compared):
    found = {row["environment"]: row for row in rows(compared.campaign, "consistency_environments")}
    assert list(found) == list(COMPARED["trials"]), "in the order of the config"
    steady, congested, queues = found.values()
    assert (steady["U"], steady["O"], steady["undefined_runs"]) == (0, 0, 0)
    assert 0.99 < steady["kappa"] < 1
    assert congested["U"] == pytest.approx(12 / (600 + 588))
    assert congested["O"] > 0
    assert congested["kappa"] < steady["kappa"]
    assert (steady["within_ns"], queues["samples"], queues["trials"]) == (100, 3, 2)
    assert {path.stem for path in (compared.campaign / "figures").glob("*.svg")} == FIGURES
    assert 'id="consistency"' in (compared.campaign / "report.html").read_text(encoding="utf-8")
    assert "Nothing to be done" in compared.succeed()


@pytest.mark.soak
def test_failed_rerun_keeps_catalog_and_tables_and_the_next_run_updates_them(compared, tmp_path_factory):
    """A manifest and a result cannot be read. Snakemake deletes outputs before a job starts."""
    place = compared.copy(tmp_path_factory.mktemp("failed"))
    kept = ("catalog.duckdb", "tables/*", "consistency/*")
    before = place.sha256(*kept)
    for stage, (path, message) in {
        "trials": (place.campaign / "kappa" / "lab-steady.json", r".*kappa/lab-steady.json: "),
        "index": (place.campaign / "raw" / f"{B}.json", rf".* sample {B} cannot be indexed: "),
    }.items():
        text = path.read_text()
        write_with_old_time(path, "{")
        printed = place.fail("--forcerun", stage, "--until", stage)
        assert f"acapella: these jobs failed:\n  {stage}: " in printed, printed
        assert re.search(rf"^  {stage}: {message}", printed, re.M), printed
        assert "deleted earlier results" not in printed
        assert place.sha256(*kept) == before
        write_with_old_time(path, text)
    assert {"index", "trials"} <= rules_run(place.succeed("--dry-run"))


def write_with_old_time(path, text):
    """Write a file and keep its modification time, so that Snakemake runs only forced jobs."""
    modified_ns = path.stat().st_mtime_ns
    path.write_text(text)
    os.utime(path, ns=(modified_ns, modified_ns))


def test_published_tables_of_all_stages_are_views_of_the_catalog(compared):
    tables = {path.stem: pq.read_metadata(path).num_rows for path in (compared.campaign / "tables").glob("*.parquet")}
    assert {"consistency", "frame_sizes"} <= tables.keys()
    assert {name: catalog_rows(compared.campaign, f"select count(*) from {name}")[0][0] for name in tables} == tables


def test_provenance_contains_the_checksums_of_trial_captures(compared):
    provenance = json.loads((compared.campaign / "provenance" / "consistency.json").read_text(encoding="utf-8"))
    a, b, c = (sha256_of(path) for *_, path in SAMPLES.values())
    assert provenance["inputs"]["lab-queues"] == {f"{A}+{C}": [a, c], B: [b]}
    assert provenance["outputs"] == {name: sha256_of(compared.campaign / name) for name in provenance["outputs"]}


def test_replaced_capture_is_compared_again_in_its_environments(compared, tmp_path_factory):
    place = compared.copy(tmp_path_factory.mktemp("replaced"))
    states = json.loads((place.campaign / "captures.json").read_text())
    states[B]["bytes"] += 1
    write_file(place.campaign / "captures.json", json.dumps(states))
    planned = jobs(place.succeed("--dry-run"))
    assert (planned["collect"], planned["digest"], planned["kappa"]) == (1, 1, 2)


def test_changed_baseline_compares_only_its_environment_again(compared, tmp_path_factory):
    place = compared.copy(tmp_path_factory.mktemp("rebased"))
    place.configure(**COMPARED | {"trials": COMPARED["trials"] | {"lab-congested": [B, C]}})
    printed = place.succeed("--dry-run")
    assert rules_run(printed) == {"kappa", "trials", "figures", "report"}
    assert jobs(printed)["kappa"] == 1
    place.configure()
    # without trials, the report has no section about them, and their samples count as traffic
    assert rules_run(place.succeed("--dry-run")) == {"index", "process", "figures", "report"}


@pytest.mark.soak
def test_published_files_contain_no_true_names_with_pseudonyms(compared, tmp_path_factory):
    """Checks sites, ports, samples, their file names, and environments, in texts and in the cells of tables.

    The campaign was first published with original names.
    """
    place = compared.copy(tmp_path_factory.mktemp("hidden"))
    place.configure(**COMPARED, pseudonyms=True)
    place.succeed("--cores", "2")
    true = {*SAMPLES, *COMPARED["trials"], *(name for site, port, _ in SAMPLES.values() for name in (site, port))}
    named = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, true))})")
    public = {"tables", "figures", "consistency", "provenance"}
    published = {path for name in public for path in place.campaign.glob(f"{name}/*")} | {
        place.campaign / "report.html"
    }
    assert len(published) > 50
    for path in published:
        printed = text_of(path) if path.suffix == ".parquet" else path.read_text(encoding="utf-8")
        assert named.findall(printed) == [], path
    private = {"raw", "acap", "flows", "partial", "kappa", "logs", "benchmarks", "catalog.duckdb", "pseudonyms.tsv"}
    beside = {path.relative_to(place.campaign).parts[0] for path in place.campaign.rglob("*") if path not in published}
    assert beside - public == {*private, "captures.json", "config.json"}, "as in results/README.md"
    shown = {row[trial] for row in rows(place.campaign, "consistency") for trial in ("trial_a", "trial_b")}
    assert all(re.fullmatch(r"S\d-P\d-0000(\+S\d-P\d-0000)?", name) for name in shown)
