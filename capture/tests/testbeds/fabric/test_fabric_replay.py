"""Replays from nodes of the user's own slice on a simulated FABRIC: the real program, uploaded over SSH."""

import functools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer, veth
from acapella_testing.fabric.collection_runs import Collection
from acapella_testing.fabric.loopback import Loopback
from acapella_testing.requirements import required
from acapella_testing.runs.in_process import call_before

from acapella_capture.manifest import read
from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric import replay, replay_sender
from acapella_capture.testbeds.fabric.replay_sender import NodeSender
from acapella_capture.testbeds.local import replay_capture
from acapella_core.errors import UserError
from acapella_core.files import sha256_of

USER_SLICE, NODE, PACKETS = "acapella-mine-UTAH", "UTAH-listener1", 40
SECOND_NODE = "UTAH-listener2"
DESTINATION = "02:00:00:00:00:77"
PORT = "HundredGigE0/0/0/5"
SENDER = {"node": NODE, "interface": "left0", "destination_mac": DESTINATION}
SECOND_SENDER = {"node": SECOND_NODE, "interface": "side0", "destination_mac": "02:00:00:00:00:78"}
REPLAY = {"slice": USER_SLICE, "senders": [SENDER], "site": "STAR", "port": PORT}
MACS = [replay.SENDER_MAC.format(number) for number in (1, 2)]


@pytest.fixture(autouse=True)
def _program(monkeypatch) -> None:
    required(replay.program)  # skips the test if the program was not built; build/replay-static.log contains the reason
    monkeypatch.setattr(replay_sender, "POLL_S", 0.02)


@pytest.fixture
def path(fabric) -> Iterator[tuple[str, ...]]:
    """Provide the user's slice, whose nodes send from left0 to left1 and from side0 to side1 in a network namespace."""
    fabric.testbed("mine").allocate("UTAH", ResourceRequest(2))
    with (
        veth.namespace(("left0", "left1"), ("side0", "side1")) as prefix,
        fabric.nodes.inside(prefix, NODE, SECOND_NODE),
    ):
        yield prefix


@pytest.fixture
def given(tmp_path) -> str:
    """Return the path of a capture of some packets, whose MAC addresses are not those of the path."""
    replay_capture.write(tmp_path / "given.pcap", "02:00:00:00:00:01", "02:00:00:00:00:02", PACKETS)
    return str(tmp_path / "given.pcap")


@pytest.fixture
def replays(collection) -> Callable[..., Collection]:
    """Return a function that runs `acapella collect` with one sample and two replays."""
    collect = functools.partial(collection, collect={"sites": ["STAR"], "ports": {"STAR": [PORT]}})
    return lambda *words, **changes: collect(*words, replay=REPLAY | {"repeats": 2} | changes)


def check_trials_failed(done: Collection, why: str) -> None:
    """Check that both trials have failed for this reason."""
    lines = [line for line in done.printed.splitlines() if line.startswith("warning: path-")]
    assert len(lines) == 2, done.printed
    assert all(why in line for line in lines), done.printed


@pytest.fixture
def watched(monkeypatch) -> tuple[list[tuple[int, int]], list[int]]:
    """Return (time after it is scheduled, planned end) of each run, and the times at which nodes are read.

    Nodes have the clock of this machine.
    """
    schedule, runs, reads = NodeSender.schedule, [], []

    def noted_schedule(self, at_ns: int, speed_ppm: int) -> int:
        end_ns = schedule(self, at_ns, speed_ppm)
        runs.append((time.time_ns(), end_ns))
        return end_ns

    monkeypatch.setattr(NodeSender, "schedule", noted_schedule)
    call_before(monkeypatch, NodeSender, "_events", lambda _: reads.append(time.time_ns()))
    return runs, reads


@pytest.mark.soak
def test_uploaded_program_sends_the_trials(fabric, path, tmp_path, replays, watched):
    """It sends from one interface in one environment, and from two interfaces of one node in the other (same clock)."""
    environments = [{"name": "path", "replayers": 1}, {"name": "both", "speed": 4}]
    with replayer.tcpdump(path, "left1", tmp_path / "arrived.pcap"):
        done = replays(senders=[SENDER, SECOND_SENDER | {"node": NODE}], environments=environments)
    assert done.status == 0, done.printed
    raw, recording = done.raw, done.raw / replay.REPLAYED_CAPTURE
    found = {path.stem: read(path) for path in raw.glob("[bp]*th-?.json")}
    assert sorted(found) == ["both-1", "both-2", "path-1", "path-2"]
    for name in ("path-1", "path-2"):
        assert (found[name]["site"], found[name]["port"]) == ("STAR", PORT)
        assert found[name]["replay"]["recordings"] == [{"file": recording.name, "sha256": sha256_of(recording)}]
        table = pq.read_table(raw / f"{name}.departures.parquet")
        assert table["outcome"].to_pylist() == ["sent"] * replay_capture.PACKETS
    for name in ("both-1", "both-2"):
        check_one_clock(raw, found[name]["replay"])
    sent, left = dpdk.read_pcap(recording)
    assert left == 0 and {frame.data[:12].hex(":") for frame in sent} == {f"{DESTINATION}:{MACS[0]}"}
    arrived, left = dpdk.read_pcap(tmp_path / "arrived.pcap")
    assert [frame.data for frame in arrived] == [frame.data for frame in [*sent * 2, *sent[::2] * 2]]
    assert [file.read_bytes() for file in fabric.nodes.home(NODE).rglob(replay.PROGRAM)] == [
        replay.program().read_bytes()
    ]
    assert fabric.slices == [USER_SLICE], "the user's slice is kept, ours is not"
    runs, reads = watched
    assert len(runs) == 2 + 2 * 2 and max(reads) > runs[-1][1]
    assert not [read_ns for read_ns in reads for after_ns, end_ns in runs[:2] if after_ns < read_ns < end_ns]


def check_one_clock(raw: Path, manifest: dict) -> None:
    """Check a trial of two interfaces of one node at 4 times the speed."""
    assert manifest["replayers"] == len(manifest["departures"]) == 2
    for file in manifest["departures"]:
        table = pq.read_table(raw / file["file"])
        assert set(table["outcome"].to_pylist()) == {"sent"}
        metadata = table.schema.metadata
        assert (metadata[b"clock_source"], metadata[b"clock_offset_ns"]) == (b"system", b"0")
        assert metadata[b"receiver_clock_error_ns"] == b"unknown", "the receiver is another machine"
        assert metadata[b"speed"] == b"4"
    assert (manifest["speed"], manifest["median_gap_ns"]) == (4, replay_capture.GAP_NS // 4)


@pytest.mark.parametrize("ahead_ns", [None, 5_000_000])
def test_replayers_start_at_one_time_and_their_skew_is_measured(fabric, path, replays, given, ahead_ns):
    """``ahead_ns``: how far the second node's clock is ahead, according to its chronyc; None: it runs no chronyd."""
    if ahead_ns is not None:
        for node, offset_ns in ((NODE, 0), (SECOND_NODE, ahead_ns)):
            (fabric.nodes.home(node) / "chronyc.csv").write_text(TRACKING.format(-offset_ns / 1e9))
    captured = [fabric.directory / name for name in ("left.pcap", "side.pcap")]
    with replayer.tcpdump(path, "left1", captured[0]), replayer.tcpdump(path, "side1", captured[1]):
        done = replays(capture=given, senders=[SENDER, SECOND_SENDER], repeats=1)
    assert done.status == 0, done.printed
    for number, (file, mac, sender) in enumerate(zip(captured, MACS, (SENDER, SECOND_SENDER), strict=True), 1):
        sent, left = dpdk.read_pcap(done.raw / f"replayed-{number}of2.pcap")
        assert left == 0 and len(sent) == PACKETS // 2
        assert {frame.data[:12].hex(":") for frame in sent} == {f"{sender['destination_mac']}:{mac}"}
        assert [frame.data for frame in dpdk.read_pcap(file)[0]] == [frame.data for frame in sent]
    manifest = read(done.raw / "path-1.json")["replay"]
    assert manifest["replayers"] == 2 and manifest["path"]["link"] == "left0, side0"
    tables = [pq.read_table(done.raw / file["file"]) for file in manifest["departures"]]
    assert [file["file"] for file in manifest["departures"]] == [f"path-1.{n}.departures.parquet" for n in (1, 2)]
    requested = sorted(time_ns for table in tables for time_ns in table["requested_ns"].to_pylist())
    assert {after - before for before, after in pairwise(requested)} == {replay_capture.GAP_NS}
    assert tables[0]["requested_ns"][0].as_py() == requested[0]
    check_skew(manifest, tables, ahead_ns)


TRACKING = "C0A80001,192.168.0.1,2,1795732541.0,{:.9f},0,0,0,0,0,0.0002,0.0001,64.0,Normal"


def check_skew(manifest: dict, tables: list, ahead_ns: int | None) -> None:
    """Check skew and clocks of two replayers; their clocks are this machine's, except for the offset ``ahead_ns``."""
    metadata = [table.schema.metadata for table in tables]
    offsets_ns = [int(values[b"clock_offset_ns"]) for values in metadata]
    errors_ns = [int(values[b"clock_error_ns"]) for values in metadata]
    if ahead_ns is None:
        assert {values[b"clock_source"] for values in metadata} == {b"round trips"}
        assert all(abs(offset) <= error for offset, error in zip(offsets_ns, errors_ns, strict=True))
    else:
        assert {values[b"clock_source"] for values in metadata} == {b"chrony"}
        assert offsets_ns == [0, ahead_ns] and min(errors_ns) >= 200_000
    medians = []
    for table, offset_ns in zip(tables, offsets_ns, strict=True):
        pairs = zip(table["departed_ns"].to_pylist(), table["requested_ns"].to_pylist(), strict=True)
        medians.append(statistics.median_low(departed - requested for departed, requested in pairs) - offset_ns)
    assert manifest["skew_ns"] == abs(medians[1] - medians[0])
    assert manifest["skew_error_ns"] >= sum(errors_ns)


@pytest.mark.soak
def test_replayers_are_stopped_if_one_of_them_cannot_start(fabric, path, replays, given, monkeypatch):
    schedule = NodeSender.schedule

    def schedule_first(self, at_ns: int, speed_ppm: int) -> int:
        if self.node.endswith(SECOND_NODE):
            raise UserError("the second refuses")
        return schedule(self, at_ns + 3600 * 10**9, speed_ppm)

    monkeypatch.setattr(NodeSender, "schedule", schedule_first)
    check_trials_failed(replays(capture=given, senders=[SENDER, SECOND_SENDER]), "the second refuses")
    (events,) = fabric.nodes.home(NODE).rglob("replay-1-events")
    ended = map(json.loads, events.read_text().splitlines())
    assert [event["stopped_by"] for event in ended if event["event"] == "done"] == ["stop", "stop"]
    check_nothing_runs(fabric)


@pytest.mark.soak
def test_program_left_by_a_killed_collection_is_terminated(fabric, path, replays, given, monkeypatch):
    """The first collection does not end its program, as if it had been killed; the second one ends it."""
    with monkeypatch.context() as patch:
        patch.setattr(NodeSender, "close", lambda self: None)
        done = replays(capture=given, repeats=1)
        assert done.status == 0, done.printed
    (left,) = [Path("/proc", pid.read_text(), "cmdline") for pid in fabric.nodes.running(NODE)]
    assert replay.PROGRAM.encode() in left.read_bytes()
    done.campaign.rename(done.campaign.with_name("killed"))
    done = replays(capture=given, repeats=1)
    assert done.status == 0, done.printed
    assert not left.exists() or replay.PROGRAM.encode() not in left.read_bytes()
    check_nothing_runs(fabric)


def check_nothing_runs(fabric: Loopback) -> None:
    """Check that every program that was started on the sending nodes has ended."""
    assert fabric.nodes.started(NODE) + fabric.nodes.started(SECOND_NODE)
    assert fabric.nodes.running(NODE) + fabric.nodes.running(SECOND_NODE) == []


def test_plan_lists_the_replay_and_uploads_nothing(fabric, replays):
    environments = [{"name": "path", "replayers": 1}, {"name": "fast", "speed": 4}]
    plan = replays("--dry-run", senders=[SENDER, SECOND_SENDER], environments=environments)
    assert plan.status == 0 and not plan.campaign.exists()
    assert f"2 times in each environment, by {replay.PROGRAM}\n" in plan.out
    assert (
        f"replay: uploaded to slice {USER_SLICE}: node {NODE}, interface left0; node {SECOND_NODE}, interface side0\n"
        in plan.out
    )
    assert (
        "replay: trials path-1 to path-2; fast-1 to fast-2, by 2 replayers together, 4 times as fast as recorded\n"
        in plan.out
    )
    assert "then 2 trials path-1 to path-2 at STAR" in plan.out
    assert "then 2 trials fast-1 to fast-2 at STAR" in plan.out
    assert not fabric.orchestrator.slices


def test_collection_fails_early_if_the_program_is_missing(fabric, tmp_path, replays, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    done = replays()
    assert done.status == 2 and f"{replay.PROGRAM}, which is needed on the node, is missing" in done.err
    assert done.error.startswith("acapella: error: ")
    assert not fabric.orchestrator.slices


@pytest.mark.soak
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"slice": "none"}, "no slice 'none' in the project"),
        ({"senders": [SECOND_SENDER | {"node": "x"}]}, f"no node 'x' in slice '{USER_SLICE}'"),
        (
            {"senders": [SENDER, SECOND_SENDER | {"interface": "left9"}]},
            f"replay on node {USER_SLICE}/{SECOND_NODE}: ended: ",
        ),
    ],
)
def test_trials_that_cannot_be_sent_fail_with_the_reason(fabric, path, replays, change, why):
    done = replays(**change)
    check_trials_failed(done, why)
    assert not [*done.raw.glob("path-*.departures.parquet")]
    assert fabric.slices == [USER_SLICE]
    check_nothing_runs(fabric)


def test_capture_with_fewer_frames_than_replayers_is_an_error(tmp_path):
    capture = tmp_path / "short.pcap"
    replay_capture.write(capture, MACS[0], DESTINATION, 1)
    with pytest.raises(UserError, match=r"^fabric\.replay\.capture: 1 frames cannot be distributed to 2 replayers"):
        replay.write_parts(str(capture), tmp_path, [DESTINATION, DESTINATION])
