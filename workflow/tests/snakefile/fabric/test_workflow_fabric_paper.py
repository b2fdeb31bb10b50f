"""Runs config/paper/patchwork.yaml against a FABRIC on loopback, with shorter times only."""

import os
from dataclasses import asdict

import pytest
import yaml
from acapella_testing.csv_rows import read_rows
from acapella_testing.fabric.loopback import loopback_fabric
from acapella_testing.fabric.program import environment
from acapella_testing.runs.workflow_run import ROOT, run_snakemake

SHORT = {
    "capture": {"sample_s": 0.3},
    "collect": {"sample_period_s": 1, "total_s": 2, "telemetry_wait_s": 1},
    "figures": {"formats": ["svg"]},
}


@pytest.mark.timeout(1200)
@pytest.mark.skipif("ACAPELLA_SOAK" not in os.environ, reason="a long test: run make soak")
def test_patchwork_config_profiles_a_simulated_fabric(tmp_path):
    (tmp_path / "fabric").mkdir()
    with loopback_fabric(tmp_path / "fabric") as fabric:
        fabric.give_token(refresh_token="refresh-1")
        config = SHORT | {"fabric": asdict(fabric.settings())}
        (tmp_path / "short.yaml").write_text(yaml.safe_dump(config))
        paper = str(ROOT / "config" / "paper" / "patchwork.yaml")
        words = [
            "--profile",
            "fabric",
            "--configfile",
            paper,
            str(tmp_path / "short.yaml"),
            "--directory",
            str(tmp_path),
        ]
        ended = run_snakemake(words, ROOT, environment(fabric))
        assert ended.returncode == 0, ended.stdout[-4000:]
        assert fabric.orchestrator.alive() == []
    campaign = tmp_path / "results" / "patchwork"
    rows = {row["name"]: row for row in read_rows(campaign / "tables" / "paper_numbers.csv")}
    assert {row["paper"] for row in rows.values()} == {"patchwork"}
    assert rows["deepest_stack"]["verdict"] in ("agrees", "differs"), "the campaign has traffic"
    assert (campaign / "report.html").is_file()
