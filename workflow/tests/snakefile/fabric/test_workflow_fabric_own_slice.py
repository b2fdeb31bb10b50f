"""Runs the workflow on samples that the nodes of the user's own slice captured, for a project without permissions."""

import html
from dataclasses import asdict

import pytest
from acapella_testing.fabric.experiment import NODES, SITES, SLICE, experiment
from acapella_testing.fabric.loopback import loopback_fabric
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import FIGURES, Workplace, collect_in_process, only_figures

from acapella_capture.testbeds.fabric.own_slice.host import NOTE


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Collect with the keys of config/fabric.yaml that matter here, and run the rest of the workflow."""
    place = Workplace(tmp_path_factory.mktemp("own"))
    collect = {"mode": "slice", "slice": SLICE, "instances": 1, "port_selection": "busiest", "cycles": 2}
    config = {"testbed": "fabric", "samples": None, "capture": {"sample_s": 0.3}, "collect": collect} | only_figures()
    with loopback_fabric(tmp_path_factory.mktemp("fabric"), SITES) as fabric:
        fabric.orchestrator.tags = ()
        experiment(fabric)
        place.configure(**config, fabric=asdict(fabric.settings()))
        collect_in_process(place)
    place.succeed("--cores", "2")
    return place


def test_every_interface_is_in_the_tables(place):
    found = rows(place.campaign, "capture_quality")
    assert sorted((row["site"], row["port"]) for row in found) == sorted(
        [(site, f"{node}-nic-p1") for node, site in NODES.items()] * 2
    )
    assert all(row["frames"] > 0 for row in found)


def test_report_states_that_frames_were_captured_at_the_host(place):
    page = html.unescape((place.campaign / "report.html").read_text(encoding="utf-8"))
    assert NOTE in page
    assert "enp8s0 of n1: offloads are on: gro, rxvlan" in page
    assert {path.stem for path in (place.campaign / "figures").glob("*.svg")} == {*FIGURES}
    assert (place.campaign / "figures" / "frame_sizes.svg").stat().st_size > 0
