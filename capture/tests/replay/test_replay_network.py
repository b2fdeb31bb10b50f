"""`acapella replay` with the real program over veth: files, a controlled bridge, and two replayers together."""

import functools
import json
import re
import time
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replay_commands, replayer
from acapella_testing.capture.process_tree import Tree
from acapella_testing.capture.replay_agents import TIMEOUT_S, program_or_skip, secret_file
from acapella_testing.capture.replay_commands import replay
from acapella_testing.processes import run

from acapella_core.files import sha256_of

BRIDGE = ("--bridge", "left1", "right0")
FRAMES = dpdk.some_frames(200, seed=4, sizes=(60, 128, 512, 1514))
SENT = [frame.data for frame in FRAMES]


@pytest.fixture(scope="module", autouse=True)
def _program() -> None:
    program_or_skip()


@pytest.fixture
def agent(tmp_path, bridged):
    """Return a function that runs a replayer in the namespace; it yields its process and its address."""
    return functools.partial(replay_commands.agent, "--secret", secret_file(tmp_path), prefix=bridged)


@pytest.fixture
def controlled(tmp_path, bridged):
    """Return a function that runs an action at an address and returns its output; it must succeed."""
    return lambda address, *action: output(bridged, "--control", address, "--secret", secret_file(tmp_path), *action)


@pytest.fixture
def capture(tmp_path):
    return replayer.write_capture(tmp_path / "in.pcap", FRAMES)


def output(prefix, *arguments: object) -> str:
    """Run a command to its end and return its output; it must succeed."""
    done = replay(*arguments, prefix=prefix)
    assert done.returncode == 0, done
    return done.stdout


def test_file_arrives_whole_and_in_order_and_departures_agree(tmp_path, bridged, capture):
    with replayer.tcpdump(bridged, "left1", tmp_path / "got.pcap"):
        begin = time.time_ns()
        out = output(bridged, capture, "-i", "left0", "--loops", 2, "--departures", tmp_path / "d.parquet")
        end = time.time_ns()
    assert replayer.received(tmp_path / "got.pcap") == 2 * SENT
    assert out.startswith("400 packets, 400 sent\ndeparture error: median ")
    table = pq.read_table(tmp_path / "d.parquet")
    assert table.schema.metadata[b"recording_sha256"].decode() == sha256_of(capture)
    assert list(zip(table["loop"].to_pylist(), table["packet"].to_pylist(), strict=True)) == [
        (loop, packet) for loop in range(2) for packet in range(200)
    ]
    times = table["departed_ns"].to_pylist()
    assert begin < times[0] and times == sorted(times) and times[-1] < end
    assert all(
        arrival >= requested for arrival, requested in zip(times, table["requested_ns"].to_pylist(), strict=True)
    )


def test_bridge_is_recorded_and_replayed_twice_from_the_command_line(tmp_path, bridged, agent, controlled, capture):
    with agent(*BRIDGE, "-o", tmp_path) as (process, address):
        controlled(address, "record")
        output(bridged, capture, "-i", "left0")
        assert "packets 200, " in controlled(address, "stop")
        controlled(address, "save")
        for number in (1, 2):
            with replayer.tcpdump(bridged, "right1", tmp_path / f"{number}.pcap"):
                out = controlled(address, "run", "--departures", tmp_path / f"{number}.parquet")
            assert f"{address}: 200 packets, 200 sent\n" in out
            assert replayer.received(tmp_path / f"{number}.pcap") == SENT
            assert recording_sha256(tmp_path / f"{number}.parquet") == sha256_of(tmp_path / "recording-1.pcapng")
        controlled(address, "quit")
        assert process.wait(TIMEOUT_S) == 0


def recording_sha256(departures: Path) -> str:
    """Return the checksum of the recording in a file of departures."""
    return pq.read_schema(departures).metadata[b"recording_sha256"].decode()


def in_band_address(prefix, interface: str) -> str:
    """Return the address at which left0 reaches a replayer with an interface."""
    (shown,) = json.loads(run(*prefix, "ip", "-j", "link", "show", interface, check=True).stdout)
    return f"left0/{shown['address']}"


@pytest.mark.soak
def test_bridge_is_controlled_in_band_and_forwards_no_message(tmp_path, bridged, agent, controlled, capture):
    act = functools.partial(controlled, in_band_address(bridged, "left1"))
    bridge = agent(*BRIDGE, "-o", tmp_path, "--in-band")
    with bridge as (process, _), replayer.tcpdump(bridged, "right1", tmp_path / "out.pcap"):
        act("record")
        output(bridged, capture, "-i", "left0")
        assert "packets 200, " in act("stop")
        act("save")
        assert "200 packets, 200 sent\n" in act("run", "--departures", tmp_path / "run.parquet")
        out = act("status")
        messages = re.search(r"interface left1, .*received (\d+), forwarded (\d+), control (\d+), ", out)
        assert int(messages[1]) == int(messages[2]) + int(messages[3]), out
        assert int(messages[3]) > 20, out
        act("quit")
        assert process.wait(TIMEOUT_S) == 0
    assert recording_sha256(tmp_path / "run.parquet") == sha256_of(tmp_path / "recording-1.pcapng")
    assert replayer.received(tmp_path / "out.pcap") == 2 * SENT


@pytest.mark.soak
def test_messages_are_forwarded_without_in_band(tmp_path, bridged, agent):
    words = ("--control", in_band_address(bridged, "left1"), "--secret", secret_file(tmp_path), "status")
    with agent(*BRIDGE), replayer.tcpdump(bridged, "right1", tmp_path / "out.pcap"):
        done = replay(*words, prefix=bridged)
    assert done.returncode == 75
    assert "no reply" in done.stderr
    assert {data[12:22] for data in replayer.received(tmp_path / "out.pcap")} == {b"\x88\xb5ACAPctl2"}


@pytest.mark.soak
def test_two_replayers_start_together_and_their_skew_is_measured(tmp_path, agent, controlled, capture):
    """Both have the same clock, so that the offset is 0 within its error."""
    with agent(capture, "-i", "left0") as (_, first), agent(capture, "-i", "right0") as (_, second):
        out = controlled(f"{first},{second}", "run", "--at", "+3", "--departures", tmp_path / "d.parquet")
    tables = [pq.read_table(tmp_path / f"d-{number}.parquet") for number in (1, 2)]
    assert tables[0]["requested_ns"] == tables[1]["requested_ns"]
    assert tables[0]["requested_ns"][0].as_py() == int(re.search(r"^start: (\d+) ns", out, re.MULTILINE)[1])
    lateness = []  # on the clock of the controller
    for table in tables:
        offset_ns, error_ns = (int(table.schema.metadata[b"clock_%s_ns" % key]) for key in (b"offset", b"error"))
        assert abs(offset_ns) <= error_ns
        lateness.append(sorted(pc.subtract(table["departed_ns"], table["requested_ns"]).to_pylist())[99] - offset_ns)
    order = "after" if lateness[1] - lateness[0] >= 0 else "before"
    assert re.search(rf"^skew: {second} \S+ \w+ {order} {first}, \+/- ", out, re.MULTILINE)


def test_killed_replayer_leaves_no_program(agent):
    with agent(*BRIDGE) as (process, _), Tree.below(process.pid) as tree:
        assert "acapella-dpdk-r" in tree.programs()
        process.kill()
        assert tree.gone_within(60) == []


def test_link_that_goes_down_ends_the_replayer_with_one_line(bridged, agent):
    with agent(*BRIDGE) as (process, _):
        run(*bridged, "ip", "link", "set", "left0", "down", check=True)
        assert process.wait(TIMEOUT_S) == 2
        (line,) = [line for line in process.stderr.read().splitlines() if line.startswith("acapella: error:")]
    assert "ended: left1: no carrier; set its peer up" in line
