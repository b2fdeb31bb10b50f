"""Runs `snakemake --profile fabric` against a FABRIC on loopback with one of its faults at a time."""

import random
from dataclasses import asdict, replace

import pytest
import yaml
from acapella_testing.fabric.behavior import BEHAVIORS, PAGE, PRECAUTIONS
from acapella_testing.fabric.loopback import Loopback, loopback_fabric
from acapella_testing.fabric.orchestrator import HOST, TAGS, StoredSlice
from acapella_testing.fabric.program import environment
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.runs.workflow_run import ROOT, from_ports, only_figures, run_snakemake
from acapella_testing.soak import SOAK

PORTS = {"STAR": ["HundredGigE0/0/0/5"], "UTAH": ["HundredGigE0/0/0/2"]}
SHORT_TIMEOUTS = {"wait_timeout_s": 3, "mirror_timeout_s": 3, "release_timeout_s": 3}
SLOW_FAULTS = ("stuck", "kept", "refusing")  # faults that are tested with SHORT_TIMEOUTS
# For each switch: its value, and whether the campaign still has results.
FAULTS = {
    "create_status": ([503] * 8, True),
    "refuse": (True, False),
    "notice": ("playbook failed", True),
    "queries": (20, True),
    "first_mirrors_fail": (True, True),
    "stuck": (True, False),
    "modify_fails": (True, True),  # the first mirrors are created with the slice
    "failed_service_stays": (True, True),
    "one_mirror_per_port": (True, True),
    "kept": ("acapella-tiny-UTAH", False),
    "no_summary": (True, False),
    "metrics_status": (403, True),
    "lease_limit_h": (0.5, True),
    "page": (PAGE, True),
    "lost_answers": (["/slices/creates"], True),
    "hidden": (30, True),
    "latency_s": (0.05, True),
    "too_many": (10, True),
    "expire_after": (20, True),
    "ipv6_management": (True, True),
    "drop_every": (5, True),
    "refusing": (True, False),
    "expired_key": (True, False),
    "booting": (5, True),
    "states": ({"UTAH": "Maint", "STAR": "PartMaint"}, True),
    "sites": ({"STAR": [HOST | {"maintenance": True}], "UTAH": [HOST]}, True),
    "tags": (TAGS[1:], False),
}
FAULTS_WITH_RESULTS = [name for name, (_, results) in FAULTS.items() if results]


@pytest.fixture
def fabric(tmp_path):
    with loopback_fabric(new_directory(tmp_path / "fabric")) as created:
        created.give_token(refresh_token="refresh-1")
        yield created


def switch_on(fabric: Loopback, name: str) -> None:
    """Switch on a fault. For pages, the project has more slices than one reply contains."""
    owners = (fabric.orchestrator.faults, fabric.nodes, fabric.orchestrator)
    setattr(next(each for each in owners if hasattr(each, name)), name, FAULTS[name][0])
    if name == "page":
        other = StoredSlice("", "", "StableOK", "", "", "StableOK", holds=False)
        for number in map(str, range(PAGE + 1)):
            fabric.orchestrator.slices[number] = replace(other, slice_id=number, name=f"other-{number}")


def our_slices(fabric: Loopback) -> list[str]:
    return [each.name for each in fabric.orchestrator.alive() if not each.name.startswith("other-")]


def test_each_fault_of_the_table_is_tested():
    assert set(FAULTS) == {each.switch for each in (*BEHAVIORS, *PRECAUTIONS) if each.switch}


@pytest.mark.soak
@pytest.mark.parametrize("name", FAULTS if SOAK else [random.Random(17).choice(FAULTS_WITH_RESULTS), "stuck"])
def test_campaign_ends_with_results_or_an_error_that_names_each_slice_left(fabric, tmp_path, name):
    switch_on(fabric, name)
    campaign = tmp_path / "results" / "tiny"
    settings = fabric.settings(**(SHORT_TIMEOUTS if name in SLOW_FAULTS else {}))
    config = {"campaign": "tiny", "testbed": "fabric", "capture": {"sample_s": 0.3}, "collect": from_ports(PORTS)}
    config |= only_figures() | {"fabric": asdict(settings)}
    file = write_file(tmp_path / "mine.yaml", yaml.safe_dump(config))
    words = ["--profile", "fabric", "--configfile", str(file), "--directory", str(tmp_path)]
    ended = run_snakemake(words, ROOT, environment(fabric))
    log = (campaign / "logs" / "collect.log").read_text()
    shown = f"{ended.stdout}\n{log}"
    assert "Traceback" not in log, shown
    assert (ended.returncode == 0) is FAULTS[name][1], shown
    if ended.returncode == 0:
        assert our_slices(fabric) == [], shown
        assert (campaign / "report.html").is_file()
        return
    last = log.strip().splitlines()[-1]
    assert last.startswith("acapella: error: "), shown
    assert all(each in last for each in our_slices(fabric)), shown
    assert not our_slices(fabric) or last.endswith(" --release-all"), shown
