"""Sites are independent: a failed site does not affect the others, each releases its resources, captures are complete
or stay on the node.
"""

import argparse
import contextlib
import json
import re
import threading
import time

import pytest
from acapella_testing.capture.fake_testbed import FRAME, PCAP, FakeMirror, FakeTcpdump, FakeTestbed
from acapella_testing.csv_rows import read_rows
from acapella_testing.new_files import new_directory, write_file
from acapella_testing.processes import running
from acapella_testing.waiting import wait_until

from acapella_capture import collect
from acapella_capture.control import coordinator, outcomes
from acapella_capture.control.gather import gather
from acapella_capture.control.outcomes import Outcome
from acapella_capture.control.sampling import Failure
from acapella_capture.control.watchdog import (
    LOOP,
    MB,
    NodeHistory,
    NodeStatus,
    clock_error_ns,
    disk_shortage,
    parse_clock,
    parse_status,
)
from acapella_capture.plan import samples as plan
from acapella_capture.settings import parse_settings
from acapella_capture.testbeds.sent_trials import departures_file
from acapella_core import shards
from acapella_core.errors import UserError

pytestmark = pytest.mark.usefixtures("fake_tcpdump")


def settings(**keys):
    return parse_settings({"testbed": "local", "capture": {"sample_s": 0.01}, "collect": {"watch_s": 1, **keys}})


def collected(testbed, directory, **keys) -> list[dict]:
    """Collect a campaign into directory/c; return the manifests of its samples."""
    return [item for item in coordinator.collect(testbed, settings(**keys), directory / "c") if isinstance(item, dict)]


def outcomes_of(campaign) -> dict[str, tuple[str, str]]:
    return {row["site"]: (row["outcome"], row["reason"]) for row in read_rows(campaign / "outcomes.csv")}


def test_sites_record_their_outcomes_and_release_their_resources(tmp_path):
    testbed = FakeTestbed("p", sites=("good", "no_nic", "no_answer", "no_storage"))
    reported = list(coordinator.collect(testbed, settings(), tmp_path / "c"))
    assert [item["site"] for item in reported if isinstance(item, dict)] == ["good"]
    found = outcomes_of(tmp_path / "c")
    assert found["good"] == ("success", "")
    assert found["no_nic"][0] == "failed" and "0 dedicated NICs free" in found["no_nic"][1]
    assert found["no_answer"] == ("failed", "testbed: the orchestrator did not respond")
    assert found["no_storage"] == ("failed", "refused 1: testbed: no storage")
    assert sorted(what for call, what in testbed.calls if call == "release") == sorted([*testbed.site_names, "all"])
    assert sum(isinstance(item, Outcome) for item in reported) == 4


def test_port_of_a_listening_node_is_skipped_and_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "SAMPLE_GAP_S", 0.01)  # the collection pauses for a sample interval at a skipped port
    reported = list(coordinator.collect(FakeTestbed("p", "own", "q"), settings(instances=1), tmp_path / "c"))
    assert [item["port"] for item in reported if isinstance(item, dict)] == ["p", "q"]
    assert not [item for item in reported if isinstance(item, Failure)]
    assert outcomes_of(tmp_path / "c") == {"S": ("success", "own leads to one of our listening nodes and is skipped")}


def test_samples_are_in_shards_if_the_campaign_has_them(tmp_path):
    new_directory(shards.marker(tmp_path / "c", "collect"))
    sample = "run1-S-p-both-1"
    shard = tmp_path / "c" / "raw" / shards.shard_of(sample)
    write_file(shard / f".{sample}.pcap.part", "of a killed collection")
    assert len(collected(FakeTestbed("p"), tmp_path)) == 1
    assert {path.name for path in shard.iterdir()} == {f"{sample}.json", f"{sample}.pcap"}
    assert departures_file(sample, tmp_path / "c" / "raw", 2, 2) == shard / f"{sample}.2.departures.parquet"


def test_internal_error_at_one_site_is_raised_after_the_other_sites_finish(tmp_path):
    testbed = FakeTestbed("p", "q", sites=("mistake", "good"))
    with pytest.raises(ZeroDivisionError, match="a mistake of ours"):
        list(coordinator.collect(testbed, settings(), tmp_path / "c"))
    assert outcomes_of(tmp_path / "c") == {"good": ("success", ""), "mistake": (
        "failed", "ZeroDivisionError: a mistake of ours",
    )}  # fmt: skip
    assert {path.stem for path in (tmp_path / "c" / "raw").glob("*.json")} == {
        "run1-good-p-both-1", "run1-good-q-both-1",
    }  # fmt: skip
    assert ("release", "mistake") in testbed.calls


def test_interrupted_collection_releases_all_sites_and_records_stopped(tmp_path):
    testbed = FakeTestbed("p", "q", sites=("A", "B"))
    collection = coordinator.collect(testbed, settings(cycles=1000), tmp_path / "c")
    with contextlib.closing(collection):
        assert isinstance(next(collection), dict)
    assert {what for call, what in testbed.calls if call == "release"} == {"A", "B", "all"}
    assert {outcome for outcome, _ in outcomes_of(tmp_path / "c").values()} <= {"incomplete", "failed"}
    assert {reason for _, reason in outcomes_of(tmp_path / "c").values()} == {"stopped"}
    assert not FakeTcpdump.running


def test_mirrors_of_a_site_start_and_stop_in_parallel_within_the_telemetry_interval(tmp_path, monkeypatch):
    """Both mirrors wait at a barrier, which breaks if they start or stop one after the other."""
    testbed, requested_s = FakeTestbed("p", "q", receivers=("capture0", "capture1")), []
    for name in ("start", "stop"):
        meeting = threading.Barrier(2)
        monkeypatch.setattr(FakeMirror, name, lambda _, meeting=meeting: meeting.wait(300))
    monkeypatch.setattr(testbed, "telemetry", lambda _, seconds: requested_s.append(seconds))
    spans = [sample["actual"] for sample in collected(testbed, tmp_path)]
    assert len(spans) == 2
    assert len(requested_s) == 1
    assert all((span["end_ns"] - span["start_ns"]) / 1e9 < requested_s[0] for span in spans)


def test_failed_lease_extension_and_telemetry_do_not_end_a_site(tmp_path, monkeypatch):
    def fails(*_):
        raise UserError("502", where="orchestrator")

    testbed = FakeTestbed("p", "q")
    monkeypatch.setattr(testbed, "extend", fails)
    monkeypatch.setattr(testbed, "telemetry", fails)
    assert len(collected(testbed, tmp_path, port_selection="busiest")) == 2
    reason = "no telemetry: orchestrator: 502; lease not extended: orchestrator: 502"
    assert outcomes_of(tmp_path / "c") == {"S": ("success", reason)}
    assert len(list((tmp_path / "c" / "raw").glob("*.json"))) == 2


def test_lease_is_extended_only_once_if_it_lasts_long_enough(tmp_path, monkeypatch):
    testbed, requested, before_ns = FakeTestbed("p", "q", "r"), [], time.time_ns()
    monkeypatch.setattr(testbed, "extend", lambda *lease: requested.append(lease))
    assert len(collected(testbed, tmp_path, lease_margin_s=100)) == 3
    ((site, until_ns),) = requested
    assert site == "S"
    assert until_ns - before_ns > 100 * 10**9


def test_gather_end_fetches_all_captures_before_the_watchdog_log(tmp_path):
    testbed = FakeTestbed("p", "q")
    assert len(collected(testbed, tmp_path, gather="end", runs_per_cycle=2)) == 4
    assert len(list((tmp_path / "c" / "raw").glob("*.json"))) == 4
    assert [what for call, what in testbed.calls if call == "fetch"][-1] == "watchdog-S-listener.jsonl"


def test_error_contains_the_first_reason_if_all_sites_fail(tmp_path):
    failures = []
    taken = coordinator.collect(FakeTestbed("p", sites=("no_nic",)), settings(), tmp_path / "c")
    lines = list(collect.report_progress(taken, failures))
    assert (lines, failures) == ([], [Failure("all of no_nic", "no_nic", "-", failures[0].why)])
    with pytest.raises(UserError, match=r"no sample could be taken; first failure: .*NICs free"):
        collect.write_sheets(tmp_path / "c" / "raw", lines, failures)


def test_node_keeps_a_file_until_its_checksum_matches(tmp_path):
    testbed = FakeTestbed("p", broken_fetches=2)
    assert gather(testbed, "S-listener", "a.pcap", tmp_path, settings().collect).read_bytes() == PCAP + FRAME
    assert [call for call, _ in testbed.calls] == ["fetch", "fetch", "fetch", "rm"]


def test_node_keeps_a_file_whose_checksum_never_matches(tmp_path):
    testbed = FakeTestbed("p", broken_fetches=9)
    with pytest.raises(UserError, match=r"checksum .* after the transfer, .* on S-listener"):
        gather(testbed, "S-listener", "a.pcap", tmp_path, settings(fetch_tries=2).collect)
    assert [call for call, _ in testbed.calls] == ["fetch", "fetch"]
    assert not list(tmp_path.iterdir())


def test_capture_is_fetched_uncompressed_without_zstd(tmp_path):
    assert gather(FakeTestbed("p"), "S-listener", "a.pcap", tmp_path, settings(compress=True).collect).name == "a.pcap"


def test_release_all_lists_and_releases_leftovers(capsys):
    testbed = FakeTestbed("p", left=("acapella-c-STAR",))
    args = argparse.Namespace(campaign="results/c", config="c.yaml")
    collect.release_all([testbed], args)
    assert testbed.calls == [("release", "all")]
    assert capsys.readouterr().out == "still allocated: acapella-c-STAR\nreleased\n"
    collect.release_all([testbed], args)
    assert capsys.readouterr().out == "nothing to release\n"
    testbed.left, testbed.release = ("acapella-c-STAR",), lambda: None
    command = "acapella collect results/c --config c.yaml --release-all"
    with pytest.raises(UserError, match=rf"still allocated: acapella-c-STAR \(try again later\); {command}"):
        collect.release_all([testbed], args)


def test_table_of_outcomes_that_cannot_be_written_is_an_error_after_the_release(tmp_path, monkeypatch):
    testbed, record = FakeTestbed("p"), outcomes.OutcomeTable.record

    def full_disk(table, site, outcome, *words, **counts):
        if outcome != "incomplete":
            raise UserError("cannot write: No space left on device")
        return record(table, site, outcome, *words, **counts)

    monkeypatch.setattr(outcomes.OutcomeTable, "record", full_disk)
    with pytest.raises(UserError, match="No space left on device"):
        list(coordinator.collect(testbed, settings(instances=1), tmp_path / "c"))
    assert ("release", "S") in testbed.calls


def test_manifest_contains_watchdog_findings(tmp_path):
    testbed = FakeTestbed("dies", seen="1000000 - 61 0", rate_bps=10**13)  # more bytes in 10 ms than the disk can hold
    (manifest, *_) = coordinator.collect(testbed, settings(instances=1), tmp_path / "c")
    assert manifest["ended_early"] == "the capture program exited unexpectedly"
    assert "run1-S-dies-both-1: S-listener sent no heartbeat for 61 s" in manifest["notes"]
    needed = [re.match(r"1024 MB free on S-listener, up to (\d+) MB needed", note) for note in manifest["notes"]]
    assert [int(found[1]) > 1024 for found in needed if found] == [True]


def test_site_with_fewer_nodes_is_degraded_and_names_the_shortage(tmp_path):
    assert len(collected(FakeTestbed("p", "q", "r", max_instances=1), tmp_path)) == 3
    assert outcomes_of(tmp_path / "c") == {"S": ("degraded", "refused 2: testbed: no storage")}


def test_samples_start_in_separate_periods_until_the_time_limit(tmp_path):
    keys = {"instances": 1, "samples_per_run": 40, "sample_period_s": 0.2, "total_s": 0.5}
    samples = collected(FakeTestbed("p"), tmp_path, **keys)
    starts = [sample["requested"]["start_ns"] // 200_000_000 for sample in samples]
    assert len(starts) == len(set(starts)) < 40


def test_mirrors_keep_their_ports_if_possible(tmp_path):
    testbed = FakeTestbed("p", "q", receivers=("capture0", "capture1"))
    samples = collected(testbed, tmp_path, port_selection="busiest", cycles=5)
    assert len(samples) == 10
    assert len({(each["port"], each["receiver"]) for each in samples}) == 2


def test_incomplete_files_of_a_killed_collection_are_removed(tmp_path):
    incomplete = write_file(tmp_path / "c" / "raw" / ".run1-S-p-both-1.pcap.part", "")
    assert len(collected(FakeTestbed("p"), tmp_path, instances=1)) == 1
    assert not incomplete.exists()


def test_killed_watchdog_leaves_only_complete_lines(tmp_path):
    log = tmp_path / "node.jsonl"
    command = ["sh", "-c", LOOP, "watchdog", "0", tmp_path, tmp_path / "heartbeat"]
    with log.open("ab") as output:
        for delay_s in (0.002 * index for index in range(25)):
            before = log.stat().st_size
            with running(command, stdout=output) as process:
                wait_until(lambda before=before: log.stat().st_size > before, running=process)
                time.sleep(delay_s)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(lines) >= 25 and all("lo" in line["interfaces"] for line in lines)


def test_watchdog_parses_the_status_and_detects_a_full_disk():
    assert parse_status("1000 2048 3 7\n") == NodeStatus(1_024_000, 2048, 3, 7)
    assert parse_status("- - - -") == NodeStatus(None, None, None, None)
    with pytest.raises(ValueError, match=r"."):
        parse_status("sh: awk: not found")
    full = "disk full: 10 MB free, the reserve is 64 MB"
    assert disk_shortage(NodeStatus(10 * MB, None, None, None), 64 * MB) == full
    assert disk_shortage(NodeStatus(64 * MB, None, None, None), 64 * MB) is None
    assert disk_shortage(NodeStatus(None, None, None, None), 64 * MB) is None


@pytest.mark.parametrize(
    ("frames", "later", "expected"),
    [
        (0, [], None),
        (0, [NodeStatus(1, 500, 0, 9)], True),
        (0, [NodeStatus(1, 0, 0, 9)], None),  # few enough frames to be in a buffer
        (0, [NodeStatus(1, 0, 0, 90_000)], False),
        (None, [NodeStatus(1, 0, 0, None)], None),
    ],
)
def test_growth_is_known_if_bytes_or_enough_frames_arrived(frames, later, expected):
    watch = NodeHistory()
    for status in (NodeStatus(1, None, 0, frames), *later):
        watch.add(status)
    assert watch.growing() is expected


CHRONY = "A9FEA97B,169.254.169.123,4,1700000000.1,0.000001234,-0.0000004,0.000012,-3.1,0.0,0.1,0.0003,0.0004,16.1,"
NOT_SYNCHRONIZED = "Not synchroni" + "sed"  # as chronyc spells it


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (f"chrony {CHRONY}Normal", ("chrony", -1234, True)),
        (f"chrony {CHRONY}Insert second", ("chrony", -1234, True)),
        (f"chrony {CHRONY}{NOT_SYNCHRONIZED}", ("chrony", -1234, False)),
        ("ptp -37 true", ("ptp", -37, True)),
        ("ptp 0 false", ("ptp", None, False)),
        ("system yes", ("system", None, True)),
        ("chrony 506 Cannot talk to daemon", (None, None, None)),
        ("", (None, None, None)),
    ],
)
def test_clock_is_parsed_from_chrony_ptp_and_timedatectl(output, expected):
    assert tuple(parse_clock(output).values()) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (f"chrony {CHRONY}Normal", 550_000),  # half of the root delay of 0.3 ms, and the root dispersion of 0.4 ms
        (f"chrony {CHRONY}{NOT_SYNCHRONIZED}", None),
        ("chrony 1,2,3,Normal", None),
        ("ptp -37 true", None),
        ("", None),
    ],
)
def test_clock_error_is_chronys_root_distance(output, expected):
    assert clock_error_ns(output) == expected


def test_second_collection_of_the_same_campaign_is_rejected(tmp_path):
    first = coordinator.collect(FakeTestbed("p"), settings(), tmp_path / "c")
    next(first)
    with pytest.raises(UserError, match="c: another process is collecting this campaign; wait"):
        collected(FakeTestbed("p"), tmp_path)
    assert collected(FakeTestbed("p"), tmp_path / "other")
    first.close()
    assert collected(FakeTestbed("p"), tmp_path)
