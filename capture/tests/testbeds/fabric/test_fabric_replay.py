"""Replays from a node of the user's own slice, on a FABRIC on loopback: the real program, uploaded over SSH."""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytest.importorskip("fabrictestbed_extensions", reason="FABRIC's client is not installed: make setup-fabric")

from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer, veth
from acapella_testing.capture.fabric_loopback import Loopback

from acapella_capture import collect
from acapella_capture.manifest import read
from acapella_capture.testbeds.base import ResourceRequest
from acapella_capture.testbeds.fabric import replay
from acapella_capture.testbeds.local import replay_capture
from acapella_core.errors import UserError
from acapella_core.files import sha256_of

MINE, NODE, PACKETS = "acapella-mine-UTAH", "UTAH-listener1", 40
DESTINATION = "02:00:00:00:00:77"
PORT = "HundredGigE0/0/0/5"
REPLAY = {
    "slice": MINE,
    "node": NODE,
    "interface": "left0",
    "destination_mac": DESTINATION,
    "site": "STAR",
    "port": PORT,
}


@pytest.fixture(autouse=True)
def _program() -> None:
    try:
        replay.program()
    except UserError as error:
        pytest.skip(f"{error}: build/replay-static.log")


@pytest.fixture
def path(fabric) -> Iterator[tuple[str, ...]]:
    """Provide the user's slice, whose node sends from left0 to left1 in a separate network namespace."""
    fabric.testbed("mine").allocate("UTAH", ResourceRequest(1))
    with veth.namespace(("left0", "left1")) as prefix:
        fabric.nodes.prefixes[NODE] = prefix
        yield prefix
        del fabric.nodes.prefixes[NODE]


def capture_of(directory: Path) -> Path:
    """Write a capture of some packets, whose MAC addresses are not those of the path."""
    capture = directory / "given.pcap"
    replay_capture.write(capture, "02:00:00:00:00:01", "02:00:00:00:00:02", PACKETS)
    return capture


def collected(fabric: Loopback, *words: str, **changes) -> tuple[int, Path]:
    """Run `acapella collect` with one sample and two replays; return its exit status and the campaign's directory."""
    one = {"mode": "sites", "sites": ["STAR"], "instances": 1, "port_selection": "fixed", "ports": {"STAR": [PORT]}}
    wanted = REPLAY | {"repeats": 2} | changes
    config = {"testbed": "fabric", "capture": {"sample_s": 0.3}, "collect": one}
    config["fabric"] = asdict(fabric.settings(replay=wanted))
    file, campaign = fabric.directory / "config.json", fabric.directory / "results" / "first"
    file.write_text(json.dumps(config))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["acapella collect", str(campaign), "--config", str(file), *words])
        return collect.main(), campaign


def test_trials_are_sent_by_the_program_that_is_uploaded(fabric, path, tmp_path, capsys):
    with replayer.tcpdump(path, "left1", tmp_path / "arrived.pcap"):
        status, campaign = collected(fabric, capture=str(capture_of(tmp_path)))
    assert status == 0, capsys.readouterr()
    found = {path.stem: read(path) for path in (campaign / "raw").glob("path-*.json")}
    assert sorted(found) == ["path-1", "path-2"]
    recording = campaign / "raw" / replay.RECORDING
    for name, manifest in found.items():
        assert (manifest["site"], manifest["port"]) == ("STAR", PORT)
        assert manifest["replay"]["recordings"] == [{"file": recording.name, "sha256": sha256_of(recording)}]
        table = pq.read_table(campaign / "raw" / f"{name}.departures.parquet")
        assert table["outcome"].to_pylist() == ["sent"] * PACKETS
    sent, left = dpdk.read_pcap(recording)
    assert left == 0 and {frame.data[:12].hex(":") for frame in sent} == {f"{DESTINATION}:{replay.SENDER_MAC}"}
    arrived, left = dpdk.read_pcap(tmp_path / "arrived.pcap")
    assert [frame.data for frame in arrived] == [frame.data for frame in sent] * 2
    there = [file for file in fabric.nodes.home(NODE).rglob(f"{replay.PROGRAM}-*")]
    assert [file.read_bytes() for file in there] == [replay.program().read_bytes()]
    assert [made.name for made in fabric.orchestrator.alive()] == [MINE], "the user's slice is kept, ours is not"


def test_plan_lists_the_replay_and_uploads_nothing(fabric, capsys):
    status, campaign = collected(fabric, "--dry-run", environments=[{"name": "path"}, {"name": "fast", "speed": 4}])
    printed = capsys.readouterr().out
    assert status == 0 and not campaign.exists()
    assert f"2 times, by {replay.PROGRAM}, which is uploaded to node {NODE} of slice {MINE}, interface left0" in printed
    assert "replay: trials path-1 to path-2; fast-1 to fast-2, 4 times as fast as recorded" in printed
    for name in ("path", "fast"):
        assert f"then 2 trials {name}-1 to {name}-2 at STAR" in printed
    assert not fabric.orchestrator.slices


def test_collection_fails_early_if_the_program_is_missing(fabric, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    status, _ = collected(fabric)
    assert status == 2 and f"{replay.PROGRAM} is missing" in capsys.readouterr().err
    assert not fabric.orchestrator.slices


@pytest.mark.parametrize(
    ("change", "why"),
    [({"slice": "none"}, "no slice 'none' in the project"), ({"interface": "left9"}, "replay on node sender: ended: ")],
)
def test_trials_that_cannot_be_sent_fail_with_the_reason(fabric, path, capsys, change, why):
    _, campaign = collected(fabric, **change)
    printed = capsys.readouterr()
    lines = [line for line in (printed.out + printed.err).splitlines() if "path-" in line]
    assert len(lines) == 2 and all(why in line for line in lines), printed
    assert not [*(campaign / "raw").glob("path-*.departures.parquet")]
    assert [made.name for made in fabric.orchestrator.alive()] == [MINE]
