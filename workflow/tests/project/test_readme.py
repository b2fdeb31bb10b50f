"""Examples in README.md, results/README.md, docs/kappa.md and docs/running.md work as printed."""

import json
import os
import re
import shlex
import sys
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from acapella_testing import processes
from acapella_testing.source_tree import ROOT

from acapella.cli.main import main

README, RESULTS, KAPPA, RUNNING = (
    (ROOT / name).read_text() for name in ("README.md", "results/README.md", "docs/kappa.md", "docs/running.md")
)


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


def test_query_of_one_site_and_day_selects_its_flows(campaign, capsys):
    """The query is run as printed, with a site and a day of the test campaign."""
    query = re.search(r'^    acapella sql \S+ "(select sample, src[^"]*)"$', RUNNING, re.M)[1]
    catalog = duckdb.connect(campaign / "catalog.duckdb", read_only=True)
    order = "where excluded is null order by wire_bytes desc limit 10"
    site, first_ns = catalog.execute("select site, min(first_ns) from flows group by site order by site").fetchone()
    day = catalog.execute("select make_timestamp_ns(?)::date", [first_ns]).fetchone()[0]
    query = query.replace("STAR", site).replace("2026-02-01", f"{day + timedelta(1)}").replace("2026-01-31", f"{day}")
    assert main(["sql", str(campaign), query, "--format", "json"]) == 0
    flows = catalog.execute(f"select wire_bytes from (from flows where site = ?) {order}", [site]).fetchall()
    assert [row["wire_bytes"] for row in json.loads(capsys.readouterr().out)] == [size for (size,) in flows]
    assert len(flows) > 1


def test_commands_for_a_campaign_outside_the_clone_work_as_printed(tmp_path):
    commands = re.search(r"^    mkdir -p (/\S+)/config\n(?:    .*\n)+", RUNNING, re.M)
    runs = re.findall(rf"^    (.*snakemake .*(?:directory {commands[1]}|CLONE/Snakefile)) *$", RUNNING, re.M)
    assert len(runs) == 2
    for number, command in enumerate(runs):
        place = tmp_path / str(number)
        script = f"set -e\n{commands[0]}{command} --dry-run".replace(commands[1], str(place)).replace(
            "CLONE", str(ROOT)
        )
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        printed = processes.run("bash", "-c", script, cwd=ROOT, env=os.environ | {"PATH": path}, check=True)
        assert "Missing output files: results/monday/report.html" in printed.stdout + printed.stderr
        assert (place / ".snakemake").is_dir()


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
