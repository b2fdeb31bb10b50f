"""`acapella replay` with the real program over veth: files, a controlled bridge, and two replayers together."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest
from acapella_testing.capture import dpdk_writer as dpdk
from acapella_testing.capture import replayer, veth
from acapella_testing.capture.process_tree import Tree
from acapella_testing.capture.replay_agents import TIMEOUT_S, program_or_skip, secret_file
from acapella_testing.processes import run
from acapella_testing.waiting import wait_until

from acapella_core.files import sha256_of

ENTRY = "import sys; from acapella.cli.entry import main; sys.exit(main())"
FRAMES = dpdk.some_frames(200, seed=4, sizes=(60, 128, 512, 1514))
SENT = [frame.data for frame in FRAMES]


@pytest.fixture(scope="module", autouse=True)
def _program() -> None:
    program_or_skip()


@pytest.fixture
def pairs():
    """Provide a namespace where left0 sends to left1, and right0 to right1."""
    with veth.namespace(("left0", "left1"), ("right0", "right1")) as prefix:
        yield prefix


@pytest.fixture
def secret(tmp_path):
    return secret_file(tmp_path)


@pytest.fixture
def capture(tmp_path):
    return replayer.write_capture(tmp_path / "in.pcap", FRAMES)


def argv(prefix, *arguments: object) -> list[str]:
    return [*prefix, sys.executable, "-c", ENTRY, "replay", *map(str, arguments)]


def replay(prefix, *arguments: object) -> str:
    """Run a command to its end and return its output; it must succeed."""
    done = run(*argv(prefix, *arguments), timeout=TIMEOUT_S)
    assert done.returncode == 0, done
    return done.stdout


@contextlib.contextmanager
def agent(prefix, *arguments: object):
    """Run a replayer in the namespace; yield its process and its address."""
    command = argv(prefix, *arguments, "--listen", "127.0.0.1:0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            found = next(filter(None, (re.search(r"listening on (\S+)$", line) for line in process.stderr)))
            yield process, found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()


def test_file_arrives_whole_and_in_order_and_departures_agree(tmp_path, pairs, capture):
    with replayer.tcpdump(pairs, "left1", tmp_path / "got.pcap"):
        begin = time.time_ns()
        out = replay(pairs, capture, "-i", "left0", "--loops", 2, "--departures", tmp_path / "d.parquet")
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
    assert all(at >= wanted for at, wanted in zip(times, table["requested_ns"].to_pylist(), strict=True))


def test_bridge_is_recorded_and_replayed_twice_from_the_command_line(tmp_path, pairs, secret, capture):
    with agent(pairs, "--bridge", "left1", "right0", "--secret", secret, "-o", tmp_path) as (process, address):
        control = ("--control", address, "--secret", secret)
        replay(pairs, *control, "record")
        replay(pairs, capture, "-i", "left0")
        assert "packets 200, " in replay(pairs, *control, "stop")
        replay(pairs, *control, "save")
        for number in (1, 2):
            with replayer.tcpdump(pairs, "right1", tmp_path / f"{number}.pcap"):
                out = replay(pairs, *control, "run", "--departures", tmp_path / f"{number}.parquet")
            assert f"{address}: 200 packets, 200 sent\n" in out
            assert replayer.received(tmp_path / f"{number}.pcap") == SENT
            checksum = pq.read_schema(tmp_path / f"{number}.parquet").metadata[b"recording_sha256"].decode()
            assert checksum == sha256_of(tmp_path / "recording-1.pcapng")
        replay(pairs, *control, "quit")
        assert process.wait(TIMEOUT_S) == 0


def mac_of(prefix, interface: str) -> str:
    """Return the MAC address of an interface."""
    done = subprocess.run([*prefix, "ip", "-j", "link", "show", interface], capture_output=True, check=True)
    return json.loads(done.stdout)[0]["address"]


def test_bridge_is_controlled_in_band_and_forwards_no_message(tmp_path, pairs, secret, capture):
    control = ("--control", f"left0/{mac_of(pairs, 'left1')}", "--secret", secret)
    bridge = ("--bridge", "left1", "right0", "--secret", secret, "-o", tmp_path, "--in-band")
    with agent(pairs, *bridge) as (process, _), replayer.tcpdump(pairs, "right1", tmp_path / "out.pcap"):
        replay(pairs, *control, "record")
        replay(pairs, capture, "-i", "left0")
        assert "packets 200, " in replay(pairs, *control, "stop")
        replay(pairs, *control, "save")
        out = replay(pairs, *control, "run", "--departures", tmp_path / "run.parquet")
        assert "200 packets, 200 sent\n" in out
        out = replay(pairs, *control, "status")
        messages = re.search(r"interface left1, .*received (\d+), forwarded (\d+), control (\d+), ", out)
        assert int(messages[1]) == int(messages[2]) + int(messages[3]) and int(messages[3]) > 20, out
        replay(pairs, *control, "quit")
        assert process.wait(TIMEOUT_S) == 0
    checksum = pq.read_schema(tmp_path / "run.parquet").metadata[b"recording_sha256"].decode()
    assert checksum == sha256_of(tmp_path / "recording-1.pcapng")
    assert replayer.received(tmp_path / "out.pcap") == 2 * SENT


def test_messages_are_forwarded_without_in_band(tmp_path, pairs, secret):
    control = ("--control", f"left0/{mac_of(pairs, 'left1')}", "--secret", secret)
    with (
        agent(pairs, "--bridge", "left1", "right0", "--secret", secret),
        replayer.tcpdump(pairs, "right1", tmp_path / "out.pcap"),
    ):
        done = subprocess.run(argv(pairs, *control, "status"), capture_output=True, text=True, check=False)
    assert done.returncode == 75 and "no reply" in done.stderr
    arrived = replayer.received(tmp_path / "out.pcap")
    assert arrived and {data[12:22] for data in arrived} == {b"\x88\xb5ACAPctl2"}


def test_two_replayers_start_together_and_their_skew_is_measured(tmp_path, pairs, secret, capture):
    """Both have the same clock, so that the offset is 0 within its error."""
    with (
        agent(pairs, capture, "-i", "left0", "--secret", secret) as (_, first),
        agent(pairs, capture, "-i", "right0", "--secret", secret) as (_, second),
    ):
        control = ("--control", f"{first},{second}", "--secret", secret)
        out = replay(pairs, *control, "run", "--at", "+3", "--departures", tmp_path / "d.parquet")
    tables = [pq.read_table(tmp_path / f"d-{number}.parquet") for number in (1, 2)]
    assert tables[0]["requested_ns"] == tables[1]["requested_ns"]
    start = int(re.search(r"^start: (\d+) ns", out, re.MULTILINE)[1])
    assert tables[0]["requested_ns"][0].as_py() == start
    for table in tables:
        metadata = table.schema.metadata
        assert abs(int(metadata[b"clock_offset_ns"])) <= int(metadata[b"clock_error_ns"])
    medians = [
        sorted(at - start for at, start in zip(*(table[name].to_pylist() for name in TIMES), strict=True))[99]
        for table in tables
    ]
    offsets = [int(table.schema.metadata[b"clock_offset_ns"]) for table in tables]
    skew = (medians[1] - offsets[1]) - (medians[0] - offsets[0])
    order = "after" if skew >= 0 else "before"
    assert re.search(rf"^skew: {second} \S+ \w+ {order} {first}, \+/- ", out, re.MULTILINE)


TIMES = ("departed_ns", "requested_ns")


def test_killed_replayer_leaves_no_program(pairs, secret):
    with agent(pairs, "--bridge", "left1", "right0", "--secret", secret) as (process, _):
        tree = Tree.below(process.pid)
        assert "acapella-dpdk-r" in tree.programs()
        process.kill()
        assert tree.gone_within(60) == []
        tree.close()


def test_link_that_goes_down_ends_the_replayer_with_one_line(pairs, secret):
    with agent(pairs, "--bridge", "left1", "right0", "--secret", secret) as (process, _):
        subprocess.run([*pairs, "ip", "link", "set", "left0", "down"], check=True)
        wait_until(lambda: process.poll() is not None, "end")
        lines = [line for line in process.stderr.read().splitlines() if line.startswith("acapella: error:")]
    assert process.returncode == 2
    assert len(lines) == 1 and "ended: left1: no carrier; set its peer up" in lines[0]
