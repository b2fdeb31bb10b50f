"""Examples in README.md, results/README.md and docs/kappa.md show what their commands print."""

import re
import shlex
import sys
from pathlib import Path

import duckdb
import pytest
from acapella_testing import processes
from acapella_testing.source_tree import ROOT

README, RESULTS, KAPPA = ((ROOT / name).read_text() for name in ("README.md", "results/README.md", "docs/kappa.md"))


@pytest.fixture(scope="module")
def worked_example(tmp_path_factory) -> Path:
    """Return a directory in which the README's digest was run."""
    directory, command = tmp_path_factory.mktemp("readme"), re.search(r"^    \$ acapella (digest .*)$", README, re.M)[1]
    (directory / "results").mkdir()
    run(directory, *shlex.split(command.replace(".test/", f"{ROOT}/.test/")))
    return directory


def run(directory: Path, *arguments: str) -> str:
    """Return the output of an acapella command."""
    return processes.run(sys.executable, "-m", "acapella.cli.main", *arguments, cwd=directory, check=True).stdout


def test_show_example_matches_its_output(worked_example):
    shown = re.search(r"^    \$ acapella (show \S+) \| head -4\n((?:    .*\n){4})", README, re.M)
    printed = run(worked_example, *shown[1].split()).splitlines()[:4]
    assert [line.removeprefix("    ").strip() for line in shown[2].splitlines()] == [line.strip() for line in printed]


def test_sql_examples_match_their_output(worked_example, monkeypatch):
    monkeypatch.chdir(worked_example)
    view, query = re.search(r"^    (create view .*\n.*;)\n    (select .*);$", RESULTS, re.M).groups()
    connection = duckdb.connect()
    connection.execute(view)
    columns = [name for name, *_ in connection.execute("describe frames").fetchall()]
    assert "app_by" in columns
    assert not any(name.endswith("_1") for name in columns), "no column twice"
    shown = [line.strip() for line in RESULTS.splitlines() if re.match(r"    [┌│├└]", line)]
    assert str(connection.sql(query)).split() == " ".join(shown).split()


def test_kappa_example_matches_its_output():
    command, shown = re.search(r"^    \$ acapella (kappa .*)\n((?:(?:    .*)?\n)+?)\n`--json`", KAPPA, re.M).groups()
    lines = [line.removeprefix("    ") for line in shown.splitlines()]
    assert lines == [line.rstrip() for line in run(ROOT, *shlex.split(command)).splitlines()]


@pytest.mark.parametrize(
    "name",
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "config/README.md", "docs/kappa.md", "docs/collector.md"],
)
def test_paths_in_documents_exist(name):
    parts, text = "config|rules|schemas|workflow|profiles|capture|docs", (ROOT / name).read_text()
    paths = re.findall(rf"`((?:{parts})/[A-Za-z0-9_./-]*)`", text.replace("STAGE", "digest"))
    assert [path for path in paths if not list(ROOT.glob(path.rstrip("/")))] == []


def test_outputs_of_rules_are_listed():
    listed = re.findall(r"`([^`]+)`", (ROOT / "results" / "README.md").read_text())
    rules = "".join(path.read_text() for path in (ROOT / "rules").glob("*.smk"))
    created = set(re.findall(r"<campaign>/([a-z_]+(?:/|\.[a-z]+))", rules))
    assert {"acap/", "collect.json"} <= created
    assert [name for name in sorted(created) if not any(path.startswith(name) for path in listed)] == []
