"""`acapella collect` with replays: its samples, their content, and cleanup.

With tcpreplay as root, with acapella-dpdk-replay as a user. test_traffic_faults.py has tcpreplay as a user, and
test_workflow_replays.py acapella-dpdk-replay as root.
"""

import itertools
import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.capture.callers import AS_ROOT, AS_USER, Caller
from acapella_testing.capture.interrupted_runs import ends_without_leftovers
from acapella_testing.capture.pcap_records import contents, frames
from acapella_testing.capture.replay_agents import program_or_skip
from acapella_testing.csv_rows import read_rows
from acapella_testing.new_files import new_directory, write_file

from acapella.cli.main import main
from acapella_capture import manifest as manifests
from acapella_capture.testbeds.local import replay_capture, sandbox
from acapella_core.files import sha256_of

pytestmark = pytest.mark.skipif(
    shutil.which("tcpreplay", path=sandbox.search_path()) is None, reason="tcpreplay is not installed"
)
TRIALS = 5
# The filter keeps the samples that are not under test empty, so that their captures end immediately.
CAPTURE = {"sample_s": 0.05, "filter": "udp port 1"}


def config_of(replay: dict) -> str:
    """Return a config as JSON, which is valid YAML."""
    local = {"traffic": [{"kind": "ping"}], "replay": replay}
    return json.dumps({"testbed": "local", "capture": CAPTURE, "local": local})


@pytest.fixture(scope="module")
def given(open_directory) -> Path:
    """Write a user's capture: 600 packets in 0.3 s between hosts that do not exist here."""
    path = open_directory / "given.pcap"
    replay_capture.write(path, "02:aa:aa:aa:aa:01", "02:aa:aa:aa:aa:02", packets=600)
    path.chmod(0o644)
    return path


def samples_of(caller, campaign: Path, replay: dict) -> Path:
    """Run a collection, check that it leaves nothing else, and return its samples."""
    assert ends_without_leftovers(caller, campaign, config_of(replay), None, ("quiet-1:", "")) == 0
    assert not (campaign / "raw" / "failed.tsv").exists()
    return campaign / "raw"


@pytest.fixture(scope="module")
def raw(caller, open_directory, given) -> Path:
    """Return the samples of a collection whose trials are sent by tcpreplay."""
    return samples_of(caller, open_directory / "replay", {"capture": str(given), "repeats": TRIALS})


QUIET, LOADED = ([f"{environment}-{number}" for number in range(1, TRIALS + 1)] for environment in ("quiet", "loaded"))


@pytest.mark.soak
@AS_ROOT
def test_trials_are_listed_as_samples_in_advance(raw, caller):
    assert [
        row["sample"] for row in read_rows(raw / "samples.tsv") if not row["sample"].startswith("run")
    ] == QUIET + LOADED
    listed = caller.run(raw.parent, "--config", raw.parent.with_suffix(".yaml"), "--list")
    assert listed.stdout == (raw / "samples.tsv").read_text()


@AS_ROOT
def test_manifest_identifies_trials(raw):
    for path in raw.glob("*.json"):
        manifest = manifests.read(path)
        keys = [manifest.get(key) for key in ("run", "environment", "trial")]
        if path.stem.startswith("run"):
            assert keys == [1, None, None] and manifest["filter"] == CAPTURE["filter"]
            continue
        environment, _, number = path.stem.partition("-")
        assert keys == [None, environment, int(number)]
        assert (manifest["site"], manifest["port"], manifest["direction"]) == ("site2", "port1", "tx")
        assert manifest["filter"] == "ether src 02:00:00:00:fe:01"
        assert any("replayed by tcpreplay from site1-host1 to site2-host1" in note for note in manifest["notes"])


@AS_ROOT
def test_manifest_counts_replayed_and_lost_frames(raw, given):
    sent = len(contents(given))
    for trial in QUIET + LOADED:
        manifest = manifest_of(raw, trial)
        lost = sent - len(contents(raw / f"{trial}.pcap"))
        assert manifest["replayed_frames"] == sent == manifest["frames_captured"] + lost
        assert [note for note in manifest["notes"] if "not in the capture" in note] == (
            [f"{trial}: {lost} of {sent} replayed frames are not in the capture"] if lost else []
        )
    assert all("replayed_frames" not in manifests.read(path) for path in raw.glob("run*.json"))


def manifest_of(raw: Path, trial: str) -> dict:
    return manifests.read(raw / f"{trial}.json")


def check_complete(raw: Path, trial: str, expected: list) -> None:
    """Check that a trial contains the packets in the order of each queue, except those that the path dropped.

    On a busy machine, a delayed sender catches up: packets wait, expedited ones overtake others, and a full queue drops
    packets, including those of other programs.
    """
    packets = contents(raw / f"{trial}.pcap")
    dropped = manifest_of(raw, trial)["replay"]["dropped"]
    assert len(set(packets)) == len(packets) >= len(expected) - sum(dropped.values()), dropped
    for expedited in (True, False):
        found, sent = (
            [packet for packet in listed if (packet[3] == 0xB8) == expedited] for listed in (packets, expected)
        )
        assert found == [packet for packet in sent if packet in set(found)] and len(found) > 20


@AS_ROOT
@pytest.mark.parametrize("trial", QUIET)
def test_quiet_trials_contain_the_capture_without_dropped_packets(raw, given, trial):
    check_complete(raw, trial, contents(given))


@AS_ROOT
def test_loaded_trials_lose_or_reorder_frames_and_add_none(raw, given):
    expected = contents(given)
    found = [contents(raw / f"{trial}.pcap") for trial in LOADED]
    assert min(map(len, found)) > len(expected) / 2
    assert all(len(set(packets)) == len(packets) and set(packets) <= set(expected) for packets in found)
    assert any(packets != expected for packets in found)
    assert any([packet for packet in expected if packet in set(packets)] != packets for packets in found)


@AS_ROOT
def test_replayed_frames_have_the_macs_of_sender_and_receiver(raw):
    for path in [*raw.glob("quiet-*.pcap"), *raw.glob("loaded-*.pcap")]:
        assert {frame[:12] for _, frame in frames(path)} == {bytes.fromhex("020000000201 02000000fe01")}


@AS_ROOT
def test_trials_run_one_by_one_after_all_other_samples(raw):
    spans = {path.stem: manifests.read(path)["actual"] for path in raw.glob("*.json")}
    last = max(span["end_ns"] for sample, span in spans.items() if sample not in QUIET + LOADED)
    for sample in QUIET + LOADED:
        assert last < spans[sample]["start_ns"]
        last = spans[sample]["end_ns"]


@pytest.fixture(scope="module")
def acapella(caller, open_directory, given) -> Path:
    """Return the samples of a collection whose trials are sent by acapella-dpdk-replay."""
    pair = {"name": "pair", "replayers": 2, "path": "dedicated", "speed": 2, "noise": True}
    replay = {"capture": str(given), "repeats": 2, "sender": "acapella", "polling": "separate"}
    replay["environments"] = ["quiet", "loaded", pair]
    caller = with_program(caller, open_directory)
    return samples_of(caller, open_directory / "acapella", replay)


def with_program(caller: Caller, directory: Path) -> Caller:
    """Return a caller whose PATH has a copy of the program that every user may execute."""
    shutil.copy(program_or_skip(), new_directory(directory / "bin"))
    path = f"{directory / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return replace(caller, environment={**caller.environment, "PATH": path})


@AS_USER
@pytest.mark.parametrize("trial", QUIET[:2])
def test_trials_sent_by_acapella_contain_the_capture_in_the_order_of_each_queue(acapella, given, trial):
    check_complete(acapella, trial, contents(given))


@AS_USER
def test_departures_are_beside_each_trial_and_named_in_its_manifest(acapella, given):
    assert contents(acapella / "replayed.pcap") == contents(given)
    for trial in QUIET[:2] + LOADED[:2]:
        manifest = manifest_of(acapella, trial)
        assert any("replayed by acapella replay from site1-host1" in note for note in manifest["notes"])
        replay = manifest["replay"]
        assert [table["file"] for table in replay["departures"]] == [f"{trial}.departures.parquet"]
        assert (replay["replayers"], replay["speed"], replay["skew_ns"]) == (1, 1, None)
        path = {"kind": "shared", "link": "uplink-site2", "rate_bps": 50_000_000, "queue_bytes": 65536}
        assert replay["path"] == path
        assert replay["noise_streams"] == (4 if trial.startswith("loaded") else 0)
        assert replay["median_gap_ns"] == replay_capture.GAP_NS
        files = (*replay["departures"], *replay["recordings"])
        assert [sha256_of(acapella / named["file"]) for named in files] == [named["sha256"] for named in files]
        rows = pq.read_table(acapella / f"{trial}.departures.parquet")
        assert rows["packet"].to_pylist() == list(range(manifest["replayed_frames"]))
        assert set(rows["outcome"].to_pylist()) == {"sent"}
        assert rows.schema.metadata[b"recording_sha256"].decode() == replay["recordings"][0]["sha256"]
        span = manifest["actual"]
        times = rows["departed_ns"].to_pylist()
        assert span["start_ns"] < times[0] and times == sorted(times) and times[-1] < span["end_ns"]
        pairs = zip(times, rows["requested_ns"].to_pylist(), strict=True)
        assert replay["sent_late"] == sum(departed - due > replay["late_ns"] for departed, due in pairs)


@AS_USER
def test_two_replayers_share_the_packets_and_the_start_on_a_dedicated_link(acapella, given):
    """Noise on the link between the sites neither delays nor drops packets on another link."""
    expected = contents(given)
    assert [contents(acapella / f"replayed-{number}of2.pcap") for number in (1, 2)] == [expected[0::2], expected[1::2]]
    assert {frame[6:12].hex() for _, frame in frames(acapella / "replayed-2of2.pcap")} == {"02000000fe02"}
    for trial in ("pair-1", "pair-2"):
        replay = manifest_of(acapella, trial)["replay"]
        assert (replay["path"]["kind"], replay["path"]["link"]) == ("dedicated", "direct-site2")
        assert (replay["replayers"], replay["polling"], replay["noise_streams"]) == (2, "separate", 4)
        assert replay["skew_ns"] >= 0 and replay["skew_error_ns"] >= 0
        packets = contents(acapella / f"{trial}.pcap")
        assert set(packets) <= set(expected) and len(set(packets)) == len(packets)
        assert len(packets) >= len(expected) - sum(replay["dropped"].values()), "no packet is lost without a counter"
        tables = [pq.read_table(acapella / entry["file"]) for entry in replay["departures"]]
        requested = [table["requested_ns"].to_pylist() for table in tables]
        merged = sorted(times for own in requested for times in own)
        gaps = {after - before for before, after in itertools.pairwise(merged)}
        assert gaps == {replay_capture.GAP_NS // 2}, "twice as fast, from one common start"
        assert requested[0] == merged[0::2] and {table["outcome"].to_pylist()[0] for table in tables} == {"sent"}


@AS_USER
def test_kappa_accepts_the_departures_of_trials(acapella, capsys):
    kinds = ("pcap", "departures.parquet")
    trials, departures = ([f"{acapella}/{trial}.{kind}" for trial in QUIET[:2]] for kind in kinds)
    assert main(["kappa", *trials, "--recording", f"{acapella}/replayed.pcap", "--departures", *departures]) == 0
    assert "replayer" in capsys.readouterr().out


@AS_ROOT
def test_interrupted_replay_by_acapella_leaves_nothing(caller, open_directory):
    caller = with_program(caller, open_directory)
    number = signal.SIGTERM if caller.prefix else signal.SIGINT
    loaded = {"name": "loaded", "noise": True, "replayers": 2, "path": "dedicated"}  # has every kind of interface
    replay = {"repeats": 50, "environments": [loaded], "sender": "acapella", "polling": "separate"}
    campaign, moment = open_directory / "stopped", ("loaded-1:", "acapella-dpdk-r")
    assert ends_without_leftovers(caller, campaign, config_of(replay), number, moment) == 130


@pytest.mark.soak
@AS_USER
def test_interrupted_replay_under_load_leaves_nothing(caller, open_directory):
    """The signal arrives during the second trial under load; test_collect_local.py sends the other signal."""
    number = signal.SIGTERM if caller.prefix else signal.SIGINT
    campaign, config = open_directory / "asked", config_of({"repeats": 50, "environments": ["loaded"]})
    assert ends_without_leftovers(caller, campaign, config, number, ("loaded-1:", "tcpreplay")) == 130


@AS_USER
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "local.replay.capture: cannot read {}: No such file or directory"),
        (b"no capture", "local.replay.capture: tcprewrite cannot use {}: Unable to open input pcap file"),
    ],
)
def test_invalid_capture_to_replay_fails_before_any_sample(caller, open_directory, content, complaint):
    wrong = open_directory / "wrong.pcap"
    if content is not None:
        write_file(wrong, content).chmod(0o644)
    done = caller.collect(open_directory / "wrong", config_of({"capture": str(wrong)}))
    wrong.unlink(missing_ok=True)
    assert done.returncode == 2
    assert complaint.format(wrong) in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert {path.name for path in (open_directory / "wrong").glob("*")} <= {".collect.lock"}
