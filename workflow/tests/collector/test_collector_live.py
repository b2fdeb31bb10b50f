"""Data plane and collector at both ends of a veth pair in a network namespace; some tests kill one with kill -9."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from acapella_testing.requirements import require, require_namespaces

from acapella.cli import doctor

SCENARIOS = Path(__file__).parents[1] / "support" / "live_reports.py"


@pytest.fixture
def run_scenario(tmp_path):
    """Return a function that runs a scenario of live_reports.py in a namespace; skip the test if that is impossible."""
    require_namespaces("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
    require(doctor.which("acapella-p4-run"), "no acapella-p4-run: libdpdk-dev was not there when make setup ran")

    def run(scenario: str) -> dict:
        command = [shutil.which("unshare"), "-rn", sys.executable, str(SCENARIOS), scenario, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        logs = "".join(f"{path.name}: {path.read_text()}" for path in tmp_path.glob("*.log"))
        assert done.returncode == 0, done.stderr + logs
        return {**json.loads(done.stdout), "logs": logs}

    return run


def test_all_reports_of_a_live_interface_arrive(run_scenario, tmp_path):
    found = run_scenario("all_arrive")
    assert found["codes"] == [0, 0]
    assert found["plane"]["reports"] > 2000
    assert found["delivery"] == {
        "sent": found["plane"]["reports"],
        "received": found["plane"]["reports"],
        "accepted": found["plane"]["reports"],
        "kernel_dropped": 0,
        "missing": 0,
    }
    (session,) = found["sessions"]
    assert (session["ended"], session["reports_sent"]) == (True, found["plane"]["reports"])
    query = f"select src_port, packets, bytes from '{tmp_path}/reports/flows.parquet' order by all"
    (port, packets, size), *_ = duckdb.sql(query).fetchall()
    assert port == 80
    assert size == 240 * packets, "packets of 200 bytes and two headers of 20"


@pytest.mark.soak
def test_new_collector_replaces_a_killed_one(run_scenario):
    found = run_scenario("collector_killed")
    assert found["codes"][1] == 0
    assert not {"flows.parquet", "series.parquet", "counters.json"} & set(found["left"])
    reports, delivery, sent = found["reports"], found["delivery"], found["plane"]["reports"]
    assert reports["accepted"] >= 50
    assert reports["accepted"] + reports["bad_qp"] == delivery["received"]
    assert delivery["missing"] == sent - delivery["received"] >= found["before"]["reports"]["accepted"]
    old, new = found["before"]["sessions"][0], found["sessions"][0]
    assert old["instance"] == new["instance"]
    assert not set(old["queue_pairs"]) & set(new["queue_pairs"])
    assert found["plane"]["balanced"]
    assert "Traceback" not in found["logs"]


@pytest.mark.soak
def test_new_data_plane_replaces_a_killed_one(run_scenario, tmp_path):
    found = run_scenario("data_plane_killed")
    assert (found["codes"][0], found["codes"][2]) == (2, 0)
    assert "acapella: error: the data plane was killed by SIGKILL; restart it" in found["logs"]
    first, second = found["sessions"]
    assert (first["retired"], first["reports_sent"], second["retired"]) == (True, None, False)
    reports = found["reports"]
    assert reports["accepted"] == found["before"]["reports"]["accepted"] + found["again"]["reports"]
    assert (reports["late_epoch"], reports["psn_gap_lost"], found["delivery"]["missing"]) == (0, 0, None)
    flows = duckdb.sql(f"select epochs from '{tmp_path}/reports/flows.parquet'").fetchall()
    assert flows == [(2,), (2,)], "each data plane has its own epochs"
    assert "Traceback" not in found["logs"]


def test_removed_interface_ends_a_run_with_its_results(run_scenario, tmp_path):
    found = run_scenario("interface_gone")
    assert found["codes"] == [0, 1]
    assert found["delivery"]["accepted"] == found["plane"]["reports"]
    assert "collector: error: interface v1: was removed; earlier reports are in the results" in found["logs"]
    assert duckdb.sql(f"select count(*) from '{tmp_path}/reports/flows.parquet'").fetchall() == [(2,)]
