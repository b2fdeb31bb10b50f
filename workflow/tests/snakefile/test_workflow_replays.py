"""Runs the whole workflow on two tiny environments of replays in network namespaces, up to figures and report."""

import json

import pyarrow.parquet as pq
import pytest
from acapella_testing.requirements import require, require_namespaces, require_programs
from acapella_testing.runs.stages import rows
from acapella_testing.runs.workflow_run import Workplace, from_ports, only_figures

from acapella.campaign.layout import Campaign
from acapella.snakefile.replays import PROGRAM, program_installed
from acapella_capture.testbeds.local import replay_capture, sandbox

pytestmark = pytest.mark.soak

PACKETS = 200
TRIALS = 2
SHORT = only_figures("kappa_replayer") | {"testbed": "local", "samples": None, "capture": {"sample_s": 0.2}}
SHORT |= {"collect": from_ports({"site2": ["port1"]}), "consistency": {"within_ns": [10, 1_000_000]}}
ENVIRONMENTS = [
    {"name": "plain", "sender": "tcpreplay"},
    {"name": "dual", "sender": "acapella", "replayers": 2, "path": "direct", "speed": 2},
]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Run a campaign whose replayers share a polling thread, in batches, so that raw/ has shards."""
    require_namespaces()
    require(program_installed(), f"{PROGRAM} was not built")
    require_programs("tcpreplay", path=sandbox.search_path())
    place = Workplace(tmp_path_factory.mktemp("replays"))
    capture = place.directory / "given.pcap"
    replay_capture.write(capture, "02:aa:aa:aa:aa:01", "02:aa:aa:aa:aa:02", packets=PACKETS)
    replay = {"repeats": TRIALS, "environments": ENVIRONMENTS, "capture": str(capture), "polling": "shared"}
    place.configure(**SHORT, local={"traffic": [{"kind": "ping"}], "replay": replay}, batches={"samples": 2})
    place.succeed("--cores", "2")
    return place.campaign


def test_environments_of_the_replay_are_compared_without_a_list_of_trials(campaign):
    found = {row["environment"]: row for row in rows(campaign, "consistency_environments")}
    assert [*found] == ["plain", "dual"]
    for row in found.values():
        assert (row["trials"], row["U"], row["packets_baseline"]) == (TRIALS, 0, PACKETS)
        assert 0 <= row["iat_within_share"] <= 1
        assert row["within_ns"] == 10
    assert found["plain"]["kappa_replayer"] is None
    assert found["plain"]["cpu_lost_trials"] is None


def test_kappa_of_the_path_is_computed_from_the_departures(campaign):
    (row,) = (row for row in rows(campaign, "consistency") if row["environment"] == "dual")
    assert row["path_kappa_lo"] <= row["path_kappa_hi"] <= 1 and 0 < row["kappa_replayer"] <= 1
    (pair,) = json.loads((campaign / "consistency" / "dual.json").read_text())["pairs"]
    assert row["path_kappa_lo"] == pair["corrected"]["kappa_lo"]


def test_table_of_replays_has_the_settings_and_the_delays_of_the_sender(campaign):
    found = {(row["environment"], row["trial"]): row for row in rows(campaign, "consistency_replays")}
    assert [*found] == [(name, trial) for name in ("dual", "plain") for trial in range(1, TRIALS + 1)]
    for (environment, trial), row in found.items():
        manifest = json.loads(Campaign.at(campaign).manifest(f"{environment}-{trial}").read_text())["replay"]
        for key in ("sender", "replayers", "speed", "noise_streams", "largest_gap_ns", "median_gap_ns", "skew_ns"):
            assert row[key] == manifest[key], key
        if environment == "plain":
            assert (row["sender"], row["path"], row["cpu_lost"]) == ("tcpreplay", "shared", None)
            continue
        assert (row["sender"], row["polling"], row["path"]) == ("acapella replay", "shared", "direct")
        assert (row["replayers"], row["speed"], row["queue_bytes"]) == (2, 2, None)
        assert row["median_gap_ns"] == replay_capture.GAP_NS // 2
        assert row["cpu_lost"] == (row["largest_gap_ns"] > row["median_gap_ns"])
    (pair,) = (row for row in rows(campaign, "consistency") if row["environment"] == "dual")
    assert [pair["cpu_lost_a"], pair["cpu_lost_b"]] == [found["dual", trial]["cpu_lost"] for trial in (1, 2)]


def test_one_process_sends_the_packets_of_both_replayers_in_turn(campaign):
    departures = pq.read_table(Campaign.at(campaign).capture("dual-1", "dual-1.departures.parquet"))
    assert departures["port"].to_pylist() == [number % 2 for number in range(PACKETS)]
    assert set(departures["outcome"].to_pylist()) == {"sent"}


def test_figures_and_report_show_replayer_and_path(campaign):
    figure = (campaign / "figures" / "kappa_replayer.svg").read_text(encoding="utf-8")
    assert "departures not measured" in figure
    assert "replayer alone" in figure
    page = (campaign / "report.html").read_text(encoding="utf-8")
    assert "How trials were sent" in page
    assert 'id="table-consistency_replays"' in page
