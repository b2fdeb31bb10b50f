"""Runs a campaign that has transfers and no samples: plan, runs, tables, figures, report and check."""

import re

import yaml
from acapella_testing.new_files import write_file
from acapella_testing.requirements import require_namespaces, require_programs
from acapella_testing.runs.workflow_run import ROOT, Workplace, rules_run

from acapella.cli import main as cli

STAGES = {"transfer", "transfer_tables", "figures", "report"}
OMITTED = (
    "figures without data are omitted: transfer_streams and transfer_per_stream (the grid has one number of streams); "
    "transfer_fairness (the grid has no parallel streams); transfer_ratios (the grid has no ratio)\n"
)
GRID = {"algorithm": ["cubic", "reno"], "delay_ms": [0], "buffer_bytes": ["50K"], "rate_mbps": [20]}
GRID |= {"size_bytes": ["200K"]}
TINY = {
    "campaign": "tiny",
    "figures": {"formats": ["svg"]},
    "transfer": {"grid": GRID},
}


def place_of(directory, settings) -> Workplace:
    """Return a workplace with this configuration and without a sample sheet."""
    write_file(directory / "config" / "config.yaml", yaml.safe_dump(settings))
    return Workplace(directory)


def test_plan_of_the_paper_grid_has_no_sample_stage(tmp_path):
    grid = str(ROOT / "config" / "paper" / "transfer_grid.yaml")
    printed = Workplace(tmp_path).succeed("--dry-run", "--configfile", grid)
    assert rules_run(printed) == STAGES | {"papers"}
    assert OMITTED in printed
    assert "figures/transfer_ratios.svg" not in printed
    ratio = str(ROOT / "config" / "paper" / "transfer_ratio.yaml")
    printed = Workplace(tmp_path).succeed("--dry-run", "transfer_tables", "--configfile", ratio)
    assert rules_run(printed) == {"transfer", "transfer_tables"}
    assert not (tmp_path / "results").exists()


def test_lint_is_clean_without_samples(tmp_path):
    assert "Congratulations" in place_of(tmp_path, TINY).succeed("--lint")


def test_stage_of_samples_is_an_error_without_samples(tmp_path):
    ended = place_of(tmp_path, TINY).run("--dry-run", "process")
    assert ended.returncode != 0
    assert ended.stdout.splitlines()[-1] == "config error: samples: missing; this stage needs samples"


def test_transfers_are_run_analyzed_and_reported_without_samples(tmp_path, capsys):
    require_namespaces()
    require_programs("iperf3", "tcpdump", "ss")
    place = place_of(tmp_path, TINY)
    assert rules_run(place.succeed("--cores", "2")) == STAGES
    figures = {path.stem for path in (place.campaign / "figures").glob("[!.]*")}
    assert {"transfer_throughput", "transfer_agreement"} <= figures
    assert all(name.startswith("transfer_") for name in figures)
    assert not figures & {"transfer_streams", "transfer_ratios", "transfer_gain"}
    page = (place.campaign / "report.html").read_text()
    assert re.findall(r'<section id="(\w+)"', page) == ["transfers", "provenance"]
    assert "<li>Flows over time for each ratio: no transfer over several paths with a ratio has run" in page
    assert "Completion times are those of the wire" in " ".join(page.split())
    assert "tables/transfer_cells.parquet" in page, "provenance lists the tables"
    assert "Nothing to be done" in place.succeed()
    assert cli.main(["campaign", "check", str(place.campaign)]) == 0
    assert "0 findings" in capsys.readouterr().out
