"""Runs the workflow, up to tables and figures, on trials that nodes of a simulated FABRIC on loopback replayed."""

import json
import subprocess
from dataclasses import asdict

import pytest
from acapella_testing.capture import veth
from acapella_testing.fabric.loopback import loopback_fabric
from acapella_testing.requirements import required
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import Workplace, collect_in_process, from_ports, only_figures, rules_run

from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric import replay
from acapella_capture.testbeds.local import replay_capture

pytestmark = pytest.mark.soak

SLICE, NODES, LISTENER = "acapella-mine-UTAH", ("UTAH-listener1", "UTAH-listener2"), "STAR-listener1"
RECEIVER = "enp8s0"  # the first interface of the NIC of a listening node
PAIRS = (("left0", "right0"), ("left1", "right1"))
PORT = "HundredGigE0/0/0/5"
PACKETS, TRIALS = 200, 2
REPLAY = {
    **{"repeats": TRIALS, "slice": SLICE, "site": "STAR", "port": PORT},
    "senders": [
        {"node": node, "interface": interface, "destination_mac": f"02:00:00:00:00:7{number}"}
        for number, (node, interface) in enumerate(zip(NODES, ("left0", "left1"), strict=True))
    ],
    "environments": [{"name": "single", "replayers": 1}, {"name": "dual", "speed": 2}],
}
SHORT = only_figures("kappa_replayer") | {"testbed": "fabric", "samples": None, "capture": {"sample_s": 0.3}}
SHORT |= {"collect": from_ports({"STAR": [PORT]})}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Collect trials that arrive at the listening node over a bridge, and run the rest of the workflow."""
    required(replay.program)  # skips the tests if it was not built; build/replay-static.log contains the reason
    place = Workplace(tmp_path_factory.mktemp("replays"))
    capture = place.directory / "given.pcap"
    replay_capture.write(capture, "02:aa:aa:aa:aa:01", "02:aa:aa:aa:aa:02", packets=PACKETS)
    with loopback_fabric(tmp_path_factory.mktemp("fabric")) as fabric, veth.namespace(*PAIRS) as prefix:
        connect([*prefix], [right for _, right in PAIRS])
        fabric.testbed("mine").allocate("UTAH", ResourceRequest(2))
        fabric.nodes.prefixes |= dict.fromkeys((*NODES, LISTENER), prefix)
        (fabric.nodes.directory / "bin" / "tcpdump").unlink()  # the real one records the interface
        place.configure(**SHORT, fabric=asdict(fabric.settings(replay=REPLAY | {"capture": str(capture)})))
        dry_run = place.succeed("--dry-run")
        collect_in_process(place)
    place.succeed("--cores", "2")
    place.dry_run = dry_run
    return place


def connect(prefix: list[str], interfaces: list[str]) -> None:
    """Connect the interfaces by a bridge that has the name of the receiver, on which every frame can be recorded."""
    bridge = [f"add {RECEIVER} type bridge mcast_snooping 0", f"set {RECEIVER} addrgenmode none"]
    for line in (*bridge, *(f"set {interface} master {RECEIVER}" for interface in interfaces), f"set {RECEIVER} up"):
        subprocess.run([*prefix, "ip", "link", *line.split()], check=True)


def test_dry_run_lists_upload_trials_and_their_comparison(place):
    assert {"collect", "kappa", "trials"} <= rules_run(place.dry_run)
    senders = "; ".join(f"node {node}, interface left{number}" for number, node in enumerate(NODES))
    assert f"by {replay.PROGRAM}\nreplay: uploaded to slice {SLICE}: {senders}\n" in place.dry_run
    assert "single-1 to single-2; dual-1 to dual-2, by 2 replayers together, 2 times as fast" in place.dry_run


def test_environments_of_the_replay_are_compared_without_a_list_of_trials(place):
    found = {row["environment"]: row for row in rows(place.campaign, "consistency_environments")}
    assert [*found] == ["single", "dual"]
    assert [(row["trials"], row["U"], row["packets_baseline"]) for row in found.values()] == [(TRIALS, 0, PACKETS)] * 2


def test_kappa_of_the_path_is_computed_from_the_departures(place):
    for row in rows(place.campaign, "consistency"):
        assert row["path_kappa_lo"] <= row["path_kappa_hi"] <= 1
        assert 0 < row["kappa_replayer"] <= 1


def test_table_of_replays_has_the_settings_and_the_delays_of_the_senders(place):
    found = {(row["environment"], row["trial"]): row for row in rows(place.campaign, "consistency_replays")}
    assert [*found] == [(name, trial) for name in ("dual", "single") for trial in range(1, TRIALS + 1)]
    for (environment, trial), row in found.items():
        manifest = json.loads((place.campaign / "raw" / f"{environment}-{trial}.json").read_text())["replay"]
        for key in ("sender", "replayers", "polling", "largest_gap_ns", "median_gap_ns", "skew_ns", "skew_error_ns"):
            assert row[key] == manifest[key], key
        assert row["path"] == manifest["path"]["kind"] == "slice"
        assert (row["replayers"], row["speed"]) == ((2, 2) if environment == "dual" else (1, 1))
        assert (row["skew_ns"] is None) == (row["skew_error_ns"] is None) == (environment == "single")
        assert row["median_gap_ns"] == replay_capture.GAP_NS // manifest["speed"]
        assert row["cpu_lost"] == (row["largest_gap_ns"] > row["median_gap_ns"])


def test_figures_show_replayer_and_path(place):
    assert "replayer alone" in (place.campaign / "figures" / "kappa_replayer.svg").read_text(encoding="utf-8")
    page = (place.campaign / "report.html").read_text(encoding="utf-8")
    assert "How trials were sent" in page
    assert 'id="table-consistency_replays"' in page
