"""Campaigns on a machine without tshark, such as FABRIC's JupyterHub: detected before a slice is created."""

import os
from dataclasses import asdict
from pathlib import Path

import pytest
import yaml
from acapella_testing.new_files import new_directory
from acapella_testing.runs.workflow_run import ROOT, Workplace, collect_in_process, from_ports, rules_run, workplace

from acapella.digest.acap_files import metadata_of
from acapella.snakefile.engine import MISSING, with_engine

COLLECT = from_ports({"STAR": ["HundredGigE0/0/0/5"]})
WARNING = f"acapella: warning: {MISSING}; digest uses engine native instead of hybrid (digest.without_tshark)\n"


def without_tshark(directory: Path) -> str:
    """Return a PATH that has every program of this machine except tshark."""
    searched = [path for path in map(Path, os.environ["PATH"].split(os.pathsep)) if path.is_dir()]
    programs = {program.name: program for path in reversed(searched) for program in path.iterdir()}
    for name in programs.keys() - {"tshark"}:
        (new_directory(directory) / name).symlink_to(programs[name])
    return str(directory)


@pytest.fixture
def fabric(tmp_path_factory):
    pytest.importorskip("fabrictestbed_extensions", reason="FABRIC's client is not installed: make setup-fabric")
    from acapella_testing.fabric.loopback import loopback_fabric  # noqa: PLC0415 (FABRIC's client may be missing)

    with loopback_fabric(tmp_path_factory.mktemp("fabric")) as created:
        yield created


@pytest.fixture
def place(tmp_path):
    """Return a workplace without tshark whose acapella is that of this virtual environment."""
    return Workplace(tmp_path / "work", {"PATH": without_tshark(tmp_path / "programs")})


def configure(place: Workplace, fabric, **digest: str) -> None:
    """Configure a campaign of one sample of the simulated FABRIC."""
    place.configure(
        testbed="fabric", samples=None, capture={"sample_s": 0.3}, collect=COLLECT, fabric=asdict(fabric.settings()),
        digest=digest,
    )  # fmt: skip


def test_run_stops_before_a_request_to_fabric(place, fabric):
    configure(place, fabric)
    before = len(fabric.orchestrator.requests)
    last = place.fail("--cores", "1").splitlines()[-1]
    fix = "install tshark, or set digest.without_tshark: native"
    assert last == f"config error: digest.engine: hybrid: {MISSING}; {fix}"
    assert len(fabric.orchestrator.requests) == before
    assert not fabric.orchestrator.slices


@pytest.mark.soak
def test_run_uses_engine_native_and_reports_it_in_one_line(place, fabric):
    configure(place, fabric, without_tshark="native")
    planned = place.succeed("--dry-run")
    assert planned.count(WARNING) == 1
    assert "collect" in rules_run(planned)
    assert not fabric.orchestrator.slices
    collect_in_process(place)
    printed = place.succeed("--cores", "1", "index")
    assert printed.count(WARNING) == 1
    assert "digest" in rules_run(printed)
    (acap,) = (place.campaign / "acap").glob("*.parquet")
    assert metadata_of(acap)["engine"] == "native"


def test_engine_native_for_own_captures_is_reported(tmp_path):
    place = workplace(tmp_path / "work", digest={"engine": "tshark", "without_tshark": "native"})
    place.environment["PATH"] = without_tshark(tmp_path / "programs")
    assert WARNING.replace("hybrid", "tshark") in place.succeed("--dry-run")


@pytest.mark.parametrize(("engine", "without"), [("native", "native"), ("hybrid", "stop")])
def test_config_is_unchanged_if_tshark_is_not_needed(monkeypatch, tmp_path, capsys, engine, without):
    monkeypatch.setenv("PATH", str(tmp_path))
    config = {"digest": {"engine": engine, "without_tshark": without}, "collect": {"digest_on": "here"}}
    assert with_engine(config, prints=True) is config
    assert capsys.readouterr().err == ""


def test_config_of_fabric_does_not_require_tshark():
    assert (
        yaml.safe_load((ROOT / "config" / "fabric.yaml").read_text(encoding="utf-8"))["digest"]["without_tshark"]
        == "native"
    )
